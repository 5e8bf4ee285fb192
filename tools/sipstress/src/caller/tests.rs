//! The calls' machine, message by message, on virtual time.

use super::*;
use sip::wire::{Builder, CopyWith, Framing, Name, copy_response_head};

const HOLD: Duration = Duration::from_secs(10);

fn ms(millis: u64) -> Mono {
    Mono::from_nanos(millis * 1_000_000)
}

fn caller(hold: Option<Duration>) -> Caller {
    let parties = Parties {
        user: "answer".into(),
        target: "127.0.0.1:5060".parse().unwrap(),
        local: "127.0.0.1:40000".parse().unwrap(),
    };
    let behaviour = Behaviour { hold, timeout: TRANSACTION_TIMEOUT, calls_max: 4 };
    Caller::new(Run(9), &parties, behaviour, Mono::ZERO)
}

/// What waits, all of it taken by the kernel.
fn take(caller: &mut Caller, now: Mono) -> Vec<Vec<u8>> {
    let all: Vec<_> = caller.outbox().sends().map(|(_, bytes)| bytes.to_vec()).collect();
    (0..all.len()).for_each(|place| caller.on_sent(place, now));
    caller.clear_sends();
    all
}

fn method(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == b' ').next().unwrap()).into_owned()
}

fn methods(all: &[Vec<u8>]) -> Vec<String> {
    all.iter().map(|bytes| method(bytes)).collect()
}

/// A response to `request`, with `lines` between its head and its end.
fn response(request: &[u8], status: u16, tag: &[u8], lines: &[u8]) -> Vec<u8> {
    let mut index = Index::new();
    let request = index.parse(request, Framing::Datagram).unwrap();
    let mut out = Vec::new();
    Builder::response(&mut out, status, None)
        .with(|out| {
            let source = "127.0.0.1:40000".parse().unwrap();
            copy_response_head(out, &request, Some(tag), source, CopyWith::default());
        })
        .line(lines)
        .no_body();
    out
}

const CONTACT: &[u8] = b"Contact: <sip:there:5080>\r\n";

fn deliver(caller: &mut Caller, bytes: &[u8], now: Mono) {
    caller.receive(bytes, now, now);
}

/// Lets timers act at each of their times up to `end`; what was sent, and when.
fn run(caller: &mut Caller, end: Mono) -> Vec<(u64, Vec<u8>)> {
    let mut sent = Vec::new();
    while let Some(at) = caller.next_timeout().filter(|at| *at <= end) {
        caller.fire(at);
        sent.extend(take(caller, at).into_iter().map(|bytes| (at.as_millis(), bytes)));
    }
    sent
}

#[test]
fn a_call_is_invite_ack_bye_and_counts_from_its_due_time() {
    let mut caller = caller(Some(Duration::ZERO));
    assert!(caller.place(ms(100), ms(103)));
    let invite = take(&mut caller, ms(104)).remove(0);
    let ok = response(
        &invite,
        200,
        b"t",
        b"Record-Route: <sip:p1;lr>,<sip:p2;lr>\r\nContact: <sip:there:5080>\r\n",
    );
    deliver(&mut caller, &response(&invite, 100, b"t", b""), ms(105));
    deliver(&mut caller, &response(&invite, 180, b"t", b""), ms(106));
    deliver(&mut caller, &ok, ms(150));
    let sent = take(&mut caller, ms(150));
    assert_eq!(methods(&sent), ["ACK", "BYE"]);
    for bytes in &sent {
        let mut index = Index::new();
        let message = index.parse(bytes, Framing::Datagram).unwrap();
        assert_eq!(message.request_uri(), b"sip:there:5080");
        assert_eq!(message.to_tag(), Some(&b"t"[..]));
        let routes: Vec<_> = message.headers(Name::Route).collect();
        assert_eq!(routes, [b"<sip:p2;lr>", b"<sip:p1;lr>"]);
    }
    deliver(&mut caller, &response(&sent[1], 200, b"t", b""), ms(151));
    let tally = &caller.tally;
    assert_eq!(caller.open(), 0);
    assert_eq!((tally.sent, tally.answered, tally.completed, tally.failed()), (1, 1, 1, 0));
    assert_eq!((tally.trying, tally.ringing, tally.statuses[&200]), (1, 1, 1));
    assert!((tally.setup.quantiles().max - 50.0).abs() < 0.1);
    assert!((tally.send_lag.quantiles().max - 4.0).abs() < 0.1);
}

