//! Outbound SIP legs: where a Dial target is, and the INVITEs to it.
//!
//! A target is a SIP URI with an address, a trunk (its peers are alternatives, in order), an
//! endpoint (all its contacts are called, the preferred ones first) or a group of endpoints (all at
//! once). A leg to a host name waits for its look-up first ([`super::lookup`]).

use std::sync::Arc;

use ::sip::agent::push_address;
use ::sip::path::{Path, Transport};
use ::sip::registrar::{Aor, Reach};
use ::sip::usage::{Call, Payload, UsageId};
use ::sip::wire::{Uri, escape_user};
use call::{Cause, Destination, Placement};
use dialplan::Address;
use smallvec::SmallVec;
use turn::{Now, Slot};

use super::fork::Fork;
use super::lookup::{Named, STRIDE};
use super::onward::Onward;
use super::target_set::{TARGETS_MAX, Target, TargetSet};
use super::{Claim, Leg, NO_USAGE};
use crate::directory::{Directory, Party, Phone, PhoneId};
use crate::remote::LegOwner;
use crate::resolve::hop_of;
use crate::shard::Shard;
use crate::{Fact, Hop, ShardOut, TrunkId};

/// Cause 20: nobody is registered there.
const SUBSCRIBER_ABSENT: Cause = Cause::of(20);

impl Shard {
    /// The shard that a new leg belongs on, if it matters.
    pub(super) fn shard_of_placement(&self, placement: &Placement) -> Option<u8> {
        match &placement.destination.address {
            Address::Trunk { name, .. } => match self.directory.named(name)? {
                Party::Trunk(id) => self.directory.trunks().view(id)?.owner,
                Party::Phone(_) | Party::Group(_) => None,
            },
            Address::Uri(_) | Address::Local { .. } => None,
        }
    }

    /// Calls the target. The error is the cause for the call.
    pub(super) fn place(
        &mut self,
        now: Now,
        owner: LegOwner,
        placement: Box<Placement>,
        out: &mut ShardOut,
    ) -> Result<(), Cause> {
        let directory = Arc::clone(&self.directory);
        let found = match &placement.destination.address {
            Address::Uri(text) => self.find_uri(text),
            Address::Local { number, context } => {
                let (number, context) = (number.clone(), context.clone());
                let mut placement = placement;
                return self.place_local(now, owner, &mut placement, (&number, &context, 0));
            }
            Address::Trunk { name, number } => match directory.named(name) {
                Some(Party::Trunk(id)) => {
                    self.find_trunk(&directory, id, number.as_deref().unwrap_or_default())
                }
                Some(Party::Phone(id)) => {
                    let phone = directory.phone(id).ok_or(Cause::NO_ROUTE)?;
                    return self.place_phone(now, owner, placement, (&directory, id, phone), out);
                }
                Some(Party::Group(number)) => {
                    let group = directory.groups().get(usize::from(number));
                    let members = group.map(|group| &group.members[..]).unwrap_or_default();
                    self.find_phones(now, &directory, members)
                }
                None => Err(Cause::NO_ROUTE),
            },
        };
        match found {
            Ok(found) => self.call(now, owner, placement, found, out).map(|_| ()),
            Err(cause) => {
                if cause == Cause::NO_ROUTE {
                    let target = target_text(&placement.destination).into();
                    out.facts.push(Fact::Unroutable { target });
                }
                Err(cause)
            }
        }
    }

    /// Calls a phone, or where it is forwarded to.
    fn place_phone(
        &mut self,
        now: Now,
        owner: LegOwner,
        placement: Box<Placement>,
        (directory, id, phone): (&Directory, PhoneId, &Phone),
        out: &mut ShardOut,
    ) -> Result<(), Cause> {
        let mut forward = Self::forward_at_once(phone, &placement, None);
        let mut found = Ok(Found::default());
        if forward.is_none() {
            found = self.find_phones(now, directory, &[id]);
            forward = found
                .as_ref()
                .err()
                .and_then(|refusal| Self::forward_at_once(phone, &placement, Some(refusal)));
        }
        if let Some((number, onto)) = forward {
            let way = (&*phone.endpoint, &*number, onto);
            return self.go_on(now, owner, placement, way, out);
        }
        let mut found = found?;
        found.phone = Some(id);
        self.call(now, owner, placement, found, out)
    }

