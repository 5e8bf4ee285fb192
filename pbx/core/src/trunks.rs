//! Trunks: peers known by their address, and how they are found.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

use call::Endpoint;
use sip::digest::Account;
use sip::registration::RegistrationConfig;

use crate::directory::{CallerId, Hop, QualifySpec};

/// A network: an address and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// `None` when there are more bits than the address has.
    pub fn new(address: IpAddr, bits: u8) -> Option<Self> {
        let width = if address.is_ipv4() { 32 } else { 128 };
        (bits <= width).then_some(Self { address: address.to_canonical(), bits })
    }

    /// Whether it is so wide that whoever comes from it is a stranger all the same: fewer bits
    /// than the largest networks that one owner has (8, of IPv6 16).
    pub fn is_public(&self) -> bool {
        self.bits < if self.address.is_ipv4() { 8 } else { 16 }
    }

    /// A single address.
    pub fn host(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// Whether `address` lies in it. An IPv4 address in IPv6 clothes is the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(ip)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                net.to_bits() & mask == ip.to_bits() & mask
            }
            (IpAddr::V6(net), IpAddr::V6(ip)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                net.to_bits() & mask == ip.to_bits() & mask
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// A peer that is known by its address, or that we register with.
#[derive(Clone, Debug)]
pub struct Trunk {
    /// Its name, channel name and dialplan context.
    pub endpoint: Arc<Endpoint>,
    /// Where its calls come from. Nobody else is let in.
    pub sources: Vec<Prefix>,
    /// Where calls to it go: the first that is there. Empty for one that only calls us.
    pub peers: Vec<Hop>,
    /// Calls at a time, both ways together, on one shard.
    pub calls_max: Option<u32>,
    /// The shard that holds all outbound legs of this trunk, so that one shard judges its limit;
    /// `None` lets each shard place its own.
    pub owner: Option<u8>,
    /// What we answer its challenges with.
    pub accounts: Arc<[Account]>,
    /// How we register with it, if we do.
    pub registration: Option<Arc<RegistrationConfig>>,
    /// Whether and when its peers are asked whether they are there.
    pub qualify: Option<QualifySpec>,
    /// The user part of From in calls to it, in place of the caller's number.
    pub from_user: Option<Box<str>>,
    /// The host part of From in calls to it, in place of our address.
    pub from_domain: Option<Box<str>>,
    /// The identity that calls to it show where the caller's is not wanted.
    pub caller_id: CallerId,
    /// What lives on.
    pub state: Arc<TrunkState>,
}

impl Trunk {
    /// A trunk that nobody calls from and that cannot be called; for `..` in a literal.
    pub fn named(endpoint: Arc<Endpoint>) -> Self {
        Self {
            endpoint,
            sources: Vec::new(),
            peers: Vec::new(),
            calls_max: None,
            owner: None,
            accounts: Arc::new([]),
            registration: None,
            qualify: None,
            from_user: None,
            from_domain: None,
            caller_id: CallerId::default(),
            state: Arc::default(),
        }
    }

    /// Whether `source` may call by this trunk only because anybody may.
    pub fn is_open_to(&self, source: IpAddr) -> bool {
        let mut fitting = self.sources.iter().filter(|prefix| prefix.contains(source)).peekable();
        fitting.peek().is_some() && fitting.all(Prefix::is_public)
    }
}

/// How a registration with a trunk stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Registered {
    /// It is not wanted.
    #[default]
    No,
    /// The first REGISTER is under way.
    Trying,
    /// The registrar knows us.
    Yes,
    /// The registrar refuses us, or what it says makes no sense; we try again later.
    Refused,
    /// The registrar does not answer; we try again later.
    Silent,
}

impl Registered {
    /// As `pjsip show registrations` calls it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::No | Self::Trying => "Unregistered",
            Self::Yes => "Registered",
            Self::Refused | Self::Silent => "Rejected",
        }
    }

    const fn of_code(code: u8) -> Self {
        match code {
            1 => Self::Trying,
            2 => Self::Yes,
            3 => Self::Refused,
            4 => Self::Silent,
            _ => Self::No,
        }
    }
}

/// What lives on through a reload, and what all shards see of a trunk.
#[derive(Debug, Default)]
pub struct TrunkState {
    registered: AtomicU8,
    /// Seconds since the Unix epoch.
    registered_until: AtomicI64,
    /// A bit for each peer that does not answer.
    unreachable: AtomicU32,
    /// Of the peer that answered last.
    rtt_us: AtomicU32,
}

impl TrunkState {
    /// How the registration stands, and until when it is good (seconds since the Unix epoch).
    pub fn registration(&self) -> (Registered, i64) {
        let registered = Registered::of_code(self.registered.load(Ordering::Relaxed));
        (registered, self.registered_until.load(Ordering::Relaxed))
    }

    /// Says how the registration stands.
    pub fn set_registration(&self, registered: Registered, until_s: i64) {
        self.registered.store(registered as u8, Ordering::Relaxed);
        self.registered_until.store(until_s, Ordering::Relaxed);
    }

