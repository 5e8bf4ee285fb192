//! The log as the configuration declares it, at the start and after each change of the file.
//!
//! Only what changed is touched: a sink that stays keeps its file and loses no line, changed levels
//! apply in place, and a sink whose file or format changed is replaced between two records.

use crate::config::{LogFile, Logs};
use logging::{Hub, Levels};
use logging_sinks::{Logger, SinkSpec, Strategy, Target};
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The name of the sink on the standard error stream.
const CONSOLE: &str = "console";

/// The running log, and what was last declared.
pub(crate) struct Log {
    pub(crate) logger: Arc<Logger>,
    declared: Mutex<Logs>,
}

impl Log {
    /// Opens everything that is declared. An error names the file.
    pub(crate) fn start(logs: &Logs, hub: &Arc<Hub>) -> io::Result<Self> {
        let mut sinks = Vec::new();
        for file in &logs.files {
            make_folder(&file.path)?;
            sinks.push(spec(file));
        }
        if io::stderr().is_terminal() {
            sinks.push(SinkSpec::console(logs.console));
        }
        logging::set_verbose(logs.verbose);
        let logger = Arc::new(Logger::start(hub, sinks)?);
        logger.set_budget(logs.budget);
        Ok(Self { logger, declared: Mutex::new(logs.clone()) })
    }

    /// What was last declared.
    pub(crate) fn declared(&self) -> Logs {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Applies what has changed. Returns what that was, line by line; a sink that cannot be opened
    /// leaves the old one in its place, and is a line as well.
    pub(crate) fn apply(&self, logs: &Logs) -> Vec<String> {
        let mut declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = Vec::new();
        for file in &logs.files {
            let old = declared.files.iter().find(|old| old.name == file.name);
            lines.extend(self.apply_file(old, file));
        }
        for old in &declared.files {
            if logs.files.iter().all(|file| file.name != old.name) {
                self.logger.remove(&old.name);
                lines.push(format!("log '{}' removed", old.name));
            }
        }
        if declared.console != logs.console && self.logger.set_levels(CONSOLE, logs.console) {
            lines.push("log 'console' changed".to_owned());
        }
        if declared.budget != logs.budget {
            self.logger.set_budget(logs.budget);
            lines.push("log budget changed".to_owned());
        }
        // Only when the file says something new: an operator may have set it meanwhile.
        if declared.verbose != logs.verbose {
            logging::set_verbose(logs.verbose);
            lines.push(format!("root verbosity is now {}", logs.verbose));
        }
        *declared = logs.clone();
        lines
    }

    fn apply_file(&self, old: Option<&LogFile>, new: &LogFile) -> Option<String> {
        let name = &new.name;
        let done = match old {
            Some(old) if old == new => return None,
            Some(old) if *new == (LogFile { levels: new.levels, ..old.clone() }) => {
                // It may have been removed by hand.
                if self.logger.set_levels(name, new.levels) { Ok(()) } else { self.open(new) }
            }
            Some(_) | None => self.open(new),
        };
        let what = if old.is_some() { "changed" } else { "added" };
        Some(match done {
            Ok(()) => format!("log '{name}' {what}"),
            Err(error) => format!("log '{name}' cannot be opened: {error}"),
        })
    }

    fn open(&self, file: &LogFile) -> io::Result<()> {
        make_folder(&file.path)?;
        self.logger.replace(spec(file))
    }

    /// `logger add channel NAME LEVELS`: a file in the log folder, until the program ends.
    pub(crate) fn add(&self, name: &str, levels: Levels) -> io::Result<()> {
        let declared = self.declared();
        let like = declared.files.first();
        let file = LogFile {
            name: name.to_owned(),
            path: declared.folder.join(name),
            levels,
            format: logging_sinks::Format::Default,
            dates: like.map_or_else(Default::default, |file| file.dates.clone()),
            rotation: logging_sinks::Rotation::default(),
        };
        make_folder(&file.path)?;
        self.logger.add(spec(&file))
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(named)
}

fn spec(file: &LogFile) -> SinkSpec {
    let target = match file.rotation.strategy {
        // A device, such as /dev/null, is never put aside.
        Strategy::None => Target::File(file.path.clone()),
        Strategy::Rotate | Strategy::Sequential | Strategy::Timestamp => {
            Target::Rotated(file.path.clone(), file.rotation)
        }
    };
    let new = SinkSpec::new(&file.name, file.levels, target);
    SinkSpec { format: file.format, dates: file.dates.clone(), ..new }
}
