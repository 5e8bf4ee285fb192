//! How often a nonce has been used: each count is good once (RFC 7616 §3.4.5).

use turn::Wall;

/// Who remembers the counts. Shared by all shards; bounded.
pub trait NonceCounts: Send + Sync + std::fmt::Debug {
    /// Notes that `nonce` is used with count `nc`. `false`: it has been before, or nobody can say
    /// any more; the client then gets another nonce.
    fn fresh(&self, nonce: u64, nc: u32, now: Wall) -> bool;
}

/// The counts of one nonce: the highest one, and which of the 64 below it have been seen, since
/// requests may overtake each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonceWindow {
    highest: u32,
    /// Bit n: `highest - n` has been seen.
    seen: u64,
}

impl NonceWindow {
    /// Notes a count. `false`: it is 0, has been seen, or is too old to say.
    pub fn take(&mut self, nc: u32) -> bool {
        if nc == 0 {
            return false;
        }
        if nc > self.highest {
            let ahead = nc - self.highest;
            self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
            self.highest = nc;
            return true;
        }
        let behind = self.highest - nc;
        let Some(bit) = 1_u64.checked_shl(behind) else { return false };
        let is_new = self.seen & bit == 0;
        self.seen |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_is_good_once_in_any_order_within_the_window() {
        let mut window = NonceWindow::default();
        for (nc, is_good) in [
            (0, false),
            (1, true),
            (1, false),
            (3, true),
            (2, true),
            (2, false),
            (100, true),
            (37, true),
            (36, false),
            (37, false),
            (u32::MAX, true),
            (100, false),
            (u32::MAX, false),
        ] {
            assert_eq!(window.take(nc), is_good, "{nc}");
        }
    }

    #[test]
    fn the_first_count_need_not_be_one() {
        let mut window = NonceWindow::default();
        assert!(window.take(70));
        assert!(window.take(7) && !window.take(6));
    }
}
