//! From the rings to the file of JSON lines.
//!
//! A batch of one ring goes through these steps; after a kill at any of them the next start does
//! the rest (left: where it died, right: what the replay finds and does).
//!
//! ```text
//! copy records ─ intend(file, place, upto) ─ write ─ take(upto)
//!      │                  │                    │         │
//!      │                  │                    │         └ nothing to do
//!      │                  └────────────────────┴ the same bytes to the same place, take(upto)
//!      └ an ordinary batch
//! ```

use crate::folder;
use crate::lines::Lines;
use crate::ring::{self, Appender, Drain, Intent};
use crate::syncer::Syncer;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes in one write: enough to make its cost vanish, short enough for a disk's queue.
const BATCH_MAX: usize = 1 << 18;

/// Rounds over the rings in one poll; what is left waits for the next one.
const ROUNDS_MAX: usize = 8;

/// How often the file is looked at for changes by others.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Where and how.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// How its files begin.
    pub name: &'static str,
    /// Where the JSON lines go.
    pub folder: PathBuf,
    /// Where the rings lie; on tmpfs.
    pub ring_folder: PathBuf,
    /// One ring each.
    pub shards: u8,
    /// Bytes of one ring; rounded up to a power of two between [`crate::RING_MIN`] and
    /// [`crate::RING_MAX`].
    pub ring_bytes: u64,
    /// A new file is begun after so many bytes.
    pub segment_max: u64,
    /// How long a written record may stay away from the disk; `None` leaves it to the kernel.
    pub sync: Option<Duration>,
}

/// The journal cannot be opened: what was done to what.
#[derive(Debug)]
pub struct JournalFault {
    /// What failed.
    pub action: &'static str,
    /// On what.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl std::fmt::Display for JournalFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.action, self.path.display(), self.error)
    }
}

impl std::error::Error for JournalFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// What an earlier process had left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records that were still in its rings and are in the file since.
    pub records: u64,
    /// Bytes of a torn last line (a power failure), cut off.
    pub torn: u64,
    /// Rings that could not be read to their end; they were put aside under these names.
    pub unreadable: Vec<PathBuf>,
}

/// A journal, ready for use.
pub struct Opened {
    /// One for each shard, in order.
    pub appenders: Vec<Appender>,
    /// For the writer's thread.
    pub writer: Writer,
    /// What was found.
    pub replayed: Replayed,
}

/// What one poll did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrote {
    /// Records.
    pub records: u64,
    /// Bytes.
    pub bytes: u64,
    /// Bytes that still wait in the rings.
    pub waiting: u64,
    /// How often the disk has refused a sync since the start.
    pub sync_failures: u64,
}

/// Moves records from the rings to the file. Runs on a thread of its own, polled every few
/// milliseconds: nobody wakes it for a record.
pub struct Writer {
    rings: Vec<Drain>,
    lines: Lines,
    batch: Vec<u8>,
    syncer: Option<Syncer>,
    looked_at: Instant,
    /// Held as long as the journal is open.
    _locks: [File; 2],
}

/// Opens the journal: replays the rings that an earlier process left, then makes new ones.
pub fn open(options: &JournalOptions) -> Result<Opened, JournalFault> {
    let fault = |action, path: &Path| {
        let path = path.to_owned();
        move |error| JournalFault { action, path, error }
    };
    let JournalOptions { folder, ring_folder, .. } = options;
    fs::create_dir_all(folder).map_err(fault("make folder", folder))?;
    folder::private(ring_folder).map_err(fault("use ring folder", ring_folder))?;
    let locks = [
        folder::lock(folder).map_err(fault("lock", folder))?,
        folder::lock(ring_folder).map_err(fault("lock", ring_folder))?,
    ];
    let mut lines = Lines::open(folder, options.name, options.segment_max)
        .map_err(fault("open records in", folder))?;
    let replayed =
        replay(ring_folder, &mut lines).map_err(fault("replay the rings in", ring_folder))?;
    let (mut appenders, mut rings) = (Vec::new(), Vec::new());
    for shard in 0..options.shards {
        let path = ring_folder.join(format!("shard-{shard}.ring"));
        let made = ring::create(&path, options.ring_bytes);
        let (appender, drain) = made.map_err(fault("reserve the ring", &path))?;
        appenders.push(appender);
        rings.push(drain);
    }
    let syncer = options.sync.map(Syncer::start).transpose();
    let writer = Writer {
        rings,
        lines,
        batch: Vec::with_capacity(BATCH_MAX + crate::RECORD_MAX),
        syncer: syncer.map_err(fault("start the thread that syncs", folder))?,
        looked_at: Instant::now(),
        _locks: locks,
    };
    Ok(Opened { appenders, writer, replayed })
}

