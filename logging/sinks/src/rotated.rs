//! A log file that puts itself aside: by size, with each hour or day, or when it is told to.
//!
//! It runs on the courier's thread, and parcels are whole lines, so no line is torn apart and none
//! is lost: what was made before a rotation lands in the old file.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use logging::{Hub, Shown};

use crate::keeper::{Keeper, LogFile};
use crate::output::{Output, open_file};
use crate::rotation::{Act, Old, Rotation, Strategy, plan};

/// How often the file is looked for under its name: somebody may have moved it without a word.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct RotatedFile {
    hub: Arc<Hub>,
    keeper: Arc<Keeper>,
    shared: Arc<LogFile>,
    file: File,
    bytes: u64,
    /// The hour or day of the first line.
    span: i64,
    looked_at: Instant,
    /// A rotation failed; it is not tried again with each parcel.
    failed: bool,
}

impl RotatedFile {
    pub(crate) fn open(
        path: PathBuf,
        rotation: Rotation,
        hub: &Arc<Hub>,
        keeper: &Arc<Keeper>,
    ) -> io::Result<Self> {
        let file = open_file(&path)?;
        let metadata = file.metadata()?;
        let modified = hub.now();
        let shared = keeper.register(path, rotation)?;
        Ok(Self {
            span: rotation.every.map_or(0, |every| every.number(modified)),
            bytes: metadata.len(),
            hub: Arc::clone(hub),
            keeper: Arc::clone(keeper),
            shared,
            file,
            looked_at: Instant::now(),
            failed: false,
        })
    }

    /// Whether the file must be put aside before `more` bytes are written.
    fn is_due(&self, more: usize) -> bool {
        let rotation = &self.shared.rotation;
        let is_too_big = rotation.max_bytes.is_some_and(|max| self.bytes + more as u64 > max);
        let is_too_old =
            rotation.every.is_some_and(|every| every.number(self.hub.now()) != self.span);
        self.bytes > 0 && (is_too_big || is_too_old || self.shared.is_asked_for())
    }

    fn put_aside(&mut self) -> io::Result<()> {
        if self.shared.rotation.strategy == Strategy::None {
            return self.begin();
        }
        let (shared, keeper) = (Arc::clone(&self.shared), Arc::clone(&self.keeper));
        {
            // The keeper renames files in the same folder.
            let _alone = keeper.alone();
            let seconds = self.hub.now().wall.as_micros().div_euclid(1_000_000);
            carry_out(&shared.path, &shared.rotation, seconds)?;
            self.begin()?;
        }
        keeper.was_rotated();
        Ok(())
    }

    fn begin(&mut self) -> io::Result<()> {
        let file = open_file(&self.shared.path)?;
        self.bytes = file.metadata()?.len();
        self.file = file;
        let every = self.shared.rotation.every;
        self.span = every.map_or(0, |every| every.number(self.hub.now()));
        self.shared.set_bytes(self.bytes);
        self.failed = false;
        Ok(())
    }

    /// Whether another file, or none, has the name of this one.
    fn was_moved(&self) -> bool {
        let Ok(ours) = self.file.metadata() else { return false };
        match fs::metadata(&self.shared.path) {
            Ok(named) => (named.dev(), named.ino()) != (ours.dev(), ours.ino()),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

impl Output for RotatedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.looked_at.elapsed() > LOOK_EVERY {
            self.looked_at = Instant::now();
            // A file that was emptied under us (copytruncate) is as long as it says.
            self.bytes = self.file.metadata().map_or(self.bytes, |metadata| metadata.len());
        }
        if !self.failed
            && self.is_due(bytes.len())
            && let Err(error) = self.put_aside()
        {
            // Better too long than lost.
            self.failed = true;
            let name = self.shared.path.display().to_string();
            logging::error!("Log file {} cannot be rotated: {}", name.as_str(), Shown(&error));
        }
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        self.shared.set_bytes(self.bytes);
        Ok(written)
    }

    fn reopen(&mut self) -> io::Result<()> {
        if self.was_moved() { self.begin() } else { Ok(()) }
    }

    /// A file that somebody else has moved is not put aside once more.
    fn rotate(&mut self) -> io::Result<()> {
        if self.was_moved() || self.bytes == 0 { self.begin() } else { self.put_aside() }
    }
}

/// Renames and removes as [`plan`] says.
fn carry_out(live: &Path, rotation: &Rotation, seconds: i64) -> io::Result<()> {
    let (folder, name) = split(live)?;
    let old = old_files(&folder, &name)?;
    let at = |file: Old| folder.join(file.name(&name));
    let mut is_aside = false;
    for act in plan(rotation, old, u64::try_from(seconds).unwrap_or(0)) {
        match act {
            Act::Remove(file) => fs::remove_file(at(file))?,
            Act::Rename(from, to) => fs::rename(at(from), at(to))?,
            Act::PutAside(file) => {
                fs::rename(live, at(file))?;
                is_aside = true;
            }
        }
    }
    if !is_aside {
        fs::remove_file(live)?;
    }
    Ok(())
}

/// Folder and name of a log file.
pub(crate) fn split(path: &Path) -> io::Result<(PathBuf, String)> {
    let name = path.file_name().and_then(|name| name.to_str());
    match (path.parent(), name) {
        (Some(folder), Some(name)) => Ok((folder.to_owned(), name.to_owned())),
        _ => Err(io::Error::other(format!("{} is no name of a file", path.display()))),
    }
}

/// The old files of the log `name`.
pub(crate) fn old_files(folder: &Path, name: &str) -> io::Result<Vec<Old>> {
    let mut old = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?.file_name();
        old.extend(entry.to_str().and_then(|entry| Old::parse(name, entry)));
    }
    Ok(old)
}
