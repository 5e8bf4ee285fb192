//! Phones register and call each other, on one shard.

#![allow(clippy::unwrap_used)] // a test may fail loudly

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::phone::{Device, account, answer, phones, status};
use common::{SDP, World, header, in_dialog};
use pbx_core::{
    Budget, Directory, DirectorySpec, Fact, Phone, Prefix, Refused, Stored, Unregistered,
};
use sip::registrar::Line;

const PLAN: &str = r#"
[[context.default.exten]]
match = "_1XXX"
steps = ["Dial(SIP/${EXTEN},20)", "Hangup()"]
[[context.default.exten]]
match = "sales"
steps = ["Dial(SIP/sales,20)", "Hangup()"]
[[context.default.exten]]
match = "answer"
steps = ["Answer()", "Wait(3600)"]
"#;

const A: &str = "192.0.2.10:5060";
const B: &str = "192.0.2.11:5060";

fn world(change: impl FnOnce(&mut Vec<Phone>)) -> World {
    let mut list = vec![account("1000"), account("1001"), account("1002")];
    change(&mut list);
    World::of(PLAN, phones(list), |_| {})
}

/// The INVITEs among what was sent: to where, and the text.
fn invites(sent: &[(String, String)]) -> Vec<&(String, String)> {
    sent.iter().filter(|(_, text)| text.starts_with("INVITE ")).collect()
}

fn refusals(world: &World) -> Vec<Refused> {
    let why = |fact: &Fact| {
        if let Fact::Refused { why, .. } = fact { Some(*why) } else { None }
    };
    world.out.facts.iter().filter_map(why).collect()
}

#[test]
fn a_phone_registers_and_another_one_reaches_it() {
    let mut world = world(|_| {});
    let mut desk = Device::new("1000", A);
    let registered = desk.register(&mut world, "");
    assert!(registered.starts_with("SIP/2.0 200"), "{registered}");
    assert!(registered.contains("Contact: <sip:1000@192.0.2.10:5060>;expires=3600"));
    assert_eq!(world.out.stored.len(), 1, "it is written down");
    assert_eq!(refusals(&world), [], "a phone's first 401 is nothing to log");

    let sent = Device::new("1001", B).call(&mut world, "1000");
    let [(to, invite)] = invites(&sent)[..] else { panic!("{sent:?}") };
    assert_eq!(to, A);
    assert!(invite.starts_with("INVITE sip:1000@192.0.2.10:5060 SIP/2.0"), "{invite}");
    assert!(header(invite, "From").contains("<sip:1001@"), "{invite}");
    let answered = world.receive(A, &answer(invite, "200 OK", "d", SDP));
    let is_ack = |(to, text): &(String, String)| to == "127.0.0.1:5999" && text.starts_with("ACK ");
    assert!(answered.iter().any(is_ack), "to the contact of the answer: {answered:?}");
    assert!(answered.iter().any(|(to, text)| to == B && text.starts_with("SIP/2.0 200")));
}

#[test]
fn strangers_get_the_same_challenge_whatever_they_ask_for() {
    let mut world = world(|_| {});
    let mut seen = Vec::new();
    for (user, method, uri) in [
        ("1000", "REGISTER", "sip:127.0.0.1"),
        ("nobody", "REGISTER", "sip:127.0.0.1"),
        ("1000", "INVITE", "sip:1001@127.0.0.1"),
        ("1000", "INVITE", "sip:no-such-number@127.0.0.1"),
        ("1000", "OPTIONS", "sip:127.0.0.1"),
        ("1000", "MESSAGE", "sip:1001@127.0.0.1"),
        ("1000", "SUBSCRIBE", "sip:1001@127.0.0.1"),
    ] {
        let mut device = Device::new(user, "192.0.2.66:5060");
        device.call_id = format!("x-{}", seen.len());
        let request = device.request(method, uri, "Contact: <sip:x@192.0.2.66>\n");
        let sent = world.receive("192.0.2.66:5060", &request);
        assert_eq!(status(&sent), "401", "{method} {uri}");
        let challenge = header(&sent[0].1, "WWW-Authenticate");
        seen.push(challenge.replace(challenge.split('"').nth(3).unwrap(), "NONCE"));
    }
    assert!(seen.iter().all(|challenge| *challenge == seen[0]), "{seen:#?}");
    assert_eq!(refusals(&world), []);
}

