//! What the fuzzer and the replay of its corpus do with an input: read all of it, and check what
//! must hold always.
//!
//! * Nothing panics.
//! * `peek` agrees with the index.
//! * An accepted request's answer is accepted again, with the same identifiers.
//! * Whatever was salvaged, the answer has no line end but CRLF and keeps to its header lines.
//! * A frame of a stream is what the index reads as one message.

use std::net::SocketAddr;

use sip::wire::{
    Builder, CopyWith, Fault, Frame, Framing, Index, Message, Name, NameAddr, StartLine, Uri, Via,
    copy_response_head, frame, peek, response_address, unescape, unfold,
};

/// Runs one input.
pub(crate) fn run(bytes: &[u8]) {
    let mut index = Index::new();
    for framing in [Framing::Datagram, Framing::Stream] {
        let fault = match index.parse(bytes, framing) {
            Ok(message) => {
                walk(&message);
                check_peek(bytes, &message);
                check_answer(&message);
                check_frame(&message);
                continue;
            }
            Err(fault) => fault,
        };
        check_fault(bytes, fault);
        if let Some(message) = index.salvage(bytes) {
            walk(&message);
            let answer = answer(&message, 400);
            check_lines(&answer);
        }
    }
    let _ = peek(bytes);
    match frame(bytes) {
        Ok(Frame::Message(length) | Frame::LineEnds(length)) => {
            assert!(length > 0 && length <= bytes.len());
        }
        Ok(Frame::Partial) => {}
        Err(fault) => check_fault(bytes, fault),
    }
    parts(bytes);
}

/// The smaller parsers, given the input itself.
fn parts(bytes: &[u8]) {
    let mut out = Vec::new();
    if let Err(fault) = Uri::parse(bytes).map(|uri| look_at_uri(&uri)) {
        check_fault(bytes, fault);
    }
    if let Err(fault) = NameAddr::parse(bytes).map(|addr| look_at_addr(&addr)) {
        check_fault(bytes, fault);
    }
    match Via::parse(bytes) {
        Ok(via) => look_at_via(&via),
        Err(fault) => check_fault(bytes, fault),
    }
    unescape(bytes, &mut out);
    unfold(bytes, &mut out);
}

fn check_fault(bytes: &[u8], fault: Fault) {
    assert!(fault.at <= bytes.len(), "{fault} of {}", bytes.len());
    let _ = fault.to_string();
}

fn walk(m: &Message<'_>) {
    let mut out = Vec::new();
    match m.start() {
        StartLine::Request { method, .. } => assert_eq!(method, m.method()),
        StartLine::Response { status, .. } => assert_eq!(Some(status), m.status()),
    }
    for field in m.fields() {
        assert!(m.bytes().len() >= field.line.len());
        assert!(field.line.ends_with(b"\n"));
        assert!(m.named(field.raw_name).next().is_some());
        unfold(field.value, &mut out);
    }
    for &name in Name::ALL {
        assert_eq!(m.header(name), m.headers(name).next());
        for value in m.values(name) {
            assert!(!value.is_empty());
            if let Ok(addr) = NameAddr::parse(value) {
                look_at_addr(&addr);
            }
        }
        let _ = m.number(name);
    }
    look_at_via(&m.top_via());
    look_at_addr(&m.from());
    look_at_addr(&m.to());
    assert_eq!(m.from_tag(), m.from().tag());
    assert_eq!(m.to_tag(), m.to().tag());
    for contact in m.contacts() {
        look_at_addr(&contact);
    }
    let _ = (m.call_id(), m.cseq(), m.max_forwards(), m.is_contact_star(), m.content_type());
    if let Ok(uri) = m.parse_request_uri() {
        look_at_uri(&uri);
    }
    let whole: usize = m.parts().map(|part| part.body.len()).sum();
    assert!(whole <= m.body().len());
    let _ = m.part(b"application/sdp");
}

fn look_at_via(via: &Via<'_>) {
    let _ = (via.branch(), via.has_unique_branch(), via.rport(), via.received_ip());
    let _ = (via.maddr(), via.ttl(), via.sent_by(), via.host_ip());
}

