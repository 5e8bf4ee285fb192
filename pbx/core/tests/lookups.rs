//! Host names on one shard, with the answers of the DNS by hand: order and failover, waiting and
//! giving up, limits, lines to trunks.

#![allow(clippy::unwrap_used)] // a test may fail loudly

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::phone::answer;
use common::{SDP, World, endpoint, header, invite};
use pbx_core::{
    Directory, DirectorySpec, Fact, Hop, LOOKUP_WAIT, LOOKUPS_MAX, Limits, Prefix, QualifySpec,
    Query, Registered, Trunk, TrunkState,
};
use sip::locate::{Located, Wanted};
use sip::path::Transport;
use sip::registration::RegistrationConfig;

const CALLER: &str = "127.0.0.1:5071";

const PLAN: &str = r#"
[[context.default.exten]]
match = "uri"
steps = ["Dial(sip:bob@proxy.example:5080;transport=tcp,60)", "Hangup()"]
[[context.default.exten]]
match = "_9."
steps = ["Dial(SIP/carrier/${EXTEN:1},60)", "Hangup()"]
"#;

fn named(host: &str) -> Hop {
    Hop::Name(Wanted { host: host.into(), port: None, transport: None })
}

fn directory(change: impl FnOnce(&mut Trunk)) -> Directory {
    let mut carrier =
        Trunk { peers: vec![named("carrier.example")], ..Trunk::named(endpoint("carrier")) };
    change(&mut carrier);
    let phones = Trunk {
        sources: vec![Prefix::host("127.0.0.1".parse().unwrap())],
        ..Trunk::named(endpoint("phones"))
    };
    Directory::new(DirectorySpec { trunks: vec![carrier, phones], ..DirectorySpec::default() })
}

fn world() -> World {
    World::of(PLAN, directory(|_| {}), |_| {})
}

fn found(places: &[&str]) -> Located {
    let place = |text: &&str| (text.parse().unwrap(), Transport::Udp);
    Located::Found(places.iter().map(place).collect())
}

/// The one look-up that is wanted.
fn query(world: &mut World) -> Query {
    let queries = std::mem::take(&mut world.out.queries);
    let [query] = &queries[..] else { panic!("{queries:?}") };
    query.clone()
}

/// Lets time pass until something is looked up.
fn until_asked(world: &mut World) {
    for _ in 0..3_600 {
        if !world.out.queries.is_empty() {
            return;
        }
        world.wait(Duration::from_secs(1));
    }
    panic!("nothing is looked up");
}

fn resolve(world: &mut World, token: u64, located: &Located) -> Vec<(String, String)> {
    world.shard.resolved(world.now, token, located, &mut world.out);
    world.shard.flush(world.now, &mut world.out);
    world.drain()
}

fn starting(sent: Vec<(String, String)>, method: &str) -> Vec<(String, String)> {
    sent.into_iter().filter(|(_, text)| text.starts_with(method)).collect()
}

fn refuse(request: &str, status: &str) -> String {
    answer(request, status, "b", "")
}

fn cancel() -> String {
    let text = invite("9555").replace("INVITE sip:", "CANCEL sip:").replace("1 INVITE", "1 CANCEL");
    let head = text.split("Contact:").next().unwrap();
    format!("{head}Max-Forwards: 70\nContent-Length: 0\n\n")
}

fn is_empty(world: &mut World) {
    world.wait(Duration::from_secs(64));
    let left = world.shard.leftovers();
    assert!(left.iter().all(|(_, count)| *count == 0), "{left:?}");
}

#[test]
fn a_leg_waits_for_its_name_and_keeps_it_in_the_uri() {
    let mut world = world();
    let sent = world.receive(CALLER, &invite("9555"));
    assert!(starting(sent, "INVITE ").is_empty(), "nobody is called yet");
    let query = query(&mut world);
    assert_eq!(&*query.wanted.host, "carrier.example");
    assert!(query.ways.udp && query.ways.tcp && query.ways.v4 && !query.ways.v6);
    let sent = resolve(&mut world, query.token, &found(&["192.0.2.1:5060"]));
    let called = starting(sent, "INVITE ");
    assert_eq!(called[0].0, "192.0.2.1:5060");
    assert!(called[0].1.starts_with("INVITE sip:555@carrier.example SIP/2.0"), "{}", called[0].1);
    let sent = world.receive("192.0.2.1:5060", &answer(&called[0].1, "200 OK", "b", SDP));
    assert!(sent.iter().any(|(to, text)| to == CALLER && text.starts_with("SIP/2.0 200 ")));
}

