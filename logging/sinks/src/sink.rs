//! One sink: its levels, its lines since the last write, its counts, and what it does when it
//! cannot be written.
//!
//! ```text
//! Up --write fails--> Failing: lines are dropped and counted; tried again every RETRY
//!  ^------ write succeeds ------+
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use logging::{Demand, Levels, Record, Site};

use crate::date::DateFormat;
use crate::line::{self, Shape, SiteLine};

/// How long a sink that failed is left alone.
const RETRY: Duration = Duration::from_millis(250);

/// A batch is written when it has grown to this, at the latest.
pub(crate) const BATCH_BYTES_MAX: usize = 256 * 1024;

/// Log files are read by the service's group, not by everybody: they name callers.
const FILE_MODE: u32 = 0o640;

/// Where lines go.
pub enum Target {
    /// Appended to a file, which is made when it is absent; its folder is not.
    File(PathBuf),
    /// To the standard error stream, coloured when that is a terminal.
    Console,
    /// To something else.
    Other(Box<dyn Output>),
}

/// Something that lines can be written to.
pub trait Output: Send {
    /// Writes some bytes and says how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Begins anew, after a rotation.
    fn reopen(&mut self) -> io::Result<()>;
}

/// A sink as it is declared.
pub struct SinkSpec {
    /// By this name it is shown and removed.
    pub name: String,
    /// What it takes.
    pub levels: Levels,
    /// Where its lines go.
    pub target: Target,
    /// How it writes dates.
    pub dates: DateFormat,
}

impl SinkSpec {
    /// A file in the default format.
    pub fn file(name: &str, path: &Path, levels: Levels) -> Self {
        let target = Target::File(path.to_owned());
        Self { name: name.to_owned(), levels, target, dates: DateFormat::default() }
    }

    /// The standard error stream.
    pub fn console(levels: Levels) -> Self {
        let dates = DateFormat::default();
        Self { name: "console".to_owned(), levels, target: Target::Console, dates }
    }
}

/// The counts of one sink. `taken = unwanted + written + dropped`, exactly, whenever the writer is
/// between two batches ([`crate::Logger::flush`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// Records that the writer took from the lanes since this sink exists.
    pub taken: u64,
    /// Records of levels that this sink does not take.
    pub unwanted: u64,
    /// Lines written.
    pub written: u64,
    /// Lines lost because the sink could not be written.
    pub dropped: u64,
    /// Bytes written.
    pub bytes: u64,
}

impl SinkCounts {
    /// Whether every record is accounted for.
    pub fn is_balanced(&self) -> bool {
        self.taken == self.unwanted + self.written + self.dropped
    }
}

/// What others may see of a sink while the writer works.
#[derive(Debug)]
pub(crate) struct SinkShared {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) levels: Mutex<Levels>,
    pub(crate) failure: Mutex<Option<String>>,
    taken: AtomicU64,
    unwanted: AtomicU64,
    written: AtomicU64,
    dropped: AtomicU64,
    bytes: AtomicU64,
}

