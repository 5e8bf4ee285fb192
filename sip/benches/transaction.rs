//! What the transaction layer costs a call: `cargo bench -p sip --bench transaction`.
//!
//! The table is as full as at 20,000 calls per second: 1.28 million tombstones, which come and go
//! while it is measured. Subtract "read" for the cost of the layer without the wire layer.

#[path = "../tests/support/answered_calls.rs"]
mod answered_calls;

use answered_calls::{AnsweredCalls, RATE};
use criterion::{Criterion, criterion_group, criterion_main};

fn calls(c: &mut Criterion) {
    let mut calls = AnsweredCalls::new();
    for _ in 0..RATE * 33 {
        calls.tick();
        calls.serve(false);
    }
    assert!(calls.tombstones() > 1_250_000, "{}", calls.tombstones());
    c.bench_function("read INVITE, ACK, BYE", |b| b.iter(|| calls.only_read()));
    c.bench_function("serve INVITE-200-ACK-BYE-200", |b| {
        b.iter(|| {
            calls.tick();
            calls.serve(false);
        });
    });
    c.bench_function("serve INVITE-180-200-ACK-BYE-200", |b| {
        b.iter(|| {
            calls.tick();
            calls.serve(true);
        });
    });
    c.bench_function("call INVITE-180-200, BYE-200", |b| {
        b.iter(|| {
            calls.tick();
            calls.call();
        });
    });
}

criterion_group!(benches, calls);
criterion_main!(benches);
