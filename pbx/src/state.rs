//! What must survive the program beside call records: where endpoints are, and the plan's database.
//!
//! Shards write each change into a ring, as they do with call records, before anything that says so
//! is sent; the thread here appends the lines to files and now and then writes the whole state
//! instead (`pbx_journal::snapshot`). At the start all is read back.

use crate::threads;
use logging::{Hub, Shown, error, notice, warning};
use pbx_core::{Changes, Shared, entry_line, whole_line};
use pbx_journal::{Appender, JournalOptions, Opened, Writer, snapshot};
use sip::registrar::{Aor, Line};
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How the files begin.
const NAME: &str = "state";

/// 4 MiB hold some 8,000 registrations: half a second at the rate that one core can take.
const RING: u64 = 4 << 20;

/// Files are begun anew by snapshots, not by size.
const FILE_MAX: u64 = u64::MAX;

/// How often the rings are looked at.
const POLL: Duration = Duration::from_millis(10);

/// How long the writer leaves a disk alone that has refused.
const RETRY: Duration = Duration::from_secs(1);

/// What a power failure may cost.
const SYNC: Duration = Duration::from_secs(1);

/// The whole state is written when the changes since are so many times as long ...
const GROWTH_MAX: u64 = 4;

/// ... and so many bytes at least.
const CHANGES_MIN: u64 = 8 << 20;

/// Entries of the database that are read at once.
const PAGE: usize = 1_000;

/// What the thread has done, for metrics.
#[derive(Default)]
pub(crate) struct Progress {
    /// Changes written.
    pub(crate) written: AtomicU64,
    /// Bytes that wait in the rings.
    pub(crate) waiting: AtomicU64,
    /// Writes that failed.
    pub(crate) failures: AtomicU64,
    /// Snapshots written.
    pub(crate) snapshots: AtomicU64,
}

/// The running thread.
pub(crate) struct State {
    /// What it has done.
    pub(crate) progress: Arc<Progress>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl State {
    /// Writes what is left and ends the thread. After the shards have ended.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        // A panic on that thread has ended the program already.
        let _ = self.thread.join();
    }
}

/// What a start gives.
pub(crate) struct Started {
    /// The shards' ends.
    pub(crate) appenders: Vec<Appender>,
    /// Who can be reached, from before.
    pub(crate) names: Vec<Box<str>>,
    /// The thread.
    pub(crate) state: State,
}

/// Reads what an earlier process left into `shared` and starts the thread.
pub(crate) fn start(
    (folder, ring_folder): (&Path, &Path),
    shards: u8,
    shared: &Shared,
    hub: &Arc<Hub>,
) -> Result<Started, Box<dyn Error>> {
    let Opened { appenders, writer, replayed } = pbx_journal::open(&JournalOptions {
        name: NAME,
        folder: folder.to_owned(),
        ring_folder: ring_folder.to_owned(),
        shards,
        ring_bytes: RING,
        segment_max: FILE_MAX,
        sync: Some(SYNC),
    })?;
    for path in &replayed.unreadable {
        error!("A ring of the state is unreadable and was put aside: {}", Shown(path.display()));
    }
    let mut changes = Changes::default();
    let bad = snapshot::read(folder, NAME, |line| apply(line, shared, &mut changes))?;
    let refused = changes.apply(&*shared.database);
    if refused > 0 {
        warning!("{} values of the database find no room and are lost", refused);
    }
    for bad in bad.iter().take(10) {
        warning!("{}:{}: not understood: {}", Shown(bad.path.display()), bad.line, &*bad.why);
    }
    let names = forget_what_is_over(shared);
    if !names.is_empty() {
        notice!("{} endpoints are registered from before", names.len());
    }
    let progress = Arc::new(Progress::default());
    let stop = Arc::new(AtomicBool::new(false));
    let keeper = Keeper {
        writer,
        folder: folder.to_owned(),
        shared: shared.clone(),
        progress: Arc::clone(&progress),
        stop: Arc::clone(&stop),
        // What was read is written anew at once: at each start the files begin short.
        changed: u64::MAX,
        whole: 0,
    };
    let thread = threads::spawn("state", hub, move || keeper.run())?;
    Ok(Started { appenders, names, state: State { progress, stop, thread } })
}

