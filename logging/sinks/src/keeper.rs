//! The keeper of old log files: compresses them, and keeps all log files within the disk budget.
//!
//! One thread at the lowest priority; couriers only tell it that there is something. While a name
//! in a log folder changes, [`Keeper::alone`] is held, so that shifting numbers and a finished
//! compression do not cross.
//!
//! What the budget takes away, oldest first: old files, then the largest file that is being
//! written, which is put aside for it and so becomes an old one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use logging::{Shown, error, notice, warning};

use crate::rotated::{old_files, split};
use crate::rotation::{Old, Rotation, Strategy};
use crate::sink::lock;

/// How often the budget is looked at when no file was rotated.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The end of the name of a compression that is not finished.
const PART: &str = ".gz.part";

/// A file that is being written.
pub(crate) struct LogFile {
    pub(crate) path: PathBuf,
    pub(crate) rotation: Rotation,
    bytes: AtomicU64,
    asked: AtomicBool,
}

impl LogFile {
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether the budget wants it to be put aside.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }
}

/// The disk that log files take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskView {
    /// What they may take at most; `None`: no budget was given.
    pub budget: Option<u64>,
    /// What they take now, old ones included.
    pub used: u64,
    /// What they can take at most by their own limits; `None` when one of them has none.
    pub worst_case: Option<u64>,
    /// Files taken away to keep the budget, and their bytes.
    pub removed: u64,
    /// Bytes of them.
    pub removed_bytes: u64,
    /// Rotations so far.
    pub rotations: u64,
}

#[derive(Default)]
struct State {
    files: Vec<Weak<LogFile>>,
    budget: Option<u64>,
    is_due: bool,
    is_ended: bool,
    is_checked: bool,
}

/// Shared by all files that rotate.
pub(crate) struct Keeper {
    state: Mutex<State>,
    wake: Condvar,
    names: Mutex<()>,
    used: AtomicU64,
    removed: AtomicU64,
    removed_bytes: AtomicU64,
    rotations: AtomicU64,
}

impl Keeper {
    /// Starts the thread.
    pub(crate) fn start(budget: Option<u64>) -> io::Result<Arc<Self>> {
        let keeper = Arc::new(Self {
            state: Mutex::new(State { budget, is_checked: true, ..State::default() }),
            wake: Condvar::new(),
            names: Mutex::new(()),
            used: AtomicU64::new(0),
            removed: AtomicU64::new(0),
            removed_bytes: AtomicU64::new(0),
            rotations: AtomicU64::new(0),
        });
        let own = Arc::clone(&keeper);
        thread::Builder::new().name("log-keeper".to_owned()).spawn(move || own.run())?;
        Ok(keeper)
    }

    pub(crate) fn end(&self) {
        lock(&self.state).is_ended = true;
        self.wake.notify_all();
    }

    /// Takes a file into its care, until the answer is dropped.
    pub(crate) fn register(&self, path: PathBuf, rotation: Rotation) -> io::Result<Arc<LogFile>> {
        split(&path)?;
        let bytes = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        let (bytes, asked) = (AtomicU64::new(bytes), AtomicBool::new(false));
        let file = Arc::new(LogFile { path, rotation, bytes, asked });
        let mut state = lock(&self.state);
        state.files.push(Arc::downgrade(&file));
        (state.is_due, state.is_checked) = (true, false);
        drop(state);
        self.wake.notify_all();
        Ok(file)
    }

    pub(crate) fn set_budget(&self, budget: Option<u64>) {
        let mut state = lock(&self.state);
        state.budget = budget;
        (state.is_due, state.is_checked) = (true, false);
        drop(state);
        self.wake.notify_all();
    }

