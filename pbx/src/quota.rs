//! Caps for the whole program, leased to shards in parts.
//!
//! A shard that counts its calls against its own lease touches nothing that others touch. Only when
//! the lease runs short, or is far too large, does it come here: once for many calls.

use dashmap::DashMap;
use std::sync::Arc;

/// How many calls are leased at a time: few enough that idle shards do not starve busy ones, enough
/// that a shard comes here once in 64 calls.
pub(crate) const PART: u32 = 64;

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
    held: u32,
}

impl Lease {
    /// A lease that holds nothing yet.
    pub(crate) fn new(quotas: Quotas) -> Self {
        Self { quotas, held: 0 }
    }

    /// Makes the lease fit `calls`, and says how many calls the shard may have. Half a part is kept
    /// ahead; more than two parts too many go back.
    pub(crate) fn fit(&mut self, calls: u32) -> u32 {
        if calls + PART / 2 > self.held {
            let want = (calls + PART - self.held).max(PART);
            self.held += self.quotas.lease(&Cap::Calls, want);
        } else if self.held > calls + 3 * PART {
            let back = self.held - calls - PART;
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

    #[test]
    fn all_leases_together_never_exceed_the_cap() {
        let quotas = Quotas::default();
        quotas.set(Cap::Calls, 200);
        let (mut one, mut two) = (Lease::new(quotas.clone()), Lease::new(quotas));
        for calls in 0..200 {
            let (a, b) = (one.fit(calls), two.fit(0));
            assert!(a + b <= 200, "{a} + {b}");
        }
        // One shard can take nearly everything: the idle one holds a single part.
        assert_eq!(one.fit(136), 136);
        assert_eq!(two.fit(0), PART);
    }

    #[test]
    fn what_a_shard_no_longer_needs_goes_back() {
        let quotas = Quotas::default();
        quotas.set(Cap::Calls, 1000);
        let (mut one, mut two) = (Lease::new(quotas.clone()), Lease::new(quotas));
        assert!(one.fit(900) >= 936);
        assert_eq!(one.fit(10), 10 + PART);
        assert!(two.fit(900) >= 900);
        drop(two);
        assert!(one.fit(900) >= 900);
    }

    #[test]
    fn a_lowered_cap_takes_effect_as_leases_come_back() {
        let quotas = Quotas::default();
        quotas.set(Cap::Calls, 500);
        let mut one = Lease::new(quotas.clone());
        assert!(one.fit(400) >= 432);
        quotas.set(Cap::Calls, 100);
        assert!(one.fit(400) >= 400, "running calls are not taken away");
        let mut two = Lease::new(quotas);
        assert_eq!(two.fit(0), 0);
        one.fit(0);
        assert!(two.fit(0) > 0 || one.fit(0) <= 100);
    }
}
