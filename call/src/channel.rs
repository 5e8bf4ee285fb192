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

    /// The number at the end of its name.
    pub fn number(&self) -> u32 {
        self.number
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

/// Stems of outbound legs that are kept to be shared: a system has some dozens of trunks.
const STEMS_MAX: usize = 32;

/// The stems of the last targets, so that each call to a trunk does not make its own.
#[derive(Debug, Default)]
pub(crate) struct Stems {
    known: Vec<Arc<str>>,
    oldest: usize,
}

impl Stems {
    /// `TECHNOLOGY/PLACE`.
    pub(crate) fn stem(&mut self, technology: &str, place: &str) -> Stem {
        let is_it = |stem: &&Arc<str>| {
            let rest = stem.strip_prefix(technology).and_then(|rest| rest.strip_prefix('/'));
            rest == Some(place)
        };
        if let Some(stem) = self.known.iter().find(is_it) {
            return Stem::Named(Arc::clone(stem));
        }
        let stem: Arc<str> = format!("{technology}/{place}").into();
        if self.known.len() < STEMS_MAX {
            self.known.push(Arc::clone(&stem));
        } else {
            self.known[self.oldest] = Arc::clone(&stem);
            self.oldest = (self.oldest + 1) % STEMS_MAX;
        }
        Stem::Named(stem)
    }
}

/// Hands out the numbers of one shard: each is the shard's number modulo the number of shards.
/// After 2^32 channels they begin again; the unique id's second tells them apart. Calls begin one
/// higher, since the log shows no call for number 0.
#[derive(Debug)]
pub(crate) struct Numbers {
    next_channel: u32,
    next_call: u32,
    stride: u32,
    pub(crate) stems: Stems,
}

impl Numbers {
    pub(crate) fn new(naming: &Naming) -> Self {
        let first = u32::from(naming.shard);
        let stride = u32::from(naming.shards.max(1));
        Self { next_channel: first, next_call: first + 1, stride, stems: Stems::default() }
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
    fn stems_are_shared_and_their_store_is_bounded() {
        let mut stems = Stems::default();
        let first = stems.stem("SIP", "trunk-a");
        assert_eq!(stems.stem("SIP", "trunk-a"), first);
        for n in 0..100 {
            assert_eq!(stems.stem("SIP", &n.to_string()), Stem::Named(format!("SIP/{n}").into()));
        }
        assert_eq!(stems.known.len(), STEMS_MAX);
        assert_eq!(stems.stem("SIP", "trunk-a"), first);
    }

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
