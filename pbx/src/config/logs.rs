//! `[logging]`: which files, syslogs and consoles there are, and what goes into them.

use super::said::path;
use super::table::{At, Page, Table};
use super::units;
use logging::{Levels, VERBOSITY_MAX};
use logging_sinks::{DateFormat, Facility, Format, Rotation, Strategy, SyslogAddress, SyslogShape};
use std::path::{Path, PathBuf};

/// The least size at which a file is put aside: below it a parcel of lines would fill it.
const SIZE_MIN: u64 = 1 << 20;

/// What all log files may take when nobody says otherwise.
const BUDGET: u64 = 1 << 30;

/// Old files of one log.
const KEEP_MAX: u32 = 1_000;

/// `[logging]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logs {
    /// Verbosity at the start.
    pub verbose: u8,
    /// Where files lie that `logger add channel` makes.
    pub folder: PathBuf,
    /// Whether numbers and users that callers wrote are masked.
    pub masks: bool,
    /// What all log files may take together.
    pub budget: Option<u64>,
    /// By name.
    pub files: Vec<LogFile>,
    /// By name.
    pub syslogs: Vec<LogSyslog>,
    /// What the standard error stream takes when it is a terminal.
    pub console: Levels,
}

/// `[logging.files.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// Its name.
    pub name: String,
    /// Where it is written.
    pub path: PathBuf,
    /// What goes into it.
    pub levels: Levels,
    /// What a line looks like.
    pub format: Format,
    /// How dates are written.
    pub dates: DateFormat,
    /// When it is put aside.
    pub rotation: Rotation,
}

/// `[logging.syslog.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSyslog {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub to: SyslogAddress,
    /// What goes there.
    pub levels: Levels,
    /// Where it is filed there.
    pub facility: Facility,
    /// What stands in front of a line.
    pub shape: SyslogShape,
}

/// `[logging]` as it stands.
#[derive(Default)]
pub(super) struct SaidLogs {
    verbose: Option<At<u32>>,
    folder: Option<At<String>>,
    masks: Option<At<bool>>,
    budget: Option<At<Option<u64>>>,
    dates: Option<At<DateFormat>>,
    files: Vec<SaidLogFile>,
    syslogs: Vec<SaidSyslog>,
    console: Option<At<Levels>>,
}

struct SaidLogFile {
    name: At<String>,
    path: Option<At<String>>,
    /// The inner `None`: they are faulty.
    levels: Option<Option<At<Levels>>>,
    format: Option<At<Format>>,
    dates: Option<At<DateFormat>>,
    strategy: Option<At<Strategy>>,
    max_size: Option<At<Option<u64>>>,
    every: Option<At<logging_sinks::Every>>,
    keep: Option<At<u32>>,
    gzip: Option<At<bool>>,
}

struct SaidSyslog {
    name: At<String>,
    to: Option<At<SyslogAddress>>,
    /// The inner `None`: they are faulty.
    levels: Option<Option<At<Levels>>>,
    facility: Option<At<Facility>>,
    shape: Option<At<SyslogShape>>,
}

/// Reads the table.
pub(super) fn read(table: &mut Table<'_, '_, '_>) -> SaidLogs {
    let mut said = SaidLogs {
        verbose: table.number("verbose", 0..=u32::from(VERBOSITY_MAX)),
        folder: table.text("folder"),
        masks: table.parsed("personal", |text| match text {
            "keep" => Ok(false),
            "mask" => Ok(true),
            _ => Err(format!("unknown policy '{text}': expected keep or mask")),
        }),
        budget: table.parsed("budget", size_or_none),
        dates: table.parsed("date_format", DateFormat::parse),
        ..SaidLogs::default()
    };
    table.tables("files", |name, table| said.files.push(read_file(name, table)));
    table.tables("syslog", |name, table| said.syslogs.push(read_syslog(name, table)));
    table.table("console", |table| said.console = table.parsed("levels", str::parse));
    said
}

