//! What a bare Debian with Rust lacks, by its own package tools and `cargo install`.
//!
//! A test that needs an outside program is never skipped: either the program can be installed
//! here, or the stage fails and says what to type.

use anyhow::{Result, bail};

use crate::run::{cargo, finish, is_root, output, program, which};

/// A program that the tests start, and the Debian package that has it.
struct Outside {
    program: &'static str,
    package: &'static str,
}

const OUTSIDE: &[Outside] = &[
    Outside { program: "cc", package: "build-essential" },
    Outside { program: "sipp", package: "sip-tester" },
    Outside { program: "baresip", package: "baresip-core" },
    Outside { program: "systemd-analyze", package: "systemd" },
    Outside { program: "script", package: "bsdutils" },
    Outside { program: "kamailio", package: "kamailio" },
    Outside { program: "sipsak", package: "sipsak" },
    Outside { program: "tshark", package: "tshark" },
    Outside { program: "svwar", package: "sipvicious" },
];

/// The version that the stage was tried with. `cargo install` builds it once per machine.
const CARGO_DENY_VERSION: &str = "0.20.2";
const CARGO_NEXTEST_VERSION: &str = "0.9.143";

/// Installs the outside programs that are missing, and fetches those that must not be installed.
pub(crate) fn outside_programs() -> Result<()> {
    installed_programs()?;
    crate::fail2ban::fetch()
}

fn installed_programs() -> Result<()> {
    let missing: Vec<&str> =
        OUTSIDE.iter().filter(|o| which(o.program).is_none()).map(|o| o.package).collect();
    debian_packages(&missing)
}

/// Installs Debian packages by name; as anyone but root it says what root must type.
pub(crate) fn debian_packages(missing: &[&str]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root() {
        bail!("missing; as root: apt-get install --no-install-recommends {}", missing.join(" "));
    }
    println!("installing {}", missing.join(" "));
    finish(program("apt-get").args(["update", "-qq"]))?;
    finish(
        program("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["install", "-y", "-qq", "--no-install-recommends"])
            .args(missing),
    )
}

/// Whether tests can run by nextest. Where it cannot be had, `cargo test` does the same, slower.
pub(crate) fn nextest() -> bool {
    has_subcommand("nextest")
        || install("cargo-nextest", CARGO_NEXTEST_VERSION)
            .inspect_err(|error| println!("no cargo-nextest ({error:#}): cargo test will do"))
            .is_ok()
}

/// cargo-deny, built from its sources when it is missing.
pub(crate) fn deny() -> Result<()> {
    if has_subcommand("deny") {
        return Ok(());
    }
    install("cargo-deny", CARGO_DENY_VERSION)
}

fn has_subcommand(name: &str) -> bool {
    output(cargo().args(["--list"]))
        .is_ok_and(|list| list.lines().any(|line| line.split_whitespace().next() == Some(name)))
}

/// A debug build takes a third of the time of a release build and is fast enough here.
fn install(name: &str, version: &str) -> Result<()> {
    println!("installing {name} {version} from its sources");
    finish(cargo().args(["install", "--locked", "--debug", "--quiet", name, "--version", version]))
}
