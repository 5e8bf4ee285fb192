//! Calls from outside: the UAS side of the INVITE usage, rule by rule.

mod common;

use common::{World, answered, in_dialog, invite};
use sip::usage::offers::Kind;
use std::time::Duration;

#[test]
fn trying_is_said_only_when_nothing_else_is() {
    let mut world = World::new();
    let sent = world.receive(&invite("1", "", "offer"));
    assert_eq!(sent[0].start(), "SIP/2.0 100 Trying");
    assert_eq!(world.heard(), ["invited, offer 1 offer"]);
}

#[test]
fn an_accepted_call_repeats_its_success_until_the_ack() {
    let mut world = World::new();
    world.receive(&invite("1", "", "offer"));
    let id = world.usage();
    let ok = world.accept(id, 0, Some((1, "answer")));
    assert_eq!(ok[0].start(), "SIP/2.0 200 OK");
    assert_eq!(ok[0].body(), "answer");
    assert!(ok[0].header("Contact").contains("192.0.2.100:5060"));
    let repeats = world.wait(Duration::from_millis(4000));
    let times: Vec<u64> = repeats.iter().map(|(at, _)| *at / 10 * 10).collect();
    assert_eq!(times, [500, 1500, 3500], "T1, then doubled (13.3.1.4)");
    assert!(repeats.iter().all(|(_, sent)| sent.text == ok[0].text));
    // A repeat of the INVITE is absorbed, not answered (RFC 6026 7.1).
    assert!(world.receive(&invite("1", "", "offer")).is_empty());
    world.heard();
    assert!(world.receive(&in_dialog(&ok[0], "ACK", 1, "2", "")).is_empty());
    assert_eq!(world.heard(), ["acked"]);
    assert!(world.wait(Duration::from_secs(60)).is_empty());
    let sent = world.receive(&in_dialog(&ok[0], "BYE", 2, "3", ""));
    assert_eq!(sent[0].start(), "SIP/2.0 200 OK");
    assert_eq!(world.heard(), ["ended Bye"]);
    assert!(world.is_clean());
}

#[test]
fn case_t01_a_cancel_and_a_bye_before_the_ack() {
    let mut world = World::new();
    world.receive(&invite("1", "", "offer"));
    let ok = world.accept(world.usage(), 0, Some((1, "answer"))).remove(0);
    let cancel =
        invite("1", "", "").replace("INVITE sip", "CANCEL sip").replace("1 INVITE", "1 CANCEL");
    world.heard();
    let sent = world.receive(&cancel);
    assert_eq!(sent[0].start(), "SIP/2.0 200 OK");
    assert!(world.heard().is_empty(), "no effect on the call (9.2)");
    let sent = world.receive(&in_dialog(&ok, "BYE", 2, "3", ""));
    assert_eq!(sent[0].start(), "SIP/2.0 200 OK");
    assert_eq!(world.heard(), ["ended Bye"]);
    // BYE may overtake the ACK and be right: nothing is repeated, the ACK is ignored.
    assert!(world.wait(Duration::from_secs(5)).is_empty());
    assert!(world.receive(&in_dialog(&ok, "ACK", 1, "4", "")).is_empty());
    assert!(world.is_clean());
}

#[test]
fn case_t02_a_cancelled_invite_gets_487_with_the_same_tag() {
    let mut world = World::new();
    world.receive(&invite("1", "", "offer"));
    let ringing = world.provide(world.usage(), 0, 180).remove(0);
    world.heard();
    let cancel =
        invite("1", "", "").replace("INVITE sip", "CANCEL sip").replace("1 INVITE", "1 CANCEL");
    let sent = world.receive(&cancel);
    let starts: Vec<_> = sent.iter().map(common::Sent::start).collect();
    assert_eq!(starts, ["SIP/2.0 200 OK", "SIP/2.0 487 Request Terminated"]);
    assert_eq!(sent[1].header("To"), ringing.header("To"));
    assert_eq!(world.heard(), ["ended Cancelled"]);
    let ack = invite("1", "", "").replace("INVITE sip", "ACK sip").replace("1 INVITE", "1 ACK");
    let ack = ack.replace("To: <sip:100@192.0.2.100>", &format!("To: {}", ringing.header("To")));
    assert!(world.receive(&ack).is_empty());
    assert!(world.wait(Duration::from_secs(10)).is_empty(), "the ACK was absorbed");
    assert!(world.is_clean());
}

