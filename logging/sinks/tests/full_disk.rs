//! A file system that is full: its log counts, the others go on, and it heals by itself.
//!
//! As root the file system is a small tmpfs of the test's own; otherwise `/dev/full` stands for it
//! (`tests/truth.rs`), and this test checks that it cannot mount.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{AT, Folder, hub, lines};
use logging::{LaneSize, notice, verbose};
use logging_sinks::{Logger, SinkSpec};

/// A tmpfs of 64 KiB, until it is dropped.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).expect("the folder is the test's");
        let status =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(at).status();
        status.is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_file_system_costs_only_its_own_log_and_heals() {
    let folder = Folder::new("tmpfs");
    let mount = folder.path("small");
    let Some(_small) = Small::mount(&mount) else {
        let is_root = fs::metadata("/proc/self").is_ok_and(|it| {
            use std::os::unix::fs::MetadataExt as _;
            it.uid() == 0
        });
        // A container may forbid it to root, too; then /dev/full has been the disk.
        println!("no tmpfs can be mounted here (root: {is_root}): /dev/full stands for it");
        return;
    };
    let (full, other) = (mount.join("full"), folder.path("other"));
    let hub = hub();
    let spec = |name: &str, path: &Path| {
        let levels = "notice,error,verbose(3)".parse().expect("known levels");
        SinkSpec::file(name, path, levels)
    };
    let logger = Logger::start(&hub, vec![spec("full", &full), spec("other", &other)]).unwrap();
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::SHARD).unwrap();
    lane.set_now(AT);
    for number in 0..3_000_u32 {
        verbose!(3, lane, call = 1, "line {} that takes its room on the disk", number);
        if number % 100 == 0 {
            logger.flush();
        }
    }
    logger.flush();
    let view = logger.view();
    let (counts, failure) = (view.sinks[0].counts, view.sinks[0].failure.clone());
    assert!(counts.is_balanced() && counts.dropped > 0, "{counts:?}");
    assert!(failure.as_deref().is_some_and(|it| it.contains("No space left")), "{failure:?}");
    assert_eq!(view.sinks[1].counts.dropped, 0);
    let of_test = |path: &Path| lines(path).iter().filter(|it| it.contains(" line ")).count();
    assert_eq!(of_test(&other), 3_000);
    // Somebody makes room.
    fs::File::options().write(true).open(&full).unwrap().set_len(0).unwrap();
    let start = Instant::now();
    while logger.view().sinks[0].failure.is_some() {
        notice!(lane, "after");
        logger.flush();
        assert!(start.elapsed() < Duration::from_secs(20), "it heals");
        std::thread::sleep(Duration::from_millis(20));
    }
    logger.flush();
    let counts = logger.view().sinks[0].counts;
    assert!(counts.is_balanced(), "{counts:?}");
    let all = lines(&other);
    assert_eq!(all.iter().filter(|it| it.contains("cannot be written")).count(), 1);
    let healed = format!("Log 'full' is written again; {} lines were lost", counts.dropped);
    assert_eq!(all.iter().filter(|it| it.ends_with(&healed)).count(), 1, "{healed}: {all:?}");
}
