//! Asterisk, Kamailio and SIPp of Debian's newest packages, for comparison runs beside our own.
//!
//! They live in a folder of their own (`target/peers/sid`, made by debootstrap from the mirror that
//! this machine's apt uses) and run with a network namespace of their own that has nothing but
//! loopback. The namespace and the mounts belong to the peer's process and end with it: there is
//! nothing to undo. Not for continuous integration: nothing of ours is tested by a peer's speed.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::install::debian_packages;
use crate::run::{self, finish, is_root, line, output, program, root, which};

/// A peer needs this long to read its configuration and bind its port, with a margin.
const START_MAX: Duration = Duration::from_secs(30);
const STOP_MAX: Duration = Duration::from_secs(15);
/// 127.0.0.1:5060 as the kernel's list of UDP sockets writes it.
const PORT_IN_LIST: &str = "0100007F:13C4";

/// Options of `cargo xtask peers`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Step,
}

#[derive(clap::Subcommand)]
enum Step {
    /// Makes the folder and installs the peers in it; takes minutes, and is safe to repeat.
    Setup,
    /// Starts a peer on 127.0.0.1:5060 of a namespace of its own, and returns when it listens.
    Start {
        /// Which peer.
        peer: Peer,
        /// The processor to pin it to.
        #[arg(long, default_value_t = 1)]
        cpu: u32,
    },
    /// Stops a peer.
    Stop {
        /// Which peer.
        peer: Peer,
    },
    /// Runs a program of this machine in a running peer's namespace.
    Exec {
        /// Which peer.
        peer: Peer,
        /// The program and its arguments.
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
}

/// A program to compare with.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Peer {
    /// Asterisk 22: answers and bridges.
    Asterisk,
    /// Kamailio: relays to the UAS.
    Kamailio,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if !is_root() {
        bail!("peers need root: debootstrap, chroot and namespaces");
    }
    match &arguments.command {
        Step::Setup => setup(),
        Step::Start { peer, cpu } => {
            let pid = start(*peer, *cpu)?;
            println!("{} runs as {pid}; stop it with: cargo xtask peers stop", peer.name());
            Ok(())
        }
        Step::Stop { peer } => stop(*peer),
        Step::Exec { peer, command } => {
            let mut inside = inside(running(*peer)?);
            Err(inside.args(command).exec()).with_context(|| line(&inside))
        }
    }
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Peer::Asterisk => "asterisk",
            Peer::Kamailio => "kamailio",
        }
    }

    /// The command line inside the folder.
    fn command_line(self) -> &'static str {
        match self {
            Peer::Asterisk => "asterisk -f -C /peers/asterisk/asterisk.conf",
            Peer::Kamailio => {
                "kamailio -DD -E -m 2048 -M 16 -f /peers/kamailio/kamailio.cfg \
                 -P /peers/run/kamailio.pid -Y /peers/run"
            }
        }
    }
}

/// The folder that holds the peers, wherever cargo builds: they are worth keeping.
pub(crate) fn folder() -> PathBuf {
    root().join("target/peers")
}

fn setup() -> Result<()> {
    let tools = [("debootstrap", "debootstrap"), ("unshare", "util-linux"), ("ip", "iproute2")];
    let missing: Vec<&str> = tools
        .iter()
        .filter(|(tool, _)| which(tool).is_none())
        .map(|(_, package)| *package)
        .collect();
    debian_packages(&missing)?;

    let sid = folder().join("sid");
    if !sid.join("usr/bin/apt-get").exists() {
        fs::create_dir_all(&sid)?;
        let mirror = mirror()?;
        finish(program("debootstrap").args(["--variant=minbase", "sid"]).arg(&sid).arg(&mirror))?;
    }
    // Nothing may start a service inside the folder.
    write_program(&sid.join("usr/sbin/policy-rc.d"), "#!/bin/sh\nexit 101\n")?;
    inside_folder(&sid, "apt-get -qq -o Acquire::Check-Valid-Until=false update")?;
    inside_folder(
        &sid,
        "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
         asterisk kamailio sip-tester",
    )?;
    for version in ["asterisk -V", "kamailio -v | head -n 1", "sipp -v | head -n 2 | tail -n 1"] {
        // SIPp ends with 99 after it has said its version.
        inside_folder(&sid, &format!("{{ {version}; }} || true"))?;
    }
    Ok(())
}

/// The first mirror of Debian's own packages that apt is told of.
fn mirror() -> Result<String> {
    let mut texts = vec![fs::read_to_string("/etc/apt/sources.list").unwrap_or_default()];
    for entry in fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten() {
        texts.push(fs::read_to_string(entry?.path()).unwrap_or_default());
    }
    let lines = texts.iter().flat_map(|text| text.lines());
    first_mirror(lines).context("apt's sources name no http mirror of Debian")
}

fn first_mirror<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<String> {
    lines.find_map(|line| {
        let line = line.trim();
        if !(line.starts_with("deb ") || line.starts_with("URIs:")) {
            return None;
        }
        line.split_whitespace().find(|word| is_mirror(word)).map(str::to_owned)
    })
}

