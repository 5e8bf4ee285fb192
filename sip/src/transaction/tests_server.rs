//! The server side of the table against RFC 3261 §17.2, §9.2 and RFC 6026 §7.1.

use super::rig::{LIMITS, Rig, answer, parse, request};
use super::*;
use crate::path::Transport;

const VIA: &str = "SIP/2.0/UDP 127.0.0.2:5062;branch=z9hG4bKpeer1";
const OLD_VIA: &str = "SIP/2.0/UDP 127.0.0.2:5062";

fn accept(rig: &mut Rig, text: &str, user: u32) -> ServerId {
    let inbound = rig.receive(text);
    let Inbound::Request(id) = inbound else { panic!("{inbound:?}: {text}") };
    rig.table.set_user(id, user);
    id
}

fn cancel(rig: &mut Rig, text: &str) -> (ServerId, CancelTarget<u32>) {
    let inbound = rig.receive(text);
    let Inbound::Cancel { cancel, target } = inbound else { panic!("{inbound:?}: {text}") };
    (cancel, target)
}

#[test]
fn an_invite_repeat_is_absorbed_then_gets_the_last_provisional() {
    let mut rig = Rig::new(Transport::Udp);
    let text = request("INVITE", VIA, "");
    let id = accept(&mut rig, &text, 1);
    assert_eq!(rig.receive(&text), Inbound::Absorbed);
    assert_eq!(rig.sent(), [""; 0]);
    for status in [100, 180] {
        assert!(rig.respond(id, &text, status));
        let sent = rig.sent();
        assert_eq!(rig.receive(&text), Inbound::Absorbed);
        assert_eq!(rig.sent(), sent);
    }
    assert_eq!(rig.table.counts().responses_repeated, 2);
    assert_eq!(rig.table.counts().absorbed, 3);
}

#[test]
fn a_failure_is_repeated_until_its_ack_which_is_absorbed_for_t4() {
    let mut rig = Rig::new(Transport::Udp);
    let text = request("INVITE", VIA, "");
    let id = accept(&mut rig, &text, 1);
    rig.respond(id, &text, 486);
    assert_eq!(rig.run_to(1600), []);
    assert_eq!(rig.sent().len(), 1 + 2); // at 0.5 s and 1.5 s
    let ack = request("ACK", VIA, ";tag=b2");
    assert_eq!(rig.receive(&ack), Inbound::Absorbed);
    assert_eq!(rig.table.counts().tombstones, 1);
    assert_eq!(rig.run_to(6500), []);
    assert_eq!(rig.receive(&ack), Inbound::Absorbed);
    assert_eq!(rig.receive(&text), Inbound::Absorbed);
    assert_eq!(rig.sent(), [""; 0]);
    rig.run_to(6700);
    rig.assert_empty("Timer I is over");
    assert_eq!(rig.receive(&ack), Inbound::Ack);
}

#[test]
fn a_missing_ack_is_told() {
    let mut rig = Rig::new(Transport::Udp);
    let text = request("INVITE", VIA, "");
    let id = accept(&mut rig, &text, 1);
    rig.respond(id, &text, 486);
    assert_eq!(rig.run_to(33_000), [Outcome::AckMissing(id, Some(1))]);
    assert_eq!(rig.sent().len(), 1 + 10);
    rig.assert_empty("Timer H is over");
}

/// RFC 6026 §7.1.
#[test]
fn an_accepted_invite_absorbs_repeats_for_64_t1_and_passes_acks_up() {
    let mut rig = Rig::new(Transport::Udp);
    let text = request("INVITE", VIA, "");
    let id = accept(&mut rig, &text, 1);
    assert!(rig.respond(id, &text, 200));
    assert_eq!(rig.sent_lines(), ["SIP/2.0 200 OK"]);
    assert_eq!(rig.table.counts().servers, 0);
    assert_eq!(rig.receive(&text), Inbound::Absorbed);
    assert_eq!(rig.run_to(31_900), []);
    assert_eq!(rig.receive(&text), Inbound::Absorbed);
    assert_eq!(rig.sent(), [""; 0]); // the 2xx is the user's to repeat
    let own_branch = request("ACK", &VIA.replace("peer1", "peer2"), ";tag=b2");
    assert_eq!(rig.receive(&own_branch), Inbound::Ack);
    assert_eq!(rig.receive(&request("ACK", VIA, ";tag=b2")), Inbound::Ack);
    assert!(!rig.respond(id, &text, 200));
    rig.run_to(32_100);
    rig.assert_empty("Timer L is over");
    assert!(matches!(rig.receive(&text), Inbound::Request(_)));
}

