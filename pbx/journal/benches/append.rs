//! What a record costs the shard that appends it, and the writer that takes it out.

#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use pbx_journal::{JournalOptions, Opened, open};

/// As long as a call record is.
const RECORD: [u8; 443] = *include_bytes!("record.jsonl");

fn append(criterion: &mut Criterion) {
    let folder = std::env::temp_dir().join(format!("pbx-append-{}", std::process::id()));
    let rings = pbx_journal::default_ring_folder(&folder);
    let Opened { mut appenders, mut writer, .. } = open(&JournalOptions {
        name: "calls",
        folder: folder.join("records"),
        ring_folder: rings.clone(),
        shards: 1,
        ring_bytes: 16 << 20,
        segment_max: u64::MAX,
        sync: None,
    })
    .unwrap();
    let appender = &mut appenders[0];
    criterion.bench_function("append 64 records", |bencher| {
        let ready = || writer.poll().map(drop).unwrap();
        bencher.iter_batched(
            ready,
            |()| (0..64).for_each(|_| appender.append(&RECORD).unwrap()),
            BatchSize::PerIteration,
        );
    });
    criterion.bench_function("write 64 records", |bencher| {
        bencher.iter_batched(
            || (0..64).for_each(|_| appender.append(&RECORD).unwrap()),
            |()| writer.poll().unwrap(),
            BatchSize::PerIteration,
        );
    });
    writer.close().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::remove_dir_all(rings).unwrap();
}

criterion_group!(benches, append);
criterion_main!(benches);
