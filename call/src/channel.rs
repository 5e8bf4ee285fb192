//! The name of a leg as Asterisk's users know it (`SIP/trunk-a-0000001a`), rendered when read.

use std::fmt;
use std::sync::Arc;

use crate::leg::Endpoint;

/// What stands in front of the number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stem {
    Endpoint(Arc<Endpoint>),
    Named(Arc<str>),
}

/// A leg's name. Cheap to clone; `Display` renders it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    pub(crate) stem: Stem,
    pub(crate) number: u32,
    pub(crate) call: CallNumber,
}

impl Channel {
    /// The number of the call that the leg belongs to.
    pub fn call(&self) -> CallNumber {
        self.call
    }

    /// The name without its number, such as `SIP/trunk-a`.
    pub fn stem(&self) -> &str {
        match &self.stem {
            Stem::Endpoint(endpoint) => &endpoint.channel,
            Stem::Named(name) => name,
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:08x}", self.stem(), self.number)
    }
}

/// A call's number, `C-0000001a` in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallNumber(pub u32);

impl fmt::Display for CallNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "C-{:08x}", self.0)
    }
}

/// How a shard numbers its channels and calls so that no two shards use the same number.
#[derive(Clone, Debug)]
pub struct Naming {
    /// The system's name, which leads each unique id; empty for none.
    pub system: Arc<str>,
    /// This shard's number, from 0.
    pub shard: u8,
    /// How many shards there are.
    pub shards: u8,
}

/// Hands out the numbers of one shard: each is the shard's number modulo the number of shards.
/// After 2^32 channels they begin again; the unique id's second tells them apart.
#[derive(Debug)]
pub(crate) struct Numbers {
    next_channel: u32,
    next_call: u32,
    stride: u32,
}

impl Numbers {
    pub(crate) fn new(naming: &Naming) -> Self {
        let first = u32::from(naming.shard);
        Self { next_channel: first, next_call: first, stride: u32::from(naming.shards.max(1)) }
    }

    pub(crate) fn channel(&mut self) -> u32 {
        let number = self.next_channel;
        self.next_channel = number.wrapping_add(self.stride);
        number
    }

    pub(crate) fn call(&mut self) -> CallNumber {
        let number = self.next_call;
        self.next_call = number.wrapping_add(self.stride);
        CallNumber(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_look_like_asterisks_and_shards_never_share_one() {
        let naming = |shard| Naming { system: "".into(), shard, shards: 2 };
        let (mut zero, mut one) = (Numbers::new(&naming(0)), Numbers::new(&naming(1)));
        let drawn = [zero.channel(), one.channel(), zero.channel(), one.channel()];
        assert_eq!(drawn, [0, 1, 2, 3]);
        let stem = Stem::Named("SIP/trunk-a".into());
        let channel = Channel { stem, number: 0x1a, call: CallNumber(3) };
        assert_eq!(channel.to_string(), "SIP/trunk-a-0000001a");
        assert_eq!(channel.call().to_string(), "C-00000003");
    }
}
