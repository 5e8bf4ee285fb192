//! Which shard a datagram belongs to (DESIGN 3.1): our branch in a response, our tag in a
//! request's To, a Call-ID that we minted; for everything else a keyed hash of the Call-ID.

use sip::mint::{Minted, Minter};
use sip::usage::tag_stem;
use sip::wire::peek;
use turn::HashKey;

/// How many parts the hash space is cut into; each belongs to one shard.
const BUCKETS: usize = 256;

/// Finds the shard of a datagram. The same on all shards; needs no state of any.
#[derive(Clone, Debug)]
pub struct Router {
    minter: Minter,
    key: HashKey,
    shards: u8,
    buckets: Box<[u8; BUCKETS]>,
}

impl Router {
    /// For `shards` shards that share `epoch` and the two keys.
    pub fn new(epoch: u16, shards: u8, mint_key: HashKey, key: HashKey) -> Self {
        let shards = shards.max(1);
        let mut buckets = Box::new([0; BUCKETS]);
        for (at, bucket) in buckets.iter_mut().enumerate() {
            *bucket = (at % usize::from(shards)) as u8;
        }
        Self { minter: Minter::new(epoch, 0, mint_key), key, shards, buckets }
    }

    /// The shard that must see `bytes`. What is no SIP message at all goes to shard 0, which says
    /// so.
    pub fn route(&self, bytes: &[u8]) -> u8 {
        if self.shards == 1 {
            return 0;
        }
        let Some(seen) = peek(bytes) else { return 0 };
        let handle = if seen.is_response {
            self.minter.shard_of(Minted::Branch, seen.top_branch)
        } else {
            let tag = seen.to_tag.map(tag_stem);
            tag.and_then(|tag| self.minter.shard_of(Minted::Tag, tag))
        };
        handle
            .or_else(|| self.minter.shard_of(Minted::CallId, seen.call_id))
            .filter(|shard| *shard < self.shards)
            .unwrap_or_else(|| self.bucket(seen.call_id))
    }

    fn bucket(&self, call_id: &[u8]) -> u8 {
        self.buckets[self.key.hash(call_id) as usize % BUCKETS]
    }
}
