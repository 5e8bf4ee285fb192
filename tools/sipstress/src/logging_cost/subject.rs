//! What runs in one set-up: the server, a console, a fail2ban of its own. Each ends when this is
//! dropped. Nothing of it touches a firewall or a file outside its folder.

use super::set_up::{Attached, DIALPLAN, SetUp, Tail};
use crate::process;
use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Tables are allocated at the start, which takes time on a loaded machine.
const START_MAX: Duration = Duration::from_secs(30);
const STOP_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// The longest page of metrics.
const PAGE_MAX: u64 = 1 << 20;

/// Where the programs are.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) pbx: PathBuf,
    pub(super) pbxctl: PathBuf,
    /// The folder that fail2ban is installed under; `None` when it is not.
    pub(super) fail2ban: Option<PathBuf>,
    /// The processor that the server may use; any when `None`.
    pub(super) server_cpu: Option<usize>,
}

/// A running set-up.
pub(super) struct Subject {
    pub(super) address: SocketAddr,
    pub(super) pid: u32,
    metrics: SocketAddr,
    // In the order in which they end.
    fail2ban: Option<Running>,
    console: Option<Running>,
    server: Running,
}

/// A process that is ended when it is dropped.
struct Running(Child);

impl Subject {
    pub(super) fn start(
        programs: &Programs,
        set_up: &SetUp,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let (port, metrics_port) = (free_udp_port()?, free_tcp_port()?);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let metrics = SocketAddr::from(([127, 0, 0, 1], metrics_port));
        fs::create_dir_all(folder.join("var/log"))?;
        fs::write(folder.join("dialplan.toml"), DIALPLAN)?;
        let config = folder.join("pbx.toml");
        let mut text = set_up.configuration(folder, port);
        text.push_str(&format!("\n[metrics]\nlisten = \"{metrics}\"\n"));
        text.push_str(&format!("\n[control]\nsocket = \"{}\"\n", socket(folder).display()));
        fs::write(&config, text)?;
        let server = start_server(programs, &config, folder, address)?;
        let pid = server.0.id();
        let mut subject = Self { address, pid, metrics, fail2ban: None, console: None, server };
        subject.console = start_console(programs, set_up, folder)?;
        subject.fail2ban = start_fail2ban(programs, set_up.fail2ban, folder)?;
        Ok(subject)
    }

    /// Lines of the log that were lost so far, in lanes and sinks; `None` when nobody says.
    pub(super) fn lines_lost(&self) -> Option<u64> {
        let mut stream = TcpStream::connect_timeout(&self.metrics, Duration::from_secs(2)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).ok()?;
        let mut page = String::new();
        stream.take(PAGE_MAX).read_to_string(&mut page).ok()?;
        lost_in(&page)
    }

    /// Whether all that was started still runs.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        let parts = [
            ("the server", Some(&mut self.server)),
            ("the console", self.console.as_mut()),
            ("fail2ban", self.fail2ban.as_mut()),
        ];
        for (name, part) in parts {
            if let Some(status) = part.map(|part| part.0.try_wait()).transpose()?.flatten() {
                bail!("{name} ended with {status}");
            }
        }
        Ok(())
    }
}

/// The sum of the log's counters of lost lines on a page in Prometheus's text format.
fn lost_in(page: &str) -> Option<u64> {
    let is_lost = |line: &&str| {
        line.starts_with("pbx_log_")
            && line.split(['{', ' ']).next().is_some_and(|name| name.contains("dropped"))
    };
    let mut values = page.lines().filter(is_lost).peekable();
    values.peek()?;
    Some(values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64)
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("pbx.ctl")
}

fn start_server(
    programs: &Programs,
    config: &Path,
    folder: &Path,
    address: SocketAddr,
) -> anyhow::Result<Running> {
    let mut command = match programs.server_cpu {
        Some(cpu) => {
            let mut command = Command::new("taskset");
            command.args(["-c", &cpu.to_string()]).arg(&programs.pbx);
            command
        }
        None => Command::new(&programs.pbx),
    };
    let out = File::create(folder.join("pbx.out"))?;
    command.arg("--config").arg(config).stdin(Stdio::null());
    command.stdout(out.try_clone()?).stderr(out);
    let child = command.spawn().with_context(|| programs.pbx.display().to_string())?;
    let mut server = Running(child);
    let pid = server.0.id();
    wait_until(&mut server, "the server listens", &folder.join("pbx.out"), || {
        process::owner_of_udp(address) == Some(pid) && socket(folder).exists()
    })?;
    Ok(server)
}

