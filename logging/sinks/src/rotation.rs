//! When a log file is put aside, and what the old ones are called. Pure: names in, steps out.
//!
//! The strategies are those of Asterisk's logger.conf:
//!
//! | strategy | the newest old file | the oldest |
//! |---|---|---|
//! | `rotate` | `messages.0` | has the highest number |
//! | `sequential` | has the highest number | has the lowest |
//! | `timestamp` | has the latest time, in seconds since 1970 | has the earliest |
//! | `none` | nothing is put aside: somebody else does it, and says so by SIGHUP | |
//!
//! An old file that was compressed has `.gz` behind its number.

use std::fmt;
use std::str::FromStr;

use turn::Now;

/// How old files are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Not put aside by us.
    None,
    /// Numbers shift: 0 is the newest.
    #[default]
    Rotate,
    /// Numbers grow.
    Sequential,
    /// Seconds since 1970.
    Timestamp,
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "rotate" => Ok(Self::Rotate),
            "sequential" => Ok(Self::Sequential),
            "timestamp" => Ok(Self::Timestamp),
            _ => Err(format!(
                "unknown strategy '{text}': expected rotate, sequential, timestamp or none"
            )),
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Rotate => "rotate",
            Self::Sequential => "sequential",
            Self::Timestamp => "timestamp",
        })
    }
}

/// A new file begins with each of these, by local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// At each full hour.
    Hour,
    /// At midnight.
    Day,
}

impl Every {
    /// The number of the hour or day that a moment lies in.
    pub(crate) fn number(self, now: Now) -> i64 {
        let local = now.wall.as_micros().div_euclid(1_000_000) + i64::from(now.utc_offset_s);
        local.div_euclid(match self {
            Self::Hour => 3_600,
            Self::Day => 86_400,
        })
    }
}

impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "hour" => Ok(Self::Hour),
            "day" => Ok(Self::Day),
            _ => Err(format!("unknown span '{text}': expected hour or day")),
        }
    }
}

/// When a file is put aside, and how many old ones stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// How old files are called.
    pub strategy: Strategy,
    /// Before it would grow beyond this many bytes.
    pub max_bytes: Option<u64>,
    /// With each hour or day.
    pub every: Option<Every>,
    /// How many old files stay.
    pub keep: u32,
    /// Whether old files are compressed.
    pub gzip: bool,
}

impl Default for Rotation {
    /// 32 MiB, and ten old files, compressed.
    fn default() -> Self {
        Self {
            strategy: Strategy::Rotate,
            max_bytes: Some(32 << 20),
            every: None,
            keep: 10,
            gzip: true,
        }
    }
}

impl Rotation {
    /// A file that grows until somebody else puts it aside.
    pub const NONE: Self =
        Self { strategy: Strategy::None, max_bytes: None, every: None, keep: 0, gzip: false };

    /// The most bytes that the file and its old ones can take: as if nothing could be compressed,
    /// and with the copy that lies beside a file while it is compressed. `None`: there is no bound.
    pub fn worst_case_bytes(&self) -> Option<u64> {
        if self.strategy == Strategy::None {
            return None;
        }
        let files = u64::from(self.keep) + 1 + u64::from(self.gzip);
        self.max_bytes?.checked_mul(files)
    }
}

/// An old file: its number or time, and whether it is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Old {
    pub(crate) number: u64,
    pub(crate) is_compressed: bool,
}

impl Old {
    /// What a name in the folder of the log `live` is; `None` when it is something else.
    pub(crate) fn parse(live: &str, name: &str) -> Option<Self> {
        let rest = name.strip_prefix(live)?.strip_prefix('.')?;
        let (digits, is_compressed) = match rest.strip_suffix(".gz") {
            Some(digits) => (digits, true),
            None => (rest, false),
        };
        // `messages.007` is none of ours.
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let is_ours = is_number && (digits == "0" || !digits.starts_with('0'));
        let number = digits.parse().ok().filter(|_| is_ours)?;
        Some(Self { number, is_compressed })
    }

    /// Its name.
    pub(crate) fn name(self, live: &str) -> String {
        let end = if self.is_compressed { ".gz" } else { "" };
        format!("{live}.{}{end}", self.number)
    }
}

/// What is done with a file in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Remove(Old),
    Rename(Old, Old),
    /// The file that is written to becomes this one.
    PutAside(Old),
}

