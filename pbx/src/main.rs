//! Starts the PBX; everything else is in the library of the same name.

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = pbx::cli::Options::parse();
    match pbx::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}
