//! Calls that an operator begins: a device is called, and when it answers, an extension of the plan
//! runs as if the device had dialled it (`channel originate`).
//!
//! The device is called without an offer of ours; its own offer is answered with `inactive`, since
//! nobody is there yet. Whoever the plan then reaches is offered to it in a re-INVITE.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use call::{
    Cause, Description, Destination, Endpoint, LegCommand, LegEvent, LegId, Placement, SessionPart,
    Setup, SetupText, Text,
};
use turn::{Mono, Now, Slot, Wheel};

use super::Place;
use crate::remote::LegOwner;
use crate::shard::{Shard, cx};
use crate::{CallerId, Fact, ShardOut};

/// Devices that are called for operators at one time; the next one is refused.
pub const ORIGINATIONS_MAX: usize = 1_000;

/// Stands for the call in the names of such legs: no table has so many places.
const NO_CALL: u32 = u32::MAX - 1;

/// What an operator wants.
#[derive(Clone, Debug)]
pub struct Originate {
    /// Whom to call first.
    pub destination: Destination,
    /// Where the plan begins then.
    pub exten: Box<str>,
    /// In which context.
    pub context: Box<str>,
    /// Who calls, as the device sees it.
    pub caller: CallerId,
    /// How long the device may ring.
    pub ring_timeout: Duration,
}

/// Why nobody was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotOriginated {
    /// The plan has no such extension.
    NoExtension,
    /// Another shard must do it.
    OtherShard(u8),
    /// So many are called already, or the shard takes no new calls.
    Full,
    /// The device cannot be called: a Q.850 cause.
    Cause(u8),
}

#[derive(Debug)]
pub(crate) struct Originations {
    waiting: BTreeMap<u32, Origination>,
    serial: u32,
    wheel: Wheel<u32>,
}

#[derive(Debug)]
struct Origination {
    exten: Box<str>,
    context: Box<str>,
    /// Technology and name of the device, for the channel.
    device: Box<str>,
    caller: CallerId,
}

impl Originations {
    pub(crate) fn new(start: Mono) -> Self {
        Self { waiting: BTreeMap::new(), serial: 0, wheel: Wheel::new(start) }
    }

    pub(crate) fn next_timeout(&self) -> Option<Mono> {
        self.wheel.next_timeout()
    }
}

/// Whether a leg is one that waits for its device, and which.
pub(super) fn serial_of(leg: LegId) -> Option<u32> {
    (leg.call.index == NO_CALL).then_some(leg.call.generation)
}

impl Shard {
    /// Calls a device for an operator. What becomes of it is told in facts.
    pub fn originate(
        &mut self,
        now: Now,
        wanted: Originate,
        out: &mut ShardOut,
    ) -> Result<(), NotOriginated> {
        let Originate { destination, exten, context, caller, ring_timeout } = wanted;
        if self.plan.find_complete(&context, &exten, "").is_none() {
            return Err(NotOriginated::NoExtension);
        }
        let is_full = self.originations.waiting.len() >= ORIGINATIONS_MAX;
        if is_full || self.is_draining || self.calls.len() >= self.limits.calls_soft_max as usize {
            return Err(NotOriginated::Full);
        }
        let device = super::place::target_text(&destination);
        let placement = Box::new(Placement {
            destination,
            caller_number: caller.number.clone().unwrap_or_default(),
            caller_name: caller.name.clone().unwrap_or_default(),
            hops: ::sip::agent::MAX_FORWARDS,
            offer: None,
            headers: Vec::new(),
            variables: Vec::new(),
            stays: false,
        });
        if let Some(other) = self.shard_of_placement(&placement).filter(|it| *it != self.shard) {
            return Err(NotOriginated::OtherShard(other));
        }
        let serial = self.originations.serial.wrapping_add(1) & 0x00ff_ffff;
        self.originations.serial = serial;
        let owner = self.owner_of(serial);
        self.place(now, owner, placement, out).map_err(|cause| NotOriginated::Cause(cause.q850))?;
        self.originations.wheel.arm(now.mono + ring_timeout, serial);
        let origination = Origination { exten, context, device: device.into(), caller };
        self.originations.waiting.insert(serial, origination);
        self.settle(now, out);
        Ok(())
    }

    fn owner_of(&self, serial: u32) -> LegOwner {
        let call = Slot { index: NO_CALL, generation: serial };
        LegOwner { shard: self.shard, leg: LegId { call, leg: 1 } }
    }

