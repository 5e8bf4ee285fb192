//! The benches without a network: criterion's estimates, and a whole call through a shard with its
//! allocations.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::report::{Bound, Report};
use crate::run::{cargo, finish, output, target_folder};

/// The crates with criterion's benches.
const CRATES: &[&str] = &["sip", "dialplan", "call", "logging", "logging-sinks"];

/// Benches by the beginning of criterion's name, and the target of each in nanoseconds.
const TARGETS: &[(&str, f64)] = &[("index INVITE", 800.0)];

pub(super) fn run(report: &mut Report) -> Result<()> {
    let folder = target_folder()?.join("criterion");
    // Only what this run measures: an old estimate must not be reported.
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    for name in CRATES {
        finish(cargo().args(["bench", "--quiet", "--locked", "--package", name, "--benches"]))?;
    }
    let mut found = Vec::new();
    estimates(&folder, &mut found)?;
    found.sort_by(|one, other| one.0.cmp(&other.0));
    for (name, nanoseconds) in found {
        let target = TARGETS.iter().find(|(known, _)| name.starts_with(known));
        let bound = target.map_or(Bound::None, |(_, limit)| Bound::AtMost(*limit));
        report.row(&name, bound, nanoseconds, "ns", "");
    }
    super::instructions::run(report)?;
    let text = output(cargo().args(["bench", "--quiet", "--locked", "--package", "pbx-core"]))?;
    for (name, us, remark) in text.lines().filter_map(shard_line) {
        let name = format!("a shard, {name}");
        report.row(&name, Bound::None, us.parse().context("a number of us")?, "us/call", remark);
    }
    Ok(())
}

/// `NAME: 12.34 us, 5.0 allocations, ...` as name, number and the rest.
fn shard_line(line: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = line.split_once(": ")?;
    let (us, remark) = rest.split_once(" us, ")?;
    Some((name, us, remark))
}

/// Every `new/estimates.json` below a folder: the bench's name and its mean.
fn estimates(folder: &Path, found: &mut Vec<(String, f64)>) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.ends_with("new") {
            found.extend(estimate(&path));
        } else if path.is_dir() {
            estimates(&path, found)?;
        }
    }
    Ok(())
}

fn estimate(folder: &Path) -> Option<(String, f64)> {
    let json = |name: &str| -> Option<serde_json::Value> {
        serde_json::from_str(&fs::read_to_string(folder.join(name)).ok()?).ok()
    };
    let name = json("benchmark.json")?["full_id"].as_str()?.to_owned();
    let mean = json("estimates.json")?["mean"]["point_estimate"].as_f64()?;
    Some((name, mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shard_s_lines_are_read() {
        let line = "answered: 9.31 us, 12.0 allocations, 3000 bytes allocated a call";
        let read = shard_line(line);
        assert_eq!(
            read,
            Some(("answered", "9.31", "12.0 allocations, 3000 bytes allocated a call"))
        );
        assert_eq!(shard_line("Benchmarking"), None);
    }
}
