//! What a record costs its thread: unwanted, and taken with four fields, two of them strings.
//!
//! The reader works on another thread every 5 ms, as the writer does; the lane is large, so that
//! nothing is dropped while it sleeps (checked at the end).

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use logging::{Demand, Hub, LaneSize, Levels, enter, leave, notice, verbose};
use turn::{Now, Wall};

/// Records in one measured run: what the lane holds at two units each, with room to spare.
const RUN: u64 = 10_000;

const LANE: LaneSize = LaneSize { keep_units: 64 * 1024, verbose_units: 64 * 1024 };

fn records(c: &mut Criterion) {
    let hub = Hub::new(1, Now::default);
    let levels: Levels = "notice,verbose(3)".parse().expect("known levels");
    let demand = Demand::new("bench", levels);
    let mut lane = hub.turn_lane("bench", 1, LANE).expect("few lanes");
    lane.set_now(Now { wall: Wall::from_micros(1), ..Now::default() });
    let thread_lane = hub.turn_lane("thread", 1, LANE).expect("few lanes");
    let done = Arc::new(AtomicBool::new(false));
    let emptied = Arc::new(AtomicBool::new(false));
    let reader = thread::spawn({
        let (hub, done, emptied) = (Arc::clone(&hub), Arc::clone(&done), Arc::clone(&emptied));
        move || {
            let mut readers = hub.take_readers();
            while !done.load(Ordering::Acquire) {
                for reader in &mut readers {
                    reader.refresh();
                    while reader.peek().is_some() {
                        reader.advance();
                    }
                }
                emptied.store(true, Ordering::Release);
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    // Times runs of RUN records with an empty lane before each.
    let measure = |iterations: u64, one: &mut dyn FnMut(u64)| {
        let mut total = Duration::ZERO;
        let mut left = iterations;
        while left > 0 {
            emptied.store(false, Ordering::Release);
            while !emptied.swap(false, Ordering::AcqRel) {
                thread::sleep(Duration::from_micros(100));
            }
            let run = left.min(RUN);
            let start = Instant::now();
            one(run);
            total += start.elapsed();
            left -= run;
        }
        total
    };

    c.bench_function("unwanted", |b| {
        b.iter(|| verbose!(4, lane, "{} {}", black_box("a"), black_box(1_u64)));
    });
    let source: SocketAddr = "192.0.2.3:5060".parse().expect("an address");
    let (name, uri): (&str, &[u8]) = ("SIP/trunk-0000001a", b"sip:answer@pbx.example.org");
    c.bench_function("verbose_four_fields", |b| {
        b.iter_custom(|n| {
            measure(n, &mut |run| {
                for number in 0..run {
                    verbose!(
                        3,
                        lane,
                        call = 26,
                        "{} {} {} {}",
                        black_box(name),
                        black_box(uri),
                        black_box(source),
                        black_box(number)
                    );
                }
            })
        });
    });
    c.bench_function("notice_four_fields", |b| {
        b.iter_custom(|n| {
            measure(n, &mut |run| {
                for number in 0..run {
                    notice!(
                        lane,
                        call = 26,
                        from = source,
                        "{} {} {} {}",
                        black_box(name),
                        black_box(uri),
                        black_box(source),
                        black_box(number)
                    );
                }
            })
        });
    });
    enter(thread_lane);
    c.bench_function("verbose_four_fields_thread_lane", |b| {
        b.iter_custom(|n| {
            measure(n, &mut |run| {
                for number in 0..run {
                    verbose!(
                        3,
                        call = 26,
                        "{} {} {} {}",
                        black_box(name),
                        black_box(uri),
                        black_box(source),
                        black_box(number)
                    );
                }
            })
        });
    });
    let thread_lane = leave().expect("entered above");
    for counts in [lane.counts(), thread_lane.counts()] {
        assert_eq!(counts.verbose_dropped + counts.keep_folded, 0, "{counts:?}");
    }
    done.store(true, Ordering::Release);
    reader.join().expect("the reader does not panic");
    drop(demand);
}

criterion_group!(benches, records);
criterion_main!(benches);
