//! Call records from the shards to the disk: the thread that writes them and the one that loads
//! them into SQLite.

use crate::config::Records;
use crate::threads;
use call::Record;
use logging::{Hub, Shown, error, notice, warning};
use pbx_journal::{Appender, Column, JournalOptions, Loader, LoaderOptions, Opened, Writer};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the rings are looked at: nobody wakes the writer for a record.
const POLL: Duration = Duration::from_millis(10);

/// How long the writer leaves a disk alone that has refused.
const RETRY: Duration = Duration::from_secs(1);

/// Rows that the loader puts into one transaction.
const ROWS: usize = 500;

/// How often the loader looks for new lines.
const LOOK: Duration = Duration::from_secs(1);

/// The table's columns and the fields of a record's line.
const COLUMNS: &[Column] = &[
    ("call_id", "id"),
    ("started", "start"),
    ("answered", "answer"),
    ("ended", "end"),
    ("duration_ms", "duration_ms"),
    ("billed_ms", "billed_ms"),
    ("caller", "caller"),
    ("caller_name", "caller_name"),
    ("dialled", "dialled"),
    ("context", "context"),
    ("endpoint", "endpoint"),
    ("peer", "peer"),
    ("channel", "channel"),
    ("peer_channel", "peer_channel"),
    ("disposition", "disposition"),
    ("cause", "cause"),
    ("code", "code"),
    ("ended_by", "ended_by"),
    ("foreign_id", "foreign_id"),
];

/// A shard's end of the journal.
pub(crate) struct RecordSink {
    /// What is written, for the log.
    what: &'static str,
    appender: Option<Appender>,
    line: Vec<u8>,
    /// Lines that found no room in the ring: since new calls are refused from half of it on, only
    /// calls that were running when the disk failed can come here.
    overflow: std::collections::VecDeque<Box<[u8]>>,
    written: u64,
    overflowed: u64,
}

impl RecordSink {
    /// For a shard; `None` when no records are wanted.
    pub(crate) fn new(what: &'static str, appender: Option<Appender>) -> Self {
        let overflow = Default::default();
        Self { what, appender, line: Vec::new(), overflow, written: 0, overflowed: 0 }
    }

    /// Takes one record.
    pub(crate) fn take(&mut self, record: &Record) {
        self.take_line(|line| record.to_json_line(line));
    }

    /// Takes one line of text, without its line feed.
    pub(crate) fn take_text(&mut self, text: &str) {
        self.take_line(|line| {
            line.extend_from_slice(text.as_bytes());
            line.push(b'\n');
        });
    }

    fn take_line(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(appender) = &mut self.appender else { return };
        self.line.clear();
        write(&mut self.line);
        self.written += 1;
        if !self.overflow.is_empty() || appender.append(&self.line).is_err() {
            if self.overflow.is_empty() {
                error!("The ring of {} is full: they wait in memory, unprotected", self.what);
            }
            self.overflowed += 1;
            self.overflow.push_back(self.line.as_slice().into());
        }
    }

    /// Tries again what had no room. Once a turn.
    pub(crate) fn retry(&mut self) {
        let Some(appender) = &mut self.appender else { return };
        while let Some(line) = self.overflow.front() {
            if appender.append(line).is_err() {
                return;
            }
            self.overflow.pop_front();
            if self.overflow.is_empty() {
                notice!("The ring of {} has room again", self.what);
            }
        }
    }

    /// Whether something new may begin: half of the ring is kept for what runs.
    pub(crate) fn takes_new(&mut self) -> bool {
        match &mut self.appender {
            Some(appender) => appender.free() >= appender.capacity() / 2,
            None => true,
        }
    }

    /// Records taken since the start, and those that had to wait in memory.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.written, self.overflowed)
    }
}

/// What the threads have done, for metrics.
#[derive(Default)]
pub(crate) struct Progress {
    /// Records written to the JSON lines.
    pub(crate) written: AtomicU64,
    /// Bytes that wait in the rings.
    pub(crate) waiting: AtomicU64,
    /// Writes that failed.
    pub(crate) failures: AtomicU64,
    /// Syncs that failed.
    pub(crate) sync_failures: AtomicU64,
    /// Rows loaded into SQLite.
    pub(crate) loaded: AtomicU64,
    /// Bytes of JSON lines that SQLite does not have yet.
    pub(crate) behind: AtomicU64,
}

/// The running threads.
pub(crate) struct Journal {
    /// What they have done.
    pub(crate) progress: Arc<Progress>,
    stop: Arc<AtomicBool>,
    writer: JoinHandle<()>,
    loader: Option<JoinHandle<()>>,
}

/// Opens the journal, replays what an earlier process left, and starts the threads. Gives the
/// shards' ends.
pub(crate) fn start(
    records: &Records,
    shards: u8,
    hub: &Arc<Hub>,
) -> Result<(Vec<Appender>, Journal), Box<dyn std::error::Error>> {
    let Opened { appenders, writer, replayed } = pbx_journal::open(&JournalOptions {
        name: "calls",
        folder: records.folder.clone(),
        ring_folder: records.ring_folder.clone(),
        shards,
        ring_bytes: records.ring,
        segment_max: records.file,
        sync: records.sync,
    })?;
    if replayed.records > 0 {
        notice!("Replayed {} call records of a process that was killed", replayed.records);
    }
    if replayed.torn > 0 {
        warning!("Cut {} bytes of a torn call record off", replayed.torn);
    }
    for path in &replayed.unreadable {
        error!("A ring of call records is unreadable and was put aside: {}", Shown(path.display()));
    }
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
    let (their_stop, their_progress) = (Arc::clone(&stop), Arc::clone(&progress));
    let writer =
        threads::spawn("journal", hub, move || write_until(writer, &their_stop, &their_progress))?;
    let loader =
        records.sqlite.then(|| start_loader(records, hub, &stop, &progress)).transpose()?;
    Ok((appenders, Journal { progress, stop, writer, loader }))
}

