//! Developer commands: `cargo xtask COMMAND`.
//!
//! - [`test`]: everything that must pass before a change lands; continuous integration runs it.
//!
//! Nothing here is part of the product, and nothing of the product depends on it.

mod install;
mod run;
mod stage;
mod test;

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
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Test(arguments) => test::run(&arguments),
    }
}
