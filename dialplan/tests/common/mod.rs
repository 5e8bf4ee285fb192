//! Randomness for tests: one seed, the same numbers every time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

/// SplitMix64.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `limit` - 1.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.roll() % limit as u64).unwrap()
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
