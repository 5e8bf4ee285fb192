//! What a line looks like: Asterisk's formats, letter by letter.
//!
//! | format | line |
//! |---|---|
//! | `default` | `[date] LEVEL[lwp][C-0000001a] file: message` |
//! | `plain` | `[date] LEVEL[lwp][C-0000001a]: file:line module: message` |
//! | `json` | one object: hostname, timestamp, identifiers, logmsg |
//! | console | as `plain`, coloured on a terminal; progress of calls is shown bare |
//! | syslog | `LEVEL[lwp][C-0000001a]: file:line in module: message`, behind syslog's own head |
//!
//! Where Asterisk prints a function, the module stands. Source: logger.c of Asterisk.

use std::fmt;
use std::str::FromStr;

use logging::{Level, Record, Site};
use turn::Now;

use crate::date::DateFormat;
use crate::line::{SiteLine, write_plain, write_unsigned};

/// The shape of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For files, and for fail2ban.
    #[default]
    Default,
    /// With the place in the source.
    Plain,
    /// One JSON object.
    Json,
    /// For the eye.
    Console {
        /// Whether the level is coloured.
        colour: bool,
    },
    /// For a syslog, which puts its own date in front.
    Syslog,
}

impl Format {
    /// Its name in the configuration and in `logger show channels`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Plain => "plain",
            Self::Json => "json",
            Self::Console { .. } => "console",
            Self::Syslog => "syslog",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Format {
    type Err = String;

    /// Reads the name of a format that a file can have.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "default" => Ok(Self::Default),
            "plain" => Ok(Self::Plain),
            "json" => Ok(Self::Json),
            _ => Err(format!("unknown format '{text}': expected default, plain or json")),
        }
    }
}

/// Writes lines. Records of one turn share their date, so the last one is kept.
pub(crate) struct Head {
    dates: DateFormat,
    format: Format,
    last: Option<Now>,
    date: Vec<u8>,
    /// For JSON.
    hostname: String,
}

impl Head {
    pub(crate) fn new(dates: DateFormat, format: Format) -> Self {
        let hostname = match format {
            Format::Json => hostname(),
            Format::Default | Format::Plain | Format::Console { .. } | Format::Syslog => {
                String::new()
            }
        };
        Self { dates, format, last: None, date: Vec::new(), hostname }
    }

    /// Appends the whole line, with its end.
    pub(crate) fn write(
        &mut self,
        line: &SiteLine,
        record: &Record<'_>,
        message: &[u8],
        out: &mut Vec<u8>,
    ) {
        let site = line.site;
        if self.last != Some(record.now()) {
            self.last = Some(record.now());
            self.date.clear();
            self.dates.write(record.now(), &mut self.date);
        }
        match self.format {
            Format::Json => return self.write_json(line, record, message, out),
            Format::Console { .. } if site.level == Level::Verbose => {}
            Format::Default | Format::Plain | Format::Console { .. } => {
                out.push(b'[');
                out.extend_from_slice(&self.date);
                out.extend_from_slice(b"] ");
                self.write_origin(line, record, out);
            }
            Format::Syslog => self.write_origin(line, record, out),
        }
        if site.level == Level::Verbose {
            out.extend_from_slice(verbose_prefix(record.verbosity()).as_bytes());
        }
        out.extend_from_slice(message);
        out.push(b'\n');
    }

    /// Level, thread, call and place.
    fn write_origin(&self, line: &SiteLine, record: &Record<'_>, out: &mut Vec<u8>) {
        let Site { level, line: number, module, .. } = line.site;
        let (before, after) = match self.format {
            Format::Console { colour: true } => colour(*level),
            Format::Console { colour: false }
            | Format::Default
            | Format::Plain
            | Format::Json
            | Format::Syslog => ("", ""),
        };
        for part in [before, level.as_str(), after, "["] {
            out.extend_from_slice(part.as_bytes());
        }
        write_unsigned(record.lwp().into(), out);
        out.push(b']');
        if record.call() != 0 {
            out.push(b'[');
            write_call(record.call(), out);
            out.push(b']');
        }
        let file = line.file;
        match self.format {
            Format::Default | Format::Json => {
                out.push(b' ');
                out.extend_from_slice(file.as_bytes());
                out.extend_from_slice(b": ");
            }
            Format::Plain | Format::Console { .. } => {
                write_plain(format_args!(": {file}:{number} {module}: "), out);
            }
            Format::Syslog => {
                write_plain(format_args!(": {file}:{number} in {module}: "), out);
            }
        }
    }