#[test]
fn an_invite_without_answer_is_repeated_by_timer_a_and_given_up_by_timer_b() {
    let mut caller = caller(Some(HOLD));
    caller.place(ms(0), ms(0));
    let invite = take(&mut caller, ms(0)).remove(0);
    let sent = run(&mut caller, ms(40_000));
    let times: Vec<_> = sent.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [500, 1_500, 3_500, 7_500, 15_500, 31_500]);
    assert!(sent.iter().all(|(_, bytes)| *bytes == invite), "repeats are identical");
    assert_eq!(caller.tally.failures[&Cause::Timeout], 1);
    assert_eq!((caller.open(), caller.tally.retransmissions, caller.tally.sent), (0, 6, 1));

    // A 200 that comes after all: acknowledged and hung up, and the failure stands.
    deliver(&mut caller, &response(&invite, 200, b"t", CONTACT), ms(41_000));
    assert_eq!(methods(&take(&mut caller, ms(41_000))), ["ACK", "BYE"]);
    assert_eq!((caller.tally.late_answers, caller.tally.answered), (1, 0));
}

#[test]
fn a_provisional_response_stops_the_repeats_and_the_time_out_cancels() {
    let mut caller = caller(Some(HOLD));
    caller.place(ms(0), ms(0));
    let invite = take(&mut caller, ms(0)).remove(0);
    deliver(&mut caller, &response(&invite, 100, b"x", b""), ms(10));
    let sent = run(&mut caller, ms(33_000));
    let times: Vec<_> = sent.iter().map(|(at, bytes)| (*at, method(bytes))).collect();
    assert_eq!(times, [(32_000, "CANCEL".into()), (32_500, "CANCEL".into())]);
    deliver(&mut caller, &response(&sent[0].1, 200, b"x", b""), ms(33_000));
    deliver(&mut caller, &response(&invite, 487, b"t", b""), ms(33_001));
    assert_eq!(methods(&take(&mut caller, ms(33_001))), ["ACK"]);
    assert_eq!((caller.open(), caller.tally.failed()), (0, 1));
}

#[test]
fn a_failure_is_acknowledged_as_often_as_it_comes() {
    let mut caller = caller(Some(HOLD));
    caller.place(ms(0), ms(0));
    let invite = take(&mut caller, ms(0)).remove(0);
    let refusal = response(&invite, 503, b"t", b"Retry-After: 5\r\n");
    for _ in 0..2 {
        deliver(&mut caller, &refusal, ms(5));
        let ack = take(&mut caller, ms(5)).remove(0);
        let (mut one, mut other) = (Index::new(), Index::new());
        let ack = one.parse(&ack, Framing::Datagram).unwrap();
        let invite = other.parse(&invite, Framing::Datagram).unwrap();
        assert_eq!(ack.top_via().branch(), invite.top_via().branch());
        assert_eq!(ack.request_uri(), invite.request_uri());
        assert_eq!(ack.to_tag(), Some(&b"t"[..]));
    }
    let tally = &caller.tally;
    assert_eq!((tally.failures[&Cause::Unavailable], tally.retry_after), (1, 1));
    assert_eq!((tally.failed(), caller.open()), (1, 0));
}