#[test]
fn the_places_of_a_name_are_tried_in_their_order() {
    let mut world = world();
    world.receive(CALLER, &invite("9555"));
    let token = query(&mut world).token;
    let places = ["192.0.2.3:5060", "192.0.2.1:5062", "192.0.2.2:5060", "192.0.2.4:5060"];
    let called = starting(resolve(&mut world, token, &found(&places)), "INVITE ");
    assert_eq!((called.len(), called[0].0.as_str()), (1, places[0]));
    // One that refuses with 503 is as dead as one that the network gives back or that is silent.
    let sent = world.receive(places[0], &refuse(&called[0].1, "503 Service Unavailable"));
    let called = starting(sent, "INVITE ");
    assert_eq!(called[0].0, places[1]);
    let called = starting(world.send_failed(&called[0].1), "INVITE ");
    assert_eq!(called[0].0, places[2]);
    let sent = starting(world.wait(Duration::from_secs(33)), "INVITE ");
    let last = sent.last().unwrap();
    assert_eq!(last.0, places[3]);
    // One that refuses otherwise has answered.
    let sent = world.receive(places[3], &refuse(&last.1, "486 Busy Here"));
    assert!(sent.iter().any(|(_, text)| text.starts_with("SIP/2.0 486 ")), "{sent:?}");
}

#[test]
fn a_place_that_refuses_has_answered_for_all() {
    let mut world = world();
    world.receive(CALLER, &invite("9555"));
    let token = query(&mut world).token;
    let places = found(&["192.0.2.1:5060", "192.0.2.2:5060"]);
    let called = starting(resolve(&mut world, token, &places), "INVITE ");
    let sent = world.receive("192.0.2.1:5060", &refuse(&called[0].1, "404 Not Found"));
    assert!(starting(sent.clone(), "INVITE ").is_empty(), "{sent:?}");
    assert!(sent.iter().any(|(_, text)| text.starts_with("SIP/2.0 404 ")), "{sent:?}");
    is_empty(&mut world);
}

#[test]
fn calls_to_a_name_count_among_those_of_the_trunk_that_is_found() {
    let directory = directory(|trunk| {
        trunk.sources = vec![Prefix::host("192.0.2.9".parse().unwrap())];
        trunk.calls_max = Some(1);
    });
    let mut world = World::of(PLAN, directory, |_| {});
    let place = ("192.0.2.9:5080".parse().unwrap(), Transport::Tcp);
    let located = Located::Found(vec![place]);
    world.receive(CALLER, &invite("uri"));
    let token = query(&mut world).token;
    assert_eq!(starting(resolve(&mut world, token, &located), "INVITE ").len(), 1);
    let second = invite("uri").replace("c1@x", "c2@x").replace("z9hG4bK-1", "z9hG4bK-2");
    world.receive(CALLER, &second);
    let token = query(&mut world).token;
    let sent = resolve(&mut world, token, &located);
    assert!(starting(sent.clone(), "INVITE ").is_empty(), "{sent:?}");
    assert!(sent[0].1.starts_with("SIP/2.0 503 "), "{sent:?}");
}

#[test]
fn an_alternative_by_address_has_its_place_among_names() {
    let address = Hop::Address("192.0.2.50:5060".parse().unwrap(), Transport::Udp);
    let peers = vec![named("a.example"), address, named("b.example")];
    let directory = directory(|trunk| trunk.peers = peers);
    let mut world = World::of(PLAN, directory, |_| {});
    world.receive(CALLER, &invite("9555"));
    let queries = std::mem::take(&mut world.out.queries);
    let [a, b] = &queries[..] else { panic!("{queries:?}") };
    // The answers come in another order.
    assert!(resolve(&mut world, b.token, &found(&["192.0.2.3:5060"])).is_empty());
    let sent = resolve(&mut world, a.token, &found(&["192.0.2.1:5060", "192.0.2.2:5060"]));
    let mut called = starting(sent, "INVITE ");
    let mut order = Vec::new();
    while let [(to, text)] = &called[..] {
        order.push(to.clone());
        called = starting(world.send_failed(&text.clone()), "INVITE ");
    }
    assert_eq!(order, ["192.0.2.1:5060", "192.0.2.2:5060", "192.0.2.50:5060", "192.0.2.3:5060"]);
    is_empty(&mut world);
}