fn replay(ring_folder: &Path, lines: &mut Lines) -> io::Result<Replayed> {
    let mut replayed = Replayed::default();
    let mut drains = Vec::new();
    for path in ring_files(ring_folder)? {
        match ring::reopen(&path)? {
            Some(drain) => drains.push(drain),
            None => replayed.unreadable.push(put_aside(&path)?),
        }
    }
    // The batch that was being written comes first: it has a place in the file already. There is at
    // most one, since there is one writer.
    drains.sort_by_key(|drain| drain.pending().is_none());
    let mut batch = Vec::new();
    if let Some(drain) = drains.first_mut()
        && let Some(Intent { upto, segment, start }) = drain.pending()
    {
        if let Ok((position, records)) = drain.copy(Some(upto), usize::MAX, &mut batch) {
            lines.rewrite(segment, start, &batch)?;
            drain.take(position);
            replayed.records += records;
        }
    } else {
        replayed.torn = lines.cut_torn_line()?;
    }
    for mut drain in drains {
        if replay_rest(&mut drain, lines, &mut batch, &mut replayed)? {
            fs::remove_file(drain.path())?;
        } else {
            replayed.unreadable.push(put_aside(drain.path())?);
        }
    }
    lines.sync()?;
    Ok(replayed)
}

/// Whether the ring could be read to its end.
fn replay_rest(
    drain: &mut Drain,
    lines: &mut Lines,
    batch: &mut Vec<u8>,
    replayed: &mut Replayed,
) -> io::Result<bool> {
    while drain.waiting() > 0 {
        batch.clear();
        match move_batch(drain, lines, batch)? {
            Some(records) => replayed.records += records,
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// Moves one batch; `None` when the ring is garbled.
fn move_batch(
    drain: &mut Drain,
    lines: &mut Lines,
    batch: &mut Vec<u8>,
) -> io::Result<Option<u64>> {
    batch.clear();
    let Ok((upto, records)) = drain.copy(None, BATCH_MAX, batch) else { return Ok(None) };
    if records > 0 {
        lines.roll()?;
        let (segment, start) = lines.end();
        drain.intend(Intent { upto, segment, start });
        lines.append(batch)?;
    }
    drain.take(upto);
    Ok(Some(records))
}

fn ring_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "ring") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = (0..).map(|number| path.with_extension(format!("unreadable-{number}")));
    let mut free = aside.filter(|aside| !aside.exists());
    let aside = free.next().expect("numbers do not run out");
    fs::rename(path, &aside)?;
    Ok(aside)
}

impl Writer {
    /// Writes what waits in the rings. After an error (a full disk) everything stays where it is
    /// and the next poll tries again.
    pub fn poll(&mut self) -> io::Result<Wrote> {
        let now = Instant::now();
        if now - self.looked_at >= LOOK_AGAIN {
            self.looked_at = now;
            self.lines.look_again()?;
        }
        let mut wrote = Wrote::default();
        for _ in 0..ROUNDS_MAX {
            let before = wrote.records;
            for drain in &mut self.rings {
                let moved = move_batch(drain, &mut self.lines, &mut self.batch)?;
                wrote.records += moved.ok_or_else(|| garbled(drain))?;
                wrote.bytes += self.batch.len() as u64;
            }
            if wrote.records == before {
                break;
            }
        }
        wrote.waiting = self.rings.iter().map(Drain::waiting).sum();
        if let Some(syncer) = &mut self.syncer {
            wrote.sync_failures = syncer.failures();
            if syncer.is_due(now)
                && let Some(file) = self.lines.take_unsynced()?
            {
                syncer.sync(now, file);
            }
        }
        Ok(wrote)
    }

    /// Begins another file; gives its number.
    pub fn begin_file(&mut self) -> io::Result<u64> {
        self.lines.begin()?;
        Ok(self.lines.end().0)
    }

    /// Writes everything, waits for the disk and removes the rings. For the end of the program,
    /// when no shard appends any more.
    pub fn close(mut self) -> io::Result<()> {
        while self.rings.iter().any(|drain| drain.waiting() > 0) {
            self.poll()?;
        }
        self.lines.sync()?;
        self.rings.iter().try_for_each(|drain| fs::remove_file(drain.path()))
    }
}

fn garbled(drain: &Drain) -> io::Error {
    let text = format!("the ring {} is garbled", drain.path().display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::segment_path;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let folder = format!("pbx-journal-{}-{name}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }

        fn options(&self) -> JournalOptions {
            JournalOptions {
                name: "calls",
                folder: self.0.join("records"),
                ring_folder: self.0.join("rings"),
                shards: 2,
                ring_bytes: crate::RING_MIN,
                segment_max: 1 << 30,
                sync: None,
            }
        }

        fn text(&self, segment: u64) -> String {
            let path = segment_path(&self.0.join("records"), "calls", segment);
            fs::read_to_string(path).unwrap_or_default()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn records_of_all_shards_reach_the_file() {
        let place = Place::new("all");
        let Opened { mut appenders, mut writer, replayed } = open(&place.options()).unwrap();
        assert_eq!(replayed, Replayed::default());
        appenders[0].append(b"{\"a\":1}\n").unwrap();
        appenders[1].append(b"{\"b\":2}\n").unwrap();
        let wrote = writer.poll().unwrap();
        assert_eq!(wrote, Wrote { records: 2, bytes: 16, ..Wrote::default() });
        assert_eq!(place.text(1), "{\"a\":1}\n{\"b\":2}\n");
        writer.close().unwrap();
        assert!(ring_files(&place.options().ring_folder).unwrap().is_empty());
    }

    #[test]
    fn what_was_only_in_the_ring_is_replayed_once() {
        let place = Place::new("replay");
        let Opened { mut appenders, mut writer, .. } = open(&place.options()).unwrap();
        appenders[0].append(b"1\n").unwrap();
        writer.poll().unwrap();
        appenders[0].append(b"2\n").unwrap();
        appenders[1].append(b"3\n").unwrap();
        drop((appenders, writer));
        let fewer = JournalOptions { shards: 1, ..place.options() };
        let opened = open(&fewer).unwrap();
        assert_eq!(opened.replayed.records, 2);
        assert_eq!(place.text(1), "1\n2\n3\n");
        drop(opened);
        assert_eq!(open(&fewer).unwrap().replayed, Replayed::default());
        assert_eq!(place.text(1), "1\n2\n3\n");
    }

    /// A process that died after `written` of the six bytes of its batch had reached the file.
    fn died_while_writing(name: &str, written: usize) {
        let place = Place::new(name);
        let Opened { mut appenders, mut writer, .. } = open(&place.options()).unwrap();
        appenders[0].append(b"old\n").unwrap();
        writer.poll().unwrap();
        appenders[0].append(b"first\n").unwrap();
        appenders[1].append(b"22\n").unwrap();
        appenders[1].append(b"33\n").unwrap();
        let mut batch = Vec::new();
        let (upto, _) = writer.rings[1].copy(None, 100, &mut batch).unwrap();
        let (segment, start) = writer.lines.end();
        writer.rings[1].intend(Intent { upto, segment, start });
        writer.lines.append(&batch[..written]).unwrap();
        drop((appenders, writer));
        let opened = open(&place.options()).unwrap();
        assert_eq!(opened.replayed.records, 3);
        assert_eq!(place.text(1), "old\n22\n33\nfirst\n", "{written} bytes were written");
    }

    #[test]
    fn a_batch_cut_short_by_a_kill_is_completed_and_not_doubled() {
        for written in 0..=6 {
            died_while_writing(&format!("cut-{written}"), written);
        }
    }

    #[test]
    fn a_torn_line_is_cut_off() {
        let place = Place::new("torn");
        drop(open(&place.options()).unwrap());
        fs::write(segment_path(&place.options().folder, "calls", 1), "whole\nhal\0\0").unwrap();
        let opened = open(&place.options()).unwrap();
        assert_eq!(opened.replayed.torn, 5);
        assert_eq!(place.text(1), "whole\n");
    }

    #[test]
    fn a_full_file_is_followed_by_the_next() {
        let place = Place::new("roll");
        let options = JournalOptions { segment_max: 10, ..place.options() };
        let Opened { mut appenders, mut writer, .. } = open(&options).unwrap();
        for record in [b"123456\n", b"abcdef\n", b"ABCDEF\n"] {
            appenders[0].append(record).unwrap();
            writer.poll().unwrap();
        }
        assert_eq!(
            (place.text(1).as_str(), place.text(2).as_str()),
            ("123456\nabcdef\n", "ABCDEF\n")
        );
    }

    #[test]
    fn a_file_that_was_moved_away_or_emptied_leaves_no_hole() {
        let place = Place::new("moved");
        let Opened { mut appenders, mut writer, .. } = open(&place.options()).unwrap();
        let path = segment_path(&place.options().folder, "calls", 1);
        let mut put = |writer: &mut Writer, record: &[u8]| {
            appenders[0].append(record).unwrap();
            writer.looked_at -= LOOK_AGAIN;
            writer.poll().unwrap();
        };
        put(&mut writer, b"1\n");
        fs::rename(&path, path.with_extension("old")).unwrap();
        put(&mut writer, b"2\n");
        assert_eq!(place.text(1), "2\n");
        File::create(&path).unwrap();
        put(&mut writer, b"3\n");
        assert_eq!(place.text(1), "3\n");
    }

    #[test]
    fn a_second_process_is_kept_out() {
        let place = Place::new("second");
        let _held = open(&place.options()).unwrap();
        let fault = open(&place.options()).err().unwrap();
        assert_eq!(fault.error.kind(), io::ErrorKind::ResourceBusy);
    }

    #[test]
    fn an_unreadable_ring_is_put_aside_and_the_start_goes_on() {
        let place = Place::new("aside");
        drop(open(&place.options()).unwrap());
        fs::write(place.options().ring_folder.join("shard-0.ring"), b"nonsense").unwrap();
        let opened = open(&place.options()).unwrap();
        assert_eq!(opened.replayed.unreadable.len(), 1);
        assert_eq!(fs::read(&opened.replayed.unreadable[0]).unwrap(), b"nonsense");
    }
}