fn look_at_addr(addr: &NameAddr<'_>) {
    addr.display_unquoted(&mut Vec::new());
    for param in addr.params.iter() {
        assert!(addr.params.find(param.name).is_some());
    }
    if let Ok(uri) = Uri::parse(addr.uri) {
        look_at_uri(&uri);
    }
}

fn look_at_uri(uri: &Uri<'_>) {
    uri.user_text(&mut Vec::new());
    for param in uri.params.iter() {
        assert!(uri.params.find(param.name).is_some());
    }
    let _ = (uri.headers().count(), uri.header(b"Replaces"), uri.host_ip(), uri.equivalent(uri));
}

fn check_peek(bytes: &[u8], m: &Message<'_>) {
    let peek = peek(bytes).expect("the index accepts it");
    assert_eq!(peek.is_response, !m.is_request());
    assert_eq!(peek.top_branch, m.top_via().branch().unwrap_or_default());
    if m.is_request() {
        assert_eq!(peek.is_invite, m.method().as_bytes() == b"INVITE");
        assert_eq!(peek.call_id, m.call_id());
        assert_eq!(peek.to_tag, m.to_tag());
        assert_eq!(peek.from_tag, m.from_tag());
    }
}

fn source() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 7], 40_000))
}

fn answer(request: &Message<'_>, status: u16) -> Vec<u8> {
    let mut out = Vec::new();
    let with = CopyWith { record_route: true, timestamp: true };
    Builder::response(&mut out, status, None)
        .with(|out| copy_response_head(out, request, Some(b"ours"), source(), with))
        .no_body();
    let _ = response_address(request, source());
    out
}

fn check_answer(request: &Message<'_>) {
    if !request.is_request() {
        return;
    }
    let bytes = answer(request, 200);
    check_lines(&bytes);
    let mut index = Index::new();
    let answer = match index.parse(&bytes, Framing::Stream) {
        Ok(answer) => answer,
        Err(fault) => panic!("{fault}:\n{}", bytes.escape_ascii()),
    };
    assert_eq!(answer.call_id(), request.call_id());
    assert_eq!(answer.cseq(), request.cseq());
    assert_eq!(answer.from_tag(), request.from_tag());
    assert_eq!(answer.to_tag(), request.to_tag().or(Some(b"ours")));
    assert_eq!(answer.top_via().branch(), request.top_via().branch());
    assert_eq!(answer.values(Name::Via).count(), request.values(Name::Via).count());
    let (again, first) = (answer.top_via(), request.top_via());
    assert_eq!((again.host, again.port), (first.host, first.port));
    let is_theirs = first.host_ip().is_some_and(|ip| ip.to_canonical() == source().ip());
    if !is_theirs || first.rport().is_some() {
        assert_eq!(again.received_ip(), Some(source().ip()));
    }
}

/// Status line and the copied names, each on one line, whatever was in the request.
fn check_lines(bytes: &[u8]) {
    let text = bytes.strip_suffix(b"\r\n\r\n").expect("the builder ends the head");
    let rest = text.split(|b| *b == b'\n');
    for (i, line) in rest.enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        assert!(!line.contains(&b'\r'), "lone CR: {}", bytes.escape_ascii());
        let is_ours = ["Via: ", "Record-Route: ", "From: ", "To: ", "Call-ID: ", "CSeq: "]
            .iter()
            .chain(&["Timestamp: ", "Content-Length: 0"])
            .any(|name| line.starts_with(name.as_bytes()));
        assert!(i == 0 || is_ours, "stray line: {}", bytes.escape_ascii());
    }
    assert_eq!(
        text.iter().filter(|b| **b == b'\n').count(),
        text.windows(2).filter(|w| w == b"\r\n").count()
    );
}

fn check_frame(m: &Message<'_>) {
    let Some(length) = m.header(Name::ContentLength) else { return };
    if m.bytes().len() > sip::wire::HEAD_BYTES_MAX {
        return;
    }
    assert_eq!(frame(m.bytes()), Ok(Frame::Message(m.bytes().len())), "{}", length.escape_ascii());
}