#[test]
fn an_unknown_user_and_a_wrong_password_look_alike() {
    let mut world = world(|_| {});
    let mut answers = Vec::new();
    for (user, password) in [("1000", "wrong"), ("nobody", "secret")] {
        let mut device = Device::new(user, "192.0.2.66:5060");
        device.call_id = "c".into();
        device.password = password.into();
        let sent = device.ask(&mut world, "REGISTER", "sip:127.0.0.1", "Contact: <sip:x@y>\n");
        let challenge = header(&sent[0].1, "WWW-Authenticate");
        let nonce = challenge.split('"').nth(3).unwrap();
        answers.push(sent[0].1.replace(nonce, "NONCE").replace(user, "USER"));
    }
    let without_tag = |text: &String| text.split(";tag=").next().unwrap().to_owned();
    assert_eq!(without_tag(&answers[0]), without_tag(&answers[1]));
    assert_eq!(refusals(&world), [Refused::WrongPassword, Refused::UnknownUser]);
    assert_eq!(world.shard.counts().registers, 0);
}

#[test]
fn case_d04_a_second_call_with_an_old_nonce_is_challenged_as_stale() {
    let mut world = world(|_| {});
    let mut device = Device::new("1000", A);
    let sent = device.call(&mut world, "answer");
    assert_eq!(status(&sent), "200");
    let mut again = |world: &mut World, number: u32| {
        device.call_id = format!("again-{number}");
        let uri = "sip:answer@127.0.0.1:5060";
        let proof = device.credentials("INVITE", uri);
        let contact = format!("Contact: <sip:1000@{A}>\n{proof}");
        let request = device.request("INVITE", uri, &contact);
        world.receive(A, &request)
    };
    assert_eq!(status(&again(&mut world, 1)), "200", "the nonce is good for another call");
    world.wait(Duration::from_secs(10));
    world.now.wall = turn::Wall::from_micros(world.now.wall.as_micros() + 61_000_000);
    let sent = again(&mut world, 2);
    assert_eq!(status(&sent), "401");
    assert!(sent[0].1.contains("stale=true"), "{}", sent[0].1);
    assert_eq!(refusals(&world), []);
}

#[test]
fn case_d08_somebody_else_s_address_is_refused() {
    let mut world = world(|_| {});
    let mut device = Device::new("1000", A);
    let challenged = {
        let request = device.request("MESSAGE", "sip:1001@127.0.0.1", "");
        world.receive(A, &request)
    };
    assert_eq!(status(&challenged), "401");
    let proof = device.prove(&challenged[0].1, "MESSAGE", "sip:1001@127.0.0.1");
    let request = device.request("MESSAGE", "sip:1001@127.0.0.1", &proof);
    let forged = request.replace("From: <sip:1000@", "From: <sip:1002@");
    assert_eq!(status(&world.receive(A, &forged)), "403");
    // And nobody registers for others.
    let mut device = Device::new("1000", A);
    let request = device.request("REGISTER", "sip:127.0.0.1", "");
    let challenged = world.receive(A, &request);
    let proof = device.prove(&challenged[0].1, "REGISTER", "sip:127.0.0.1");
    let request = device.request("REGISTER", "sip:127.0.0.1", &proof);
    let forged = request.replace("To: <sip:1000@", "To: <sip:1002@");
    assert_eq!(status(&world.receive(A, &forged)), "403");
    assert_eq!(refusals(&world), [Refused::NotHis, Refused::NotHis]);
}

