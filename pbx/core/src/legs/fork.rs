//! Legs with several branches: what [`super::target_set`] decides, done.

use ::sip::usage::{End, UsageId, What, Why};
use call::{Cause, Early, LegEvent, Placement};
use turn::{Now, Slot};

use super::cause::cause_of;
use super::sip::{Told, translate};
use super::target_set::{Failed, Target, TargetSet};
use crate::ShardOut;
use crate::shard::Shard;

/// What a leg needs while it has branches.
#[derive(Debug)]
pub(super) struct Fork {
    pub(super) set: TargetSet,
    /// To call the next group with.
    pub(super) placement: Box<Placement>,
}

impl Fork {
    /// Its branches that are still called.
    pub(super) fn usages(&self) -> Vec<UsageId> {
        self.set.open().to_vec()
    }
}

/// The Reason for branches that are not needed any more (RFC 3326 §3.2).
const ELSEWHERE: u8 = 26;

impl Shard {
    /// Calls the next group of a leg's targets. `Err`: nobody can be called.
    pub(super) fn call_next(
        &mut self,
        now: Now,
        slot: Slot,
        out: &mut ShardOut,
    ) -> Result<(), Cause> {
        let mut group = None;
        loop {
            let Some(fork) = self.fork_mut(slot) else { return Ok(()) };
            let Some(target) = fork.set.next(group) else {
                if !fork.set.open().is_empty() {
                    return Ok(());
                }
                if fork.set.is_over() {
                    return Err(fork.set.take_best());
                }
                group = None;
                continue;
            };
            group = Some(target.group);
            self.call_target(now, slot, &target, out);
        }
    }

    fn call_target(&mut self, now: Now, slot: Slot, target: &Target, out: &mut ShardOut) {
        let Some(leg) = self.legs.view_mut(slot) else { return };
        let Some(mut fork) = leg.fork.take() else { return };
        let way = (target.path, &target.uri[..], &target.lines[..]);
        match self.invite(now, slot, &fork.placement, way, out) {
            Some(usage) => fork.set.opened(usage),
            None => fork.set.not_opened(Cause::CONGESTION),
        }
        if let Some(leg) = self.legs.view_mut(slot) {
            leg.fork = Some(fork);
        }
    }

    fn fork_mut(&mut self, slot: Slot) -> Option<&mut Fork> {
        self.legs.view_mut(slot)?.fork.as_deref_mut()
    }

    /// Something happened to a branch.
    pub(super) fn on_branch(
        &mut self,
        now: Now,
        slot: Slot,
        (usage, what): (UsageId, What<'_>),
        out: &mut ShardOut,
    ) {
        match what {
            What::Ended { why, ref message } => {
                let cause = cause_of(why, message.as_ref());
                let is_dead = is_dead(why);
                self.on_branch_failed(now, slot, (usage, cause, is_dead), out);
            }
            What::Accepted { .. } => {
                let Told::Event(event) = translate(&what) else { return };
                self.on_branch_won(now, slot, usage, *event, out);
            }
            What::Outside { .. }
            | What::OutsideReplied { .. }
            | What::Invited { .. }
            | What::Provisional { .. }
            | What::Acked
            | What::Described { .. }
            | What::WantsOffer { .. }
            | What::OfferRefused { .. }
            | What::Asked { .. }
            | What::Replied { .. } => {
                let Told::Event(event) = translate(&what) else { return };
                self.on_branch_progress(now, slot, usage, *event, out);
            }
        }
    }

    fn on_branch_progress(
        &mut self,
        now: Now,
        slot: Slot,
        usage: UsageId,
        mut event: LegEvent,
        out: &mut ShardOut,
    ) {
        let Some(fork) = self.fork_mut(slot) else { return };
        if event == LegEvent::Proceeding && !fork.set.proceeds() {
            return;
        }
        if let LegEvent::Alerting { early, .. } | LegEvent::Progress { early, .. } = &mut event {
            *early = fork.set.early(usage, early.0);
        }
        self.tell_leg(now, slot, event, out);
    }

    fn on_branch_won(
        &mut self,
        now: Now,
        slot: Slot,
        usage: UsageId,
        mut event: LegEvent,
        out: &mut ShardOut,
    ) {
        let Some(leg) = self.legs.view_mut(slot) else { return };
        let Some(mut fork) = leg.fork.take() else { return };
        leg.usage = usage;
        if let LegEvent::Answered { early: Early(early), .. } = &mut event {
            *early = fork.set.early(usage, *early).0;
        }
        let end = End { q850: Some(ELSEWHERE), ..End::default() };
        for other in fork.set.open().iter().filter(|other| **other != usage) {
            self.endpoint.end(now.mono, *other, &end, &mut out.net);
        }
        self.tell_leg(now, slot, event, out);
    }

    fn on_branch_failed(
        &mut self,
        now: Now,
        slot: Slot,
        (usage, cause, is_dead): (UsageId, Cause, bool),
        out: &mut ShardOut,
    ) {
        let Some(fork) = self.fork_mut(slot) else { return };
        let over = match fork.set.failed(usage, cause, is_dead) {
            Failed::Wait => return,
            Failed::Next => self.call_next(now, slot, out).err(),
            Failed::Over(cause) => Some(cause),
        };
        if let Some(cause) = over {
            self.end_branches(now, slot, &End::default(), out);
            self.fail_leg(now, slot, cause, out);
        }
    }

    /// Ends all branches of a leg that is given up.
    pub(super) fn end_branches(&mut self, now: Now, slot: Slot, end: &End, out: &mut ShardOut) {
        let Some(leg) = self.legs.view_mut(slot) else { return };
        let Some(fork) = leg.fork.take() else { return };
        for usage in fork.set.open() {
            self.endpoint.end(now.mono, *usage, end, &mut out.net);
        }
    }
}

/// Whether the peer is not there, so that another one may do (RFC 3263 §4.3).
fn is_dead(why: Why) -> bool {
    match why {
        Why::TimedOut | Why::Unreachable | Why::Refused(503) => true,
        Why::Refused(_) | Why::Cancelled | Why::Bye | Why::AckMissing | Why::DialogGone => false,
    }
}
