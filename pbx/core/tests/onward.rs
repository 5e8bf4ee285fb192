//! Local legs, forwarding, redirections, and calls that an operator begins, through a whole shard.

#![allow(clippy::unwrap_used)] // a test may fail loudly

mod common;

use std::time::Duration;

use call::Destination;
use common::phone::{Device, account, answer, phones, status};
use common::{SDP, World, header};
use dialplan::{Address, Technology};
use pbx_core::{CallerId, Fact, Forward, NotOriginated, Onto, Originate, Phone};

const PLAN: &str = r#"
[[context.default.exten]]
match = "_1XXX"
steps = ["Dial(SIP/${EXTEN},60)", "Hangup()"]
[[context.default.exten]]
match = "_9."
steps = ["Dial(SIP/${EXTEN:1},60,i)", "Hangup()"]
[[context.default.exten]]
match = "local"
steps = [
    "Set(__MARK=kept)", "SIPAddHeader(X-Mark: outer)", "Dial(Local/inner@other,60)", "Hangup()",
]
[[context.default.exten]]
match = "loop"
steps = ["Dial(Local/loop@default&Local/loop@default)", "Hangup()"]
[[context.default.exten]]
match = "answer"
steps = ["Answer()", "Wait(3600)"]
[[context.other.exten]]
match = "inner"
steps = ["SIPAddHeader(X-Mark: ${MARK})", "Dial(SIP/1001,60)", "Hangup()"]
"#;

const A: &str = "192.0.2.10:5060";
const B: &str = "192.0.2.11:5060";
const C: &str = "192.0.2.12:5060";

/// 1000 calls; 1001 and 1002 are registered at B and C.
fn world(change: impl FnOnce(&mut Phone)) -> World {
    let mut list = vec![account("1000"), account("1001"), account("1002")];
    change(&mut list[1]);
    let mut world = World::of(PLAN, phones(list), |_| {});
    Device::new("1001", B).register(&mut world, "");
    Device::new("1002", C).register(&mut world, "");
    world
}

fn call(world: &mut World, number: &str) -> Vec<(String, String)> {
    Device::new("1000", A).call(world, number)
}

/// The one INVITE among what was sent: to where, and the text.
#[track_caller]
fn invite(sent: &[(String, String)]) -> (String, String) {
    let mut all: Vec<_> = sent.iter().filter(|(_, text)| text.starts_with("INVITE ")).collect();
    all.dedup();
    let [one] = all[..] else { panic!("{sent:#?}") };
    one.clone()
}

fn onto(world: &World) -> Vec<Onto> {
    let onto = |fact: &Fact| {
        if let Fact::Forwarded { onto, .. } = fact { Some(*onto) } else { None }
    };
    world.out.facts.iter().filter_map(onto).collect()
}

fn forward(always: &str, busy: &str, no_answer: &str) -> Forward {
    let number = |text: &str| (!text.is_empty()).then(|| text.into());
    Forward {
        always: number(always),
        busy: number(busy),
        no_answer: number(no_answer).map(|number| (number, Duration::from_secs(10))),
    }
}

/// Somebody answers; the caller at A must hear it, and both can hang up.
fn talk(world: &mut World, (to, text): &(String, String)) -> String {
    let sent = world.receive(to, &answer(text, "200 OK", "callee", SDP));
    let told = sent.iter().find(|(to, text)| to == A && text.starts_with("SIP/2.0 200"));
    let told = told.unwrap_or_else(|| panic!("{sent:#?}"));
    assert!(told.1.contains("m=audio"), "{}", told.1);
    assert!(sent.iter().any(|(_, text)| text.starts_with("ACK ")), "{sent:#?}");
    told.1.clone()
}

#[test]
fn a_local_leg_runs_another_extension_and_hands_its_variables_on() {
    let mut world = world(|_| {});
    let mut caller = Device::new("1000", A);
    let sent = caller.call(&mut world, "local");
    let called = invite(&sent);
    assert_eq!(called.0, B);
    assert_eq!(header(&called.1, "X-Mark"), "kept", "the inner call's own lines");
    assert!(header(&called.1, "From").contains("<sip:1000@"));
    assert_eq!(header(&called.1, "Max-Forwards"), "61");
    let sent = world.receive(&called.0, &answer(&called.1, "180 Ringing", "callee", ""));
    assert!(sent.iter().any(|(to, text)| to == A && text.starts_with("SIP/2.0 180")));
    assert_eq!(world.shard.calls(), 2);
    let answered = talk(&mut world, &called);
    world.receive(A, &caller.ack("sip:local@127.0.0.1:5060", &answered));
    // The callee hangs up: both calls end, each with a record.
    let records = world.out.records.len();
    let bye = format!(
        "BYE sip:pbx@127.0.0.1:5060 SIP/2.0\nVia: SIP/2.0/UDP {B};branch=z9hG4bK-bye\nFrom: \
         {};tag=callee\n\
         To: {}\nCall-ID: {}\nCSeq: 1 BYE\nMax-Forwards: 70\nContent-Length: 0\n\n",
        header(&called.1, "To"),
        header(&called.1, "From"),
        header(&called.1, "Call-ID"),
    );
    let sent = world.receive(B, &bye);
    assert!(sent.iter().any(|(to, text)| to == A && text.starts_with("BYE ")), "{sent:#?}");
    assert_eq!(world.out.records.len(), records + 2);
    assert_eq!(world.shard.calls(), 0);
}

