//! Outbound SIP legs: where a Dial target is, and the INVITE to it.
//!
//! A target is a trunk of the configuration or a SIP URI with an address. Host names need the
//! look-ups of RFC 3263, which come with the next issue: until then they are refused.

use std::net::SocketAddr;

use ::sip::agent::push_address;
use ::sip::dialog::uri_address;
use ::sip::path::{Path, Transport};
use ::sip::usage::{Call, Payload};
use ::sip::wire::{Scheme, Uri, escape_user};
use call::{Cause, Placement};
use dialplan::Address;
use turn::{Now, Slot};

use super::Leg;
use crate::remote::LegOwner;
use crate::shard::Shard;
use crate::{Fact, ShardOut, TrunkId};

impl Shard {
    /// The shard that a new leg belongs on, if it matters.
    pub(super) fn shard_of_placement(&self, placement: &Placement) -> Option<u8> {
        match &placement.destination.address {
            Address::Trunk { name, .. } => self.trunks.view(self.trunks.named(name)?)?.owner,
            Address::Uri(_) => None,
        }
    }

    /// Calls the target. The error is the cause for the call.
    pub(super) fn place(
        &mut self,
        now: Now,
        owner: LegOwner,
        placement: &Placement,
        out: &mut ShardOut,
    ) -> Result<(), Cause> {
        let mut uri = std::mem::take(&mut self.scratch.uri);
        uri.clear();
        let found = self.route(placement, &mut uri);
        let placed = match found {
            Some((path, trunk)) => self.call(now, owner, placement, (path, trunk, &uri), out),
            None => {
                let target = target_text(&placement.destination.address).into();
                out.facts.push(Fact::Unroutable { target });
                Err(Cause::NO_ROUTE)
            }
        };
        self.scratch.uri = uri;
        placed
    }

    /// Writes the Request-URI and finds the way.
    fn route(&self, placement: &Placement, uri: &mut Vec<u8>) -> Option<(Path, Option<TrunkId>)> {
        match &placement.destination.address {
            Address::Trunk { name, number } => {
                let id = self.trunks.named(name)?;
                let peer = self.trunks.view(id)?.peer?;
                uri.extend_from_slice(b"sip:");
                if let Some(number) = number.as_deref().filter(|number| !number.is_empty()) {
                    escape_user(number.as_bytes(), uri);
                    uri.push(b'@');
                }
                push_address(uri, peer);
                Some((self.path_to(peer)?, Some(id)))
            }
            Address::Uri(text) => {
                let parsed = Uri::parse(text.as_bytes()).ok()?;
                let peer = uri_address(text.as_bytes()).filter(|_| parsed.scheme == Scheme::Sip)?;
                uri.extend_from_slice(text.as_bytes());
                Some((self.path_to(peer)?, self.trunks.of_source(peer.ip())))
            }
        }
    }

    fn path_to(&self, remote: SocketAddr) -> Option<Path> {
        let local = if remote.is_ipv4() { self.locals.v4 } else { self.locals.v6 };
        Some(Path { transport: Transport::Udp, local: local?, remote })
    }

    fn call(
        &mut self,
        now: Now,
        owner: LegOwner,
        placement: &Placement,
        (path, trunk, uri): (Path, Option<TrunkId>, &[u8]),
        out: &mut ShardOut,
    ) -> Result<(), Cause> {
        if self.is_full(trunk) {
            return Err(Cause::CONGESTION);
        }
        let number = &mut self.scratch.number;
        number.clear();
        escape_user(placement.caller_number.as_bytes(), number);
        let offer = placement.offer.as_ref().map(|(oid, it)| {
            (oid.0, Payload { content_type: it.content_type.clone(), bytes: it.body.clone() })
        });
        let call = Call {
            path,
            uri,
            from_name: placement.caller_name.as_bytes(),
            from_user: number,
            hops: placement.hops,
            offer,
        };
        let slot: Slot = self.legs.next_slot().ok_or(Cause::CONGESTION)?;
        let usage = self.endpoint.invite(now.mono, &call, slot, &mut out.net);
        let usage = usage.ok_or(Cause::CONGESTION)?;
        let added = self.add_leg(Leg { usage, owner, trunk });
        debug_assert_eq!(added, Some(slot), "the table said that this place is next");
        Ok(())
    }

    fn is_full(&self, trunk: Option<TrunkId>) -> bool {
        let Some(id) = trunk else { return false };
        let most = self.trunks.view(id).and_then(|trunk| trunk.calls_max);
        let has = self.trunk_calls.get(usize::from(id.0)).copied().unwrap_or(0);
        most.is_some_and(|most| has >= most)
    }
}

fn target_text(address: &Address<Box<str>>) -> String {
    match address {
        Address::Trunk { name, number: Some(number) } => format!("SIP/{name}/{number}"),
        Address::Trunk { name, number: None } => format!("SIP/{name}"),
        Address::Uri(uri) => uri.to_string(),
    }
}
