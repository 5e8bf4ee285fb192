//! Trunks: peers known by their address, and how they are found.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use call::Endpoint;

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

/// A peer that is known by its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// Its name, channel name and dialplan context.
    pub endpoint: Arc<Endpoint>,
    /// Where its calls come from. Nobody else is let in.
    pub sources: Vec<Prefix>,
    /// Where calls to it go; `None` for one that only calls us.
    pub peer: Option<SocketAddr>,
    /// Calls at a time, both ways together, on one shard.
    pub calls_max: Option<u32>,
    /// The shard that holds all outbound legs of this trunk, so that one shard judges its limit;
    /// `None` lets each shard place its own.
    pub owner: Option<u8>,
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
}
