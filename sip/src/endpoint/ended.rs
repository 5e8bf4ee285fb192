//! Dialogs that ended lately: what a late 2xx of theirs deserves.
//!
//! A client usage is gone as soon as its BYE is out or came. A 2xx that is repeated after that
//! (its ACK was lost) still gets an ACK (RFC 3261 §13.2.2.4, RFC 5407 §3.1.3), and a 2xx from
//! another branch of the fork gets ACK and BYE. Which of the two it is, the remembered remote tag
//! tells. 24 bytes an entry, kept for 64*T1 (the longest that a UAS repeats a 2xx).

use std::collections::VecDeque;

use crate::usage::FORKS_MAX;
use turn::{Mono, NumberMap, Slot, number_map};

/// Most dialogs remembered: 32 s of 8,192 ended outbound calls a second. The oldest goes first.
const ENDED_MAX: usize = 262_144;

/// See the module.
pub(super) struct EndedSets {
    /// The tag's hash, and how many forks have been hung up since.
    tags: NumberMap<(u32, u8)>,
    order: VecDeque<(Mono, u64)>,
}

impl EndedSets {
    pub(super) fn new() -> Self {
        Self {
            // Sized at once: a map that grows stalls the call that made it grow.
            tags: number_map(ENDED_MAX),
            order: VecDeque::with_capacity(ENDED_MAX),
        }
    }

    /// Remembers that the usage in `slot`, whose peer's tag hashes to `tag`, has ended.
    pub(super) fn remember(&mut self, now: Mono, until: Mono, slot: Slot, tag: u32) {
        self.expire(now);
        if self.order.len() >= ENDED_MAX
            && let Some((_, oldest)) = self.order.pop_front()
        {
            self.tags.remove(&oldest);
        }
        let key = key(slot);
        self.tags.insert(key, (tag, 0));
        self.order.push_back((until, key));
    }

    /// The tag hash of a usage that ended lately.
    pub(super) fn find(&self, slot: Slot) -> Option<u32> {
        self.tags.get(&key(slot)).map(|(tag, _)| *tag)
    }

    /// Whether one more fork may be hung up: each costs a BYE to where its Contact says.
    pub(super) fn hang_up_fork(&mut self, slot: Slot) -> bool {
        let Some((_, forks)) = self.tags.get_mut(&key(slot)) else { return false };
        *forks = forks.saturating_add(1);
        *forks <= FORKS_MAX
    }

    /// Forgets what is over.
    pub(super) fn expire(&mut self, now: Mono) {
        while let Some((_, key)) = self.order.pop_front_if(|(until, _)| *until <= now) {
            self.tags.remove(&key);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}

fn key(slot: Slot) -> u64 {
    u64::from(slot.index) << 32 | u64::from(slot.generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_dialog_is_forgotten_in_time() {
        let mut ended = EndedSets::new();
        let slot = |index| Slot { index, generation: 1 };
        let at = Mono::from_nanos;
        ended.remember(at(0), at(32), slot(1), 7);
        ended.remember(at(1), at(33), slot(2), 8);
        assert_eq!(ended.find(slot(1)), Some(7));
        ended.expire(at(32));
        assert_eq!(ended.find(slot(1)), None);
        assert_eq!(ended.find(slot(2)), Some(8));
        ended.expire(at(33));
        assert_eq!(ended.len(), 0);
    }
}
