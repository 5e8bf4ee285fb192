//! Developer commands: `cargo xtask COMMAND`.
//!
//! - [`mod@test`]: everything that must pass before a change lands; continuous integration runs it.
//! - [`mod@bench`]: the figures of the README, measured, with a verdict for each.
//! - [`peers`]: Asterisk, Kamailio and SIPp in a folder of their own, for comparison runs.
//! - [`soak`]: what runs for hours by hand: new seeds, fuzzing, Miri.
//!
//! Nothing here is part of the product, and nothing of the product depends on it.

mod bench;
mod fail2ban;
mod install;
mod peers;
mod run;
mod soak;
mod stage;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that must pass: format, lints, tests, docs, licences. Installs what is missing.
    Test(test::Arguments),
    /// Measures the release build against the targets, or a peer by the same runs.
    Bench(bench::Arguments),
    /// Sets up, starts and stops Asterisk, Kamailio and SIPp for comparison runs (as root).
    Peers(peers::Arguments),
    /// Runs the simulation with new seeds, the fuzzers and Miri for a while.
    Soak(soak::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Test(arguments) => test::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Peers(arguments) => peers::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
