//! The legs of calls on this shard, and the only adapters between a technology and `call`.
//!
//! [`sip`] turns what a usage says into [`LegEvent`]s, [`commands`] turns [`LegCommand`]s into what
//! a usage can do, [`cause`] maps the reasons; [`place`] finds the targets of an outbound leg, and
//! [`fork`] calls several of them as [`target_set`] decides; [`lookup`] waits for those with
//! names. [`local`] joins two calls of this
//! shard, [`onward`] forwards, [`originate`] begins calls for operators. A leg belongs to a call of
//! this shard or of another one ([`LegOwner`]); nobody but this module looks at the difference.

pub(crate) mod cause;
mod commands;
mod fork;
mod local;
mod lookup;
pub(crate) mod onward;
pub(crate) mod originate;
mod place;
pub(crate) use place::transport_of;
pub(crate) mod sip;
mod target_set;

use std::sync::Arc;

use ::sip::usage::UsageId;
use call::{Cause, LegCommand, LegEvent, LegId};
use smallvec::SmallVec;
use turn::{Now, Slot};

use crate::remote::{LegOwner, ShardMessage};
use crate::shard::{Shard, cx};
use crate::{PhoneState, ShardOut, TrunkId, Trunks};

use fork::Fork;
use lookup::Lookup;
use onward::Onward;

/// A SIP leg.
#[derive(Debug)]
pub(crate) struct Leg {
    /// The one that counts; of an outbound leg with branches not before one has won.
    usage: UsageId,
    owner: LegOwner,
    /// Whose calls it counts among.
    claims: SmallVec<[Claim; 1]>,
    /// Its branches, until one wins.
    fork: Option<Box<Fork>>,
    /// The names that it waits for, before anybody is called.
    lookup: Option<Box<Lookup>>,
    /// Where else the call may go, until it is answered.
    onward: Option<Box<Onward>>,
    /// Whether it rings at an endpoint.
    rings: bool,
}

impl Leg {
    fn new(usage: UsageId, owner: LegOwner, claims: SmallVec<[Claim; 1]>) -> Self {
        Self { usage, owner, claims, fork: None, lookup: None, onward: None, rings: false }
    }

    /// The leg of the call.
    pub(crate) fn owner(&self) -> LegOwner {
        self.owner
    }

    /// Its usage, or those of its branches.
    pub(crate) fn usages(&self) -> Vec<UsageId> {
        match &self.fork {
            Some(fork) => fork.usages(),
            None => vec![self.usage],
        }
    }

    /// Says to the endpoints that it calls whether it rings.
    fn ring(&mut self, rings: bool) {
        if std::mem::replace(&mut self.rings, rings) == rings {
            return;
        }
        for claim in &self.claims {
            if let Claim::Phone(state) = claim {
                state.ring(rings);
            }
        }
    }
}

/// Stands in a leg whose branches are still called.
const NO_USAGE: UsageId = UsageId(Slot { index: u32::MAX, generation: 0 });

/// Somebody who has a limited number of calls.
#[derive(Debug)]
pub(crate) enum Claim {
    /// A trunk, counted on each shard.
    Trunk(TrunkId),
    /// An endpoint, counted on all shards together.
    Phone(Arc<PhoneState>),
}

/// Where a leg lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On this shard.
    Here(Slot),
    /// On another one.
    There(u8),
    /// It is one half of a Local leg of this shard.
    Local {
        /// The other half.
        peer: LegId,
        /// What is added to the early dialogs that this half tells of.
        base: u8,
    },
}

/// Buffers that are used again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    digits: Vec<u8>,
    number: Vec<u8>,
    name: Vec<u8>,
    peer: Vec<u8>,
}

impl Shard {
    /// Obeys a command of one of our calls.
    pub(crate) fn obey(&mut self, now: Now, leg: LegId, command: LegCommand, out: &mut ShardOut) {
        let owner = LegOwner { shard: self.shard, leg };
        if let Some(Place::There(shard)) = self.places.get(&owner.key()).copied() {
            self.send_hop(shard, ShardMessage::Command { owner, command }, out);
            return;
        }
        if let LegCommand::Place(placement) = &command
            && let Some(shard) = self.shard_of_placement(placement)
            && shard != self.shard
        {
            self.places.insert(owner.key(), Place::There(shard));
            self.send_hop(shard, ShardMessage::Command { owner, command }, out);
            return;
        }
        self.obey_for(now, owner, command, out);
    }

    /// Obeys a command for a leg of this shard, whoever owns it.
    pub(crate) fn obey_for(
        &mut self,
        now: Now,
        owner: LegOwner,
        command: LegCommand,
        out: &mut ShardOut,
    ) {
        if let LegCommand::Place(placement) = command {
            if let Err(cause) = self.place(now, owner, placement, out) {
                self.tell(now, owner, LegEvent::Released(cause), out);
            }
            return;
        }
        match self.places.get(&owner.key()).copied() {
            Some(Place::Here(slot)) => self.obey_leg(now, slot, command, out),
            Some(Place::Local { peer, base }) => {
                self.obey_local(now, owner.leg, (peer, base), command, out);
            }
            // The leg's own end crossed the command.
            Some(Place::There(_)) | None => self.counts.stale_commands += 1,
        }
    }