#[test]
fn a_plain_answer_is_written_again_from_the_repeat() {
    // With a tag in the request nothing is kept of the answer, without it our own tag.
    for to_tag in [";tag=b2", ""] {
        let mut rig = Rig::new(Transport::Udp);
        let text = request("BYE", VIA, to_tag);
        let id = accept(&mut rig, &text, 1);
        rig.respond(id, &text, 481);
        let first = rig.sent();
        assert!(first[0].contains("\r\nTo: <sip:bob@b.example>;tag=b2\r\n"), "{}", first[0]);
        assert_eq!(rig.receive(&text), Inbound::Absorbed);
        assert_eq!(rig.sent(), first);
        rig.run_to(31_900);
        assert_eq!(rig.receive(&text), Inbound::Absorbed);
        rig.run_to(32_100);
        rig.assert_empty("Timer J is over");
    }
}

#[test]
fn an_answer_that_says_more_is_kept_and_sent_again() {
    for (tag, more) in [("", ""), (";tag=b2", "Allow: BYE\r\n")] {
        let mut rig = Rig::new(Transport::Udp);
        let text = request("OPTIONS", VIA, tag);
        let id = accept(&mut rig, &text, 1);
        let mut bytes = answer(&text, 200);
        bytes.insert_str(bytes.find("Content-Length").unwrap(), more);
        let (table, mut turn) = rig.turn();
        assert!(table.respond(&mut turn, id, 200, bytes.as_bytes()));
        assert_eq!(rig.sent(), [bytes.clone()]);
        assert_eq!(rig.receive(&text), Inbound::Absorbed);
        assert_eq!(rig.sent(), [bytes]);
    }
}

#[test]
fn a_non_invite_repeat_is_absorbed_then_gets_the_last_provisional() {
    let mut rig = Rig::new(Transport::Udp);
    let text = request("OPTIONS", VIA, "");
    let id = accept(&mut rig, &text, 1);
    assert_eq!(rig.receive(&text), Inbound::Absorbed);
    assert_eq!(rig.sent(), [""; 0]);
    rig.respond(id, &text, 183);
    assert_eq!(rig.receive(&text), Inbound::Absorbed);
    assert_eq!(rig.sent().len(), 2);
    rig.respond(id, &text, 200);
    assert!(!rig.respond(id, &text, 500)); // §17.2.2: discarded
    assert_eq!(rig.sent_lines(), ["SIP/2.0 200 OK"]);
}

#[test]
fn on_a_reliable_transport_only_an_accepted_invite_lingers() {
    let mut rig = Rig::new(Transport::Tcp);
    let via = VIA.replace("UDP", "TCP");
    let bye = request("BYE", &via, ";tag=b2");
    let id = accept(&mut rig, &bye, 1);
    rig.respond(id, &bye, 200);
    rig.assert_empty("Timer J is zero");
    let invite = request("INVITE", &via, "");
    let id = accept(&mut rig, &invite, 1);
    rig.respond(id, &invite, 486);
    assert_eq!(rig.run_to(10_000), []);
    assert_eq!(rig.sent().len(), 2); // no Timer G
    assert_eq!(rig.receive(&request("ACK", &via, ";tag=b2")), Inbound::Absorbed);
    rig.assert_empty("Timer I is zero");
    let id = accept(&mut rig, &invite, 1);
    rig.respond(id, &invite, 200);
    assert_eq!(rig.receive(&invite), Inbound::Absorbed); // Timer L on all transports
}

