//! What a record costs its thread: unwanted, and taken with four fields, two of them strings.
//!
//! The reader works on another thread, as the writer does, and the lane is empty before each
//! measured run of records; that nothing was dropped is checked at the end.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use logging::{Demand, Hub, LaneSize, Levels, enter, leave, notice, verbose};
use turn::{Now, Wall};

/// Records in one measured run: what the lane holds at two units each, with room to spare.
const RUN: u64 = 10_000;

const LANE: LaneSize = LaneSize { keep_units: 64 * 1024, verbose_units: 64 * 1024 };

/// Empties the lanes on a thread of its own.
struct Reader {
    is_done: Arc<AtomicBool>,
    has_emptied: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Reader {
    fn start(hub: &Hub) -> Self {
        let mut readers = hub.take_readers();
        let (is_done, has_emptied) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let thread = thread::spawn({
            let (is_done, has_emptied) = (Arc::clone(&is_done), Arc::clone(&has_emptied));
            move || {
                while !is_done.load(Ordering::Acquire) {
                    for reader in &mut readers {
                        reader.refresh();
                        while reader.peek().is_some() {
                            reader.advance();
                        }
                    }
                    has_emptied.store(true, Ordering::Release);
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        Self { is_done, has_emptied, thread }
    }

    /// Times `one(run)` over runs of at most [`RUN`] records, with an empty lane before each.
    fn time(&self, iterations: u64, mut one: impl FnMut(u64)) -> Duration {
        let mut total = Duration::ZERO;
        let mut left = iterations;
        while left > 0 {
            self.has_emptied.store(false, Ordering::Release);
            while !self.has_emptied.swap(false, Ordering::AcqRel) {
                thread::sleep(Duration::from_micros(100));
            }
            let run = left.min(RUN);
            let start = Instant::now();
            one(run);
            total += start.elapsed();
            left -= run;
        }
        total
    }

    fn stop(self) {
        self.is_done.store(true, Ordering::Release);
        self.thread.join().expect("the reader does not panic");
    }
}

fn records(c: &mut Criterion) {
    let hub = Hub::new(1, Now::default);
    let levels: Levels = "notice,verbose(3)".parse().expect("known levels");
    let _demand = Demand::new("bench", levels);
    let mut lane = hub.turn_lane("bench", 1, LANE).expect("few lanes");
    lane.set_now(Now { wall: Wall::from_micros(1), ..Now::default() });
    let thread_lane = hub.turn_lane("thread", 1, LANE).expect("few lanes");
    let reader = Reader::start(&hub);
    let source: SocketAddr = "192.0.2.3:5060".parse().expect("an address");
    let fields = || (black_box("SIP/trunk-0000001a"), black_box(b"sip:answer@pbx.example.org"));

    c.bench_function("unwanted", |b| {
        b.iter(|| verbose!(4, lane, "{} {}", black_box("a"), black_box(1_u64)));
    });
    let mut run = |count| {
        for number in 0..count {
            let (name, uri) = fields();
            verbose!(3, lane, call = 26, "{} {} {} {}", name, uri, black_box(source), number);
        }
    };
    c.bench_function("verbose", |b| b.iter_custom(|n| reader.time(n, &mut run)));
    let mut run = |count| {
        for number in 0..count {
            let (name, uri) = fields();
            notice!(lane, call = 26, from = source, "{} {} {} {}", name, uri, source, number);
        }
    };
    c.bench_function("notice", |b| b.iter_custom(|n| reader.time(n, &mut run)));
    enter(thread_lane);
    let run = |count| {
        for number in 0..count {
            let (name, uri) = fields();
            verbose!(3, call = 26, "{} {} {} {}", name, uri, black_box(source), number);
        }
    };
    c.bench_function("verbose, lane of the thread", |b| b.iter_custom(|n| reader.time(n, run)));
    let thread_lane = leave().expect("entered above");
    for counts in [lane.counts(), thread_lane.counts()] {
        assert_eq!(counts.verbose_dropped + counts.keep_folded, 0, "{counts:?}");
    }
    reader.stop();
}

criterion_group!(benches, records);
criterion_main!(benches);