    fn find_uri(&self, text: &str) -> Result<Found, Cause> {
        let mut found = Found::default();
        let (peer, transport) = match hop_of(text.as_bytes()).ok_or(Cause::NO_ROUTE)? {
            Hop::Address(peer, transport) => (peer, transport),
            Hop::Name(wanted) => {
                found.names.push(Named { uri: text.as_bytes().into(), wanted, group: 0 });
                return Ok(found);
            }
        };
        let path = self.locals.path(transport, peer).ok_or(Cause::NO_ROUTE)?;
        let trunk = self.directory.trunks().of_source(peer.ip());
        found.claims.extend(trunk.map(|id| self.claim_trunk(id)).transpose()?);
        found.add(Target::new(text.as_bytes().into(), path));
        Ok(found)
    }

    /// The peers of a trunk, each the spare of the one before. Those that are known to be down come
    /// last.
    fn find_trunk(&self, directory: &Directory, id: TrunkId, number: &str) -> Result<Found, Cause> {
        let trunk = directory.trunks().view(id).ok_or(Cause::NO_ROUTE)?;
        let mut found = Found::default();
        for is_reachable in [true, false] {
            for (place, hop) in trunk.peers.iter().enumerate() {
                if trunk.state.is_reachable(place) != is_reachable {
                    continue;
                }
                let uri = uri_at(hop, number);
                let group = (found.targets.len() + found.names.len()) as u16 * STRIDE;
                match hop {
                    Hop::Address(peer, transport) => {
                        let Some(path) = self.locals.path(*transport, *peer) else { continue };
                        found.add(Target { group, is_spare: true, ..Target::new(uri, path) });
                    }
                    Hop::Name(wanted) if found.names.len() < TARGETS_MAX => {
                        found.names.push(Named { uri, wanted: wanted.clone(), group });
                    }
                    Hop::Name(_) => {}
                }
            }
        }
        if found.targets.is_empty() && found.names.is_empty() {
            return Err(Cause::NO_ROUTE);
        }
        found.claims.push(self.claim_trunk(id)?);
        Ok(found)
    }

    pub(super) fn claim_trunk(&self, id: TrunkId) -> Result<Claim, Cause> {
        let most = self.directory.trunks().view(id).and_then(|trunk| trunk.calls_max);
        let has = self.trunk_calls.get(usize::from(id.0)).copied().unwrap_or(0);
        match most.is_some_and(|most| has >= most) {
            true => Err(Cause::CONGESTION),
            false => Ok(Claim::Trunk(id)),
        }
    }

    /// The contacts of endpoints. One that is not to be disturbed, or has as many calls as it may,
    /// is busy; the caller learns what says most.
    fn find_phones(
        &self,
        now: Now,
        directory: &Directory,
        ids: &[PhoneId],
    ) -> Result<Found, Cause> {
        let mut found = Found::default();
        let mut is_busy = false;
        for phone in ids.iter().filter_map(|id| directory.phone(*id)) {
            let is_full = || phone.calls_max.is_some_and(|most| phone.state.calls() >= most);
            if phone.is_dnd() || is_full() {
                is_busy = true;
            } else if self.add_contacts(now, phone, ids.len() == 1, &mut found) {
                found.claims.push(Claim::Phone(Arc::clone(&phone.state)));
            }
        }
        match (found.targets.is_empty(), is_busy) {
            (false, _) => Ok(found),
            (true, true) => Err(Cause::USER_BUSY),
            (true, false) => Err(SUBSCRIBER_ABSENT),
        }
    }

