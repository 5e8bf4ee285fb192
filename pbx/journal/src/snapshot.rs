//! State that is told by its changes: files that begin with a whole state.
//!
//! A journal of changes would grow for ever. From time to time the whole state is written to a
//! *snapshot*, `state-000007.snapshot`, which stands for all files of lines before number 7; those
//! are deleted then.
//!
//! ```text
//! begin file 7 ─► write state-000007.new ─► rename ─► delete files 1-6 and older snapshots
//!      └ lines after this go into file 7 and may be in the snapshot, too: applying a line twice
//!        must do no harm
//! ```
//!
//! After a kill at any of these steps the newest snapshot and the files from its number on hold
//! everything.

use crate::lines::{segment_path, segments};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// The longest line that is read back; a longer one is damage.
const LINE_MAX: usize = 2 * crate::RECORD_MAX;

/// A line that could not be understood, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// What is wrong.
    pub why: String,
}

/// Reads the state in `folder`, the oldest line first; `apply` says what is wrong with a line.
/// Gives the lines that could not be understood; they are skipped.
pub fn read(
    folder: &Path,
    name: &str,
    mut apply: impl FnMut(&str) -> Result<(), String>,
) -> io::Result<Vec<BadLine>> {
    let mut bad = Vec::new();
    let snapshot = snapshots(folder, name)?.last().copied();
    let mut files: Vec<PathBuf> =
        snapshot.iter().map(|number| snapshot_path(folder, name, *number)).collect();
    let from = snapshot.unwrap_or(0);
    let later = segments(folder, name)?.into_iter().filter(|number| *number >= from);
    files.extend(later.map(|number| segment_path(folder, name, number)));
    for path in files {
        read_file(&path, &mut apply, &mut bad)?;
    }
    Ok(bad)
}

fn read_file(
    path: &Path,
    apply: &mut impl FnMut(&str) -> Result<(), String>,
    bad: &mut Vec<BadLine>,
) -> io::Result<()> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        let applied = match str::from_utf8(&bytes) {
            _ if bytes.len() > LINE_MAX => Err("it is too long".to_owned()),
            Ok(text) => apply(text.trim_end_matches('\n')),
            Err(_) => Err("it is no text".to_owned()),
        };
        if let Err(why) = applied {
            bad.push(BadLine { path: path.to_owned(), line, why });
        }
    }
    Ok(())
}

/// Writes a snapshot that stands for all files before `number`, and deletes those. Gives its size.
pub fn write(
    folder: &Path,
    name: &str,
    number: u64,
    state: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<u64> {
    let fresh = folder.join(format!("{name}-{number:06}.new"));
    let mut file = BufWriter::new(File::create(&fresh)?);
    state(&mut file)?;
    file.flush()?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    let size = file.metadata()?.len();
    fs::rename(&fresh, snapshot_path(folder, name, number))?;
    File::open(folder)?.sync_all()?;
    for old in segments(folder, name)?.into_iter().filter(|it| *it < number) {
        fs::remove_file(segment_path(folder, name, old))?;
    }
    for old in snapshots(folder, name)?.into_iter().filter(|it| *it < number) {
        fs::remove_file(snapshot_path(folder, name, old))?;
    }
    Ok(size)
}

fn snapshot_path(folder: &Path, name: &str, number: u64) -> PathBuf {
    folder.join(format!("{name}-{number:06}.snapshot"))
}

fn snapshots(folder: &Path, name: &str) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let file = entry?.file_name();
        let number = file.to_str().and_then(|file| {
            let rest = file.strip_prefix(name)?.strip_prefix('-')?;
            rest.strip_suffix(".snapshot")?.parse::<u64>().ok()
        });
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that goes away with the test.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let folder = format!("pbx-snapshot-{}-{name}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn put(&self, file: &str, text: &str) {
            fs::write(self.0.join(file), text).unwrap();
        }

        fn lines(&self) -> (Vec<String>, Vec<BadLine>) {
            let mut lines = Vec::new();
            let bad = read(&self.0, "state", |line| match line {
                "bad" => Err("bad".to_owned()),
                line => {
                    lines.push(line.to_owned());
                    Ok(())
                }
            });
            (lines, bad.unwrap())
        }

        fn files(&self) -> Vec<String> {
            let names = fs::read_dir(&self.0).unwrap();
            let mut names: Vec<String> =
                names.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_newest_snapshot_and_what_came_after_it_are_read() {
        let place = Place::new("read");
        place.put("state-000001.jsonl", "old\n");
        place.put("state-000002.jsonl", "between\n");
        place.put("state-000003.jsonl", "new\nbad\nnewer\n");
        assert_eq!(place.lines().0, ["old", "between", "new", "newer"]);
        place.put("state-000002.snapshot", "whole\n");
        place.put("state-000003.new", "half of a snap");
        let (lines, bad) = place.lines();
        assert_eq!(lines, ["whole", "between", "new", "newer"]);
        assert_eq!(bad.len(), 1);
        assert_eq!((bad[0].line, bad[0].why.as_str()), (2, "bad"));
        assert!(bad[0].path.ends_with("state-000003.jsonl"));
    }

    #[test]
    fn a_snapshot_takes_the_place_of_what_came_before_it() {
        let place = Place::new("write");
        place.put("state-000001.jsonl", "old\n");
        place.put("state-000001.snapshot", "older\n");
        place.put("state-000002.jsonl", "new\n");
        place.put("calls-000001.jsonl", "a record\n");
        let size = write(&place.0, "state", 2, |out| out.write_all(b"whole\n")).unwrap();
        assert_eq!(size, 6);
        assert_eq!(place.lines().0, ["whole", "new"]);
        let left = ["calls-000001.jsonl", "state-000002.jsonl", "state-000002.snapshot"];
        assert_eq!(place.files(), left);
    }

    #[test]
    fn damaged_bytes_are_told_and_skipped() {
        let place = Place::new("damage");
        let long = "x".repeat(LINE_MAX + 1);
        fs::write(place.0.join("state-000001.jsonl"), [b"ok\n\xff\n", long.as_bytes()].concat())
            .unwrap();
        let (lines, bad) = place.lines();
        assert_eq!(lines, ["ok"]);
        assert_eq!(bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [2, 3]);
    }
}
