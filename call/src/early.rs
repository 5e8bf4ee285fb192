//! Which early dialog the caller sees for which one of an outbound leg.
//!
//! Each (outbound leg, early dialog of it) has a number of its own towards the caller, so that each
//! answer to his offer comes in its own dialog. The last number stands for all that are too many:
//! an early answer never goes there, so the final one may.

use crate::leg::{Description, EARLY_MAX, Early};

#[derive(Debug)]
struct Entry {
    leg: u8,
    early: Early,
    answer: Option<Description>,
}

/// The early dialogs of one call, in the order in which they were heard of.
#[derive(Debug, Default)]
pub(crate) struct EarlyDialogs {
    entries: Vec<Entry>,
}

/// Where something of an early dialog goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Upstream {
    /// The early dialog towards the caller.
    pub(crate) early: Early,
    /// Whether it stands for all that are too many.
    pub(crate) is_shared: bool,
}

impl EarlyDialogs {
    /// The caller's early dialog for that of a leg; a new one the first time.
    pub(crate) fn upstream(&mut self, leg: u8, early: Early) -> Upstream {
        let shared = usize::from(EARLY_MAX - 1);
        let is_it = |entry: &Entry| entry.leg == leg && entry.early == early;
        let index = match self.entries.iter().position(is_it) {
            Some(index) => index,
            None if self.entries.len() < shared => {
                self.entries.reserve_exact(1);
                self.entries.push(Entry { leg, early, answer: None });
                self.entries.len() - 1
            }
            None => shared,
        };
        let early = Early(u8::try_from(index).expect("an index below EARLY_MAX"));
        Upstream { early, is_shared: index == shared }
    }

    /// An early dialog that has carried no answer, for an answer of our own.
    pub(crate) fn unused(&self) -> Early {
        if self.entries.is_empty() { Early::default() } else { Early(EARLY_MAX - 1) }
    }

    /// Remembers the early answer, should the final one not repeat it.
    pub(crate) fn remember(&mut self, upstream: Upstream, answer: &Description) {
        if let Some(entry) = self.entries.get_mut(usize::from(upstream.early.0)) {
            entry.answer = Some(answer.clone());
        }
    }

    /// The early answer that came in this early dialog.
    pub(crate) fn answer(&mut self, upstream: Upstream) -> Option<Description> {
        self.entries.get_mut(usize::from(upstream.early.0))?.answer.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_early_dialog_has_its_number_and_the_last_one_is_shared() {
        let mut dialogs = EarlyDialogs::default();
        let numbers: Vec<_> =
            (0..10).map(|n| dialogs.upstream(n / 4 + 1, Early(n % 4)).early.0).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 7, 7]);
        assert!(dialogs.upstream(9, Early(0)).is_shared);
        assert_eq!(dialogs.upstream(2, Early(1)), Upstream { early: Early(5), is_shared: false });
    }
}
