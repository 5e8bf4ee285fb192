//! `sipstress logging-cost` from end to end: server, console, a private fail2ban, calls, verdict.

use std::process::Command;

use crate::outside::Folder;
use crate::pbx::{binary, built};

#[test]
fn logging_cost_compares_the_quiet_and_the_loud_set_up() {
    let folder = Folder::new("logging-cost");
    let pbx = binary();
    let (pbxctl, sipstress) = (built("pbxctl"), built("sipstress"));
    let target = pbx.ancestors().nth(2).expect("it lies in target/debug").to_owned();
    let json = folder.path().join("found.json");
    let output = Command::new(sipstress)
        .arg("logging-cost")
        .arg("--pbx")
        .arg(&pbx)
        .arg("--pbxctl")
        .arg(&pbxctl)
        .arg("--fail2ban")
        .arg(target.join("fail2ban/bookworm"))
        .arg("--folder")
        .arg(folder.inside("runs"))
        .args(["--pairs", "2", "--rate", "60", "--dwell", "500ms", "--no-table", "--json"])
        .arg(&json)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let trouble = String::from_utf8_lossy(&output.stderr).into_owned();
    // Exit code 1 is a missed ratio, which a debug build on a busy machine may have.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}{trouble}");
    assert!(text.contains("event panel: not built"), "{text}");
    let found = std::fs::read_to_string(&json).expect("it is written");
    let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
    let samples = found["samples"].as_array().expect("a list");
    assert_eq!(samples.len(), 4, "{found}");
    for sample in samples {
        assert_eq!((&sample["answered"], &sample["failed"]), (&30.into(), &0.into()), "{sample}");
        assert!(sample["shard_us"].as_f64().is_some_and(|it| it > 0.0), "{sample}");
    }
    assert!(found["ratio"]["median"].as_f64().is_some_and(|it| it > 0.0), "{found}");
    // The loud runs have written the story of their calls, and fail2ban has read the other log.
    let loud = folder.path().join("runs/run-2");
    let full = std::fs::read_to_string(loud.join("var/log/full")).expect("the full log");
    assert!(full.matches("Executing [answer@tester:").count() >= 60, "{full}");
    let jail = std::fs::read_to_string(loud.join("fail2ban/log")).expect("fail2ban's own log");
    assert!(jail.contains("Added logfile") && jail.contains("security.log"), "{jail}");
}
