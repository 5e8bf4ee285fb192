//! Levels of records, and the set of levels that one sink takes.

use std::fmt;
use std::str::FromStr;

/// The highest verbosity that can be asked for; `verbose!` and `debug!` clamp to it.
pub const VERBOSITY_MAX: u8 = 10;

/// What kind of line a record becomes. The words are Asterisk's, because administrators, log
/// readers and fail2ban's filters know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Level {
    /// Something does not work.
    Error,
    /// Something looks wrong and goes on.
    Warning,
    /// Worth knowing in normal operation; refused calls and failed registrations among them.
    Notice,
    /// A security event, one line per event.
    Security,
    /// Progress of calls, by verbosity 1 to 10.
    Verbose,
    /// Digits received and sent.
    Dtmf,
    /// For developers, switched on by module.
    Debug,
}

impl Level {
    /// Every level, in the order that `logger show` prints them.
    pub const ALL: [Self; 7] = [
        Self::Error,
        Self::Warning,
        Self::Notice,
        Self::Security,
        Self::Verbose,
        Self::Dtmf,
        Self::Debug,
    ];

    /// The word in the line and in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Notice => "NOTICE",
            Self::Security => "SECURITY",
            Self::Verbose => "VERBOSE",
            Self::Dtmf => "DTMF",
            Self::Debug => "DEBUG",
        }
    }

    /// Whether records of this level travel in the `keep` lane, which never loses silently.
    pub const fn is_kept(self) -> bool {
        matches!(self, Self::Error | Self::Warning | Self::Notice | Self::Security)
    }

    /// Whether the reserve of the `keep` lane is open to this level.
    pub const fn may_use_reserve(self) -> bool {
        matches!(self, Self::Error | Self::Security)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much VERBOSE a sink takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// As much as the root is set to (`core set verbose N`); `verbose` without a number.
    Root,
    /// This much, whatever the root says: `verbose(3)`.
    Fixed(u8),
}

/// The levels that one sink takes, as written in the configuration: `notice,warning,verbose(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    bits: u8,
    verbosity: Verbosity,
}

impl Levels {
    /// No level at all.
    pub const NONE: Self = Self { bits: 0, verbosity: Verbosity::Root };

    /// Every level, VERBOSE following the root.
    pub const ALL: Self = Self { bits: 0x7f, verbosity: Verbosity::Root };

    /// These levels and `level`.
    #[must_use]
    pub const fn with(self, level: Level) -> Self {
        Self { bits: self.bits | level.bit(), verbosity: self.verbosity }
    }

    /// These levels without `level`.
    #[must_use]
    pub const fn without(self, level: Level) -> Self {
        Self { bits: self.bits & !level.bit(), verbosity: self.verbosity }
    }

    /// These levels and VERBOSE up to `verbosity`.
    #[must_use]
    pub const fn with_verbose(self, verbosity: Verbosity) -> Self {
        Self { bits: self.bits | Level::Verbose.bit(), verbosity }
    }

    /// Whether `level` is among them.
    pub const fn contains(self, level: Level) -> bool {
        self.bits & level.bit() != 0
    }

    /// The highest verbosity that is taken while the root stands at `root`; 0 for none.
    pub const fn verbosity(self, root: u8) -> u8 {
        if !self.contains(Level::Verbose) {
            return 0;
        }
        match self.verbosity {
            Verbosity::Root => root,
            Verbosity::Fixed(n) => n,
        }
    }

    /// Whether a record of `level` and `verbosity` is taken while the root stands at `root`. DEBUG
    /// was already weighed by module at the gate.
    pub const fn take(self, level: Level, verbosity: u8, root: u8) -> bool {
        match level {
            Level::Verbose => verbosity <= self.verbosity(root),
            Level::Error
            | Level::Warning
            | Level::Notice
            | Level::Security
            | Level::Dtmf
            | Level::Debug => self.contains(level),
        }
    }
}

/// A word in a list of levels that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLevel(String);

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown level '{}': expected error, warning, notice, security, verbose, \
             verbose(0..={VERBOSITY_MAX}), dtmf, debug or *",
            self.0
        )
    }
}

impl std::error::Error for UnknownLevel {}

impl FromStr for Levels {
    type Err = UnknownLevel;

    /// Reads a comma list as in Asterisk's logger.conf; words in any case.
    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        let mut levels = Self::NONE;
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let lower = word.to_ascii_lowercase();
            if lower == "*" {
                levels.bits = Self::ALL.bits;
            } else if let Some(level) =
                Level::ALL.into_iter().find(|level| level.as_str().eq_ignore_ascii_case(&lower))
            {
                levels = levels.with(level);
            } else {
                let number = lower
                    .strip_prefix("verbose(")
                    .and_then(|rest| rest.strip_suffix(')'))
                    .and_then(|number| number.trim().parse::<u8>().ok())
                    .filter(|number| *number <= VERBOSITY_MAX);
                match number {
                    Some(number) => levels = levels.with_verbose(Verbosity::Fixed(number)),
                    None => return Err(UnknownLevel(word.to_owned())),
                }
            }
        }
        Ok(levels)
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for level in Level::ALL.into_iter().filter(|level| self.contains(*level)) {
            write!(f, "{between}{level}")?;
            if let (Level::Verbose, Verbosity::Fixed(n)) = (level, self.verbosity) {
                write!(f, "({n})")?;
            }
            between = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_levels_reads_back_as_written() {
        let levels: Levels = "notice, WARNING,error,verbose(3)".parse().unwrap();
        assert_eq!(levels.to_string(), "ERROR,WARNING,NOTICE,VERBOSE(3)");
        assert!(levels.take(Level::Verbose, 3, 0));
        assert!(!levels.take(Level::Verbose, 4, 9));
        assert!(!levels.contains(Level::Security));
    }

    #[test]
    fn verbose_without_a_number_follows_the_root() {
        let levels: Levels = "verbose".parse().unwrap();
        assert!(!levels.take(Level::Verbose, 1, 0));
        assert!(levels.take(Level::Verbose, 7, 7));
    }

    #[test]
    fn a_star_takes_every_level() {
        let levels: Levels = "*".parse().unwrap();
        assert!(Level::ALL.into_iter().all(|level| levels.contains(level)));
    }

    #[test]
    fn a_word_that_is_no_level_is_named() {
        for text in ["notice,warn", "verbose(11)", "verbose(x)", "verbose("] {
            let error = text.parse::<Levels>().unwrap_err().to_string();
            assert!(error.contains("unknown level"), "{text}: {error}");
        }
    }
}