fn read_file(name: At<String>, table: &mut Table<'_, '_, '_>) -> SaidLogFile {
    SaidLogFile {
        name,
        path: table.text("path"),
        levels: table.has("levels").then(|| table.parsed("levels", str::parse)),
        format: table.parsed("format", str::parse),
        dates: table.parsed("date_format", DateFormat::parse),
        strategy: table.parsed("rotate", str::parse),
        max_size: table.parsed("max_size", size_or_none),
        every: table.parsed("every", str::parse),
        keep: table.number("keep", 0..=KEEP_MAX),
        gzip: table.boolean("gzip"),
    }
}

fn size_or_none(text: &str) -> Result<Option<u64>, String> {
    match text {
        "none" => Ok(None),
        text => units::size(text).map(Some),
    }
}

fn read_syslog(name: At<String>, table: &mut Table<'_, '_, '_>) -> SaidSyslog {
    SaidSyslog {
        name,
        to: table.parsed("to", syslog_address),
        levels: table.has("levels").then(|| table.parsed("levels", str::parse)),
        facility: table.parsed("facility", str::parse),
        shape: table.parsed("shape", |text| match text {
            "rfc3164" => Ok(SyslogShape::Bsd),
            "rfc5424" => Ok(SyslogShape::Rfc5424),
            _ => Err(format!("unknown shape '{text}': expected rfc3164 or rfc5424")),
        }),
    }
}

/// `/dev/log`, or `udp:192.0.2.1:514`.
fn syslog_address(text: &str) -> Result<SyslogAddress, String> {
    match text.strip_prefix("udp:") {
        Some(address) => units::address(address).map(SyslogAddress::Udp),
        None if text.starts_with('/') => Ok(SyslogAddress::Unix(PathBuf::from(text))),
        None => Err(format!("'{text}' is no \"/dev/log\" or \"udp:192.0.2.1:514\"")),
    }
}

/// Works out what was meant. `folder` is that of the configuration.
pub(super) fn mean(
    said: &SaidLogs,
    folder: &Path,
    data_folder: &Path,
    page: &mut Page<'_>,
) -> Logs {
    let logs = said.folder.as_ref().map_or(data_folder.join("log"), |at| folder.join(path(at)));
    let dates = said.dates.as_ref().map_or_else(DateFormat::default, |at| at.value.clone());
    let mut files: Vec<LogFile> =
        said.files.iter().filter_map(|file| mean_file(file, &logs, &dates, page)).collect();
    check_paths(said, &files, page);
    for syslog in &said.syslogs {
        if said.files.iter().any(|file| file.name.value == syslog.name.value) {
            page.fault(syslog.name.span.clone(), "a log file has this name");
        }
    }
    if said.files.is_empty() {
        files = default_files(&logs, &dates);
    }
    Logs {
        verbose: said.verbose.as_ref().map_or(0, |at| u8::try_from(at.value).unwrap_or(u8::MAX)),
        folder: logs,
        masks: said.masks.as_ref().is_some_and(|at| at.value),
        budget: said.budget.as_ref().map_or(Some(BUDGET), |at| at.value),
        files,
        syslogs: said.syslogs.iter().filter_map(|it| mean_syslog(it, page)).collect(),
        console: said.console.as_ref().map_or_else(console_levels, |at| at.value),
    }
}

fn mean_file(
    said: &SaidLogFile,
    logs: &Path,
    dates: &DateFormat,
    page: &mut Page<'_>,
) -> Option<LogFile> {
    let name = &said.name;
    check_name(name, page);
    let rotation = rotation(said, page);
    let Some(levels) = &said.levels else {
        page.fault(name.span.clone(), "a log file needs `levels`, such as \"notice,warning\"");
        return None;
    };
    let levels = levels.as_ref()?;
    Some(LogFile {
        name: name.value.clone(),
        path: logs.join(said.path.as_ref().map_or_else(|| PathBuf::from(&name.value), path)),
        levels: levels.value,
        format: said.format.as_ref().map_or(Format::Default, |at| at.value),
        dates: said.dates.as_ref().map_or_else(|| dates.clone(), |at| at.value.clone()),
        rotation,
    })
}