    /// Held while names change.
    pub(crate) fn alone(&self) -> MutexGuard<'_, ()> {
        lock(&self.names)
    }

    pub(crate) fn was_rotated(&self) {
        self.rotations.fetch_add(1, Ordering::Relaxed);
        lock(&self.state).is_due = true;
        self.wake.notify_all();
    }

    pub(crate) fn view(&self) -> DiskView {
        let state = lock(&self.state);
        let files: Vec<_> = state.files.iter().filter_map(Weak::upgrade).collect();
        DiskView {
            budget: state.budget,
            used: self.used.load(Ordering::Relaxed),
            worst_case: worst_case(&files),
            removed: self.removed.load(Ordering::Relaxed),
            removed_bytes: self.removed_bytes.load(Ordering::Relaxed),
            rotations: self.rotations.load(Ordering::Relaxed),
        }
    }

    fn run(&self) {
        // Without it compression is only less polite.
        let _ = rustix::process::setpriority_process(None, 19);
        while let Some((files, budget, is_checked)) = self.next() {
            for file in files.iter().filter(|file| file.rotation.gzip) {
                if let Err(failure) = self.compress_old(file) {
                    let name = file.path.display().to_string();
                    let failure = Shown(&failure);
                    error!("Old files of log {} cannot be compressed: {}", name.as_str(), failure);
                }
            }
            self.keep_budget(&files, budget);
            if !is_checked {
                self.compare_with_disk(&files, budget);
            }
        }
    }

    /// Waits until there may be something to do.
    fn next(&self) -> Option<(Vec<Arc<LogFile>>, Option<u64>, bool)> {
        let mut state = lock(&self.state);
        while !state.is_due && !state.is_ended {
            let (woken, out) =
                self.wake.wait_timeout(state, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if out.timed_out() {
                break;
            }
        }
        if state.is_ended {
            return None;
        }
        state.is_due = false;
        state.files.retain(|file| file.strong_count() > 0);
        let files = state.files.iter().filter_map(Weak::upgrade).collect();
        Some((files, state.budget, std::mem::replace(&mut state.is_checked, true)))
    }

    /// Compresses what was put aside, and what an earlier run of the program left.
    fn compress_old(&self, file: &LogFile) -> io::Result<()> {
        let (folder, name) = split(&file.path)?;
        let part = folder.join(format!("{name}{PART}"));
        loop {
            let plain = {
                let _alone = self.alone();
                let old = old_files(&folder, &name)?;
                let Some(plain) = old.iter().filter(|old| !old.is_compressed).min() else {
                    return Ok(());
                };
                File::open(folder.join(plain.name(&name)))?
            };
            let result = compress(&plain, &part).and_then(|()| {
                let _alone = self.alone();
                finish(&folder, &name, &plain, &part)
            });
            if result.is_err() {
                // A half-written copy is nothing worth.
                let _ = fs::remove_file(&part);
                return result;
            }
        }
    }

    /// Takes the oldest files away while all together are too large.
    fn keep_budget(&self, files: &[Arc<LogFile>], budget: Option<u64>) {
        let limit = budget.unwrap_or(u64::MAX);
        let _alone = self.alone();
        let mut old: Vec<Aged> = files.iter().flat_map(|file| aged(file)).collect();
        old.sort_by_key(|old| old.modified);
        let live: u64 = files.iter().map(|file| file.bytes.load(Ordering::Relaxed)).sum();
        let mut used = live + old.iter().map(|old| old.bytes).sum::<u64>();
        for old in old {
            if used <= limit {
                break;
            }
            if self.remove(&old) {
                used -= old.bytes;
            }
        }
        let movable = files.iter().filter(|file| file.rotation.strategy != Strategy::None);
        if used > limit
            && let Some(largest) = movable.max_by_key(|file| file.bytes.load(Ordering::Relaxed))
        {
            largest.asked.store(true, Ordering::Relaxed);
        }
        self.used.store(used, Ordering::Relaxed);
    }

    fn remove(&self, old: &Aged) -> bool {
        let (name, bytes) = (old.path.display().to_string(), old.bytes);
        let result = fs::remove_file(&old.path);
        match &result {
            Ok(()) => {
                self.removed.fetch_add(1, Ordering::Relaxed);
                self.removed_bytes.fetch_add(bytes, Ordering::Relaxed);
                notice!(
                    "Old log {} of {} bytes is removed: log files are over their budget",
                    name.as_str(),
                    bytes
                );
            }
            Err(failure) => {
                error!("Old log {} cannot be removed: {}", name.as_str(), Shown(failure));
            }
        }
        result.is_ok()
    }

    /// Warns when the disk has no room for what the limits allow.
    fn compare_with_disk(&self, files: &[Arc<LogFile>], budget: Option<u64>) {
        // By file system; a log folder that cannot be asked has other troubles.
        let mut folders: BTreeMap<u64, (u64, Vec<Arc<LogFile>>)> = BTreeMap::new();
        for file in files {
            let Some(folder) = file.path.parent() else { continue };
            let (Ok(metadata), Ok(disk)) = (fs::metadata(folder), rustix::fs::statvfs(folder))
            else {
                continue;
            };
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let entry = folders.entry(metadata.dev()).or_insert((free, Vec::new()));
            entry.1.push(Arc::clone(file));
        }
        for (free, files) in folders.into_values() {
            let used: u64 = files.iter().map(|file| taken(file)).sum();
            let bound = match (worst_case(&files), budget) {
                (Some(worst), Some(budget)) => Some(worst.min(budget)),
                (worst, budget) => worst.or(budget),
            };
            match bound {
                None => warning!(
                    "A log file has no limit of its own and there is no budget: it can fill the \
                     disk, which has {} bytes left",
                    free
                ),
                Some(bound) if bound.saturating_sub(used) > free => warning!(
                    "Log files may grow to {} bytes, but take {} now and the disk has only {} left",
                    bound,
                    used,
                    free
                ),
                Some(_) => {}
            }
        }
    }
}