/// Does what a line says about a binding; what it says about the database is done later.
fn apply(line: &str, shared: &Shared, changes: &mut Changes) -> Result<(), String> {
    if line.starts_with('[') {
        return match changes.read(line) {
            true => Ok(()),
            false => Err("no entry of the database".to_owned()),
        };
    }
    let mut line = Some(Line::parse(line).map_err(|bad| bad.to_string())?);
    let aor: Box<str> = line.as_ref().map(Line::aor).unwrap_or_default().into();
    let has_room = shared.locations.change(&aor, &mut |aor: &mut Aor| {
        if let Some(line) = line.take() {
            line.apply(aor);
        }
    });
    if has_room { Ok(()) } else { Err("there are more endpoints than before".to_owned()) }
}

/// Bindings whose time is over are gone; gives the names of the others.
fn forget_what_is_over(shared: &Shared) -> Vec<Box<str>> {
    let now = sip_net::Clock::new().sample().wall;
    let mut names = shared.locations.names();
    names.sort_unstable();
    names.retain(|name| {
        let mut is_empty = true;
        shared.locations.change(name, &mut |aor: &mut Aor| {
            aor.expire(now);
            is_empty = aor.is_empty();
        });
        !is_empty
    });
    names
}

/// Gives each of `names` to one of the shards, which looks after its bindings from now on.
pub(crate) fn share_out(names: Vec<Box<str>>, shards: u8, shared: &Shared) -> Vec<Vec<Box<str>>> {
    let mut parts: Vec<Vec<Box<str>>> = (0..shards.max(1)).map(|_| Vec::new()).collect();
    for (at, name) in names.into_iter().enumerate() {
        let shard = at % parts.len();
        shared.locations.change(&name, &mut |aor: &mut Aor| {
            aor.set_keeper(u8::try_from(shard).unwrap_or(0));
        });
        parts[shard].push(name);
    }
    parts
}

/// The thread.
struct Keeper {
    writer: Writer,
    folder: PathBuf,
    shared: Shared,
    progress: Arc<Progress>,
    stop: Arc<AtomicBool>,
    /// Bytes of changes since the last snapshot, and the size of that.
    changed: u64,
    whole: u64,
}

impl Keeper {
    fn run(mut self) {
        let mut failing: Option<Instant> = None;
        loop {
            let is_last = self.stop.load(Ordering::Acquire);
            let may_try = failing.is_none_or(|since| since.elapsed() >= RETRY);
            if may_try {
                match self.turn() {
                    Ok(()) if failing.take().is_some() => notice!("The state can be written again"),
                    Ok(()) => {}
                    Err(error) => {
                        self.progress.failures.fetch_add(1, Ordering::Relaxed);
                        if failing.replace(Instant::now()).is_none() {
                            error!("The state cannot be written, it waits: {}", Shown(&error));
                        }
                    }
                }
            }
            if is_last {
                break;
            }
            std::thread::sleep(POLL);
        }
        if let Err(error) = self.writer.close() {
            // What waits in the rings is replayed at the next start.
            error!("The state cannot be written, it waits: {}", Shown(&error));
        }
    }

