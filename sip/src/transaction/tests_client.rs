//! The client side of the table against RFC 3261 §17.1, §8.1.3.3, §9.1, §18.1.2.

use super::rig::{LIMITS, Rig, answer, request};
use super::*;
use crate::mint::MINTED_LEN;
use crate::path::Transport;
use std::time::Duration;

fn invite(rig: &mut Rig) -> (ClientId, String) {
    let id = rig.request(ClientKind::Invite, "INVITE", 7);
    (id, rig.sent().remove(0))
}

fn options(rig: &mut Rig) -> (ClientId, String) {
    let id = rig.request(ClientKind::NonInvite, "OPTIONS", 8);
    (id, rig.sent().remove(0))
}

fn response(client: ClientId, user: u32, fin: bool) -> Inbound<u32> {
    Inbound::Response { client, user, fin }
}

#[test]
fn responses_find_their_user_by_the_branch() {
    let mut rig = Rig::new(Transport::Udp);
    let (first, first_text) = invite(&mut rig);
    let (second, second_text) = options(&mut rig);
    assert_eq!(rig.receive(&answer(&second_text, 200)), response(second, 8, true));
    assert_eq!(rig.receive(&answer(&first_text, 180)), response(first, 7, false));
    assert_eq!(rig.receive(&answer(&first_text, 200)), response(first, 7, true));
    rig.assert_empty("both are over");
}

#[test]
fn a_failed_invite_is_acknowledged_and_repeats_get_the_same_ack() {
    let mut rig = Rig::new(Transport::Udp);
    let (id, text) = invite(&mut rig);
    assert_eq!(rig.receive(&answer(&text, 486)), response(id, 7, true));
    let ack = rig.sent();
    assert_eq!(ack.len(), 1);
    assert!(ack[0].starts_with("ACK sip:bob@b.example SIP/2.0\r\n"), "{}", ack[0]);
    assert!(ack[0].contains("\r\nTo: <sip:bob@b.example>;tag=b2\r\n"), "{}", ack[0]);
    assert!(ack[0].contains("\r\nCSeq: 314 ACK\r\n"), "{}", ack[0]);
    let via = text.lines().nth(1).unwrap();
    assert!(ack[0].contains(via), "{}", ack[0]);

    assert_eq!(rig.receive(&answer(&text, 486)), Inbound::Absorbed);
    assert_eq!(rig.sent(), ack);
    assert_eq!(rig.table.counts().acks_repeated, 1);
    assert_eq!(rig.run_to(31_900), []);
    assert_eq!(rig.table.counts().clients, 1);
    assert_eq!(rig.run_to(32_100), []);
    rig.assert_empty("Timer D has ended it");
    assert_eq!(rig.receive(&answer(&text, 486)), Inbound::StrayResponse);
    assert_eq!(rig.sent(), [""; 0]);
}

#[test]
fn without_an_answer_the_user_is_told() {
    let mut rig = Rig::new(Transport::Udp);
    let (invite, _) = invite(&mut rig);
    let (options, _) = options(&mut rig);
    let outcomes = rig.run_to(40_000);
    assert_eq!(outcomes, [Outcome::TimedOut(invite, 7), Outcome::TimedOut(options, 8)]);
    assert_eq!(rig.table.counts().requests_repeated, 6 + 10);
    rig.assert_empty("both timed out");
}

/// G10: on a reliable transport nothing is sent twice.
#[test]
fn a_reliable_transport_gets_each_request_once() {
    for transport in [Transport::Tcp, Transport::Tls, Transport::Ws, Transport::Wss] {
        let mut rig = Rig::new(transport);
        rig.request(ClientKind::NonInvite, "OPTIONS", 8);
        rig.request(ClientKind::Invite, "INVITE", 7);
        assert_eq!(rig.sent().len(), 2);
        assert_eq!(rig.run_to(40_000).len(), 2); // Timer F and Timer B
        assert_eq!(rig.sent(), [""; 0]);
        assert_eq!(rig.table.counts().requests_repeated, 0);
    }
}

