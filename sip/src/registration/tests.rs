//! A registrar by hand, on virtual time.

use super::*;
use crate::digest::Password;
use crate::wire::{Framing, Index};

const CONTACT: &[u8] = b"sip:us@192.0.2.1:5060";

struct World {
    registration: Registration,
    now: Mono,
    rng: Rng,
}

impl World {
    fn new() -> Self {
        let account =
            Account { user: "us".into(), realm: None, password: Password::of_text("secret") };
        let config = RegistrationConfig {
            registrar: "sip:carrier.example".into(),
            aor: "sip:us@carrier.example".into(),
            contact_user: "us".into(),
            expires: Duration::from_secs(600),
            accounts: Arc::new([account]),
        };
        let registration = Registration::new(Arc::new(config));
        Self { registration, now: Mono::from_nanos(1_000_000_000), rng: Rng::new([3; 32]) }
    }

    fn write(&mut self) -> String {
        let mut out = Vec::new();
        let contact = [b"<", CONTACT, b">"].concat();
        let cseq = self.registration.write(&contact, &mut self.rng, &mut out);
        format!("CSeq {cseq}\r\n{}", String::from_utf8(out).unwrap())
    }

    fn reply(&mut self, status: u16, lines: &str) -> Step {
        let text = format!(
            "SIP/2.0 {status} x\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
             From: <sip:us@carrier.example>;tag=1\r\nTo: <sip:us@carrier.example>;tag=2\r\n\
             Call-ID: 1\r\nCSeq: 1 REGISTER\r\n{lines}Content-Length: 0\r\n\r\n"
        );
        let mut index = Index::new();
        let message = index.parse(text.as_bytes(), Framing::Datagram).unwrap();
        self.registration.on_reply(self.now, (status, Some(&message)), CONTACT, &mut self.rng)
    }

    fn silence(&mut self) -> Step {
        self.registration.on_reply(self.now, (408, None), CONTACT, &mut self.rng)
    }

    /// Seconds that a step waits.
    fn wait(&self, step: Step) -> f64 {
        match step {
            Step::WaitUntil(at) => (at - self.now).as_secs_f64(),
            Step::Send | Step::Rest => panic!("{step:?}"),
        }
    }
}

const CHALLENGE: &str = "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\"\r\n";
const OURS: &str = "Contact: <sip:us@192.0.2.1:5060>;expires=600\r\n";

#[test]
fn it_registers_with_credentials_and_refreshes_in_time() {
    let mut world = World::new();
    assert_eq!(world.registration.start(), Step::Send);
    let first = world.write();
    assert_eq!(first, "CSeq 1\r\nContact: <sip:us@192.0.2.1:5060>\r\nExpires: 600\r\n");
    assert_eq!(world.reply(401, CHALLENGE), Step::Send);
    let second = world.write();
    assert!(second.starts_with("CSeq 2\r\n") && second.contains("nc=00000001"), "{second}");
    let step = world.reply(200, OURS);
    let wait = world.wait(step);
    assert!((510.0..570.0).contains(&wait), "{wait}");
    assert_eq!(world.registration.state(), State::Registered);
    // The refresh uses the nonce again; a new nonce without stale is answered (case D05).
    assert_eq!(world.registration.on_due(), Step::Send);
    assert!(world.write().contains("nc=00000002"));
    let newer = CHALLENGE.replace("\"n\"", "\"m\"");
    assert_eq!(world.reply(401, &newer), Step::Send);
    assert!(world.write().contains("nonce=\"m\""));
    let step = world.reply(200, OURS);
    world.wait(step);
}

#[test]
fn case_r07_only_our_own_contact_says_how_long() {
    let mut world = World::new();
    world.registration.start();
    world.write();
    let many = "Contact: <sip:us@192.0.2.7>;expires=3600, <sip:us@192.0.2.1:5060>;expires=60\r\n\
                Contact: <sip:us@192.0.2.8>;expires=3600\r\n";
    let step = world.reply(200, many);
    let wait = world.wait(step);
    assert!((51.0..57.1).contains(&wait), "{wait}");
    // Without our contact, and with the header alone.
    world.registration.on_due();
    world.write();
    let step = world.reply(200, "Contact: <sip:us@192.0.2.1:5060>\r\nExpires: 100\r\n");
    let wait = world.wait(step);
    assert!((85.0..95.1).contains(&wait), "{wait}");
}

#[test]
fn case_r07_a_contact_that_is_gone_at_once_is_no_success() {
    let mut world = World::new();
    world.registration.start();
    world.write();
    let step = world.reply(200, "Contact: <sip:us@192.0.2.1:5060>;expires=0\r\n");
    assert!(world.wait(step) >= 15.0, "it backs off");
    assert_eq!(world.registration.state(), State::Waiting);
}

#[test]
fn case_r04_it_leaves_with_expires_0() {
    let mut world = World::new();
    assert_eq!(world.registration.stop(world.now), Step::Rest, "nobody knows us");
    world.registration.start();
    world.write();
    world.reply(200, OURS);
    assert_eq!(world.registration.stop(world.now), Step::Send);
    assert!(world.write().contains("Expires: 0\r\n"));
    assert_eq!(world.reply(401, CHALLENGE), Step::Send);
    let proven = world.write();
    assert!(proven.contains("Expires: 0\r\n") && proven.contains("Authorization"), "{proven}");
    assert_eq!(world.reply(200, ""), Step::Rest);
    assert_eq!(world.registration.state(), State::Idle);
}

#[test]
fn case_t15_a_registrar_that_only_says_401_is_left_alone_for_longer_and_longer() {
    let mut world = World::new();
    world.registration.start();
    let mut waits = Vec::new();
    for _ in 0..9 {
        world.write();
        let step = world.reply(401, "");
        waits.push(world.wait(step));
        assert_eq!(world.registration.state(), State::Waiting);
        world.registration.on_due();
    }
    for (at, wait) in waits.iter().enumerate() {
        let most = (30.0 * f64::from(1 << at)).min(1800.0);
        assert!((most / 2.0..=most).contains(wait), "{at}: {waits:?}");
    }
}

#[test]
fn silence_and_refusals_back_off_and_success_forgives() {
    let mut world = World::new();
    world.registration.start();
    world.write();
    let step = world.silence();
    assert!(world.wait(step) <= 30.0);
    world.registration.on_due();
    world.write();
    let step = world.reply(503, "Retry-After: 300\r\n");
    assert!((world.wait(step) - 300.0).abs() < 0.1, "what it says counts");
    world.registration.on_due();
    world.write();
    world.reply(200, OURS);
    world.registration.on_due();
    world.write();
    let step = world.reply(403, "");
    assert!(world.wait(step) <= 30.0, "from the start again");
}

#[test]
fn a_registrar_that_wants_more_time_gets_it_once() {
    let mut world = World::new();
    world.registration.start();
    world.write();
    assert_eq!(world.reply(423, "Min-Expires: 1800\r\n"), Step::Send);
    assert!(world.write().contains("Expires: 1800\r\n"));
    assert!(matches!(world.reply(423, "Min-Expires: 3600\r\n"), Step::WaitUntil(_)));
    world.registration.on_due();
    world.write();
    assert!(matches!(world.reply(423, "Min-Expires: 60\r\n"), Step::WaitUntil(_)));
}
