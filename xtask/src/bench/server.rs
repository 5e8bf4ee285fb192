//! The server under measurement: our own release build or a peer, pinned to processor 1.

use std::fmt;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Section;
use super::process::Usage;
use crate::peers::{self, Peer};
use crate::run::{self, cargo, finish, output, program, root, target_folder};

/// Where the subject listens, in its own namespace or ours.
pub(super) const ADDRESS: &str = "127.0.0.1:5060";
const SERVER_CPU: &str = "1";
const GENERATOR_CPU: &str = "0";
/// Tables are allocated at start, which takes time on a loaded machine.
const START_MAX: Duration = Duration::from_secs(20);
const STOP_MAX: Duration = Duration::from_secs(10);

/// Whom the bench measures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Pbx,
    Peer(Peer),
}

/// Offered calls per second of each run.
pub(super) struct Rates {
    pub(super) answer: u32,
    pub(super) answer_sipp: u32,
    pub(super) bridge: u32,
    pub(super) bridge_sipp: u32,
    /// Where a sweep begins.
    pub(super) sweep_start: u32,
    /// At which held calls are placed.
    pub(super) hold: u32,
}

/// Where our release build put the programs.
pub(super) struct Programs {
    folder: PathBuf,
}

/// How our server is configured beside `etc/bench/pbx.toml`.
#[derive(Clone, Copy, Default)]
pub(super) struct Variant {
    pub(super) shards: Option<u32>,
    /// Sends 100 Trying at once instead of only when the answer is late.
    pub(super) always_trying: bool,
    /// Strangers get what they get by default, not what a bench needs.
    pub(super) default_budgets: bool,
}

/// A running server. It is stopped when this is dropped.
pub(super) struct Server {
    pub(super) pid: u32,
    kind: Kind,
}

enum Kind {
    Ours(Child),
    Peer(Peer),
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Subject::Pbx => "pbx",
            Subject::Peer(Peer::Asterisk) => "asterisk",
            Subject::Peer(Peer::Kamailio) => "kamailio",
        })
    }
}

impl Subject {
    /// Ours are the targets of the README; a peer's are what it bears by its published figures.
    pub(super) fn rates(self) -> Rates {
        match self {
            Subject::Pbx => Rates {
                answer: 20_000,
                answer_sipp: 8_000,
                bridge: 8_000,
                bridge_sipp: 4_000,
                sweep_start: 4_000,
                hold: 4_000,
            },
            Subject::Peer(Peer::Asterisk) => Rates {
                answer: 500,
                answer_sipp: 500,
                bridge: 180,
                bridge_sipp: 180,
                sweep_start: 50,
                hold: 200,
            },
            Subject::Peer(Peer::Kamailio) => Rates {
                answer: 0,
                answer_sipp: 0,
                bridge: 1_800,
                bridge_sipp: 1_800,
                sweep_start: 500,
                hold: 500,
            },
        }
    }

    /// A relay answers nothing itself, and a peer has neither our shards nor our crates.
    pub(super) fn has(self, section: Section) -> bool {
        match self {
            Subject::Pbx => true,
            Subject::Peer(Peer::Asterisk) => !matches!(
                section,
                Section::Shards | Section::Micro | Section::Register | Section::Flood
            ),
            Subject::Peer(Peer::Kamailio) => matches!(section, Section::Bridge),
        }
    }
}

impl Programs {
    pub(super) fn build() -> Result<Programs> {
        let packages = ["--package", "pbx", "--package", "sipstress"];
        finish(cargo().args(["build", "--release", "--locked"]).args(packages))?;
        Ok(Programs { folder: target_folder()?.join("release") })
    }

    /// A generator: pinned to its processor, in the server's namespace.
    pub(super) fn generator(&self, server: &Server, name: &str) -> Command {
        let mut command = match server.kind {
            Kind::Ours(_) => program("taskset"),
            Kind::Peer(_) => {
                let mut inside = peers::inside(server.pid);
                inside.arg("taskset");
                inside
            }
        };
        command.args(["-c", GENERATOR_CPU]);
        let ours = self.folder.join(name);
        if ours.exists() {
            command.arg(ours)
        } else {
            command.arg(name)
        };
        command
    }
}