fn mean_syslog(said: &SaidSyslog, page: &mut Page<'_>) -> Option<LogSyslog> {
    let name = &said.name;
    check_name(name, page);
    let Some(levels) = &said.levels else {
        page.fault(name.span.clone(), "a syslog needs `levels`, such as \"notice,warning\"");
        return None;
    };
    let levels = levels.as_ref()?.value;
    let local = || SyslogAddress::Unix(PathBuf::from("/dev/log"));
    let to = said.to.as_ref().map_or_else(local, |at| at.value.clone());
    let usual = match to {
        SyslogAddress::Unix(_) => SyslogShape::Bsd,
        SyslogAddress::Udp(_) => SyslogShape::Rfc5424,
    };
    Some(LogSyslog {
        name: name.value.clone(),
        to,
        levels,
        facility: said.facility.as_ref().map_or(Facility::LOCAL0, |at| at.value),
        shape: said.shape.as_ref().map_or(usual, |at| at.value),
    })
}

fn check_name(name: &At<String>, page: &mut Page<'_>) {
    if let Err(why) = units::name(&name.value) {
        page.fault(name.span.clone(), why);
    }
    if name.value == "console" || name.value.starts_with("console-") {
        page.fault(name.span.clone(), "this name belongs to consoles");
    }
}

fn rotation(said: &SaidLogFile, page: &mut Page<'_>) -> Rotation {
    if let Some(At { value: Some(size), span }) = &said.max_size
        && *size < SIZE_MIN
    {
        page.fault(span.clone(), "a log file has at least 1MiB, or \"none\"");
    }
    let defaults = Rotation::default();
    let strategy = said.strategy.as_ref().map_or(defaults.strategy, |at| at.value);
    if strategy != Strategy::None {
        return Rotation {
            strategy,
            max_bytes: said.max_size.as_ref().map_or(defaults.max_bytes, |at| at.value),
            every: said.every.as_ref().map(|at| at.value),
            keep: said.keep.as_ref().map_or(defaults.keep, |at| at.value),
            gzip: said.gzip.as_ref().map_or(defaults.gzip, |at| at.value),
        };
    }
    let idle = [
        said.max_size.as_ref().map(|at| at.span.clone()),
        said.every.as_ref().map(|at| at.span.clone()),
        said.keep.as_ref().map(|at| at.span.clone()),
        said.gzip.as_ref().map(|at| at.span.clone()),
    ];
    for span in idle.into_iter().flatten() {
        page.fault(span, "with `rotate` = \"none\" somebody else puts the file aside");
    }
    Rotation::NONE
}

/// Two logs in one file would rotate it under each other, and count each failure twice.
fn check_paths(said: &SaidLogs, files: &[LogFile], page: &mut Page<'_>) {
    for (at, file) in files.iter().enumerate() {
        let Some(other) = files[..at].iter().find(|other| other.path == file.path) else {
            continue;
        };
        if let Some(said) = said.files.iter().find(|said| said.name.value == file.name) {
            let text = format!("log '{}' is written to the same file", other.name);
            page.fault(said.name.span.clone(), text);
        }
    }
}

/// `messages` for people, `security.log` for fail2ban's jail.
fn default_files(folder: &Path, dates: &DateFormat) -> Vec<LogFile> {
    let file = |name: &str, levels: &str| LogFile {
        name: name.to_owned(),
        path: folder.join(name),
        levels: levels.parse().expect("the levels are this program's own"),
        format: Format::Default,
        dates: dates.clone(),
        rotation: Rotation::default(),
    };
    vec![file("messages", "notice,warning,error,verbose"), file("security.log", "security")]
}

fn console_levels() -> Levels {
    "notice,warning,error,verbose".parse().expect("the levels are this program's own")
}
