//! The messages that the transaction layer writes by itself: the ACK of a non-2xx response
//! (RFC 3261 §17.1.1.3), a CANCEL (§9.1), and an answer written again from its request.

use crate::wire::{
    Builder, CopyWith, Message, Name, copy_response_head, push_decimal, reason_phrase, unfold,
};
use std::net::SocketAddr;

/// Max-Forwards of what we originate (§8.1.1.6).
const MAX_FORWARDS: &[u8] = b"70";

/// The ACK of `response` to `invite`: the To of the response, all else of the INVITE, no body.
pub(super) fn ack(out: &mut Vec<u8>, invite: &Message<'_>, response: &Message<'_>) {
    same_hop(out, b"ACK", invite, response.header(Name::To).unwrap_or_default());
}

/// The CANCEL of `invite`.
pub(super) fn cancel(out: &mut Vec<u8>, invite: &Message<'_>) {
    same_hop(out, b"CANCEL", invite, invite.header(Name::To).unwrap_or_default());
}

/// A request that goes where `invite` went: its Request-URI, only its top Via, its Route.
fn same_hop(out: &mut Vec<u8>, method: &[u8], invite: &Message<'_>, to: &[u8]) {
    let number = invite.cseq().number;
    let mut builder = Builder::request(out, method, invite.request_uri())
        .header(Name::Via, invite.top_via().raw)
        .header(Name::MaxForwards, MAX_FORWARDS);
    for route in invite.headers(Name::Route) {
        builder = builder.header(Name::Route, route);
    }
    builder
        .header(Name::From, invite.header(Name::From).unwrap_or_default())
        .composed(Name::To, |value| unfold(to, value))
        .header(Name::CallId, invite.call_id())
        .composed(Name::CSeq, |value| {
            push_decimal(value, u64::from(number));
            value.push(b' ');
            value.extend_from_slice(method);
        })
        .no_body();
}

/// Writes the answer `status` to `request` again; see [`is_plain`]. `to_tag` is ours, where the
/// request has none.
pub(super) fn plain_answer(
    out: &mut Vec<u8>,
    request: &Message<'_>,
    status: u16,
    to_tag: Option<&[u8]>,
    source: SocketAddr,
) {
    let with = CopyWith { record_route: false, timestamp: false };
    Builder::response(out, status, None)
        .with(|out| copy_response_head(out, request, to_tag, source, with))
        .no_body();
}

/// Whether [`plain_answer`] writes what a peer takes for the same answer as `response`: the usual
/// phrase, what is copied from the request, no body. Our own name in Server may get lost: nobody
/// acts on it.
pub(super) fn is_plain(response: &[u8], status: u16) -> bool {
    let Some((first, mut rest)) = split_line(response) else { return false };
    let phrase = first.get(b"SIP/2.0 200 ".len()..);
    if phrase != Some(reason_phrase(status).as_bytes()) {
        return false;
    }
    while let Some((line, after)) = split_line(rest) {
        rest = after;
        if line.is_empty() {
            return rest.is_empty();
        }
        if !PLAIN_NAMES.iter().any(|name| is_named(line, name.as_bytes())) {
            return false;
        }
    }
    false
}

/// The header fields of a plain answer.
const PLAIN_NAMES: [Name; 7] =
    [Name::Via, Name::From, Name::To, Name::CallId, Name::CSeq, Name::ContentLength, Name::Server];

