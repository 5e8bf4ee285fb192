//! Calls of ours: the UAC side of the INVITE usage, forks and races.

mod common;

use common::{CONTACT, World, answered, called, in_dialog, response};
use sip::usage::offers::Kind;
use std::time::Duration;

#[test]
fn an_invite_of_ours_is_complete_and_its_success_is_acknowledged() {
    let mut world = World::new();
    let (_, sent) = world.call(Some("offer"));
    let invite = &sent[0];
    assert_eq!(invite.start(), "INVITE sip:bob@192.0.2.1 SIP/2.0");
    assert!(
        invite.header("From").starts_with(r#""Alice \"A\"" <sip:alice@192.0.2.100:5060>;tag="#)
    );
    assert_eq!(invite.header("To"), "<sip:bob@192.0.2.1>");
    assert_eq!(invite.header("Max-Forwards"), "69");
    assert_eq!(invite.body(), "offer");
    world.receive(&response(invite, "180 Ringing", "c", "", ""));
    let ok = response(invite, "200 OK", "c", CONTACT, "answer");
    let ack = world.receive(&ok).remove(0);
    assert_eq!(world.heard(), ["provisional 180 early 0", "accepted early 0 Answer 2 answer"]);
    assert_eq!(ack.start(), "ACK sip:bob@192.0.2.1 SIP/2.0");
    assert_eq!(ack.header("CSeq"), "1 ACK");
    assert_ne!(ack.header("Via"), invite.header("Via"), "a transaction of its own");
    // A repeated 2xx gets its ACK again, whenever it comes.
    world.wait(Duration::from_secs(20));
    let again = world.receive(&ok).remove(0);
    assert_eq!(again.start(), "ACK sip:bob@192.0.2.1 SIP/2.0");
    assert!(world.heard().is_empty());
}

#[test]
fn an_unanswered_invite_is_repeated_and_given_up() {
    let mut world = World::new();
    let (_, sent) = world.call(Some("offer"));
    let repeats = world.wait(Duration::from_secs(33));
    assert_eq!(repeats.len(), 6, "0.5 1.5 3.5 7.5 15.5 31.5 s (17.1.1.2)");
    assert!(repeats.iter().all(|(_, repeat)| repeat.text == sent[0].text));
    assert_eq!(world.heard(), ["ended TimedOut"]);
    assert!(world.is_clean());
}

#[test]
fn a_refusal_is_acknowledged_and_told() {
    let mut world = World::new();
    let (_, sent) = world.call(Some("offer"));
    let ack = world.receive(&response(&sent[0], "486 Busy Here", "c", "", "")).remove(0);
    assert_eq!(ack.start(), "ACK sip:bob@192.0.2.1 SIP/2.0");
    assert_eq!(ack.header("Via"), sent[0].header("Via"), "the same transaction (17.1.1.3)");
    assert_eq!(world.heard(), ["ended Refused(486)"]);
    assert!(world.is_clean());
}

#[test]
fn a_cancel_waits_for_a_provisional_response() {
    let mut world = World::new();
    let (id, sent) = world.call(Some("offer"));
    assert!(world.end(id, 0).is_empty(), "9.1: not before a provisional response");
    let cancel = world.receive(&response(&sent[0], "180 Ringing", "c", "", "")).remove(0);
    assert_eq!(cancel.start(), "CANCEL sip:bob@192.0.2.1 SIP/2.0");
    assert_eq!(cancel.header("Via"), sent[0].header("Via"));
    assert_eq!(cancel.header("CSeq"), "1 CANCEL");
    world.receive(&response(&cancel, "200 OK", "c", "", ""));
    let ack = world.receive(&response(&sent[0], "487 Request Terminated", "c", "", "")).remove(0);
    assert_eq!(ack.start(), "ACK sip:bob@192.0.2.1 SIP/2.0");
    assert!(world.heard().is_empty(), "the layer above had let go");
    assert!(world.is_clean());
}

#[test]
fn case_t03_a_cancel_that_crosses_the_success() {
    let mut world = World::new();
    let (id, sent) = world.call(Some("offer"));
    world.receive(&response(&sent[0], "180 Ringing", "c", "", ""));
    world.heard();
    let cancel = world.end(id, 0).remove(0);
    let sent_now = world.receive(&response(&sent[0], "200 OK", "c", CONTACT, "answer"));
    let starts: Vec<_> = sent_now.iter().map(common::Sent::start).collect();
    assert_eq!(starts, ["ACK sip:bob@192.0.2.1 SIP/2.0", "BYE sip:bob@192.0.2.1 SIP/2.0"]);
    assert_eq!(sent_now[1].header("CSeq"), "2 BYE");
    world.receive(&response(&cancel, "481 Call/Transaction Does Not Exist", "c", "", ""));
    world.receive(&response(&sent_now[1], "200 OK", "", "", ""));
    assert!(world.heard().is_empty());
    assert!(world.is_clean());
}

#[test]
fn case_t07_a_second_success_of_a_fork_is_acknowledged_and_hung_up() {
    let mut world = World::new();
    let (id, invite, _) = called(&mut world);
    let other = "Contact: <sip:carol@192.0.2.7>\n";
    let sent = world.receive(&response(&invite, "200 OK", "d", other, "answer"));
    let starts: Vec<_> = sent.iter().map(common::Sent::start).collect();
    assert_eq!(starts, ["ACK sip:carol@192.0.2.7 SIP/2.0", "BYE sip:carol@192.0.2.7 SIP/2.0"]);
    assert!(sent[1].header("To").ends_with("tag=d"));
    assert_eq!(sent[1].to, "192.0.2.7:5060");
    assert!(world.heard().is_empty(), "the first call is untouched");
    let bye = world.end(id, 0).remove(0);
    assert!(bye.header("To").ends_with("tag=c"));
}

#[test]
fn case_t08_the_dialog_of_the_success_counts() {
    let mut world = World::new();
    let (_, sent) = world.call(Some("offer"));
    world.receive(&response(&sent[0], "180 Ringing", "a", "", "early"));
    let extra = "Contact: <sip:b@192.0.2.1:5066>\n\
                 Record-Route: <sip:p1@192.0.2.1:5090;lr>\n\
                 Record-Route: <sip:p2@192.0.2.1:5091;lr>\n";
    let ack = world.receive(&response(&sent[0], "200 OK", "b", extra, "final")).remove(0);
    assert_eq!(ack.start(), "ACK sip:b@192.0.2.1:5066 SIP/2.0");
    assert!(ack.header("To").ends_with("tag=b"));
    assert_eq!(
        ack.headers("Route"),
        ["<sip:p2@192.0.2.1:5091;lr>", "<sip:p1@192.0.2.1:5090;lr>"],
        "reversed for the UAC (12.1.2)"
    );
    assert_eq!(ack.to, "192.0.2.1:5091");
    let heard = world.heard();
    assert_eq!(
        heard,
        ["provisional 180 early 0 answer 2 early", "accepted early 1 Answer 2 final"]
    );
}

#[test]
fn early_dialogs_beyond_the_limit_are_heard_as_the_last() {
    let mut world = World::new();
    let (_, sent) = world.call(Some("offer"));
    for tag in 0..12 {
        world.receive(&response(&sent[0], "180 Ringing", &format!("t{tag}"), "", ""));
    }
    let heard = world.heard();
    assert_eq!(heard[7], "provisional 180 early 7");
    assert_eq!(heard[11], "provisional 180 early 7");
}

#[test]
fn case_t09_crossed_byes_are_answered_at_once() {
    let mut world = World::new();
    let (id, invite, _) = called(&mut world);
    let bye = world.end(id, 0).remove(0);
    let sent = world.receive(&in_dialog(&bye, "BYE", 1, "x", ""));
    assert!(
        sent[0].start() == "SIP/2.0 200 OK" || sent[0].start().starts_with("SIP/2.0 481"),
        "{sent:?}"
    );
    world.receive(&response(&bye, "200 OK", "", "", ""));
    assert!(world.wait(Duration::from_secs(40)).is_empty(), "no repeats");
    assert!(world.is_clean());
    drop(invite);
}

#[test]
fn case_t10_glare_is_tried_again_by_both_sides_rules() {
    // Who owns the Call-ID waits 2.1 to 4.0 s (14.1).
    for seed in 0..20 {
        let mut world = World::with_seed(seed);
        let (id, _, _) = called(&mut world);
        let reinvite = world.describe(id, 4, Kind::Offer, "hold").remove(0);
        // The peer's own re-INVITE meets ours.
        let sent = world.receive(&in_dialog(&reinvite, "INVITE", 1, "g", "their hold"));
        assert_eq!(sent[0].start(), "SIP/2.0 491 Request Pending");
        world.receive(&response(&reinvite, "491 Request Pending", "", "", ""));
        let sent = world.wait(Duration::from_secs(5));
        let again: Vec<_> =
            sent.iter().filter(|(_, sent)| sent.start().starts_with("INVITE")).collect();
        let (at, again) = again[0];
        assert!((2100..=4004).contains(at), "seed {seed}: {at} ms");
        assert_eq!((again.body(), again.header("CSeq")), ("hold", "3 INVITE"));
        world.receive(&response(again, "200 OK", "", CONTACT, "held"));
        assert_eq!(world.heard(), ["Answer 4 held"]);
    }
    // The other side waits 0 to 2.0 s.
    for seed in 0..20 {
        let mut world = World::with_seed(seed);
        let (id, _) = answered(&mut world);
        let reinvite = world.describe(id, 4, Kind::Offer, "hold").remove(0);
        world.receive(&response(&reinvite, "491 Request Pending", "", "", ""));
        let sent = world.wait(Duration::from_secs(5));
        let (at, _) = sent.iter().find(|(_, sent)| sent.start().starts_with("INVITE")).unwrap();
        assert!(*at <= 2004, "seed {seed}: {at} ms");
    }
}

#[test]
fn endless_glare_ends_as_a_refusal() {
    let mut world = World::new();
    let (id, _, _) = called(&mut world);
    let mut reinvite = world.describe(id, 4, Kind::Offer, "hold").remove(0);
    for _ in 0..5 {
        world.receive(&response(&reinvite, "491 Request Pending", "", "", ""));
        assert!(world.heard().is_empty());
        let sent = world.wait(Duration::from_millis(4_010));
        reinvite = sent.into_iter().find(|(_, s)| s.start().starts_with("INVITE")).unwrap().1;
    }
    world.receive(&response(&reinvite, "491 Request Pending", "", "", ""));
    assert_eq!(world.heard(), ["offer 4 refused 491"]);
}

#[test]
fn case_t14_a_success_to_a_reinvite_after_the_bye_gets_an_ack_only() {
    let mut world = World::new();
    let (id, _, _) = called(&mut world);
    let reinvite = world.describe(id, 4, Kind::Offer, "hold").remove(0);
    world.receive(&response(&reinvite, "100 Trying", "", "", ""));
    let bye = world.end(id, 0).remove(0);
    world.receive(&response(&bye, "200 OK", "", "", ""));
    let sent = world.receive(&response(&reinvite, "200 OK", "", CONTACT, "held"));
    let starts: Vec<_> = sent.iter().map(common::Sent::start).collect();
    assert_eq!(starts, ["ACK sip:bob@192.0.2.1 SIP/2.0"]);
    assert_eq!(sent[0].header("CSeq"), "2 ACK");
    assert!(world.is_clean());
}

#[test]
fn case_t16_a_reinvite_after_our_bye_gets_481() {
    let mut world = World::new();
    let (id, _, _) = called(&mut world);
    let bye = world.end(id, 0).remove(0);
    let sent = world.receive(&in_dialog(&bye, "INVITE", 1, "late", ""));
    assert_eq!(sent[0].start(), "SIP/2.0 481 Call/Transaction Does Not Exist");
}

#[test]
fn a_late_success_of_another_branch_is_hung_up_even_after_the_call() {
    let mut world = World::new();
    let (id, invite, _) = called(&mut world);
    let bye = world.end(id, 0).remove(0);
    world.receive(&response(&bye, "200 OK", "", "", ""));
    // Of the same dialog: an ACK. Of another one: ACK and BYE (13.2.2.4).
    let sent = world.receive(&response(&invite, "200 OK", "c", CONTACT, "answer"));
    assert_eq!(sent.len(), 1);
    let sent = world.receive(&response(&invite, "200 OK", "other", CONTACT, "answer"));
    let starts: Vec<_> = sent.iter().map(common::Sent::start).collect();
    assert_eq!(starts, ["ACK sip:bob@192.0.2.1 SIP/2.0", "BYE sip:bob@192.0.2.1 SIP/2.0"]);
}

#[test]
fn a_delayed_offer_is_answered_in_the_ack() {
    let mut world = World::new();
    let (id, sent) = world.call(None);
    assert_eq!(sent[0].body(), "");
    let ok = response(&sent[0], "200 OK", "c", CONTACT, "their offer");
    assert!(world.receive(&ok).is_empty(), "no ACK before our answer");
    assert_eq!(world.heard(), ["accepted early 0 Offer 1 their offer"]);
    assert!(world.receive(&ok).is_empty());
    let ack = world.describe(id, 1, Kind::Answer, "our answer").remove(0);
    assert_eq!((ack.start(), ack.body()), ("ACK sip:bob@192.0.2.1 SIP/2.0", "our answer"));
    let again = world.receive(&ok).remove(0);
    assert_eq!(again.body(), "our answer", "13.2.2.4: repeated with its answer");
}

#[test]
fn an_offer_in_a_success_that_is_refused_ends_the_dialog() {
    let mut world = World::new();
    let (id, sent) = world.call(None);
    world.receive(&response(&sent[0], "200 OK", "c", CONTACT, "strange"));
    let (gone, sent) = world.refuse_offer(id, 1, 488);
    assert!(gone);
    let starts: Vec<_> = sent.iter().map(common::Sent::start).collect();
    assert_eq!(starts, ["ACK sip:bob@192.0.2.1 SIP/2.0", "BYE sip:bob@192.0.2.1 SIP/2.0"]);
}

#[test]
fn an_offer_waits_until_it_may_go() {
    let mut world = World::new();
    let (id, ok) = answered(&mut world);
    world.receive(&in_dialog(&ok, "INVITE", 2, "r1", "their hold"));
    assert!(world.describe(id, 4, Kind::Offer, "our hold").is_empty(), "an exchange is open");
    world.describe(id, 3, Kind::Answer, "held");
    let sent = world.receive(&in_dialog(&ok, "ACK", 2, "r2", ""));
    assert_eq!((sent[0].start(), sent[0].body()), ("INVITE sip:bob@192.0.2.1 SIP/2.0", "our hold"));
}

#[test]
fn our_empty_reinvite_gets_an_offer_and_answers_it() {
    let mut world = World::new();
    let (id, _) = answered(&mut world);
    let reinvite = world.want_offer(id, 6).remove(0);
    assert_eq!(reinvite.body(), "");
    assert!(world.receive(&response(&reinvite, "200 OK", "", CONTACT, "their offer")).is_empty());
    assert_eq!(world.heard(), ["Offer 6 their offer"]);
    let ack = world.describe(id, 6, Kind::Answer, "our answer").remove(0);
    assert_eq!(ack.body(), "our answer");
}

#[test]
fn a_reinvite_that_finds_no_dialog_ends_it() {
    for status in ["481 Call/Transaction Does Not Exist", "408 Request Timeout"] {
        let mut world = World::new();
        let (id, _, _) = called(&mut world);
        let reinvite = world.describe(id, 4, Kind::Offer, "hold").remove(0);
        let sent = world.receive(&response(&reinvite, status, "", "", ""));
        assert!(sent.iter().any(|sent| sent.start().starts_with("BYE")), "12.2.1.2");
        assert_eq!(world.heard(), ["ended DialogGone"]);
    }
    let mut world = World::new();
    let (id, _, _) = called(&mut world);
    let reinvite = world.describe(id, 4, Kind::Offer, "hold").remove(0);
    world.receive(&response(&reinvite, "488 Not Acceptable Here", "", "", ""));
    assert_eq!(world.heard(), ["offer 4 refused 488"], "the session stays as it was");
}

#[test]
fn a_target_refresh_moves_the_remote_target() {
    let mut world = World::new();
    let (id, ok) = answered(&mut world);
    let moved = in_dialog(&ok, "INVITE", 2, "r1", "moved")
        .replace("Contact: <sip:bob@192.0.2.1>", "Contact: <sip:bob@192.0.2.9:5099>");
    world.receive(&moved);
    world.describe(id, 3, Kind::Answer, "ok");
    world.receive(&in_dialog(&ok, "ACK", 2, "r2", ""));
    let bye = world.end(id, 0).remove(0);
    assert_eq!(bye.start(), "BYE sip:bob@192.0.2.9:5099 SIP/2.0");
    assert_eq!(bye.to, "192.0.2.9:5060".replace("5060", "5099"));
}

#[test]
fn asked_requests_get_their_reply_or_a_timeout() {
    let mut world = World::new();
    let (id, _, _) = called(&mut world);
    let info = world.ask(id, 8, "INFO").remove(0);
    assert_eq!(info.header("CSeq"), "2 INFO");
    world.receive(&response(&info, "200 OK", "", "", ""));
    assert_eq!(world.heard(), ["replied 8 200"]);
    world.ask(id, 10, "INFO");
    world.wait(Duration::from_secs(33));
    assert_eq!(world.heard(), ["replied 10 408", "ended DialogGone"]);
}

#[test]
fn case_p12_a_success_without_via_is_dropped() {
    let mut world = World::new();
    let (id, _) = answered(&mut world);
    let reinvite = world.describe(id, 4, Kind::Offer, "hold").remove(0);
    let ok = response(&reinvite, "200 OK", "", CONTACT, "held");
    let without: String = ok
        .lines()
        .filter(|line| !line.starts_with("Via:"))
        .fold(String::new(), |text, line| text + line + "\r\n");
    let bytes = without.into_bytes();
    let mut index = sip::wire::Index::new();
    assert!(index.parse(&bytes, sip::wire::Framing::Datagram).is_err(), "never reaches the usage");
    world.wait(Duration::from_secs(33));
    assert!(world.heard().contains(&"ended DialogGone".to_owned()), "Timer B ends it");
    assert!(world.is_clean());
}

#[test]
fn a_reinvite_that_is_never_decided_is_taken_back() {
    let mut world = World::new();
    let (id, _, _) = called(&mut world);
    let reinvite = world.describe(id, 4, Kind::Offer, "hold").remove(0);
    world.receive(&response(&reinvite, "100 Trying", "", "", ""));
    let sent = world.wait(Duration::from_secs(130));
    assert!(sent.iter().any(|(_, sent)| sent.start().starts_with("CANCEL")), "{sent:?}");
    assert_eq!(world.heard(), ["offer 4 refused 408"]);
    // A 2xx that crossed it is acknowledged all the same, and the next offer goes its way.
    let ack = world.receive(&response(&reinvite, "200 OK", "", CONTACT, "held")).remove(0);
    assert_eq!(ack.header("CSeq"), reinvite.header("CSeq").replace("INVITE", "ACK"));
    let next = world.describe(id, 6, Kind::Offer, "again").remove(0);
    assert!(next.start().starts_with("INVITE"));
    world.receive(&response(&reinvite, "487 Request Terminated", "", "", ""));
    assert!(world.heard().is_empty(), "an old answer decides nothing");
    world.receive(&response(&next, "200 OK", "", CONTACT, "ok"));
    assert_eq!(world.heard(), ["Answer 6 ok"]);
}
