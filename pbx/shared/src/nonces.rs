//! How often each nonce has been used.
//!
//! Only who knows a password gets an entry, so strangers cannot fill the table. An entry lives as
//! long as its nonce may be used, and a little longer.

use sip::digest::{NonceCounts, NonceWindow};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use turn::{NumberMap, Wall, number_map};

/// Most nonces that are remembered: beyond, a nonce counts as stale. At 20,000 new ones a second,
/// 80 s fill it.
pub const NONCES_MAX: usize = 1 << 21;

/// Parts of the table, each behind its own lock.
const STRIPES: usize = 256;

#[derive(Debug, Default)]
struct Stripe {
    used: NumberMap<NonceWindow>,
    /// In the order of their first use.
    order: VecDeque<(Wall, u64)>,
}

/// See the module.
#[derive(Debug)]
pub struct NonceTable {
    stripes: Box<[Mutex<Stripe>]>,
    lifetime: Duration,
}

impl NonceTable {
    /// An empty table for nonces that are good for `lifetime`.
    pub fn new(lifetime: Duration) -> Self {
        let stripe = || Mutex::new(Stripe { used: number_map(0), order: VecDeque::new() });
        Self { stripes: (0..STRIPES).map(|_| stripe()).collect(), lifetime }
    }

    /// How many nonces are remembered.
    pub fn len(&self) -> usize {
        let count = |stripe: &Mutex<Stripe>| {
            stripe.lock().unwrap_or_else(PoisonError::into_inner).used.len()
        };
        self.stripes.iter().map(count).sum()
    }

    /// Whether no nonce is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl NonceCounts for NonceTable {
    fn fresh(&self, nonce: u64, nc: u32, now: Wall) -> bool {
        let place = (nonce >> 32) as usize % STRIPES;
        // A stripe is sound after each step, so a panic elsewhere does not matter.
        let mut stripe = self.stripes[place].lock().unwrap_or_else(PoisonError::into_inner);
        let Stripe { used, order } = &mut *stripe;
        // The clock of the challenge and this one may differ by a step.
        let keep = i64::try_from(self.lifetime.as_micros()).unwrap_or(i64::MAX).saturating_mul(2);
        while let Some((first, old)) = order.front() {
            if now.as_micros().saturating_sub(first.as_micros()) < keep {
                break;
            }
            used.remove(old);
            order.pop_front();
        }
        if let Some(window) = used.get_mut(&nonce) {
            return window.take(nc);
        }
        if used.len() >= NONCES_MAX / STRIPES {
            return false;
        }
        let mut window = NonceWindow::default();
        let is_fresh = window.take(nc);
        used.insert(nonce, window);
        order.push_back((now, nonce));
        is_fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Wall {
        Wall::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_count_is_good_once() {
        let table = NonceTable::new(Duration::from_secs(60));
        assert!(table.fresh(7, 1, at(0)));
        assert!(!table.fresh(7, 1, at(1)));
        assert!(table.fresh(7, 2, at(1)));
        assert!(table.fresh(8, 1, at(1)));
    }

    #[test]
    fn the_table_forgets_what_is_no_longer_good_and_is_bounded() {
        let table = NonceTable::new(Duration::from_secs(60));
        let most = NONCES_MAX / STRIPES;
        assert!((0..most as u64).all(|nonce| table.fresh(nonce, 1, at(0))));
        assert!(!table.fresh(u64::from(u32::MAX), 1, at(1)), "its stripe is full");
        assert!(table.fresh(1, 2, at(1)), "what is known goes on");
        assert!(table.fresh(u64::from(u32::MAX), 1, at(121)));
        assert_eq!(table.len(), 1);
    }
}