    /// Devices that rang for long enough are given up.
    pub(crate) fn fire_originations(&mut self, now: Now, out: &mut ShardOut) {
        let mut due = Vec::new();
        self.originations.wheel.fire(now.mono, &mut due);
        for serial in due {
            if self.originations.waiting.contains_key(&serial) {
                let owner = self.owner_of(serial);
                self.obey_for(now, owner, LegCommand::Release(Cause::NO_ANSWER), out);
            }
        }
    }

    /// Something happened on a leg to such a device.
    pub(super) fn on_originated(
        &mut self,
        now: Now,
        serial: u32,
        event: LegEvent,
        out: &mut ShardOut,
    ) {
        // While it rings it says nothing that matters, or that only a call could deal with.
        if let LegEvent::Answered { session, .. } = event {
            let Some(origination) = self.originations.waiting.remove(&serial) else { return };
            self.begin(now, serial, origination, session, out);
        } else if let LegEvent::Released(cause) = event {
            let Some(origination) = self.originations.waiting.remove(&serial) else { return };
            let Origination { device, .. } = origination;
            out.facts.push(Fact::NotOriginated { device, q850: cause.q850 });
        }
    }

    /// The device answered: the plan begins.
    fn begin(
        &mut self,
        now: Now,
        serial: u32,
        origination: Origination,
        session: SessionPart,
        out: &mut ShardOut,
    ) {
        let waiting = self.owner_of(serial);
        let local = self.locals.v4.or(self.locals.v6);
        let local = local.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |local| local.ip());
        let answer = match session {
            SessionPart::Offer(id, offer) => inactive(&offer, local, serial).map(|it| (id, it)),
            SessionPart::Answer(..) | SessionPart::Unsaid => None,
        };
        let Some((id, answer)) = answer else {
            let Origination { device, .. } = origination;
            out.facts.push(Fact::NotOriginated { device, q850: Cause::INCOMPATIBLE.q850 });
            return self.obey_for(now, waiting, LegCommand::Release(Cause::INCOMPATIBLE), out);
        };
        self.obey_for(now, waiting, LegCommand::AnswerOffer(id, answer), out);
        let Origination { exten, context, device, caller } = origination;
        let name = device.split('/').nth(1).unwrap_or_default().into();
        let setup = Setup {
            endpoint: Arc::new(Endpoint { channel: device.clone(), name, context }),
            text: Text::pack(&SetupText {
                digits: &exten,
                caller_number: caller.number.as_deref().unwrap_or_default(),
                caller_name: caller.name.as_deref().unwrap_or_default(),
                foreign_id: "",
                peer: "",
            }),
            may_grow: false,
            hops: ::sip::agent::MAX_FORWARDS,
            local,
            offer: None,
            headers: "".into(),
            variables: Vec::new(),
            is_answered: true,
        };
        let plan = Arc::clone(&self.plan);
        match self.calls.setup(&mut cx!(self, now), &plan, setup) {
            Ok(leg) => {
                self.reown(waiting, LegOwner { shard: self.shard, leg });
                out.facts.push(Fact::Originated { device, exten });
            }
            Err(_) => {
                out.facts.push(Fact::NotOriginated { device, q850: Cause::CONGESTION.q850 });
                self.obey_for(now, waiting, LegCommand::Release(Cause::CONGESTION), out);
            }
        }
    }

    /// Gives a leg to another owner.
    fn reown(&mut self, from: LegOwner, to: LegOwner) {
        match self.places.remove(&from.key()) {
            Some(Place::Here(slot)) => {
                if let Some(leg) = self.legs.view_mut(slot) {
                    leg.owner = to;
                }
                self.places.insert(to.key(), Place::Here(slot));
            }
            Some(Place::Local { peer, base }) => self.reown_local((peer, base), to),
            // It is on this shard, or it would not have been called.
            Some(Place::There(_)) | None => {}
        }
    }
}

/// An answer that says: not yet.
fn inactive(offer: &Description, local: IpAddr, serial: u32) -> Option<Description> {
    let body = sdp::session_part(&offer.content_type, &offer.body).ok()?;
    let origin = sdp::Origin { address: local, id: u64::from(serial) + 1, version: 1 };
    let body = sdp::answer_inactive(body, &origin).ok()?.into();
    Some(Description { content_type: Bytes::from_static(b"application/sdp"), body })
}
