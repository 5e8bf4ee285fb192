//! Public cases of other stacks, each under its number, with the section that was read for the
//! right behaviour.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use sip::wire::{
    Builder, CopyWith, Framing, Index, Message, Method, Name, NameAddr, Rule, Uri, Via,
    copy_response_head, response_address,
};

const SOURCE: &str = "192.0.2.9:5060";

/// A request with its mandatory header fields, two of which may be replaced, and one more put in.
struct Request {
    method: &'static str,
    uri: &'static str,
    via: &'static str,
    from: &'static str,
    cseq: Option<&'static str>,
    more: String,
    body: &'static str,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            method: "OPTIONS",
            uri: "sip:1001@192.0.2.1",
            via: "SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1",
            from: "<sip:1002@192.0.2.9>;tag=a",
            cseq: None,
            more: String::new(),
            body: "",
        }
    }
}

impl Request {
    fn text(&self) -> Vec<u8> {
        let Self { method, uri, via, from, more, body, .. } = self;
        let cseq = self.cseq.map_or_else(|| format!("1 {method}"), str::to_owned);
        format!(
            "{method} {uri} SIP/2.0\r\nVia: {via}\r\nFrom: {from}\r\nTo: <sip:1001@192.0.2.1>\r\n\
             Call-ID: c1\r\nCSeq: {cseq}\r\nMax-Forwards: 70\r\n{more}\r\n{body}"
        )
        .into_bytes()
    }

    fn rule(&self) -> Option<Rule> {
        self.rule_as(Framing::Datagram)
    }

    fn rule_as(&self, framing: Framing) -> Option<Rule> {
        Index::new().parse(&self.text(), framing).err().map(|f| f.rule)
    }
}