    /// `{"hostname":..,"timestamp":..,"identifiers":{"lwp":..,"callid":..},"logmsg":{..}}`
    fn write_json(&self, line: &SiteLine, record: &Record<'_>, message: &[u8], out: &mut Vec<u8>) {
        let Site { level, line: number, module, .. } = line.site;
        out.extend_from_slice(b"{\"hostname\":");
        write_json_text(self.hostname.as_bytes(), out);
        out.extend_from_slice(b",\"timestamp\":");
        write_json_text(&self.date, out);
        out.extend_from_slice(b",\"identifiers\":{\"lwp\":");
        write_unsigned(record.lwp().into(), out);
        if record.call() != 0 {
            out.extend_from_slice(b",\"callid\":\"");
            write_call(record.call(), out);
            out.push(b'"');
        }
        out.extend_from_slice(b"},\"logmsg\":{\"location\":{\"filename\":");
        write_json_text(line.file.as_bytes(), out);
        out.extend_from_slice(b",\"function\":");
        write_json_text(module.as_bytes(), out);
        out.extend_from_slice(b",\"line\":");
        write_unsigned(u64::from(*number), out);
        out.extend_from_slice(b"},\"level\":\"");
        out.extend_from_slice(level.as_str().as_bytes());
        out.extend_from_slice(b"\",\"message\":");
        write_json_text(message, out);
        out.extend_from_slice(b"}}\n");
    }
}

/// The machine's name; `localhost` where the kernel does not say.
fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost" } else { name }.to_owned()
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

/// `C-0000001a`
fn write_call(call: u32, out: &mut Vec<u8>) {
    let mut text = *b"C-00000000";
    for (at, digit) in text[2..].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(call >> (28 - 4 * at) & 0xf) as usize];
    }
    out.extend_from_slice(&text);
}

/// A JSON string. Messages were cleaned: control characters and broken UTF-8 are gone from fields,
/// but a site's own text may have anything.
fn write_json_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let is_plain = |byte: &u8| (b' '..0x7f).contains(byte) && !matches!(byte, b'"' | b'\\');
    if text.iter().all(is_plain) {
        out.extend_from_slice(text);
    } else {
        for letter in String::from_utf8_lossy(text).chars() {
            match letter {
                '"' | '\\' => write_plain(format_args!("\\{letter}"), out),
                '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                    write_plain(format_args!("\\u{:04x}", u32::from(letter)), out);
                }
                _ => write_plain(letter, out),
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn calls_have_eight_hexadecimal_digits() {
        for call in [1, 0x1a, 0xdead_beef, u32::MAX] {
            assert_eq!(text(|out| write_call(call, out)), format!("C-{call:08x}"));
        }
    }

    #[test]
    fn a_json_text_reads_back_as_what_it_was() {
        for plain in ["", "plain", "a \"b\" \\ c", "tab\t bell\u{7} del\u{7f}", "Grüße \u{2028}"]
        {
            let written = text(|out| write_json_text(plain.as_bytes(), out));
            assert!(written.bytes().all(|byte| byte >= b' '), "{written:?}");
            assert_eq!(serde_json::from_str::<String>(&written).unwrap(), plain);
        }
        let written = text(|out| write_json_text(b"a\xffb", out));
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), "a\u{fffd}b");
    }

    #[test]
    fn formats_read_back_as_written() {
        for format in [Format::Default, Format::Plain, Format::Json] {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert!("Json".parse::<Format>().unwrap_err().contains("default, plain or json"));
    }
}
