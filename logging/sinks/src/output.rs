//! Where lines go in the end: files and the standard error stream. (Syslog has its own file.)

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Log files are read by the service's group, not by everybody: they name callers.
const FILE_MODE: u32 = 0o640;

/// Something that lines can be written to. Each sink's own thread calls it, so it may block.
pub trait Output: Send {
    /// Writes some bytes, of whole lines at first, and says how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Begins anew, after a rotation by somebody else.
    fn reopen(&mut self) -> io::Result<()>;

    /// Puts the old lines aside and begins anew: `logger rotate`. Without strategies of its own it
    /// only begins anew.
    fn rotate(&mut self) -> io::Result<()> {
        self.reopen()
    }
}

/// A file that lines are appended to.
pub(crate) struct FileOutput {
    path: PathBuf,
    file: File,
}

impl FileOutput {
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let file = open_file(&path)?;
        Ok(Self { path, file })
    }
}

/// Opens a log file for appending, and makes it when it is absent; its folder is not made.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(FILE_MODE)
        .open(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

impl Output for FileOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = open_file(&self.path)?;
        Ok(())
    }
}

/// The standard error stream.
pub(crate) struct ConsoleOutput;

impl Output for ConsoleOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().write(bytes)
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}
