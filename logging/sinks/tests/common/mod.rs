//! What the tests of sinks share.

#![allow(dead_code, reason = "each test program uses its part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, process};

use logging::Hub;
use turn::{Now, Wall};

/// 2026-11-30T20:15:01.123456Z.
pub(crate) const AT: Now =
    Now { mono: turn::Mono::ZERO, wall: Wall::from_micros(1_796_069_701_123_456), utc_offset_s: 0 };

/// A folder of its own for one test, removed at its end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder.
    pub(crate) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("logging-{test}-{}", process::id()));
        fs::create_dir_all(&path).expect("the temporary folder is writable");
        Self(path)
    }

    /// A file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A hub at [`AT`].
pub(crate) fn hub() -> Arc<Hub> {
    Hub::new(77, || AT)
}

/// The lines of a file.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("the log is there");
    assert!(text.is_empty() || text.ends_with('\n'), "only whole lines");
    text.lines().map(str::to_owned).collect()
}
