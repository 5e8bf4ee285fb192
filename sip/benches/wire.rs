//! What reading and writing costs: `cargo bench -p sip --bench wire`.
//!
//! The messages are those of a plain answered call; the INVITE is about 600 bytes long with its
//! SDP.

use std::hint::black_box;
use std::net::SocketAddr;

use criterion::{Criterion, criterion_group, criterion_main};
use sip::wire::{Builder, CopyWith, Framing, Index, Name, copy_response_head, peek};

const INVITE: &[u8] = include_bytes!("../tests/wire_samples/invite.sip");
const OK: &[u8] = include_bytes!("../tests/wire_samples/ok.sip");
const ACK: &[u8] = include_bytes!("../tests/wire_samples/ack.sip");
const BYE: &[u8] = include_bytes!("../tests/wire_samples/bye.sip");

fn index(c: &mut Criterion) {
    let mut index = Index::new();
    for (name, bytes) in [("INVITE", INVITE), ("200", OK), ("ACK", ACK), ("BYE", BYE)] {
        c.bench_function(&format!("index {name} ({} bytes)", bytes.len()), |b| {
            b.iter(|| {
                let message = index.parse(black_box(bytes), Framing::Datagram);
                black_box(message.expect("the sample is sound").call_id().len())
            });
        });
    }
}

fn keys(c: &mut Criterion) {
    for (name, bytes) in [("INVITE", INVITE), ("200", OK), ("BYE", BYE)] {
        c.bench_function(&format!("peek {name}"), |b| b.iter(|| peek(black_box(bytes))));
    }
    let mut index = Index::new();
    let message = index.parse(INVITE, Framing::Datagram).expect("the sample is sound");
    c.bench_function("the five keys of an indexed INVITE", |b| {
        b.iter(|| {
            let m = black_box(message);
            (m.top_via(), m.from_tag(), m.to_tag(), m.call_id(), m.cseq())
        });
    });
}

fn write(c: &mut Criterion) {
    let mut index = Index::new();
    let message = index.parse(INVITE, Framing::Datagram).expect("the sample is sound");
    let source = SocketAddr::from(([192, 0, 2, 7], 5060));
    let mut out = Vec::with_capacity(2_048);
    c.bench_function("write a 200 with a body", |b| {
        b.iter(|| {
            out.clear();
            Builder::response(&mut out, 200, None)
                .with(|out| {
                    let with = CopyWith { record_route: true, timestamp: false };
                    copy_response_head(out, &message, Some(b"as83kdk"), source, with);
                })
                .header(Name::Contact, b"<sip:192.0.2.1:5060>")
                .body(Some(b"application/sdp"), message.body());
            black_box(out.len())
        });
    });
}

criterion_group!(benches, index, keys, write);
criterion_main!(benches);
