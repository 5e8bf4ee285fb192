//! The handle of the writer thread.

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::{fs, io, process, thread};

use logging::{GateView, Hub, LaneCounts, LaneSize, Levels};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::courier::Renewed;
use crate::format::Format;
use crate::sink::{Filter, Sink, SinkCounts, SinkSpec, lock};
use crate::writer::{Added, Command, SINKS_MAX, Setting, SinksView, Writer};

/// How long a flush, or a file that begins anew, waits for an output that takes nothing.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Rounds of a flush: each may bring reports of the one before.
const ROUNDS_MAX: usize = 4;

/// The running writer. Dropping it writes what is left and ends the thread.
pub struct Logger {
    hub: Arc<Hub>,
    commands: Sender<Command>,
    sinks: SinksView,
    thread: Option<JoinHandle<()>>,
}

/// One sink, for `logger show channels`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkView {
    /// Its name.
    pub name: String,
    /// What it writes to.
    pub kind: String,
    /// What it takes.
    pub levels: Levels,
    /// The shape of its lines.
    pub format: Format,
    /// Why it cannot be written at the moment.
    pub failure: Option<String>,
    /// Whether its lines are dropped because somebody paused it.
    pub is_paused: bool,
    /// Whether its share of the gate was released, since it has dropped lines for some seconds.
    pub is_released: bool,
    /// Bytes of lines on their way to it.
    pub waiting_bytes: usize,
    /// Its counts.
    pub counts: SinkCounts,
}

/// Everything that `logger show` and the metrics need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggerView {
    /// The sinks.
    pub sinks: Vec<SinkView>,
    /// The lanes.
    pub lanes: Vec<LaneCounts>,
    /// How far the gate is open, and for whom.
    pub gate: GateView,
    /// Records that nobody could take: [`logging::unheard`].
    pub unheard: u64,
}

impl Logger {
    /// Opens the sinks and starts the writer. Fails when a file cannot be opened.
    pub fn start(hub: &Arc<Hub>, specs: Vec<SinkSpec>) -> io::Result<Self> {
        let sinks = specs.into_iter().map(Sink::open).collect::<io::Result<Vec<_>>>()?;
        let own = hub
            .clock_lane("logger", process::id(), LaneSize::THREAD)
            .ok_or_else(|| io::Error::other("no lane is left for the writer"))?;
        let (commands, orders) = mpsc::channel();
        let view = SinksView::default();
        let writer = Writer::new(Arc::clone(hub), own, sinks, Arc::clone(&view));
        let thread =
            thread::Builder::new().name("logger".to_owned()).spawn(move || writer.run(&orders))?;
        Ok(Self { hub: Arc::clone(hub), commands, sinks: view, thread: Some(thread) })
    }

    /// Waits until every record that was made before is written, or counted as lost. An output
    /// that takes nothing is waited for 5 seconds; returns whether all have taken their lines.
    pub fn flush(&self) -> bool {
        let until = Instant::now() + WAIT_MAX;
        let mut all = true;
        for _ in 0..ROUNDS_MAX {
            if self.ask(Command::Flush) != Some(true) {
                break;
            }
            let sinks = lock(&self.sinks).clone();
            all = sinks.iter().map(|sink| sink.route.wait(until)).fold(true, |all, one| all & one);
            if !all {
                break;
            }
        }
        all
    }

    /// Opens every file anew, after a rotation by somebody else: SIGHUP. Each record made before
    /// lands in the old file. Returns what became of each sink.
    pub fn reopen(&self) -> Vec<(String, io::Result<()>)> {
        self.renew(None, false)
    }

    /// Rotates the file of one sink, or of all: `logger rotate`. Returns what became of each;
    /// nothing when there is no such sink.
    pub fn rotate(&self, name: Option<&str>) -> Vec<(String, io::Result<()>)> {
        self.renew(name, true)
    }

    fn renew(&self, name: Option<&str>, rotate: bool) -> Vec<Renewed> {
        let (answers, renewed) = mpsc::channel();
        let name = name.map(str::to_owned);
        let told = self.ask(|reply| Command::Renew { name, rotate, answers, reply }).unwrap_or(0);
        let until = Instant::now() + WAIT_MAX;
        let left = || until.saturating_duration_since(Instant::now());
        (0..told).map_while(|_| renewed.recv_timeout(left()).ok()).collect()
    }

    /// Adds a sink: `logger add channel`, or a console. Fails when it cannot be opened, when its
    /// name is taken, or when there are [`SINKS_MAX`] already.
    pub fn add(&self, spec: SinkSpec) -> io::Result<()> {
        let sink = Box::new(Sink::open(spec)?);
        let text = match self.ask(|reply| Command::Add(sink, reply)) {
            Some(Added::Yes) => return Ok(()),
            Some(Added::NameTaken) => "the name is taken".to_owned(),
            Some(Added::TooMany) => format!("there are {SINKS_MAX} log channels already"),
            None => "the writer has stopped".to_owned(),
        };
        Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
    }

    /// Removes a sink: `logger remove channel`. Returns whether there was one. What is on its way
    /// is still written, if the output takes it.
    pub fn remove(&self, name: &str) -> bool {
        self.ask(|reply| Command::Remove(name.to_owned(), reply)) == Some(true)
    }

    /// Changes what a sink takes: `logger set level`. Returns whether there is such a sink.
    pub fn set_levels(&self, name: &str, levels: Levels) -> bool {
        self.change(name, Setting::Levels(levels))
    }

    /// Changes which calls and texts a sink takes. Returns whether there is such a sink.
    pub fn set_filter(&self, name: &str, filter: Filter) -> bool {
        self.change(name, Setting::Filter(filter))
    }

    /// Drops and counts the lines of a sink, or no longer. Returns whether there is such a sink.
    pub fn pause(&self, name: &str, is_paused: bool) -> bool {
        self.change(name, Setting::Pause(is_paused))
    }

    fn change(&self, name: &str, setting: Setting) -> bool {
        self.ask(|reply| Command::Change(name.to_owned(), setting, reply)) == Some(true)
    }

    /// What `logger show` shows. Does not wait for the writer.
    pub fn view(&self) -> LoggerView {
        let sinks = lock(&self.sinks).clone();
        let sinks = sinks
            .iter()
            .map(|sink| SinkView {
                name: sink.name.clone(),
                kind: sink.kind.clone(),
                levels: *lock(&sink.levels),
                format: sink.format,
                failure: sink.trouble(),
                is_paused: sink.is_paused.load(Ordering::Relaxed),
                is_released: sink.is_released.load(Ordering::Relaxed),
                waiting_bytes: sink.route.waiting_bytes(),
                counts: sink.counts(),
            })
            .collect();
        LoggerView {
            sinks,
            lanes: self.hub.counts(),
            gate: logging::view(),
            unheard: logging::unheard(),
        }
    }

    /// Writes what is left and ends the writer.
    pub fn stop(self) {
        drop(self);
    }

    fn ask<R>(&self, command: impl FnOnce(Sender<R>) -> Command) -> Option<R> {
        let (reply, answer) = mpsc::channel();
        self.commands.send(command(reply)).ok()?;
        answer.recv().ok()
    }
}

impl std::fmt::Debug for Logger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logger").finish_non_exhaustive()
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The kernel's number of the running thread, as it stands in log lines; the process's number where
/// `/proc` is not mounted.
pub fn lwp() -> u32 {
    fs::read_link("/proc/thread-self")
        .ok()
        .and_then(|path| path.file_name()?.to_str()?.parse().ok())
        .unwrap_or_else(process::id)
}