/// The steps of one rotation, in their order. `old` are the old files that are there; `seconds`
/// are those since 1970.
pub(crate) fn plan(rotation: &Rotation, mut old: Vec<Old>, seconds: u64) -> Vec<Act> {
    old.sort_unstable();
    let keep = rotation.keep as usize;
    let new = |number| Old { number, is_compressed: false };
    let mut acts = Vec::new();
    match rotation.strategy {
        Strategy::None => {}
        Strategy::Rotate => {
            // From the oldest on, so that no name is taken twice.
            for file in old.into_iter().rev() {
                if file.number + 1 >= keep as u64 {
                    acts.push(Act::Remove(file));
                } else {
                    acts.push(Act::Rename(file, Old { number: file.number + 1, ..file }));
                }
            }
            acts.push(Act::PutAside(new(0)));
        }
        Strategy::Sequential | Strategy::Timestamp => {
            let next = old.last().map_or(0, |last| last.number + 1);
            let excess = (old.len() + 1).saturating_sub(keep.max(1));
            acts.extend(old.iter().take(excess).copied().map(Act::Remove));
            let number = match rotation.strategy {
                // Two within a second must not meet.
                Strategy::Timestamp => seconds.max(next),
                Strategy::None | Strategy::Rotate | Strategy::Sequential => next,
            };
            acts.push(Act::PutAside(new(number)));
        }
    }
    if keep == 0 && rotation.strategy != Strategy::None {
        acts.retain(|act| !matches!(act, Act::PutAside(_)));
    }
    acts
}

#[cfg(test)]
mod tests {
    use super::*;
    use turn::{Mono, Wall};

    fn old(names: &[&str]) -> Vec<Old> {
        names.iter().map(|name| Old::parse("messages", name).unwrap()).collect()
    }

    fn acts(strategy: Strategy, keep: u32, names: &[&str]) -> Vec<String> {
        let rotation = Rotation { strategy, keep, ..Rotation::default() };
        let name = |file: &Old| file.name("messages");
        plan(&rotation, old(names), 1_700_000_000)
            .iter()
            .map(|act| match act {
                Act::Remove(file) => format!("rm {}", name(file)),
                Act::Rename(from, to) => format!("{} > {}", name(from), name(to)),
                Act::PutAside(file) => format!("> {}", name(file)),
            })
            .collect()
    }

    #[test]
    fn numbers_shift_and_the_oldest_goes() {
        assert_eq!(acts(Strategy::Rotate, 3, &[]), ["> messages.0"]);
        assert_eq!(
            acts(Strategy::Rotate, 3, &["messages.0", "messages.2.gz", "messages.1.gz"]),
            [
                "rm messages.2.gz",
                "messages.1.gz > messages.2.gz",
                "messages.0 > messages.1",
                "> messages.0"
            ]
        );
    }

    #[test]
    fn numbers_grow_and_the_lowest_goes() {
        let names = ["messages.4.gz", "messages.5.gz", "messages.10"];
        let steps = ["rm messages.4.gz", "> messages.11"];
        assert_eq!(acts(Strategy::Sequential, 3, &names), steps);
        assert_eq!(acts(Strategy::Sequential, 3, &[]), ["> messages.0"]);
    }

    #[test]
    fn times_grow_even_within_a_second() {
        assert_eq!(acts(Strategy::Timestamp, 3, &[]), ["> messages.1700000000"]);
        let twice = ["messages.1700000000"];
        assert_eq!(acts(Strategy::Timestamp, 3, &twice), ["> messages.1700000001"]);
    }

    #[test]
    fn without_old_files_nothing_is_put_aside() {
        assert_eq!(acts(Strategy::Rotate, 0, &["messages.0"]), ["rm messages.0"]);
        assert!(acts(Strategy::None, 3, &["messages.0"]).is_empty());
    }

    #[test]
    fn other_files_are_left_alone() {
        for name in ["messages", "messages.", "messages.x", "messages.1.bz2", "other.1"] {
            assert_eq!(Old::parse("messages", name), None, "{name}");
        }
        for name in ["messages.01", "messages.+1", "messages.99999999999999999999"] {
            assert_eq!(Old::parse("messages", name), None, "{name}");
        }
    }

    #[test]
    fn the_worst_case_counts_every_file_as_full() {
        let rotation = Rotation { max_bytes: Some(100), keep: 3, ..Rotation::default() };
        assert_eq!(rotation.worst_case_bytes(), Some(500));
        assert_eq!(Rotation { gzip: false, ..rotation }.worst_case_bytes(), Some(400));
        assert_eq!(Rotation { max_bytes: None, ..rotation }.worst_case_bytes(), None);
        assert_eq!(Rotation::NONE.worst_case_bytes(), None);
    }

    #[test]
    fn hours_and_days_are_those_of_the_wall_clock() {
        let at = |seconds: i64, utc_offset_s| Now {
            mono: Mono::ZERO,
            wall: Wall::from_micros(seconds * 1_000_000),
            utc_offset_s,
        };
        assert_eq!(Every::Day.number(at(86_399, 0)), 0);
        assert_eq!(Every::Day.number(at(86_399, 60)), 1);
        assert_eq!(Every::Hour.number(at(7_199, 0)), 1);
    }
}
