//! Rotation by size, by word and by others; compression; the disk budget. Lines are counted.

mod common;

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use common::{AT, Folder, hub, lines};
use logging::{Hub, LaneSize, notice};
use logging_sinks::{Every, Logger, Rotation, SinkSpec, Strategy, Target};
use turn::{Now, Wall};

const PLAIN: Rotation = Rotation {
    strategy: Strategy::Rotate,
    max_bytes: Some(1_000),
    every: None,
    keep: 1_000,
    gzip: false,
};

fn start(hub: &Arc<Hub>, path: &Path, rotation: Rotation) -> Logger {
    let levels = "notice".parse().expect("known levels");
    let target = Target::Rotated(path.to_owned(), rotation);
    Logger::start(hub, vec![SinkSpec::new("messages", levels, target)]).expect("the file opens")
}

/// The lines of a file, compressed or not.
fn unpacked(path: &Path) -> Vec<String> {
    if path.extension().is_none_or(|end| end != "gz") {
        return lines(path);
    }
    let mut text = String::new();
    let file = fs::File::open(path).expect("it is there");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("whole");
    text.lines().map(str::to_owned).collect()
}

/// The numbers at the ends of all lines, from the oldest file of `rotate` to the live one.
fn numbers(folder: &Folder) -> Vec<u64> {
    let mut files: Vec<_> = fs::read_dir(folder.path(""))
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.extension().is_none_or(|end| end != "part"))
        .map(|path| {
            let name = path.to_string_lossy().into_owned();
            let number = name.trim_end_matches(".gz").rsplit('.').next();
            // The live one has none and comes last.
            let number = number.and_then(|number| number.parse::<i64>().ok()).unwrap_or(-1);
            (-number, path)
        })
        .collect();
    files.sort();
    let number = |line: String| line.rsplit(' ').next().and_then(|word| word.parse().ok());
    let of_file = |path: &Path| unpacked(path).into_iter().map(number).collect::<Vec<_>>();
    let numbers = files.iter().flat_map(|(_, path)| of_file(path));
    numbers.map(|number| number.expect("each line ends with one")).collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn no_file_exceeds_its_size_and_no_line_is_lost_or_torn() {
    let folder = Folder::new("by-size");
    let (hub, path) = (hub(), folder.path("messages"));
    let logger = start(&hub, &path, PLAIN);
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::SHARD).unwrap();
    for number in 0..200_u64 {
        notice!(lane, "number {}", number);
        logger.flush();
    }
    assert_eq!(numbers(&folder), (0..200).collect::<Vec<_>>());
    let files = fs::read_dir(path.parent().unwrap()).unwrap();
    let sizes: Vec<u64> = files.map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    assert!(sizes.len() > 5 && sizes.iter().all(|size| *size <= 1_000), "{sizes:?}");
    assert_eq!(logger.view().disk.rotations, sizes.len() as u64 - 1);
}

#[test]
fn old_files_are_compressed_and_the_oldest_go() {
    let folder = Folder::new("gzip");
    let (hub, path) = (hub(), folder.path("messages"));
    let logger = start(&hub, &path, Rotation { keep: 3, gzip: true, ..PLAIN });
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::SHARD).unwrap();
    for number in 0..300_u64 {
        notice!(lane, "number {}", number);
        logger.flush();
    }
    let names = || {
        let files = fs::read_dir(path.parent().unwrap()).unwrap();
        let mut names: Vec<_> =
            files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let wanted = ["messages", "messages.0.gz", "messages.1.gz", "messages.2.gz"];
    wait_until("all are compressed", || names() == wanted);
    let numbers = numbers(&folder);
    assert_eq!(numbers, (300 - numbers.len() as u64..300).collect::<Vec<_>>());
    assert!(numbers.len() > 30, "{numbers:?}");
}

#[test]
fn what_an_earlier_run_left_is_compressed_too() {
    let folder = Folder::new("left");
    let path = folder.path("messages");
    fs::write(folder.path("messages.0"), "left number 7\n").unwrap();
    fs::write(folder.path("messages.gz.part"), "half").unwrap();
    let hub = hub();
    let _logger = start(&hub, &path, Rotation { gzip: true, ..PLAIN });
    wait_until("it is compressed", || folder.path("messages.0.gz").exists());
    wait_until("the plain one is gone", || !folder.path("messages.0").exists());
    assert_eq!(unpacked(&folder.path("messages.0.gz")), ["left number 7"]);
    assert!(!folder.path("messages.gz.part").exists());
}

