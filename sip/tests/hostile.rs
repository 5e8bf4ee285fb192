//! Peers that mean harm, or just break every rule: what they send must cost us little, steer
//! nothing that is not theirs, and leave nothing behind.

mod common;

use std::time::Duration;

use common::{CONTACT, Sent, World, answered, called, in_dialog, invite, response};
use sip::usage::offers::Kind;

fn starts(sent: &[Sent]) -> Vec<&str> {
    sent.iter().map(Sent::start).collect()
}

fn cancel_of(branch: &str) -> String {
    invite(branch, "", "").replace("INVITE sip", "CANCEL sip").replace("1 INVITE", "1 CANCEL")
}

/// A stranger's To tag gets past the question whether he may come in, so it must cost nothing: no
/// transaction, and no repeats to an address that may be somebody else's.
#[test]
fn a_made_up_tag_gets_one_answer_and_no_state() {
    for method in ["INVITE", "BYE", "INFO", "OPTIONS", "UPDATE", "FOO"] {
        let mut world = World::new();
        let text = invite("1", "", "")
            .replace("To: <sip:100@192.0.2.100>", "To: <sip:100@192.0.2.100>;tag=x")
            .replace("INVITE", method);
        let sent = world.receive(&text);
        assert_eq!(starts(&sent), ["SIP/2.0 481 Call/Transaction Does Not Exist"], "{method}");
        assert_eq!(world.endpoint.transaction_counts().servers, 0, "{method}");
        assert!(world.wait(Duration::from_secs(40)).is_empty(), "{method}");
    }
}

/// RFC 3261 §22.1: a CANCEL comes from the hop that sent the request. Branches can often be
/// guessed.
#[test]
fn a_cancel_from_another_address_ends_nothing() {
    let mut world = World::new();
    world.receive(&invite("1", "", "offer"));
    world.heard();
    let sent = world.move_peer("203.0.113.9:5060").receive(&cancel_of("1"));
    assert_eq!(starts(&sent), ["SIP/2.0 481 Call/Transaction Does Not Exist"]);
    assert!(world.heard().is_empty());
    // The hop itself may, from another port too (in a world that has not seen that branch).
    let mut world = World::new();
    world.receive(&invite("1", "", "offer"));
    let sent = world.move_peer("192.0.2.1:7000").receive(&cancel_of("1"));
    assert_eq!(starts(&sent), ["SIP/2.0 200 OK", "SIP/2.0 487 Request Terminated"]);
}

/// Folds are legal in whatever a peer sends; none gets into what we write later.
#[test]
fn folds_of_a_peer_never_reach_our_own_messages() {
    let fold =
        |text: &str| text.replace(";tag=", "\n ;tag=").replace("To: <", "To: \"a\n b\"\n  <");
    let is_flat = |sent: &[Sent]| {
        let folds = sent.iter().flat_map(|it| it.text.lines()).filter(|it| it.starts_with(' '));
        assert_eq!(folds.count(), 0, "{sent:?}");
    };
    let mut world = World::new();
    let extra = "Record-Route: <sip:192.0.2.1;lr>\n ;a=b\n";
    is_flat(&world.receive(&fold(&invite("1", extra, "offer"))));
    let id = world.usage();
    let ok = world.accept(id, 0, Some((1, "answer"))).remove(0);
    is_flat(std::slice::from_ref(&ok));
    world.receive(&in_dialog(&ok, "ACK", 1, "2", ""));
    is_flat(&world.end(id, 0));

    let mut world = World::new();
    let (_, sent) = world.call(Some("offer"));
    let refusal = response(&sent[0], "486 Busy Here", "c", "", "");
    is_flat(&world.receive(&fold(&refusal)));

    let mut world = World::new();
    let (id, sent) = world.call(Some("offer"));
    is_flat(&world.receive(&fold(&response(&sent[0], "200 OK", "c", CONTACT, "answer"))));
    is_flat(&world.end(id, 0));

    let mut world = World::new();
    is_flat(&world.receive(&invite("1", "Require: foo\n bar\n", "offer")));
}

