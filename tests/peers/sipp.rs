//! SIPp as a caller and as the called side, by its embedded scenarios or others.

use std::process::Command;

use crate::outside::{Folder, Process, free_port, wait_until};
use crate::pbx::Pbx;

/// SIPp ends by itself after this many seconds, as a failure.
const TIMEOUT_S: &str = "40";

/// What SIPp counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) completed: u32,
    pub(crate) failed: u32,
}

/// Calls an extension by the embedded caller, and returns when all calls have ended.
pub(crate) fn call(folder: &Folder, pbx: &Pbx, extension: &str, calls: u32) -> Counts {
    let scenario = ["-sn", "uac", "-s", extension, "-d", "100"];
    calling(folder, pbx, &format!("uac-{extension}"), &scenario, calls)
}

/// Calls by a scenario, and returns when all calls have ended.
pub(crate) fn calling(
    folder: &Folder,
    pbx: &Pbx,
    name: &str,
    scenario: &[&str],
    calls: u32,
) -> Counts {
    calling_at(folder, pbx.port(), name, scenario, calls)
}

/// As [`calling`], by whoever listens at a port.
pub(crate) fn calling_at(
    folder: &Folder,
    port: u16,
    name: &str,
    scenario: &[&str],
    calls: u32,
) -> Counts {
    let mut command = sipp(name, free_port(), calls);
    command.args(scenario).args(["-r", "50"]).arg(format!("127.0.0.1:{port}"));
    let mut process = Process::start(folder, name, &mut command);
    process.finish();
    counts(folder, name)
}

/// A called side that answers a number of calls and ends.
pub(crate) struct Answering<'a> {
    folder: &'a Folder,
    name: &'static str,
    process: Process,
}

impl Answering<'_> {
    /// The embedded called side.
    pub(crate) fn start(folder: &Folder, port: u16, calls: u32) -> Answering<'_> {
        Answering::by(folder, "uas", &["-sn", "uas"], port, calls)
    }

    /// Any called side.
    pub(crate) fn by<'a>(
        folder: &'a Folder,
        name: &'static str,
        scenario: &[&str],
        port: u16,
        calls: u32,
    ) -> Answering<'a> {
        let mut command = sipp(name, port, calls);
        let mut process = Process::start(folder, name, command.args(scenario));
        wait_until("SIPp listens", || {
            process.assert_running();
            std::net::UdpSocket::bind(("127.0.0.1", port)).is_err()
                || std::net::TcpListener::bind(("127.0.0.1", port)).is_err()
        });
        Answering { folder, name, process }
    }

    /// Waits until all its calls have ended.
    pub(crate) fn finish(&mut self) -> Counts {
        self.process.finish();
        counts(self.folder, self.name)
    }
}

fn sipp(name: &str, port: u16, calls: u32) -> Command {
    let mut command = Command::new("sipp");
    command.args(["-nostdin", "-i", "127.0.0.1", "-p", &port.to_string()]);
    command.args(["-m", &calls.to_string(), "-timeout", TIMEOUT_S, "-timeout_error"]);
    command.args(["-trace_stat", "-stf", &format!("{name}.csv"), "-fd", "1"]);
    command.args(["-trace_msg", "-message_file", &format!("{name}.messages")]);
    command.args(["-trace_err", "-error_file", &format!("{name}.errors")]);
    command
}

/// The last line of the statistics, by the names of the first.
fn counts(folder: &Folder, name: &str) -> Counts {
    let text = folder.read(&format!("{name}.csv"));
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(';').collect();
    let last: Vec<&str> = lines.next_back().unwrap_or_default().split(';').collect();
    let count = |column: &str| {
        let at = names.iter().position(|name| *name == column);
        let text = at.and_then(|at| last.get(at)).unwrap_or_else(|| {
            panic!(
                "no {column} in the statistics of {name}: {}",
                folder.read(&format!("{name}.out"))
            )
        });
        text.parse().unwrap_or_else(|_| panic!("{column} is {text}"))
    };
    let counts = Counts { completed: count("SuccessfulCall(C)"), failed: count("FailedCall(C)") };
    if counts.failed > 0 {
        let errors = folder.read(&format!("{name}.errors"));
        eprintln!("{name}: {}", errors.chars().take(2_000).collect::<String>());
    }
    counts
}
