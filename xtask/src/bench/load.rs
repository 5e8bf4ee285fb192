//! Generators and what they say: `sipstress` by its JSON, SIPp by its statistics file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::server::{ADDRESS, Programs, Server, end};
use crate::run::{line, root, target_folder};

/// Where the called side of bridged runs listens; `etc/bench/dialplan.toml` names it.
const CALLED: &str = "127.0.0.1:5070";
/// SIPp's own port: a fixed one, so that all its calls come from one source address.
const SIPP_PORT: &str = "5166";
/// SIPp holds back calls beyond this many at once: far above what a clean run needs, and below the
/// open files that a usual limit allows, which SIPp compares it with.
const SIPP_CALLS_MAX: &str = "15000";

/// What a generator counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) seconds: f64,
    pub(super) offered: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) retransmissions: u64,
    /// Set-up time by quantile, where the generator measures it.
    pub(super) setup_ms: Quantiles,
    /// The same, of the last 20 seconds.
    pub(super) last_ms: Quantiles,
    /// The generator's own trouble, as text.
    pub(super) generator: String,
    /// Failures by cause, as text.
    pub(super) causes: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Quantiles {
    pub(super) p50: f64,
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
        if let Err(error) = end(&mut self.child, "KILL") {
            eprintln!("the called side was not stopped: {error:#}");
        }
    }
}

/// One run of a generator.
pub(super) struct Run<'a> {
    pub(super) extension: &'a str,
    pub(super) rate: u32,
    pub(super) seconds: u64,
}

/// Our own generator at a fixed rate. A run with failures is an outcome, too.
pub(super) fn sipstress(programs: &Programs, server: &Server, run: &Run<'_>) -> Result<Outcome> {
    let file = output_file("sipstress.json")?;
    let mut command = caller(programs, server, "run", run.extension);
    command.args(["--rate", &run.rate.to_string(), "--duration", &format!("{}s", run.seconds)]);
    let value = json_of(command.arg("--json").arg(&file), &file)?;
    outcome(&value).with_context(|| format!("{}", file.display()))
}

/// Places calls that are held until the generator is stopped. Returns when all are placed.
pub(super) fn hold(
    programs: &Programs,
    server: &Server,
    extension: &str,
    rate: u32,
    calls: u64,
) -> Result<Called> {
    let mut command = caller(programs, server, "hold", extension);
    command.args(["--calls", &calls.to_string(), "--rate", &rate.to_string(), "--for", "600s"]);
    let child = quiet(&mut command).spawn().with_context(|| line(&command))?;
    std::thread::sleep(Duration::from_secs(calls.div_ceil(u64::from(rate)) + 2));
    Ok(Called { child })
}

/// The best clean rate of a sweep, and what broke beyond it.
pub(super) fn sweep(
    programs: &Programs,
    server: &Server,
    extension: &str,
    start: u32,
    dwell: u64,
) -> Result<(f64, String)> {
    let file = output_file("sweep.json")?;
    let mut command = caller(programs, server, "sweep", extension);
    command.args(["--start", &start.to_string(), "--growth", "1.2"]);
    command.args(["--dwell", &format!("{dwell}s"), "--json"]).arg(&file);
    let value = json_of(&mut command, &file)?;
    let best = value["conclusion"]["highest_clean_cps"].as_f64();
    let text = value["text"].as_str().unwrap_or_default().to_owned();
    Ok((best.with_context(|| format!("no rate was clean: {text}"))?, text))
}

fn caller(programs: &Programs, server: &Server, command: &str, extension: &str) -> Command {
    let mut caller = programs.generator(server, "sipstress");
    caller.args([command, ADDRESS, "--user", extension]);
    caller.args(["--server-pid", &server.pid.to_string()]);
    caller
}

