//! Nothing is lost without a count: sinks that fail, rotation, floods, threads without a lane.

mod common;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, thread};

use common::{AT, Folder, hub, lines};
use logging::{LaneCounts, LaneSize, notice, security, verbose};
use logging_sinks::{Logger, LoggerView, Output, SinkSpec, Target};

fn file(name: &str, path: &Path, levels: &str) -> SinkSpec {
    SinkSpec::file(name, path, levels.parse().expect("known levels"))
}

fn assert_balanced(view: &LoggerView) {
    assert!(view.lanes.iter().all(LaneCounts::is_balanced), "{view:?}");
    let taken: u64 = view.lanes.iter().map(|lane| lane.keep_taken + lane.verbose_taken).sum();
    for sink in &view.sinks {
        assert!(sink.counts.is_balanced(), "{view:?}");
        assert_eq!(sink.counts.taken, taken, "{view:?}");
    }
}

/// A disk that is full from time to time, and then takes half a batch.
#[derive(Clone, Default)]
struct Disk {
    written: Arc<Mutex<Vec<u8>>>,
    is_full: Arc<AtomicBool>,
    room: Arc<AtomicUsize>,
    is_stuck: Arc<AtomicBool>,
}

impl Output for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while self.is_stuck.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        let mut taken = bytes.len();
        if self.is_full.load(Ordering::Acquire) {
            taken = taken.min(self.room.load(Ordering::Acquire));
            self.room.fetch_sub(taken, Ordering::AcqRel);
            if taken == 0 {
                return Err(io::Error::from_raw_os_error(28));
            }
        }
        self.written.lock().expect("no test panics with it").extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Disk {
    fn spec(&self, name: &str, levels: &str) -> SinkSpec {
        let levels = levels.parse().expect("known levels");
        SinkSpec::new(name, levels, Target::Other("disk", Box::new(self.clone())))
    }

    fn text(&self) -> String {
        let bytes = self.written.lock().expect("no test panics with it").clone();
        String::from_utf8(bytes).expect("lines are UTF-8")
    }
}

#[test]
fn a_full_disk_is_counted_reported_once_and_heals() {
    let folder = Folder::new("full-disk");
    let other = folder.path("other");
    let (hub, disk) = (hub(), Disk::default());
    let specs = vec![disk.spec("disk", "notice,error"), file("other", &other, "notice,error")];
    let logger = Logger::start(&hub, specs).unwrap();
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::SHARD).unwrap();
    lane.set_now(AT);
    notice!(lane, "before");
    logger.flush();
    disk.room.store(100, Ordering::Release); // one line and a half
    disk.is_full.store(true, Ordering::Release);
    for number in 0..10_u8 {
        notice!(lane, "during {}", number);
        logger.flush();
    }
    let failing = logger.view();
    assert_balanced(&failing);
    assert_eq!(failing.sinks[0].counts.written, 2);
    assert!(failing.sinks[0].failure.as_deref().unwrap().contains("No space left"));
    disk.is_full.store(false, Ordering::Release);
    let start = Instant::now();
    while logger.view().sinks[0].failure.is_some() {
        notice!(lane, "after");
        logger.flush();
        assert!(start.elapsed() < Duration::from_secs(20), "the sink heals");
        thread::sleep(Duration::from_millis(20));
    }
    logger.flush();
    let view = logger.view();
    assert_balanced(&view);
    assert_eq!(view.sinks[1].counts.dropped, 0, "the other sink is untouched");
    let all = lines(&other);
    assert_eq!(all.iter().filter(|line| line.contains("cannot be written")).count(), 1);
    let dropped = view.sinks[0].counts.dropped;
    let healed = format!("Log 'disk' is written again; {dropped} lines were lost");
    assert_eq!(all.iter().filter(|line| line.ends_with(&healed)).count(), 1, "{all:?}");
    // The line that was torn stands alone; the counted ones are whole.
    let text = disk.text();
    let whole = text.lines().filter(|line| all.iter().any(|other| other == line)).count();
    assert_eq!(whole as u64, view.sinks[0].counts.written);
    assert_eq!(text.lines().count(), whole + 1);
}

#[test]
fn the_kernels_full_device_costs_only_its_own_sink() {
    let folder = Folder::new("dev-full");
    let other = folder.path("other");
    let hub = hub();
    let specs =
        vec![file("full", Path::new("/dev/full"), "notice"), file("other", &other, "notice")];
    let logger = Logger::start(&hub, specs).unwrap();
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::SHARD).unwrap();
    for _ in 0..1000 {
        notice!(lane, "line");
    }
    logger.flush();
    let view = logger.view();
    assert_balanced(&view);
    assert_eq!((view.sinks[0].counts.written, view.sinks[0].counts.dropped), (0, 1000));
    assert_eq!(view.sinks[1].counts.written, 1000);
}

