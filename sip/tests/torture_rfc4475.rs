//! The 49 messages of RFC 4475 against the table of what must happen to each (`EXPECTED.tsv`).
//!
//! Rows `V` and `I` are judged by the wire layer alone. Of rows `S` the table leaves the answer to
//! the layer above; here each of them is read, and what that layer needs for its answer is asked
//! from the accessor that it will use.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and reads its material from files"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sip::wire::{
    Fault, Framing, Index, Message, Method, Name, NameAddr, Rule, Scheme, StartLine, Uri, Via,
    unescape, unfold,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/rfc4475")
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(format!("{name}.dat"))).unwrap()
}

/// Name of the message to what must happen.
fn expected() -> BTreeMap<String, String> {
    let table = std::fs::read_to_string(folder().join("EXPECTED.tsv")).unwrap();
    table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut columns = line.split('\t');
            let name = columns.next().unwrap();
            (name.to_owned(), columns.nth(1).unwrap().to_owned())
        })
        .collect()
}

/// What the wire layer decides: the status of the answer; `None` for a silent discard.
fn verdict(index: &Index, bytes: &[u8], fault: Fault) -> Option<u16> {
    index.salvage(bytes).and_then(|_| fault.rule.status())
}

#[test]
fn every_message_has_a_row_and_every_row_a_message() {
    let files = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "dat"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect::<std::collections::BTreeSet<_>>();
    assert_eq!(files, expected().into_keys().collect());
    assert_eq!(files.len(), 49);
}

