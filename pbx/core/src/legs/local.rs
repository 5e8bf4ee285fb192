//! Local legs: an outbound leg of one call that is the inbound leg of another one on this shard, so
//! that an extension of the plan can be called like a device (Dial of `Local/100@context`,
//! forwarding, redirections).
//!
//! ```text
//! outer call ── LegCommand ──►┌──────────┐── LegEvent ──► inner call
//!  leg n        LegEvent ◄────│ this file│◄── LegCommand    leg 0
//! ```
//!
//! What one call wants of its leg is what happens on the leg of the other. Offers keep their names
//! through a leg: what `call` minted (even) is odd on the other side, and an odd one is given back
//! as what it was.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use call::{
    Cause, Early, Endpoint, LegCommand, LegEvent, LegId, OfferId, Placement, SessionPart, Setup,
    SetupText, Text,
};
use turn::Now;

use super::Place;
use crate::ShardOut;
use crate::remote::LegOwner;
use crate::shard::{Shard, cx};

/// Hops that a Local leg takes of the 70: ten of them one in the other are enough for everybody,
/// and a circle of them ends after ten calls.
const HOPS: u8 = 7;

impl Shard {
    /// Makes the inner call. `base` is added to its early dialogs: whoever called before on the
    /// same leg had those below.
    pub(super) fn place_local(
        &mut self,
        now: Now,
        owner: LegOwner,
        placement: &mut Placement,
        (number, context, base): (&str, &str, u8),
    ) -> Result<(), Cause> {
        let hops = placement.hops.checked_sub(HOPS).ok_or(Cause::ROUTING_LOOP)?;
        if self.calls.len() >= self.limits.calls_soft_max as usize || self.is_draining {
            return Err(Cause::CONGESTION);
        }
        if !self.plan.has_context(context) || owner.shard != self.shard {
            return Err(Cause::NO_ROUTE);
        }
        let local = self.locals.v4.or(self.locals.v6);
        let setup = Setup {
            endpoint: Arc::new(Endpoint {
                channel: format!("Local/{number}@{context}").into(),
                name: "".into(),
                context: context.into(),
            }),
            text: Text::pack(&SetupText {
                digits: number,
                caller_number: &placement.caller_number,
                caller_name: &placement.caller_name,
                foreign_id: "",
                peer: "",
            }),
            may_grow: false,
            hops,
            local: local.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |local| local.ip()),
            offer: placement.offer.clone().map(|(id, offer)| (across(id), offer)),
            headers: "".into(),
            variables: std::mem::take(&mut placement.variables),
            is_answered: false,
        };
        let plan = Arc::clone(&self.plan);
        let inner = self.calls.setup(&mut cx!(self, now), &plan, setup);
        let inner = inner.map_err(|_| Cause::CONGESTION)?;
        let inner = LegOwner { shard: self.shard, leg: inner };
        self.places.insert(owner.key(), Place::Local { peer: inner.leg, base: 0 });
        self.places.insert(inner.key(), Place::Local { peer: owner.leg, base });
        Ok(())
    }

    /// Does what a call wants of its half of a Local leg.
    pub(super) fn obey_local(
        &mut self,
        now: Now,
        leg: LegId,
        (peer, base): (LegId, u8),
        command: LegCommand,
        out: &mut ShardOut,
    ) {
        let (own, other) =
            (LegOwner { shard: self.shard, leg }, LegOwner { shard: self.shard, leg: peer });
        if let LegCommand::Release(cause) = command {
            self.places.remove(&own.key());
            self.places.remove(&other.key());
            self.tell(now, other, LegEvent::Released(cause.clone()), out);
            self.tell(now, own, LegEvent::Released(cause), out);
            return;
        }
        match event_of(command, base) {
            Some(event) => self.tell(now, other, event, out),
            None => self.counts.stale_commands += 1,
        }
    }

    /// Gives a Local leg to another owner.
    pub(super) fn reown_local(&mut self, (peer, base): (LegId, u8), owner: LegOwner) {
        let inner = LegOwner { shard: self.shard, leg: peer };
        if let Some(Place::Local { base, .. }) = self.places.get(&inner.key()).copied() {
            self.places.insert(inner.key(), Place::Local { peer: owner.leg, base });
        }
        self.places.insert(owner.key(), Place::Local { peer, base });
    }
}

/// The name of an offer on the other side.
const fn across(id: OfferId) -> OfferId {
    match id.0 % 2 {
        0 => OfferId(id.0.wrapping_mul(2) | 1),
        _ => OfferId(id.0 / 2),
    }
}

/// Whether an offer came from the other side.
const fn is_theirs(id: OfferId) -> bool {
    id.0 % 2 == 1
}

/// What happens on the other half; `None` for what a Local leg is never asked.
fn event_of(command: LegCommand, base: u8) -> Option<LegEvent> {
    let early = |early: Early| Early(early.0.saturating_add(base).min(call::EARLY_MAX - 1));
    let named = |(id, it)| (across(id), it);
    Some(match command {
        LegCommand::Proceeding => LegEvent::Proceeding,
        LegCommand::Alerting { early: from, answer } => {
            LegEvent::Alerting { early: early(from), answer: answer.map(named) }
        }
        LegCommand::Progress { early: from, inband, answer } => {
            LegEvent::Progress { early: early(from), inband, answer: answer.map(named) }
        }
        LegCommand::Answer { early: from, description } => {
            let session = match description {
                None => SessionPart::Unsaid,
                Some((id, it)) if is_theirs(id) => SessionPart::Answer(across(id), it),
                Some((id, it)) => SessionPart::Offer(across(id), it),
            };
            LegEvent::Answered { early: early(from), session }
        }
        LegCommand::Offer(id, it) => LegEvent::Offer(across(id), it),
        LegCommand::WantOffer(id) => LegEvent::OfferWanted(across(id)),
        LegCommand::AnswerOffer(id, it) => LegEvent::Answer(across(id), it),
        LegCommand::RefuseOffer(id, cause) => LegEvent::OfferRefused(across(id), cause),
        LegCommand::Hold(held) => LegEvent::Hold(held),
        LegCommand::Digit(digit) => LegEvent::Digit(digit),
        LegCommand::Foreign(request, it) => LegEvent::Foreign(request, it),
        LegCommand::ForeignReply(request, status, it) => {
            LegEvent::ForeignReply(request, status, it)
        }
        LegCommand::Place(_)
        | LegCommand::WantDigits
        | LegCommand::TransferProgress(..)
        | LegCommand::Release(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_comes_back_under_its_own_name() {
        for id in [2, 4, 6, 1_000] {
            let there = across(OfferId(id));
            assert!(is_theirs(there) && !is_theirs(across(there)));
            assert_eq!(across(there), OfferId(id));
            // Through a second Local leg its `call` mints an even name of its own.
        }
    }

    #[test]
    fn early_dialogs_stay_below_the_limit() {
        let command = LegCommand::Alerting { early: Early(6), answer: None };
        let wanted = LegEvent::Alerting { early: Early(call::EARLY_MAX - 1), answer: None };
        assert_eq!(event_of(command, 4), Some(wanted));
    }
}
