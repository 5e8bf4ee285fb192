//! One shard of the PBX as a value.
//!
//! A [`Shard`] holds a SIP endpoint, the calls, the legs that join the two, the rules of admission
//! and all timers. Datagrams, due times, words of operators and messages of other shards go in,
//! each with `now`; a [`ShardOut`] with messages to send, facts and records comes out. It opens no
//! socket, reads no clock and writes no log, so the type that the program runs on a thread is the
//! type that a simulation runs on virtual time.
//!
//! ```text
//!            receive()  fire()  message()  flush()
//!                │         │        │         │
//!   ┌────────────▼─────────▼────────▼─────────▼──────────┐
//!   │ gate ─► sip::Endpoint ◄──legs::sip──► call::Calls  │ ─► ShardOut { net, facts, records,
//!   │ (who may come in)      events, commands            │               hops }
//!   └────────────────────────────────────────────────────┘
//! ```
//!
//! The contract with its driver: ask [`Router::route`] which shard a datagram belongs to; give it
//! to that shard's [`Shard::receive`]; call [`Shard::fire`] when [`Shard::next_timeout`] has come;
//! call [`Shard::flush`] after each batch; send, log and clear what is in the [`ShardOut`] before
//! the next batch.

mod belongs;
mod counts;
mod database;
mod directory;
mod facts;
mod gate;
mod inbound;
mod legs;
mod lines;
mod pings;
mod register;
mod remote;
mod resolve;
mod route;
mod shard;
mod shared;
mod strangers;
mod surroundings;
mod trunks;

pub use counts::ShardCounts;
pub use database::{Changes, entry_line, whole_line};
pub use directory::{
    CallerId, Directory, DirectorySpec, Forward, GROUP_MEMBERS_MAX, Group, Hop, PHONES_MAX, Party,
    Phone, PhoneId, PhoneState, QualifySpec,
};
pub use facts::{Fact, Onto, Refused, Unregistered};
pub use legs::originate::{NotOriginated, ORIGINATIONS_MAX, Originate};
pub use remote::{LegOwner, ShardMessage};
pub use resolve::{LOOKUP_WAIT, LOOKUPS_MAX, Query};
pub use route::Router;
pub use shard::{Datagram, Limits, Locals, Shard, ShardConfig, ShardOut};
pub use shared::{Database, Locations, Shared, Stored};
pub use strangers::{Budget, StrangerCounts};
pub use surroundings::{device_state, phone_state};
pub use trunks::{Prefix, Registered, TRUNKS_MAX, Trunk, TrunkId, TrunkState, Trunks};
