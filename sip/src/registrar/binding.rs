//! Bindings, and the address that has them.

use std::net::SocketAddr;
use std::time::Duration;

use turn::Wall;

use crate::dialog::{route_uri, uri_address};
use crate::path::Path;
use crate::wire::Values;

/// Whether a contact answers, as far as somebody has asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Nobody has asked.
    #[default]
    Unknown,
    /// It does, after so many microseconds.
    Reachable {
        /// The round trip.
        rtt_us: u32,
    },
    /// It does not.
    Unreachable,
}

/// Where an endpoint can be reached, until when, and how it said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Contact, Call-ID, instance, Path and User-Agent, one behind the other.
    text: Box<[u8]>,
    /// Where each of the first four ends.
    ends: [u16; 4],
    reg_id: u32,
    cseq: u32,
    q: u16,
    pub(super) serial: u32,
    keeper: u8,
    reach: Reach,
    expires_at: Wall,
    registered_at: Wall,
    way: Path,
}

/// What a binding is made of. Each text is at most [`super::TEXT_MAX`] long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) contact: &'a [u8],
    pub(super) call_id: &'a [u8],
    pub(super) instance: &'a [u8],
    pub(super) path: &'a [u8],
    pub(super) user_agent: &'a [u8],
    pub(super) reg_id: u32,
    pub(super) cseq: u32,
    pub(super) q: u16,
    pub(super) keeper: u8,
    pub(super) expires_at: Wall,
    pub(super) registered_at: Wall,
    pub(super) way: Path,
}

impl Binding {
    pub(super) fn new(parts: &Parts<'_>) -> Self {
        let texts = [parts.contact, parts.call_id, parts.instance, parts.path, parts.user_agent];
        let mut ends = [0; 4];
        let mut end = 0;
        for (place, text) in ends.iter_mut().zip(texts) {
            end += text.len();
            *place = u16::try_from(end).unwrap_or(u16::MAX);
        }
        Self {
            text: texts.concat().into(),
            ends,
            reg_id: parts.reg_id,
            cseq: parts.cseq,
            q: parts.q,
            serial: 0,
            keeper: parts.keeper,
            reach: Reach::Unknown,
            expires_at: parts.expires_at,
            registered_at: parts.registered_at,
            way: parts.way,
        }
    }

    fn part(&self, number: usize) -> &[u8] {
        let end = |number: usize| self.ends.get(number).map_or(self.text.len(), |at| (*at).into());
        let start = number.checked_sub(1).map_or(0, end);
        &self.text[start..end(number)]
    }

    /// The contact's URI.
    pub fn contact(&self) -> &[u8] {
        self.part(0)
    }

    /// The Call-ID of the REGISTER that made it.
    pub fn call_id(&self) -> &[u8] {
        self.part(1)
    }

    /// The value of `+sip.instance`, with its quotes; empty for none.
    pub fn instance(&self) -> &[u8] {
        self.part(2)
    }

    /// The values of Path as a list; empty for none.
    pub fn path_header(&self) -> &[u8] {
        self.part(3)
    }

    /// The User-Agent; empty for none.
    pub fn user_agent(&self) -> &[u8] {
        self.part(4)
    }

    /// `reg-id`; 0 for none.
    pub fn reg_id(&self) -> u32 {
        self.reg_id
    }

    /// The CSeq number of the REGISTER that made it.
    pub fn cseq(&self) -> u32 {
        self.cseq
    }

    /// Its preference, from 0 to 1000.
    pub fn q(&self) -> u16 {
        self.q
    }

    /// Until when it is good.
    pub fn expires_at(&self) -> Wall {
        self.expires_at
    }

    /// When it was made or refreshed.
    pub fn registered_at(&self) -> Wall {
        self.registered_at
    }

    /// The way of the REGISTER that made it: where it came from, and which of our addresses it hit.
    pub fn way(&self) -> Path {
        self.way
    }

