//! The table of a shard's calls, and the only way in.

use std::collections::VecDeque;
use std::sync::Arc;

use dialplan::Plan;
use turn::{Now, Slot, Slots};

use crate::call::{Call, Doing, INBOUND};
use crate::cause::Cause;
use crate::channel::{CallNumber, Naming, Numbers};
use crate::events;
use crate::interpreter;
use crate::leg::{LegEvent, LegId, Setup};
use crate::out::{CallCounts, CallTimer, Cx};
use crate::record::EndedBy;
use crate::view::{self, ChannelView};

/// How much a shard's calls may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Calls at a time; the next set-up is refused.
    pub calls_max: u32,
    /// Outbound legs of one call at a time; a target beyond is not called. A Dial has at most 32
    /// targets.
    pub legs_per_call_max: u8,
    /// Steps of one call in one turn; then it waits in the run queue.
    pub steps_per_turn: u16,
    /// Calls of the run queue that go on in one turn.
    pub resumed_per_turn: u16,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { calls_max: 65_536, legs_per_call_max: 32, steps_per_turn: 64, resumed_per_turn: 16 }
    }
}

/// Why a set-up became no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The table is full.
    Full,
}

/// All calls of a shard.
#[derive(Debug)]
pub struct Calls {
    calls: Slots<Call>,
    /// Calls that used up their steps; each is in at most once, so it has room for all.
    queue: VecDeque<Slot>,
    shared: Shared,
    legs: usize,
}

#[derive(Debug)]
struct Shared {
    limits: CallLimits,
    counts: CallCounts,
    numbers: Numbers,
    system: Arc<str>,
}

/// What the parts of a call work with while one input is dealt with.
pub(crate) struct Env<'e, 't> {
    pub(crate) cx: &'e mut Cx<'t>,
    pub(crate) plan: &'e Plan,
    pub(crate) limits: &'e CallLimits,
    pub(crate) counts: &'e mut CallCounts,
    pub(crate) numbers: &'e mut Numbers,
    pub(crate) system: &'e Arc<str>,
}

impl Calls {
    /// Bytes of a call's place in the table; its texts and outbound legs come on top.
    pub const PLACE_BYTES: usize = size_of::<Call>();

    /// An empty table.
    pub fn new(limits: CallLimits, naming: &Naming) -> Self {
        let numbers = Numbers::new(naming);
        let system = Arc::clone(&naming.system);
        Self {
            calls: Slots::with_capacity(limits.calls_max),
            queue: VecDeque::new(),
            shared: Shared { limits, counts: CallCounts::default(), numbers, system },
            legs: 0,
        }
    }

    /// A new inbound leg. `Ok` also when the plan refuses the call at once: then the commands say
    /// so.
    pub fn setup(
        &mut self,
        cx: &mut Cx<'_>,
        plan: &Arc<Plan>,
        setup: Setup,
    ) -> Result<LegId, Refusal> {
        let Some(id) = self.calls.next_slot() else {
            self.shared.counts.refused_full += 1;
            return Err(Refusal::Full);
        };
        let may_grow = setup.may_grow;
        let call = Call::new(id, Arc::clone(plan), setup, &mut self.shared.env(cx, plan));
        let inserted = self.calls.insert(call).ok();
        debug_assert_eq!(inserted, Some(id), "the table said that this place is next");
        self.shared.counts.calls += 1;
        self.legs += 1;
        self.work(cx, id, |call, env| interpreter::begin(call, may_grow, env));
        Ok(LegId { call: id, leg: INBOUND })
    }

    /// Something happened on a leg. Events of legs that are gone are ignored.
    pub fn on_leg(&mut self, cx: &mut Cx<'_>, leg: LegId, event: LegEvent) {
        self.work(cx, leg.call, |call, env| events::on_leg(call, leg.leg, event, env));
    }

    /// A timer of [`crate::CallOut::timers`] is due. A stale one is ignored.
    pub fn on_timer(&mut self, cx: &mut Cx<'_>, timer: CallTimer) {
        self.work(cx, timer.call, |call, env| events::on_timer(call, timer, env));
    }

    /// Lets some calls of the run queue go on. To be called once a turn while
    /// [`Calls::has_runnable`].
    pub fn resume(&mut self, cx: &mut Cx<'_>) {
        let count = self.queue.len().min(usize::from(self.shared.limits.resumed_per_turn));
        for _ in 0..count {
            let Some(id) = self.queue.pop_front() else { return };
            if let Some(call) = self.calls.view_mut(id) {
                call.is_queued = false;
                self.work(cx, id, |_, _| {});
            }
        }
    }

