//! Generators and what they say: `sipstress` by its JSON, SIPp by its statistics file.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::server::{ADDRESS, Programs, Server, end};
use crate::run::{finish, line, target_folder};

/// Where the called side of bridged runs listens; `etc/bench/dialplan.toml` names it.
const CALLED: &str = "127.0.0.1:5070";
/// SIPp's own port: a fixed one, so that all its calls come from one source address.
const SIPP_PORT: &str = "5166";
/// SIPp holds back calls beyond this many at once; far above what a clean run needs.
const SIPP_CALLS_MAX: &str = "100000";

/// What a generator counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) seconds: f64,
    pub(super) offered: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) retransmissions: u64,
    /// Set-up time by quantile, where the generator measures it.
    pub(super) setup_us: Quantiles,
    /// The same, of the last 20 seconds.
    pub(super) last_us: Quantiles,
    /// How late the generator itself was.
    pub(super) lateness_p99_us: f64,
    /// Failures by cause, as text.
    pub(super) causes: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Quantiles {
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Outcome {
    pub(super) fn rate(&self) -> f64 {
        self.completed as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    pub(super) fn retransmission_share(&self) -> f64 {
        100.0 * self.retransmissions as f64 / self.offered.max(1) as f64
    }
}

/// The called side of bridged runs. It is stopped when this is dropped.
pub(super) struct Called {
    child: Child,
}

impl Called {
    pub(super) fn start(programs: &Programs, server: &Server) -> Result<Called> {
        let mut command = programs.generator(server, "sipstress");
        command.args(["answer", "--listen", CALLED]);
        let child = quiet(&mut command).spawn().with_context(|| line(&command))?;
        std::thread::sleep(Duration::from_millis(300));
        Ok(Called { child })
    }

    pub(super) fn start_sipp(programs: &Programs, server: &Server) -> Result<Called> {
        let mut command = programs.generator(server, "sipp");
        command.args(["-sn", "uas", "-i", "127.0.0.1", "-p", "5070", "-nostdin"]);
        let child = quiet(&mut command).spawn().with_context(|| line(&command))?;
        std::thread::sleep(Duration::from_millis(500));
        Ok(Called { child })
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        if let Err(error) = end(&mut self.child, "-KILL") {
            eprintln!("the called side was not stopped: {error:#}");
        }
    }
}

/// One run of our own generator.
pub(super) struct Run<'a> {
    pub(super) extension: &'a str,
    pub(super) rate: u32,
    pub(super) seconds: u64,
}

pub(super) fn sipstress(programs: &Programs, server: &Server, run: &Run<'_>) -> Result<Outcome> {
    let file = output_file("sipstress.json")?;
    let mut command = programs.generator(server, "sipstress");
    command.args(["run", ADDRESS, "--user", run.extension]);
    command.args(["--rate", &run.rate.to_string(), "--duration", &run.seconds.to_string()]);
    command.args(["--hold", "0", "--json"]).arg(&file);
    finish(quiet(&mut command))?;
    let value: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
    outcome(&value, run.seconds as f64).with_context(|| format!("{}", file.display()))
}

/// Places calls that are held until the generator is stopped. Returns when all are placed.
pub(super) fn hold(
    programs: &Programs,
    server: &Server,
    extension: &str,
    rate: u32,
    calls: u64,
) -> Result<Called> {
    let mut command = programs.generator(server, "sipstress");
    let seconds = calls.div_ceil(u64::from(rate));
    command.args(["run", ADDRESS, "--user", extension, "--hold", "600"]);
    command.args(["--rate", &rate.to_string(), "--duration", &seconds.to_string()]);
    command.args(["--calls", &calls.to_string()]);
    let child = quiet(&mut command).spawn().with_context(|| line(&command))?;
    std::thread::sleep(Duration::from_secs(seconds + 2));
    Ok(Called { child })
}

/// The best rate of a sweep, and its verdict.
pub(super) fn sweep(
    programs: &Programs,
    server: &Server,
    extension: &str,
    start: u32,
    dwell: u64,
) -> Result<(f64, String)> {
    let file = output_file("sweep.json")?;
    let mut command = programs.generator(server, "sipstress");
    command.args(["sweep", ADDRESS, "--user", extension, "--start", &start.to_string()]);
    command.args(["--factor", "1.2", "--dwell", &dwell.to_string(), "--json"]).arg(&file);
    // The sweep ends with a failure by design; what it found stands in the file.
    quiet(&mut command).status().with_context(|| line(&command))?;
    let value: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
    let best = value["best_cps"].as_f64().context("the sweep has no best_cps")?;
    Ok((best, value["verdict"].as_str().unwrap_or_default().to_owned()))
}

/// SIPp's embedded caller at a fixed rate.
pub(super) fn sipp(programs: &Programs, server: &Server, run: &Run<'_>) -> Result<Outcome> {
    let file = output_file("sipp.csv")?;
    if file.exists() {
        fs::remove_file(&file)?;
    }
    let calls = u64::from(run.rate) * run.seconds;
    let mut command = programs.generator(server, "sipp");
    command.args(["-sn", "uac", "-s", run.extension, "-i", "127.0.0.1", "-p", SIPP_PORT]);
    command.args(["-r", &run.rate.to_string(), "-m", &calls.to_string(), "-l", SIPP_CALLS_MAX]);
    command.args(["-nostdin", "-trace_stat", "-fd", "1", "-timer_resol", "1", "-stf"]).arg(&file);
    // Buffers as large as ours: it is the server that is measured.
    command.args(["-buff_size", "4194304", ADDRESS]);
    // SIPp ends with 1 when a call failed: its statistics say how many.
    quiet(&mut command).status().with_context(|| line(&command))?;
    sipp_outcome(&fs::read_to_string(&file)?).context("SIPp's statistics")
}

fn quiet(command: &mut std::process::Command) -> &mut std::process::Command {
    command.stdout(Stdio::null()).stderr(Stdio::inherit())
}

fn output_file(name: &str) -> Result<PathBuf> {
    let folder = target_folder()?.join("bench");
    fs::create_dir_all(&folder)?;
    Ok(folder.join(name))
}

fn outcome(value: &Value, seconds: f64) -> Result<Outcome> {
    let count = |name: &str| value[name].as_u64().with_context(|| format!("{name} is missing"));
    let quantiles = |part: &Value| {
        let at = |name: &str| part[name].as_f64().unwrap_or_default();
        Quantiles { p50: at("p50"), p95: at("p95"), p99: at("p99"), max: at("max") }
    };
    let causes: Vec<(String, u64)> = value["failed"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(cause, calls)| Some((cause.clone(), calls.as_u64()?)))
        .filter(|(_, calls)| *calls > 0)
        .collect();
    let text = causes.iter().map(|(cause, calls)| format!("{cause}: {calls}"));
    Ok(Outcome {
        seconds,
        offered: count("offered")?,
        completed: count("completed")?,
        failed: causes.iter().map(|(_, calls)| calls).sum(),
        retransmissions: count("retransmissions")?,
        setup_us: quantiles(&value["setup_us"]),
        last_us: quantiles(&value["last20s_us"]),
        lateness_p99_us: value["lateness_us"]["p99"].as_f64().unwrap_or_default(),
        causes: text.collect::<Vec<_>>().join(", "),
    })
}

/// The last line of SIPp's statistics; the columns are found by their names in the first.
fn sipp_outcome(text: &str) -> Result<Outcome> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().context("no head line")?.split(';').collect();
    let last: Vec<&str> = lines.next_back().context("no line of figures")?.split(';').collect();
    let column = |name: &str| {
        let at = names.iter().position(|column| *column == name);
        at.and_then(|at| last.get(at)).copied().with_context(|| format!("no column {name}"))
    };
    let count = |name: &str| -> Result<u64> { Ok(column(name)?.trim().parse()?) };
    Ok(Outcome {
        seconds: clock_seconds(column("ElapsedTime(C)")?).context("ElapsedTime(C)")?,
        offered: count("TotalCallCreated")?,
        completed: count("SuccessfulCall(C)")?,
        failed: count("FailedCall(C)")?,
        retransmissions: count("Retransmissions(C)")?,
        ..Outcome::default()
    })
}

