//! What the writer pays for a line: 10,000 records from the lane into `/dev/null`, formatted.

use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use logging::{Hub, LaneSize, verbose};
use logging_sinks::{Logger, SinkSpec};
use turn::{Mono, Now, Wall};

/// Lines in one measured run; the lane holds them.
const LINES: u64 = 10_000;

fn lines(c: &mut Criterion) {
    let hub = Hub::new(1, Now::default);
    let levels = "notice,verbose(3)".parse().expect("known levels");
    let spec = SinkSpec::file("bench", Path::new("/dev/null"), levels);
    let logger = Logger::start(&hub, vec![spec]).expect("/dev/null can be opened");
    let mut lane = hub.turn_lane("bench", 1, LaneSize::SHARD).expect("few lanes");
    let source = std::net::SocketAddr::from(([192, 0, 2, 3], 5060));
    let mut micros = 0;
    let mut group = c.benchmark_group("writer");
    group.throughput(Throughput::Elements(LINES));
    group.bench_function("10,000 lines", |b| {
        b.iter_custom(|n| {
            let mut total = Duration::ZERO;
            for _ in 0..n {
                let start = Instant::now();
                for number in 0..LINES {
                    // Ten lines a turn, as a call makes them.
                    micros += i64::from(number % 10 == 0);
                    let wall = Wall::from_micros(micros);
                    lane.set_now(Now { mono: Mono::ZERO, wall, utc_offset_s: 0 });
                    verbose!(
                        3,
                        lane,
                        call = 26,
                        "Executing [{}@{}:{}] {}",
                        b"100",
                        "default",
                        number,
                        source
                    );
                }
                logger.flush();
                total += start.elapsed();
            }
            total
        });
    });
    group.finish();
    let view = logger.view();
    assert_eq!(view.lanes.iter().map(|lane| lane.verbose_dropped).sum::<u64>(), 0);
    assert!(view.sinks[0].counts.is_balanced());
}

criterion_group!(benches, lines);
criterion_main!(benches);
