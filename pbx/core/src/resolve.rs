//! Host names that wait to be looked up (RFC 3263): an effect of a shard, answered by an event.

use crate::Hop;

/// A look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Names the look-up in its answer.
    pub token: u64,
    /// What to look up: a [`Hop::Name`].
    pub hop: Hop,
}