#[test]
fn rotation_loses_no_line() {
    let folder = Folder::new("rotate");
    let path = folder.path("messages");
    let hub = hub();
    let logger = Logger::start(&hub, vec![file("rotate", &path, "notice")]).unwrap();
    let is_done = AtomicBool::new(false);
    let made = thread::scope(|scope| {
        let maker = scope.spawn(|| {
            let mut lane = hub.turn_lane("shard-0", 1, LaneSize::SHARD).unwrap();
            let mut made = 0_u64;
            while !is_done.load(Ordering::Acquire) {
                made += 1;
                notice!(lane, "number {}", made);
                if made.is_multiple_of(100) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            made
        });
        for number in 0..5 {
            thread::sleep(Duration::from_millis(20));
            fs::rename(&path, folder.path(&format!("messages.{number}"))).unwrap();
            assert!(logger.reopen().iter().all(|(_, result)| result.is_ok()));
        }
        is_done.store(true, Ordering::Release);
        maker.join().unwrap()
    });
    logger.flush();
    assert_balanced(&logger.view());
    let mut numbers = Vec::new();
    let files = (0..5).map(|n| folder.path(&format!("messages.{n}"))).chain([path]);
    for file in files {
        let number = |line: &String| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        numbers.extend(lines(&file).iter().map(number));
    }
    assert_eq!(numbers, (1..=made).collect::<Vec<_>>());
}

#[test]
fn what_was_made_before_a_rotation_lands_in_the_old_file() {
    let folder = Folder::new("before");
    let (path, old) = (folder.path("messages"), folder.path("messages.old"));
    let hub = hub();
    let logger = Logger::start(&hub, vec![file("before", &path, "notice")]).unwrap();
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::SHARD).unwrap();
    for _ in 0..20 {
        fs::rename(&path, &old).unwrap();
        notice!(lane, "before");
        logger.reopen();
        notice!(lane, "after");
        logger.flush();
        let last = |path: &Path| lines(path).pop().unwrap();
        assert!(last(&old).ends_with("before"), "{}", last(&old));
        assert!(last(&path).ends_with("after"), "{}", last(&path));
    }
}

#[test]
fn a_file_that_cannot_be_opened_anew_keeps_the_old_one() {
    let folder = Folder::new("reopen");
    let path = folder.path("sub/messages");
    fs::create_dir(folder.path("sub")).unwrap();
    let hub = hub();
    let logger = Logger::start(&hub, vec![file("reopen", &path, "notice")]).unwrap();
    fs::rename(folder.path("sub"), folder.path("moved")).unwrap();
    let results = logger.reopen();
    let error = results[0].1.as_ref().unwrap_err().to_string();
    assert!(error.contains("sub/messages"), "{error}");
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::THREAD).unwrap();
    notice!(lane, "still here");
    logger.flush();
    assert_eq!(lines(&folder.path("moved/messages")).len(), 1);
    let absent = vec![file("absent", &folder.path("absent/messages"), "notice")];
    assert!(Logger::start(&hub, absent).is_err());
}

#[test]
fn a_stuck_disk_never_holds_the_caller_up_and_every_record_is_accounted_for() {
    let (hub, disk) = (hub(), Disk::default());
    let logger = Logger::start(&hub, vec![disk.spec("stuck", "*")]).unwrap();
    logger.set_levels("stuck", "notice,security,warning,verbose(3)".parse().unwrap());
    let size = LaneSize { keep_units: 512, verbose_units: 512 };
    let mut lane = hub.turn_lane("shard-0", 1, size).unwrap();
    disk.is_stuck.store(true, Ordering::Release);
    let source = std::net::IpAddr::from([192, 0, 2, 66]);
    for number in 0..5000_u32 {
        security!(lane, from = source, "attack {} by {}", number, source);
        verbose!(3, lane, "progress {}", number);
    }
    disk.is_stuck.store(false, Ordering::Release);
    logger.flush();
    let view = logger.view();
    assert_balanced(&view);
    let of_lane = view.lanes.iter().find(|lane| lane.name == "shard-0").unwrap();
    assert_eq!((of_lane.keep_offered, of_lane.verbose_offered), (5000, 5000));
    assert!(of_lane.keep_folded > 0 && of_lane.verbose_dropped > 0, "{of_lane:?}");
    // The log itself accounts for every attack: its own line, or a number in a summary.
    let text = disk.text();
    let single =
        text.lines().filter(|line| line.contains("attack") && line.contains("by 192")).count();
    let folded: u64 = text
        .lines()
        .filter_map(|line| {
            line.split_once(" more from 192.0.2.66 not written singly")?.0.rsplit(' ').next()
        })
        .map(|number| number.parse::<u64>().unwrap())
        .sum();
    assert_eq!(single as u64 + folded, 5000, "{text}");
}

