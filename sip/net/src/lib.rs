//! SIP's sockets: UDP in batches, TCP, and the one place that reads clocks.
//!
//! - [`UdpPort`]: a bound socket; with [`UdpOptions::reuse_port`] each shard binds its own to the
//!   same address and the kernel spreads the flows.
//! - [`ReceiveBatch`], [`SendBatch`]: reusable memory for `recvmmsg` and `sendmmsg`. A received
//!   [`Datagram`] says which local address was hit, an [`Outgoing`] one leaves from the address
//!   that it names (RFC 3261 18.2.2 wants answers to come from where the request went).
//! - [`SendReport`], [`UdpPort::take_path_errors`]: what the transaction layer must hear of
//!   (RFC 3261 18.4): refused, unreachable and oversized, each with its datagram or peer.
//! - [`AsyncUdp`]: readiness for a tokio loop; the calls themselves stay the batched ones.
//! - [`Clock`]: `CLOCK_MONOTONIC`, `CLOCK_REALTIME` and the zone, sampled together once a turn.
//!
//! What a message means is not known here: bytes in, bytes out.
//!
//! - [`Streams`]: TCP, on a runtime of its own beside the shards: listeners, connections under the
//!   peer's address, framing by Content-Length (RFC 3261 18.3), and limits for each of them.
//!
//! TLS and WebSocket will wrap the connections of [`Streams`]; they are not built. Nor are look-ups
//! of names (RFC 3263).

mod address;
mod async_udp;
mod clock;
mod control;
mod receive;
mod send;
mod streams;
mod sys;
mod udp;

pub use async_udp::AsyncUdp;
pub use clock::Clock;
pub use receive::{Datagram, ReceiveBatch};
pub use send::{Outgoing, SendBatch, SendFailure, SendReport};
pub use streams::{Closed, StreamCounts, StreamLimits, StreamUser, Streams};
pub use udp::{PathError, UdpOptions, UdpPort, Warning};

/// Datagrams per system call. Beyond 64 the cost per packet no longer falls, and a turn would grow
/// longer than it may.
pub const BATCH_MAX: usize = 64;
