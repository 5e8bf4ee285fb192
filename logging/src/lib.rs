//! Records on the call path for a few nanoseconds: gate, record, lanes, and a `tracing` subscriber
//! that brings the events of libraries the same way. No files and no threads: a writer (crate
//! `logging-sinks`) reads the lanes.
//!
//! ```text
//! macro --> gate (in the site) --> lane of the thread --> writer --> sinks
//!                                  keep | verbose
//! tracing event --> Targets --------^
//! ```
//!
//! # Example
//!
//! ```
//! use logging::{Demand, Hub, LaneSize, Levels, notice, verbose};
//! use turn::Now;
//!
//! // The program makes one hub, with its clock, and opens the gate (a sink does that).
//! let hub = Hub::new(std::process::id(), Now::default);
//! let demand = Demand::new("example", "notice,verbose(3)".parse::<Levels>()?);
//!
//! // A shard owns its lane and tells it the time once a turn.
//! let mut lane = hub.turn_lane("shard-0", 1638, LaneSize::SHARD).expect("few lanes");
//! lane.set_now(Now::default());
//!
//! let source: std::net::SocketAddr = "192.0.2.3:5060".parse()?;
//! let dialled: &[u8] = b"999"; // bytes come from outside: the writer cleans them
//! notice!(
//!     lane,
//!     call = 26,
//!     from = source,
//!     "Call from '{}' ({}) to extension '{}' rejected because extension not found in \
//!      context '{}'.",
//!     "sipp",
//!     source,
//!     dialled,
//!     "default"
//! );
//! verbose!(3, lane, call = 26, "Called {}", "SIP/trunk/100");
//! verbose!(4, lane, "nobody wants this, so it costs a load and a comparison");
//!
//! // The writer's side.
//! let mut records = 0;
//! for mut reader in hub.take_readers() {
//!     reader.refresh();
//!     while let Some(record) = reader.peek() {
//!         assert_eq!(record.call(), 26);
//!         records += 1;
//!         reader.advance();
//!     }
//! }
//! assert_eq!(records, 2);
//! # drop(demand);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// Whether the macros do anything. They do, but for a build with `--cfg logging_off`, which the
/// bench makes to count what they cost while nobody wants their records.
#[doc(hidden)]
pub const IS_BUILT: bool = !cfg!(logging_off);

mod field;
mod fold;
mod foreign;
mod gate;
mod hub;
mod lane;
mod level;
mod macros;
mod record;
mod site;
mod thread;

pub use field::{FIELDS_MAX, Field, Fields, Plain, Quoted, Shown, TEXT_MAX, Value};
pub use fold::{FOLDS_MAX, Fold};
pub use foreign::{default_targets, listen, set_targets};
pub use gate::{
    Demand, GateView, set_debug, set_debug_module, set_verbose, sites_from, verbose, view,
};
pub use hub::{Hub, LANES_MAX, Source};
pub use lane::{Lane, LaneCounts, LaneReader, LaneSize, Mark};
pub use level::{Level, Levels, UnknownLevel, VERBOSITY_MAX, Verbosity};
pub use record::Record;
pub use site::{Site, places};
pub use thread::{AlreadyInstalled, Here, enter, install, leave, set_now, unheard};
