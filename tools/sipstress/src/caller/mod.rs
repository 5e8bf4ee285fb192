//! The calls that we make: RFC 3261 13.2 and 15.1.1 for one scenario (INVITE, 2xx, ACK, BYE),
//! sans-IO: messages and due timers in, an outbox and counts out.
//!
//! Why not `sip::transaction`: that table keeps each request's bytes for repeats and serves any
//! user. Here every request is a template filled from the call's slot, so a repeat is made anew, a
//! call is one slot of about 250 bytes with one timer, and the ACK of a failure is made from the
//! response alone, for as long as the server repeats it. The timers are the RFC's: A and B, E and
//! F (17.1.1.2, 17.1.2.2); K, D and M need no state here.
//!
//! ```text
//!            1xx              2xx: ACK            hold is over: BYE      answered
//! Inviting ──────► Proceeding ─────────► Held ──────────────────► Ending ─────────► gone
//!  │ ▲ A repeats     │ │ timeout: CANCEL                            ▲ │ E repeats
//!  │ B: timeout      │ └──────────► Cancelling ── 2xx: ACK, BYE ────┘ │ F: bye-timeout
//!  ▼                 ▼                 │ E repeats                    ▼
//! gone ◄── 3xx-6xx: ACK ◄──────────────┘                             gone
//! ```
//!
//! Any legal order is accepted: provisional responses after the final one, BYE from the server at
//! any time, requests of unknown methods. What it does not do: authentication, PRACK, forks beyond
//! hanging up the later branches, strict routing. All messages go to the target's address.

mod driven;
mod inbound;
mod outbound;

pub use outbound::Sending;

use crate::identity::{Kind, Run};
use crate::tally::{Cause, Tally};
use crate::template::{Parties, Templates};
use sip::path::{Outbox, Path, Transport};
use sip::wire::Index;
use smallvec::SmallVec;
use std::time::Duration;
use turn::{Mono, Slot, Slots, Wheel};

/// RFC 3261's estimate of a round trip.
pub const T1: Duration = Duration::from_millis(500);
/// The longest interval between repeats of a request that is no INVITE.
pub const T2: Duration = Duration::from_secs(4);
/// Timers B and F.
pub const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(32);

/// How calls behave.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// How long an answered call is held; `None`: until told otherwise.
    pub hold: Option<Duration>,
    /// How long to wait for the final response.
    pub timeout: Duration,
    /// Calls in the table.
    pub calls_max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Inviting { interval: Duration },
    Proceeding,
    Cancelling { interval: Duration },
    Held,
    Ending { interval: Duration },
}

/// What the 2xx taught: To, target and Route lines, one behind the other.
#[derive(Debug, Default)]
struct Dialog {
    text: SmallVec<[u8; 128]>,
    to_end: u16,
    target_end: u16,
}

#[derive(Debug)]
struct Call {
    phase: Phase,
    /// When it was to be made, by the schedule.
    scheduled: Mono,
    /// When the timer that counts is due; others in the wheel are leftovers.
    due: Mono,
    /// When the phase is given up.
    deadline: Mono,
    dialog: Dialog,
}

/// All calls of a run.
#[derive(Debug)]
pub struct Caller {
    run: Run,
    path: Path,
    behaviour: Behaviour,
    templates: Templates,
    calls: Slots<Call>,
    held: usize,
    wheel: Wheel<Slot>,
    due: Vec<Slot>,
    index: Option<Box<Index>>,
    outbox: Outbox,
    sendings: Vec<Sending>,
    /// The counts of the current step.
    pub tally: Tally,
}

