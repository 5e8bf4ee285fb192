//! The PBX: configuration, threads, sockets, journal, control socket, metrics.
//!
//! The program drives shards and does everything that a shard must not: it reads clocks and files,
//! owns sockets and threads, writes logs. Who runs on which thread:
//!
//! ```text
//! shard-0, shard-1 ...   socket ─► pbx_core::Shard ─► socket, log lane, record ring   (driver)
//! journal, journal-sync  record rings ─► JSON lines                                   (records)
//! loader                 JSON lines ─► SQLite, at the lowest priority                 (records)
//! logger, log-*          log lanes ─► files, consoles                     (logs, logging-sinks)
//! control                consoles, signals, reload, stop              (control, lifecycle)
//! metrics                Prometheus on loopback                                    (metrics)
//! ```
//!
//! Threads share no lock on the way of a call: they talk through bounded mailboxes (`mailbox`)
//! and rings.

mod capture;
pub mod cli;
pub mod config;
mod control;
mod driver;
mod facts;
pub mod first_start;
mod lifecycle;
mod logs;
mod mailbox;
mod metrics;
mod notify;
mod program;
mod quota;
mod records;
mod resolver;
mod sockets;
mod start;
mod state;
mod streams;
mod threads;
mod trace;
mod watch;
mod web;

pub use start::{StartFault, run};

/// For the bench of what facts cost a call, and for nobody else.
#[doc(hidden)]
pub mod bench {
    pub use crate::facts::Facts;
}