/// An answer is not much longer than what it answers.
#[test]
fn many_required_extensions_do_not_make_a_long_answer() {
    let mut world = World::new();
    let request = invite("1", &format!("Require: {}\n", "a,".repeat(3_000)), "");
    let sent = world.receive(&request);
    assert!(sent[0].start().starts_with("SIP/2.0 420 "));
    assert!(sent[0].header("Unsupported").starts_with('a'));
    assert!(sent[0].text.len() < request.len() + 500, "{}", sent[0].text.len());
}

/// What cannot be the target or a hop of a request makes no dialog, or is left out of it.
#[test]
fn targets_and_routes_that_are_no_addresses_are_not_used() {
    for (contact, route) in [
        ("<sip:>", ""),
        ("<sip:a@>", ""),
        ("<sip:bob@192.0.2.1>", "nobody"),
        ("<sip:bob@192.0.2.1>", "<sip:>"),
        ("<sip:bob@192.0.2.1>", "<sip:p1;lr>, <sip:bob@192.0.2.1 x>"),
    ] {
        let record = match route {
            "" => String::new(),
            _ => format!("Record-Route: {route}\n"),
        };
        let mut world = World::new();
        let text = invite("1", &record, "offer").replace("<sip:bob@192.0.2.1>\nMax", "@\nMax");
        let sent = world.receive(&text.replace("@\nMax", &format!("{contact}\nMax")));
        assert!(sent[0].start().starts_with("SIP/2.0 400 "), "{contact} {route}: {sent:?}");
        assert!(world.heard().is_empty());

        let mut world = World::new();
        let (id, sent) = world.call(Some("offer"));
        let lines = format!("Contact: {contact}\n{record}");
        let sent = world.receive(&response(&sent[0], "200 OK", "c", &lines, "answer"));
        assert!(sent[0].start().starts_with("ACK sip:"), "{sent:?}");
        // A re-INVITE that is refused has to be read again for its ACK.
        let sent = world.describe(id, 4, Kind::Offer, "new");
        assert!(sent[0].start().starts_with("INVITE sip:"), "{sent:?}");
        let sent = world.receive(&response(&sent[0], "488 No", "", "", ""));
        assert!(sent[0].start().starts_with("ACK sip:"), "{contact} {route}: {sent:?}");
        let sent = world.end(id, 0);
        assert!(sent[0].start().starts_with("BYE sip:"), "{sent:?}");
    }
}

/// RFC 3261 §19.1.5: the headers of a URI are no part of a Request-URI.
#[test]
fn headers_of_a_contact_do_not_get_into_a_request_uri() {
    let mut world = World::new();
    let (id, sent) = world.call(Some("offer"));
    let contact = "Contact: <sip:bob@192.0.2.1?Subject=x>\n";
    let sent = world.receive(&response(&sent[0], "200 OK", "c", contact, "answer"));
    assert_eq!(sent[0].start(), "ACK sip:bob@192.0.2.1 SIP/2.0");
    assert_eq!(world.end(id, 0)[0].start(), "BYE sip:bob@192.0.2.1 SIP/2.0");
}

/// §14.1: while ours waits for its second try after glare, the peer's own comes. Ours still goes
/// out in the end, whatever the peer's was told.
#[test]
fn an_offer_that_met_glare_survives_the_peers_offer() {
    for accepts in [true, false] {
        let mut world = World::new();
        let (id, _, ack) = called(&mut world);
        let sent = world.describe(id, 4, Kind::Offer, "new");
        world.receive(&response(&sent[0], "491 Request Pending", "", "", ""));
        world.receive(&in_dialog(&ack, "INVITE", 1, "r", "theirs"));
        assert_eq!(world.heard(), ["Offer 1 theirs"]);
        let mut sent = if accepts {
            let ok = world.describe(id, 1, Kind::Answer, "answer").remove(0);
            assert_eq!(ok.start(), "SIP/2.0 200 OK");
            world.receive(&in_dialog(&ack, "ACK", 1, "k", ""))
        } else {
            world.refuse_offer(id, 1, 491).1
        };
        sent.extend(world.wait(Duration::from_secs(5)).into_iter().map(|(_, sent)| sent));
        let ours = sent.iter().find(|sent| sent.start().starts_with("INVITE "));
        let ours = ours.unwrap_or_else(|| panic!("lost: {sent:?} {:?}", world.heard()));
        assert_eq!(ours.body(), "new");
        world.heard();
        world.receive(&response(ours, "200 OK", "", CONTACT, "fine"));
        assert_eq!(world.heard(), ["Answer 4 fine"]);
    }
}

