//! A flood: 990,000 VERBOSE, 10,000 NOTICE and 100 SECURITY a second from two threads, into a file
//! that takes everything, a security log, and a console that takes nothing.
//!
//! NOTICE and SECURITY are complete, what is lost of VERBOSE is counted to the line, and memory
//! stays what it is. The short one runs with the tests, the long one (10 s) with `cargo xtask
//! soak`.

mod common;

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Folder, lines};
use logging::{Hub, LaneCounts, LaneSize, notice, security, verbose};
use logging_sinks::{Logger, Output, SinkSpec, Target};
use turn::{Mono, Now, Wall};

/// Each of two threads, each millisecond.
const VERBOSE: u64 = 495;
const NOTICE: u64 = 5;

/// What the queues of two lanes and three sinks can hold, and as much again.
const GROWTH_MAX: u64 = 96 << 20;

struct Stalled(Arc<AtomicBool>);

impl Output for Stalled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while !self.0.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(bytes.len())
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("/proc is there");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number") * 4096
}

fn now() -> Now {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let micros = i64::try_from(since.expect("after 1970").as_micros()).expect("before 290,000");
    Now { mono: Mono::ZERO, wall: Wall::from_micros(micros), utc_offset_s: 0 }
}

/// What one thread does for so many milliseconds: the numbers of VERBOSE, NOTICE and SECURITY.
fn produce(hub: &Hub, name: &str, millis: u64) -> [u64; 3] {
    let mut lane = hub.turn_lane(name, 1, LaneSize::SHARD).expect("few lanes");
    let source = std::net::SocketAddr::from(([192, 0, 2, 66], 5060));
    let (begin, mut made) = (Instant::now(), [0; 3]);
    for milli in 0..millis {
        lane.set_now(now());
        for _ in 0..VERBOSE {
            made[0] += 1;
            verbose!(3, lane, call = 26, "Executing [{}@{}:{}]", "100", "default", made[0]);
        }
        for _ in 0..NOTICE {
            made[1] += 1;
            notice!(lane, from = source, "notice {} of {}", made[1], name);
        }
        if milli % 20 == 0 {
            made[2] += 1;
            security!(lane, from = source, "event {} of {}", made[2], name);
        }
        let due = begin + Duration::from_millis(milli + 1);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    made
}

fn flood(test: &'static str, millis: u64) {
    let folder = Folder::new(test);
    let (full, events) = (folder.path("full"), folder.path("security.log"));
    let hub = Hub::new(77, now);
    let is_free = Arc::new(AtomicBool::new(false));
    let console = Target::Other("console", Box::new(Stalled(Arc::clone(&is_free))));
    let levels = |text: &str| text.parse().expect("known levels");
    let specs = vec![
        SinkSpec::file("full", &full, levels("notice,security,verbose(7)")),
        SinkSpec::file("security.log", &events, levels("security")),
        SinkSpec::new("console", levels("notice,verbose(7)"), console),
    ];
    let logger = Logger::start(&hub, specs).expect("they open");
    let before = resident_bytes();
    let made: Vec<[u64; 3]> = thread::scope(|scope| {
        let makers = ["shard-0", "shard-1"].map(|name| {
            let hub = &hub;
            scope.spawn(move || produce(hub, name, millis))
        });
        makers.map(|maker| maker.join().expect("it does not panic")).into()
    });
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "memory grew by {grown} bytes");
    is_free.store(true, Ordering::Release);
    assert!(logger.flush(), "all outputs take lines again");
    let view = logger.view();
    assert!(view.lanes.iter().all(LaneCounts::is_balanced), "{view:?}");
    assert!(view.sinks.iter().all(|sink| sink.counts.is_balanced()), "{view:?}");
    let [verbose, notices, security] =
        [0, 1, 2].map(|kind| made.iter().map(|made| made[kind]).sum::<u64>());
    let all = fs::read_to_string(&full).expect("it is there");
    let count = |text: &str| all.lines().filter(|line| line.contains(text)).count() as u64;
    assert_eq!(count(" NOTICE[1] flood.rs: notice "), notices, "{view:?}");
    assert_eq!(count(" SECURITY[1] flood.rs: event "), security);
    assert_eq!(lines(&events).len() as u64, security);
    let in_lanes: u64 = view.lanes.iter().map(|lane| lane.verbose_dropped).sum();
    let written = count("Executing [");
    let lost = in_lanes + view.sinks[0].counts.dropped_verbose;
    assert_eq!(written + lost, verbose, "every line is written or counted");
    assert_eq!(view.sinks[0].counts.dropped_keep() + view.sinks[1].counts.dropped, 0);
    let console = view.sinks[2].counts;
    assert!(console.dropped_verbose > 0, "{console:?}");
    println!(
        "{millis} ms: {verbose} VERBOSE made, {written} written, {lost} counted as lost; \
         {notices} NOTICE and {security} SECURITY whole; the console lost {}; memory grew by {} \
         KiB",
        console.dropped,
        grown / 1024
    );
}

#[test]
fn a_flood_loses_nothing_that_must_be_kept() {
    flood("flood", 400);
}

#[test]
#[ignore = "takes 10 s: `cargo xtask soak flood`"]
fn flood_for_ten_seconds() {
    flood("flood-long", 10_000);
}
