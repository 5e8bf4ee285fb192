//! One sink as the writer sees it: its levels and filter, its lines since the last hand-over, its
//! counts. The output itself belongs to the sink's [`crate::courier`].
//!
//! ```text
//! Flowing --one parcel takes longer than STALL_AFTER--> Stalled --it is written--> Flowing
//!    |  ^                                                  |
//!  pause resume                          after RELEASE_AFTER the demand for VERBOSE is released
//!    v  |                                                  v
//!   Paused ---------------------------------------------> (released)
//! ```

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use logging::{Demand, Level, Levels, Record, Site};

use crate::courier::{self, Change, Parcel, Route};
use crate::date::DateFormat;
use crate::format::{Format, Head};
use crate::line::SiteLine;
use crate::output::{ConsoleOutput, FileOutput, Output};

/// A parcel is handed over when it has grown to this, at the latest.
pub(crate) const PARCEL_BYTES_MAX: usize = 256 * 1024;

/// What may wait for an output that is busy: about 80,000 lines, four seconds of a shard at 2,000
/// calls a second.
pub const QUEUE_BYTES: usize = 8 << 20;

/// An output that writes one parcel for so long is reported.
const STALL_AFTER: Duration = Duration::from_secs(2);

/// A sink that has dropped lines for so long no longer holds the gate open for VERBOSE.
const RELEASE_AFTER: Duration = Duration::from_secs(5);

/// Where lines go.
pub enum Target {
    /// Appended to a file, which is made when it is absent; its folder is not.
    File(PathBuf),
    /// To the standard error stream.
    Console,
    /// To something else; the text says what, for `logger show channels`.
    Other(&'static str, Box<dyn Output>),
}

/// Which records a sink takes beside its levels; the empty one takes all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only records of these calls, by the number that lines show as `[C-0000001a]`.
    pub calls: Vec<u32>,
    /// Only messages in which one of these texts stands: the name of an endpoint or a channel.
    pub texts: Vec<String>,
}

impl Filter {
    fn wants_call(&self, call: u32) -> bool {
        self.calls.is_empty() || self.calls.contains(&call)
    }

    fn wants_message(&self, message: &[u8]) -> bool {
        self.texts.is_empty()
            || self
                .texts
                .iter()
                .any(|text| memchr::memmem::find(message, text.as_bytes()).is_some())
    }
}

/// A sink as it is declared.
pub struct SinkSpec {
    /// By this name it is shown and removed.
    pub name: String,
    /// What it takes.
    pub levels: Levels,
    /// What it takes beside that.
    pub filter: Filter,
    /// Where its lines go.
    pub target: Target,
    /// What a line looks like.
    pub format: Format,
    /// How it writes dates.
    pub dates: DateFormat,
    /// How many bytes may wait for the output. VERBOSE, DEBUG and DTMF have half of it.
    pub queue_bytes: usize,
}

impl SinkSpec {
    /// A sink in the default format.
    pub fn new(name: &str, levels: Levels, target: Target) -> Self {
        Self {
            name: name.to_owned(),
            levels,
            filter: Filter::default(),
            target,
            format: Format::Default,
            dates: DateFormat::default(),
            queue_bytes: QUEUE_BYTES,
        }
    }

    /// A file in the default format.
    pub fn file(name: &str, path: &Path, levels: Levels) -> Self {
        Self::new(name, levels, Target::File(path.to_owned()))
    }

    /// The standard error stream, coloured when that is a terminal.
    pub fn console(levels: Levels) -> Self {
        let format = Format::Console { colour: io::stderr().is_terminal() };
        Self { format, ..Self::new("console", levels, Target::Console) }
    }
}

/// The counts of one sink. `taken = unwanted + written + dropped`, exactly, whenever nothing is on
/// its way ([`crate::Logger::flush`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// Records that the writer took from the lanes since this sink exists.
    pub taken: u64,
    /// Records of levels that this sink does not take.
    pub unwanted: u64,
    /// Lines written.
    pub written: u64,
    /// Lines lost because the sink could not be written, was too slow, or was paused.
    pub dropped: u64,
    /// Those of them that were VERBOSE, DEBUG or DTMF.
    pub dropped_verbose: u64,
    /// Bytes written.
    pub bytes: u64,
}

