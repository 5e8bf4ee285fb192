//! The running `pbx` of a test: the binary of this build, with a configuration of its own.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::outside::{Folder, Process, free_port, wait_until};

pub(crate) struct Pbx {
    process: Process,
    port: u16,
    records: PathBuf,
    home: PathBuf,
}

/// How long the console may be left without an answer.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Everybody on this machine.
const LOCAL_TRUNK: &str = r#"
[trunks.local]
from = ["127.0.0.0/8"]
context = "default"
"#;

impl Pbx {
    /// Starts the program with a dialplan, and returns when it listens.
    pub(crate) fn start(folder: &Folder, plan: &str) -> Pbx {
        Pbx::start_with(folder, plan, LOCAL_TRUNK)
    }

    /// As [`Pbx::start`], with what the configuration says of who may call.
    pub(crate) fn start_with(folder: &Folder, plan: &str, parties: &str) -> Pbx {
        let port = free_port();
        let home = folder.inside("pbx");
        let records = folder.inside("pbx/records");
        let ring = home.join("ring");
        folder.write("pbx/dialplan.toml", plan);
        let config = folder.write(
            "pbx/pbx.toml",
            &format!(
                r#"
[server]
data_dir = "{home}"

[sip]
listen = ["127.0.0.1:{port}"]

[dialplan]
files = ["dialplan.toml"]

{parties}

# A test machine may be slow; that is no reason to refuse its calls.
[limits]
sojourn = "20s"

[logging]
verbose = 3
folder = "{home}/log"

[records]
folder = "{records}"
ring_folder = "{ring}"

[control]
socket = "{home}/pbx.ctl"

[metrics]
listen = "none"
"#,
                home = home.display(),
                records = records.display(),
                ring = ring.display(),
            ),
        );
        let mut command = Command::new(binary());
        let mut process = Process::start(folder, "pbx", command.arg("--config").arg(config));
        wait_until("pbx listens", || {
            process.assert_running();
            UdpSocket::bind(("127.0.0.1", port)).is_err()
        });
        Pbx { process, port, records, home }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A file of its log.
    pub(crate) fn log(&self, name: &str) -> String {
        let bytes = fs::read(self.home.join("log").join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A figure of `core show health`; 0 when it does not stand there, as for what never happened.
    pub(crate) fn health(&self, name: &str) -> u64 {
        let replies = self.ask(r#"{"v":2,"command":"show_health"}"#);
        let lines = replies.iter().filter_map(|reply| reply["lines"].as_array()).flatten();
        let lines: Vec<&str> = lines.filter_map(|line| line.as_str()).collect();
        assert!(!lines.is_empty(), "no health: {replies:?}");
        let begin = format!("{name}: ");
        let figure = lines.iter().find_map(|line| line.strip_prefix(&begin));
        figure.map_or(0, |text| text.parse().unwrap_or_else(|_| panic!("{name} is {text}")))
    }

    /// Where a trunk's registration stands.
    pub(crate) fn registration(&self, trunk: &str) -> String {
        let replies = self.ask(&format!(r#"{{"v":2,"command":"trunk_show","name":"{trunk}"}}"#));
        let text = replies.iter().find_map(|reply| reply["trunks"][0]["registration"].as_str());
        text.unwrap_or_else(|| panic!("no registration of {trunk}: {replies:?}")).to_owned()
    }

    /// What a command of the control socket is answered with.
    fn ask(&self, request: &str) -> Vec<serde_json::Value> {
        let mut stream = UnixStream::connect(self.home.join("pbx.ctl")).expect("pbx has a console");
        stream.set_read_timeout(Some(SILENCE_MAX)).expect("a socket takes a time limit");
        writeln!(stream, "{request}").expect("pbx reads from its console");
        let mut replies: Vec<serde_json::Value> = Vec::new();
        for line in BufReader::new(stream).lines() {
            let line = line.expect("pbx answers its console");
            let reply: serde_json::Value = serde_json::from_str(&line).expect("it speaks JSON");
            let is_last = reply["reply"] == "end" || reply["reply"] == "refused";
            replies.push(reply);
            if is_last {
                return replies;
            }
        }
        panic!("{request}: the answer has no end: {replies:?}")
    }

    /// The call records that are written so far.
    pub(crate) fn records(&self) -> Vec<serde_json::Value> {
        let mut lines = Vec::new();
        for file in json_files(&self.records) {
            let text = fs::read_to_string(file).unwrap_or_default();
            // The last line may be half written.
            lines.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
        }
        lines
    }

    /// Ends the program in an orderly way, which writes what is left, and returns all records.
    pub(crate) fn stop(mut self) -> Vec<serde_json::Value> {
        // The shell's own `kill`: a bare system has no program of that name.
        let kill = format!("kill -TERM {}", self.process.id());
        let status = Command::new("sh").args(["-c", &kill]).status();
        assert!(status.is_ok_and(|status| status.success()), "pbx was there to be stopped");
        assert_eq!(self.process.finish(), 0, "{}", self.process.output());
        self.records()
    }
}

fn json_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| {
        path.extension().is_some_and(|ending| ending == "json" || ending == "jsonl")
    });
    files.sort();
    files
}

/// The server beside this test in the target folder, built when it is missing or stale.
pub(crate) fn binary() -> PathBuf {
    built("pbx")
}

/// A program of ours, as [`binary`]; its package has its name.
pub(crate) fn built(name: &str) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let built =
        cargo.args(["build", "--quiet", "--package", name, "--manifest-path", manifest]).status();
    assert!(built.is_ok_and(|status| status.success()), "{name} does not build");
    let test = std::env::current_exe().expect("a test knows its file");
    let folder = test.parent().and_then(Path::parent).expect("tests lie in a folder of the target");
    folder.join(name)
}