#[test]
fn a_phone_calls_from_its_networks_only() {
    let net = Prefix::new("192.0.2.0".parse().unwrap(), 28).unwrap();
    let mut world = world(|list| list[0].sources = vec![net]);
    assert!(Device::new("1000", A).register(&mut world, "").starts_with("SIP/2.0 200"));
    let sent = Device::new("1000", "192.0.2.66:5060").register(&mut world, "");
    assert!(sent.starts_with("SIP/2.0 401"), "{sent}");
    assert_eq!(refusals(&world), [Refused::Acl]);
}

#[test]
fn all_contacts_ring_the_first_to_answer_wins_and_the_others_are_cancelled() {
    let mut world = world(|_| {});
    let (mobile, soft) = ("192.0.2.20:5060", "192.0.2.21:5060");
    for address in [A, mobile] {
        Device::new("1000", address).register(&mut world, "");
    }
    let lines = format!("Contact: <sip:1000@{soft}>;q=0.5\n");
    Device::new("1000", soft).register(&mut world, &lines);
    let sent = Device::new("1001", B).call(&mut world, "1000");
    let rung: Vec<_> = invites(&sent).into_iter().cloned().collect();
    let mut where_to: Vec<&str> = rung.iter().map(|(to, _)| to.as_str()).collect();
    where_to.sort_unstable();
    assert_eq!(where_to, [A, mobile], "the preferred ones first");
    let to = |address: &str| rung.iter().find(|(to, _)| to == address).unwrap().1.clone();
    let ringing = world.receive(A, &answer(&to(A), "180 Ringing", "a", ""));
    assert_eq!(status(&ringing), "180");
    world.receive(mobile, &answer(&to(mobile), "180 Ringing", "m", ""));
    let sent = world.receive(mobile, &answer(&to(mobile), "200 OK", "m", SDP));
    let cancel = sent.iter().find(|(_, text)| text.starts_with("CANCEL ")).unwrap();
    assert_eq!(cancel.0, A);
    assert!(sent.iter().any(|(to, text)| to == B && text.starts_with("SIP/2.0 200")), "{sent:?}");
    assert!(!sent.iter().any(|(to, _)| to == soft));
}

#[test]
fn a_phone_behind_a_proxy_is_called_through_the_proxy() {
    let mut world = world(|_| {});
    let (proxy, phone) = ("192.0.2.20:5080", "10.0.0.1:5060");
    let path = format!("Contact: <sip:1000@{phone}>\nPath: <sip:{proxy};lr>\n");
    Device::new("1000", A).register(&mut world, &path);
    let sent = Device::new("1001", B).call(&mut world, "1000");
    let called = invites(&sent);
    assert_eq!(called.len(), 1, "{sent:?}");
    let (to, invite) = called[0];
    assert_eq!(to, proxy);
    assert!(invite.starts_with(&format!("INVITE sip:1000@{phone} SIP/2.0")), "{invite}");
    assert_eq!(header(invite, "Route"), format!("<sip:{proxy};lr>"));
}

#[test]
fn less_preferred_contacts_are_called_when_the_others_fail() {
    let mut world = world(|_| {});
    let soft = "192.0.2.21:5060";
    Device::new("1000", A).register(&mut world, "");
    let lines = format!("Contact: <sip:1000@{soft}>;q=0.5\n");
    Device::new("1000", soft).register(&mut world, &lines);
    let sent = Device::new("1001", B).call(&mut world, "1000");
    let invite = invites(&sent)[0].1.clone();
    let sent = world.receive(A, &answer(&invite, "486 Busy Here", "a", ""));
    let [(to, invite)] = invites(&sent)[..] else { panic!("{sent:?}") };
    assert_eq!(to, soft);
    let sent = world.receive(soft, &answer(invite, "480 Gone", "s", ""));
    assert_eq!(status(&sent), "486", "busy tells most");
}