fn with<T>(bytes: &[u8], look: impl FnOnce(Message<'_>) -> T) -> T {
    let mut index = Index::new();
    match index.parse(bytes, Framing::Datagram) {
        Ok(message) => look(message),
        Err(fault) => panic!("{fault}:\n{}", bytes.escape_ascii()),
    }
}

fn answer(request: &Message<'_>, status: u16, with: CopyWith) -> String {
    let mut out = Vec::new();
    Builder::response(&mut out, status, None)
        .with(|out| copy_response_head(out, request, Some(b"t1"), SOURCE.parse().unwrap(), with))
        .no_body();
    String::from_utf8(out).unwrap()
}

/// RFC 3261 7.3.1, 7.3.3, 20: names in any case and in compact form, white space before the colon.
#[test]
fn case_p01_compact_names_mean_the_same() {
    let bytes =
        b"INVITE sip:1001@192.0.2.1 SIP/2.0\r\nV: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1\r\n\
        f: <sip:a@b>;tag=a\r\nT : <sip:1001@192.0.2.1>\r\ni\t: c1\r\nCSEQ:1 INVITE\r\n\
        M: <sip:a@192.0.2.9>\r\nc: application/sdp\r\nl : 5\r\n\r\nv=0\r\n";
    with(bytes, |m| {
        assert_eq!(m.top_via().branch(), Some(&b"z9hG4bK1"[..]));
        assert_eq!((m.from_tag(), m.to_tag()), (Some(&b"a"[..]), None));
        assert_eq!(m.call_id(), b"c1");
        assert_eq!(m.contact().unwrap().uri, b"sip:a@192.0.2.9");
        assert_eq!(m.part(b"application/sdp"), Some(&b"v=0\r\n"[..]));
        assert_eq!(
            answer(&m, 180, CopyWith::default()),
            "SIP/2.0 180 Ringing\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1\r\n\
             From: <sip:a@b>;tag=a\r\nTo: <sip:1001@192.0.2.1>;tag=t1\r\nCall-ID: c1\r\n\
             CSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
        );
    });
}

/// RFC 3261 10.2.2, 20.10: `*` is for REGISTER.
#[test]
fn case_p02_contact_star_outside_register_is_a_400() {
    for method in ["INVITE", "SUBSCRIBE", "MESSAGE"] {
        let more = "Contact: *\r\n".to_owned();
        let request = Request { method, more, ..Request::default() };
        assert_eq!(request.rule(), Some(Rule::ContactStar), "{method}");
    }
    let more = "Contact: *\r\nExpires: 0\r\n".to_owned();
    let register = Request { method: "REGISTER", more, ..Request::default() };
    with(&register.text(), |m| {
        assert!(m.is_contact_star() && m.contact().is_none());
        assert_eq!(m.number(Name::Expires), Some(0));
    });
}

/// RFC 3261 8.1.1.5: a decimal below 2^31 and the request's own method.
#[test]
fn case_p03_cseq_is_a_number_that_fits_and_the_requests_method() {
    for (cseq, rule) in [
        ("abcdefg", Rule::CSeqNumber),
        ("115211521152 OPTIONS", Rule::CSeqNumber),
        ("2147483648 OPTIONS", Rule::CSeqNumber),
        ("4294967297 OPTIONS", Rule::CSeqNumber),
        ("1 INVITE", Rule::CSeqMismatch),
        ("1 options", Rule::CSeqMismatch),
        ("1", Rule::CSeqMethod),
        ("", Rule::CSeqNumber),
    ] {
        let request = Request { cseq: Some(cseq), ..Request::default() };
        assert_eq!(request.rule(), Some(rule), "{cseq:?}");
    }
    let largest = Request { cseq: Some("2147483647 OPTIONS"), ..Request::default() };
    with(&largest.text(), |m| assert_eq!(m.cseq().number, 2_147_483_647));
}

/// RFC 3261 17.2.3, 8.2.1: no branch, a long extension method; the answer copies the head.
#[test]
fn case_p04_no_branch_and_a_long_method_are_read_whole() {
    let method = "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGH";
    let request = Request { method, via: "SIP/2.0/UDP 192.0.2.9", ..Request::default() };
    with(&request.text(), |m| {
        assert_eq!(m.method(), Method::Other(method.as_bytes()));
        assert!(!m.top_via().has_unique_branch());
        let answer = answer(&m, 405, CopyWith::default());
        assert!(answer.contains(&format!("CSeq: 1 {method}\r\n")));
        assert!(answer.contains("Via: SIP/2.0/UDP 192.0.2.9\r\n"));
    });
}

/// RFC 3261 20.10, 25.1: nothing but parameters may follow the address.
#[test]
fn case_p05_a_stray_quote_behind_the_contact_is_a_400() {
    for contact in [
        "<sip:42@192.0.2.9:5060;ob>\"",
        "<sip:42@192.0.2.9:5060;ob> \"",
        "<sip:42@192.0.2.9:5060;ob>x",
        "\"42 <sip:42@192.0.2.9>",
        "42\" <sip:42@192.0.2.9>",
        "<sip:42@192.0.2.9",
        "<>",
        "<sip:42@192.0.2.9>, <",
    ] {
        let request = Request {
            method: "INVITE",
            via: "SIP/2.0/UDP 192.0.2.9;branch=1",
            more: format!("Contact: {contact}\r\nContent-Length: 0\r\n"),
            ..Request::default()
        };
        let bytes = request.text();
        let mut index = Index::new();
        let fault = index.parse(&bytes, Framing::Datagram).unwrap_err();
        assert_eq!(fault.rule.status(), Some(400), "{contact}");
        let salvaged = index.salvage(&bytes).unwrap();
        assert!(answer(&salvaged, 400, CopyWith::default()).contains("CSeq: 1 INVITE\r\n"));
    }
}

/// RFC 3261 7.4.1, 20.15, 20.37: an empty Supported is legal, a body without a type is of an
/// unknown one.
#[test]
fn case_p06_a_body_without_a_type_and_an_empty_supported() {
    let request = Request {
        method: "INVITE",
        via: "SIP/2.0/UDP 192.0.2.9;branch=1",
        more: "Supported:\r\nContent-length: 5\r\n".to_owned(),
        body: "v=0\r\n",
        ..Request::default()
    };
    with(&request.text(), |m| {
        assert_eq!(m.values(Name::Supported).count(), 0);
        assert_eq!(m.header(Name::Supported), Some(&b""[..]));
        assert!(m.content_type().is_none() && m.part(b"application/sdp").is_none());
        assert_eq!(m.body(), b"v=0\r\n");
    });
}

/// RFC 3261 18.3, 20.14; RFC 4475 3.1.2.2, 3.1.2.3.
#[test]
fn case_p07_content_length_is_a_number_that_the_datagram_can_fill() {
    let with_length = |length: &str| Request {
        method: "INVITE",
        more: format!("Content-Length: {length}\r\n"),
        body: "0123456789",
        ..Request::default()
    };
    for length in ["-1", "99999999999", "12abc", "", "+5", "1 0", "0x5"] {
        assert_eq!(with_length(length).rule(), Some(Rule::ContentLength), "{length}");
        assert!(sip::wire::frame(&with_length(length).text()).is_err(), "{length}");
    }
    assert_eq!(with_length("11").rule(), Some(Rule::BodyTooShort));
    with(&with_length("4").text(), |m| assert_eq!(m.body(), b"0123"));
    with(&with_length("0010").text(), |m| assert_eq!(m.body(), b"0123456789"));
    let without = Request { body: "0123456789", ..Request::default() };
    with(&without.text(), |m| assert_eq!(m.body(), b"0123456789"));
    let missing = Some(Rule::Missing(Name::ContentLength));
    assert_eq!(without.rule_as(Framing::Stream), missing);
}

/// RFC 3261 19.1.1, 25.1: an empty user part is against the grammar; it is read as none.
#[test]
fn case_p08_an_empty_user_is_no_user() {
    let request =
        Request { method: "REGISTER", from: "<sip:@192.0.2.10>;tag=a", ..Request::default() };
    with(&request.text(), |m| {
        let uri = Uri::parse(m.from().uri).unwrap();
        assert_eq!((uri.user, uri.host), (None, &b"192.0.2.10"[..]));
    });
}

/// RFC 3261 25.1 (other-param): a parameter without a value is present.
#[test]
fn case_p10_a_parameter_without_a_value_is_present() {
    let from = "<sip:1001@example.com;a=this;b;c=that>;tag=1";
    with(&Request { from, ..Request::default() }.text(), |m| {
        let params = Uri::parse(m.from().uri).unwrap().params;
        assert_eq!(params.find(b"b"), Some(None));
        assert_eq!(params.find(b"c"), Some(Some(&b"that"[..])));
        assert_eq!(params.find(b"d"), None);
        assert_eq!(m.from_tag(), Some(&b"1"[..]));
    });
}

/// RFC 3261 7.3.1, 25.1: only a line end with white space behind it folds; a lone CR or LF is none.
#[test]
fn case_p11_a_bare_line_feed_is_a_400() {
    let default = Request { method: "REGISTER", ..Request::default() };
    for (name, request) in [
        ("request line", Request { uri: "sip:1001\n@192.0.2.1", ..default }),
        ("From", Request { from: "<sip:10\n02@192.0.2.9>;tag=a", ..Request::default() }),
        ("From, CR", Request { from: "<sip:10\r02@192.0.2.9>;tag=a", ..Request::default() }),
        ("fold by LF", Request { from: "<sip:1002@192.0.2.9>\n ;tag=a", ..Request::default() }),
        (
            "CR between parameters",
            Request { from: "<sip:1002@192.0.2.9>\r;tag=a", ..Request::default() },
        ),
        ("unknown header", Request { more: "X: a\rb\r\n".to_owned(), ..Request::default() }),
    ] {
        let rule = request.rule().unwrap_or_else(|| panic!("{name} is accepted"));
        assert_eq!(rule.status(), Some(400), "{name}");
    }
    let folded = Request { from: "<sip:1002@192.0.2.9>\r\n\t;tag=a", ..Request::default() };
    with(&folded.text(), |m| assert_eq!(m.from_tag(), Some(&b"a"[..])));
    // A lone CR in the body is the body's matter.
    let body = Request { body: "a\rb\nc", ..Request::default() };
    with(&body.text(), |m| assert_eq!(m.body(), b"a\rb\nc"));
}

/// RFC 3261 25.1, 19.1.1; RFC 5118 4.1, 4.5, 4.2; RFC 6874.
#[test]
fn case_p15_ipv6_is_read_with_its_brackets_and_written_once_with_them() {
    for via in [
        "SIP/2.0/UDP [2001:db8::1]:5060;received=2001:db8::1;branch=z9hG4bK1",
        "SIP/2.0/UDP [2001:db8::1]:5060;received=[2001:db8::1];branch=z9hG4bK1",
    ] {
        with(&Request { via, ..Request::default() }.text(), |m| {
            assert_eq!(m.top_via().received(), Some(&b"2001:db8::1"[..]));
            assert_eq!((m.top_via().host, m.top_via().is_ipv6), (&b"2001:db8::1"[..], true));
            let mut out = Vec::new();
            let source = "[2001:db8::2]:5062".parse().unwrap();
            copy_response_head(&mut out, &m, None, source, CopyWith::default());
            let text = String::from_utf8(out).unwrap();
            let top = text.lines().next().unwrap();
            assert_eq!(
                top,
                "Via: SIP/2.0/UDP [2001:db8::1]:5060;branch=z9hG4bK1;received=2001:db8::2"
            );
            assert_eq!(response_address(&m, source), "[2001:db8::2]:5060".parse().unwrap());
        });
    }
    let more = "Contact: <sip:1008@[fe80::1%254]>\r\n".to_owned();
    with(&Request { method: "REGISTER", more, ..Request::default() }.text(), |m| {
        assert_eq!(Uri::parse(m.contact().unwrap().uri).unwrap().host, b"fe80::1%254");
    });
    let bare = Request { uri: "sip:5353@2001:db8::2019", ..Request::default() };
    assert_eq!(bare.rule().and_then(Rule::status), Some(400));
}

/// RFC 3261 12.1.1: all values, in order, in the responses that make a dialog.
#[test]
fn case_rr03_record_route_is_copied_whole_and_in_order() {
    let more = "Record-Route: <sip:p2;lr>, <sip:p1;lr>\r\nRecord-Route: <sip:p0;lr>\r\n".to_owned();
    let request = Request { method: "INVITE", more, ..Request::default() };
    with(&request.text(), |m| {
        let dialog = answer(&m, 200, CopyWith { record_route: true, timestamp: false });
        assert!(
            dialog.contains(
                "Record-Route: <sip:p2;lr>, <sip:p1;lr>\r\nRecord-Route: <sip:p0;lr>\r\n"
            )
        );
        assert!(!answer(&m, 404, CopyWith::default()).contains("Record-Route"));
        let route_set: Vec<_> =
            m.values(Name::RecordRoute).map(|value| NameAddr::parse(value).unwrap().uri).collect();
        assert_eq!(route_set, [&b"sip:p2;lr"[..], b"sip:p1;lr", b"sip:p0;lr"]);
    });
}

/// RFC 5621 3, RFC 2046 5.1.
#[test]
fn case_s07_the_session_description_is_found_inside_multipart() {
    let request = Request {
        method: "INVITE",
        more: "Content-Type: multipart/mixed;boundary=\"b1\"\r\n".to_owned(),
        body: "preamble\r\n--b1x\r\n--b1 \r\nContent-Type: application/pidf+xml\r\n\r\n<p/>\r\n\
               --b1\r\ncontent-type : Application/SDP\r\nContent-Disposition: session\r\n\r\n\
               v=0\r\ns=-\r\n\r\n--b1--\r\nepilogue",
        ..Request::default()
    };
    with(&request.text(), |m| {
        assert_eq!(m.part(b"application/sdp"), Some(&b"v=0\r\ns=-\r\n"[..]));
        assert_eq!(m.part(b"application/pidf+xml"), Some(&b"<p/>"[..]));
        let parts: Vec<_> = m.parts().collect();
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[1].disposition, Some(&b"session"[..]));
    });
}