fn is_named(line: &[u8], name: &[u8]) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b':'))
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b'\r', bytes)?;
    Some((&bytes[..end], bytes[end..].strip_prefix(b"\r\n")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Framing, Index};

    const INVITE: &str = "INVITE sip:bob@biloxi.com SIP/2.0\r\n\
        Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKkjshdyff\r\n\
        To: Bob <sip:bob@biloxi.com>\r\n\
        From: Alice <sip:alice@atlanta.com>;tag=88sja8x\r\n\
        Max-Forwards: 69\r\n\
        Route: <sip:one;lr>,<sip:two;lr>\r\n\
        Route: <sip:three;lr>\r\n\
        Require: 100rel\r\n\
        Call-ID: 987asjd97y7atg\r\n\
        CSeq: 986759 INVITE\r\n\
        Content-Type: text/plain\r\n\
        Content-Length: 4\r\n\r\nbody";

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// The example of §17.1.1.3, with a Route.
    #[test]
    fn the_ack_takes_its_to_from_the_response_and_all_else_from_the_invite() {
        let failure = "SIP/2.0 486 Busy Here\r\n\
            Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKkjshdyff;received=1.2.3.4\r\n\
            To: Bob <sip:bob@biloxi.com>;tag=99sa0xk\r\n\
            From: Alice <sip:alice@atlanta.com>;tag=88sja8x\r\n\
            Call-ID: 987asjd97y7atg\r\nCSeq: 986759 INVITE\r\nContent-Length: 0\r\n\r\n";
        let (mut one, mut two) = (Index::new(), Index::new());
        let invite = one.parse(INVITE.as_bytes(), Framing::Datagram).unwrap();
        let response = two.parse(failure.as_bytes(), Framing::Datagram).unwrap();
        let ack = text(|out| ack(out, &invite, &response));
        assert_eq!(
            ack,
            "ACK sip:bob@biloxi.com SIP/2.0\r\n\
             Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKkjshdyff\r\n\
             Max-Forwards: 70\r\n\
             Route: <sip:one;lr>,<sip:two;lr>\r\n\
             Route: <sip:three;lr>\r\n\
             From: Alice <sip:alice@atlanta.com>;tag=88sja8x\r\n\
             To: Bob <sip:bob@biloxi.com>;tag=99sa0xk\r\n\
             Call-ID: 987asjd97y7atg\r\n\
             CSeq: 986759 ACK\r\n\
             Content-Length: 0\r\n\r\n"
        );
    }

    /// §9.1: identical Request-URI, Call-ID, To, CSeq number, From; one Via; Route; no Require.
    #[test]
    fn the_cancel_repeats_the_invite_without_require_and_body() {
        let mut index = Index::new();
        let invite = index.parse(INVITE.as_bytes(), Framing::Datagram).unwrap();
        let cancel = text(|out| cancel(out, &invite));
        assert_eq!(
            cancel,
            "CANCEL sip:bob@biloxi.com SIP/2.0\r\n\
             Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKkjshdyff\r\n\
             Max-Forwards: 70\r\n\
             Route: <sip:one;lr>,<sip:two;lr>\r\n\
             Route: <sip:three;lr>\r\n\
             From: Alice <sip:alice@atlanta.com>;tag=88sja8x\r\n\
             To: Bob <sip:bob@biloxi.com>\r\n\
             Call-ID: 987asjd97y7atg\r\n\
             CSeq: 986759 CANCEL\r\n\
             Content-Length: 0\r\n\r\n"
        );
    }

    #[test]
    fn a_plain_answer_can_be_told_and_written_again() {
        let bye = "BYE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP 1.2.3.4;branch=z9hG4bK1\r\n\
            Via: SIP/2.0/UDP 5.6.7.8;branch=z9hG4bK0\r\nFrom: <sip:a@x>;tag=1\r\n\
            To: <sip:b@x>;tag=2\r\nCall-ID: c\r\nCSeq: 7 BYE\r\nContent-Length: 0\r\n\r\n";
        let mut index = Index::new();
        let request = index.parse(bye.as_bytes(), Framing::Datagram).unwrap();
        let source = SocketAddr::from(([1, 2, 3, 4], 5060));
        let answer = text(|out| plain_answer(out, &request, 200, None, source));
        assert!(answer.starts_with("SIP/2.0 200 OK\r\nVia: "), "{answer}");
        assert!(answer.contains("\r\nTo: <sip:b@x>;tag=2\r\n"), "{answer}");
        assert!(is_plain(answer.as_bytes(), 200));
        let named = answer.replace("Content-Length", "Server: pbx\r\nContent-Length");
        assert!(is_plain(named.as_bytes(), 200));
    }

    #[test]
    fn an_answer_that_says_more_is_not_plain() {
        let answer = "SIP/2.0 200 OK\r\nVia: v\r\nCSeq: 7 BYE\r\nContent-Length: 0\r\n\r\n";
        assert!(is_plain(answer.as_bytes(), 200));
        for (from, to) in [
            ("OK", "Fine"),
            ("CSeq", "Contact: <sip:a>\r\nCSeq"),
            ("CSeq: 7", "CSeq:\r\n 7"),
            ("0\r\n\r\n", "4\r\n\r\nbody"),
            ("0\r\n\r\n", "2\r\n\r\n\n\n"),
            ("0\r\n\r\n", "0\r\n"),
        ] {
            let other = answer.replacen(from, to, 1);
            assert!(!is_plain(other.as_bytes(), 200), "{other}");
        }
        assert!(!is_plain(answer.as_bytes(), 202));
        assert!(!is_plain(b"", 200));
    }
}