#[test]
fn timer_d_is_zero_on_a_reliable_transport() {
    let mut rig = Rig::new(Transport::Tcp);
    let (id, text) = invite(&mut rig);
    assert_eq!(rig.receive(&answer(&text, 486)), response(id, 7, true));
    assert_eq!(rig.sent_lines(), ["ACK sip:bob@b.example SIP/2.0"]);
    rig.assert_empty("Timer D is zero");
}

#[test]
fn a_repeat_of_a_final_answer_to_a_non_invite_reaches_nobody() {
    let mut rig = Rig::new(Transport::Udp);
    let (id, text) = options(&mut rig);
    assert_eq!(rig.receive(&answer(&text, 200)), response(id, 8, true));
    // Even when the slot is in use again.
    options(&mut rig);
    assert_eq!(rig.receive(&answer(&text, 200)), Inbound::StrayResponse);
}

/// RFC 6026 §7.2: further 2xx go to the user, here as strays that it knows by its From tag.
#[test]
fn a_late_2xx_is_a_stray() {
    let mut rig = Rig::new(Transport::Udp);
    let (id, text) = invite(&mut rig);
    assert_eq!(rig.receive(&answer(&text, 200)), response(id, 7, true));
    assert_eq!(rig.receive(&answer(&text, 200)), Inbound::StrayResponse);
    assert_eq!(rig.sent(), [""; 0]); // never an ACK of this layer
}

/// P12 and §8.1.3.3: the user agent hears nothing of it, and Timer B ends the transaction.
#[test]
fn a_response_with_more_than_one_via_is_dropped_in_silence() {
    let mut rig = Rig::new(Transport::Udp);
    let (id, text) = invite(&mut rig);
    let two =
        answer(&text, 200).replacen("Via: ", "Via: SIP/2.0/UDP x;branch=z9hG4bK1\r\nVia: ", 1);
    assert_eq!(rig.receive(&two), Inbound::Dropped);
    let (first, rest) = (two.find("Via: ").unwrap(), answer(&text, 200));
    let listed = format!("{}, SIP/2.0/UDP y;branch=z9hG4bK2", rest.lines().nth(1).unwrap());
    let listed = rest.replacen(rest.lines().nth(1).unwrap(), &listed, 1);
    assert!(first > 0);
    assert_eq!(rig.receive(&listed), Inbound::Dropped);
    assert_eq!(rig.table.counts().dropped_vias, 2);
    assert_eq!(rig.run_to(33_000), [Outcome::TimedOut(id, 7)]);
    rig.assert_empty("Timer B has ended it");
}

/// P12: without any Via the message does not pass the wire layer.
#[test]
fn a_response_without_via_is_no_message() {
    let mut rig = Rig::new(Transport::Udp);
    let (_, text) = invite(&mut rig);
    let text = answer(&text, 200);
    let without = text.replacen(&format!("{}\r\n", text.lines().nth(1).unwrap()), "", 1);
    assert!(!without.contains("Via"));
    assert!(Index::new().parse(without.as_bytes(), crate::wire::Framing::Datagram).is_err());
}

#[test]
fn a_response_with_a_foreign_sent_by_is_dropped() {
    let mut rig = Rig::new(Transport::Udp);
    let (id, text) = invite(&mut rig);
    for foreign in ["127.0.0.1:5061", "127.0.0.1", "a.example:5060"] {
        let forged = answer(&text, 200).replacen("127.0.0.1:5060", foreign, 1);
        assert_eq!(rig.receive(&forged), Inbound::Dropped, "{foreign}");
    }
    assert_eq!(rig.table.counts().dropped_sent_by, 3);
    assert_eq!(rig.receive(&answer(&text, 200)), response(id, 7, true));
}

/// §17.1.3: the method in CSeq must match too.
#[test]
fn a_response_with_another_method_is_a_stray() {
    let mut rig = Rig::new(Transport::Udp);
    let (_, text) = options(&mut rig);
    let other = answer(&text, 200).replace("314 OPTIONS", "314 BYE");
    assert_eq!(rig.receive(&other), Inbound::StrayResponse);
    let (_, text) = invite(&mut rig);
    for method in ["OPTIONS", "CANCEL", "ACK"] {
        let other = answer(&text, 200).replace("314 INVITE", &format!("314 {method}"));
        assert_eq!(rig.receive(&other), Inbound::StrayResponse, "{method}");
    }
}