/// RFC 3261 18.2.1, 18.2.2; RFC 3581 4.
#[test]
fn the_top_via_is_stamped_only_where_it_must_be() {
    let far = "198.51.100.1:40000".parse().unwrap();
    let near = SOURCE.parse().unwrap();
    for (via, source, stamped, to) in [
        ("192.0.2.9;branch=1", near, "192.0.2.9;branch=1", "192.0.2.9:5060"),
        ("192.0.2.9:7 ;branch=1", near, "192.0.2.9:7 ;branch=1", "192.0.2.9:7"),
        ("[::ffff:192.0.2.9];branch=1", near, "[::ffff:192.0.2.9];branch=1", "192.0.2.9:5060"),
        ("pc.invalid;branch=1", near, "pc.invalid;branch=1;received=192.0.2.9", "192.0.2.9:5060"),
        ("10.0.0.1:7;branch=1", far, "10.0.0.1:7;branch=1;received=198.51.100.1", "198.51.100.1:7"),
        (
            "192.0.2.9;rport;branch=1",
            near,
            "192.0.2.9;branch=1;received=192.0.2.9;rport=5060",
            "192.0.2.9:5060",
        ),
        (
            "10.0.0.1;RPORT=9;branch=1;received=6.6.6.6;x",
            far,
            "10.0.0.1;branch=1;x;received=198.51.100.1;rport=40000",
            "198.51.100.1:40000",
        ),
        // What the sender says about itself is not believed.
        ("192.0.2.9;received=6.6.6.6;branch=1", near, "192.0.2.9;branch=1", "192.0.2.9:5060"),
        ("192.0.2.9;maddr=6.6.6.6", near, "192.0.2.9;maddr=6.6.6.6", "192.0.2.9:5060"),
    ] {
        let more = format!("Via: SIP/2.0/UDP\r\n {via} , SIP/2.0/TCP second\r\n");
        let bytes = String::from_utf8(Request::default().text()).unwrap();
        let (line, rest) = bytes.split_once("\r\n").unwrap();
        let (_, rest) = rest.split_once("\r\n").unwrap();
        let bytes = format!("{line}\r\n{more}{rest}");
        with(bytes.as_bytes(), |m| {
            let mut out = Vec::new();
            copy_response_head(&mut out, &m, None, source, CopyWith::default());
            let text = String::from_utf8(out).unwrap();
            let (top, others) = text.lines().next().unwrap().split_once(',').unwrap();
            assert_eq!(top.trim_end(), format!("Via: SIP/2.0/UDP {stamped}"));
            assert_eq!(others, " SIP/2.0/TCP second");
            assert_eq!(response_address(&m, source), to.parse().unwrap(), "{via}");
        });
    }
}

