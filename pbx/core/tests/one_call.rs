//! A whole call through one shard, in one thread and without a runtime: the messages of a caller
//! go in, the messages to the caller come out.

mod common;

use std::time::Duration;

use common::{SDP, World, header, in_dialog, invite};

#[test]
fn a_call_is_answered_and_ended() {
    let mut world = World::new();
    let sent = world.receive("127.0.0.1:5071", &invite("answer"));
    let lines: Vec<_> = sent.iter().map(|(_, text)| text.lines().next().unwrap()).collect();
    assert_eq!(lines, ["SIP/2.0 180 Ringing", "SIP/2.0 200 OK"], "no 100 is needed");
    let to = header(&sent[1].1, "To").to_owned();
    assert!(sent[1].1.contains("m=audio"), "{}", sent[1].1);
    // The 2xx is repeated until its ACK.
    let repeats = world.wait(Duration::from_millis(1600));
    assert_eq!(repeats.len(), 2);
    assert!(world.receive("127.0.0.1:5071", &in_dialog("ACK", &to, 1, "2")).is_empty());
    assert!(world.wait(Duration::from_secs(40)).is_empty());
    let sent = world.receive("127.0.0.1:5071", &in_dialog("BYE", &to, 2, "3"));
    assert!(sent[0].1.starts_with("SIP/2.0 200 OK"), "{sent:?}");
    assert_eq!(world.out.records.len(), 1);
    world.wait(Duration::from_secs(40));
    assert!(
        world.shard.leftovers().iter().all(|(_, count)| *count == 0),
        "{:?}",
        world.shard.leftovers()
    );
}

#[test]
fn refusals_have_their_status() {
    let mut world = World::new();
    let sent = world.receive("127.0.0.1:5071", &invite("busy"));
    assert!(sent[0].1.starts_with("SIP/2.0 486 "), "{sent:?}");
    let mut world = World::new();
    let sent = world.receive("127.0.0.1:5071", &invite("nobody"));
    assert!(sent[0].1.starts_with("SIP/2.0 404 "), "{sent:?}");
    let mut world = World::new();
    let sent = world.receive("127.0.0.2:5071", &invite("answer"));
    assert!(sent[0].1.starts_with("SIP/2.0 403 "), "{sent:?}");
}

#[test]
fn a_call_is_bridged() {
    let mut world = World::new();
    let sent = world.receive("127.0.0.1:5071", &invite("bridge"));
    assert_eq!(sent.len(), 2, "{sent:?}");
    let (to, b_invite) = &sent[0];
    assert_eq!(to, "127.0.0.1:5070");
    assert!(b_invite.starts_with("INVITE sip:service@127.0.0.1:5070 SIP/2.0\r\n"), "{b_invite}");
    assert!(b_invite.contains("Max-Forwards: 69\r\n"), "{b_invite}");
    assert!(b_invite.contains("m=audio 6000"), "{b_invite}");
    assert!(sent[1].1.starts_with("SIP/2.0 100 "));
    let answer = |status: &str, body: &str| {
        format!(
            "SIP/2.0 {status}\nVia: {}\nFrom: {}\nTo: {};tag=b1\nCall-ID: {}\nCSeq: 1 INVITE\n\
             Contact: <sip:bob@127.0.0.1:5070>\nContent-Type: application/sdp\n\
             Content-Length: {}\n\n{body}",
            header(b_invite, "Via"),
            header(b_invite, "From"),
            header(b_invite, "To"),
            header(b_invite, "Call-ID"),
            body.replace('\n', "\r\n").len()
        )
    };
    let sent = world.receive("127.0.0.1:5070", &answer("180 Ringing", ""));
    assert!(sent[0].1.starts_with("SIP/2.0 180 "), "{sent:?}");
    let sent = world.receive("127.0.0.1:5070", &answer("200 OK", &SDP.replace("6000", "7000")));
    assert_eq!(sent.len(), 2, "{sent:?}");
    let (ack, ok) = (&sent[0].1, &sent[1].1);
    assert!(ack.starts_with("ACK sip:bob@127.0.0.1:5070 SIP/2.0\r\n"), "{ack}");
    assert!(ok.starts_with("SIP/2.0 200 ") && ok.contains("m=audio 7000"), "{ok}");
    let to = header(ok, "To").to_owned();
    world.receive("127.0.0.1:5071", &in_dialog("ACK", &to, 1, "2"));
    let sent = world.receive("127.0.0.1:5071", &in_dialog("BYE", &to, 2, "3"));
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent[0].1.starts_with("SIP/2.0 200 "));
    assert!(sent[1].1.starts_with("BYE sip:bob@127.0.0.1:5070 SIP/2.0\r\n"), "{}", sent[1].1);
    assert_eq!(world.out.records.len(), 1);
}

#[test]
fn case_dp06_a_target_whose_host_is_empty_in_the_call_fails_at_once() {
    let plan = "[[context.default.exten]]\nmatch = \"void\"\n\
                steps = [\"Dial(sip:123456789@${NOBODY})\", \"Hangup()\"]\n";
    let mut world = World::with(plan, |_| {}, |_| {});
    let sent = world.receive("127.0.0.1:5071", &invite("void"));
    assert!(sent[0].1.starts_with("SIP/2.0 404 "), "{sent:?}");
    assert_eq!(world.shard.counts().call.ended, 1);
}

#[test]
fn case_t12_an_update_is_refused_and_disturbs_nothing() {
    let mut world = World::new();
    let sent = world.receive("127.0.0.1:5071", &invite("answer"));
    let to = header(&sent[1].1, "To").to_owned();
    assert!(!header(&sent[1].1, "Allow").contains("UPDATE"), "nobody is asked to send one");
    world.receive("127.0.0.1:5071", &in_dialog("ACK", &to, 1, "2"));
    let sent = world.receive("127.0.0.1:5071", &in_dialog("UPDATE", &to, 2, "3"));
    assert!(sent[0].1.starts_with("SIP/2.0 405 "), "{sent:?}");
    assert!(header(&sent[0].1, "Allow").contains("INVITE"));
    // A re-INVITE that comes then is one of its own.
    let hold = in_dialog("INVITE", &to, 3, "4")
        .replace("Content-Length: 0\n", "Contact: <sip:alice@127.0.0.1:5071>\nContent-Length: 0\n");
    let sent = world.receive("127.0.0.1:5071", &hold);
    assert!(sent[0].1.starts_with("SIP/2.0 200 "), "{sent:?}");
}

#[test]
fn case_t17_early_answers_that_differ_or_make_no_sense_do_no_harm() {
    let mut world = World::new();
    let sent = world.receive("127.0.0.1:5071", &invite("bridge"));
    let b_invite = sent[0].1.clone();
    let unknown =
        SDP.replace("RTP/AVP 0", "RTP/AVP 99").replace("rtpmap:0 PCMU/8000", "rtpmap:99 x/1");
    for (status, body) in [
        ("183 Session Progress", unknown.as_str()),
        ("183 Session Progress", "v=0\nthis is no description\n"),
        ("183 Session Progress", SDP),
        ("200 OK", SDP),
    ] {
        let sent =
            world.receive("127.0.0.1:5070", &common::phone::answer(&b_invite, status, "b1", body));
        let told = sent.iter().find(|(to, _)| to == "127.0.0.1:5071");
        assert!(
            told.is_some_and(|(_, text)| text.starts_with(&format!("SIP/2.0 {}", &status[..3]))),
            "{sent:?}"
        );
    }
}