/// T02: 200 to the CANCEL and 487 to the INVITE.
#[test]
fn a_cancel_finds_its_open_invite() {
    for via in [VIA, OLD_VIA] {
        let mut rig = Rig::new(Transport::Udp);
        let invite = request("INVITE", via, "");
        let invite_id = accept(&mut rig, &invite, 1);
        rig.respond(invite_id, &invite, 180);
        let text = request("CANCEL", via, "");
        let (cancel_id, target) = cancel(&mut rig, &text);
        assert_eq!(target, CancelTarget::Open(invite_id, 1));
        assert!(rig.respond(cancel_id, &text, 200));
        assert!(rig.respond(invite_id, &invite, 487));
        assert_eq!(rig.receive(&text), Inbound::Absorbed);
        let lines = rig.sent_lines();
        assert_eq!(lines[1..3], ["SIP/2.0 200 OK", "SIP/2.0 487 Request Terminated"]);
        assert_eq!(rig.receive(&request("ACK", via, ";tag=b2")), Inbound::Absorbed);
        rig.run_to(40_000);
        rig.assert_empty(via);
    }
}

/// T01: after our final response a CANCEL is answered 200 and changes nothing.
#[test]
fn a_cancel_after_the_final_response_finds_it_answered() {
    for status in [200, 486] {
        let mut rig = Rig::new(Transport::Udp);
        let invite = request("INVITE", VIA, "");
        let id = accept(&mut rig, &invite, 1);
        rig.respond(id, &invite, status);
        let (_, target) = cancel(&mut rig, &request("CANCEL", VIA, ""));
        assert_eq!(target, CancelTarget::Answered, "{status}");
    }
}

/// T04: what was never asked cannot be cancelled.
#[test]
fn a_cancel_of_nothing_is_unknown() {
    let mut rig = Rig::new(Transport::Udp);
    let invite = request("INVITE", VIA, "");
    accept(&mut rig, &invite, 1);
    let other = request("CANCEL", &VIA.replace("peer1", "peer2"), "");
    let (id, target) = cancel(&mut rig, &other);
    assert_eq!(target, CancelTarget::Unknown);
    assert!(rig.respond(id, &other, 481));
    assert_eq!(rig.receive(&other), Inbound::Absorbed);
    assert_eq!(rig.sent_lines(), ["SIP/2.0 481 Call/Transaction Does Not Exist"; 2]);
}

/// §9.2: CANCEL has no effect on other methods.
#[test]
fn a_cancel_of_another_method_is_unknown() {
    let mut rig = Rig::new(Transport::Udp);
    accept(&mut rig, &request("OPTIONS", VIA, ""), 1);
    let (_, target) = cancel(&mut rig, &request("CANCEL", VIA, ""));
    assert_eq!(target, CancelTarget::Unknown);
}

/// §17.2.3, RFC 2543: the ACK must carry the To tag of the response.
#[test]
fn an_older_ack_is_matched_by_the_tag_of_the_response() {
    let mut rig = Rig::new(Transport::Udp);
    let invite = request("INVITE", OLD_VIA, "");
    let id = accept(&mut rig, &invite, 1);
    rig.respond(id, &invite, 486);
    assert_eq!(rig.receive(&invite), Inbound::Absorbed);
    assert_eq!(rig.receive(&request("ACK", OLD_VIA, ";tag=other")), Inbound::Ack);
    assert_eq!(rig.table.counts().servers, 1);
    assert_eq!(rig.receive(&request("ACK", OLD_VIA, ";tag=b2")), Inbound::Absorbed);
    assert_eq!(rig.table.counts().servers, 0);
}

/// A re-INVITE of an older peer has the tag in its own To.
#[test]
fn an_older_ack_in_a_dialog_is_matched_too() {
    let mut rig = Rig::new(Transport::Udp);
    let invite = request("INVITE", OLD_VIA, ";tag=b2");
    let id = accept(&mut rig, &invite, 1);
    rig.respond(id, &invite, 488);
    assert_eq!(rig.receive(&request("ACK", OLD_VIA, ";tag=b2")), Inbound::Absorbed);
    assert_eq!(rig.table.counts().servers, 0);
}

