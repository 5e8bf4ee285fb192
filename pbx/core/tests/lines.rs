//! Our registrations with trunks, pings, failover and outbound credentials, on one shard.

#![allow(clippy::unwrap_used)] // a test may fail loudly

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::phone::answer;
use common::{SDP, World, endpoint, header, invite};
use pbx_core::{
    Directory, DirectorySpec, Fact, Hop, Prefix, QualifySpec, Registered, Trunk, TrunkState,
};
use sip::digest::{Account, Password};
use sip::path::Transport;
use sip::registration::RegistrationConfig;

const CARRIER: &str = "192.0.2.20:5060";
const SPARE: &str = "192.0.2.21:5060";
const CHALLENGE: &str =
    "WWW-Authenticate: Digest realm=\"carrier\", nonce=\"n\", algorithm=MD5, qop=\"auth\"\n";

const PLAN: &str = r#"
[[context.default.exten]]
match = "_9."
steps = ["Dial(SIP/carrier/${EXTEN:1},60)", "Hangup()"]
"#;

fn carrier(state: &Arc<TrunkState>, change: impl FnOnce(&mut Trunk)) -> Directory {
    let account = Account {
        user: "us".into(),
        realm: Some("carrier".into()),
        password: Password::of_text("secret"),
    };
    let accounts: Arc<[Account]> = Arc::new([account]);
    let hop = |address: &str| Hop::Address(address.parse().unwrap(), Transport::Udp);
    let mut trunk = Trunk {
        peers: vec![hop(CARRIER), hop(SPARE)],
        accounts: Arc::clone(&accounts),
        registration: Some(Arc::new(RegistrationConfig {
            registrar: format!("sip:{CARRIER}").into(),
            aor: "sip:us@carrier.example".into(),
            contact_user: "us".into(),
            expires: Duration::from_secs(600),
            accounts,
        })),
        state: Arc::clone(state),
        ..Trunk::named(endpoint("carrier"))
    };
    change(&mut trunk);
    let phones = Trunk {
        sources: vec![Prefix::host("127.0.0.1".parse().unwrap())],
        ..Trunk::named(endpoint("phones"))
    };
    Directory::new(DirectorySpec { trunks: vec![trunk, phones], ..DirectorySpec::default() })
}

fn only(sent: Vec<(String, String)>, method: &str) -> Vec<(String, String)> {
    sent.into_iter().filter(|(_, text)| text.starts_with(method)).collect()
}

/// A response without a dialog.
fn reply(request: &str, status: &str, lines: &str) -> String {
    answer(request, status, "c", "").replace("Contact: <sip:callee@127.0.0.1:5999>\n", lines)
}

/// Registers; the REGISTER that was accepted.
fn register(world: &mut World) -> String {
    let sent = only(world.wait(Duration::ZERO), "REGISTER ");
    let [(to, first)] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(to, CARRIER);
    let challenge = CHALLENGE;
    let sent = world.receive(CARRIER, &reply(first, "401 Unauthorized", challenge));
    let second = sent[0].1.clone();
    assert_eq!(header(&second, "Call-ID"), header(first, "Call-ID"));
    assert!(header(&second, "Authorization").contains("username=\"us\""), "{second}");
    let contact = format!("Contact: {};expires=600\n", header(&second, "Contact"));
    world.receive(CARRIER, &reply(&second, "200 OK", &contact));
    second
}

#[test]
fn a_trunk_is_registered_with_refreshed_and_left() {
    let state = Arc::default();
    let mut world = World::of(PLAN, carrier(&state, |_| {}), |_| {});
    let accepted = register(&mut world);
    assert!(accepted.starts_with("REGISTER sip:192.0.2.20:5060 SIP/2.0"), "{accepted}");
    assert!(header(&accepted, "To").contains("sip:us@carrier.example"));
    assert_eq!(header(&accepted, "Contact"), "<sip:us@127.0.0.1:5060>");
    assert_eq!(state.registration().0, Registered::Yes);
    let sent = only(world.wait(Duration::from_secs(509)), "REGISTER ");
    assert!(sent.is_empty());
    let sent = only(world.wait(Duration::from_secs(70)), "REGISTER ");
    assert!(header(&sent[0].1, "Authorization").contains("nc=00000002"), "{}", sent[0].1);
    let contact = format!("Contact: {};expires=600\n", header(&sent[0].1, "Contact"));
    world.receive(CARRIER, &reply(&sent[0].1, "200 OK", &contact));
    // The program is on its way down.
    world.shard.drain(true);
    let sent = only(world.wait(Duration::ZERO), "REGISTER ");
    assert!(sent[0].1.contains("Expires: 0"), "{}", sent[0].1);
    world.receive(CARRIER, &reply(&sent[0].1, "200 OK", ""));
    assert_eq!(state.registration().0, Registered::No);
    assert!(only(world.wait(Duration::from_secs(3600)), "REGISTER ").is_empty());
}

