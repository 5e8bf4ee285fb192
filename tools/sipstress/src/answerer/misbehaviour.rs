//! Faults on purpose: to see a server's or this tool's own verdict when a callee fails.

use std::time::Duration;
use turn::{Mono, Rng};

/// What the answerer does wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Misbehaviour {
    /// Refuses with 503 what exceeds this many calls per second; 0: never.
    pub busy_above: u32,
    /// Ignores this share of all datagrams, in percent.
    pub drop_percent: u32,
    /// Never answers BYE.
    pub ignore_bye: bool,
    /// Answers this much later, without ringing.
    pub late: Duration,
}

impl Misbehaviour {
    /// Whether the next datagram is ignored.
    pub(super) fn drops(&self, random: &mut Rng) -> bool {
        self.drop_percent > 0 && random.below(100) < u64::from(self.drop_percent)
    }
}

/// Counts calls in slices of a tenth of a second, so that a rate shows quickly.
#[derive(Debug, Default)]
pub(super) struct Pace {
    slice: u64,
    count: u32,
}

impl Pace {
    /// Notes a call; whether it exceeds `limit` calls per second (0: no limit).
    pub(super) fn is_above(&mut self, limit: u32, now: Mono) -> bool {
        let slice = now.as_millis() / 100;
        if slice != self.slice {
            (self.slice, self.count) = (slice, 0);
        }
        self.count += 1;
        limit > 0 && self.count > limit.div_ceil(10)
    }
}
