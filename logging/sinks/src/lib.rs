//! The writer thread, the line formats and the sinks behind the lanes of crate `logging`.
//!
//! ```text
//! lanes --(polled every 5-10 ms, merged by time and order)--> writer: lines
//!        writer --(parcels, bounded queues)--> a courier thread for each sink --> its output
//! ```
//!
//! The equation of each sink, exact when nothing is on its way: `taken = unwanted + written +
//! dropped`. A sink that cannot be written (full disk), takes nothing (a stalled terminal) or is
//! too slow counts its losses, is reported once, and heals by itself; the others and the writer go
//! on. VERBOSE, DEBUG and DTMF may fill half of a sink's queue, so what must be kept has room.
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
mod courier;
mod date;
mod format;
mod keeper;
mod line;
mod logger;
mod output;
mod rotated;
mod rotation;
mod sink;
mod syslog;
mod writer;

pub use clean::{clean, clean_for_quotes, is_masking, redact, set_masking};
pub use date::{DateFormat, UnknownConversion};
pub use format::Format;
pub use keeper::DiskView;
pub use logger::{Logger, LoggerView, SinkView, lwp};
pub use output::Output;
pub use rotation::{Every, Rotation, Strategy};
pub use sink::{Filter, QUEUE_BYTES, SinkCounts, SinkSpec, Target};
pub use syslog::{Facility, SyslogAddress, SyslogShape};
pub use writer::SINKS_MAX;
