//! Properties of the wire layer over generated messages, sound ones with all their freedom.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use sip::wire::{
    Builder, CopyWith, Framing, Index, Method, Name, NameAddr, Uri, Values, copy_response_head,
    escape_user, peek, unescape, unfold, unquote,
};

/// White space where the grammar has LWS.
fn lws() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", " ", "\t", "  ", "\r\n ", " \r\n\t "])
}

/// White space where there must be some.
fn some_lws() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![" ", "\t", "  ", "\r\n ", " \r\n\t "])
}

fn any_case(text: &'static str) -> impl Strategy<Value = String> {
    prop::collection::vec(any::<bool>(), text.len()).prop_map(move |upper| {
        let flip = |(c, up): (char, bool)| {
            if up { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
        };
        text.chars().zip(upper).map(flip).collect()
    })
}

/// A header name in its long or compact form, any case, with white space before the colon.
fn name(long: &'static str, compact: &'static str) -> impl Strategy<Value = String> {
    let compact = if compact.is_empty() { long } else { compact };
    (prop_oneof![any_case(long), any_case(compact)], prop::sample::select(vec!["", " ", "\t"]))
        .prop_map(|(name, space)| format!("{name}{space}:"))
}

fn host() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9-]{0,8}\\.example",
        any::<std::net::Ipv4Addr>().prop_map(|ip| ip.to_string()),
        any::<std::net::Ipv6Addr>().prop_map(|ip| format!("[{ip}]")),
    ]
}

fn uri() -> impl Strategy<Value = String> {
    (
        "([a-zA-Z0-9_.!~*'()&=+$,;?/-]|%[0-9A-F]{2}){1,12}",
        host(),
        prop::option::of(any::<u16>()),
        prop::sample::select(vec!["", ";lr", ";transport=udp;lr"]),
    )
        .prop_map(|(user, host, port, params)| {
            let port = port.map_or_else(String::new, |p| format!(":{p}"));
            format!("sip:{user}@{host}{port}{params}")
        })
}

fn display() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[A-Za-z0-9. ]{1,9}",
        "\"([ !#-\\[\\]-~]|\\\\[ -~]|\u{e4}|\u{4e16}){0,12}\"",
    ]
}

fn token() -> impl Strategy<Value = String> {
    "[A-Za-z0-9.!%*_+`'~-]{1,12}"
}

#[derive(Clone, Debug)]
struct Sound {
    bytes: Vec<u8>,
    method: String,
    branch: String,
    call_id: String,
    from_tag: String,
    to_tag: Option<String>,
    uri: String,
    body: Vec<u8>,
}

prop_compose! {
    fn via()(
        name in name("Via", "v"), a in lws(), b in lws(), gap in some_lws(), host in host(),
        c in lws(), branch in token(), d in lws(),
        more in prop::sample::select(vec!["", ";rport", " , SIP/2.0/TCP x"]),
    ) -> (String, String) {
        let line = format!("{name}{a}SIP/2.0{b}/UDP{gap}{host}{c};{d}branch={branch}{more}");
        (line, branch)
    }
}

prop_compose! {
    fn address(long: &'static str, compact: &'static str)(
        name in name(long, compact), a in lws(), display in display(), uri in uri(), b in lws(),
        other in prop::sample::select(vec!["", ";x", ";x=\"a;tag=no\"", " ; y = z"]),
        tag in token(),
    ) -> (String, String, String) {
        let gap = if display.is_empty() { "" } else { " " };
        (format!("{name}{a}{display}{gap}<{uri}>{other}{b}"), uri, tag)
    }
}