/// Case P14.
#[test]
fn case_p14_each_message_is_judged_as_the_table_says() {
    let mut index = Index::new();
    let mut wrong = Vec::new();
    for (name, must) in expected() {
        let bytes = read(&name);
        let result = index.parse(&bytes, Framing::Datagram).map(|_| ());
        let status = result.map_err(|fault| verdict(&index, &bytes, fault));
        let is_right = match must.as_str() {
            "V accept" | "V accept first, ignore rest" => status == Ok(()),
            "I 400" | "I 400 (UDP)" | "I 501/400" => status == Err(Some(400)),
            "I 505" => status == Err(Some(505)),
            "I discard" => status == Err(None),
            // Date is not looked at, and display names need no quotes: see the table of lenient
            // readings.
            "I 400 or ignore Date" | "I 400 (lenient allowed)" => status == Ok(()),
            // Where the table's answer to a row S is 400 the wire layer may give it.
            "S parse; 400" | "S parse; 2543 matching/400" => {
                matches!(status, Ok(()) | Err(Some(400)))
            }
            row if row.starts_with("S parse") => status == Ok(()),
            row => panic!("unknown row {row}"),
        };
        if !is_right {
            wrong.push(format!("{name}: must be {must:?}, is {status:?} ({result:?})"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn with(name: &str, look: impl FnOnce(Message<'_>)) {
    let bytes = read(name);
    let mut index = Index::new();
    match index.parse(&bytes, Framing::Datagram) {
        Ok(message) => look(message),
        Err(fault) => panic!("{name}: {fault}"),
    }
}

fn rule(name: &str) -> Rule {
    let bytes = read(name);
    Index::new().parse(&bytes, Framing::Datagram).unwrap_err().rule
}

fn plain(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

#[test]
fn each_invalid_message_breaks_the_rule_that_it_was_written_for() {
    let expected = [
        ("badinv01", Rule::Parameter),
        ("clerr", Rule::BodyTooShort),
        ("ncl", Rule::ContentLength),
        ("scalar02", Rule::CSeqNumber),
        ("scalarlg", Rule::CSeqNumber),
        ("quotbal", Rule::QuoteUnbalanced),
        ("ltgtruri", Rule::UriScheme),
        ("lwsruri", Rule::RequestLineSpace),
        ("lwsstart", Rule::RequestLineSpace),
        ("trws", Rule::RequestLineSpace),
        ("escruri", Rule::RequestUriHeaders),
        ("regbadct", Rule::BareUri),
        ("badaspec", Rule::UriScheme),
        ("badvers", Rule::Version),
        ("mismatch01", Rule::CSeqMismatch),
        ("mismatch02", Rule::CSeqMismatch),
        ("bigcode", Rule::StatusCode),
        ("insuf", Rule::Missing(Name::From)),
        ("multi01", Rule::Repeated(Name::CSeq)),
        ("mcl01", Rule::Repeated(Name::ContentLength)),
    ];
    for (name, wanted) in expected {
        assert_eq!(rule(name), wanted, "{name}");
    }
}

#[test]
fn wsinv_is_read_through_its_white_space() {
    with("wsinv", |m| {
        assert_eq!(m.to_tag(), Some(&b"1918181833n"[..]));
        assert_eq!(m.from_tag(), Some(&b"98asjd8"[..]));
        assert_eq!(plain(|out| m.from().display_unquoted(out)), b"J Rosenberg \\\"");
        assert_eq!(m.max_forwards(), Some(68));
        assert_eq!((m.cseq().number, m.cseq().method), (9, Method::Invite));
        assert_eq!(m.body().len(), 150);
        let vias: Vec<_> = m.values(Name::Via).map(|v| Via::parse(v).unwrap()).collect();
        let texts: Vec<_> = vias.iter().map(|v| (v.transport, v.host, v.branch())).collect();
        assert_eq!(
            texts,
            [
                (&b"UDP"[..], &b"192.0.2.2"[..], Some(&b"390skdjuw"[..])),
                (b"TCP", b"spindle.example.com", Some(b"z9hG4bK9ikj8")),
                (b"UDP", b"192.168.255.111", Some(b"z9hG4bK30239")),
            ]
        );
        assert_eq!(m.header(Name::Subject), Some(&b""[..]));
        let contact = m.contact().unwrap();
        assert_eq!(contact.params.value(b"newparam"), Some(&b"newvalue"[..]));
        assert_eq!(contact.params.value(b"q"), Some(&b"0.33"[..]));
        let folded = m.named(b"newfangledheader").next().unwrap();
        assert_eq!(
            plain(|out| unfold(folded, out)),
            b"newfangled value continued newfangled value"
        );
        let route = NameAddr::parse(m.values(Name::Route).next().unwrap()).unwrap();
        assert_eq!(Uri::parse(route.uri).unwrap().params.find(b"lr"), Some(None));
    });
}

#[test]
fn intmeth_keeps_every_strange_byte() {
    with("intmeth", |m| {
        let method = b"!interesting-Method0123456789_*+`.%indeed'~";
        assert_eq!(m.method(), Method::Other(method));
        let uri = m.parse_request_uri().unwrap();
        assert_eq!(uri.user, Some(&b"1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*"[..]));
        assert_eq!(uri.password, Some(&b"&it+has=1,weird!*pas$wo~d_too.(doesn't-it)"[..]));
        assert_eq!(plain(|out| m.to().display_unquoted(out)), b"BEL:\x07 NUL:\0 DEL:\x7f");
        assert_eq!(m.from().display, Some(&b"token1~` token2'+_ token3*%!.-"[..]));
        assert_eq!(m.from_tag(), Some(&b"_token~1'+`*%!-."[..]));
        assert_eq!(m.named(b"extensionHeader-!.%*+_`'~").count(), 1);
        assert_eq!(m.max_forwards(), Some(255));
    });
}

#[test]
fn escapes_are_read_where_they_are_escapes() {
    with("esc01", |m| {
        let uri = m.parse_request_uri().unwrap();
        assert_eq!(plain(|out| uri.user_text(out)), b"sips:user@example.com");
        let contact = Uri::parse(m.contact().unwrap().uri).unwrap();
        assert_eq!(contact.params.find(b"lr"), Some(None));
        assert_eq!(plain(|out| unescape(contact.params.value(b"name").unwrap(), out)), b"value%41");
        let to = Uri::parse(m.to().uri).unwrap();
        assert!(to.equivalent(&Uri::parse(b"sip:user@example.com").unwrap()));
    });
    with("esc02", |m| {
        assert_eq!(m.method(), Method::Other(b"RE%47IST%45R"));
        assert_eq!(m.contacts().count(), 2, "C%6Fntact is no Contact");
        assert_eq!(m.top_via().branch(), Some(&b"z9hG4bK209%fzsnel234"[..]));
        assert_eq!(plain(|out| m.to().display_unquoted(out)), b"%Z%45");
    });
    with("escnull", |m| {
        let user = |uri: &[u8]| plain(|out| Uri::parse(uri).unwrap().user_text(out));
        let users: Vec<_> = m.contacts().map(|c| user(c.uri)).collect();
        assert_eq!(users, [b"\0".to_vec(), b"\0\0".to_vec()]);
    });
    with("semiuri", |m| {
        let uri = m.parse_request_uri().unwrap();
        assert_eq!(plain(|out| uri.user_text(out)), b"user;par=u@example.net");
        assert_eq!(m.values(Name::Accept).count(), 6);
    });
}

#[test]
fn long_many_and_odd_values_are_read() {
    with("longreq", |m| {
        assert_eq!(m.values(Name::Via).count(), 34);
        assert_eq!(m.to().uri.len(), 379);
        assert_eq!(m.values(Name::Via).filter_map(|v| Via::parse(v).ok()).count(), 34);
    });
    with("transports", |m| {
        let transports: Vec<_> =
            m.values(Name::Via).map(|v| Via::parse(v).unwrap().transport).collect();
        assert_eq!(transports, [&b"UDP"[..], b"SCTP", b"TLS", b"UNKNOWN", b"TCP"]);
    });
    with("lwsdisp", |m| assert_eq!(m.from().display, Some(&b"caller"[..])));
    with("unreason", |m| {
        let StartLine::Response { status: 200, reason } = m.start() else { panic!("a 200") };
        assert!(reason.starts_with(b"= 2**3 * 5**2 \xd0\xbd"));
    });
    with("noreason", |m| {
        assert_eq!(m.start(), StartLine::Response { status: 100, reason: b"" });
    });
    with("dblreq", |m| assert!(m.body().is_empty() && m.bytes().ends_with(b": 0\r\n\r\n")));
    with("mpart01", |m| {
        let parts: Vec<_> = m.parts().collect();
        assert_eq!(parts.len(), 2);
        assert_eq!(m.part(b"text/plain"), Some(&b"Hello"[..]));
        // The signature holds CR, LF and NUL; it is not looked into.
        assert_eq!(parts[1].body.len(), 342);
        assert!(parts[1].is(b"application/octet-stream"));
    });
}

/// What the application layer needs for its answer to each row `S`.
#[test]
fn rows_for_the_application_layer_offer_what_it_needs() {
    // No magic cookie with something behind it: matched by the rules of RFC 2543.
    with("badbranch", |m| assert!(!m.top_via().has_unique_branch()));
    with("inv2543", |m| {
        assert!(m.from_tag().is_none() && m.top_via().branch().is_none());
        assert_eq!(m.to().params.value(b"user"), Some(&b"phone"[..]));
        assert!(m.body().starts_with(b"v=0"));
    });
    // 416
    with("unkscm", |m| {
        let scheme = m.parse_request_uri().unwrap().scheme;
        assert_eq!(scheme, Scheme::Other(b"nobodyKnowsThisScheme"));
    });
    with("novelsc", |m| {
        assert_eq!(m.parse_request_uri().unwrap().scheme, Scheme::Other(b"soap.beep"));
    });
    with("unksm2", |m| {
        assert_eq!(Uri::parse(m.to().uri).unwrap().scheme, Scheme::Other(b"isbn"));
        assert_eq!(Uri::parse(m.contact().unwrap().uri).unwrap().scheme, Scheme::Other(b"name"));
    });
    // 420 with Unsupported
    with("bext01", |m| {
        let require: Vec<_> = m.values(Name::Require).collect();
        assert_eq!(require, [&b"nothingSupportsThis"[..], b"nothingSupportsThisEither"]);
    });
    // 415
    with("invut", |m| {
        assert_eq!(m.content_type().unwrap().0, b"application/unknownformat");
        assert!(m.part(b"application/sdp").is_none());
    });
    // 401: credentials of a scheme that nobody knows are none.
    with("regaut01", |m| {
        let credentials = m.headers(Name::Authorization).next().unwrap();
        assert!(credentials.starts_with(b"NoOneKnowsThisScheme "));
    });
    // A response with a second Via is not for a user agent: discarded.
    with("bcast", |m| assert_eq!(m.values(Name::Via).count(), 2));
    // 483
    with("zeromf", |m| assert_eq!(m.max_forwards(), Some(0)));
    with("cparam01", |m| {
        let contact = m.contact().unwrap();
        assert_eq!(contact.uri, b"sip:+19725552222@gw1.example.net");
        assert_eq!(contact.params.find(b"unknownparam"), Some(None));
    });
    with("cparam02", |m| {
        let uri = Uri::parse(m.contact().unwrap().uri).unwrap();
        assert_eq!(uri.params.find(b"unknownparam"), Some(None));
    });
    with("regescrt", |m| {
        let uri = Uri::parse(m.contact().unwrap().uri).unwrap();
        assert_eq!(uri.header(b"route"), Some(&b"%3Csip:sip.example.com%3E"[..]));
    });
    // 406
    with("sdp01", |m| {
        assert_eq!(m.values(Name::Accept).collect::<Vec<_>>(), [b"text/nobodyKnowsThis"]);
    });
}

/// Over a stream the surplus of a datagram would be the next message; the frame ends where
/// Content-Length says.
#[test]
fn case_p14_each_message_gives_the_same_over_a_stream() {
    let mut index = Index::new();
    for (name, _) in expected() {
        let bytes = read(&name);
        let datagram = index.parse(&bytes, Framing::Datagram).map(|m| m.bytes().to_vec());
        match sip::wire::frame(&bytes) {
            Ok(sip::wire::Frame::Message(length)) => {
                let stream = index.parse(&bytes[..length], Framing::Stream);
                assert_eq!(stream.map(|m| m.bytes().to_vec()), datagram, "{name}");
            }
            // Content-Length is wrong, repeated or missing: the connection ends.
            Err(_) => {
                assert!(["ncl", "mcl01", "inv2543"].contains(&name.as_str()), "{name} is framed");
            }
            Ok(frame) => assert_eq!(name, "clerr", "{frame:?}"),
        }
    }
}
