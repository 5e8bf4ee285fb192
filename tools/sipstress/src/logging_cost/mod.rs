//! `sipstress logging-cost`: what the log, a console and fail2ban cost the calls.
//!
//! ```text
//! set_up: rows ─► subject: server, console, fail2ban ─► commands::Quiet: steps ─► table
//!                                   └─ alternating pairs at one rate ─► ratio
//! ```
//!
//! It answers a published test in which an Asterisk box went from 20 calls per second with an
//! event panel to 150 with verbosity, panel and fail2ban switched off. The panel has no row: the
//! server has no event bus yet, and the table says so.

mod ratio;
mod set_up;
mod subject;
mod table;

use crate::cli::LoggingCost;
use crate::commands::Quiet;
use crate::report::StepReport;
use crate::verdict::Verdict;
use anyhow::{Context as _, bail};
use ratio::Ratio;
use serde::Serialize;
use set_up::{SetUp, Tail};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use subject::{Programs, Subject};
use table::Row;

/// Shards' threads are named so.
const SHARD: &str = "shard-";
/// Before a pair's step is measured: caches and allocators settle.
const WARM_UP: Duration = Duration::from_secs(1);
/// The target for the ratio of shard CPU per call.
const RATIO_MAX: f64 = 1.06;
/// The target for the loud set-up's best rate, as a share of the quiet one's.
const SHARE_MIN: f64 = 0.95;

/// One step of a pair.
#[derive(Clone, Debug, Serialize)]
struct Sample {
    set_up: String,
    answered: u64,
    failed: u64,
    /// CPU time of the shards' threads for each call, in microseconds.
    shard_us: f64,
    verdict: Verdict,
}

/// Everything that was found.
#[derive(Debug, Default, Serialize)]
struct Findings {
    ratio: Option<Ratio>,
    samples: Vec<Sample>,
    rows: Vec<Row>,
    notes: Vec<String>,
}

/// Compares; the exit code: 1 when a target was missed.
pub fn logging_cost(command: &LoggingCost, stop: &AtomicBool) -> anyhow::Result<u8> {
    let programs = programs(command)?;
    let scratch = Scratch::new(command.folder.as_deref())?;
    let mut findings = Findings::default();
    if programs.fail2ban.is_none() {
        let note = "fail2ban is not installed: its rows were not run, and the loud set-up is \
                    without it";
        findings.notes.push(note.to_owned());
    }
    findings.notes.push("event panel: not built (the server has no event bus yet)".to_owned());
    let mut bench = Bench { command, programs, scratch, stop, runs: 0 };
    bench.pairs(&mut findings)?;
    if !command.no_table {
        bench.rows(&mut findings)?;
    }
    conclude(command, &findings)
}

struct Bench<'a> {
    command: &'a LoggingCost,
    programs: Programs,
    scratch: Scratch,
    stop: &'a AtomicBool,
    runs: u32,
}