/// RFC 3261 7.5 and the robustness of the field.
#[test]
fn lf_only_messages_and_leading_line_ends_are_read() {
    let text = String::from_utf8(Request { body: "b\r\n", ..Request::default() }.text()).unwrap();
    let lf = format!("\r\n\r\n{}", text.replace("b\r\n", "").replace("\r\n", "\n"));
    let folded = lf.replace(">;tag=a", ">\n ;tag=a");
    for text in [lf, folded] {
        with(text.as_bytes(), |m| {
            assert_eq!(m.from_tag(), Some(&b"a"[..]));
            assert!(m.bytes().starts_with(b"OPTIONS "));
            let answer = answer(&m, 200, CopyWith::default());
            assert_eq!(answer.matches('\n').count(), answer.matches("\r\n").count());
        });
    }
    let mixed = text.replace("Max-Forwards: 70\r\n", "Max-Forwards: 70\n");
    let rule = Index::new().parse(mixed.as_bytes(), Framing::Datagram).unwrap_err().rule;
    assert_eq!(rule, Rule::BareLineEnd);
}

#[test]
fn what_is_no_message_is_discarded() {
    for (bytes, rule) in [
        (&b""[..], Rule::KeepAlive),
        (b"\r\n\r\n", Rule::KeepAlive),
        (b"\0\0\0\0", Rule::KeepAlive),
        (b"\x16\x03\x01\x02\x00\x01", Rule::NotSip),
        (b"\0\x01\0\0\x21\x12\xa4\x42", Rule::NotSip),
    ] {
        let mut index = Index::new();
        let fault = index.parse(bytes, Framing::Datagram).unwrap_err();
        assert_eq!((fault.rule, fault.rule.status()), (rule, None));
        assert!(index.salvage(bytes).is_none());
    }
}