#[test]
fn lost_verbose_lines_are_reported_with_their_number() {
    let (hub, disk) = (hub(), Disk::default());
    let specs = vec![disk.spec("slow", "warning,verbose(3)")];
    let logger = Logger::start(&hub, specs).unwrap();
    let size = LaneSize { keep_units: 512, verbose_units: 512 };
    let mut lane = hub.turn_lane("shard-0", 1, size).unwrap();
    disk.is_stuck.store(true, Ordering::Release);
    for number in 0..5000_u32 {
        verbose!(3, lane, "progress {}", number);
    }
    disk.is_stuck.store(false, Ordering::Release);
    let start = Instant::now();
    let reported = loop {
        logger.flush();
        let text = disk.text();
        let numbers = text.lines().filter_map(|line| {
            let before = line.split_once(" verbose or debug lines were lost")?.0;
            before.rsplit(' ').next()?.parse::<u64>().ok()
        });
        let sum = numbers.sum::<u64>();
        if sum > 0 {
            break sum;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "the loss is reported");
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(reported, lane.counts().verbose_dropped);
    verbose!(3, lane, "and goes on");
    logger.flush();
    assert!(disk.text().ends_with("and goes on\n"));
}

#[test]
fn threads_without_a_lane_share_one() {
    let folder = Folder::new("common");
    let path = folder.path("messages");
    let hub = hub();
    logging::install(&hub).unwrap();
    assert!(logging::install(&hub).is_err());
    let logger = Logger::start(&hub, vec![file("common", &path, "notice")]).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..50_u8 {
                    notice!("shared {}", number);
                }
            });
        }
        scope.spawn(|| {
            logging::enter(hub.turn_lane("own", 5, LaneSize::THREAD).unwrap());
            logging::set_now(AT);
            notice!(call = 3, "mine {}", 1_u8);
            assert!(logging::leave().is_some());
        });
    });
    // A field that logs while it is written gets no second lock, and is counted.
    struct Talkative;
    impl std::fmt::Display for Talkative {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            notice!("from within");
            f.write_str("talk")
        }
    }
    notice!("{}", logging::Shown(Talkative));
    assert_eq!(logging::unheard(), 1);
    logger.flush();
    let all = lines(&path);
    assert_eq!(all.iter().filter(|line| line.ends_with(": talk")).count(), 1);
    assert_eq!(all.iter().filter(|line| line.contains("NOTICE[77] truth.rs: shared")).count(), 200);
    assert_eq!(all.iter().filter(|line| line.contains("NOTICE[5][C-00000003]")).count(), 1);
    let view = logger.view();
    assert_balanced(&view);
    assert!(view.lanes.iter().all(|lane| lane.name != "own"), "an ended lane is summed: {view:?}");
}

/// Case L05: a slow disk, more lines than the queue holds: lines are lost with their number,
/// nothing else waits, and it goes on.
#[test]
fn case_l05_what_a_slow_sink_loses_is_counted_and_told_and_it_resumes() {
    let (hub, disk) = (hub(), Disk::default());
    let folder = Folder::new("l05");
    let other = folder.path("other");
    let slow = SinkSpec { queue_bytes: 4_096, ..disk.spec("slow", "notice,verbose(7)") };
    let specs = vec![slow, file("other", &other, "warning,notice,verbose(7)")];
    let logger = Logger::start(&hub, specs).unwrap();
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::SHARD).unwrap();
    disk.is_stuck.store(true, Ordering::Release);
    notice!(lane, "the first one keeps the disk busy");
    let start = Instant::now();
    while logger.view().sinks[0].waiting_bytes == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "it is on its way");
        thread::sleep(Duration::from_millis(1));
    }
    for number in 0..3_000_u32 {
        verbose!(7, lane, "progress {}", number);
    }
    for number in 0..5_u8 {
        notice!(lane, "notice {}", number);
    }
    // The other one has all of it while the disk is stuck.
    let start = Instant::now();
    while logger.view().sinks[1].counts.written < 3_006 {
        assert!(start.elapsed() < Duration::from_secs(20), "the other one goes on");
        thread::sleep(Duration::from_millis(1));
    }
    let lost = logger.view().sinks[0].counts;
    assert!(lost.dropped_verbose > 2_000 && lost.dropped_keep() == 0, "{lost:?}");
    disk.is_stuck.store(false, Ordering::Release);
    let start = Instant::now();
    let told = loop {
        logger.flush();
        let numbers = lines(&other).into_iter().filter_map(|line| {
            let rest = line.split_once("Log 'slow' ")?.1.to_owned();
            rest.split(' ').find_map(|word| word.parse::<u64>().ok())
        });
        let sum: u64 = numbers.sum();
        if sum == lost.dropped {
            break sum;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "told {sum} of {}", lost.dropped);
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(told, lost.dropped);
    verbose!(7, lane, "and goes on");
    logger.flush();
    assert!(disk.text().contains("and goes on\n"));
    assert!(disk.text().contains("notice 4\n"));
    assert_balanced(&logger.view());
}