impl Bench<'_> {
    /// Quiet and loud in turn, each pair in the other order than the one before: a machine that
    /// becomes slower meanwhile slows both.
    fn pairs(&mut self, findings: &mut Findings) -> anyhow::Result<()> {
        let loud = self.possible(SetUp::LOUD);
        let mut ratios = Vec::new();
        for pair in 0..self.command.pairs {
            let mut both = [SetUp::QUIET, loud];
            if pair % 2 == 1 {
                both.reverse();
            }
            let mut samples = Vec::new();
            for set_up in both {
                if self.is_stopped() {
                    return Ok(());
                }
                samples.push(self.sample(&set_up)?);
            }
            if pair % 2 == 1 {
                samples.reverse();
            }
            let ratio = samples[1].shard_us / samples[0].shard_us.max(f64::MIN_POSITIVE);
            println!(
                "pair {:>2} of {}: shard CPU per call: quiet {:>6.2} us, loud {:>6.2} us: \
                 {ratio:.3}",
                pair + 1,
                self.command.pairs,
                samples[0].shard_us,
                samples[1].shard_us
            );
            ratios.push(ratio);
            findings.samples.extend(samples);
        }
        findings.ratio = Ratio::new(ratios);
        Ok(())
    }

    fn sample(&mut self, set_up: &SetUp) -> anyhow::Result<Sample> {
        let (rate, dwell) = (self.command.rate, self.command.dwell);
        let mut subject = self.start(set_up)?;
        let mut quiet = Quiet::new(subject.address, subject.pid, self.stop)?;
        quiet.step(rate, WARM_UP.min(dwell));
        let step = quiet.step(rate, dwell);
        subject.check().with_context(|| set_up.to_string())?;
        if step.verdict != Verdict::Clean {
            println!("{set_up}: {}", step.verdict);
        }
        Ok(Sample {
            set_up: set_up.to_string(),
            answered: step.answered,
            failed: step.failed,
            shard_us: shard_us_per_call(&step),
            verdict: step.verdict,
        })
    }

    fn rows(&mut self, findings: &mut Findings) -> anyhow::Result<()> {
        let rows = if self.command.quick { SetUp::few() } else { SetUp::all() };
        println!("\n{}", table::heading());
        for set_up in rows {
            if self.is_stopped() || self.possible(set_up) != set_up {
                continue;
            }
            let row = self.row(set_up)?;
            println!("{row}");
            findings.rows.push(row);
        }
        table::compare(&mut findings.rows);
        Ok(())
    }

    fn row(&mut self, set_up: SetUp) -> anyhow::Result<Row> {
        let mut subject = self.start(&set_up)?;
        let mut quiet = Quiet::new(subject.address, subject.pid, self.stop)?;
        let best = quiet.best(self.command.start, self.command.span);
        subject.check().with_context(|| set_up.to_string())?;
        Ok(Row::new(set_up, &best, subject.lines_lost()))
    }

    /// Without fail2ban where there is none.
    fn possible(&self, set_up: SetUp) -> SetUp {
        match self.programs.fail2ban {
            Some(_) => set_up,
            None => SetUp { fail2ban: Tail::None, ..set_up },
        }
    }

    fn start(&mut self, set_up: &SetUp) -> anyhow::Result<Subject> {
        self.runs += 1;
        let folder = self.scratch.0.join(format!("run-{}", self.runs));
        std::fs::create_dir_all(&folder)?;
        Subject::start(&self.programs, set_up, &folder).with_context(|| set_up.to_string())
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// CPU time of the shards' threads for each call that was sent, in microseconds.
fn shard_us_per_call(step: &StepReport) -> f64 {
    let Some(server) = &step.server else { return 0.0 };
    let spent = &server.spent;
    let shards: f64 = spent
        .threads
        .iter()
        .filter(|thread| thread.name.starts_with(SHARD))
        .map(|thread| thread.cpu_percent)
        .sum();
    let share = shards / spent.cpu_percent.max(f64::MIN_POSITIVE);
    share * spent.cpu_seconds * 1e6 / step.sent.max(1) as f64
}

fn programs(command: &LoggingCost) -> anyhow::Result<Programs> {
    let own = std::env::current_exe()?;
    let beside = |name: &str| own.with_file_name(name);
    let pbx = command.pbx.clone().unwrap_or_else(|| beside("pbx"));
    let pbxctl = command.pbxctl.clone().unwrap_or_else(|| beside("pbxctl"));
    for program in [&pbx, &pbxctl] {
        if !program.is_file() {
            bail!("{} is missing: say --pbx and --pbxctl", program.display());
        }
    }
    let root = command.fail2ban.clone().unwrap_or_else(|| PathBuf::from("/"));
    let is_there = root.join("usr/bin/fail2ban-server").is_file();
    if command.fail2ban.is_some() && !is_there {
        bail!("--fail2ban {}: no usr/bin/fail2ban-server lies under it", root.display());
    }
    let fail2ban = is_there.then_some(root);
    Ok(Programs { pbx, pbxctl, fail2ban, server_cpu: command.server_cpu })
}

fn conclude(command: &LoggingCost, findings: &Findings) -> anyhow::Result<u8> {
    println!();
    findings.notes.iter().for_each(|note| println!("note: {note}"));
    let mut missed = Vec::new();
    if let Some(ratio) = &findings.ratio {
        println!("shard CPU per call, loud to quiet: {ratio}; at most {RATIO_MAX} is wanted");
        if ratio.median > RATIO_MAX {
            missed.push("ratio");
        }
    }
    let failed: u64 = findings.samples.iter().map(|sample| sample.failed).sum();
    if !findings.samples.is_empty() {
        println!("failed calls in the pairs: {failed}");
    }
    if failed > 0 {
        missed.push("same success");
    }
    let share = |row: &&Row| row.set_up == SetUp::LOUD;
    if let Some(share) = findings.rows.iter().find(share).and_then(|row| row.share) {
        println!("best rate, loud to quiet: {share:.3}; at least {SHARE_MIN} is wanted");
        if share < SHARE_MIN {
            missed.push("best rate");
        }
    }
    if let Some(path) = &command.json {
        let text = serde_json::to_string_pretty(findings)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &command.markdown {
        let text = table::markdown(&findings.rows);
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if missed.is_empty() {
        return Ok(0);
    }
    println!("missed: {}", missed.join(", "));
    Ok(1)
}

/// The folder of all runs; removed at the end unless the user named it.
struct Scratch(PathBuf, bool);

impl Scratch {
    fn new(asked: Option<&Path>) -> anyhow::Result<Self> {
        let (folder, is_ours) = match asked {
            Some(folder) => (folder.to_owned(), false),
            None => {
                let name = format!("sipstress-logging-cost-{}", std::process::id());
                (std::env::temp_dir().join(name), true)
            }
        };
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let folder = folder.canonicalize()?;
        Ok(Self(folder, is_ours))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.1 {
            // What stays in the temporary folder harms nobody.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