#[test]
fn a_refusal_is_told_once_and_tried_again_later() {
    let state = Arc::default();
    let mut world = World::of(PLAN, carrier(&state, |_| {}), |_| {});
    for _ in 0..3 {
        let mut sent = Vec::new();
        while sent.is_empty() {
            sent = only(world.wait(Duration::from_secs(10)), "REGISTER ");
        }
        world.receive(CARRIER, &reply(&sent[0].1, "403 Forbidden", ""));
        assert_eq!(state.registration().0, Registered::Refused);
    }
    let told = |fact: &Fact| matches!(fact, Fact::TrunkRegistration { status: 403, .. });
    assert_eq!(world.out.facts.iter().filter(|fact| told(fact)).count(), 1);
}

#[test]
fn a_reload_keeps_what_is_still_wanted_and_takes_back_what_is_not() {
    let state = Arc::default();
    let mut world = World::of(PLAN, carrier(&state, |_| {}), |_| {});
    register(&mut world);
    let plan = || Arc::new(dialplan::parse(&[("p", PLAN)]).unwrap_or_else(|e| panic!("{e}")));
    world.shard.reload(plan(), Arc::new(carrier(&state, |_| {})));
    assert!(only(world.wait(Duration::from_secs(1)), "REGISTER ").is_empty(), "nothing changed");
    world.shard.reload(plan(), Arc::new(carrier(&state, |trunk| trunk.registration = None)));
    let sent = only(world.wait(Duration::from_secs(1)), "REGISTER ");
    assert!(sent[0].1.contains("Expires: 0"), "{}", sent[0].1);
    world.receive(CARRIER, &reply(&sent[0].1, "200 OK", ""));
    world.shard.reload(plan(), Arc::new(carrier(&state, |_| {})));
    let sent = only(world.wait(Duration::from_secs(1)), "REGISTER ");
    assert!(sent[0].1.contains("Expires: 600"), "begun anew: {}", sent[0].1);
}

#[test]
fn a_call_through_the_trunk_proves_who_we_are() {
    let state = Arc::default();
    let directory = carrier(&state, |trunk| {
        trunk.registration = None;
        trunk.from_user = Some("4930123".into());
        trunk.from_domain = Some("carrier.example".into());
    });
    let mut world = World::of(PLAN, directory, |_| {});
    let sent = only(world.receive("127.0.0.1:5071", &invite("9555")), "INVITE ");
    let first = &sent[0].1;
    assert!(header(first, "From").contains("<sip:4930123@carrier.example>"), "{first}");
    let challenge = CHALLENGE.replace("WWW-", "Proxy-");
    let sent = world.receive(CARRIER, &reply(first, "407 Proxy Auth", &challenge));
    let second = &only(sent, "INVITE ")[0].1;
    assert!(header(second, "Proxy-Authorization").contains("username=\"us\""), "{second}");
    let sent = world.receive(CARRIER, &answer(second, "200 OK", "d", SDP));
    assert!(sent.iter().any(|(_, text)| text.starts_with("SIP/2.0 200")), "{sent:?}");
}

#[test]
fn a_peer_that_is_down_is_passed_over_and_comes_back() {
    let state: Arc<TrunkState> = Arc::default();
    let qualify = QualifySpec { every: Duration::from_secs(30), ..QualifySpec::default() };
    let directory = carrier(&state, |trunk| {
        trunk.registration = None;
        trunk.qualify = Some(qualify);
    });
    let mut world = World::of(PLAN, directory, |_| {});
    let reach = |world: &mut World, answers: &[&str], seconds: u64| {
        for _ in 0..seconds {
            for (to, ping) in only(world.wait(Duration::from_secs(1)), "OPTIONS ") {
                if answers.contains(&to.as_str()) {
                    world.receive(&to, &reply(&ping, "404 Not Found", ""));
                }
            }
        }
    };
    reach(&mut world, &[CARRIER, SPARE], 60);
    assert!(state.is_reachable(0) && state.is_reachable(1), "any answer will do");
    reach(&mut world, &[SPARE], 40);
    assert!(state.is_reachable(0), "one silence is none");
    reach(&mut world, &[SPARE], 40);
    assert!(!state.is_reachable(0) && state.is_reachable(1));
    let sent = only(world.receive("127.0.0.1:5071", &invite("9555")), "INVITE ");
    assert_eq!(sent[0].0, SPARE);
    reach(&mut world, &[CARRIER, SPARE], 40);
    assert!(state.is_reachable(0));
    let told = |fact: &&Fact| matches!(fact, Fact::PeerReach { .. });
    assert_eq!(world.out.facts.iter().filter(told).count(), 2);
}

#[test]
fn the_next_peer_is_called_when_the_first_is_silent_or_full_but_not_when_it_refuses() {
    for (status, is_next_called) in
        [(Some("503 Full"), true), (None, true), (Some("404 Not Found"), false)]
    {
        let directory = carrier(&Arc::default(), |trunk| trunk.registration = None);
        let mut world = World::of(PLAN, directory, |_| {});
        let sent = only(world.receive("127.0.0.1:5071", &invite("9555")), "INVITE ");
        assert_eq!(sent[0].0, CARRIER);
        let sent = match status {
            Some(status) => world.receive(CARRIER, &reply(&sent[0].1, status, "")),
            // Timer B, and not long enough for a repeat of the second INVITE.
            None => world.wait(Duration::from_millis(32_400)),
        };
        let next: Vec<_> =
            only(sent, "INVITE ").into_iter().filter(|(to, _)| to == SPARE).collect();
        assert_eq!(next.len(), usize::from(is_next_called), "{status:?}");
    }
}