#[test]
fn case_t04_a_cancel_of_nothing_gets_481() {
    let mut world = World::new();
    let cancel =
        invite("x", "", "").replace("INVITE sip", "CANCEL sip").replace("1 INVITE", "1 CANCEL");
    assert_eq!(world.receive(&cancel)[0].start(), "SIP/2.0 481 Call/Transaction Does Not Exist");
    assert!(world.is_clean());
}

#[test]
fn case_t05_a_bye_of_ours_waits_for_the_ack() {
    let mut world = World::new();
    world.receive(&invite("1", "", "offer"));
    let id = world.usage();
    let ok = world.accept(id, 0, Some((1, "answer"))).remove(0);
    assert!(world.end(id, 0).is_empty(), "15: not before the ACK");
    let repeats = world.wait(Duration::from_millis(2000));
    assert!(repeats.iter().all(|(_, sent)| sent.start() == "SIP/2.0 200 OK"));
    let sent = world.receive(&in_dialog(&ok, "ACK", 1, "2", ""));
    assert_eq!(sent[0].start(), "BYE sip:bob@192.0.2.1 SIP/2.0");
    assert_eq!(sent[0].header("Reason"), "Q.850;cause=16");
    world.receive(&common::response(&sent[0], "200 OK", "", "", ""));
    assert!(world.is_clean());
}

#[test]
fn case_t05_without_any_ack_the_call_is_hung_up_after_64_t1() {
    let mut world = World::new();
    world.receive(&invite("1", "", "offer"));
    world.accept(world.usage(), 0, Some((1, "answer")));
    world.heard();
    let sent = world.wait(Duration::from_millis(33_000));
    let successes = sent.iter().filter(|(_, sent)| sent.start() == "SIP/2.0 200 OK").count();
    assert_eq!(successes, 10, "0.5 1.5 3.5 7.5 ... every 4 s up to 31.5");
    let (at, bye) = sent.iter().find(|(_, sent)| sent.start().starts_with("BYE")).unwrap();
    assert!((32_000..32_050).contains(at), "{at}");
    assert_eq!(bye.header("CSeq"), "1 BYE");
    assert_eq!(world.heard(), ["ended AckMissing"]);
    assert!(world.is_clean());
}

#[test]
fn a_merged_request_gets_482() {
    let mut world = World::new();
    world.receive(&invite("1", "", "offer"));
    let sent = world.receive(&invite("2", "", "offer"));
    assert_eq!(sent[0].start(), "SIP/2.0 482 Loop Detected");
    world.end(world.usage(), 486);
    world.wait(Duration::from_secs(40));
    let sent = world.receive(&invite("3", "", "offer"));
    assert_eq!(sent[0].start(), "SIP/2.0 100 Trying", "the first is over");
}

#[test]
fn requests_are_checked_in_the_order_of_the_rfc() {
    let cases = [
        ("Require: 100rel\n", "SIP/2.0 420 Bad Extension"),
        ("Accept: text/plain\n", "SIP/2.0 406 Not Acceptable"),
        ("Content-Encoding: gzip\n", "SIP/2.0 415 Unsupported Media Type"),
        ("Accept: */*;q=0.1\n", "SIP/2.0 100 Trying"),
    ];
    for (extra, status) in cases {
        let mut world = World::new();
        let sent = world.receive(&invite("1", extra, "offer"));
        assert_eq!(sent[0].start(), status, "{extra}");
    }
    let mut world = World::new();
    let sent = world.receive(&invite("1", "Require: 100rel, foo\nRequire: bar\n", "offer"));
    assert_eq!(sent[0].headers("Unsupported"), ["100rel,foo,bar"]);
    let urn = invite("2", "", "").replace("INVITE sip:100@192.0.2.100", "INVITE urn:service:sos");
    assert_eq!(world.receive(&urn)[0].start(), "SIP/2.0 416 Unsupported URI Scheme");
    let no_hops = invite("3", "", "").replace("Max-Forwards: 70", "Max-Forwards: 0");
    assert_eq!(world.receive(&no_hops)[0].start(), "SIP/2.0 483 Too Many Hops");
    let unknown = invite("4", "", "").replace("INVITE", "FROBNICATE");
    let sent = world.receive(&unknown);
    assert_eq!(sent[0].start(), "SIP/2.0 501 Not Implemented");
    let unsupported = invite("5", "", "").replace("INVITE", "MESSAGE");
    let sent = world.receive(&unsupported);
    assert_eq!(sent[0].start(), "SIP/2.0 405 Method Not Allowed");
    assert!(sent[0].header("Allow").contains("INVITE"));
}