/// A re-INVITE of ours that is said 100 to and nothing more goes with its dialog, whoever ends it,
/// and whether the 100 comes before or after.
#[test]
fn a_reinvite_without_an_end_goes_with_its_dialog() {
    for (by_peer, late) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut world = World::new();
        let (id, _, ack) = called(&mut world);
        let sent = world.describe(id, 4, Kind::Offer, "new");
        let trying = response(&sent[0], "100 Trying", "", "", "");
        if !late {
            world.receive(&trying);
        }
        if by_peer {
            world.receive(&in_dialog(&ack, "BYE", 1, "b", ""));
        } else {
            world.end(id, 0);
        }
        if late {
            world.receive(&trying);
        }
        assert!(world.is_clean(), "by peer {by_peer}, late {late}");
    }
}

/// Once a dialog is over, nothing that waited in it is begun any more.
#[test]
fn an_offer_that_waited_is_not_made_after_the_end() {
    let mut world = World::new();
    let (id, ok) = answered(&mut world);
    world.receive(&in_dialog(&ok, "INVITE", 2, "r", "theirs"));
    assert!(world.describe(id, 4, Kind::Offer, "new").is_empty());
    let sent = world.receive(&in_dialog(&ok, "BYE", 3, "b", ""));
    assert_eq!(starts(&sent), ["SIP/2.0 200 OK", "SIP/2.0 487 Request Terminated"]);
    assert!(world.is_clean());
}

/// Each 2xx of a fork makes us send a BYE to where its Contact says: for a few forks, not for as
/// many as somebody likes to invent, during the call and after it.
#[test]
fn invented_forks_are_not_hung_up_without_end() {
    for ends_first in [false, true] {
        let mut world = World::new();
        let (id, ours, _) = called(&mut world);
        if ends_first {
            let bye = world.end(id, 0).remove(0);
            world.receive(&response(&bye, "200 OK", "", "", ""));
        }
        let contact = "Contact: <sip:victim@203.0.113.7>\n";
        let mut byes = 0;
        for fork in 0..60 {
            let sent = world.receive(&response(&ours, "200 OK", &format!("f{fork}"), contact, ""));
            byes += sent.iter().filter(|sent| sent.start().starts_with("BYE ")).count();
        }
        assert!((1..=16).contains(&byes), "{byes}, ended first: {ends_first}");
    }
}

/// A callee that said that it rings, and then nothing for ever, is given up in the end (the rule of
/// Timer C, §16.6); one that goes on saying so is not (§13.3.1.1).
#[test]
fn a_callee_that_falls_silent_is_given_up() {
    let mut world = World::new();
    let (_, sent) = world.call(Some("offer"));
    let ringing = response(&sent[0], "180 Ringing", "c", "", "");
    for _ in 0..30 {
        world.receive(&ringing);
        assert!(world.wait(Duration::from_secs(60)).is_empty());
    }
    world.heard();
    let sent = world.wait(Duration::from_secs(700));
    assert!(sent.iter().any(|(_, sent)| sent.start().starts_with("CANCEL ")), "{sent:?}");
    assert_eq!(world.heard(), ["ended TimedOut"]);
    assert!(world.is_clean());
}

/// §13.2.2.4, §16.7: a proxy passes a 2xx on even after a failure. Nobody wants that call any more,
/// so it is hung up and not left to the callee to wait for an ACK.
#[test]
fn a_success_after_a_refusal_is_hung_up() {
    let mut world = World::new();
    let (_, ours) = world.call(Some("offer"));
    world.receive(&response(&ours[0], "603 Decline", "c", "", ""));
    let sent = world.receive(&response(&ours[0], "200 OK", "d", CONTACT, "answer"));
    assert_eq!(starts(&sent), ["ACK sip:bob@192.0.2.1 SIP/2.0", "BYE sip:bob@192.0.2.1 SIP/2.0"]);
    assert_eq!(world.heard(), ["ended Refused(603)"]);
    assert!(world.is_clean());
}