    /// Whether calls wait for [`Calls::resume`].
    pub fn has_runnable(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Ends a leg from outside: an operator, or the program on its way down. With the inbound leg
    /// the whole call ends; an outbound one ends as if its far end had hung up.
    pub fn hangup(&mut self, cx: &mut Cx<'_>, leg: LegId, cause: Cause) {
        self.work(cx, leg.call, |call, env| {
            if leg.leg == INBOUND {
                call.end(cause, EndedBy::Operator, env);
            } else {
                events::hang_up(call, leg.leg, cause, env);
            }
        });
    }

    /// Calls in the table, those on their way out included.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Legs that are not gone.
    pub fn legs(&self) -> usize {
        self.legs
    }

    /// What was counted since the start.
    pub fn counts(&self) -> &CallCounts {
        &self.shared.counts
    }

    /// The limits that hold.
    pub fn limits(&self) -> &CallLimits {
        &self.shared.limits
    }

    /// The calls, in the order of their places.
    pub fn ids(&self) -> impl Iterator<Item = Slot> {
        self.calls.iter().map(|(slot, _)| slot)
    }

    /// The number of a call, as the log shows it.
    pub fn number(&self, id: Slot) -> Option<CallNumber> {
        Some(self.calls.view(id)?.channel().call())
    }

    /// Up to about `limit` channels from place `from` on, and the place where the next page begins.
    pub fn channels(&self, now: Now, from: u32, limit: usize) -> (Vec<ChannelView>, Option<u32>) {
        let mut views = Vec::new();
        for (slot, call) in self.calls.from_index(from) {
            if views.len() >= limit {
                return (views, Some(slot.index));
            }
            view::channels_of(call, now, &self.shared.system, &mut views);
        }
        (views, None)
    }

    /// The leg with that channel name. Walks the table: for operators.
    pub fn find_channel(&self, name: &str) -> Option<LegId> {
        let number = name.rsplit_once('-').and_then(|(_, it)| u32::from_str_radix(it, 16).ok())?;
        self.calls.iter().find_map(|(id, call)| {
            let is_it = |channel: &crate::Channel| channel.to_string() == name;
            if call.channel_number == number && is_it(&call.channel()) {
                return Some(LegId { call: id, leg: INBOUND });
            }
            let numbered = |leg: &&crate::leg_state::Leg| leg.channel.number == number;
            let leg = call.legs.iter().find(numbered).filter(|leg| is_it(&leg.channel))?;
            Some(LegId { call: id, leg: leg.number })
        })
    }

    /// Lets `input` change a call, then runs the plan as far as it goes.
    fn work(&mut self, cx: &mut Cx<'_>, id: Slot, input: impl FnOnce(&mut Call, &mut Env<'_, '_>)) {
        let Some(call) = self.calls.view_mut(id) else {
            self.shared.counts.stale += 1;
            return;
        };
        let legs = call.legs.len() + usize::from(call.inbound != crate::LegState::Gone);
        match call.plan.take() {
            Some(plan) => {
                let mut env = self.shared.env(cx, &plan);
                let was_waiting = !matches!(call.doing, Doing::Ready);
                input(call, &mut env);
                if was_waiting {
                    call.cursor.rested();
                }
                interpreter::run(call, &mut env);
                if !matches!(call.doing, Doing::Ended) {
                    call.plan = Some(plan);
                }
            }
            None => {
                let plan = Plan::default();
                input(call, &mut self.shared.env(cx, &plan));
            }
        }
        let left = call.legs.len() + usize::from(call.inbound != crate::LegState::Gone);
        self.legs = self.legs + left - legs;
        if matches!(call.doing, Doing::Ready) && !call.is_queued {
            call.is_queued = true;
            self.shared.counts.turns_used_up += 1;
            self.queue.push_back(id);
        }
        if call.is_gone() {
            self.calls.remove(id);
        }
    }
}

impl Shared {
    fn env<'e, 't>(&'e mut self, cx: &'e mut Cx<'t>, plan: &'e Plan) -> Env<'e, 't> {
        Env {
            cx,
            plan,
            limits: &self.limits,
            counts: &mut self.counts,
            numbers: &mut self.numbers,
            system: &self.system,
        }
    }
}