    /// Something happened on a leg that lives on another shard.
    pub(crate) fn on_remote_event(&mut self, now: Now, leg: LegId, event: LegEvent) {
        let owner = LegOwner { shard: self.shard, leg };
        if matches!(event, LegEvent::Released(_)) {
            self.places.remove(&owner.key());
        }
        let mut cx = cx!(self, now);
        self.calls.on_leg(&mut cx, leg, event);
    }

    /// A message for shard `to` is lost. Ends are sent again by the next flush.
    pub(crate) fn break_leg(
        &mut self,
        now: Now,
        to: u8,
        message: ShardMessage,
        out: &mut ShardOut,
    ) {
        let broken = Cause::TEMPORARY_FAILURE;
        match message {
            ShardMessage::Command { owner, command } => {
                let never_was = matches!(command, LegCommand::Place(_));
                let is_end = matches!(command, LegCommand::Release(_));
                if !never_was {
                    let command = LegCommand::Release(broken.clone());
                    self.endings.push((to, ShardMessage::Command { owner, command }));
                }
                if !is_end {
                    self.on_remote_event(now, owner.leg, LegEvent::Released(broken));
                }
            }
            ShardMessage::Event { leg, event } => {
                let owner = LegOwner { shard: to, leg };
                if matches!(event, LegEvent::Released(_)) {
                    self.endings.push((to, ShardMessage::Event { leg, event }));
                } else if let Some(Place::Here(slot)) = self.places.get(&owner.key()).copied() {
                    self.obey_leg(now, slot, LegCommand::Release(broken), out);
                }
            }
        }
    }

    /// Tells a leg's owner what happened on it.
    fn tell(&mut self, now: Now, owner: LegOwner, event: LegEvent, out: &mut ShardOut) {
        if owner.shard != self.shard {
            let message = ShardMessage::Event { leg: owner.leg, event };
            self.send_hop(owner.shard, message, out);
        } else if let Some(serial) = originate::serial_of(owner.leg) {
            self.on_originated(now, serial, event, out);
        } else {
            self.calls.on_leg(&mut cx!(self, now), owner.leg, event);
        }
    }

    fn send_hop(&mut self, shard: u8, message: ShardMessage, out: &mut ShardOut) {
        self.counts.hops += 1;
        out.hops.push((shard, message));
    }

    /// Tells the owner of a leg.
    fn tell_leg(&mut self, now: Now, slot: Slot, event: LegEvent, out: &mut ShardOut) {
        let Some(leg) = self.legs.view_mut(slot) else { return };
        if matches!(event, LegEvent::Alerting { .. }) {
            leg.ring(true);
        } else if matches!(event, LegEvent::Answered { .. }) {
            leg.ring(false);
            leg.onward = None;
        }
        let owner = leg.owner;
        self.tell(now, owner, event, out);
    }

    /// Puts a leg into the tables.
    fn add_leg(&mut self, leg: Leg) -> Option<Slot> {
        let key = leg.owner.key();
        for claim in &leg.claims {
            match claim {
                Claim::Trunk(id) => {
                    if let Some(calls) = self.trunk_calls.get_mut(usize::from(id.0)) {
                        *calls += 1;
                    }
                }
                // Whether there is room has been asked before; two shards may ask at once, and one
                // call too many does no harm.
                Claim::Phone(state) => _ = state.enter(None),
            }
        }
        let slot = self.legs.insert(leg).ok();
        debug_assert!(slot.is_some(), "the table said that a place is next");
        self.places.insert(key, Place::Here(slot?));
        slot
    }

    /// Takes a leg out of the tables and tells its owner.
    fn release_leg(&mut self, now: Now, slot: Slot, cause: Cause, out: &mut ShardOut) {
        if let Some(owner) = self.remove_leg(slot) {
            self.tell(now, owner, LegEvent::Released(cause), out);
        }
    }

    /// Takes a leg out of the tables.
    fn remove_leg(&mut self, slot: Slot) -> Option<LegOwner> {
        let mut leg = self.legs.remove(slot)?;
        leg.ring(false);
        if let Some(lookup) = &leg.lookup {
            lookup.tokens().for_each(|token| self.lookups.forget(token));
        }
        self.places.remove(&leg.owner.key());
        for claim in &leg.claims {
            match claim {
                Claim::Trunk(id) => {
                    if let Some(calls) = self.trunk_calls.get_mut(usize::from(id.0)) {
                        *calls -= 1;
                    }
                }
                Claim::Phone(state) => state.leave(),
            }
        }
        Some(leg.owner)
    }

    /// After a reload: legs of a trunk that is still there by name count on, others count nowhere.
    pub(crate) fn rename_trunks(&mut self, old: &Trunks) {
        let trunks = self.directory.trunks();
        let fresh: Vec<Option<TrunkId>> =
            old.iter().map(|trunk| trunks.named(&trunk.endpoint.name)).collect();
        let mut calls = vec![0; trunks.len()];
        let slots: Vec<Slot> = self.legs.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let Some(leg) = self.legs.view_mut(slot) else { continue };
            leg.claims.retain(|claim| {
                let Claim::Trunk(id) = claim else { return true };
                let new = fresh.get(usize::from(id.0)).copied().flatten();
                if let Some(new) = new {
                    *id = new;
                    calls[usize::from(new.0)] += 1;
                }
                new.is_some()
            });
        }
        self.trunk_calls = calls;
    }
}
