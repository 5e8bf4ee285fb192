//! Keep-alives to contacts: reachable, unreachable, and what that means for calls.

#![allow(clippy::unwrap_used)] // a test may fail loudly

mod common;

use std::time::Duration;

use common::World;
use common::phone::{Device, account, answer, phones, status};
use pbx_core::{Fact, QualifySpec};

const PLAN: &str = r#"
[[context.default.exten]]
match = "_1XXX"
steps = ["Dial(SIP/${EXTEN},60)", "Hangup()"]
"#;

const A: &str = "192.0.2.10:5060";
const B: &str = "192.0.2.11:5060";

/// 1001 is registered at B and asked every 20 s.
fn world() -> World {
    let mut list = vec![account("1000"), account("1001")];
    let every = Duration::from_secs(20);
    list[1].qualify = Some(QualifySpec { every, ..QualifySpec::default() });
    let mut world = World::of(PLAN, phones(list), |_| {});
    Device::new("1001", B).register(&mut world, "");
    world
}

/// The first keep-alive among what was sent.
fn ping(sent: &[(String, String)]) -> Option<(String, String)> {
    sent.iter().find(|(_, text)| text.starts_with("OPTIONS ")).cloned()
}

/// What was told about the contact, and how long it took.
fn told(world: &mut World) -> Vec<(bool, Option<Duration>)> {
    let told = world.out.facts.iter().filter_map(|fact| {
        let Fact::PeerReach { is_reachable, rtt, .. } = fact else { return None };
        Some((*is_reachable, *rtt))
    });
    let told = told.collect();
    world.out.facts.clear();
    told
}

#[test]
fn a_contact_that_answers_is_reachable_and_its_time_is_known() {
    let mut world = world();
    let (to, text) = ping(&world.wait(Duration::from_secs(10))).expect("asked within 10 s");
    assert_eq!(to, B);
    assert!(text.starts_with("OPTIONS sip:1001@192.0.2.11:5060 SIP/2.0"), "{text}");
    // `wait` stands at its end: the answer comes some time after the request.
    world.receive(B, &answer(&text, "404 Not Found", "x", ""));
    let told = told(&mut world);
    assert!(matches!(told[..], [(true, Some(_))]), "any answer will do: {told:?}");
    let again = ping(&world.wait(Duration::from_secs(21))).expect("asked again");
    assert_ne!(common::header(&again.1, "CSeq"), common::header(&text, "CSeq"));
}

#[test]
fn two_silences_make_it_unreachable_and_one_answer_brings_it_back() {
    let mut world = world();
    world.wait(Duration::from_secs(60));
    assert_eq!(told(&mut world), [(false, None)]);
    // Calls know: nobody is there.
    let sent = Device::new("1000", A).call(&mut world, "1001");
    assert_eq!(status(&sent), "480", "{sent:#?}");
    // Those that were not answered are still repeated; a new one has a new number.
    let number = |text: &str| {
        common::header(text, "CSeq").split(' ').next().unwrap().parse::<u32>().unwrap()
    };
    let mut seen = 0;
    let mut fresh = None;
    for second in 0..60 {
        let sent = world.wait(Duration::from_secs(1));
        let all = sent.iter().filter(|(_, text)| text.starts_with("OPTIONS "));
        let Some((_, text)) = all.max_by_key(|(_, text)| number(text)) else { continue };
        if second > 30 && number(text) > seen {
            fresh = Some(text.clone());
            break;
        }
        seen = seen.max(number(text));
    }
    world.receive(B, &answer(&fresh.unwrap(), "200 OK", "x", ""));
    assert!(matches!(told(&mut world)[..], [(true, Some(_))]));
    let sent = Device::new("1000", A).call(&mut world, "1001");
    assert!(sent.iter().any(|(to, text)| to == B && text.starts_with("INVITE ")), "{sent:#?}");
}

#[test]
fn nobody_asks_a_contact_that_is_gone() {
    let mut world = world();
    world.wait(Duration::from_secs(1));
    assert_eq!(world.shard.counts().pinged, 1);
    let mut device = Device::new("1001", B);
    device.call_id = "another".into();
    device.register(&mut world, "Contact: *\nExpires: 0\n");
    world.wait(Duration::from_secs(30));
    assert_eq!(world.shard.counts().pinged, 0);
    assert!(ping(&world.wait(Duration::from_secs(60))).is_none());
}