#[test]
fn rotation_by_word_and_by_others_under_load_loses_no_line() {
    let folder = Folder::new("by-word");
    let (hub, path) = (hub(), folder.path("messages"));
    let logger = start(&hub, &path, Rotation { max_bytes: None, ..PLAIN });
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let made = thread::scope(|scope| {
        let maker = scope.spawn(|| {
            let mut lane = hub.turn_lane("shard-0", 1, LaneSize::SHARD).unwrap();
            let mut made = 0_u64;
            while !is_done.load(Ordering::Acquire) {
                notice!(lane, "number {}", made);
                made += 1;
                if made.is_multiple_of(100) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            made
        });
        for number in 0..20 {
            thread::sleep(Duration::from_millis(10));
            if number % 2 == 0 {
                // As logrotate does: a name between ours and the live one's.
                fs::rename(&path, folder.path("messages.moved")).unwrap();
                assert!(logger.reopen().iter().all(|(_, result)| result.is_ok()));
                let text = fs::read(folder.path("messages.moved")).unwrap();
                fs::remove_file(folder.path("messages.moved")).unwrap();
                fs::write(folder.path(&format!("moved-{number}")), text).unwrap();
            } else {
                let renewed = logger.rotate(Some("messages"));
                assert!(renewed.len() == 1 && renewed[0].1.is_ok(), "{renewed:?}");
            }
        }
        is_done.store(true, Ordering::Release);
        maker.join().unwrap()
    });
    logger.flush();
    let mut numbers = numbers(&folder);
    numbers.sort_unstable();
    assert_eq!(numbers, (0..made).collect::<Vec<_>>());
    assert!(logger.rotate(Some("nobody")).is_empty());
}

#[test]
fn a_file_that_is_emptied_under_us_goes_on() {
    let folder = Folder::new("copytruncate");
    let (hub, path) = (hub(), folder.path("messages"));
    let logger = start(&hub, &path, Rotation { max_bytes: None, ..PLAIN });
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::SHARD).unwrap();
    notice!(lane, "number {}", 1_u8);
    logger.flush();
    fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    notice!(lane, "number {}", 2_u8);
    logger.flush();
    assert_eq!(numbers(&folder), [2]);
}

#[test]
fn a_new_day_begins_a_new_file() {
    static DAY: AtomicI64 = AtomicI64::new(0);
    let now = || Now {
        wall: Wall::from_micros(AT.wall.as_micros() + DAY.load(Ordering::Relaxed) * 86_400_000_000),
        ..AT
    };
    let folder = Folder::new("by-day");
    let (hub, path) = (Hub::new(77, now), folder.path("messages"));
    let rotation = Rotation { max_bytes: None, every: Some(Every::Day), ..PLAIN };
    let logger = start(&hub, &path, rotation);
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::SHARD).unwrap();
    for day in 0..3 {
        DAY.store(day, Ordering::Relaxed);
        for _ in 0..2 {
            notice!(lane, "number {}", day);
            logger.flush();
        }
    }
    assert_eq!(lines(&folder.path("messages.1")).len(), 2);
    assert_eq!(lines(&folder.path("messages.0")).len(), 2);
    assert_eq!(numbers(&folder), [0, 0, 1, 1, 2, 2]);
}

#[test]
fn the_budget_takes_old_files_first_and_then_the_largest() {
    let folder = Folder::new("budget");
    let (hub, path) = (hub(), folder.path("messages"));
    let logger = start(&hub, &path, PLAIN);
    let budget = 4_000;
    logger.set_budget(Some(budget));
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::SHARD).unwrap();
    for number in 0..500_u64 {
        notice!(lane, "number {}", number);
        logger.flush();
    }
    let used = || {
        let files = fs::read_dir(path.parent().unwrap()).unwrap();
        // A file that goes away meanwhile takes nothing.
        files.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum::<u64>()
    };
    wait_until("the budget is kept", || used() <= budget);
    let disk = logger.view().disk;
    assert!(disk.removed > 10 && disk.removed_bytes > 10_000, "{disk:?}");
    assert_eq!(disk.worst_case, Some(1_001_000));
    let numbers = numbers(&folder);
    assert_eq!(numbers, (500 - numbers.len() as u64..500).collect::<Vec<_>>(), "the newest stay");
    // Less than what is being written: that is put aside, and goes.
    logger.set_budget(Some(10));
    wait_until("nothing but the newest line is left", || {
        notice!(lane, "number {}", 500_u64);
        logger.flush();
        used() < 200
    });
}
