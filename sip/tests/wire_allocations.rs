//! Reading a message allocates nothing, and neither does writing one into a buffer that is large
//! enough.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;

use sip::wire::{
    Builder, CopyWith, Framing, Index, Name, Uri, copy_response_head, peek, response_address,
};

const INVITE: &[u8] = include_bytes!("wire_samples/invite.sip");

fn allocations(work: impl FnOnce()) -> u64 {
    allocation_counter::measure(work).count_total
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1_u8]))), 1);
}

#[test]
fn reading_allocates_nothing() {
    let mut index = Index::new();
    let broken = INVITE.strip_suffix(b"\r\n").unwrap();
    let count = allocations(|| {
        let m = index.parse(INVITE, Framing::Datagram).unwrap();
        assert!(m.contact().is_some() && m.top_via().branch().is_some());
        assert!(m.named(b"x-unknown").next().is_none() && m.named(b"subject").next().is_some());
        assert!(m.part(b"application/sdp").is_some());
        assert!(Uri::parse(m.to().uri).is_ok());
        assert!(peek(INVITE).is_some());
        assert!(index.parse(broken, Framing::Datagram).is_err());
        assert!(index.salvage(broken).is_some());
    });
    assert_eq!(count, 0);
}

#[test]
fn a_message_with_more_headers_than_the_limit_allocates_nothing() {
    let mut text = b"OPTIONS sip:a@b SIP/2.0\r\n".to_vec();
    for _ in 0..1000 {
        text.extend_from_slice(b"X: y\r\n");
    }
    let mut index = Index::new();
    assert_eq!(allocations(|| assert!(index.parse(&text, Framing::Datagram).is_err())), 0);
}

#[test]
fn writing_allocates_nothing() {
    let mut index = Index::new();
    let request = index.parse(INVITE, Framing::Datagram).unwrap();
    let mut out = Vec::with_capacity(2048);
    let count = allocations(|| {
        for source in
            [SocketAddr::from(([192, 0, 2, 9], 1024)), "[2001:db8::1]:5060".parse().unwrap()]
        {
            out.clear();
            let with = CopyWith { record_route: true, timestamp: true };
            Builder::response(&mut out, 200, None)
                .with(|out| copy_response_head(out, &request, Some(b"tag"), source, with))
                .header(Name::Contact, b"<sip:192.0.2.1>")
                .body(Some(b"application/sdp"), request.body());
            assert_eq!(response_address(&request, source).port(), 5060);
        }
    });
    assert_eq!(count, 0);
}
