//! Maps whose keys are numbers of our own making: slots, or text that has been through a keyed
//! hash.
//! Nothing that a stranger chooses, so one multiplication mixes them well enough.

use std::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;

/// A map from such a number.
pub type NumberMap<V> = HashMap<u64, V, BuildHasherDefault<NumberHasher>>;

/// An empty map that does not grow up to `capacity` entries: growing stalls the call that causes
/// it.
pub fn number_map<V>(capacity: usize) -> NumberMap<V> {
    HashMap::with_capacity_and_hasher(capacity, BuildHasherDefault::default())
}

/// Multiplies by an odd number whose high bits depend on all bits of the key.
#[derive(Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