    /// Adds the contacts of an endpoint that answer, or of which nobody knows; the preferred ones
    /// first, unless they are called together with those of others.
    fn add_contacts(&self, now: Now, phone: &Phone, is_alone: bool, found: &mut Found) -> bool {
        let before = found.targets.len();
        self.shared.locations.view(phone.aor(), &mut |aor: &Aor| {
            for binding in aor.targets(now.wall) {
                let address = binding.address(phone.rewrites_contact);
                let way = binding.way();
                if binding.reach() == Reach::Unreachable || way.local.is_ipv4() != address.is_ipv4()
                {
                    continue;
                }
                let mut lines = Vec::new();
                if !binding.path_header().is_empty() {
                    lines.extend_from_slice(b"Route: ");
                    lines.extend_from_slice(binding.path_header());
                    lines.extend_from_slice(b"\r\n");
                }
                found.add(Target {
                    lines: lines.into(),
                    group: if is_alone { 1000 - binding.q() } else { 0 },
                    ..Target::new(binding.contact().into(), Path { remote: address, ..way })
                });
            }
        });
        found.targets.len() > before
    }

    /// Makes the leg and calls its first targets.
    fn call(
        &mut self,
        now: Now,
        owner: LegOwner,
        placement: Box<Placement>,
        found: Found,
        out: &mut ShardOut,
    ) -> Result<(), Cause> {
        if !found.names.is_empty() {
            return self.call_named(now, owner, placement, found, out);
        }
        let slot = self.legs.next_slot().ok_or(Cause::CONGESTION)?;
        let Found { mut targets, claims, phone, names: _ } = found;
        self.widen(&placement, &mut targets);
        let directory = Arc::clone(&self.directory);
        let phone = phone.and_then(|id| directory.phone(id));
        if let [target] = &targets[..] {
            let way = (target.path, &target.uri[..], &target.lines[..]);
            let usage = self.invite(now, slot, &placement, way, out).ok_or(Cause::CONGESTION)?;
            let onward = phone.map(|phone| Box::new(Onward::new(phone, placement)));
            self.add_leg(Leg { onward, ..Leg::new(usage, owner, claims) });
            self.be_patient(now, slot);
            return Ok(());
        }
        let onward = phone.map(|phone| Box::new(Onward::new(phone, placement.clone())));
        let set = TargetSet::new(targets.drain(..).collect());
        let fork = Some(Box::new(Fork { set, placement }));
        self.add_leg(Leg { fork, onward, ..Leg::new(NO_USAGE, owner, claims) });
        let called = self.call_next(now, slot, out);
        match called {
            Ok(()) => self.be_patient(now, slot),
            // Its owner is told by whoever asked for the leg.
            Err(_) => _ = self.remove_leg(slot),
        }
        called
    }

    /// Puts the only target's stream before it, when that is wanted.
    pub(super) fn widen(&self, placement: &Placement, targets: &mut SmallVec<[Target; 1]>) {
        let [target] = &mut targets[..] else { return };
        let Some(stream) = self.stream_instead(placement, target) else { return };
        target.group = 1;
        target.is_spare = true;
        targets.insert(0, stream);
    }

    /// The same target over TCP, when the INVITE would be too long for a datagram (RFC 3261
    /// §18.1.1); the datagram is then what is left if the peer takes no connection.
    fn stream_instead(&self, placement: &Placement, target: &Target) -> Option<Target> {
        let offer = placement.offer.as_ref().map_or(0, |(_, offer)| offer.body.len());
        let added = placement.headers.iter().map(|(name, value)| name.len() + value.len() + 4);
        let length = HEAD_BYTES + target.uri.len() * 2 + target.lines.len() + offer;
        let is_long = length + added.sum::<usize>() > DATAGRAM_MAX;
        if !is_long || target.path.transport != Transport::Udp || !self.locals.switches {
            return None;
        }
        let path = self.locals.path(Transport::Tcp, target.path.remote)?;
        Some(Target { path, group: 0, is_spare: false, ..target.clone() })
    }