impl Server {
    pub(super) fn start(subject: Subject, programs: &Programs, variant: Variant) -> Result<Server> {
        match subject {
            Subject::Peer(peer) => {
                let cpu = SERVER_CPU.parse().context("the processor is a number")?;
                Ok(Server { pid: peers::start(peer, cpu)?, kind: Kind::Peer(peer) })
            }
            Subject::Pbx => start_ours(programs, variant),
        }
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        Usage::of(self.pid)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let stopped = match &mut self.kind {
            Kind::Peer(peer) => peers::stop(*peer),
            Kind::Ours(child) => end(child, "TERM"),
        };
        if let Err(error) = stopped {
            eprintln!("the server was not stopped: {error:#}");
        }
    }
}

/// Ends a child by a signal, and by force when it takes too long.
pub(super) fn end(child: &mut Child, signal: &str) -> Result<()> {
    output(&mut run::signal(signal, &child.id().to_string()))?;
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > STOP_MAX {
            child.kill()?;
            child.wait()?;
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn start_ours(programs: &Programs, variant: Variant) -> Result<Server> {
    if UdpSocket::bind(ADDRESS).is_err() {
        bail!("{ADDRESS} is taken: something else would be measured");
    }
    let folder = target_folder()?.join("bench");
    fs::create_dir_all(&folder)?;
    let config = configuration(&folder, variant)?;
    let log = fs::File::create(folder.join("pbx.out"))?;
    let mut command = program("taskset");
    command.args(["-c", SERVER_CPU]).arg(programs.folder.join("pbx"));
    command.arg("--config").arg(config);
    if let Some(shards) = variant.shards {
        command.args(["--shards", &shards.to_string()]);
    }
    let mut child = command
        .current_dir(root())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("cannot start pbx")?;
    let begin = Instant::now();
    // A bound port is the sign of life; the options of a second bind do not matter to it.
    while UdpSocket::bind(ADDRESS).is_ok() {
        if let Some(status) = child.try_wait()? {
            bail!("pbx ended with {status}; see {}", folder.join("pbx.out").display());
        }
        if begin.elapsed() > START_MAX {
            child.kill()?;
            bail!("pbx did not listen after {START_MAX:?}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(Server { pid: child.id(), kind: Kind::Ours(child) })
}

/// The bench's configuration as it stands, or a copy with the variant's lines.
fn configuration(folder: &Path, variant: Variant) -> Result<PathBuf> {
    let original = root().join("etc/bench/pbx.toml");
    if !variant.always_trying && !variant.default_budgets {
        return Ok(original);
    }
    let mut text = fs::read_to_string(&original)?;
    if variant.always_trying {
        text = with_value(&text, "trying", "\"always\"")?;
    }
    if variant.default_budgets {
        let keys = ["burst", "per_second", "vouched_factor", "all_per_second"];
        let is_kept = |line: &&str| !keys.iter().any(|key| is_key(line, key));
        text = text.lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
    }
    // Its relative paths start at its folder.
    let copy = folder.join("pbx.toml");
    fs::copy(root().join("etc/bench/dialplan.toml"), folder.join("dialplan.toml"))?;
    let text = with_value(&text, "data_dir", &format!("\"{}\"", folder.join("var").display()))?;
    fs::write(&copy, text)?;
    Ok(copy)
}

/// Whether the bench's configuration has a line for a key.
pub(super) fn has_key(key: &str) -> Result<bool> {
    let text = fs::read_to_string(root().join("etc/bench/pbx.toml"))?;
    Ok(text.lines().any(|line| is_key(line, key)))
}

fn is_key(line: &str, key: &str) -> bool {
    line.split('=').next().is_some_and(|name| name.trim() == key)
}

/// The text with another value for a key that stands on a line of its own.
fn with_value(text: &str, key: &str, value: &str) -> Result<String> {
    if !text.lines().any(|line| is_key(line, key)) {
        bail!("etc/bench/pbx.toml has no line `{key} = ...`");
    }
    let lines = text.lines().map(|line| {
        if is_key(line, key) { format!("{key} = {value}\n") } else { format!("{line}\n") }
    });
    Ok(lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_replaced_on_its_line_only() {
        let text = "[sip]\nshards = 1 # one\nshards_max = 2\n";
        let replaced = with_value(text, "shards", "2").unwrap();
        assert_eq!(replaced, "[sip]\nshards = 2\nshards_max = 2\n");
        assert!(with_value(text, "trying", "1").is_err());
    }
}