#[test]
fn a_response_and_an_ack_are_never_answered() {
    let ack = Request { method: "ACK", cseq: Some("1 INVITE"), ..Request::default() }.text();
    let response = b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\n\r\n".to_vec();
    for bytes in [ack, response] {
        let mut index = Index::new();
        assert!(index.parse(&bytes, Framing::Datagram).is_err());
        assert!(index.salvage(&bytes).is_none());
    }
}

#[test]
fn each_limit_is_answered_and_one_less_is_read() {
    use sip::wire::{HEADER_BYTES_MAX, HEADERS_MAX, URI_BYTES_MAX};
    let fields = |count: usize| Request { more: "X: y\r\n".repeat(count), ..Request::default() };
    assert_eq!(fields(HEADERS_MAX - 6).rule(), None);
    assert_eq!(fields(HEADERS_MAX - 5).rule(), Some(Rule::TooManyHeaders));
    let long = |bytes: usize| Request {
        more: format!("X: {}\r\n", "y".repeat(bytes - 5)),
        ..Request::default()
    };
    assert_eq!(long(HEADER_BYTES_MAX).rule(), None);
    assert_eq!(long(HEADER_BYTES_MAX + 1).rule(), Some(Rule::HeaderTooLong));
    for (bytes, rule) in [(URI_BYTES_MAX, None), (URI_BYTES_MAX + 1, Some(Rule::UriTooLong))] {
        let uri = format!("sip:{}@a", "u".repeat(bytes - 6));
        let text = String::from_utf8(Request::default().text()).unwrap();
        let text = text.replace("sip:1001@192.0.2.1 ", &format!("{uri} "));
        let mut index = Index::new();
        let fault = index.parse(text.as_bytes(), Framing::Datagram).err();
        assert_eq!(fault.map(|f| f.rule), rule);
    }
    let huge = vec![b'a'; sip::wire::MESSAGE_BYTES_MAX + 1];
    let fault = Index::new().parse(&huge, Framing::Datagram).unwrap_err();
    assert_eq!((fault.rule, fault.rule.status()), (Rule::MessageTooLong, Some(513)));
}

