//! The load tester that says truthfully what broke.
//!
//! ```text
//!  cli ─► commands ─► drive (loop, steps) ─► link (socket, batches, clock)
//!                        │  schedule: when calls are due
//!                        └─ workload: caller, the calls we make ◄─ template, identity
//!                             │        or registrant, the registrations that we make
//!                             └─ tally ─► report ─► verdict, table, JSON
//!         logging_cost ─► commands::Quiet: what the server's log costs its calls
//!         commands::answer ─► serve ─► answerer: the calls we answer
//! ```
//!
//! `caller`, `registrant`, `answerer`, `schedule`, `tally`, `verdict` and `table` are pure: they
//! take times and bytes as arguments. Not here yet: RTP, TCP, scenario files.

pub mod answerer;
pub mod caller;
pub mod cli;
pub mod commands;
pub mod drive;
pub mod identity;
pub mod link;
pub mod logging_cost;
pub mod process;
pub mod registrant;
pub mod report;
pub mod schedule;
pub mod serve;
pub mod stop;
pub mod table;
pub mod tally;
pub mod target;
pub mod template;
pub mod verdict;
pub mod workload;
