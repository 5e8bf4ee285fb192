//! `cargo xtask soak`: what finds faults by running long, with new seeds each time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::run::{cargo, finish, output, program, root};
use crate::stage::Stages;

/// Seeds of one round of the simulation: a round takes seconds, so that the time is kept.
const SEEDS_PER_ROUND: u64 = 50;

/// Options of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How long each part runs.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Only these parts; all when none is given.
    #[arg(value_enum)]
    parts: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The simulation with new seeds.
    Sim,
    /// The fuzz targets; needs a nightly toolchain and cargo-fuzz.
    Fuzz,
    /// A flood of log lines for ten seconds; what must be kept is counted.
    Flood,
    /// Miri over the wire layer's tests; needs a nightly toolchain with Miri.
    Miri,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let is_wanted = |part: Part| arguments.parts.is_empty() || arguments.parts.contains(&part);
    let long = Duration::from_secs(arguments.minutes * 60);
    let mut stages = Stages::default();
    if is_wanted(Part::Sim) {
        stages.run("sim", || sim(long));
    }
    if is_wanted(Part::Fuzz) {
        stages.run("fuzz", || fuzz(long));
    }
    if is_wanted(Part::Flood) {
        stages.run("flood", flood);
    }
    if is_wanted(Part::Miri) {
        stages.run("miri", miri);
    }
    stages.close()
}

/// New seeds come from the wall clock; a failing run prints its seed and the commit.
fn sim(long: Duration) -> Result<()> {
    let begin = Instant::now();
    let mut first = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() << 16;
    let mut seeds = 0_u64;
    while begin.elapsed() < long {
        let next = first + SEEDS_PER_ROUND;
        finish(
            cargo()
                .args(["test", "--quiet", "--release", "--locked", "--package", "tests"])
                .args(["--test", "sim"])
                .env("SIM_SEEDS", format!("{first}..{next}")),
        )?;
        first = next;
        seeds += SEEDS_PER_ROUND;
    }
    println!("{seeds} seeds ran clean");
    Ok(())
}

/// Every target in turn, for an equal share of the time.
fn fuzz(long: Duration) -> Result<()> {
    let list = output(nightly().args(["fuzz", "list"])).context("cargo-fuzz on nightly")?;
    let targets: Vec<&str> = list.split_whitespace().collect();
    let share = long.as_secs() / targets.len().max(1) as u64;
    for target in targets {
        let limit = format!("-max_total_time={}", share.max(1));
        finish(nightly().args(["fuzz", "run", target, "--", &limit]))?;
        println!("{target} ran clean for {share} s");
    }
    Ok(())
}

/// 990,000 VERBOSE, 10,000 NOTICE and 100 SECURITY a second.
fn flood() -> Result<()> {
    finish(cargo().args(["test", "--release", "--locked", "--package", "logging-sinks"]).args([
        "--test",
        "flood",
        "--",
        "--ignored",
        "--nocapture",
    ]))
}

/// The wire layer holds the only code that reads bytes from anybody.
fn miri() -> Result<()> {
    finish(nightly().args(["miri", "test", "--package", "sip", "--lib", "wire"]))
}

fn nightly() -> std::process::Command {
    let mut command = program("cargo");
    command.arg("+nightly").current_dir(root());
    command
}