/// What a log and its old files take.
fn taken(file: &LogFile) -> u64 {
    file.bytes.load(Ordering::Relaxed) + aged(file).iter().map(|old| old.bytes).sum::<u64>()
}

fn worst_case(files: &[Arc<LogFile>]) -> Option<u64> {
    files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.rotation.worst_case_bytes()?))
}

struct Aged {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
}

/// The old files of a log.
fn aged(file: &LogFile) -> Vec<Aged> {
    let Ok((folder, name)) = split(&file.path) else { return Vec::new() };
    let old = old_files(&folder, &name).unwrap_or_default();
    let look = |old: Old| {
        let path = folder.join(old.name(&name));
        let metadata = fs::metadata(&path).ok()?;
        Some(Aged { path, bytes: metadata.len(), modified: metadata.modified().ok()? })
    };
    old.into_iter().filter_map(look).collect()
}

/// Compresses a file into another one, readable as log files are.
fn compress(plain: &File, part: &Path) -> io::Result<()> {
    let file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(part)?;
    let mut encoder = GzEncoder::new(file, Compression::fast());
    io::copy(&mut &*plain, &mut encoder)?;
    encoder.finish()?.sync_all()
}

/// Puts a finished copy in the place of its file, under whatever number that has by now. A file
/// that the budget or a rotation has taken away meanwhile takes its copy along.
fn finish(folder: &Path, name: &str, plain: &File, part: &Path) -> io::Result<()> {
    let ours = plain.metadata()?;
    for old in old_files(folder, name)?.into_iter().filter(|old| !old.is_compressed) {
        let path = folder.join(old.name(name));
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if (metadata.dev(), metadata.ino()) == (ours.dev(), ours.ino()) {
            // The age decides what the budget takes first.
            if let Ok(modified) = ours.modified() {
                let _ = File::options().write(true).open(part)?.set_modified(modified);
            }
            fs::rename(part, folder.join(Old { is_compressed: true, ..old }.name(name)))?;
            return fs::remove_file(path);
        }
    }
    fs::remove_file(part)
}