/// Runs our generator and reads its report. It ends with 1 or 3 when something was not clean,
/// which the report tells better.
fn json_of(command: &mut Command, file: &Path) -> Result<Value> {
    if file.exists() {
        fs::remove_file(file)?;
    }
    let status = quiet(command).status().with_context(|| line(command))?;
    let text = fs::read_to_string(file)
        .with_context(|| format!("{} ended with {status} and no report", line(command)))?;
    Ok(serde_json::from_str(&text)?)
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

/// SIPp by one of our scenarios, as the phones of the bench, from an address of loopback.
pub(super) fn sipp_scenario(
    programs: &Programs,
    server: &Server,
    (scenario, from): (&str, &str),
    (rate, seconds): (u32, u64),
) -> Result<Outcome> {
    let file = output_file("sipp-scenario.csv")?;
    if file.exists() {
        fs::remove_file(&file)?;
    }
    let users = output_file("users.csv")?;
    let user = |number: u32| {
        format!("{number};[authentication username={number} password=secret{number}]\n")
    };
    let lines: String = (1000..2000).map(user).collect();
    fs::write(&users, format!("SEQUENTIAL\n{lines}"))?;
    let scenario = root().join("etc/bench/sipp").join(scenario);
    let calls = u64::from(rate) * seconds;
    let mut command = programs.generator(server, "sipp");
    command.arg("-sf").arg(scenario).arg("-inf").arg(users);
    command.args(["-i", from, "-p", SIPP_PORT, "-r", &rate.to_string()]);
    command.args(["-m", &calls.to_string(), "-l", SIPP_CALLS_MAX, "-nostdin", "-trace_stat"]);
    command.args(["-fd", "1", "-timer_resol", "1", "-buff_size", "4194304", "-stf"]).arg(&file);
    quiet(command.arg(ADDRESS)).status().with_context(|| line(&command))?;
    sipp_outcome(&fs::read_to_string(&file)?).context("SIPp's statistics")
}

/// The best clean rate of registrations.
pub(super) fn sweep_registrations(
    programs: &Programs,
    server: &Server,
    (start, max): (u32, u32),
    dwell: u64,
) -> Result<(f64, String)> {
    let file = output_file("sweep-register.json")?;
    let mut command = caller(programs, server, "sweep", "answer");
    command.args(["--register", "--start", &start.to_string(), "--growth", "1.2"]);
    command.args(["--max-rate", &max.to_string()]);
    command.args(["--dwell", &format!("{dwell}s"), "--json"]).arg(&file);
    let value = json_of(&mut command, &file)?;
    let best = value["conclusion"]["highest_clean_cps"].as_f64();
    let text = value["text"].as_str().unwrap_or_default().to_owned();
    Ok((best.with_context(|| format!("no rate was clean: {text}"))?, text))
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::null()).stderr(Stdio::inherit())
}

fn output_file(name: &str) -> Result<PathBuf> {
    let folder = target_folder()?.join("bench");
    fs::create_dir_all(&folder)?;
    Ok(folder.join(name))
}

fn outcome(report: &Value) -> Result<Outcome> {
    let step = report["steps"].get(0).context("no step")?;
    let count = |name: &str| step[name].as_u64().with_context(|| format!("{name} is missing"));
    let causes = step["failures"].as_object().into_iter().flatten();
    let causes = causes.map(|(cause, calls)| format!("{calls} {cause}"));
    let generator = &step["generator"];
    Ok(Outcome {
        seconds: step["seconds"].as_f64().context("seconds is missing")?,
        offered: count("scheduled")?,
        completed: count("completed")?,
        failed: count("failed")?,
        retransmissions: count("retransmissions")?,
        setup_ms: quantiles(&step["setup_ms"]),
        last_ms: quantiles(&report["last_20_s"]["setup_ms"]),
        generator: format!(
            "generator late {:.2} ms at p99, {} calls not made; {:.2} 100s a call",
            generator["send_lag_ms"]["p99"].as_f64().unwrap_or_default(),
            generator["not_made"].as_u64().unwrap_or_default(),
            step["trying_per_call"].as_f64().unwrap_or_default(),
        ),
        causes: causes.collect::<Vec<_>>().join(", "),
    })
}

fn quantiles(part: &Value) -> Quantiles {
    let at = |name: &str| part[name].as_f64().unwrap_or_default();
    Quantiles { p50: at("p50"), p99: at("p99"), max: at("max") }
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
        let text = r#"{"steps": [{"seconds": 2.0, "scheduled": 10, "completed": 8, "failed": 2,
            "retransmissions": 0, "failures": {"timeout": 2}, "setup_ms": {"p99": 0.9},
            "generator": {"not_made": 1}}]}"#;
        let read = outcome(&serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!((read.failed, read.causes.as_str()), (2, "2 timeout"));
        assert_eq!((read.setup_ms.p99, read.rate()), (0.9, 4.0));
        assert!(read.generator.contains("1 calls not made"));
        assert!(outcome(&Value::Null).is_err());
    }
}