impl SinkCounts {
    /// Whether every record is accounted for.
    pub fn is_balanced(&self) -> bool {
        self.taken == self.unwanted + self.written + self.dropped
    }

    /// Lines lost of those that nobody may lose silently.
    pub fn dropped_keep(&self) -> u64 {
        self.dropped - self.dropped_verbose
    }
}

/// What others may see of a sink while the writer works.
pub(crate) struct SinkShared {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: Format,
    pub(crate) levels: Mutex<Levels>,
    pub(crate) is_stalled: AtomicBool,
    pub(crate) is_paused: AtomicBool,
    pub(crate) is_released: AtomicBool,
    pub(crate) route: Arc<Route>,
    taken: AtomicU64,
    unwanted: AtomicU64,
    /// Lost before they became a line: there was no room, or the sink was paused.
    refused_keep: AtomicU64,
    refused_verbose: AtomicU64,
}

impl SinkShared {
    pub(crate) fn counts(&self) -> SinkCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (route, taken) = (&self.route, self.taken.load(Ordering::Acquire));
        let dropped_verbose = read(&self.refused_verbose) + read(&route.dropped_verbose);
        let dropped_keep = read(&self.refused_keep) + read(&route.dropped_keep);
        SinkCounts {
            taken,
            unwanted: read(&self.unwanted),
            written: read(&route.written),
            dropped: dropped_keep + dropped_verbose,
            dropped_verbose,
            bytes: read(&route.written_bytes),
        }
    }

    /// What keeps it from being written at the moment.
    pub(crate) fn trouble(&self) -> Option<String> {
        let stalled =
            || self.is_stalled.load(Ordering::Relaxed).then(|| "takes nothing".to_owned());
        self.route.failure().or_else(stalled)
    }
}

/// What the writer has to report about a sink.
#[derive(Debug)]
pub(crate) enum Report {
    Output(Change),
    /// One write has taken very long.
    Stalled,
    /// The write ended after all; so many lines were lost meanwhile.
    Flows {
        lost: u64,
    },
    /// Lines were lost in a sink that is slow.
    Lost(u64),
}

pub(crate) struct Sink {
    pub(crate) shared: Arc<SinkShared>,
    demand: Demand,
    levels: Levels,
    filter: Filter,
    head: Head,
    parcel: Parcel,
    queue_bytes: usize,
    taken: u64,
    unwanted: u64,
    refused: u64,
    /// Of `refused`, what was told.
    reported: u64,
    /// Since when lines are refused without a break.
    refusing_since: Option<Instant>,
    refused_before: u64,
    is_paused: bool,
}

impl Sink {
    /// Opens the sink and the gate for it.
    pub(crate) fn open(spec: SinkSpec) -> io::Result<Self> {
        let (output, kind): (Box<dyn Output>, _) = match spec.target {
            Target::File(path) => {
                let kind = format!("file {}", path.display());
                (Box::new(FileOutput::open(path)?), kind)
            }
            Target::Console => (Box::new(ConsoleOutput), "console".to_owned()),
            Target::Other(kind, output) => (output, kind.to_owned()),
        };
        let route = courier::start(&spec.name, output)?;
        let demand = Demand::new(&spec.name, spec.levels);
        let shared = Arc::new(SinkShared {
            name: spec.name,
            kind,
            format: spec.format,
            levels: Mutex::new(spec.levels),
            is_stalled: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
            is_released: AtomicBool::new(false),
            route,
            taken: AtomicU64::new(0),
            unwanted: AtomicU64::new(0),
            refused_keep: AtomicU64::new(0),
            refused_verbose: AtomicU64::new(0),
        });
        Ok(Self {
            shared,
            demand,
            levels: spec.levels,
            filter: spec.filter,
            head: Head::new(spec.dates, spec.format),
            parcel: Parcel::default(),
            queue_bytes: spec.queue_bytes,
            taken: 0,
            unwanted: 0,
            refused: 0,
            reported: 0,
            refusing_since: None,
            refused_before: 0,
            is_paused: false,
        })
    }

    pub(crate) fn set_levels(&mut self, levels: Levels) {
        self.levels = levels;
        *lock(&self.shared.levels) = levels;
        self.state_demand();
    }