#[test]
fn a_uri_with_a_name_says_its_port_and_transport() {
    let mut world = world();
    world.receive(CALLER, &invite("uri"));
    let query = query(&mut world);
    assert_eq!(query.wanted.port, Some(5080));
    assert_eq!(query.wanted.transport, Some(Transport::Tcp));
    let place = ("192.0.2.9:5080".parse().unwrap(), Transport::Tcp);
    resolve(&mut world, query.token, &Located::Found(vec![place]));
    let (transport, to, _) = &world.last_sent[0];
    assert_eq!((*transport, to.as_str()), (Transport::Tcp, "192.0.2.9:5080"));
}

#[test]
fn a_caller_who_gives_up_is_not_waited_for() {
    let mut world = world();
    world.receive(CALLER, &invite("9555"));
    let token = query(&mut world).token;
    let sent = world.receive(CALLER, &cancel());
    assert!(sent.iter().any(|(_, text)| text.starts_with("SIP/2.0 487 ")), "{sent:?}");
    assert_eq!(world.shard.counts().lookups_waiting, 0);
    let sent = resolve(&mut world, token, &found(&["192.0.2.1:5060"]));
    assert!(sent.is_empty(), "{sent:?}");
    is_empty(&mut world);
}

#[test]
fn a_name_without_a_place_is_no_route() {
    for (located, status, is_silent) in [
        (Located::Unknown, "SIP/2.0 404 ", false),
        (Located::Silent, "SIP/2.0 502 ", true),
        // We have no address to send to it.
        (found(&["[2001:db8::1]:5060"]), "SIP/2.0 404 ", false),
        (Located::Found(vec![]), "SIP/2.0 404 ", false),
    ] {
        let mut world = world();
        world.receive(CALLER, &invite("9555"));
        let token = query(&mut world).token;
        let sent = resolve(&mut world, token, &located);
        assert!(sent[0].1.starts_with(status), "{located:?}: {sent:?}");
        let counts = world.shard.counts();
        assert_eq!(counts.lookups_silent, u64::from(is_silent));
        let told = |fact: &Fact| matches!(fact, Fact::NotLocated { .. });
        let is_told = world.out.facts.iter().any(told);
        assert_eq!(is_told, !matches!(located, Located::Found(_)));
    }
}

#[test]
fn an_answer_that_never_comes_ends_the_call_in_time() {
    let mut world = world();
    world.receive(CALLER, &invite("9555"));
    let token = query(&mut world).token;
    let sent = world.wait(LOOKUP_WAIT - Duration::from_millis(50));
    assert!(sent.is_empty(), "{sent:?}");
    let sent = world.wait(Duration::from_millis(100));
    assert!(sent[0].1.starts_with("SIP/2.0 502 "), "{sent:?}");
    assert_eq!(world.shard.counts().lookups_silent, 1);
    let sent = resolve(&mut world, token, &found(&["192.0.2.1:5060"]));
    assert!(starting(sent, "INVITE ").is_empty(), "it is too late");
}

#[test]
fn too_many_look_ups_are_refused_and_not_waited_for() {
    let more = |limits: &mut Limits| {
        limits.calls_max = LOOKUPS_MAX as u32 + 10;
        limits.legs_max = 2 * limits.calls_max;
    };
    let mut world = World::of(PLAN, directory(|_| {}), more);
    for number in 0..LOOKUPS_MAX {
        let text = invite("9555")
            .replace("c1@x", &format!("c{number}@x"))
            .replace("z9hG4bK-1", &format!("z9hG4bK-n{number}"));
        world.receive(CALLER, &text);
    }
    assert_eq!(world.shard.counts().lookups_waiting, LOOKUPS_MAX);
    let sent = world.receive(CALLER, &invite("9555").replace("c1@x", "last@x"));
    let status = sent.iter().map(|(_, text)| text.split(' ').nth(1).unwrap()).next_back();
    assert_eq!(status, Some("503"), "{sent:?}");
    assert_eq!(world.shard.counts().lookups_full, 1);
}