impl Caller {
    /// No calls yet.
    pub fn new(run: Run, parties: &Parties, behaviour: Behaviour, now: Mono) -> Self {
        Self {
            run,
            path: Path { transport: Transport::Udp, local: parties.local, remote: parties.target },
            behaviour,
            templates: Templates::new(parties),
            calls: Slots::with_capacity(behaviour.calls_max),
            held: 0,
            wheel: Wheel::new(now),
            due: Vec::new(),
            index: Some(Box::new(Index::new())),
            outbox: Outbox::new(),
            sendings: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Calls in any phase.
    pub fn open(&self) -> usize {
        self.calls.len()
    }

    /// Answered calls that are neither ended nor being ended.
    pub fn held(&self) -> usize {
        self.held
    }

    /// When [`Caller::fire`] has work.
    pub fn next_timeout(&self) -> Option<Mono> {
        self.wheel.next_timeout()
    }

    /// Makes the call that was due at `scheduled`; false when the table is full.
    pub fn place(&mut self, scheduled: Mono, now: Mono) -> bool {
        let call = Call {
            phase: Phase::Inviting { interval: T1 },
            scheduled,
            due: now + T1.min(self.behaviour.timeout),
            deadline: now + self.behaviour.timeout,
            dialog: Dialog::default(),
        };
        let due = call.due;
        let Ok(slot) = self.calls.insert(call) else { return false };
        self.wheel.arm(due, slot);
        self.send_invite(slot, Sending::Invite { slot, scheduled });
        true
    }

    /// Lets due timers act.
    pub fn fire(&mut self, now: Mono) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.fire(now, &mut due);
        for slot in due.drain(..) {
            self.on_timer(slot, now);
        }
        self.due = due;
    }

    /// Counts every call that is not answered as timed out, at once: nobody is there.
    pub fn give_up_all(&mut self) {
        let is_unanswered = |(slot, call): (Slot, &Call)| (!call.has_dialog()).then_some(slot);
        let slots: Vec<_> = self.calls.iter().filter_map(is_unanswered).collect();
        for slot in slots {
            self.fail(slot, Cause::Timeout);
        }
    }

    /// Hangs up at most `count` held calls; the number that were.
    pub fn hang_up(&mut self, count: usize, now: Mono) -> usize {
        let is_held = |(slot, call): (Slot, &Call)| (call.phase == Phase::Held).then_some(slot);
        let slots: Vec<_> = self.calls.iter().filter_map(is_held).take(count).collect();
        for slot in &slots {
            self.end(*slot, now);
        }
        slots.len()
    }

    fn on_timer(&mut self, slot: Slot, now: Mono) {
        let Some(call) = self.calls.view_mut(slot) else { return };
        if call.due > now {
            return;
        }
        let is_over = call.deadline <= now;
        match call.phase {
            Phase::Inviting { .. } if is_over => self.fail(slot, Cause::Timeout),
            Phase::Inviting { interval } => {
                // Timer A doubles without a cap (17.1.1.2).
                let interval = interval * 2;
                call.phase = Phase::Inviting { interval };
                self.rearm(slot, now + interval);
                self.repeat_invite(slot);
            }
            Phase::Proceeding => self.give_up(slot, now),
            Phase::Cancelling { .. } if is_over => self.forget(slot),
            Phase::Cancelling { interval } => {
                let interval = (interval * 2).min(T2);
                call.phase = Phase::Cancelling { interval };
                self.rearm(slot, now + interval);
                self.send_cancel(slot, true);
            }
            Phase::Held => self.end(slot, now),
            Phase::Ending { .. } if is_over => self.fail(slot, Cause::ByeTimeout),
            Phase::Ending { interval } => {
                let interval = (interval * 2).min(T2);
                call.phase = Phase::Ending { interval };
                self.rearm(slot, now + interval);
                self.send_bye(slot, true);
            }
        }
    }

    /// The set-up took too long: it has failed, and a CANCEL frees the server of it.
    fn give_up(&mut self, slot: Slot, now: Mono) {
        let Some(call) = self.calls.view_mut(slot) else { return };
        call.phase = Phase::Cancelling { interval: T1 };
        call.deadline = now + TRANSACTION_TIMEOUT;
        self.rearm(slot, now + T1);
        self.tally.fail(Cause::Timeout);
        self.send_cancel(slot, false);
    }

    /// Sends BYE for a held or just answered call.
    fn end(&mut self, slot: Slot, now: Mono) {
        let Some(call) = self.calls.view_mut(slot) else { return };
        if call.phase == Phase::Held {
            self.held -= 1;
        }
        call.phase = Phase::Ending { interval: T1 };
        call.deadline = now + TRANSACTION_TIMEOUT;
        self.rearm(slot, now + T1);
        self.send_bye(slot, false);
    }

    fn rearm(&mut self, slot: Slot, at: Mono) {
        let Some(call) = self.calls.view_mut(slot) else { return };
        call.due = at.min(call.deadline);
        self.wheel.arm(call.due, slot);
    }

    fn fail(&mut self, slot: Slot, cause: Cause) {
        self.tally.fail(cause);
        self.forget(slot);
    }

    fn forget(&mut self, slot: Slot) {
        if let Some(call) = self.calls.remove(slot)
            && call.phase == Phase::Held
        {
            self.held -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