#[test]
fn a_branch_that_we_did_not_mint_is_a_stray() {
    let mut rig = Rig::new(Transport::Udp);
    let (_, text) = options(&mut rig);
    let branch_at = text.find("z9hG4bK").unwrap();
    let branch = &text[branch_at..branch_at + 7 + MINTED_LEN];
    for strange in ["z9hG4bK17", "17", "z9hG4bK000000000000000000000000"] {
        let other = answer(&text, 200).replace(branch, strange);
        assert_eq!(rig.receive(&other), Inbound::StrayResponse, "{strange}");
    }
    assert_eq!(rig.table.counts().strays, 3);
}

#[test]
fn a_branch_of_another_shard_or_an_earlier_run_is_a_stray() {
    let mut rig = Rig::new(Transport::Udp);
    let (_, text) = options(&mut rig);
    let branch_at = text.find("z9hG4bK").unwrap();
    let branch = &text[branch_at..branch_at + 7 + MINTED_LEN];
    for (epoch, shard) in [(1, 1), (0, 0)] {
        let other = Minter::new(epoch, shard, HashKey::new(1, 2));
        let minted = other.branch(Slot { index: 0, generation: 1 });
        let foreign = answer(&text, 200).replace(branch, std::str::from_utf8(&minted).unwrap());
        assert_eq!(rig.receive(&foreign), Inbound::StrayResponse, "{epoch} {shard}");
    }
}

#[test]
fn an_answer_to_a_loose_branch_is_a_stray() {
    let mut rig = Rig::new(Transport::Udp);
    let one = rig.table.loose_branch();
    let two = rig.table.loose_branch();
    assert_ne!(one, two);
    let branch = std::str::from_utf8(&one).unwrap();
    let via = format!("SIP/2.0/UDP 127.0.0.1:5060;branch={branch}");
    let text = answer(&request("INVITE", &via, ""), 200);
    assert_eq!(rig.receive(&text), Inbound::StrayResponse);
}

#[test]
fn the_cancel_shares_the_branch_and_answers_find_the_right_one() {
    let mut rig = Rig::new(Transport::Udp);
    let (invite, text) = invite(&mut rig);
    assert_eq!(rig.cancel(invite, 9), None); // §9.1: no provisional response yet
    rig.receive(&answer(&text, 180));
    let cancel = rig.cancel(invite, 9).unwrap();
    let cancel_text = rig.sent().remove(0);
    assert!(cancel_text.starts_with("CANCEL sip:bob@b.example SIP/2.0\r\n"), "{cancel_text}");
    assert_eq!(cancel_text.lines().nth(1), text.lines().nth(1));
    assert_eq!(rig.cancel(invite, 9), None); // once is enough

    assert_eq!(rig.receive(&answer(&cancel_text, 200)), response(cancel, 9, true));
    assert_eq!(rig.receive(&answer(&text, 487)), response(invite, 7, true));
    assert_eq!(rig.sent_lines(), ["ACK sip:bob@b.example SIP/2.0"]);
    rig.run_to(40_000);
    rig.assert_empty("cancelled");
}

/// The answer to a CANCEL may come after that to its INVITE, whose slot leads to it.
#[test]
fn the_cancel_is_found_after_its_invite_has_ended() {
    for status in [200, 487] {
        for transport in [Transport::Udp, Transport::Tcp] {
            let mut rig = Rig::new(transport);
            let (invite, text) = invite(&mut rig);
            rig.receive(&answer(&text, 180));
            let cancel = rig.cancel(invite, 9).unwrap();
            let cancel_text = rig.sent().remove(0);
            assert_eq!(rig.receive(&answer(&text, status)), response(invite, 7, true));
            assert_eq!(rig.receive(&answer(&cancel_text, 200)), response(cancel, 9, true));
            rig.run_to(40_000);
            rig.assert_empty("both are over");
        }
    }
}

