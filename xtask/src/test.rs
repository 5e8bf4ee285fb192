//! `cargo xtask test`: all that must pass, in the order in which a fault costs least to find.

use anyhow::{Result, bail};

use crate::install;
use crate::run::{cargo, finish};
use crate::stage::Stages;

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these stages, by name; all when none is given.
    stages: Vec<String>,
    /// Prints the names of the stages.
    #[arg(long)]
    list: bool,
}

/// A stage and what it does.
type Stage = (&'static str, fn() -> Result<()>);

/// Doctests stand before the tests, so that the runner's closing line is the one of all tests.
const STAGES: &[Stage] = &[
    ("install", install::outside_programs),
    ("fmt", fmt),
    ("clippy", clippy),
    ("build", build),
    ("arrows-and-shape", arrows_and_shape),
    ("doctests", doctests),
    ("docs", docs),
    ("tests", tests),
    ("deny", deny),
];

/// Runs the stages. A failed build ends the run; any other failure is kept for the end.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        STAGES.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    }
    if let Some(strange) = arguments.stages.iter().find(|wanted| !is_stage(wanted)) {
        bail!("no stage {strange}; there are: {}", names());
    }
    let mut stages = Stages::default();
    for (name, stage) in STAGES {
        let is_wanted =
            arguments.stages.is_empty() || arguments.stages.iter().any(|wanted| wanted == name);
        if is_wanted && !stages.run(name, stage) && matches!(*name, "install" | "build") {
            break;
        }
    }
    stages.close()
}

fn is_stage(wanted: &str) -> bool {
    STAGES.iter().any(|(name, _)| *name == wanted)
}

fn names() -> String {
    STAGES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn fmt() -> Result<()> {
    finish(cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<()> {
    let arguments =
        ["clippy", "--quiet", "--locked", "--workspace", "--all-targets", "--keep-going"];
    finish(cargo().args(arguments).args(["--", "-D", "warnings"]))
}

/// Programs first: tests of other crates start them from the target folder.
fn build() -> Result<()> {
    finish(cargo().args(["build", "--quiet", "--locked", "--workspace", "--bins"]))?;
    finish(cargo().args(["test", "--quiet", "--locked", "--workspace", "--no-run"]))
}

fn arrows_and_shape() -> Result<()> {
    let arguments = ["test", "--quiet", "--locked", "--package", "tests"];
    finish(cargo().args(arguments).args(["--test", "arrows", "--test", "tidy"]))
}

fn doctests() -> Result<()> {
    finish(cargo().args(["test", "--quiet", "--locked", "--workspace", "--doc"]))
}

/// A public page may point to a private one: here both are built, and read by the same people.
fn docs() -> Result<()> {
    let flags = "-D warnings -A rustdoc::private-intra-doc-links";
    finish(cargo().env("RUSTDOCFLAGS", flags).args([
        "doc",
        "--quiet",
        "--locked",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]))
}

/// Unit tests, simulation, torture messages, corpora, samples, interoperation.
fn tests() -> Result<()> {
    if install::nextest() {
        return finish(cargo().args(["nextest", "run", "--locked", "--workspace"]));
    }
    finish(cargo().args(["test", "--locked", "--workspace", "--lib", "--bins", "--tests"]))
}

fn deny() -> Result<()> {
    install::deny()?;
    finish(cargo().args(["deny", "--log-level", "error", "check", "bans", "licenses", "sources"]))
}