#[test]
fn case_p06_a_body_without_a_type_is_refused() {
    let mut world = World::new();
    let text = invite("1", "Supported:\n", "offer").replace("Content-Type: application/sdp\n", "");
    let sent = world.receive(&text);
    assert_eq!(sent[0].start(), "SIP/2.0 415 Unsupported Media Type");
    assert_eq!(sent[0].header("Accept"), "application/sdp");
}

#[test]
fn an_invite_without_contact_is_a_bad_request() {
    let mut world = World::new();
    let text = invite("1", "", "offer").replace("Contact: <sip:bob@192.0.2.1>\n", "");
    assert_eq!(world.receive(&text)[0].start(), "SIP/2.0 400 Bad Request");
    assert!(world.is_clean());
}

#[test]
fn case_s05_a_delayed_offer_is_ours_to_make() {
    let mut world = World::new();
    world.receive(&invite("1", "", ""));
    assert_eq!(world.heard(), ["invited"]);
    let ok = world.accept(world.usage(), 0, Some((2, "our offer"))).remove(0);
    assert_eq!(ok.body(), "our offer");
    world.receive(&in_dialog(&ok, "ACK", 1, "2", "their answer"));
    assert_eq!(world.heard(), ["acked", "Answer 2 their answer"]);
}

#[test]
fn case_s05_a_description_in_the_ack_after_the_answer_is_ignored() {
    let mut world = World::new();
    world.receive(&invite("1", "", "offer"));
    let ok = world.accept(world.usage(), 0, Some((1, "answer"))).remove(0);
    world.heard();
    world.receive(&in_dialog(&ok, "ACK", 1, "2", "once more"));
    assert_eq!(world.heard(), ["acked"]);
}

#[test]
fn case_rr03_record_route_is_copied_and_makes_the_route_set() {
    let mut world = World::new();
    let routes = "Record-Route: <sip:p1@192.0.2.11;lr>, <sip:p2@192.0.2.12;lr>\n\
                  Record-Route: <sip:p3@192.0.2.13;lr>\n";
    world.receive(&invite("1", routes, "offer"));
    let id = world.usage();
    let ringing = world.provide(id, 0, 180).remove(0);
    assert_eq!(ringing.headers("Record-Route").len(), 2);
    let ok = world.accept(id, 0, Some((1, "answer"))).remove(0);
    world.receive(&in_dialog(&ok, "ACK", 1, "2", ""));
    let bye = world.end(id, 0).remove(0);
    assert_eq!(
        bye.headers("Route"),
        ["<sip:p1@192.0.2.11;lr>", "<sip:p2@192.0.2.12;lr>", "<sip:p3@192.0.2.13;lr>"]
    );
    assert_eq!(bye.to, "192.0.2.11:5060");
    assert_eq!(bye.start(), "BYE sip:bob@192.0.2.1 SIP/2.0");
}