    fn turn(&mut self) -> io::Result<()> {
        let wrote = self.writer.poll()?;
        self.progress.written.fetch_add(wrote.records, Ordering::Relaxed);
        self.progress.waiting.store(wrote.waiting, Ordering::Relaxed);
        self.changed = self.changed.saturating_add(wrote.bytes);
        let most = self.whole.saturating_mul(GROWTH_MAX).max(CHANGES_MIN);
        if self.changed > most {
            let number = self.writer.begin_file()?;
            let shared = &self.shared;
            self.whole = snapshot::write(&self.folder, NAME, number, |out| dump(shared, out))?;
            self.changed = 0;
            self.progress.snapshots.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Writes the whole state.
fn dump(shared: &Shared, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    for name in shared.locations.names() {
        text.clear();
        shared.locations.view(&name, &mut |aor: &Aor| {
            for binding in aor.bindings() {
                binding.to_line(&name, &mut text);
                text.push('\n');
            }
        });
        out.write_all(text.as_bytes())?;
    }
    writeln!(out, "{}", whole_line(&*shared.database))?;
    let mut after: Option<(Box<str>, Box<str>)> = None;
    loop {
        let from = after.as_ref().map(|(family, key)| (&**family, &**key));
        let page = shared.database.page("", from, PAGE);
        for (family, key, value) in &page {
            writeln!(out, "{}", entry_line(family, key, value))?;
        }
        match page.into_iter().next_back() {
            Some((family, key, _)) => after = Some((family, key)),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(shared: &Shared, lines: &[&str]) {
        let mut changes = Changes::default();
        lines.iter().for_each(|line| apply(line, shared, &mut changes).unwrap());
        assert_eq!(changes.apply(&*shared.database), 0);
    }

    /// Rings are emptied one after the other, and a snapshot is written while they fill.
    #[test]
    fn changes_of_two_shards_are_done_again_in_their_order() {
        let shared = pbx_shared::shared(10, Duration::from_secs(60));
        read(
            &shared,
            &[
                "[4]",
                "[\"cf\",\"1\",\"new\"]",
                "[\"cf\",\"1\",\"old\",3]",
                "[\"cf\",\"gone\",\"before the snapshot\",2]",
                "[\"cf\",\"2\",\"last\",8]",
                "[\"cf\",\"3\",9]",
                "[\"cf\",\"2\",\"first\",5]",
                "[\"cf\",\"3\",\"deleted later\",6]",
                "[\"cf\",\"\",null,7]",
            ],
        );
        let page = shared.database.page("", None, 10);
        let values: Vec<_> = page.iter().map(|(_, key, value)| (&**key, &**value)).collect();
        assert_eq!(values, [("2", "last")]);
        assert_eq!(shared.database.put("cf", "1", "next"), Some(10));
    }

    #[test]
    fn a_state_that_is_written_whole_reads_back_the_same() {
        let shared = pbx_shared::shared(10, Duration::from_secs(60));
        let line = r#"{"aor":"1000","contact":"sip:1000@192.0.2.1","call_id":"c","cseq":1,"q":500,
            "expires_at":9000000000000000,"registered_at":1,"transport":"UDP",
            "local":"127.0.0.1:5060","remote":"127.0.0.1:5061"}"#;
        read(
            &shared,
            &[
                line,
                "[\"cf\",\"10\\\"00\",\"x\\ny\",1]",
                "[\"cf\",\"2\",\"gone\",2]",
                "[\"cf\",\"2\",3]",
            ],
        );
        assert!(apply("[true]", &shared, &mut Changes::default()).is_err());
        assert!(apply("{}", &shared, &mut Changes::default()).is_err());
        let mut whole = Vec::new();
        dump(&shared, &mut whole).unwrap();
        let again = pbx_shared::shared(10, Duration::from_secs(60));
        let text = String::from_utf8(whole).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert_eq!(text.lines().nth(1), Some("[3]"));
        read(&again, &text.lines().collect::<Vec<_>>());
        let mut second = Vec::new();
        dump(&again, &mut second).unwrap();
        assert_eq!(String::from_utf8(second).unwrap(), text);
        let names = forget_what_is_over(&again);
        assert_eq!(share_out(names, 3, &again)[0], ["1000".into()]);
    }
}