    /// The shard that accepted it last.
    pub fn keeper(&self) -> u8 {
        self.keeper
    }

    /// Whether it answers.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// Names this state of the binding: another one after each change.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// Where its requests go. Over a stream that is the connection that it registered by. Over UDP
    /// it is the first proxy of its path (RFC 3327 §5.3), else the address that its contact names,
    /// or the one that it came from if `rewrites` says so. A proxy or a contact with a host name is
    /// reached where the REGISTER came from as well: the last proxy has put itself first into the
    /// path, and a phone's own name is seldom in the DNS.
    pub fn address(&self, rewrites: bool) -> SocketAddr {
        if rewrites || self.way.transport.is_reliable() {
            return self.way.remote;
        }
        let first = Values::new(self.path_header()).next();
        uri_address(first.map_or(self.contact(), route_uri)).unwrap_or(self.way.remote)
    }
}

/// An address of record: its bindings, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aor {
    pub(super) bindings: Vec<Binding>,
    serial: u32,
}

impl Aor {
    /// Whether nobody can be reached.
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty()
    }

    /// Bytes that it takes, what the allocator adds included (about 16 for each piece).
    pub fn footprint(&self) -> usize {
        let texts: usize = self.bindings.iter().map(|it| it.text.len() + 16).sum();
        size_of::<Self>() + self.bindings.capacity() * size_of::<Binding>() + 16 + texts
    }

    /// The bindings, the oldest first.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// The bindings that are good at `now`, the preferred ones first; of one preference the newest
    /// first.
    pub fn targets(&self, now: Wall) -> Vec<&Binding> {
        let mut targets: Vec<&Binding> =
            self.bindings.iter().filter(|binding| binding.expires_at > now).collect();
        targets.sort_by_key(|binding| {
            (std::cmp::Reverse(binding.q), std::cmp::Reverse(binding.registered_at))
        });
        targets
    }

    /// A binding by its serial.
    pub fn binding(&self, serial: u32) -> Option<&Binding> {
        self.bindings.iter().find(|binding| binding.serial == serial)
    }

    /// Gives all bindings to a shard: after a start.
    pub fn set_keeper(&mut self, keeper: u8) {
        self.bindings.iter_mut().for_each(|binding| binding.keeper = keeper);
    }

    /// Whether that shard looks after one of the bindings.
    pub fn is_kept_by(&self, keeper: u8) -> bool {
        self.bindings.iter().any(|binding| binding.keeper == keeper)
    }

    /// When the first of the bindings is over.
    pub fn next_expiry(&self) -> Option<Wall> {
        self.bindings.iter().map(|binding| binding.expires_at).min()
    }

    /// Takes the bindings out that are over.
    pub fn expire(&mut self, now: Wall) -> Vec<Binding> {
        self.remove(|binding| binding.expires_at <= now)
    }

    /// Takes bindings out.
    pub fn remove(&mut self, mut is_meant: impl FnMut(&Binding) -> bool) -> Vec<Binding> {
        self.bindings.extract_if(.., |binding| is_meant(binding)).collect()
    }

    /// Says whether a binding answers, unless it has changed since. `false`: it has.
    pub fn mark(&mut self, serial: u32, reach: Reach) -> bool {
        let found = self.bindings.iter_mut().find(|binding| binding.serial == serial);
        found.map(|binding| binding.reach = reach).is_some()
    }

    /// Puts a binding in that was written down, in place of an older one with the same contact.
    pub fn restore(&mut self, mut binding: Binding) {
        self.bindings.retain(|it| it.contact() != binding.contact());
        binding.serial = self.next_serial();
        self.bindings.reserve_exact(1);
        self.bindings.push(binding);
    }

    pub(super) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }
}

/// Time from `now` until `until`; zero when that is past.
pub(super) fn left(now: Wall, until: Wall) -> Duration {
    let micros = until.as_micros().saturating_sub(now.as_micros());
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