prop_compose! {
    fn sound()(
        method in prop_oneof![Just("INVITE".to_owned()), Just("ACK".to_owned()), token()],
        via in via(), from in address("From", "f"), to in address("To", "t"),
        has_to_tag in any::<bool>(), call_id in "[!-~]{1,20}",
        names in (name("Call-ID", "i"), name("CSeq", ""), name("Content-Length", "l")),
        number in 0_u32..1 << 31, gap in some_lws(), request_uri in uri(),
        body in prop::collection::vec(any::<u8>(), 0..40), order in any::<u64>(),
    ) -> Sound {
        let (via, branch) = via;
        let (from, _, from_tag) = from;
        let (to, uri, to_tag) = to;
        let to_tag = has_to_tag.then_some(to_tag);
        let tag = to_tag.as_ref().map_or_else(String::new, |t| format!(";tag={t}"));
        let mut lines = [
            via,
            format!("{from};tag={from_tag}"),
            format!("{to}{tag}"),
            format!("{} {call_id}", names.0),
            format!("{} {number}{gap}{method}", names.1),
            format!("{} {}", names.2, body.len()),
            "X-Strange: \u{e4}\"<,".to_owned(),
        ];
        // Header fields come in any order.
        let mut rest = order;
        for i in (1..lines.len()).rev() {
            lines.swap(i, (rest % (i as u64 + 1)) as usize);
            rest /= i as u64 + 1;
        }
        let lines = lines.join("\r\n");
        let head = format!("{method} {request_uri} SIP/2.0\r\n{lines}\r\n\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&body);
        Sound { bytes, method, branch, call_id, from_tag, to_tag, uri, body }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn a_sound_request_is_read_as_it_was_meant(sound in sound()) {
        let mut index = Index::new();
        let m = index.parse(&sound.bytes, Framing::Stream).map_err(|fault| {
            TestCaseError::fail(format!("{fault}: {}", sound.bytes.escape_ascii()))
        })?;
        prop_assert_eq!(m.method(), Method::of(sound.method.as_bytes()));
        prop_assert_eq!(m.top_via().branch(), Some(sound.branch.as_bytes()));
        prop_assert_eq!(m.call_id(), sound.call_id.as_bytes());
        prop_assert_eq!(m.from_tag(), Some(sound.from_tag.as_bytes()));
        prop_assert_eq!(m.to_tag(), sound.to_tag.as_deref().map(str::as_bytes));
        prop_assert_eq!(m.to().uri, sound.uri.as_bytes());
        prop_assert!(Uri::parse(m.to().uri).is_ok_and(|uri| uri.equivalent(&uri)));
        prop_assert_eq!(m.body(), &sound.body[..]);
    }

    #[test]
    fn peek_agrees_with_the_index(
        sound in sound(),
        cut in any::<prop::sample::Index>(),
        junk in "[ -~\r\n]{0,4}",
    ) {
        // The message itself, and the message with something put into it.
        let at = cut.index(sound.bytes.len());
        let mut changed = sound.bytes.clone();
        changed.splice(at..at, junk.bytes());
        let mut index = Index::new();
        for bytes in [&sound.bytes, &changed] {
            let Ok(m) = index.parse(bytes, Framing::Datagram) else { continue };
            let peek = peek(bytes).expect("the index accepts it");
            prop_assert_eq!(peek.is_response, !m.is_request());
            prop_assert_eq!(peek.top_branch, m.top_via().branch().unwrap_or_default());
            prop_assert_eq!(peek.call_id, m.call_id());
            prop_assert_eq!(peek.to_tag, m.to_tag());
            prop_assert_eq!(peek.from_tag, m.from_tag());
            prop_assert_eq!(peek.is_invite, m.method() == Method::Invite);
        }
    }

    #[test]
    fn an_answer_keeps_the_requests_identifiers(
        sound in sound(),
        tag in token(),
        source in any::<std::net::SocketAddr>(),
    ) {
        let mut index = Index::new();
        let request = index.parse(&sound.bytes, Framing::Datagram).unwrap();
        let mut out = Vec::new();
        Builder::response(&mut out, 486, None)
            .with(|out| {
                let with = CopyWith::default();
                copy_response_head(out, &request, Some(tag.as_bytes()), source, with);
            })
            .no_body();
        let mut index = Index::new();
        let answer = index.parse(&out, Framing::Stream).unwrap();
        prop_assert_eq!(answer.status(), Some(486));
        prop_assert_eq!(answer.call_id(), request.call_id());
        prop_assert_eq!(answer.cseq(), request.cseq());
        prop_assert_eq!(answer.from_tag(), request.from_tag());
        prop_assert_eq!(answer.to_tag(), request.to_tag().or(Some(tag.as_bytes())));
        prop_assert_eq!(answer.top_via().branch(), request.top_via().branch());
        let far = source.ip().to_canonical();
        let is_near = request.top_via().host_ip().map(|ip| ip.to_canonical()) == Some(far);
        let asked = request.top_via().rport().is_some();
        let received = (!is_near || asked).then_some(far);
        prop_assert_eq!(answer.top_via().received_ip(), received);
        prop_assert_eq!(answer.top_via().rport(), asked.then_some(Some(source.port())));
    }

    #[test]
    fn what_was_built_is_read_again(
        values in prop::collection::vec(
            ("[A-Z][A-Za-z-]{0,9}[0-9]", "[!-~]([ -~]{0,20}[!-~])?"),
            0..20,
        ),
        body in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut out = Vec::new();
        let mut builder = Builder::request(&mut out, b"MESSAGE", b"sip:a@b")
            .parts(Name::Via, &[b"SIP/2.0/UDP ", b"h", b";branch=z9hG4bK1"])
            .header(Name::From, b"<sip:a@b>;tag=1")
            .header(Name::To, b"<sip:a@b>")
            .header(Name::CallId, b"c")
            .line(b"CSeq: 1 MESSAGE\r\n")
            .number(Name::MaxForwards, 70);
        for (name, value) in &values {
            builder = builder.raw_header(name.as_bytes(), value.as_bytes());
        }
        builder.body(Some(b"text/plain"), &body);
        let mut index = Index::new();
        let m = index.parse(&out, Framing::Stream).unwrap();
        let read: Vec<_> = m
            .fields()
            .filter(|f| f.name == Name::Other)
            .map(|f| (f.raw_name.to_vec(), f.value.to_vec()))
            .collect();
        let written: Vec<_> =
            values.into_iter().map(|(n, v)| (n.into_bytes(), v.into_bytes())).collect();
        prop_assert_eq!(read, written);
        prop_assert_eq!(m.body(), &body[..]);
        prop_assert_eq!(m.bytes().len(), out.len());
    }

    #[test]
    fn escaping_is_undone_by_unescaping(text in prop::collection::vec(any::<u8>(), 1..40)) {
        let mut uri = b"sip:".to_vec();
        escape_user(&text, &mut uri);
        uri.extend_from_slice(b"@h");
        let parsed = Uri::parse(&uri).unwrap();
        let mut back = Vec::new();
        parsed.user_text(&mut back);
        prop_assert_eq!(&back, &text);
        back.clear();
        unescape(parsed.user.unwrap(), &mut back);
        prop_assert_eq!(back, text);
    }

    #[test]
    fn a_list_joined_is_the_list_split(
        addresses in prop::collection::vec((display(), uri()), 1..6),
        gap in lws(),
    ) {
        let list: Vec<_> = addresses.iter().map(|(d, u)| format!("{d} <{u}>")).collect();
        let joined = list.join(&format!("{gap},{gap}"));
        let split: Vec<_> =
            Values::new(joined.as_bytes()).map(|v| NameAddr::parse(v).unwrap().uri).collect();
        let uris: Vec<_> = addresses.iter().map(|(_, u)| u.as_bytes()).collect();
        prop_assert_eq!(split, uris);
    }

    #[test]
    fn unfolded_text_has_no_line_end(
        text in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(b"\r\n \t\"\\".to_vec())],
            0..40,
        ),
    ) {
        let mut out = Vec::new();
        unfold(&text, &mut out);
        unquote(&text, &mut out);
        prop_assert!(!out.contains(&b'\r') && !out.contains(&b'\n'));
    }
}
