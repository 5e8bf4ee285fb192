//! The writer thread, the line format and the sinks behind the lanes of crate `logging`.
//!
//! ```text
//! lanes --(polled every 5-10 ms, merged by time and order)--> lines --> file, console, ...
//! ```
//!
//! The equation of each sink, exact between two batches: `taken = unwanted + written + dropped`. A
//! sink that cannot be written (full disk) counts its losses, is reported once, and heals by
//! itself; the others go on. One thread writes to all sinks, so a write that blocks holds all of
//! them up: the lanes then fill, and count.
//!
//! # Example
//!
//! ```
//! use logging::{Hub, LaneSize, notice};
//! use logging_sinks::{Logger, SinkSpec, lwp};
//!
//! # let folder = std::env::temp_dir().join(format!("logging-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("messages");
//! let hub = Hub::new(std::process::id(), turn::Now::default); // the program gives its clock
//! let messages = SinkSpec::file("messages", &path, "notice,warning,error".parse()?);
//! let logger = Logger::start(&hub, vec![messages])?;
//!
//! let mut lane = hub.turn_lane("shard-0", 1638, LaneSize::SHARD).expect("few lanes");
//! notice!(lane, call = 26, "Hello from thread {}", lwp());
//! logger.flush();
//!
//! let text = std::fs::read_to_string(&path)?;
//! assert!(text.starts_with("[1970-01-01 00:00:00.000] NOTICE[1638][C-0000001a] "), "{text}");
//! let counts = logger.view().sinks[0].counts;
//! assert_eq!((counts.written, counts.dropped), (1, 0));
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clean;
mod date;
mod line;
mod logger;
mod sink;
mod writer;

pub use clean::{clean, clean_for_quotes, redact};
pub use date::{DateFormat, UnknownConversion};
pub use logger::{Logger, LoggerView, SinkView, lwp};
pub use sink::{Output, SinkCounts, SinkSpec, Target};
