//! What log macros cost that nobody wants: instructions per call with them and without them.
//!
//! Callgrind counts them; unlike times they do not depend on what else the machine does.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::report::{Bound, Report};
use crate::install::debian_packages;
use crate::run::{cargo, finish, output, program, target_folder, which};

/// With the macros at verbosity 0, as a multiple of without them.
const RATIO_MAX: f64 = 1.01;

/// Runs the bench `facts` of `pbx` in both builds.
pub(super) fn run(report: &mut Report) -> Result<()> {
    if which("valgrind").is_none() {
        debian_packages(&["valgrind"])?;
    }
    let with = count(&build("release", "")?)?;
    let without = count(&build("logging-off", "--cfg logging_off")?)?;
    let ratio = with as f64 / without as f64;
    let remark = format!("{with} to {without} instructions");
    report.row("log macros at verbosity 0", Bound::AtMost(RATIO_MAX), ratio, "ratio", &remark);
    Ok(())
}

/// Builds the bench in a folder of its own, and says where the program lies.
fn build(folder: &str, flags: &str) -> Result<PathBuf> {
    let folder = match folder {
        "release" => target_folder()?,
        other => target_folder()?.join(other),
    };
    let text = output(
        cargo()
            .args(["bench", "--quiet", "--locked", "--package", "pbx", "--bench", "facts"])
            .args(["--no-run", "--message-format=json"])
            .env("CARGO_TARGET_DIR", folder)
            .env("RUSTFLAGS", flags),
    )?;
    text.lines().find_map(executable).context("cargo names no program of the bench")
}

/// The program in a line of cargo's messages.
fn executable(line: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    (message["target"]["name"] == "facts").then_some(())?;
    message["executable"].as_str().map(PathBuf::from)
}

/// Instructions inside the function `measured`, those that it calls included.
fn count(bench: &Path) -> Result<u64> {
    let out = target_folder()?.join("bench/callgrind.out");
    std::fs::create_dir_all(target_folder()?.join("bench"))?;
    finish(
        program("valgrind")
            .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
            .arg("--toggle-collect=*measured*")
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(bench),
    )?;
    let text = std::fs::read_to_string(&out)?;
    summary(&text).context("callgrind's file has no summary")
}

/// The number of the line `summary: N` (or `totals: N`).
fn summary(text: &str) -> Option<u64> {
    let value = |line: &str| {
        line.strip_prefix("summary: ").or(line.strip_prefix("totals: "))?.trim().parse().ok()
    };
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_s_and_callgrind_s_words_are_read() {
        let line = r#"{"reason":"compiler-artifact","target":{"name":"facts"},"executable":"/x"}"#;
        assert_eq!(executable(line), Some(PathBuf::from("/x")));
        assert_eq!(executable(r#"{"target":{"name":"pbx"},"executable":"/y"}"#), None);
        assert_eq!(summary("events: Ir\nsummary: 4711\n"), Some(4711));
        assert_eq!(summary("events: Ir\n"), None);
    }
}