/// T03: the 2xx crossed the CANCEL. The user sees both and does ACK and BYE.
#[test]
fn a_2xx_that_crosses_the_cancel_reaches_the_user() {
    let mut rig = Rig::new(Transport::Udp);
    let (invite, text) = invite(&mut rig);
    rig.receive(&answer(&text, 180));
    let cancel = rig.cancel(invite, 9).unwrap();
    let cancel_text = rig.sent().remove(0);
    assert_eq!(rig.receive(&answer(&text, 200)), response(invite, 7, true));
    assert_eq!(rig.receive(&answer(&text, 200)), Inbound::StrayResponse);
    assert_eq!(rig.receive(&answer(&cancel_text, 481)), response(cancel, 9, true));
    assert_eq!(rig.sent(), [""; 0]);
    rig.assert_empty("both are over");
}

/// §9.1, last paragraph.
#[test]
fn a_cancelled_invite_ends_even_if_nobody_answers() {
    let mut rig = Rig::new(Transport::Udp);
    let (invite, text) = invite(&mut rig);
    rig.receive(&answer(&text, 180));
    rig.run_to(100_000);
    let cancel = rig.cancel(invite, 9).unwrap();
    let mut outcomes = rig.run_to(140_000);
    outcomes.sort_by_key(|outcome| matches!(outcome, Outcome::TimedOut(id, _) if *id == cancel));
    assert_eq!(outcomes, [Outcome::TimedOut(invite, 7), Outcome::TimedOut(cancel, 9)]);
    rig.assert_empty("both timed out");
}

#[test]
fn an_invite_that_rings_waits_for_ever_until_its_user_drops_it() {
    let mut rig = Rig::new(Transport::Udp);
    let (invite, text) = invite(&mut rig);
    rig.receive(&answer(&text, 180));
    assert_eq!(rig.run_for(Duration::from_secs(3600)), []);
    rig.table.drop_client(invite);
    rig.assert_empty("dropped");
    assert_eq!(rig.receive(&answer(&text, 200)), Inbound::StrayResponse);
}

/// §17.1.4.
#[test]
fn a_request_that_cannot_be_sent_ends_its_transaction() {
    let mut rig = Rig::new(Transport::Udp);
    let (invite, text) = invite(&mut rig);
    assert_eq!(rig.send_failed(&text), Some(Outcome::RequestUnsent(invite, 7)));
    assert_eq!(rig.send_failed(&text), None);
    let (options, text) = options(&mut rig);
    assert_eq!(rig.send_failed(&text), Some(Outcome::RequestUnsent(options, 8)));
    rig.assert_empty("both are over");
}

#[test]
fn an_ack_or_cancel_that_cannot_be_sent_ends_only_what_it_belongs_to() {
    let mut rig = Rig::new(Transport::Udp);
    let (invite, text) = invite(&mut rig);
    rig.receive(&answer(&text, 180));
    let cancel = rig.cancel(invite, 9).unwrap();
    let cancel_text = rig.sent().remove(0);
    assert_eq!(rig.send_failed(&cancel_text), Some(Outcome::RequestUnsent(cancel, 9)));
    rig.receive(&answer(&text, 487));
    let ack = rig.sent().remove(0);
    assert_eq!(rig.send_failed(&ack), None); // the user has had its final response
    rig.assert_empty("both are over");
}

#[test]
fn a_full_table_refuses_invites_before_all_else() {
    let limits = TransactionLimits { clients_max: 16, ..LIMITS };
    let mut rig = Rig::with(Transport::Udp, limits);
    let invites: Vec<_> =
        (0..14).map(|user| rig.request(ClientKind::Invite, "INVITE", user)).collect();
    assert_eq!(rig.try_request(ClientKind::Invite, "INVITE", 14), None);
    let texts = rig.sent();
    assert_eq!(texts.len(), 14);
    rig.receive(&answer(&texts[0], 180));
    assert!(rig.cancel(invites[0], 9).is_some());
    assert!(rig.try_request(ClientKind::NonInvite, "BYE", 15).is_some());
    assert_eq!(rig.try_request(ClientKind::NonInvite, "BYE", 16), None);
    assert_eq!(rig.sent().len(), 2); // nothing is sent for what found no room
    assert_eq!(rig.table.counts().clients_full, 2);
}