    pub(crate) fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
    }

    /// While a sink is paused its lines are dropped and counted.
    pub(crate) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        self.shared.is_paused.store(is_paused, Ordering::Relaxed);
        if !is_paused {
            self.reported = self.refused; // whoever resumes it is told the number
            self.release(false);
        }
    }

    /// Whether a record becomes a line here, as far as is known without its message.
    pub(crate) fn wants(&self, site: &Site, verbosity: u8, root: u8, call: u32) -> bool {
        self.levels.take(site.level, verbosity, root) && self.filter.wants_call(call)
    }

    pub(crate) fn leave_out(&mut self) {
        self.taken += 1;
        self.unwanted += 1;
    }

    /// Adds a line to the parcel. Returns whether that should now be handed over.
    pub(crate) fn add(&mut self, line: &SiteLine, record: &Record<'_>, message: &[u8]) -> bool {
        self.taken += 1;
        if !self.filter.wants_message(message) {
            self.unwanted += 1;
            return false;
        }
        let is_kept = line.site.level.is_kept();
        if self.is_paused || !self.has_room(is_kept) {
            let shared = &self.shared;
            let count = if is_kept { &shared.refused_keep } else { &shared.refused_verbose };
            count.fetch_add(1, Ordering::Relaxed);
            self.refused += 1;
            return false;
        }
        self.head.write(line, record, message, &mut self.parcel.bytes);
        self.parcel.end_line(is_kept);
        self.parcel.bytes.len() >= PARCEL_BYTES_MAX
    }

    /// Hands the parcel over, and shows the counts.
    pub(crate) fn hand_over(&mut self) {
        let shared = &self.shared;
        shared.unwanted.store(self.unwanted, Ordering::Relaxed);
        shared.taken.store(self.taken, Ordering::Release);
        if !self.parcel.is_empty() {
            let parcel = std::mem::take(&mut self.parcel);
            self.parcel = shared.route.hand_over(parcel);
        }
    }

    /// Looks after the output: what has changed since the last call.
    pub(crate) fn tend(&mut self, now: Instant, is_report_due: bool) -> Vec<Report> {
        let changes = self.shared.route.take_changes();
        let mut reports: Vec<Report> = changes.into_iter().map(Report::Output).collect();
        let was_stalled = self.shared.is_stalled.load(Ordering::Relaxed);
        let is_stalled = (was_stalled || self.shared.route.waiting_bytes() > 0)
            && self.shared.route.busy_since().is_some_and(|since| now - since > STALL_AFTER);
        if is_stalled != was_stalled {
            self.shared.is_stalled.store(is_stalled, Ordering::Relaxed);
            if is_stalled {
                reports.push(Report::Stalled);
            } else {
                let lost = self.refused - std::mem::replace(&mut self.reported, self.refused);
                reports.push(Report::Flows { lost });
                self.release(false);
            }
        } else if is_report_due && !is_stalled && !self.is_paused && self.refused > self.reported {
            let lost = self.refused - std::mem::replace(&mut self.reported, self.refused);
            reports.push(Report::Lost(lost));
        }
        if is_stalled || self.is_paused {
            self.release_in_time(now);
        }
        reports
    }

    /// A sink that nobody reads must not make the whole program write the story of each call.
    fn release_in_time(&mut self, now: Instant) {
        if self.refused == self.refused_before {
            return;
        }
        self.refused_before = self.refused;
        let since = *self.refusing_since.get_or_insert(now);
        if now - since > RELEASE_AFTER {
            self.release(true);
        }
    }

    fn release(&mut self, is_released: bool) {
        self.refusing_since = None;
        if self.shared.is_released.swap(is_released, Ordering::Relaxed) != is_released {
            self.state_demand();
        }
    }

    fn state_demand(&self) {
        let is_released = self.shared.is_released.load(Ordering::Relaxed);
        let levels = self.levels;
        self.demand.change(if is_released { kept(levels) } else { levels });
    }

    fn has_room(&self, is_kept: bool) -> bool {
        let limit = if is_kept { self.queue_bytes } else { self.queue_bytes / 2 };
        self.parcel.bytes.len() + self.shared.route.waiting_bytes() < limit
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.hand_over();
        self.shared.route.close();
    }
}

/// Of some levels, those that the verbose lane does not carry.
fn kept(levels: Levels) -> Levels {
    Level::ALL.into_iter().filter(|level| !level.is_kept()).fold(levels, Levels::without)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