    /// Whether any of that many peers answers, as far as is known.
    pub fn is_any_reachable(&self, peers: usize) -> bool {
        (0..peers).any(|peer| self.is_reachable(peer))
    }

    /// Whether the peer at that place of the list answers, as far as is known.
    pub fn is_reachable(&self, peer: usize) -> bool {
        peer >= 32 || self.unreachable.load(Ordering::Relaxed) & 1 << peer == 0
    }

    /// Says whether a peer answers, and how fast.
    pub fn set_reachable(&self, peer: usize, rtt: Option<Duration>) {
        if peer >= 32 {
            return;
        }
        match rtt {
            Some(rtt) => {
                self.unreachable.fetch_and(!(1 << peer), Ordering::Relaxed);
                let rtt_us = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
                self.rtt_us.store(rtt_us, Ordering::Relaxed);
            }
            None => _ = self.unreachable.fetch_or(1 << peer, Ordering::Relaxed),
        }
    }

    /// The round trip to the peer that answered last; zero before the first answer.
    pub fn rtt(&self) -> Duration {
        Duration::from_micros(self.rtt_us.load(Ordering::Relaxed).into())
    }
}

/// Names a trunk in its [`Trunks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrunkId(pub u16);

/// All trunks of a configuration, in its order: the first whose sources fit wins.
#[derive(Clone, Debug, Default)]
pub struct Trunks {
    trunks: Vec<Trunk>,
}

/// Most trunks of a configuration: they are searched one after the other for each new call.
pub const TRUNKS_MAX: usize = 1_024;

impl Trunks {
    /// The first [`TRUNKS_MAX`] of `trunks`; the configuration refuses more.
    pub fn new(mut trunks: Vec<Trunk>) -> Self {
        trunks.truncate(TRUNKS_MAX);
        Self { trunks }
    }

    /// The trunk that calls from `source`.
    pub fn of_source(&self, source: IpAddr) -> Option<TrunkId> {
        let is_it = |trunk: &Trunk| trunk.sources.iter().any(|prefix| prefix.contains(source));
        self.trunks.iter().position(is_it).map(id)
    }

    /// The trunk with that name.
    pub fn named(&self, name: &str) -> Option<TrunkId> {
        self.trunks.iter().position(|trunk| &*trunk.endpoint.name == name).map(id)
    }

    /// A trunk by its id; `None` for the id of another configuration.
    pub fn view(&self, id: TrunkId) -> Option<&Trunk> {
        self.trunks.get(usize::from(id.0))
    }

    /// All with their ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = (TrunkId, &Trunk)> {
        self.trunks.iter().enumerate().map(|(at, trunk)| (id(at), trunk))
    }

    /// Takes the living state of trunks with the same name over from `old`.
    pub(crate) fn inherit(&mut self, old: &Self) {
        for trunk in &mut self.trunks {
            if let Some(before) = old.named(&trunk.endpoint.name).and_then(|id| old.view(id)) {
                trunk.state = Arc::clone(&before.state);
            }
        }
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Trunk> {
        self.trunks.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.trunks.len()
    }

    /// Whether there is none: then nobody is let in.
    pub fn is_empty(&self) -> bool {
        self.trunks.is_empty()
    }
}

fn id(at: usize) -> TrunkId {
    TrunkId(u16::try_from(at).expect("TRUNKS_MAX is below 65,536"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str, bits: u8) -> Prefix {
        Prefix::new(text.parse().unwrap(), bits).unwrap()
    }

    #[test]
    fn prefixes_hold_their_network_only() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(prefix("127.0.0.0", 8).contains(ip("127.9.9.9")));
        assert!(!prefix("127.0.0.0", 8).contains(ip("128.0.0.1")));
        assert!(prefix("0.0.0.0", 0).contains(ip("192.0.2.1")));
        assert!(!prefix("0.0.0.0", 0).contains(ip("2001:db8::1")));
        assert!(prefix("2001:db8::", 32).contains(ip("2001:db8:1::1")));
        assert!(!prefix("2001:db8::", 32).contains(ip("2001:db9::1")));
        assert!(prefix("127.0.0.1", 32).contains(ip("::ffff:127.0.0.1")));
        assert_eq!(Prefix::new(ip("127.0.0.1"), 33), None);
    }

    #[test]
    fn a_trunk_for_everybody_knows_nobody() {
        let endpoint = Endpoint { channel: "".into(), name: "".into(), context: "".into() };
        let open = Trunk {
            sources: vec![prefix("0.0.0.0", 0), prefix("192.0.2.0", 24), prefix("2000::", 3)],
            ..Trunk::named(Arc::new(endpoint))
        };
        let is_open = |text: &str| open.is_open_to(text.parse().unwrap());
        assert!(is_open("198.51.100.1") && is_open("2001:db8::1"));
        assert!(!is_open("192.0.2.1"), "known by a narrower network");
        assert!(!is_open("fd00::1"), "not let in at all");
        assert!(!prefix("10.0.0.0", 8).is_public() && !prefix("fd00::", 16).is_public());
    }
}
