//! Caps for the whole program, leased to shards in parts.
//!
//! A shard that counts its calls against its own lease touches nothing that others touch. Only when
//! the lease runs short, or is far too large, does it come here: once for many calls.

use dashmap::DashMap;
use std::sync::Arc;

/// How many calls are leased at a time: a shard comes here once in 256 calls, and has always more
/// in hand than one batch of datagrams can begin. Of a small cap it is less, so that what idle
/// shards hold is at most a quarter of it.
const PART_MAX: u32 = 512;

/// What is leased.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cap {
    /// Calls of all shards.
    Calls,
}

#[derive(Clone, Copy, Debug)]
struct Pool {
    most: u32,
    leased: u32,
}

/// All caps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas {
    pools: Arc<DashMap<Cap, Pool>>,
}

impl Quotas {
    /// How many calls a shard leases at a time; a single one leases all.
    fn part(&self, cap: &Cap, shards: u32) -> u32 {
        let most = self.pools.get(cap).map_or(0, |pool| pool.most);
        if shards == 1 { most } else { (most / (4 * shards)).clamp(1, PART_MAX) }
    }

    /// Sets a cap; leases that are out already stay out until they are given back.
    pub(crate) fn set(&self, cap: Cap, most: u32) {
        self.pools.entry(cap).or_insert(Pool { most, leased: 0 }).most = most;
    }

    /// Leases up to `want`; what is left of the cap may be less.
    fn lease(&self, cap: &Cap, want: u32) -> u32 {
        let Some(mut pool) = self.pools.get_mut(cap) else { return 0 };
        let given = want.min(pool.most.saturating_sub(pool.leased));
        pool.leased += given;
        given
    }

    fn give_back(&self, cap: &Cap, part: u32) {
        if let Some(mut pool) = self.pools.get_mut(cap) {
            pool.leased = pool.leased.saturating_sub(part);
        }
    }
}

/// One shard's part of the cap on calls.
#[derive(Debug)]
pub(crate) struct Lease {
    quotas: Quotas,
    shards: u32,
    held: u32,
}

impl Lease {
    /// A lease that holds nothing yet, of one among `shards` shards.
    pub(crate) fn new(quotas: Quotas, shards: u8) -> Self {
        Self { quotas, shards: u32::from(shards).max(1), held: 0 }
    }

    /// Makes the lease fit `calls`, and says how many calls the shard may have. Half a part is kept
    /// ahead; more than two parts too many go back.
    pub(crate) fn fit(&mut self, calls: u32) -> u32 {
        // The cap is looked up only when something may have to change.
        let ahead = self.held.saturating_sub(calls);
        if (PART_MAX / 2..=3 * PART_MAX).contains(&ahead) {
            return self.held;
        }
        let part = self.quotas.part(&Cap::Calls, self.shards);
        if ahead < part.div_ceil(2) {
            let want = calls.saturating_sub(self.held) + part - ahead;
            self.held += self.quotas.lease(&Cap::Calls, want);
        } else if ahead > 3 * part {
            let back = ahead - part;
            self.quotas.give_back(&Cap::Calls, back);
            self.held -= back;
        }
        self.held
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.quotas.give_back(&Cap::Calls, self.held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_of(most: u32) -> (Quotas, Lease, Lease) {
        let quotas = Quotas::default();
        quotas.set(Cap::Calls, most);
        let lease = || Lease::new(quotas.clone(), 2);
        let (one, two) = (lease(), lease());
        (quotas, one, two)
    }

    #[test]
    fn all_leases_together_never_exceed_the_cap_and_an_idle_shard_holds_little() {
        for most in [1, 2, 20, 100, 200, 5000] {
            let (_, mut one, mut two) = two_of(most);
            for calls in 0..=most {
                let (a, b) = (one.fit(calls.min(one.held)), two.fit(0));
                assert!(a + b <= most, "{a} + {b} of {most}");
            }
            assert!(one.fit(one.held) >= most - most.div_ceil(4), "{most}: {}", one.held);
        }
    }

    #[test]
    fn what_a_shard_no_longer_needs_goes_back() {
        let (_, mut one, mut two) = two_of(10_000);
        assert!(one.fit(9000) >= 9256);
        assert_eq!(one.fit(10), 10 + PART_MAX);
        assert!(two.fit(9000) >= 9000);
        drop(two);
        assert!(one.fit(9000) >= 9000);
    }

    #[test]
    fn a_lowered_cap_takes_effect_as_leases_come_back() {
        let (quotas, mut one, mut two) = two_of(5000);
        assert!(one.fit(4000) >= 4256);
        quotas.set(Cap::Calls, 100);
        assert!(one.fit(4000) >= 4000, "running calls are not taken away");
        assert_eq!(two.fit(0), 0);
        one.fit(0);
        assert!(two.fit(0) > 0);
        assert!(one.held + two.held <= 100);
    }

    #[test]
    fn a_single_shard_has_the_whole_cap() {
        let quotas = Quotas::default();
        quotas.set(Cap::Calls, 3000);
        let mut only = Lease::new(quotas, 1);
        assert_eq!((only.fit(0), only.fit(2999), only.fit(0)), (3000, 3000, 3000));
    }

    #[test]
    fn the_cap_is_not_asked_for_each_call() {
        let (quotas, mut one, _) = two_of(10_000);
        one.fit(0);
        let before = one.held;
        quotas.pools.clear(); // whoever asks from now on gets nothing
        assert!((0..=before - PART_MAX / 2).all(|calls| one.fit(calls) == before));
    }
}