#[test]
fn a_fault_names_its_byte() {
    let bytes = Request { cseq: Some("x OPTIONS"), ..Request::default() }.text();
    let fault = Index::new().parse(&bytes, Framing::Datagram).unwrap_err();
    assert_eq!(&bytes[fault.at..fault.at + 9], b"x OPTIONS");
    assert_eq!(fault.to_string(), format!("malformed CSeq number at byte {}", fault.at));
}

#[test]
fn a_list_is_split_and_a_line_is_not() {
    let more = "Contact: \"a, b\" <sip:a,b@c>;q=1, <sip:d>\r\nm: sip:e\r\n".to_owned();
    with(&Request { method: "REGISTER", more, ..Request::default() }.text(), |m| {
        assert_eq!(m.headers(Name::Contact).count(), 2);
        let uris: Vec<_> = m.contacts().map(|c| c.uri).collect();
        assert_eq!(uris, [&b"sip:a,b@c"[..], b"sip:d", b"sip:e"]);
        assert_eq!(m.named(b"CONTACT").count(), 2);
        assert_eq!(m.fields().filter(|f| f.name == Name::Contact).count(), 2);
        let via = m.fields().next().unwrap();
        assert_eq!((via.name, via.raw_name), (Name::Via, &b"Via"[..]));
        assert_eq!(via.line, b"Via: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1\r\n");
        assert_eq!(Via::parse(via.value).unwrap(), m.top_via());
    });
}
