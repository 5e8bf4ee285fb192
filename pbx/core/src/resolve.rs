//! Host names that wait to be looked up (RFC 3263): an effect of a shard, answered by an event.
//!
//! A shard never asks the DNS. It says a [`Query`] into its output and goes on; whoever drives it
//! answers by [`Shard::resolved`]. A query that nobody answers in [`LOOKUP_WAIT`] counts as
//! answered with silence; of one that nobody waits for any more, the answer is not looked at.

use std::collections::BTreeMap;
use std::time::Duration;

use sip::dialog::uri_address;
use sip::locate::{Located, Wanted, Ways};
use sip::wire::{Scheme, Uri};
use turn::{Mono, Now, Slot, Wheel};

use crate::legs::transport_of;
use crate::shard::{Locals, Shard};
use crate::{Fact, Hop, ShardOut};

/// Look-ups that wait at one time; a leg that needs another one is refused for congestion. While
/// the DNS is silent, it is a second's worth of 1,000 calls, for as long as each waits.
pub const LOOKUPS_MAX: usize = 4_096;

/// How long a leg waits for an answer: a caller has heard nothing yet.
pub const LOOKUP_WAIT: Duration = Duration::from_secs(4);

/// A look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Names the look-up in its answer.
    pub token: u64,
    /// What to look up.
    pub wanted: Wanted,
    /// What we can send by.
    pub ways: Ways,
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A leg.
    Leg(Slot),
    /// A line to a trunk, by its serial.
    Line(u32),
}

/// The look-ups of a shard that have no answer yet.
#[derive(Debug)]
pub(crate) struct Lookups {
    waiting: BTreeMap<u64, (Asker, Box<str>)>,
    token: u64,
    wheel: Wheel<u64>,
}

impl Lookups {
    pub(crate) fn new(start: Mono) -> Self {
        Self { waiting: BTreeMap::new(), token: 0, wheel: Wheel::new(start) }
    }

    pub(crate) fn next_timeout(&self) -> Option<Mono> {
        self.wheel.next_timeout()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Nobody waits for it any more.
    pub(crate) fn forget(&mut self, token: u64) {
        self.waiting.remove(&token);
    }
}

impl Locals {
    /// What we can send by, as far as it is known for all peers.
    pub fn ways(&self) -> Ways {
        Ways {
            udp: self.v4.is_some() || self.v6.is_some(),
            tcp: self.tcp_v4.is_some() || self.tcp_v6.is_some(),
            v4: self.v4.is_some() || self.tcp_v4.is_some(),
            v6: self.v6.is_some() || self.tcp_v6.is_some(),
        }
    }
}

/// Where a SIP URI leads: an address, or a name to be looked up.
pub(crate) fn hop_of(text: &[u8]) -> Option<Hop> {
    let uri = Uri::parse(text).ok().filter(|uri| uri.scheme == Scheme::Sip)?;
    if let Some(address) = uri_address(text) {
        return Some(Hop::Address(address, transport_of(&uri)));
    }
    let host = uri.params.find(b"maddr").flatten().unwrap_or(uri.host);
    let host = std::str::from_utf8(host).ok()?;
    let is_named = uri.params.find(b"transport").is_some();
    let transport = is_named.then(|| transport_of(&uri));
    Some(Hop::Name(Wanted { host: host.into(), port: uri.port, transport }))
}

impl Shard {
    /// The answer to a [`Query`].
    pub fn resolved(&mut self, now: Now, token: u64, located: &Located, out: &mut ShardOut) {
        self.on_located(now, token, located, out);
        self.settle(now, out);
    }

    /// Asks where a host is. `None`: too many wait already.
    pub(crate) fn look_up(
        &mut self,
        now: Now,
        wanted: &Wanted,
        asker: Asker,
        out: &mut ShardOut,
    ) -> Option<u64> {
        if self.lookups.waiting.len() >= LOOKUPS_MAX {
            self.counts.lookups_full += 1;
            return None;
        }
        self.counts.lookups += 1;
        self.lookups.token += 1;
        let token = self.lookups.token;
        self.lookups.waiting.insert(token, (asker, wanted.host.clone()));
        self.lookups.wheel.arm(now.mono + LOOKUP_WAIT, token);
        out.queries.push(Query { token, wanted: wanted.clone(), ways: self.locals.ways() });
        Some(token)
    }

    /// Look-ups that nobody answered count as silence.
    pub(crate) fn fire_lookups(&mut self, now: Now, out: &mut ShardOut) {
        let mut due = Vec::new();
        self.lookups.wheel.fire(now.mono, &mut due);
        for token in due {
            self.on_located(now, token, &Located::Silent, out);
        }
    }

    fn on_located(&mut self, now: Now, token: u64, located: &Located, out: &mut ShardOut) {
        let Some((asker, name)) = self.lookups.waiting.remove(&token) else { return };
        match located {
            Located::Found(_) => {}
            Located::Unknown => {
                self.counts.lookups_unknown += 1;
                out.facts.push(Fact::NotLocated { name, is_silent: false });
            }
            Located::Silent => {
                self.counts.lookups_silent += 1;
                out.facts.push(Fact::NotLocated { name, is_silent: true });
            }
        }
        match asker {
            Asker::Leg(slot) => self.on_leg_located(now, slot, (token, located), out),
            Asker::Line(serial) => self.on_line_located(now, serial, located, out),
        }
    }
}