/// RFC 6026 §6: an older peer's ACK of a 2xx has the key of its INVITE, and is the user's.
#[test]
fn an_older_ack_of_a_2xx_goes_up() {
    let mut rig = Rig::new(Transport::Udp);
    let invite = request("INVITE", OLD_VIA, "");
    let id = accept(&mut rig, &invite, 1);
    rig.respond(id, &invite, 200);
    assert_eq!(rig.receive(&invite), Inbound::Absorbed);
    assert_eq!(rig.receive(&request("ACK", OLD_VIA, ";tag=b2")), Inbound::Ack);
}

/// P04: an extension method of 60 letters in a request without branch.
#[test]
fn a_long_method_without_branch_is_an_ordinary_request() {
    let mut rig = Rig::new(Transport::Udp);
    let method = "X".repeat(60);
    let text = request(&method, OLD_VIA, "");
    let id = accept(&mut rig, &text, 1);
    assert!(rig.respond(id, &text, 501));
    assert_eq!(rig.receive(&text), Inbound::Absorbed);
    let sent = rig.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0], sent[1]);
    assert!(sent[0].contains(&format!("CSeq: 314 {method}\r\n")), "{}", sent[0]);
}

/// RFC 6026 §7.1: a send error is told, and repeats are still absorbed.
#[test]
fn a_response_that_cannot_be_sent_leaves_the_invite_in_place() {
    let mut rig = Rig::new(Transport::Udp);
    let invite = request("INVITE", VIA, "");
    let id = accept(&mut rig, &invite, 1);
    let ringing = answer(&invite, 180);
    rig.respond(id, &invite, 180);
    assert_eq!(rig.send_failed(&ringing), Some(Outcome::ResponseUnsent(id, Some(1))));
    assert_eq!(rig.receive(&invite), Inbound::Absorbed);
    rig.respond(id, &invite, 200);
    assert_eq!(rig.send_failed(&answer(&invite, 200)), None);
    assert_eq!(rig.receive(&invite), Inbound::Absorbed);
}

/// §17.2.4.
#[test]
fn a_response_that_cannot_be_sent_ends_a_non_invite() {
    let mut rig = Rig::new(Transport::Udp);
    let text = request("OPTIONS", VIA, "");
    let id = accept(&mut rig, &text, 1);
    rig.respond(id, &text, 183);
    let outcome = rig.send_failed(&answer(&text, 183));
    assert_eq!(outcome, Some(Outcome::ResponseUnsent(id, Some(1))));
    rig.assert_empty("it is over");
}

#[test]
fn responses_go_where_the_via_says() {
    let mut rig = Rig::new(Transport::Udp);
    let via = "SIP/2.0/UDP 127.0.0.2:5070;branch=z9hG4bKa";
    let id = accept(&mut rig, &request("OPTIONS", via, ""), 1);
    let path = rig.table.server_path(id).unwrap();
    assert_eq!((path.remote.port(), path.local), (5070, rig.path.local));
    let via = "SIP/2.0/UDP 127.0.0.2:5070;branch=z9hG4bKb;rport";
    let id = accept(&mut rig, &request("OPTIONS", via, ""), 1);
    assert_eq!(rig.table.server_path(id), Some(rig.path)); // RFC 3581 §4
    let mut rig = Rig::new(Transport::Tcp);
    let via = "SIP/2.0/TCP 127.0.0.2:5070;branch=z9hG4bKc";
    let id = accept(&mut rig, &request("OPTIONS", via, ""), 1);
    assert_eq!(rig.table.server_path(id), Some(rig.path)); // the same connection
}

#[test]
fn a_full_table_refuses_invites_before_all_else() {
    let limits = TransactionLimits { servers_max: 16, ..LIMITS };
    let mut rig = Rig::with(Transport::Udp, limits);
    let via = |n: u32| VIA.replace("peer1", &format!("peer-{n}"));
    for n in 0..14 {
        accept(&mut rig, &request("INVITE", &via(n), ""), n);
    }
    assert_eq!(rig.receive(&request("INVITE", &via(14), "")), Inbound::Full);
    let (_, target) = cancel(&mut rig, &request("CANCEL", &via(3), ""));
    assert!(matches!(target, CancelTarget::Open(_, 3)));
    accept(&mut rig, &request("BYE", &via(15), ";tag=b2"), 15);
    assert_eq!(rig.receive(&request("BYE", &via(16), ";tag=b2")), Inbound::Full);
    assert_eq!(rig.table.counts().servers_full, 2);
    assert_eq!(rig.receive(&request("INVITE", &via(3), "")), Inbound::Absorbed);
}

