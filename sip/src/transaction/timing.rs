//! The timers of the transaction layer: RFC 3261 §17 and table 4, RFC 6026 §7.
//!
//! | timer | length | meaning | where it lives |
//! |---|---|---|---|
//! | A | T1, doubling | repeat an INVITE (UDP only) | [`Timer::A`] |
//! | B | 64 T1 | an INVITE without any answer; after a CANCEL: without a final one | [`Timer::B`] |
//! | C | > 3 min | an INVITE without a final answer | the endpoint's |
//! | D | ≥ 32 s, 0 if reliable | an INVITE's ACK is kept for repeats of the answer | [`Timer::D`] |
//! | E | T1, doubling up to T2 | repeat a non-INVITE (UDP only) | [`Timer::E`] |
//! | F | 64 T1 | a non-INVITE without a final answer | [`Timer::F`] |
//! | G | T1, doubling up to T2 | repeat a non-2xx to INVITE (UDP only) | [`Timer::G`] |
//! | H | 64 T1 | a non-2xx to INVITE without ACK | [`Timer::H`] |
//! | I | T4, 0 if reliable | absorb repeats of that ACK | [`Linger::I`] |
//! | J | 64 T1, 0 if reliable | answer repeats of a non-INVITE | [`Linger::J`] |
//! | K | T4, 0 if reliable | absorb repeats of a final answer | none: the slot is freed |
//! | L | 64 T1 | absorb repeats of an accepted INVITE | [`Linger::L`] |
//! | M | 64 T1 | pass repeats of a 2xx up | none: the slot is freed |
//!
//! No timer is ever cancelled: whoever is told of a due one looks at its state. A late timer is
//! normal (the driver lets retransmissions wait while answers may lie unread in the socket), and
//! an early one is ignored.

use crate::path::Outbox;
use std::time::Duration;
use turn::{Mono, Slot, Wheel};

/// The absolute minimum of Timer D on unreliable transports: the peer's T1 is not known
/// (§17.1.1.2).
const TIMER_D_MIN: Duration = Duration::from_secs(32);

/// The times from which all timers follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// An estimate of the round trip time.
    pub t1: Duration,
    /// The longest interval between repeats of a non-INVITE request or of a response to INVITE.
    pub t2: Duration,
    /// How long a message may stay in the network.
    pub t4: Duration,
}

impl Default for Timing {
    /// The values of RFC 3261 table 4.
    fn default() -> Self {
        Self {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
        }
    }
}

impl Timing {
    /// 64 T1: timers B, F, H, J, L and M.
    pub fn timeout(&self) -> Duration {
        self.t1 * 64
    }

    /// Timer D on unreliable transports.
    pub(super) fn timer_d(&self) -> Duration {
        self.timeout().max(TIMER_D_MIN)
    }
}

/// The timers that a live transaction arms.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Timer {
    /// Repeat an INVITE.
    A,
    /// Give an INVITE up.
    B,
    /// Forget an INVITE's ACK.
    D,
    /// Repeat a non-INVITE request.
    E,
    /// Give a non-INVITE request up.
    F,
    /// Repeat a non-2xx response to INVITE.
    G,
    /// Give up waiting for the ACK of a non-2xx response.
    H,
}

/// Why a finished server transaction is remembered for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Linger {
    /// A non-2xx to INVITE was acknowledged (the state Confirmed).
    I,
    /// A non-INVITE was answered (the state Completed).
    J,
    /// An INVITE was accepted (the state Accepted).
    L,
}

/// What a due time in the wheel belongs to. The wheel is shared with what sits on top.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TimerKey {
    /// A timer of a client transaction.
    Client(Timer, Slot),
    /// A timer of a server transaction.
    Server(Timer, Slot),
    /// Finished server transactions whose time is over are to be swept out.
    Sweep(Linger),
    /// A timer of the transaction user, of a kind that it defines.
    User(u8, Slot),
}

/// What each turn gives to the transaction layer.
#[derive(Debug)]
pub struct Turn<'t> {
    /// The time of the turn.
    pub now: Mono,
    /// Where messages to send go.
    pub out: &'t mut Outbox,
    /// Where timers go.
    pub timers: &'t mut Wheel<TimerKey>,
}

/// How one machine arms its timers.
pub(super) struct Alarm<'t> {
    pub(super) now: Mono,
    pub(super) timing: &'t Timing,
    /// Whether the transport repeats by itself; if it does, nothing here does.
    pub(super) reliable: bool,
    pub(super) side: Side,
    pub(super) slot: Slot,
    pub(super) timers: &'t mut Wheel<TimerKey>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Client,
    Server,
}

impl Alarm<'_> {
    pub(super) fn arm(&mut self, timer: Timer, after: Duration) {
        let key = match self.side {
            Side::Client => TimerKey::Client(timer, self.slot),
            Side::Server => TimerKey::Server(timer, self.slot),
        };
        self.timers.arm(self.now + after, key);
    }
}

#[cfg(test)]
pub(super) mod bench_of_one {
    //! What a test needs around one machine: a clock to set and a look at what was armed.

    use super::*;

    pub(in super::super) struct Around {
        pub(in super::super) now: Mono,
        timing: Timing,
        reliable: bool,
        side: Side,
        timers: Wheel<TimerKey>,
    }

    impl Around {
        pub(in super::super) fn new(side: Side, reliable: bool) -> Self {
            let timers = Wheel::new(Mono::ZERO);
            Self { now: Mono::ZERO, timing: Timing::default(), reliable, side, timers }
        }

        pub(in super::super) fn alarm(&mut self) -> Alarm<'_> {
            Alarm {
                now: self.now,
                timing: &self.timing,
                reliable: self.reliable,
                side: self.side,
                slot: Slot { index: 0, generation: 1 },
                timers: &mut self.timers,
            }
        }

        /// The time of the next due timer in ms and the timer; moves the clock there.
        pub(in super::super) fn next(&mut self) -> Option<(u64, Timer)> {
            let mut due = Vec::new();
            while due.is_empty() {
                self.now = self.timers.next_timeout()?.max(self.now);
                self.timers.fire(self.now, &mut due);
            }
            assert_eq!(due.len(), 1, "one at a time");
            let (TimerKey::Client(timer, _) | TimerKey::Server(timer, _)) = due[0] else {
                panic!("not a machine's timer: {due:?}");
            };
            Some((self.now.as_millis(), timer))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// §17.1.1.2: the peer's T1 is not known.
    #[test]
    fn timer_d_is_never_below_32_seconds() {
        let fast = Timing { t1: Duration::from_millis(50), ..Timing::default() };
        assert_eq!(fast.timeout(), Duration::from_millis(3200));
        assert_eq!(fast.timer_d(), Duration::from_secs(32));
        let slow = Timing { t1: Duration::from_secs(1), ..Timing::default() };
        assert_eq!(slow.timer_d(), Duration::from_secs(64));
    }
}