#[test]
fn a_caller_who_gives_up_cancels_every_contact() {
    let mut world = world(|_| {});
    for address in [A, "192.0.2.20:5060"] {
        Device::new("1000", address).register(&mut world, "");
    }
    let mut caller = Device::new("1001", B);
    let sent = caller.call(&mut world, "1000");
    let rung: Vec<_> = invites(&sent).into_iter().cloned().collect();
    for (to, invite) in &rung {
        world.receive(to, &answer(invite, "180 Ringing", "x", ""));
    }
    let cancel = format!(
        "CANCEL sip:1000@127.0.0.1:5060 SIP/2.0\n\
         Via: SIP/2.0/UDP {B};branch=z9hG4bK-{}-{};rport\nFrom: <sip:1001@127.0.0.1>;tag=t-{}\n\
         To: <sip:1000@127.0.0.1:5060>\nCall-ID: {}\nCSeq: {} CANCEL\nContent-Length: 0\n\n",
        caller.call_id, caller.cseq, caller.call_id, caller.call_id, caller.cseq
    );
    let sent = world.receive(B, &cancel);
    let cancelled = sent.iter().filter(|(_, text)| text.starts_with("CANCEL ")).count();
    assert_eq!(cancelled, 2, "{sent:?}");
}

#[test]
fn who_is_not_registered_busy_or_not_to_be_disturbed_is_told_so() {
    let mut world = world(|list| {
        list[0].calls_max = Some(1);
        list[2].dnd = true;
    });
    let mut caller = Device::new("1001", B);
    assert_eq!(status(&caller.call(&mut world, "1000")), "480", "nobody is there");
    Device::new("1002", "192.0.2.12:5060").register(&mut world, "");
    assert_eq!(status(&caller.call(&mut world, "1002")), "486", "not to be disturbed");
    Device::new("1000", A).register(&mut world, "");
    let sent = caller.call(&mut world, "1000");
    assert_eq!(invites(&sent).len(), 1);
    let sent = Device::new("1002", "192.0.2.12:5060").call(&mut world, "1000");
    assert_eq!(status(&sent), "486", "one call is enough for it");
    let mut device = Device::new("1000", A);
    assert_eq!(status(&device.call(&mut world, "answer")), "503", "outbound it counts, too");
}

#[test]
fn a_group_rings_all_its_members_that_can_be_reached() {
    let mut list = vec![account("1000"), account("1001"), account("1002")];
    list[2].dnd = true;
    let members = ["1000", "1001", "1002"].map(Into::into).into();
    let directory = Directory::new(DirectorySpec {
        phones: list,
        groups: vec![("sales".into(), members)],
        ..DirectorySpec::default()
    });
    let mut world = World::of(PLAN, directory, |_| {});
    for (user, address) in [("1000", A), ("1001", B), ("1002", "192.0.2.12:5060")] {
        Device::new(user, address).register(&mut world, "");
    }
    let sent = Device::new("1001", B).call(&mut world, "sales");
    let mut rung: Vec<&str> = invites(&sent).iter().map(|(to, _)| to.as_str()).collect();
    rung.sort_unstable();
    assert_eq!(rung, [A, B]);
}

#[test]
fn bindings_expire_are_removed_and_told_of() {
    let mut world = world(|_| {});
    let lines = format!("Contact: <sip:1000@{A}>;expires=60\n");
    Device::new("1000", A).register(&mut world, &lines);
    Device::new("1001", B).register(&mut world, "");
    world.out.facts.clear();
    let later = |world: &mut World, seconds: u64| {
        let micros = world.now.wall.as_micros() + seconds as i64 * 1_000_000;
        world.now.wall = turn::Wall::from_micros(micros);
        world.wait(Duration::from_secs(seconds));
    };
    later(&mut world, 59);
    assert_eq!(world.shard.counts().kept, 2);
    later(&mut world, 2);
    assert_eq!(world.shard.counts().kept, 1);
    assert_eq!(world.shard.counts().expired, 1);
    let gone: Vec<_> = world
        .out
        .facts
        .iter()
        .filter(|fact| matches!(fact, Fact::Unregistered { why: Unregistered::Expired, .. }))
        .collect();
    assert_eq!(gone.len(), 1);
    let sent = Device::new("1001", B).call(&mut world, "1000");
    assert_eq!(status(&sent), "480");
    let now = world.now;
    assert_eq!(world.shard.unregister(now, "1001", None, &mut world.out), 1);
    let Some(Stored::Binding(line)) = world.out.stored.last() else { panic!("nothing stored") };
    assert!(matches!(Line::parse(line).unwrap(), Line::Removed { aor, .. } if &*aor == "1001"));
}