#[test]
fn case_rr01_a_strict_router_gets_the_request_uri() {
    let mut world = World::new();
    let routes = "Record-Route: <sip:gw@192.0.2.101;transport=udp;pgw-call=call-1>\n\
                  Record-Route: <sip:192.0.2.245;lr=on>\n";
    world.receive(&invite("1", routes, "offer"));
    let id = world.usage();
    let ok = world.accept(id, 0, Some((1, "answer"))).remove(0);
    world.receive(&in_dialog(&ok, "ACK", 1, "2", ""));
    let bye = world.end(id, 0).remove(0);
    assert_eq!(bye.start(), "BYE sip:gw@192.0.2.101;transport=udp;pgw-call=call-1 SIP/2.0");
    assert_eq!(bye.headers("Route"), ["<sip:192.0.2.245;lr=on>", "<sip:bob@192.0.2.1>"]);
    assert_eq!(bye.to, "192.0.2.101:5060");
}

#[test]
fn case_t11_a_second_invite_before_the_first_is_done_gets_500() {
    let mut world = World::new();
    let (id, ok) = answered(&mut world);
    world.receive(&in_dialog(&ok, "INVITE", 2, "r1", "hold"));
    assert_eq!(world.heard(), ["Offer 3 hold"]);
    let sent = world.receive(&in_dialog(&ok, "INVITE", 3, "r2", "more"));
    assert_eq!(sent[0].start(), "SIP/2.0 500 Server Internal Error");
    let seconds: u32 = sent[0].header("Retry-After").parse().unwrap();
    assert!(seconds <= 10);
    let sent = world.describe(id, 3, Kind::Answer, "held");
    assert_eq!((sent[0].start(), sent[0].body()), ("SIP/2.0 200 OK", "held"));
    world.receive(&in_dialog(&ok, "ACK", 2, "r3", ""));
    assert_eq!(world.heard(), ["acked"]);
}

#[test]
fn an_empty_reinvite_asks_for_an_offer() {
    let mut world = World::new();
    let (id, ok) = answered(&mut world);
    world.receive(&in_dialog(&ok, "INVITE", 2, "r1", ""));
    assert_eq!(world.heard(), ["wants offer 3"]);
    let sent = world.describe(id, 3, Kind::Offer, "our offer");
    assert_eq!((sent[0].start(), sent[0].body()), ("SIP/2.0 200 OK", "our offer"));
    world.receive(&in_dialog(&ok, "ACK", 2, "r2", "their answer"));
    assert_eq!(world.heard(), ["acked", "Answer 3 their answer"]);
}

#[test]
fn a_refused_reinvite_leaves_the_call_as_it_was() {
    let mut world = World::new();
    let (id, ok) = answered(&mut world);
    world.receive(&in_dialog(&ok, "INVITE", 2, "r1", "strange"));
    world.heard();
    let (gone, sent) = world.refuse_offer(id, 3, 488);
    assert!(!gone);
    assert_eq!(sent[0].start(), "SIP/2.0 488 Not Acceptable Here");
    world.receive(&in_dialog(&ok, "ACK", 2, "r1", ""));
    let sent = world.receive(&in_dialog(&ok, "INVITE", 3, "r2", "hold"));
    assert_eq!(world.heard(), ["Offer 5 hold"]);
    assert!(sent.is_empty());
}

#[test]
fn a_reinvite_can_be_cancelled() {
    let mut world = World::new();
    let (id, ok) = answered(&mut world);
    world.receive(&in_dialog(&ok, "INVITE", 2, "r1", "hold"));
    let sent = world.receive(&in_dialog(&ok, "CANCEL", 2, "r1", ""));
    let starts: Vec<_> = sent.iter().map(common::Sent::start).collect();
    assert_eq!(starts, ["SIP/2.0 200 OK", "SIP/2.0 487 Request Terminated"]);
    world.heard();
    assert!(world.describe(id, 3, Kind::Answer, "too late").is_empty());
    world.receive(&in_dialog(&ok, "ACK", 2, "r1", ""));
    let sent = world.receive(&in_dialog(&ok, "BYE", 3, "r2", ""));
    assert_eq!(sent[0].start(), "SIP/2.0 200 OK");
    assert!(world.is_clean());
}

