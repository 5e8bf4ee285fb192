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

mod counts;
mod facts;
mod gate;
mod legs;
mod remote;
mod route;
mod shard;
mod trunks;

pub use counts::ShardCounts;
pub use facts::{Fact, Refused};
pub use remote::{LegOwner, ShardMessage};
pub use route::Router;
pub use shard::{Datagram, Limits, Locals, Shard, ShardConfig, ShardOut};
pub use trunks::{Prefix, TRUNKS_MAX, Trunk, TrunkId, Trunks};
