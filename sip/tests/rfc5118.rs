//! The IPv6 messages of RFC 5118, each with what its section says.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and reads its material from files"
)]

use std::net::IpAddr;
use std::path::Path;

use sip::wire::{Framing, Index, Message, Name, NameAddr, Rule, Uri, Via};

fn with<T>(name: &str, look: impl FnOnce(Message<'_>) -> T) -> T {
    let bytes = read(name);
    let mut index = Index::new();
    let message = index.parse(&bytes, Framing::Datagram);
    look(message.unwrap_or_else(|fault| panic!("{name}: {fault}")))
}

fn read(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/rfc5118");
    std::fs::read(folder.join(format!("{name}.dat"))).unwrap()
}

fn ip(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

#[test]
fn section_4_1_references_in_uri_via_and_contact_are_read() {
    with("ipv6-good", |m| {
        assert_eq!(m.parse_request_uri().unwrap().host, b"2001:db8::10");
        assert_eq!(m.top_via().host_ip(), ip("2001:db8::9:1"));
        assert_eq!(m.top_via().sent_by(), b"[2001:db8::9:1]");
        let contact = Uri::parse(m.contact().unwrap().uri).unwrap();
        assert_eq!(contact.host_ip(), ip("2001:db8::1"));
    });
}

#[test]
fn section_4_2_an_address_without_brackets_is_a_400() {
    let bytes = read("ipv6-bad");
    let mut index = Index::new();
    let fault = index.parse(&bytes, Framing::Datagram).unwrap_err();
    assert_eq!(fault.rule, Rule::UriPort);
    assert_eq!(fault.rule.status(), Some(400));
    assert!(index.salvage(&bytes).is_some());
}

#[test]
fn section_4_3_a_port_inside_the_brackets_is_part_of_the_address() {
    with("port-ambiguous", |m| {
        let uri = m.parse_request_uri().unwrap();
        assert_eq!((uri.host_ip(), uri.port), (ip("2001:db8::10:5070"), None));
    });
}

#[test]
fn section_4_4_a_port_behind_the_brackets_is_a_port() {
    with("port-unambiguous", |m| {
        let uri = m.parse_request_uri().unwrap();
        assert_eq!((uri.host_ip(), uri.port), (ip("2001:db8::10"), Some(5070)));
    });
}

#[test]
fn section_4_5_received_is_read_with_and_without_brackets() {
    for name in ["via-received-param-with-delim", "via-received-param-no-delim"] {
        with(name, |m| assert_eq!(m.top_via().received_ip(), ip("2001:db8::9:255"), "{name}"));
    }
}

#[test]
fn section_4_6_and_4_8_bodies_with_addresses_are_just_bytes() {
    with("ipv6-in-sdp", |m| assert!(m.body().starts_with(b"v=0\r\no=assistant")));
    with("mult-ip-in-sdp", |m| assert!(m.body().ends_with(b"H263-1998/90000\r\n")));
}

#[test]
fn section_4_7_a_via_list_mixes_families() {
    with("mult-ip-in-header", |m| {
        let hosts: Vec<_> = m.values(Name::Via).map(|v| Via::parse(v).unwrap().host_ip()).collect();
        assert_eq!(hosts, [ip("2001:db8::9:1"), ip("192.0.2.1"), ip("2001:db8::9:255")]);
        assert_eq!(m.top_via().port, Some(6050));
    });
}

#[test]
fn section_4_9_mapped_addresses_are_read() {
    with("ipv4-mapped-ipv6", |m| {
        assert_eq!(m.top_via().host_ip(), ip("::ffff:192.0.2.10"));
        assert_eq!(m.top_via().port, Some(19823));
        let contact = m.contact().unwrap();
        assert_eq!(Uri::parse(contact.uri).unwrap().host_ip(), ip("::ffff:192.0.2.2"));
    });
}

#[test]
fn section_4_10_the_colon_too_many_is_tolerated() {
    for name in ["ipv6-bug-abnf-3-colons", "ipv6-correct-abnf-2-colons"] {
        with(name, |m| {
            let uri = m.parse_request_uri().unwrap();
            assert_eq!(uri.host_ip(), ip("2001:db8::192.0.2.1"), "{name}");
        });
    }
}

/// RFC 6874 and what was written before it: a zone keeps its place, and is no part of the address.
#[test]
fn a_zone_is_kept_in_the_text() {
    for text in [&b"<sip:1008@[fe80::1%254]>"[..], b"<sip:1008@[fe80::1%eth0]:5062>"] {
        let uri = Uri::parse(NameAddr::parse(text).unwrap().uri).unwrap();
        assert_eq!(uri.host_ip(), ip("fe80::1"));
        assert!(uri.host.contains(&b'%'));
    }
}