impl Journal {
    /// Writes what is left and ends the threads. After the shards have ended.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        // A panic on these threads has ended the program already.
        let _ = self.writer.join();
        if let Some(loader) = self.loader {
            let _ = loader.join();
        }
    }
}

fn write_until(mut writer: Writer, stop: &AtomicBool, progress: &Progress) {
    let mut failing = false;
    loop {
        let last = stop.load(Ordering::Acquire);
        match writer.poll() {
            Ok(wrote) => {
                progress.written.fetch_add(wrote.records, Ordering::Relaxed);
                progress.waiting.store(wrote.waiting, Ordering::Relaxed);
                progress.sync_failures.store(wrote.sync_failures, Ordering::Relaxed);
                if std::mem::take(&mut failing) {
                    notice!("Call records can be written again");
                }
                std::thread::sleep(POLL);
            }
            Err(error) => {
                progress.failures.fetch_add(1, Ordering::Relaxed);
                if !std::mem::replace(&mut failing, true) {
                    error!("Call records cannot be written, they wait: {}", Shown(&error));
                }
                if last {
                    break; // what waits in the rings is replayed at the next start
                }
                std::thread::sleep(RETRY);
            }
        }
        if last {
            if let Err(error) = writer.close() {
                error!("Call records cannot be written, they wait: {}", Shown(&error));
            }
            break;
        }
    }
}

fn start_loader(
    records: &Records,
    hub: &Arc<Hub>,
    stop: &Arc<AtomicBool>,
    progress: &Arc<Progress>,
) -> io::Result<JoinHandle<()>> {
    let options = LoaderOptions {
        folder: records.folder.clone(),
        database: records.folder.join("calls.db"),
        columns: COLUMNS,
        indexed: "started",
    };
    let (stop, progress) = (Arc::clone(stop), Arc::clone(progress));
    threads::spawn("loader", hub, move || {
        if let Err(error) = threads::lower_priority() {
            warning!("The loader runs at normal priority: {}", Shown(&error));
        }
        match Loader::open(&options) {
            Ok(loader) => load_until(loader, &stop, &progress),
            Err(error) => error!("SQLite is not filled: {}", Shown(&error)),
        }
    })
}

/// Loads at most [`ROWS`] a second while calls come, so that it costs next to nothing under load,
/// and catches up when they do not.
fn load_until(mut loader: Loader, stop: &AtomicBool, progress: &Progress) {
    let mut failing = false;
    let mut pace = Pace::new(progress);
    while !stop.load(Ordering::Acquire) {
        match loader.step(ROWS) {
            Ok(rows) => {
                failing = false;
                progress.loaded.fetch_add(rows as u64, Ordering::Relaxed);
                if let Ok(behind) = loader.behind() {
                    progress.behind.store(behind, Ordering::Relaxed);
                }
                if rows < ROWS || !pace.is_quiet(progress) {
                    wait(stop, LOOK);
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    error!("SQLite cannot be filled: {}", Shown(&error));
                }
                wait(stop, LOOK);
            }
        }
    }
}

/// Whether few records come.
struct Pace {
    since: Instant,
    written: u64,
    is_quiet: bool,
}

impl Pace {
    fn new(progress: &Progress) -> Self {
        let written = progress.written.load(Ordering::Relaxed);
        Self { since: Instant::now(), written, is_quiet: false }
    }

    /// Whether fewer came in the last second than one transaction holds.
    fn is_quiet(&mut self, progress: &Progress) -> bool {
        if self.since.elapsed() >= LOOK {
            let written = progress.written.load(Ordering::Relaxed);
            let came = written - self.written;
            *self = Self { since: Instant::now(), written, is_quiet: came < ROWS as u64 };
        }
        self.is_quiet
    }
}

/// Sleeps, but not much longer than the program runs.
fn wait(stop: &AtomicBool, span: Duration) {
    let end = Instant::now() + span;
    while !stop.load(Ordering::Acquire) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stuck_disk_stops_new_calls_first_and_loses_nothing() {
        let folder = std::env::temp_dir().join(format!("pbx-sink-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let Opened { mut appenders, mut writer, .. } = pbx_journal::open(&JournalOptions {
            name: "calls",
            folder: folder.join("records"),
            ring_folder: folder.join("rings"),
            shards: 1,
            ring_bytes: pbx_journal::RING_MIN,
            segment_max: 1 << 30,
            sync: None,
        })
        .unwrap();
        let mut sink = RecordSink::new("call records", appenders.pop());
        let mut put = 0;
        let mut take = |sink: &mut RecordSink| {
            put += 1;
            sink.take_line(|line| line.extend_from_slice(format!("{put:0>999}\n").as_bytes()));
        };
        // Nobody writes: the running calls end one after the other.
        while sink.takes_new() {
            take(&mut sink);
        }
        assert_eq!(sink.counts().1, 0, "half of the ring is left for the running calls");
        while sink.counts().1 < 100 {
            take(&mut sink);
        }
        sink.retry();
        assert!(!sink.takes_new());
        writer.poll().unwrap();
        sink.retry();
        assert!(sink.takes_new() && sink.overflow.is_empty());
        writer.close().unwrap();
        let text = std::fs::read_to_string(folder.join("records/calls-000001.jsonl")).unwrap();
        let numbers: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(numbers, (1..=sink.counts().0).collect::<Vec<_>>(), "all, and in order");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn without_records_nothing_holds_new_calls_up() {
        let mut sink = RecordSink::new("call records", None);
        sink.take_line(|_| panic!("nobody wants it"));
        assert!(sink.takes_new());
    }
}
