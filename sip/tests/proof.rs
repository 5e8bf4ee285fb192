//! Challenges to calls of ours (RFC 3261 22.2, 22.3; RFC 7616).

#![allow(clippy::unwrap_used)] // a test may fail loudly

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{CONTACT, Sent, World, response};
use sip::digest::{Account, Algorithm, Challenger, NonceCounts, Password, Secret, Verdict};
use sip::endpoint::Outside;
use sip::wire::{Framing, Index};
use turn::Wall;

const REALM: &str = "carrier.example";

#[derive(Debug)]
struct EachOnce;

impl NonceCounts for EachOnce {
    fn fresh(&self, _: u64, nc: u32, _: Wall) -> bool {
        nc > 0
    }
}

/// The peer, which wants to know who calls.
struct Carrier {
    challenger: Challenger,
    secret: Secret,
}

impl Carrier {
    fn new() -> Self {
        let algorithms = [Algorithm::Sha256, Algorithm::Md5];
        let lifetime = Duration::from_secs(60);
        Self {
            challenger: Challenger::new([1; 32], REALM, &algorithms, lifetime, 0),
            secret: Secret::of_password("us", REALM, "secret"),
        }
    }

    fn challenge(&self, is_proxy: bool, is_stale: bool) -> String {
        let mut out = Vec::new();
        self.challenger.challenge(Wall::from_micros(0), is_proxy, is_stale, &mut out);
        String::from_utf8(out).unwrap().replace("\r\n", "\n")
    }

    fn check(&self, sent: &Sent) -> Verdict {
        let text = sent.text.replace("Proxy-Authorization", "Authorization");
        let mut index = Index::new();
        let message = index.parse(text.as_bytes(), Framing::Datagram).unwrap();
        let find = |user: &str| (user == "us").then_some(&self.secret);
        self.challenger.check(Wall::from_micros(0), &message, find, &EachOnce).verdict
    }
}

fn world(password: &str) -> World {
    let mut world = World::new();
    let account = Account {
        user: "us".into(),
        realm: Some(REALM.into()),
        password: Password::of_text(password),
    };
    world.accounts = Some(Arc::new([account]));
    world
}

/// Calls, and answers the INVITE with a challenge; the first INVITE, and what is sent for it.
fn challenged(world: &mut World, status: &str, lines: &str) -> (Sent, Vec<Sent>) {
    let (_, sent) = world.call(Some("offer"));
    let invite = sent[0].clone();
    assert!(invite.find("Authorization").is_none());
    let sent = world.receive(&response(&invite, status, "p", lines, ""));
    (invite, sent)
}

#[test]
fn a_challenged_invite_is_sent_again_with_credentials_and_the_dialog_goes_on_with_them() {
    for (status, is_proxy) in
        [("401 Unauthorized", false), ("407 Proxy Authentication Required", true)]
    {
        let (mut world, carrier) = (world("secret"), Carrier::new());
        let lines = carrier.challenge(is_proxy, false);
        let (first, sent) = challenged(&mut world, status, &lines);
        assert_eq!(sent.len(), 2, "{sent:?}");
        assert_eq!(sent[0].start(), "ACK sip:bob@192.0.2.1 SIP/2.0");
        let invite = &sent[1];
        assert_eq!(invite.start(), first.start());
        for name in ["Call-ID", "From", "To", "Contact", "Content-Type", "Max-Forwards"] {
            assert_eq!(invite.header(name), first.header(name), "{name}");
        }
        assert_eq!(invite.header("CSeq"), "2 INVITE");
        assert_ne!(invite.header("Via"), first.header("Via"));
        assert_eq!(invite.body(), "offer");
        assert_eq!(carrier.check(invite), Verdict::Accepted, "{}", invite.text);
        assert!(world.heard().is_empty(), "the layer above hears nothing of it");

        world.receive(&response(invite, "180 Ringing", "c", "", ""));
        let ack = world.receive(&response(invite, "200 OK", "c", CONTACT, "answer")).remove(0);
        assert_eq!(ack.header("CSeq"), "2 ACK");
        let name = if is_proxy { "Proxy-Authorization" } else { "Authorization" };
        assert_eq!(ack.header(name), invite.header(name), "22.1");
        let id = world.usage();
        let info = world.ask(id, 4, "INFO").remove(0);
        assert_eq!(info.header("CSeq"), "3 INFO");
        assert_eq!(carrier.check(&info), Verdict::Accepted);
        assert!(info.header(name).contains("nc=00000002"), "{}", info.text);
        let bye = world.end(id, 0).remove(0);
        assert_eq!(carrier.check(&bye), Verdict::Accepted);
        assert!(bye.header(name).contains("nc=00000003"), "{}", bye.text);
    }
}