/// A mirror of Debian itself ends in its name; the security updates and others' do not.
fn is_mirror(word: &str) -> bool {
    (word.starts_with("http://") || word.starts_with("https://"))
        && word.trim_end_matches('/').ends_with("/debian")
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// Runs a shell line in the folder, with /proc and /dev mounted for as long as it runs.
fn inside_folder(sid: &Path, line: &str) -> Result<()> {
    finish(program("unshare").args(["--mount", "sh", "-ec"]).arg(format!(
        "mount -t proc proc {sid}/proc; mount --rbind /dev {sid}/dev; \
         exec chroot {sid} sh -c '{line}'",
        sid = sid.display()
    )))
}

/// Starts a peer and returns its process id when it listens.
pub(crate) fn start(peer: Peer, cpu: u32) -> Result<u32> {
    if running(peer).is_ok() {
        bail!("{} runs already", peer.name());
    }
    let folder = folder();
    let sid = folder.join("sid");
    if !sid.join("usr/sbin").join(peer.name()).exists() {
        bail!("{} is not set up; run: cargo xtask peers setup", peer.name());
    }
    prepare(peer, &sid)?;
    let log = fs::File::create(folder.join(format!("{}.log", peer.name())))?;
    let mut command = program("unshare");
    command.args(["--mount", "--net", "sh", "-ec"]).arg(format!(
        "ip link set lo up; mount -t proc proc {sid}/proc; mount --rbind /dev {sid}/dev; \
         ulimit -n $(ulimit -H -n); exec taskset -c {cpu} chroot {sid} {line}",
        sid = sid.display(),
        line = peer.command_line(),
    ));
    let mut child = command.stdout(log.try_clone()?).stderr(log).process_group(0).spawn()?;
    fs::write(pid_file(peer), child.id().to_string())?;
    let begin = Instant::now();
    while !listens(child.id()) {
        if let Some(status) = child.try_wait()? {
            bail!("{} ended with {status}; see {}.log", peer.name(), peer.name());
        }
        if begin.elapsed() > START_MAX {
            stop(peer)?;
            bail!("{} did not listen after {START_MAX:?}", peer.name());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(child.id())
}

/// Puts the configuration and empty folders for a run in place.
fn prepare(peer: Peer, sid: &Path) -> Result<()> {
    let run = sid.join("peers/run");
    if run.exists() {
        fs::remove_dir_all(&run)?;
    }
    for name in ["cache", "db", "spool", "run", "log"] {
        fs::create_dir_all(run.join(name))?;
    }
    fs::create_dir_all(sid.join("run/kamailio"))?;
    finish(program("cp").arg("-r").arg(sid.join("var/lib/asterisk")).arg(run.join("lib")))?;
    let from = root().join("xtask/peers").join(peer.name());
    finish(program("cp").arg("-r").arg(from).arg(sid.join("peers/")))
}

fn listens(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/net/udp")).is_ok_and(|list| list.contains(PORT_IN_LIST))
}

fn pid_file(peer: Peer) -> PathBuf {
    folder().join(format!("{}.pid", peer.name()))
}

/// The process id of a peer that runs. The id of another program is not taken for it.
fn running(peer: Peer) -> Result<u32> {
    let text = fs::read_to_string(pid_file(peer)).unwrap_or_default();
    let pid: u32 =
        text.trim().parse().with_context(|| format!("{} was not started", peer.name()))?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    if !name.starts_with(peer.name()) {
        bail!("{} does not run", peer.name());
    }
    Ok(pid)
}

/// Stops a peer: politely, then by force.
pub(crate) fn stop(peer: Peer) -> Result<()> {
    let pid = running(peer)?;
    let kill = |signal: &str| output(&mut run::signal(signal, &format!("-{pid}")));
    kill("TERM")?;
    let begin = Instant::now();
    while running(peer).is_ok() && begin.elapsed() < STOP_MAX {
        std::thread::sleep(Duration::from_millis(100));
    }
    if running(peer).is_ok() {
        kill("KILL")?;
    }
    Ok(fs::remove_file(pid_file(peer))?)
}

/// A command that runs a program in the network namespace of a process.
pub(crate) fn inside(pid: u32) -> Command {
    let mut command = program("nsenter");
    command.args(["--net", "--target", &pid.to_string()]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_first_address_that_is_not_for_security_updates() {
        let lines =
            ["# http://a.example/", "URIs: http://a/debian-security", "URIs: http://b/debian"];
        assert_eq!(first_mirror(lines.into_iter()).as_deref(), Some("http://b/debian"));
        let lines = ["deb [signed-by=/k.gpg] https://c/debian bookworm main"];
        assert_eq!(first_mirror(lines.into_iter()).as_deref(), Some("https://c/debian"));
        assert_eq!(first_mirror(["deb cdrom:[x]/ bookworm main"].into_iter()), None);
    }
}
