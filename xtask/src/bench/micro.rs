//! The benches without a network: criterion's estimates, and allocations per call.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::report::{Bound, Report};
use crate::run::{cargo, finish, target_folder};

/// The crates that have benches.
const CRATES: &[&str] = &["sip", "dialplan", "tests"];

/// Benches by the beginning of criterion's name, and the target of each in nanoseconds.
const TARGETS: &[(&str, f64)] = &[("index INVITE", 800.0)];

pub(super) fn run(report: &mut Report) -> Result<()> {
    for name in CRATES {
        finish(cargo().args(["bench", "--quiet", "--locked", "--package", name, "--benches"]))?;
    }
    let mut found = Vec::new();
    estimates(&target_folder()?.join("criterion"), &mut found)?;
    found.sort_by(|one, other| one.0.cmp(&other.0));
    for (name, nanoseconds) in found {
        let target = TARGETS.iter().find(|(known, _)| name.starts_with(known));
        let bound = target.map_or(Bound::None, |(_, limit)| Bound::AtMost(*limit));
        report.row(&name, bound, nanoseconds, "ns", "");
    }
    Ok(())
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
