//! Randomness and keyed hashing from one seed.

use rand::{Rng as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// Where all randomness of a shard comes from. The binary fills it from the system, a simulation
/// from its seed.
pub type Seed = [u8; 32];

/// A seeded generator whose output a stranger cannot predict (ChaCha with 8 rounds).
#[derive(Debug)]
pub struct Rng(ChaCha8Rng);

impl Rng {
    /// A generator that gives the same numbers for the same seed.
    pub fn new(seed: Seed) -> Self {
        Self(ChaCha8Rng::from_seed(seed))
    }

    /// 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound` (0 when `bound` is 0). The bias is below 2^-32 for bounds below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A key for [`HashKey`].
    pub fn hash_key(&mut self) -> HashKey {
        HashKey { k0: self.next_u64(), k1: self.next_u64() }
    }
}

/// A secret key for hashes that strangers may not steer (SipHash-1-3): table keys from message
/// text, checks inside minted identifiers.
#[derive(Clone, Copy)]
pub struct HashKey {
    k0: u64,
    k1: u64,
}

impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey(secret)")
    }
}

impl HashKey {
    /// A key with the given halves.
    pub const fn new(k0: u64, k1: u64) -> Self {
        Self { k0, k1 }
    }

    /// The hash of one piece of text.
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.hasher();
        hasher.write(bytes);
        hasher.finish()
    }

    /// A hasher for several pieces; separate them with `write_u8(0xff)` or a length, or different
    /// splits of the same text hash alike.
    pub fn hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.k0, self.k1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let draw = |byte| {
            let mut rng = Rng::new([byte; 32]);
            (rng.next_u64(), rng.below(10), rng.hash_key().hash(b"x"))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::new([3; 32]);
        assert!((0..1000).all(|_| rng.below(7) < 7));
        assert_eq!(rng.below(0), 0);
    }
}
