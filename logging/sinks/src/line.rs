//! From a record to a line in Asterisk's default format for files:
//!
//! `[2026-11-30 20:15:01.123] NOTICE[1638][C-0000001a] facts.rs: message`

use std::io::Write as _;

use logging::{Level, Record, Site, Value};
use turn::Now;

use crate::clean::{clean, clean_for_quotes, redact};
use crate::date::DateFormat;

/// Stands where the end of a string is missing.
const CUT_MARK: &str = "…";

/// Appends the message of a record: the text of its site with the fields in their places. Fields
/// beyond the last place are appended.
pub(crate) fn write_message(site: &Site, record: &Record<'_>, out: &mut Vec<u8>) {
    if site.level == Level::Verbose {
        out.extend_from_slice(verbose_prefix(record.verbosity()).as_bytes());
    }
    let mut values = record.values();
    let mut pieces = site.text.split("{}");
    out.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
    for piece in pieces {
        if let Some(value) = values.next() {
            write_value(value, out);
        }
        out.extend_from_slice(piece.as_bytes());
    }
    for value in values {
        write_value(value, out);
    }
}

/// The shape of what stands in front of the message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Asterisk's `default` for files.
    Default,
    /// For the eye: `[date] LEVEL[lwp][C-..]: file:line module: message`, progress without any.
    Console {
        /// Whether the level is coloured.
        colour: bool,
    },
}

/// Writes what stands in front of the message. Records of one turn share their date, so the last
/// one is kept.
pub(crate) struct Head {
    dates: DateFormat,
    shape: Shape,
    last: Option<Now>,
    date: Vec<u8>,
}

impl Head {
    pub(crate) fn new(dates: DateFormat, shape: Shape) -> Self {
        Self { dates, shape, last: None, date: Vec::new() }
    }

    pub(crate) fn write(&mut self, site: &Site, record: &Record<'_>, out: &mut Vec<u8>) {
        let is_bare = matches!(self.shape, Shape::Console { .. }) && site.level == Level::Verbose;
        if is_bare {
            return;
        }
        if self.last != Some(record.now()) {
            self.last = Some(record.now());
            self.date.clear();
            self.dates.write(record.now(), &mut self.date);
        }
        out.push(b'[');
        out.extend_from_slice(&self.date);
        out.extend_from_slice(b"] ");
        let (before, after) = match self.shape {
            Shape::Console { colour: true } => colour(site.level),
            Shape::Console { colour: false } | Shape::Default => ("", ""),
        };
        write_plain(format_args!("{before}{}{after}[{}]", site.level, record.lwp()), out);
        if record.call() != 0 {
            write_plain(format_args!("[C-{:08x}]", record.call()), out);
        }
        let file = file_token(site.file);
        match self.shape {
            Shape::Default => write_plain(format_args!(" {file}: "), out),
            Shape::Console { .. } => {
                write_plain(format_args!(": {file}:{} {}: ", site.line, site.module), out);
            }
        }
    }
}

/// Switches a terminal's colour on and off.
const fn colour(level: Level) -> (&'static str, &'static str) {
    let on = match level {
        Level::Error => "\x1b[1;31m",
        Level::Warning => "\x1b[31m",
        Level::Notice => "\x1b[33m",
        Level::Security => "\x1b[35m",
        Level::Verbose | Level::Dtmf | Level::Debug => "\x1b[36m",
    };
    (on, "\x1b[0m")
}

/// Asterisk's marks for progress, which make a call readable at a glance.
const fn verbose_prefix(verbosity: u8) -> &'static str {
    match verbosity {
        0 | 1 => " ",
        2 => "  == ",
        3 => "    -- ",
        _ => "       > ",
    }
}

/// The file without its folders. No `:` may stand in it, or fail2ban's prefix does not match.
fn file_token(file: &str) -> &str {
    file.rsplit(['/', '\\', ':']).next().unwrap_or(file)
}

fn write_value(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Unsigned(number) => write_plain(number, out),
        Value::Signed(number) => write_plain(number, out),
        Value::Bool(truth) => write_plain(if truth { "yes" } else { "no" }, out),
        Value::Span(span) => write_plain(format_args!("{:.3}", span.as_secs_f64()), out),
        Value::Ip(ip) => write_plain(ip, out),
        Value::Socket(address) => write_plain(address, out),
        Value::Absent => out.push(b'-'),
        Value::Text { bytes, cut } => write_text(bytes, cut, clean, out),
        Value::Outside { bytes, cut } => write_text(bytes, cut, clean_for_quotes, out),
    }
}

fn write_plain(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    write!(out, "{value}").expect("a Vec takes every byte");
}

fn write_text(bytes: &[u8], cut: bool, clean: fn(&[u8], &mut Vec<u8>), out: &mut Vec<u8>) {
    let mut redacted = Vec::new(); // allocates only when a secret was found
    let shown = if redact(bytes, &mut redacted) { &redacted } else { bytes };
    clean(if cut { whole_letters(shown) } else { shown }, out);
    if cut {
        out.extend_from_slice(CUT_MARK.as_bytes());
    }
}

/// Without the part of a letter that a cut may have left at the end.
fn whole_letters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}
