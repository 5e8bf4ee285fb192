//! Legs on other shards.
//!
//! A call and its interpreter never move; a leg may live on the shard that owns its trunk. The
//! call's shard sends it commands, it sends its events back. Both are addressed by the owner's
//! name for the leg, so nobody waits for an acknowledgement of the placing.

use call::{LegCommand, LegEvent, LegId};

/// Whose leg it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LegOwner {
    /// The shard of the call.
    pub shard: u8,
    /// The leg, as the call calls it.
    pub leg: LegId,
}

impl LegOwner {
    /// A number for tables: shard, place, generation and leg (tables of calls are below 2^24).
    pub(crate) fn key(&self) -> u64 {
        let LegId { call, leg } = self.leg;
        u64::from(self.shard) << 56
            | u64::from(call.index) << 32
            | u64::from(call.generation & 0x00ff_ffff) << 8
            | u64::from(leg)
    }
}

/// What one shard says to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardMessage {
    /// To the shard of the leg.
    Command {
        /// Whose leg.
        owner: LegOwner,
        /// What it must do.
        command: LegCommand,
    },
    /// To the shard of the call.
    Event {
        /// Which leg.
        leg: LegId,
        /// What happened on it.
        event: LegEvent,
    },
}
