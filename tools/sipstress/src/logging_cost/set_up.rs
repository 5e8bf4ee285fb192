//! The set-ups that are compared, and their configuration files. Pure: values to texts.

use std::fmt;
use std::path::Path;

/// Whether a console is attached, and how it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attached {
    /// Nobody is attached.
    None,
    /// It takes every line at once.
    Reading,
    /// It takes nothing: a terminal on which somebody pressed Ctrl-S.
    Stalled,
    /// It takes JSON lines, as a program does.
    Json,
}

/// What a fail2ban at the lowest priority reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// None runs.
    None,
    /// The security log.
    Security,
    /// The log file that has everything.
    Full,
}

/// One set-up: a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SetUp {
    /// The root verbosity, and that of the console.
    pub(super) verbose: u8,
    /// Whether one file takes everything.
    pub(super) full: bool,
    /// The console.
    pub(super) console: Attached,
    /// The fail2ban.
    pub(super) fail2ban: Tail,
}

impl SetUp {
    /// Nothing but what must be logged.
    pub(super) const QUIET: Self =
        Self { verbose: 0, full: false, console: Attached::None, fail2ban: Tail::None };

    /// What an operator has who wants to see everything.
    pub(super) const LOUD: Self =
        Self { verbose: 7, full: true, console: Attached::Reading, fail2ban: Tail::Security };

    /// Every combination, the quiet one first; then the loud one with a console of JSON.
    pub(super) fn all() -> Vec<Self> {
        let mut rows = Vec::new();
        for verbose in [0, 3, 7] {
            for full in [false, true] {
                for console in [Attached::None, Attached::Reading, Attached::Stalled] {
                    for fail2ban in [Tail::None, Tail::Security, Tail::Full] {
                        rows.push(Self { verbose, full, console, fail2ban });
                    }
                }
            }
        }
        // A fail2ban cannot read a file that is not written.
        rows.retain(|row| row.full || row.fail2ban != Tail::Full);
        rows.push(Self { console: Attached::Json, ..Self::LOUD });
        rows
    }

    /// The ends of the scale and one change at a time between them.
    pub(super) fn few() -> Vec<Self> {
        let file = Self { verbose: 7, full: true, ..Self::QUIET };
        vec![
            Self::QUIET,
            Self { verbose: 3, full: true, ..Self::QUIET },
            file,
            Self { console: Attached::Reading, ..file },
            Self { console: Attached::Stalled, ..file },
            Self::LOUD,
            Self { fail2ban: Tail::Full, ..Self::LOUD },
            Self { console: Attached::Json, ..Self::LOUD },
        ]
    }

    /// The rate that the published test reached in the set-up that is nearest to this one.
    pub(super) fn published_cps(&self) -> u32 {
        match (self.verbose, self.fail2ban) {
            (0, _) => 150,
            (_, Tail::None) => 100,
            (_, Tail::Security | Tail::Full) => 60,
        }
    }

    /// The configuration of the server: it listens on `port`, and its files lie in `folder`.
    pub(super) fn configuration(&self, folder: &Path, port: u16) -> String {
        let full = match self.full {
            true => "\n[logging.files.full]\nlevels = \"notice,warning,error,verbose\"\n",
            false => "",
        };
        format!(
            "[server]\nname = \"logging-cost\"\ndata_dir = \"{}\"\nshards = 1\n\n\
             [sip]\nlisten = [\"127.0.0.1:{port}\"]\nreceive_buffer = \"16MiB\"\n\n\
             [dialplan]\nfiles = [\"dialplan.toml\"]\n\n\
             [trunks.tester]\nfrom = [\"127.0.0.1\"]\ncontext = \"tester\"\n\n\
             [limits]\ncalls = 200000\ncalls_hard = 200000\ndrain = \"1s\"\n\n\
             [logging]\nverbose = {}\n\n\
             [logging.files.messages]\nlevels = \"notice,warning,error\"\n\n\
             [logging.files.\"security.log\"]\nlevels = \"security\"\n{full}",
            folder.join("var").display(),
            self.verbose,
        )
    }
}

/// The plan of the server: each call is answered, and has about as many lines as a usual one.
pub(super) const DIALPLAN: &str = "[[context.tester.exten]]\n\
     match = \"answer\"\n\
     steps = [\"Answer()\", \"Wait(600)\"]\n";

impl fmt::Display for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Reading => "reading",
            Self::Stalled => "stalled",
            Self::Json => "reading JSON",
        })
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Security => "security.log",
            Self::Full => "full",
        })
    }
}

impl fmt::Display for SetUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = if self.full { "on" } else { "off" };
        let Self { verbose, console, fail2ban, .. } = self;
        write!(f, "verbose {verbose}, full log {full}, console {console}, fail2ban {fail2ban}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_stands_once() {
        let rows = SetUp::all();
        // 3 verbosities x 3 consoles x (full with 3 fail2bans, no full with 2), and JSON.
        assert_eq!(rows.len(), 3 * 3 * (3 + 2) + 1);
        for (at, row) in rows.iter().enumerate() {
            assert!(!rows[..at].contains(row), "{row}");
        }
        assert_eq!(rows[0], SetUp::QUIET);
        assert!(rows.contains(&SetUp::LOUD));
        assert!(SetUp::few().iter().all(|few| rows.contains(few)));
    }

    #[test]
    fn the_configuration_says_what_the_row_says() {
        let loud = SetUp::LOUD.configuration(Path::new("/x"), 5062);
        assert!(loud.contains("verbose = 7\n") && loud.contains("[logging.files.full]"), "{loud}");
        let quiet = SetUp::QUIET.configuration(Path::new("/x"), 5062);
        assert!(quiet.contains("verbose = 0\n") && !quiet.contains("full"), "{quiet}");
        assert!(quiet.contains("data_dir = \"/x/var\"") && quiet.contains("127.0.0.1:5062"));
    }
}
