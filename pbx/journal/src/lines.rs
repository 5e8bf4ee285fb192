//! The JSON lines: numbered files, `calls-000001.jsonl` and on.
//!
//! `calls` is the journal's name, so that several may be told apart.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// How far back a torn last line is looked for: more than the longest record.
const TORN_MAX: u64 = 2 * crate::RECORD_MAX as u64;

/// The file that is written.
pub(crate) struct Lines {
    folder: PathBuf,
    name: &'static str,
    segment_max: u64,
    segment: u64,
    file: File,
    len: u64,
    dirty: bool,
}

/// The name of file `segment`.
pub(crate) fn segment_path(folder: &Path, name: &str, segment: u64) -> PathBuf {
    folder.join(format!("{name}-{segment:06}.jsonl"))
}

/// The numbers of the files in `folder`, in order.
pub(crate) fn segments(folder: &Path, name: &str) -> io::Result<Vec<u64>> {
    let is_ours = |file: &str| {
        let rest = file.strip_prefix(name)?.strip_prefix('-')?;
        rest.strip_suffix(".jsonl")?.parse::<u64>().ok()
    };
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let file = entry?.file_name();
        numbers.extend(file.to_str().and_then(is_ours));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

impl Lines {
    /// Opens the last file in `folder`, or the first one if there is none. Returns also how many
    /// bytes of a torn last line were cut off.
    pub(crate) fn open(folder: &Path, name: &'static str, segment_max: u64) -> io::Result<Self> {
        let segment = segments(folder, name)?.last().copied().unwrap_or(1);
        let (file, len) = open_segment(folder, name, segment)?;
        let folder = folder.to_owned();
        Ok(Self { folder, name, segment_max, segment, file, len, dirty: false })
    }

    /// Where the next batch goes.
    pub(crate) fn end(&self) -> (u64, u64) {
        (self.segment, self.len)
    }

    /// Cuts off what follows the last line feed: the half line that a power failure left. Returns
    /// how many bytes that were. Not for a file that a pending batch is about to be written to
    /// again.
    pub(crate) fn cut_torn_line(&mut self) -> io::Result<u64> {
        let from = self.len.saturating_sub(TORN_MAX);
        let mut tail = vec![0; (self.len - from) as usize];
        self.file.read_exact_at(&mut tail, from)?;
        let keep = match tail.iter().rposition(|&byte| byte == b'\n') {
            Some(last) => from + last as u64 + 1,
            None => from,
        };
        let torn = self.len - keep;
        if torn > 0 {
            self.file.set_len(keep)?;
            self.len = keep;
            self.dirty = true;
        }
        Ok(torn)
    }

    /// Writes a batch to the end.
    pub(crate) fn append(&mut self, batch: &[u8]) -> io::Result<()> {
        self.dirty = true;
        self.file.write_all_at(batch, self.len)?;
        self.len += batch.len() as u64;
        Ok(())
    }

    /// Writes a batch to the place where a process that died meant to put it. The bytes are the
    /// same, so it does not matter how many of them are there already.
    pub(crate) fn rewrite(&mut self, segment: u64, start: u64, batch: &[u8]) -> io::Result<()> {
        if segment == self.segment {
            let start = start.min(self.len); // somebody has shortened the file
            self.dirty = true;
            self.file.write_all_at(batch, start)?;
            self.len = self.len.max(start + batch.len() as u64);
            return Ok(());
        }
        let (file, len) = open_segment(&self.folder, self.name, segment)?;
        file.write_all_at(batch, start.min(len))?;
        file.sync_data()
    }

    /// Goes on to the next file when this one is full.
    pub(crate) fn roll(&mut self) -> io::Result<()> {
        if self.len < self.segment_max { Ok(()) } else { self.begin() }
    }

    /// Goes on to the next file.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.sync()?;
        let (file, len) = open_segment(&self.folder, self.name, self.segment + 1)?;
        (self.segment, self.file, self.len) = (self.segment + 1, file, len);
        Ok(())
    }

    /// Somebody may have shortened the file (`> calls-000001.jsonl`) or moved it away: go on at
    /// what is there, and leave no hole of zeros behind.
    pub(crate) fn look_again(&mut self) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt as _;
        let ours = self.file.metadata()?;
        let theirs = fs::metadata(segment_path(&self.folder, self.name, self.segment));
        let same = theirs.is_ok_and(|found| (found.dev(), found.ino()) == (ours.dev(), ours.ino()));
        if same {
            self.len = self.len.min(ours.len());
        } else {
            (self.file, self.len) = open_segment(&self.folder, self.name, self.segment)?;
        }
        Ok(())
    }

    /// The file, if something was written to it since the last call, for whoever syncs it.
    pub(crate) fn take_unsynced(&mut self) -> io::Result<Option<File>> {
        if !self.dirty {
            return Ok(None);
        }
        let file = self.file.try_clone()?;
        self.dirty = false;
        Ok(Some(file))
    }

    /// Waits until everything is on the disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.dirty) {
            self.file.sync_data().inspect_err(|_| self.dirty = true)?;
        }
        Ok(())
    }
}

fn open_segment(folder: &Path, name: &str, segment: u64) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(0o640);
    let file = options.open(segment_path(folder, name, segment))?;
    let len = file.metadata()?.len();
    Ok((file, len))
}