/// `00:01:02:500000` or `00:01:02` in seconds.
fn clock_seconds(text: &str) -> Option<f64> {
    let mut parts = text.trim().split([':', '.']);
    let mut next = || parts.next().map_or(Some(0.0), |part| part.parse::<f64>().ok());
    let (hours, minutes, seconds, fraction) = (next()?, next()?, next()?, next()?);
    Some(hours * 3600.0 + minutes * 60.0 + seconds + fraction / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sipp_s_last_line_is_read_by_the_names_of_the_first() {
        let text = "ElapsedTime(C);TotalCallCreated;SuccessfulCall(C);FailedCall(C);\
                    Retransmissions(C);\n00:00:01:000000;9;9;9;9;\n00:01:02:500000;10;8;2;3;\n";
        let outcome = sipp_outcome(text).unwrap();
        assert_eq!(outcome.seconds, 62.5);
        assert_eq!((outcome.offered, outcome.completed), (10, 8));
        assert_eq!((outcome.failed, outcome.retransmissions), (2, 3));
        assert!((outcome.retransmission_share() - 30.0).abs() < 1e-9);
        assert!(sipp_outcome("A;B;\n1;2;\n").is_err());
    }

    #[test]
    fn our_own_generator_s_counts_are_all_required() {
        let text = r#"{"offered": 10, "completed": 8, "retransmissions": 0,
            "failed": {"timeout": 2, "busy": 0}, "setup_us": {"p99": 900.5}}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        let read = outcome(&value, 2.0).unwrap();
        assert_eq!((read.failed, read.causes.as_str()), (2, "timeout: 2"));
        assert_eq!((read.setup_us.p99, read.rate()), (900.5, 4.0));
        assert!(outcome(&Value::Null, 2.0).is_err());
    }
}
