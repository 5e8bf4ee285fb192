//! What goes in beside an event, and what comes out of it.

use std::time::Duration;

use turn::{Mono, Now, Slot};

use crate::facts::CallFact;
use crate::leg::{LegCommand, LegId};
use crate::record::Record;
use crate::world::World;

/// The longest that a timer is armed ahead; longer waits are armed again when a slice is over. The
/// wheel forgets nothing, so the entries of calls that ended long before their wait would pile up:
/// with slices there are at most as many as calls of the last 16 s.
pub const TIMER_SLICE: Duration = Duration::from_secs(16);

/// What an input comes with.
#[derive(Debug)]
pub struct Cx<'t> {
    /// What time it is.
    pub now: Now,
    /// Where the outcome goes.
    pub out: &'t mut CallOut,
    /// The world around the calls.
    pub world: &'t dyn World,
    /// The highest verbosity that somebody wants to read: facts beyond it are not made.
    pub verbose_wanted: u8,
}

/// The outcome of an input, drained by the caller in the order in which it stands.
#[derive(Debug, Default)]
pub struct CallOut {
    /// What legs must do, in order.
    pub commands: Vec<(LegId, LegCommand)>,
    /// Timers to arm. There is no disarming: a stale one is ignored when it comes.
    pub timers: Vec<(Mono, CallTimer)>,
    /// What happened.
    pub facts: Vec<CallFact>,
    /// Calls that ended.
    pub records: Vec<Record>,
}

impl CallOut {
    /// An empty outbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether all has been drained.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
            && self.timers.is_empty()
            && self.facts.is_empty()
            && self.records.is_empty()
    }
}

/// A timer of a call, to be given back to [`crate::Calls::on_timer`] when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallTimer {
    /// Whose.
    pub call: Slot,
    /// Which arming it was: only the last one of a call counts.
    pub serial: u32,
    /// What for.
    pub kind: TimerKind,
}

/// What a call waits for: one thing at a time, and beside it perhaps the end of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimerKind {
    /// More digits of an overlap caller.
    Digits,
    /// The end of Wait, or of the tone of Busy and Congestion.
    Pause,
    /// The end of the ring time of a Dial.
    Ring,
    /// The end of the call's time; runs beside the others.
    Limit,
}

/// What was counted since the start. Only ever grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Set-ups that became calls.
    pub calls: u64,
    /// Set-ups refused because the table was full.
    pub refused_full: u64,
    /// Calls whose caller was answered.
    pub answered: u64,
    /// Records written: calls ended.
    pub ended: u64,
    /// Outbound legs placed.
    pub legs: u64,
    /// Targets not called because the call had all its legs.
    pub legs_full: u64,
    /// Targets not called because no hops were left.
    pub no_hops: u64,
    /// Set-ups for numbers that are not in the plan.
    pub no_extension: u64,
    /// Offers refused because another one was open.
    pub glares: u64,
    /// Early dialogs beyond [`crate::EARLY_MAX`].
    pub early_overflow: u64,
    /// Variables not set for lack of room.
    pub variables_full: u64,
    /// Calls ended because their plan ran without a pause.
    pub endless_plans: u64,
    /// Calls that used up the steps of a turn and went to the run queue.
    pub turns_used_up: u64,
    /// Events of legs, and timers, that came too late to matter.
    pub stale: u64,
}