#[test]
fn a_caller_who_gives_up_ends_both_calls() {
    let mut world = world(|_| {});
    let mut caller = Device::new("1000", A);
    let sent = caller.call(&mut world, "local");
    let called = invite(&sent);
    world.receive(&called.0, &answer(&called.1, "180 Ringing", "callee", ""));
    let cancel = caller.last_cancel("sip:local@127.0.0.1:5060");
    let sent = world.receive(A, &cancel);
    assert!(sent.iter().any(|(to, text)| to == B && text.starts_with("CANCEL ")), "{sent:#?}");
    assert!(sent.iter().any(|(to, text)| to == A && text.starts_with("SIP/2.0 487")), "{sent:#?}");
}

#[test]
fn local_legs_in_a_circle_come_to_an_end() {
    let mut world = world(|_| {});
    let sent = call(&mut world, "loop");
    assert!(matches!(status(&sent), "482" | "483" | "480" | "503" | "500"), "{sent:#?}");
    assert!(world.shard.counts().call.calls < 3_000, "{}", world.shard.counts().call.calls);
}

#[test]
fn every_call_goes_elsewhere_when_the_endpoint_says_so() {
    let mut world = world(|phone| phone.forward = forward("1002", "", ""));
    let called = invite(&call(&mut world, "1001"));
    assert_eq!((called.0.as_str(), onto(&world)), (C, vec![Onto::Always]));
    talk(&mut world, &called);
}

#[test]
fn a_busy_endpoint_s_call_goes_elsewhere() {
    for is_dnd in [false, true] {
        let mut world = world(|phone| {
            phone.forward = forward("", "1002", "");
            phone.dnd = is_dnd;
        });
        let mut sent = call(&mut world, "1001");
        if !is_dnd {
            let (to, text) = invite(&sent);
            sent = world.receive(&to, &answer(&text, "486 Busy Here", "callee", ""));
        }
        let called = invite(&sent);
        assert_eq!((called.0.as_str(), onto(&world)), (C, vec![Onto::Busy]));
        talk(&mut world, &called);
    }
}

#[test]
fn a_call_that_nobody_takes_goes_elsewhere_in_time() {
    let mut world = world(|phone| phone.forward = forward("", "", "1002"));
    let first = invite(&call(&mut world, "1001"));
    world.receive(&first.0, &answer(&first.1, "180 Ringing", "callee", ""));
    let sent = world.wait(Duration::from_secs(9));
    assert!(!sent.iter().any(|(_, text)| text.starts_with("CANCEL ")));
    let sent = world.wait(Duration::from_secs(2));
    assert!(sent.iter().any(|(to, text)| to == B && text.starts_with("CANCEL ")), "{sent:#?}");
    let called = invite(&sent);
    assert_eq!((called.0.as_str(), onto(&world)), (C, vec![Onto::NoAnswer]));
    talk(&mut world, &called);
}

#[test]
fn an_endpoint_that_is_not_registered_counts_as_one_that_does_not_answer() {
    let mut list = vec![account("1000"), account("1001"), account("1002")];
    list[1].forward = forward("", "", "1002");
    let mut world = World::of(PLAN, phones(list), |_| {});
    Device::new("1002", C).register(&mut world, "");
    assert_eq!(invite(&call(&mut world, "1001")).0, C);
}

#[test]
fn case_rr_a_phone_s_redirection_is_dialled_in_its_own_context() {
    let mut world = world(|_| {});
    let (to, text) = invite(&call(&mut world, "1001"));
    let redirect = |contact: &str| {
        answer(&text, "302 Moved Temporarily", "callee", "")
            .replace("Contact: <sip:callee@127.0.0.1:5999>", contact)
    };
    let sent = world.receive(&to, &redirect("Contact: <sip:1002@evil.example>"));
    let called = invite(&sent);
    assert_eq!((called.0.as_str(), onto(&world)), (C, vec![Onto::Redirected]));
    talk(&mut world, &called);
}

