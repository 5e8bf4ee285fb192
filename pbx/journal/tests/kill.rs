//! `kill -9` at a random moment, again and again: no record is lost, none is doubled.
//!
//! The test starts itself as a child process that appends numbered records from two threads while a
//! third one writes, and kills it. What the child said it had appended (it says so after the
//! append) must be in the file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use pbx_journal::{JournalOptions, Opened, open};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const FOLDER: &str = "PBX_JOURNAL_KILL_FOLDER";
const START: &str = "PBX_JOURNAL_KILL_START";
const KILLS: u64 = 12;

fn options(folder: &Path) -> JournalOptions {
    JournalOptions {
        name: "calls",
        folder: folder.join("records"),
        ring_folder: folder.join("rings"),
        shards: 2,
        ring_bytes: 1 << 20,
        segment_max: 300_000,
        sync: None,
    }
}

/// The child; does nothing when the test runner starts it by itself.
#[test]
fn child_appends_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let start: u64 = std::env::var(START).unwrap().parse().unwrap();
    let Opened { appenders, mut writer, .. } = open(&options(Path::new(&folder))).unwrap();
    for (shard, mut appender) in appenders.into_iter().enumerate() {
        std::thread::spawn(move || {
            for number in start.. {
                let fill = "x".repeat((number * 31 % 700) as usize);
                let record = format!("{shard} {number} {fill}\n");
                while appender.append(record.as_bytes()).is_err() {
                    std::thread::yield_now();
                }
                // One short write to a pipe is whole or not there.
                std::io::stderr().write_all(format!("{shard} {number}\n").as_bytes()).unwrap();
            }
        });
    }
    loop {
        writer.poll().unwrap();
    }
}

/// Lets a child run for a while, kills it, and returns the last number that each shard appended.
fn run_and_kill(folder: &Path, start: u64, run: Duration) -> BTreeMap<u64, u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_appends_until_it_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .env(START, start.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut last = BTreeMap::new();
        for line in BufReader::new(said).split(b'\n') {
            let line = String::from_utf8(line.unwrap()).unwrap();
            let (shard, number) = line.split_once(' ').expect("two numbers");
            last.insert(shard.parse().unwrap(), number.parse().unwrap());
        }
        last
    });
    std::thread::sleep(run);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

fn all_records(folder: &Path) -> BTreeMap<(u64, u64), u32> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let mut seen = BTreeMap::new();
    for path in paths {
        for line in fs::read_to_string(path).unwrap().lines() {
            let mut words = line.split(' ');
            let mut number = || words.next().unwrap().parse::<u64>().unwrap();
            let (shard, number) = (number(), number());
            let fill = words.next().unwrap();
            assert_eq!(fill.len() as u64, number * 31 % 700, "a torn record: {line}");
            *seen.entry((shard, number)).or_insert(0) += 1;
        }
    }
    seen
}

#[test]
fn a_killed_process_loses_no_record_and_doubles_none() {
    if std::env::var(FOLDER).is_ok() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("pbx-kill-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let mut said = Vec::new();
    for kill in 0..KILLS {
        let start = kill * 10_000_000;
        let run = Duration::from_millis(40 + kill * 17);
        said.push((start, run_and_kill(&folder, start, run)));
    }
    drop(open(&options(&folder)).unwrap());
    let seen = all_records(&folder.join("records"));
    assert!(seen.values().all(|&times| times == 1), "a record was doubled");
    let mut expected = 0;
    for (start, last) in said {
        for (shard, last) in last {
            expected += last - start + 1;
            for number in start..=last {
                assert!(seen.contains_key(&(shard, number)), "shard {shard}: {number} is lost");
            }
        }
    }
    assert!(expected > 1000, "only {expected} records were appended: the test proves nothing");
    fs::remove_dir_all(&folder).unwrap();
}
