//! Callers and callees that mean harm, seen from outside of a shard.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::time::Duration;

use common::{SDP, World, header, in_dialog, invite};

const PLAN: &str = r#"
[[context.default.exten]]
match = "on"
steps = ["Dial(sip:service@127.0.0.1:5070,,g)", "Wait(600)"]
[[context.default.exten]]
match = "two"
steps = ["Dial(sip:service@127.0.0.1:5070)"]
[[context.default.exten]]
match = "_."
steps = ["Dial(sip:${EXTEN}@127.0.0.1:5070)"]
"#;

fn world() -> World {
    World::with(PLAN, |_| {}, |_| {})
}

fn answer(invite: &str, status: &str, lines: &str, body: &str) -> String {
    let tag = if header(invite, "To").contains("tag=") { "" } else { ";tag=b1" };
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\n" };
    format!(
        "SIP/2.0 {status}\nVia: {}\nFrom: {}\nTo: {}{tag}\nCall-ID: {}\nCSeq: {}\n\
         {lines}{kind}Content-Length: {}\n\n{body}",
        header(invite, "Via"),
        header(invite, "From"),
        header(invite, "To"),
        header(invite, "Call-ID"),
        header(invite, "CSeq"),
        body.replace('\n', "\r\n").len()
    )
}

/// What a caller dials stands in the user part of a dialled URI and nowhere else: it picks no other
/// host, adds no parameter and no line.
#[test]
fn a_dialled_number_steers_only_the_user_part() {
    for dialled in [
        "1%40203.0.113.9:5060%3Ba=",
        "1%40203.0.113.9%3B",
        "1%3F",
        "1%20SIP%2F2.0",
        "%22%3E",
        "%25%34%30",
        "caf%C3%A9",
        "1%0d%0aEvil:%20yes",
        "1%00%7F",
    ] {
        let mut world = world();
        let sent = world.receive("127.0.0.1:5071", &invite(dialled));
        let (to, out) = &sent[0];
        assert_eq!(to, "127.0.0.1:5070", "{dialled}: {out}");
        let line = out.lines().next().unwrap();
        let uri = line.strip_prefix("INVITE sip:").and_then(|it| it.strip_suffix(" SIP/2.0"));
        let (user, host) = uri.and_then(|uri| uri.split_once('@')).unwrap();
        assert_eq!(host, "127.0.0.1:5070", "{line}");
        assert!(user.bytes().all(|b| b.is_ascii_graphic() && !b"<>\"@".contains(&b)), "{line}");
    }
}

/// A redirection passes with a few contacts: the answer to the caller fits a datagram.
#[test]
fn a_redirection_to_very_many_places_still_reaches_the_caller() {
    let mut world = world();
    let sent = world.receive("127.0.0.1:5071", &invite("two"));
    let contact = format!("Contact: {}\n", "<sip:a@b>,".repeat(800));
    let lines = contact.repeat(3);
    let sent = world.receive("127.0.0.1:5070", &answer(&sent[0].1, "302 Moved", &lines, ""));
    let refusal = sent.iter().find(|(_, text)| text.starts_with("SIP/2.0 302 ")).unwrap();
    assert!(refusal.1.contains("\r\nContact: <sip:a@b>\r\n"), "{}", refusal.1);
    assert!(refusal.1.len() < 8_192, "{}", refusal.1.len());
}

/// A caller whose offer was on its way to a callee who hung up hears that nothing came of it, when
/// the call goes on without the callee.
#[test]
fn an_offer_to_a_callee_who_is_gone_is_refused() {
    for body in [SDP, ""] {
        let mut world = world();
        let b_invite = world.receive("127.0.0.1:5071", &invite("on")).remove(0).1;
        let contact = "Contact: <sip:bob@127.0.0.1:5070>\n";
        let sent = world.receive("127.0.0.1:5070", &answer(&b_invite, "200 OK", contact, SDP));
        let ack = sent[0].1.clone();
        let to = header(&sent[1].1, "To").to_owned();
        world.receive("127.0.0.1:5071", &in_dialog("ACK", &to, 1, "2"));
        let reinvite = in_dialog("INVITE", &to, 2, "3").replace(
            "Content-Length: 0\n\n",
            &format!(
                "Contact: <sip:alice@127.0.0.1:5071>\n{}Content-Length: {}\n\n{body}",
                if body.is_empty() { "" } else { "Content-Type: application/sdp\n" },
                body.replace('\n', "\r\n").len()
            ),
        );
        let sent = world.receive("127.0.0.1:5071", &reinvite);
        assert!(sent[0].1.starts_with("INVITE sip:bob@"), "{sent:?}");
        let bye = format!(
            "BYE sip:127.0.0.1:5060 SIP/2.0\nVia: SIP/2.0/UDP 127.0.0.1:5070;branch=z9hG4bKb\n\
             From: {}\nTo: {}\nCall-ID: {}\nCSeq: 9 BYE\nMax-Forwards: 70\n\
             Content-Length: 0\n\n",
            header(&ack, "To"),
            header(&ack, "From"),
            header(&ack, "Call-ID")
        );
        let sent = world.receive("127.0.0.1:5070", &bye);
        let told = sent.iter().find(|(to, _)| to == "127.0.0.1:5071");
        let told = told.unwrap_or_else(|| panic!("the caller heard nothing: {sent:?}"));
        let status = header(&told.1, "CSeq");
        assert_eq!(status, "2 INVITE", "{}", told.1);
        assert!(told.1.starts_with("SIP/2.0 4"), "{}", told.1);
        let ack = in_dialog("ACK", &to, 2, "3");
        world.receive("127.0.0.1:5071", &ack);
        world.receive("127.0.0.1:5071", &in_dialog("BYE", &to, 3, "4"));
        world.wait(Duration::from_secs(80));
        let left = world.shard.leftovers();
        assert!(left.iter().all(|(_, count)| *count == 0), "{left:?}");
    }
}