#[test]
fn case_rr_a_redirection_to_what_the_phone_may_not_dial_is_refused() {
    let mut world = world(|_| {});
    let (to, text) = invite(&call(&mut world, "1001"));
    let redirect = answer(&text, "302 Moved Temporarily", "callee", "")
        .replace("<sip:callee@127.0.0.1:5999>", "<sip:00900123@127.0.0.1>");
    let sent = world.receive(&to, &redirect);
    assert_eq!(status(&sent), "404", "{sent:#?}");
}

#[test]
fn case_rr_two_phones_that_redirect_to_each_other_come_to_an_end() {
    let mut world = world(|_| {});
    let mut sent = call(&mut world, "1001");
    for _ in 0..20 {
        let Some((to, text)) = sent.iter().find(|(_, text)| text.starts_with("INVITE ")) else {
            break;
        };
        let other = if to == B { "1002" } else { "1001" };
        let redirect = answer(text, "302 Moved", "callee", "")
            .replace("callee@127.0.0.1:5999", &format!("{other}@127.0.0.1"));
        let to = to.clone();
        sent = world.receive(&to, &redirect);
    }
    assert_eq!(status(&sent), "482", "no hops are left: {sent:#?}");
}

#[test]
fn a_dial_with_option_i_follows_nobody() {
    let mut world = world(|phone| phone.forward = forward("1002", "", ""));
    let (to, text) = invite(&call(&mut world, "91001"));
    assert_eq!((to.as_str(), onto(&world)), (B, vec![]));
    let sent = world.receive(&to, &answer(&text, "302 Moved", "callee", ""));
    assert!(status(&sent).starts_with('3'), "the caller learns of it: {sent:#?}");
}

fn originate(exten: &str, device: &str) -> Originate {
    Originate {
        destination: Destination {
            technology: Technology::Sip,
            address: Address::Trunk { name: device.into(), number: None },
        },
        exten: exten.into(),
        context: "default".into(),
        caller: CallerId { number: Some("77".into()), name: Some("Operator".into()) },
        ring_timeout: Duration::from_secs(30),
    }
}

#[test]
fn an_operator_joins_a_device_with_an_extension() {
    let mut world = world(|_| {});
    let sent = world.originate(originate("1002", "1001")).unwrap();
    let device = invite(&sent);
    assert_eq!(device.0, B);
    assert!(!device.1.contains("m=audio"), "no offer of ours: nobody is there yet");
    assert!(header(&device.1, "From").contains("<sip:77@"), "{}", device.1);
    let sent = world.receive(B, &answer(&device.1, "200 OK", "callee", SDP));
    let ack = sent.iter().find(|(_, text)| text.starts_with("ACK ")).expect("an ACK");
    assert!(ack.1.contains("a=inactive"), "{}", ack.1);
    let called = invite(&sent);
    assert_eq!(called.0, C);
    let sent = world.receive(C, &answer(&called.1, "200 OK", "second", SDP));
    // The device gets the other's offer in a re-INVITE.
    let again = invite(&sent);
    assert!(again.1.contains("m=audio"), "{sent:#?}");
    let sent = world.receive(B, &answer(&again.1, "200 OK", "callee", SDP));
    let acks = sent.iter().filter(|(_, text)| text.starts_with("ACK ")).count();
    assert_eq!(acks, 2, "to the device, and to the callee with the device's answer: {sent:#?}");
    assert_eq!(world.shard.calls(), 1);
}

#[test]
fn an_originated_call_fails_in_plain_words() {
    let mut world = world(|_| {});
    let failed = |world: &mut World, exten: &str, device: &str| {
        world.originate(originate(exten, device)).unwrap_err()
    };
    assert_eq!(failed(&mut world, "nobody", "1001"), NotOriginated::NoExtension);
    assert_eq!(failed(&mut world, "1002", "1000"), NotOriginated::Cause(20));
    assert_eq!(failed(&mut world, "1002", "nobody"), NotOriginated::Cause(3));
    let device = invite(&world.originate(originate("1002", "1001")).unwrap());
    world.receive(B, &answer(&device.1, "486 Busy Here", "callee", ""));
    let told = |world: &World| {
        let q850 = |fact: &Fact| {
            if let Fact::NotOriginated { q850, .. } = fact { Some(*q850) } else { None }
        };
        world.out.facts.iter().rev().find_map(q850)
    };
    assert_eq!(told(&world), Some(17));
    // One that only rings is given up.
    let device = invite(&world.originate(originate("1002", "1001")).unwrap());
    world.receive(B, &answer(&device.1, "180 Ringing", "callee", ""));
    let sent = world.wait(Duration::from_secs(31));
    assert!(sent.iter().any(|(_, text)| text.starts_with("CANCEL ")), "{sent:#?}");
    assert_eq!(told(&world), Some(19));
    world.wait(Duration::from_secs(40));
    assert_eq!(world.shard.leftovers().map(|(_, left)| left)[..2], [0, 0]);
}