#[test]
fn a_flood_of_failures_closes_its_source_and_nobody_else() {
    let strangers = Budget { failures: 3, ..Budget::default() };
    let directory = Directory::new(DirectorySpec {
        phones: vec![account("1000")],
        strangers,
        ..DirectorySpec::default()
    });
    let mut world = World::of(PLAN, directory, |_| {});
    let scanner = "192.0.2.66:5060";
    for attempt in 0..4 {
        let mut device = Device::new("1000", scanner);
        device.password = format!("guess{attempt}");
        device.call_id = format!("guess{attempt}");
        let sent = device.ask(&mut world, "REGISTER", "sip:127.0.0.1", "");
        assert_eq!(sent.is_empty(), attempt == 3, "the fourth guess gets no answer");
    }
    let closed = |fact: &Fact| matches!(fact, Fact::SourceClosed { .. });
    assert_eq!(world.out.facts.iter().filter(|fact| closed(fact)).count(), 1);
    let mut device = Device::new("1000", scanner);
    let request = device.request("REGISTER", "sip:127.0.0.1", "");
    assert!(world.receive(scanner, &request).is_empty(), "it is not even read");
    assert!(Device::new("1000", A).register(&mut world, "").starts_with("SIP/2.0 200"));
    world.wait(Duration::from_secs(61));
    assert!(!world.receive(scanner, &request).is_empty(), "after the penalty it may try again");
}

#[test]
fn calls_of_a_source_that_is_closed_are_answered_and_end() {
    let strangers = Budget { failures: 1, ..Budget::default() };
    let directory = Directory::new(DirectorySpec {
        phones: vec![account("1000"), account("1001")],
        strangers,
        ..DirectorySpec::default()
    });
    let mut world = World::of(PLAN, directory, |_| {});
    Device::new("1000", A).register(&mut world, "");
    let sent = Device::new("1001", B).call(&mut world, "1000");
    let invite = invites(&sent)[0].1.clone();
    // Beside the phone, at its address, somebody guesses passwords.
    for attempt in 0..2 {
        let mut device = Device::new("1001", A);
        device.password = format!("guess{attempt}");
        device.call_id = format!("guess{attempt}");
        device.ask(&mut world, "REGISTER", "sip:127.0.0.1", "");
    }
    let dropped = |world: &World| world.shard.counts().strangers.closed_drops;
    let mut device = Device::new("1000", A);
    let request = device.request("REGISTER", "sip:127.0.0.1", "");
    assert!(world.receive(A, &request).is_empty());
    assert_eq!(dropped(&world), 1);
    // The phone is heard all the same: its answer, and its BYE.
    let sent = world.receive(A, &answer(&invite, "200 OK", "a", SDP));
    assert!(sent.iter().any(|(to, text)| to == B && text.starts_with("SIP/2.0 200")), "{sent:?}");
    let bye = format!(
        "BYE sip:x SIP/2.0\nVia: SIP/2.0/UDP {A};branch=z9hG4bK-bye\nMax-Forwards: 70\n\
         From: {};tag=a\nTo: {}\nCall-ID: {}\nCSeq: 1 BYE\nContent-Length: 0\n\n",
        header(&invite, "To"),
        header(&invite, "From"),
        header(&invite, "Call-ID")
    );
    let sent = world.receive(A, &bye);
    assert!(sent.iter().any(|(to, text)| to == A && text.starts_with("SIP/2.0 200")), "{sent:?}");
    // A tag that is not ours opens nothing.
    let forged = bye.replace(header(&invite, "From"), "<sip:x@y>;tag=forged").replace("bye", "b2");
    assert!(world.receive(A, &forged).is_empty());
    assert_eq!(dropped(&world), 2);
}

