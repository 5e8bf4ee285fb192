//! Outbound legs whose targets have names: the leg waits for the look-ups, then its targets are
//! called in their order, each the spare of the one before (RFC 3263 §4.3).
//!
//! ```text
//! placed ─► waits for all its names ─┬─ places ───► a fork over them (super::fork)
//!                                    ├─ none ─────► released, cause 3, or 27 if the DNS is silent
//!                                    └─ released by its owner: the look-ups are forgotten
//! ```

use ::sip::locate::{Located, Wanted};
use call::{Cause, Placement};
use smallvec::SmallVec;
use turn::{Now, Slot};

use super::cause::cause_of_unreachable;
use super::fork::Fork;
use super::place::Found;
use super::target_set::{TARGETS_MAX, Target, TargetSet};
use super::{Claim, Leg, NO_USAGE};
use crate::remote::LegOwner;
use crate::resolve::Asker;
use crate::shard::{Locals, Shard};
use crate::{Fact, ShardOut};

/// Groups between two alternatives of a leg: the places of a name fit in between.
pub(super) const STRIDE: u16 = 64;

const _: () = assert!(::sip::locate::PLACES_MAX < STRIDE as usize);

/// A target whose host has a name.
#[derive(Debug)]
pub(super) struct Named {
    /// The Request-URI: it keeps the name.
    pub(super) uri: Box<[u8]>,
    /// What to look up.
    pub(super) wanted: Wanted,
    /// The group of its first place.
    pub(super) group: u16,
}

/// What a leg needs while it waits for names.
#[derive(Debug)]
pub(super) struct Lookup {
    placement: Box<Placement>,
    /// What needs no look-up, or has been found.
    targets: SmallVec<[Target; 1]>,
    /// What is open, with the tokens.
    names: Vec<(u64, Named)>,
    /// Whether a server of names did not answer.
    is_silent: bool,
    /// Whether the trunk whose calls it counts among is known by the place that is found.
    is_claim_open: bool,
}

impl Lookup {
    /// The look-ups that are open.
    pub(super) fn tokens(&self) -> impl Iterator<Item = u64> {
        self.names.iter().map(|(token, _)| *token)
    }

    /// The answer to one of them.
    fn take_in(&mut self, token: u64, located: &Located, locals: &Locals) {
        let Some(at) = self.names.iter().position(|(its, _)| *its == token) else { return };
        let (_, named) = self.names.swap_remove(at);
        let places = match located {
            Located::Found(places) => &places[..],
            Located::Unknown => return,
            Located::Silent => return self.is_silent = true,
        };
        for ((place, transport), nth) in places.iter().zip(0..STRIDE) {
            let Some(path) = locals.path(*transport, *place) else { continue };
            let group = named.group + nth;
            let target = Target::new(named.uri.clone(), path);
            self.targets.push(Target { group, is_spare: true, ..target });
        }
    }
}

impl Shard {
    /// Makes the leg and asks for its names.
    pub(super) fn call_named(
        &mut self,
        now: Now,
        owner: LegOwner,
        placement: Box<Placement>,
        found: Found,
        out: &mut ShardOut,
    ) -> Result<(), Cause> {
        let slot = self.legs.next_slot().ok_or(Cause::CONGESTION)?;
        let mut names: Vec<(u64, Named)> = Vec::with_capacity(found.names.len());
        for named in found.names {
            let Some(token) = self.look_up(now, &named.wanted, Asker::Leg(slot), out) else {
                names.iter().for_each(|(token, _)| self.lookups.forget(*token));
                return Err(Cause::CONGESTION);
            };
            names.push((token, named));
        }
        let is_claim_open = found.claims.is_empty();
        let targets = found.targets;
        let lookup = Lookup { placement, targets, names, is_silent: false, is_claim_open };
        let lookup = Some(Box::new(lookup));
        self.add_leg(Leg { lookup, ..Leg::new(NO_USAGE, owner, found.claims) });
        Ok(())
    }

    /// A look-up of a leg has its answer. With the last one, it is called.
    pub(crate) fn on_leg_located(
        &mut self,
        now: Now,
        slot: Slot,
        (token, located): (u64, &Located),
        out: &mut ShardOut,
    ) {
        let locals = self.locals;
        let Some(leg) = self.legs.view_mut(slot) else { return };
        let Some(lookup) = &mut leg.lookup else { return };
        lookup.take_in(token, located, &locals);
        if !lookup.names.is_empty() {
            return;
        }
        let Some(lookup) = leg.lookup.take() else { return };
        if let Err(cause) = self.call_located(now, slot, *lookup, out) {
            self.release_leg(now, slot, cause, out);
        }
    }

    fn call_located(
        &mut self,
        now: Now,
        slot: Slot,
        lookup: Lookup,
        out: &mut ShardOut,
    ) -> Result<(), Cause> {
        let Lookup { placement, mut targets, is_silent, is_claim_open, .. } = lookup;
        targets.sort_by_key(|target| target.group);
        targets.truncate(TARGETS_MAX);
        let Some(first) = targets.first() else {
            if is_silent {
                return Err(cause_of_unreachable());
            }
            let target = super::place::target_text(&placement.destination).into();
            out.facts.push(Fact::Unroutable { target });
            return Err(Cause::NO_ROUTE);
        };
        if is_claim_open {
            let trunk = self.directory.trunks().of_source(first.path.remote.ip());
            if let Some(id) = trunk {
                let claim = self.claim_trunk(id)?;
                self.claim_late(slot, claim);
            }
        }
        self.widen(&placement, &mut targets);
        let set = TargetSet::new(targets.into_vec());
        if let Some(leg) = self.legs.view_mut(slot) {
            leg.fork = Some(Box::new(Fork { set, placement }));
        }
        self.call_next(now, slot, out)
    }

    /// A leg counts among somebody's calls from now on.
    fn claim_late(&mut self, slot: Slot, claim: Claim) {
        let Some(leg) = self.legs.view_mut(slot) else { return };
        if let Claim::Trunk(id) = &claim
            && let Some(calls) = self.trunk_calls.get_mut(usize::from(id.0))
        {
            *calls += 1;
        }
        leg.claims.push(claim);
    }
}