// --- lines -------------------------------------------------------------------------------------

fn registering(state: &Arc<TrunkState>) -> Directory {
    directory(|trunk| {
        trunk.state = Arc::clone(state);
        trunk.registration = Some(Arc::new(RegistrationConfig {
            registrar: "sip:carrier.example".into(),
            aor: "sip:us@carrier.example".into(),
            contact_user: "us".into(),
            expires: Duration::from_secs(600),
            accounts: Arc::new([]),
        }));
    })
}

#[test]
fn a_registrar_with_a_name_is_looked_up_for_each_attempt() {
    let state = Arc::default();
    let mut world = World::of(PLAN, registering(&state), |_| {});
    assert!(world.wait(Duration::ZERO).is_empty());
    let token = query(&mut world).token;
    let places = found(&["192.0.2.1:5060", "192.0.2.2:5060"]);
    let sent = starting(resolve(&mut world, token, &places), "REGISTER ");
    assert_eq!(sent[0].0, "192.0.2.1:5060");
    assert!(sent[0].1.starts_with("REGISTER sip:carrier.example SIP/2.0"), "{}", sent[0].1);
    assert_eq!(header(&sent[0].1, "Contact"), "<sip:us@127.0.0.1:5060>");
    // It is silent; the next attempt goes to the next place.
    until_asked(&mut world);
    assert_eq!(state.registration().0, Registered::Silent);
    let token = query(&mut world).token;
    let sent = starting(resolve(&mut world, token, &places), "REGISTER ");
    assert_eq!(sent[0].0, "192.0.2.2:5060");
    let contact = format!("Contact: {};expires=600\n", header(&sent[0].1, "Contact"));
    let accepted = answer(&sent[0].1, "200 OK", "c", "")
        .replace("Contact: <sip:callee@127.0.0.1:5999>\n", &contact);
    world.receive("192.0.2.2:5060", &accepted);
    assert_eq!(state.registration().0, Registered::Yes);
    // The refresh stays there, though the answer is the same.
    until_asked(&mut world);
    let token = query(&mut world).token;
    let sent = starting(resolve(&mut world, token, &places), "REGISTER ");
    assert_eq!(sent[0].0, "192.0.2.2:5060");
}

#[test]
fn a_registrar_that_nobody_knows_is_tried_again() {
    let state = Arc::default();
    let mut world = World::of(PLAN, registering(&state), |_| {});
    world.wait(Duration::ZERO);
    for _ in 0..3 {
        let token = query(&mut world).token;
        assert!(resolve(&mut world, token, &Located::Unknown).is_empty());
        assert_eq!(state.registration().0, Registered::Silent);
        world.wait(Duration::from_secs(3_600));
        world.out.queries.truncate(1);
    }
}

#[test]
fn a_peer_with_a_name_is_down_when_no_place_of_it_answers() {
    let state: Arc<TrunkState> = Arc::default();
    let spec = QualifySpec::default();
    let pinged = directory(|trunk| {
        trunk.state = Arc::clone(&state);
        trunk.qualify = Some(spec);
    });
    let mut world = World::of(PLAN, pinged, |_| {});
    let places = found(&["192.0.2.1:5060", "192.0.2.2:5060"]);
    let mut asked = Vec::new();
    for _ in 0..3 {
        until_asked(&mut world);
        let token = query(&mut world).token;
        asked.push(starting(resolve(&mut world, token, &places), "OPTIONS ")[0].clone());
    }
    let to: Vec<&str> = asked.iter().map(|(to, _)| to.as_str()).collect();
    assert_eq!(to, ["192.0.2.1:5060", "192.0.2.2:5060", "192.0.2.1:5060"]);
    assert!(!state.is_reachable(0), "two silences");
    world.receive(to[2], &answer(&asked[2].1, "200 OK", "c", ""));
    assert!(state.is_reachable(0));
    // A name that is no longer known is a silence, too.
    for _ in 0..2 {
        until_asked(&mut world);
        let token = query(&mut world).token;
        resolve(&mut world, token, &Located::Unknown);
    }
    assert!(!state.is_reachable(0));
}
