//! The log as the configuration declares it, at the start and after each change of the file.
//!
//! Only what changed is touched: a sink that stays keeps its file and loses no line, changed levels
//! apply in place, and a sink whose file or format changed is replaced between two records.

use crate::config::{LogFile, LogSyslog, Logs};
use logging::{Hub, Levels};
use logging_sinks::{Format, Logger, Rotation, SinkSpec, Strategy, Target};
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
        let declared = channels(logs);
        let mut sinks =
            declared.iter().map(|it| it.prepare()).collect::<io::Result<Vec<SinkSpec>>>()?;
        if io::stderr().is_terminal() {
            sinks.push(SinkSpec::console(logs.console));
        }
        logging::set_verbose(logs.verbose);
        logging_sinks::set_masking(logs.masks);
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
        let (before, now) = (channels(&declared), channels(logs));
        for new in &now {
            let old = before.iter().find(|old| old.name() == new.name());
            lines.extend(self.apply_one(old.copied(), *new));
        }
        for old in before.iter().filter(|old| now.iter().all(|it| it.name() != old.name())) {
            self.logger.remove(old.name());
            lines.push(format!("log '{}' removed", old.name()));
        }
        if declared.console != logs.console && self.logger.set_levels(CONSOLE, logs.console) {
            lines.push("log 'console' changed".to_owned());
        }
        if declared.masks != logs.masks {
            logging_sinks::set_masking(logs.masks);
            let how = if logs.masks { "masked" } else { "shown" };
            lines.push(format!("personal data is {how}"));
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

    fn apply_one(&self, old: Option<Declared<'_>>, new: Declared<'_>) -> Option<String> {
        let name = new.name();
        let open = || self.logger.replace(new.prepare()?);
        let done = match old {
            Some(old) if old == new => return None,
            // It may have been removed by hand.
            Some(old) if new.differs_in_levels(old) => {
                if self.logger.set_levels(name, new.levels()) { Ok(()) } else { open() }
            }
            Some(_) | None => open(),
        };
        let what = if old.is_some() { "changed" } else { "added" };
        Some(match done {
            Ok(()) => format!("log '{name}' {what}"),
            Err(error) => format!("log '{name}' cannot be opened: {error}"),
        })
    }

    /// `logger add channel NAME LEVELS`: a file in the log folder, until the program ends.
    pub(crate) fn add(&self, name: &str, levels: Levels) -> io::Result<()> {
        let declared = self.declared();
        let like = declared.files.first();
        let file = LogFile {
            name: name.to_owned(),
            path: declared.folder.join(name),
            levels,
            format: Format::Default,
            dates: like.map_or_else(Default::default, |file| file.dates.clone()),
            rotation: Rotation::default(),
        };
        self.logger.add(Declared::File(&file).prepare()?)
    }
}

/// A sink that the configuration declares.
#[derive(Clone, Copy, PartialEq)]
enum Declared<'l> {
    File(&'l LogFile),
    Syslog(&'l LogSyslog),
}

fn channels(logs: &Logs) -> Vec<Declared<'_>> {
    let files = logs.files.iter().map(Declared::File);
    files.chain(logs.syslogs.iter().map(Declared::Syslog)).collect()
}

impl<'l> Declared<'l> {
    fn name(self) -> &'l str {
        match self {
            Self::File(file) => &file.name,
            Self::Syslog(syslog) => &syslog.name,
        }
    }

    fn levels(self) -> Levels {
        match self {
            Self::File(file) => file.levels,
            Self::Syslog(syslog) => syslog.levels,
        }
    }

    fn differs_in_levels(self, other: Declared<'_>) -> bool {
        match (self, other) {
            (Self::File(new), Declared::File(old)) => {
                *new == LogFile { levels: new.levels, ..old.clone() }
            }
            (Self::Syslog(new), Declared::Syslog(old)) => {
                *new == LogSyslog { levels: new.levels, ..old.clone() }
            }
            (Self::File(_), Declared::Syslog(_)) | (Self::Syslog(_), Declared::File(_)) => false,
        }
    }

    /// The sink, and the folder that it needs.
    fn prepare(self) -> io::Result<SinkSpec> {
        match self {
            Self::File(file) => {
                make_folder(&file.path)?;
                Ok(spec(file))
            }
            Self::Syslog(syslog) => {
                let target = Target::Syslog(syslog.to.clone());
                let new = SinkSpec::new(&syslog.name, syslog.levels, target);
                let (facility, shape) = (syslog.facility, syslog.shape);
                Ok(SinkSpec { format: Format::Syslog { facility, shape }, ..new })
            }
        }
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