#[test]
fn nothing_is_registered_that_cannot_be_written_down() {
    let mut world = world(|_| {});
    world.shard.set_room_to_store(false);
    let sent = Device::new("1000", A).register(&mut world, "");
    assert!(sent.starts_with("SIP/2.0 503") && sent.contains("Retry-After"), "{sent}");
    world.shard.set_room_to_store(true);
    assert!(Device::new("1000", A).register(&mut world, "").starts_with("SIP/2.0 200"));
}

#[test]
fn a_repeated_register_is_answered_again_and_counts_once() {
    let mut world = world(|_| {});
    let mut device = Device::new("1000", A);
    let request = device.request("REGISTER", "sip:127.0.0.1", "");
    let challenged = world.receive(A, &request);
    let proof = device.prove(&challenged[0].1, "REGISTER", "sip:127.0.0.1");
    let lines = format!("Contact: <sip:1000@{A}>\n{proof}");
    let request = device.request("REGISTER", "sip:127.0.0.1", &lines);
    for _ in 0..3 {
        assert_eq!(status(&world.receive(A, &request)), "200");
    }
    assert_eq!(world.shard.counts().registers, 1);
    let another = request.replace("z9hG4bK-", "z9hG4bK-other-").replace("CSeq: 2", "CSeq: 3");
    let replayed = world.receive(B, &another);
    assert_eq!(status(&replayed), "401", "a replay of the credentials is stale");
    assert!(replayed[0].1.contains("stale=true"));
}

#[test]
fn a_restart_takes_bindings_over() {
    let mut world = world(|_| {});
    let lines = format!("Contact: <sip:1000@{A}>;expires=60\n");
    Device::new("1000", A).register(&mut world, &lines);
    let Some(Stored::Binding(line)) = world.out.stored.pop() else { panic!("nothing stored") };
    let Line::Bound { aor, binding } = Line::parse(&line).unwrap() else { panic!("{line}") };

    let shared = pbx_shared::shared(10, Duration::from_secs(60));
    shared.locations.change(&aor, &mut |it| it.restore((*binding).clone()));
    let mut world = World::sharing(PLAN, phones(vec![account("1000"), account("1001")]), shared);
    world.shard.restore([aor]);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.shard.counts().kept, 1);
    let sent = Device::new("1001", B).call(&mut world, "1000");
    assert_eq!(invites(&sent).len(), 1);
    world.now.wall = turn::Wall::from_micros(world.now.wall.as_micros() + 61_000_000);
    world.wait(Duration::from_secs(61));
    assert_eq!(world.shard.counts().kept, 0);
}

#[test]
fn a_reload_that_takes_an_endpoint_away_takes_its_rights_away() {
    let mut world = world(|_| {});
    Device::new("1000", A).register(&mut world, "");
    let mut caller = Device::new("1001", B);
    let sent = caller.call(&mut world, "answer");
    let to = header(&sent[0].1, "To").to_owned();
    let plan = dialplan::parse(&[("p", PLAN)]).unwrap_or_else(|e| panic!("{e}"));
    let fewer =
        Directory::new(DirectorySpec { phones: vec![account("1000")], ..DirectorySpec::default() });
    world.shard.reload(Arc::new(plan), Arc::new(fewer));
    let sent = caller.call(&mut world, "answer");
    assert_eq!(status(&sent), "401", "nobody knows it any more");
    let bye = in_dialog("BYE", &to, 9, "b");
    assert!(!world.receive(B, &bye).is_empty());
}