#[test]
fn foreign_requests_are_asked_and_replied_to() {
    let mut world = World::new();
    let (id, ok) = answered(&mut world);
    for (cseq, method) in [(2, "INFO"), (3, "OPTIONS"), (4, "FROB")] {
        assert!(world.receive(&in_dialog(&ok, method, cseq, method, "")).is_empty());
    }
    assert_eq!(world.heard(), ["asked 1 INFO", "asked 3 OPTIONS", "asked 5 FROB"]);
    let sent = world.reply(id, 3, 200, "X-Hello: there\r\n");
    assert_eq!(sent[0].start(), "SIP/2.0 200 OK");
    assert_eq!(sent[0].header("CSeq"), "3 OPTIONS");
    assert_eq!(sent[0].header("X-Hello"), "there");
    // The dialog ends: what still waits is answered.
    let sent = world.receive(&in_dialog(&ok, "BYE", 5, "bye", ""));
    let starts: Vec<_> = sent.iter().map(common::Sent::start).collect();
    assert_eq!(starts.iter().filter(|start| start.contains("481")).count(), 2, "{starts:?}");
    assert!(world.is_clean());
}

#[test]
fn requests_out_of_order_get_500_and_unknown_dialogs_481() {
    let mut world = World::new();
    let (_, ok) = answered(&mut world);
    let sent = world.receive(&in_dialog(&ok, "INFO", 1, "old", ""));
    assert_eq!(sent[0].start(), "SIP/2.0 500 Server Internal Error");
    let stranger = in_dialog(&ok, "BYE", 2, "s", "").replace("tag=b", "tag=c");
    assert_eq!(world.receive(&stranger)[0].start(), "SIP/2.0 481 Call/Transaction Does Not Exist");
    let guess = in_dialog(&ok, "BYE", 2, "g", "").replace("in@peer", "other@peer");
    assert_eq!(world.receive(&guess)[0].start(), "SIP/2.0 481 Call/Transaction Does Not Exist");
    assert!(world.heard().is_empty());
    let update = world.receive(&in_dialog(&ok, "UPDATE", 2, "u", ""));
    assert_eq!(update[0].start(), "SIP/2.0 405 Method Not Allowed");
    let prack = world.receive(&in_dialog(&ok, "PRACK", 3, "p", ""));
    assert_eq!(prack[0].start(), "SIP/2.0 481 Call/Transaction Does Not Exist");
}

#[test]
fn case_p13_a_notify_outside_of_any_subscription_gets_481() {
    let mut world = World::new();
    let body = format!("Message-Account: {}\n", "x".repeat(600));
    let notify = invite("n", "Event: message-summary\n", &body).replace("INVITE", "NOTIFY");
    let sent = world.receive(&notify);
    assert_eq!(sent[0].start(), "SIP/2.0 481 Call/Transaction Does Not Exist");
    let options = invite("o", "", "").replace("INVITE", "OPTIONS");
    let sent = world.receive(&options);
    assert_eq!(sent[0].start(), "SIP/2.0 200 OK");
    assert_eq!(sent[0].header("Accept"), "application/sdp");
}

#[test]
fn early_dialogs_further_down_have_tags_of_their_own() {
    let mut world = World::new();
    world.receive(&invite("1", "", "offer"));
    let id = world.usage();
    let first = world.provide(id, 0, 180).remove(0);
    let second = world.provide(id, 1, 180).remove(0);
    assert_eq!(format!("{}.1", first.header("To")), second.header("To"));
    let ok = world.accept(id, 1, Some((1, "answer"))).remove(0);
    assert_eq!(ok.header("To"), second.header("To"));
    world.heard();
    world.receive(&in_dialog(&ok, "ACK", 1, "2", ""));
    assert_eq!(world.heard(), ["acked"]);
    let bye = world.end(id, 0).remove(0);
    assert_eq!(bye.header("From"), second.header("To"));
}

#[test]
fn a_long_ringing_is_said_again_each_minute() {
    let mut world = World::new();
    world.receive(&invite("1", "", "offer"));
    world.provide(world.usage(), 0, 180);
    let sent = world.wait(Duration::from_secs(130));
    let times: Vec<u64> = sent.iter().map(|(at, _)| *at / 1000).collect();
    assert_eq!(times, [60, 120]);
    assert!(sent.iter().all(|(_, sent)| sent.start() == "SIP/2.0 180 Ringing"));
}
