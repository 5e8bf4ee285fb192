//! The handle of the writer thread.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::{fs, io, process, thread};

use logging::{GateView, Hub, LaneCounts, LaneSize, Levels};

use crate::sink::{Sink, SinkCounts, SinkSpec};
use crate::writer::{Command, SinksView, Writer};

/// The running writer. Dropping it writes what is left and ends the thread.
#[derive(Debug)]
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
    /// Why it cannot be written at the moment.
    pub failure: Option<String>,
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

    /// Waits until every record that was made before is written (or counted as lost).
    pub fn flush(&self) {
        let _ = self.ask(Command::Flush);
    }

    /// Opens every file anew, after a rotation: `logger rotate`, SIGHUP. Each record made before
    /// lands in the old file. Returns what became of each sink.
    pub fn reopen(&self) -> Vec<(String, io::Result<()>)> {
        self.ask(Command::Reopen).unwrap_or_default()
    }

    /// Adds a sink: `logger add channel`. Fails when it cannot be opened or its name is taken.
    pub fn add(&self, spec: SinkSpec) -> io::Result<()> {
        let sink = Box::new(Sink::open(spec)?);
        match self.ask(|reply| Command::Add(sink, reply)) {
            Some(true) => Ok(()),
            Some(false) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "the name is taken")),
            None => Err(io::Error::other("the writer has stopped")),
        }
    }

    /// Removes a sink: `logger remove channel`. Returns whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        self.ask(|reply| Command::Remove(name.to_owned(), reply)) == Some(true)
    }

    /// Changes what a sink takes: `logger set level`. Returns whether there is such a sink.
    pub fn set_levels(&self, name: &str, levels: Levels) -> bool {
        self.ask(|reply| Command::SetLevels(name.to_owned(), levels, reply)) == Some(true)
    }

    /// What `logger show` shows. Does not wait for the writer.
    pub fn view(&self) -> LoggerView {
        let sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        let sinks = sinks
            .iter()
            .map(|sink| SinkView {
                name: sink.name.clone(),
                kind: sink.kind.clone(),
                levels: *lock(&sink.levels),
                failure: lock(&sink.failure).clone(),
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