fn start_console(
    programs: &Programs,
    set_up: &SetUp,
    folder: &Path,
) -> anyhow::Result<Option<Running>> {
    if set_up.console == Attached::None {
        return Ok(None);
    }
    let mut command = Command::new(&programs.pbxctl);
    command.arg("--socket").arg(socket(folder));
    if set_up.console == Attached::Json {
        command.arg("--json");
    }
    command.args(["--verbose", &set_up.verbose.to_string()]);
    let stdout = match set_up.console {
        Attached::None | Attached::Reading | Attached::Json => Stdio::null(),
        // Nobody takes what is in it.
        Attached::Stalled => Stdio::piped(),
    };
    let trouble = folder.join("pbxctl.err");
    // An open standard input: its end would be the console's.
    command.stdin(Stdio::piped()).stdout(stdout).stderr(File::create(&trouble)?);
    let child = command.spawn().with_context(|| programs.pbxctl.display().to_string())?;
    Ok(Some(Running(child)))
}

fn start_fail2ban(
    programs: &Programs,
    tail: Tail,
    folder: &Path,
) -> anyhow::Result<Option<Running>> {
    let file = match tail {
        Tail::None => return Ok(None),
        Tail::Security => "security.log",
        Tail::Full => "full",
    };
    let root = programs.fail2ban.as_ref().context("fail2ban is not installed")?;
    let own = folder.join("fail2ban");
    let stock = root.join("etc/fail2ban");
    for part in ["filter.d", "action.d", "jail.d"] {
        fs::create_dir_all(own.join(part))?;
    }
    for filter in ["asterisk.conf", "common.conf"] {
        let from = stock.join("filter.d").join(filter);
        fs::copy(&from, own.join("filter.d").join(filter))
            .with_context(|| from.display().to_string())?;
    }
    let log = folder.join("var/log").join(file);
    let log_file = own.join("log");
    fs::write(&log_file, "")?;
    fs::write(own.join("action.d/nothing.conf"), "[Definition]\nactionban =\nactionunban =\n")?;
    let places = format!(
        "[DEFAULT]\nloglevel = INFO\nlogtarget = {}\nsyslogsocket = auto\nsocket = {}\n\
         pidfile = {}\ndbfile = {}\ndbpurgeage = 1d\n\n[Definition]\n",
        log_file.display(),
        own.join("socket").display(),
        own.join("pid").display(),
        own.join("database").display()
    );
    fs::write(own.join("fail2ban.conf"), places)?;
    let jail = format!(
        "[DEFAULT]\nbackend = auto\nusedns = no\nbantime = 600\nfindtime = 600\nmaxretry = 10\n\
         \n[pbx]\nenabled = true\nfilter = asterisk\naction = nothing\nlogpath = {}\n",
        log.display()
    );
    fs::write(own.join("jail.conf"), jail)?;
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(root.join("usr/bin/fail2ban-server")).arg("-c").arg(&own);
    command.arg("-s").arg(own.join("socket")).arg("-p").arg(own.join("pid"));
    command.args(["-x", "-f", "start"]);
    if root != Path::new("/") {
        command.env("PYTHONPATH", root.join("usr/lib/python3/dist-packages"));
    }
    let out = File::create(folder.join("fail2ban.out"))?;
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    let mut running = Running(command.spawn().context("nice fail2ban-server")?);
    wait_until(&mut running, "fail2ban reads", &folder.join("fail2ban.out"), || {
        fs::read_to_string(&log_file).is_ok_and(|text| text.contains("Added logfile"))
    })?;
    Ok(Some(running))
}

/// Waits for a sign of life; `out` is named when it does not come.
fn wait_until(
    running: &mut Running,
    what: &str,
    out: &Path,
    mut is_so: impl FnMut() -> bool,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !is_so() {
        let said = || fs::read_to_string(out).unwrap_or_default();
        if let Some(status) = running.0.try_wait()? {
            bail!("it ended with {status} before {what}: {}", said().trim());
        }
        if begin.elapsed() > START_MAX {
            bail!("{START_MAX:?} have passed before {what}: {}", said().trim());
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

fn free_udp_port() -> anyhow::Result<u16> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn free_tcp_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Drop for Running {
    fn drop(&mut self) {
        let is_over = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_some());
        if is_over(&mut self.0) {
            return;
        }
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // It may have ended meanwhile, which is what is wanted.
            let _ = kill_process(pid, Signal::TERM);
        }
        let begin = Instant::now();
        while begin.elapsed() < STOP_MAX {
            if is_over(&mut self.0) {
                return;
            }
            std::thread::sleep(POLL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_lines_are_summed_over_lanes_and_sinks() {
        let page = "# TYPE pbx_log_lines_dropped_total counter\n\
             pbx_log_lines_dropped_total{sink=\"full\"} 5\n\
             pbx_log_lines_written_total{sink=\"full\"} 700\n\
             pbx_log_verbose_dropped_total{lane=\"shard-0\"} 2\n\
             pbx_hops_dropped_total 9\n";
        assert_eq!(lost_in(page), Some(7));
        assert_eq!(lost_in("pbx_calls 1\n"), None);
    }

    #[test]
    fn a_process_ends_with_its_handle() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        drop(Running(child));
        assert_eq!(process::usage(pid), None);
    }
}
