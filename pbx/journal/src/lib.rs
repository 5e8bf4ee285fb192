//! Records that survive `kill -9`: rings in mapped files on tmpfs, a writer that appends them to a
//! file of JSON lines, and a loader that fills SQLite from that file whenever there is time.
//!
//! ```text
//! shard 0 ── append ──► ring 0 ─┐                                    offset in the same
//!   (a memcpy, < 1 us)          ├─ Writer ──► calls-000001.jsonl ──┐  transaction
//! shard 1 ── append ──► ring 1 ─┘  one write a batch,              └─ Loader ──► calls.db
//!                                  then the ring's tail moves        (nice 19, may lag)
//! ```
//!
//! # What is lost when
//!
//! - **The process is killed, panics or aborts**: nothing. The ring is a file's memory and is
//!   replayed at the next start.
//! - **The disk is full or fails**: nothing while the ring has room; new calls are refused before
//!   it runs out.
//! - **The loader is behind, or its database is deleted**: nothing. It reads the JSON lines again
//!   from its offset, or from the first file.
//! - **The machine loses power**: the ring, that is what the writer had not taken yet (10 ms), and
//!   what the kernel had not put on the disk: at most one interval of `sync` plus the time that the
//!   sync takes. Records are never torn: a half line at the end is cut off at the next start.
//! - **The ring's folder is not on tmpfs**: as above, and the disk is written twice.
//!
//! No record is ever written twice: before a batch is written, the ring remembers to which place of
//! which file it goes, so that a replay writes the same bytes to the same place.
//!
//! # What it does not do
//!
//! A second journal of the same kind holds changes of a state instead of records (where endpoints
//! are, the plan's database); [`snapshot`] keeps it short.
//!
//! It does not know what a record holds; a record is bytes that end with a line feed. It removes no
//! file of JSON lines: whoever wants the space back deletes those that the loader has passed.

mod folder;
mod lines;
mod loader;
mod ring;
pub mod snapshot;
mod syncer;
mod writer;

pub use folder::{RING_FOLDER_MODE, default_ring_folder};
pub use loader::{Column, Loader, LoaderOptions};
pub use ring::{Appender, RECORD_MAX, RING_MAX, RING_MIN, RingFull};
pub use writer::{JournalFault, JournalOptions, Opened, Replayed, Writer, Wrote, open};