#[test]
fn case_d01_a_stale_nonce_is_answered_once_more() {
    let (mut world, carrier) = (world("secret"), Carrier::new());
    let lines = carrier.challenge(false, false);
    let (_, sent) = challenged(&mut world, "401 Unauthorized", &lines);
    let stale = carrier.challenge(false, true);
    let sent = world.receive(&response(&sent[1], "401 Unauthorized", "p", &stale, ""));
    assert_eq!(sent[1].header("CSeq"), "3 INVITE");
    assert_eq!(carrier.check(&sent[1]), Verdict::Accepted);
    let stale = carrier.challenge(false, true);
    let sent = world.receive(&response(&sent[1], "401 Unauthorized", "p", &stale, ""));
    assert_eq!(sent.len(), 1, "only the ACK: {sent:?}");
    assert_eq!(world.heard(), ["ended Refused(401)"]);
}

#[test]
fn a_wrong_password_is_tried_once() {
    let (mut world, carrier) = (world("wrong"), Carrier::new());
    let lines = carrier.challenge(false, false);
    let (_, sent) = challenged(&mut world, "401 Unauthorized", &lines);
    assert_eq!(carrier.check(&sent[1]), Verdict::Wrong);
    let again = carrier.challenge(false, false);
    let sent = world.receive(&response(&sent[1], "401 Unauthorized", "p", &again, ""));
    assert_eq!(sent.len(), 1, "only the ACK: {sent:?}");
    assert_eq!(world.heard(), ["ended Refused(401)"]);
    world.wait(Duration::from_secs(64));
    assert!(world.is_clean());
}

#[test]
fn case_t15_and_d07_no_challenge_or_another_realm_gets_no_credentials() {
    let foreign = "WWW-Authenticate: Digest realm=\"elsewhere\", nonce=\"n\", qop=\"auth\"\n";
    for lines in ["", foreign] {
        let mut world = world("secret");
        let (_, sent) = challenged(&mut world, "401 Unauthorized", lines);
        assert_eq!(sent.len(), 1, "only the ACK: {sent:?}");
        assert_eq!(world.heard(), ["ended Refused(401)"]);
    }
    let mut world = World::new();
    let (_, sent) =
        challenged(&mut world, "401 Unauthorized", &Carrier::new().challenge(false, false));
    assert_eq!(sent.len(), 1, "nobody is configured: {sent:?}");
    assert_eq!(world.heard(), ["ended Refused(401)"]);
}

#[test]
fn a_call_that_is_given_up_meanwhile_is_not_sent_again() {
    let (mut world, carrier) = (world("secret"), Carrier::new());
    let (id, sent) = world.call(Some("offer"));
    assert!(world.end(id, 0).is_empty(), "a CANCEL waits for a provisional response");
    let lines = carrier.challenge(false, false);
    let sent = world.receive(&response(&sent[0], "401 Unauthorized", "p", &lines, ""));
    assert_eq!(sent.len(), 1, "only the ACK: {sent:?}");
    world.wait(Duration::from_secs(64));
    assert!(world.is_clean());
}

#[test]
fn the_second_invite_can_be_cancelled() {
    let (mut world, carrier) = (world("secret"), Carrier::new());
    let lines = carrier.challenge(false, false);
    let (_, sent) = challenged(&mut world, "401 Unauthorized", &lines);
    let invite = sent[1].clone();
    world.receive(&response(&invite, "180 Ringing", "c", "", ""));
    let id = world.usage();
    let cancel = world.end(id, 0).remove(0);
    assert_eq!(
        (cancel.start(), cancel.header("CSeq")),
        ("CANCEL sip:bob@192.0.2.1 SIP/2.0", "2 CANCEL")
    );
    assert_eq!(cancel.header("Via"), invite.header("Via"));
}

#[test]
fn a_request_outside_of_a_dialog_is_sent_and_its_end_is_told() {
    let mut world = World::new();
    let path = world.path();
    let request = Outside {
        path,
        method: b"OPTIONS",
        uri: b"sip:192.0.2.1",
        from: b"sip:192.0.2.100:5060",
        from_tag: b"t",
        to: b"sip:192.0.2.1",
        call_id: b"ping@us",
        cseq: 7,
        lines: b"Accept: application/sdp\r\n",
    };
    for (owner, status) in [(1, "200 OK"), (2, "503 Busy")] {
        assert!(world.request(&request, owner));
        let sent = world.flush().remove(0);
        assert_eq!(
            (sent.start(), sent.header("CSeq")),
            ("OPTIONS sip:192.0.2.1 SIP/2.0", "7 OPTIONS")
        );
        assert_eq!(sent.header("Accept"), "application/sdp");
        world.receive(&response(&sent, "100 Trying", "", "", ""));
        assert!(world.heard().is_empty());
        world.receive(&response(&sent, status, "x", "", ""));
        assert_eq!(world.heard(), [format!("outside {owner} replied {}", &status[..3])]);
    }
    assert!(world.request(&request, 3));
    world.flush();
    world.wait(Duration::from_secs(33));
    assert_eq!(world.heard(), ["outside 3 replied 408"]);
    world.wait(Duration::from_secs(33));
    assert!(world.is_clean());
}