#[test]
fn when_too_many_linger_the_oldest_goes_early_and_is_counted() {
    let limits = TransactionLimits { tombstones_max: 8, ..LIMITS };
    let mut rig = Rig::with(Transport::Udp, limits); // three for Timer J
    let bye = |n: u32| request("BYE", &VIA.replace("peer1", &format!("peer-{n}")), ";tag=b2");
    for n in 0..5 {
        let id = accept(&mut rig, &bye(n), n);
        rig.respond(id, &bye(n), 200);
    }
    let counts = rig.table.counts();
    assert_eq!((counts.tombstones, counts.tombstones_evicted), (3, 2));
    assert_eq!(rig.timers.len(), 1); // one timer sweeps them all
    assert_eq!(rig.receive(&bye(2)), Inbound::Absorbed);
    assert!(matches!(rig.receive(&bye(1)), Inbound::Request(_)));
    let again = rig.table.counts();
    assert_eq!(again.servers, 1);
    // What goes because it is over is not counted, even if the sweep is late.
    rig.now = rig.now + rig.table.timing.timeout() * 2;
    let id = accept(&mut rig, &bye(20), 20);
    rig.respond(id, &bye(20), 200);
    assert_eq!(rig.table.counts().tombstones_evicted, 2);
}

#[test]
fn a_flood_of_other_requests_does_not_make_us_forget_an_accepted_invite() {
    let limits = TransactionLimits { tombstones_max: 8, ..LIMITS };
    let mut rig = Rig::with(Transport::Udp, limits); // 512 bytes of answers
    let invite = request("INVITE", VIA, "");
    let id = accept(&mut rig, &invite, 1);
    rig.respond(id, &invite, 200);
    let options = |n: u32| request("OPTIONS", &VIA.replace("peer1", &format!("peer-{n}")), "");
    for n in 0..50 {
        let id = accept(&mut rig, &options(n), n);
        let answer = answer(&options(n), 200).replace("Content", "Allow: INVITE\r\nContent");
        let (table, mut turn) = rig.turn();
        table.respond(&mut turn, id, 200, answer.as_bytes());
    }
    assert_eq!(rig.receive(&invite), Inbound::Absorbed);
    rig.sent();
    let counts = rig.table.counts();
    assert_eq!((counts.tombstones, counts.tombstones_evicted), (1 + 3, 47));
    assert!(counts.answers_forgotten > 10, "{counts:?}");
    for n in 47..50 {
        assert_eq!(rig.receive(&options(n)), Inbound::Absorbed, "{n}");
    }
    assert!(rig.sent().len() < 3); // one answer of 300 bytes or so is kept
    rig.run_to(40_000);
    rig.assert_empty("all swept");
}

#[test]
fn a_late_sweep_does_not_let_the_dead_answer() {
    let mut rig = Rig::new(Transport::Udp);
    let text = request("BYE", VIA, ";tag=b2");
    let id = accept(&mut rig, &text, 1);
    rig.respond(id, &text, 200);
    rig.now = rig.now + rig.table.timing.timeout() + rig.table.timing.t1;
    let second = accept(&mut rig, &text, 2); // no sweep yet, but its time is over
    rig.respond(second, &text, 200);
    assert_eq!(rig.receive(&text), Inbound::Absorbed);
    rig.run_to(100_000);
    rig.assert_empty("all swept");
}

#[test]
fn dropping_a_server_transaction_forgets_its_request() {
    let mut rig = Rig::new(Transport::Udp);
    let text = request("OPTIONS", VIA, "");
    let id = accept(&mut rig, &text, 1);
    assert_eq!(rig.table.user_of_server(id), Some(1));
    rig.table.drop_server(id);
    rig.assert_empty("dropped");
    assert!(!rig.respond(id, &text, 200));
    assert_eq!(rig.sent(), [""; 0]);
    let mut index = Index::new();
    assert!(key::is_older(&parse(&mut index, &request("OPTIONS", OLD_VIA, ""))));
}