#[test]
fn a_repeated_answer_is_acknowledged_again_and_counts_once() {
    let mut caller = caller(Some(HOLD));
    caller.place(ms(0), ms(0));
    let invite = take(&mut caller, ms(0)).remove(0);
    let ok = response(&invite, 200, b"t", CONTACT);
    deliver(&mut caller, &ok, ms(5));
    let first = take(&mut caller, ms(5));
    deliver(&mut caller, &ok, ms(505));
    let again = take(&mut caller, ms(505));
    assert_eq!(first, again);
    assert_eq!((caller.held(), caller.tally.answered, caller.tally.repeated_answers), (1, 1, 1));

    // The other branch of a fork is answered and hung up; the first one stands.
    deliver(&mut caller, &response(&invite, 200, b"other", CONTACT), ms(600));
    assert_eq!(methods(&take(&mut caller, ms(600))), ["ACK", "BYE"]);
    assert_eq!(caller.held(), 1);

    let sent = run(&mut caller, ms(60_000));
    assert_eq!((sent[0].0, method(&sent[0].1)), (10_008, "BYE".into()));
    assert_eq!(caller.tally.failures[&Cause::ByeTimeout], 1);
    assert_eq!((caller.open(), caller.held()), (0, 0));
}

#[test]
fn the_server_may_hang_up_and_ask_things() {
    let mut caller = caller(None);
    caller.place(ms(0), ms(0));
    let invite = take(&mut caller, ms(0)).remove(0);
    deliver(&mut caller, &response(&invite, 200, b"t", CONTACT), ms(5));
    take(&mut caller, ms(5));
    assert_eq!(run(&mut caller, ms(3_600_000)).len(), 0, "held until told otherwise");
    let call_id = String::from_utf8_lossy(&invite)
        .lines()
        .find(|l| l.starts_with("Call-ID"))
        .unwrap()
        .to_owned();
    let request = |method: &str| {
        format!(
            "{method} sip:x SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5060;branch=z9hG4bKq{method}\r\n\
             From: <sip:a@b>;tag=t\r\nTo: <sip:c@d>;tag=u\r\n{call_id}\r\nCSeq: 7 {method}\r\n\
             Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        )
    };
    for (name, status) in [("NOTIFY", "200"), ("OPTIONS", "200"), ("REFER", "501"), ("BYE", "200")]
    {
        deliver(&mut caller, request(name).as_bytes(), ms(10));
        let answer = take(&mut caller, ms(10)).remove(0);
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with(&format!("SIP/2.0 {status} ")), "{name}: {answer}");
    }
    assert_eq!(caller.tally.failures[&Cause::HungUp], 1);
    assert_eq!((caller.open(), caller.held(), caller.tally.requests), (0, 0, 4));
    deliver(&mut caller, request("BYE").as_bytes(), ms(11));
    assert!(take(&mut caller, ms(11))[0].starts_with(b"SIP/2.0 481 "));
}

#[test]
fn what_is_not_ours_harms_nobody() {
    let mut caller = caller(Some(HOLD));
    caller.place(ms(0), ms(0));
    let invite = take(&mut caller, ms(0)).remove(0);
    deliver(&mut caller, b"nonsense", ms(1));
    let foreign = String::from_utf8(response(&invite, 200, b"t", CONTACT)).unwrap();
    deliver(&mut caller, foreign.replace("z9hG4bKi00000009", "z9hG4bKi00000008").as_bytes(), ms(1));
    assert_eq!((caller.tally.garbage, caller.tally.strays), (1, 1));
    // A 200 without Contact makes no dialog.
    deliver(&mut caller, &response(&invite, 200, b"t", b""), ms(1));
    assert_eq!(caller.tally.failures[&Cause::Protocol], 1);
    assert_eq!(caller.open(), 0);
}

#[test]
fn an_unsent_invite_is_not_counted_as_sent() {
    let mut caller = caller(Some(HOLD));
    caller.place(ms(0), ms(0));
    caller.on_unsent(0);
    caller.clear_sends();
    assert_eq!((caller.tally.sent, caller.tally.failures[&Cause::Unsent]), (0, 1));
    assert_eq!(caller.open(), 0);
}

#[test]
fn a_full_table_places_nothing() {
    let mut caller = caller(Some(HOLD));
    assert!((0..4).all(|_| caller.place(ms(0), ms(0))));
    assert!(!caller.place(ms(0), ms(0)));
    assert_eq!(caller.waiting(), 4);
    caller.give_up_all();
    assert_eq!((caller.open(), caller.tally.failed()), (0, 4));
}
