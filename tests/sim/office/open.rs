//! What a phone repeats: a request until its final response, a response until its ACK.

use std::time::Duration;

use turn::Mono;

pub(crate) const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);
/// Timers B, F and H.
pub(crate) const PATIENCE: Duration = T1.saturating_mul(64);

/// A time that does not come.
const NEVER: Mono = Mono::from_nanos(u64::MAX);

/// A message that is repeated until somebody answers.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) method: &'static str,
    pub(crate) cseq: u32,
    pub(crate) text: String,
    interval: Duration,
    interval_max: Duration,
    due: Mono,
    until: Mono,
}

impl Open {
    /// Over a stream nothing is repeated but a 2xx to INVITE (RFC 3261 13.3.1.4).
    pub(crate) fn new(
        (method, cseq): (&'static str, u32),
        text: String,
        now: Mono,
        is_repeated: bool,
    ) -> Self {
        let interval_max = if method == "INVITE" { PATIENCE } else { T2 };
        let due = if is_repeated { now + T1 } else { NEVER };
        // One turn later than the PBX, which may answer at the last moment.
        let until = now + PATIENCE + Duration::from_secs(1);
        Self { method, cseq, text, interval: T1, interval_max, due, until }
    }

    /// A provisional response came: an INVITE waits for as long as its user does.
    pub(crate) fn proceed(&mut self) {
        if self.method == "INVITE" {
            (self.due, self.until) = (NEVER, NEVER);
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Mono> {
        Some(self.due.min(self.until)).filter(|at| *at < NEVER)
    }

    /// Repeats it if it is time to. `false`: nobody will answer any more.
    pub(crate) fn fire(&mut self, now: Mono, out: &mut Vec<String>) -> bool {
        if self.until <= now {
            return false;
        }
        if self.due <= now {
            out.push(self.text.clone());
            self.interval = (self.interval * 2).min(self.interval_max);
            self.due = now + self.interval;
        }
        true
    }
}