    /// Sends an INVITE for the leg that is, or will be, in `slot`.
    pub(super) fn invite(
        &mut self,
        now: Now,
        slot: Slot,
        placement: &Placement,
        (path, uri, lines): (Path, &[u8], &[u8]),
        out: &mut ShardOut,
    ) -> Option<UsageId> {
        let directory = Arc::clone(&self.directory);
        let trunk = match &placement.destination.address {
            Address::Trunk { name, .. } => {
                directory.trunks().named(name).and_then(|id| directory.trunks().view(id))
            }
            Address::Uri(_) | Address::Local { .. } => None,
        };
        let own = trunk.map(|trunk| &trunk.caller_id);
        let shown = own.and_then(|own| own.number.as_deref());
        let from_user = trunk.and_then(|trunk| trunk.from_user.as_deref()).or(shown);
        let from_name = own.and_then(|own| own.name.as_deref());
        let number = &mut self.scratch.number;
        number.clear();
        escape_user(from_user.unwrap_or(&placement.caller_number).as_bytes(), number);
        let offer = placement.offer.as_ref().map(|(oid, it)| {
            (oid.0, Payload { content_type: it.content_type.clone(), bytes: it.body.clone() })
        });
        let mut all = Vec::new();
        if !placement.headers.is_empty() {
            all.extend_from_slice(lines);
            for (name, value) in &placement.headers {
                for part in [name.as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                    all.extend_from_slice(part);
                }
            }
        }
        let call = Call {
            path,
            uri,
            from_name: from_name.unwrap_or(&placement.caller_name).as_bytes(),
            from_user: number,
            hops: placement.hops,
            lines: if all.is_empty() { lines } else { &all },
            from_host: trunk.and_then(|it| it.from_domain.as_deref()).map(str::as_bytes),
            accounts: trunk.map(|trunk| &trunk.accounts),
            offer,
        };
        self.endpoint.invite(now.mono, &call, slot, &mut out.net)
    }
}

/// Where a callee may be, and whose calls these are.
#[derive(Default)]
pub(super) struct Found {
    pub(super) targets: SmallVec<[Target; 1]>,
    /// Targets that must be looked up first.
    pub(super) names: Vec<Named>,
    pub(super) claims: SmallVec<[Claim; 1]>,
    /// The one phone that is called.
    phone: Option<PhoneId>,
}

impl Found {
    fn add(&mut self, target: Target) {
        if self.targets.len() < TARGETS_MAX {
            self.targets.push(target);
        }
    }
}

/// The longest request that is sent in a datagram when nobody knows the path's MTU (RFC 3261
/// §18.1.1).
const DATAGRAM_MAX: usize = 1_300;

/// What an INVITE of ours has beside its URIs, its body and further lines.
const HEAD_BYTES: usize = 500;

/// The Request-URI for a number at a peer. One with a name keeps the name (RFC 3261 §8.1.2).
fn uri_at(hop: &Hop, number: &str) -> Box<[u8]> {
    let mut uri = b"sip:".to_vec();
    if !number.is_empty() {
        escape_user(number.as_bytes(), &mut uri);
        uri.push(b'@');
    }
    let transport = match hop {
        Hop::Address(peer, transport) => {
            push_address(&mut uri, *peer);
            Some(*transport)
        }
        Hop::Name(wanted) => {
            uri.extend_from_slice(wanted.host.as_bytes());
            if let Some(port) = wanted.port {
                uri.extend_from_slice(format!(":{port}").as_bytes());
            }
            wanted.transport
        }
    };
    if transport == Some(Transport::Tcp) {
        uri.extend_from_slice(b";transport=tcp");
    }
    uri.into()
}

/// The transport that a URI names; UDP when it names none.
pub(crate) fn transport_of(uri: &Uri<'_>) -> Transport {
    let named = uri.params.find(b"transport").flatten();
    let is = |word: &[u8]| named.is_some_and(|named| named.eq_ignore_ascii_case(word));
    if is(b"tcp") { Transport::Tcp } else { Transport::Udp }
}

/// The target as a plan writes it.
pub(super) fn target_text(destination: &Destination) -> String {
    let technology = destination.technology.name();
    match &destination.address {
        Address::Trunk { name, number: Some(number) } => format!("{technology}/{name}/{number}"),
        Address::Trunk { name, number: None } => format!("{technology}/{name}"),
        Address::Uri(uri) => uri.to_string(),
        Address::Local { number, context } => format!("{technology}/{number}@{context}"),
    }
}