impl SinkShared {
    pub(crate) fn counts(&self) -> SinkCounts {
        SinkCounts {
            taken: self.taken.load(Ordering::Acquire),
            unwanted: self.unwanted.load(Ordering::Relaxed),
            written: self.written.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// What became of a batch, when that changed.
#[derive(Debug)]
pub(crate) enum Change {
    Failed(io::Error),
    Healed { lost: u64 },
}

enum State {
    Up,
    Failing { until: Instant, lost: u64 },
}

pub(crate) struct Sink {
    pub(crate) shared: Arc<SinkShared>,
    output: Box<dyn Output>,
    demand: Demand,
    levels: Levels,
    head: line::Head,
    batch: Vec<u8>,
    /// Where each line of the batch ends.
    ends: Vec<usize>,
    taken: u64,
    unwanted: u64,
    /// The last write ended within a line.
    is_torn: bool,
    state: State,
}

impl Sink {
    /// Opens the sink and the gate for it.
    pub(crate) fn open(spec: SinkSpec) -> io::Result<Self> {
        let (output, kind, shape): (Box<dyn Output>, _, _) = match spec.target {
            Target::File(path) => {
                let kind = format!("file {}", path.display());
                (Box::new(FileOutput::open(path)?), kind, Shape::Default)
            }
            Target::Console => {
                let colour = io::stderr().is_terminal();
                (Box::new(ConsoleOutput), "console".to_owned(), Shape::Console { colour })
            }
            Target::Other(output) => (output, "other".to_owned(), Shape::Default),
        };
        let demand = Demand::new(&spec.name, spec.levels);
        let shared = Arc::new(SinkShared {
            name: spec.name,
            kind,
            levels: Mutex::new(spec.levels),
            failure: Mutex::new(None),
            taken: AtomicU64::new(0),
            unwanted: AtomicU64::new(0),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        Ok(Self {
            shared,
            output,
            demand,
            levels: spec.levels,
            head: line::Head::new(spec.dates, shape),
            batch: Vec::with_capacity(BATCH_BYTES_MAX + 8192),
            ends: Vec::new(),
            taken: 0,
            unwanted: 0,
            is_torn: false,
            state: State::Up,
        })
    }

    pub(crate) fn set_levels(&mut self, levels: Levels) {
        self.levels = levels;
        self.demand.change(levels);
        *self.shared.levels.lock().unwrap_or_else(PoisonError::into_inner) = levels;
    }

    /// Whether a record becomes a line here.
    pub(crate) fn wants(&self, site: &Site, verbosity: u8, root: u8) -> bool {
        self.levels.take(site.level, verbosity, root)
    }

    pub(crate) fn leave_out(&mut self) {
        self.taken += 1;
        self.unwanted += 1;
    }

    /// Adds a line to the batch. Returns whether the batch should now be written.
    pub(crate) fn add(&mut self, line: &SiteLine, record: &Record<'_>, message: &[u8]) -> bool {
        self.taken += 1;
        self.head.write(line, record, &mut self.batch);
        self.batch.extend_from_slice(message);
        self.batch.push(b'\n');
        self.ends.push(self.batch.len());
        self.batch.len() >= BATCH_BYTES_MAX
    }

    /// Writes the batch with one write, if it is taken whole.
    pub(crate) fn write_batch(&mut self) -> Option<Change> {
        let lines = self.ends.len();
        if let State::Failing { until, lost } = &mut self.state
            && Instant::now() < *until
        {
            *lost += lines as u64;
            self.finish_batch(0, 0);
            return None;
        }
        if lines == 0 {
            self.finish_batch(0, 0);
            return None;
        }
        let (done, result) = self.write_all();
        let whole = self.ends.partition_point(|end| *end <= done);
        let boundary = if whole == 0 { 0 } else { self.ends[whole - 1] };
        if done > 0 {
            self.is_torn = done != boundary;
        }
        let lost_now = (lines - whole) as u64;
        self.finish_batch(whole, done);
        match (result, &mut self.state) {
            (Ok(()), State::Up) => None,
            (Ok(()), State::Failing { lost, .. }) => {
                let lost = *lost;
                self.state = State::Up;
                self.set_failure(None);
                Some(Change::Healed { lost })
            }
            (Err(_), State::Failing { until, lost }) => {
                *until = Instant::now() + RETRY;
                *lost += lost_now;
                None
            }
            (Err(error), State::Up) => {
                self.state = State::Failing { until: Instant::now() + RETRY, lost: lost_now };
                self.set_failure(Some(error.to_string()));
                Some(Change::Failed(error))
            }
        }
    }

    /// Begins anew, after a rotation. The old file stays when the new one cannot be opened.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        self.output.reopen()?;
        self.is_torn = false;
        if let State::Failing { until, .. } = &mut self.state {
            *until = Instant::now(); // the new file is worth a try
        }
        Ok(())
    }

    /// How many bytes of the batch were written, and why not all.
    fn write_all(&mut self) -> (usize, io::Result<()>) {
        if self.is_torn {
            match self.output.write(b"\n") {
                Ok(1..) => self.is_torn = false,
                Ok(0) => return (0, Err(io::ErrorKind::WriteZero.into())),
                Err(error) => return (0, Err(error)),
            }
        }
        let mut done = 0;
        while done < self.batch.len() {
            match self.output.write(&self.batch[done..]) {
                Ok(0) => return (done, Err(io::ErrorKind::WriteZero.into())),
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }

    fn finish_batch(&mut self, whole: usize, bytes: usize) {
        let shared = &self.shared;
        let dropped = (self.ends.len() - whole) as u64;
        shared.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        shared.dropped.fetch_add(dropped, Ordering::Relaxed);
        shared.written.fetch_add(whole as u64, Ordering::Relaxed);
        shared.unwanted.store(self.unwanted, Ordering::Relaxed);
        shared.taken.store(self.taken, Ordering::Release);
        self.batch.clear();
        self.ends.clear();
    }

    fn set_failure(&self, failure: Option<String>) {
        *self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }
}

struct FileOutput {
    path: PathBuf,
    file: File,
}

impl FileOutput {
    fn open(path: PathBuf) -> io::Result<Self> {
        let file = open_file(&path)?;
        Ok(Self { path, file })
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(FILE_MODE)
        .open(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

impl Output for FileOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = open_file(&self.path)?;
        Ok(())
    }
}

struct ConsoleOutput;

impl Output for ConsoleOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().write(bytes)
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}
