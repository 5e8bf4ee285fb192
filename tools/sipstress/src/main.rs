//! The load tester that says truthfully what broke.

use clap::Parser as _;
use sipstress::cli::{Cli, Command};
use sipstress::{commands, logging_cost, stop};
use std::process::ExitCode;

/// Wrong usage; clap uses the same code.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = stop::listen().and_then(|()| match &cli.command {
        Command::Sweep(command) => commands::sweep(command, &stop::STOP),
        Command::Run(command) => commands::run(command, &stop::STOP),
        Command::Hold(command) => commands::hold(command, &stop::STOP),
        Command::Answer(command) => commands::answer(command, &stop::STOP),
        Command::LoggingCost(command) => logging_cost::logging_cost(command, &stop::STOP),
    });
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("sipstress: {error:#}");
            ExitCode::from(USAGE)
        }
    }
}
