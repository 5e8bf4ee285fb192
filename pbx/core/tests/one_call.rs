//! A whole call through one shard, in one thread and without a runtime: the messages of a caller
//! go in, the messages to the caller come out.

use std::sync::Arc;
use std::time::Duration;

use call::Endpoint;
use pbx_core::{Datagram, Limits, Locals, Prefix, Shard, ShardConfig, ShardOut, Trunk, Trunks};
use sip::path::{Path, Transport};
use turn::{HashKey, Mono, Now};

const PLAN: &str = r#"
[[context.default.exten]]
match = "answer"
steps = ["Ringing()", "Answer()", "Wait(86400)"]
[[context.default.exten]]
match = "busy"
steps = ["Busy()"]
[[context.default.exten]]
match = "bridge"
steps = ["Dial(sip:service@127.0.0.1:5070)"]
"#;

struct World {
    shard: Shard,
    now: Now,
    out: ShardOut,
}

impl World {
    fn new() -> Self {
        let plan = dialplan::parse(&[("plan.toml", PLAN)]).unwrap_or_else(|e| panic!("{e}"));
        let trunk = Trunk {
            endpoint: Arc::new(Endpoint {
                channel: "SIP/peer".into(),
                name: "peer".into(),
                context: "default".into(),
            }),
            sources: vec![Prefix::host("127.0.0.1".parse().unwrap())],
            peer: None,
            calls_max: None,
            owner: None,
        };
        let config = ShardConfig {
            shard: 0,
            shards: 1,
            epoch: 1,
            seed: [7; 32],
            mint_key: HashKey::new(1, 2),
            start: Mono::ZERO,
            limits: Limits {
                calls_max: 100,
                legs_max: 200,
                tombstones_max: 1000,
                ..Limits::default()
            },
            timing: Default::default(),
            agent: "test".into(),
            system: "".into(),
            locals: Locals { v4: Some("127.0.0.1:5060".parse().unwrap()), v6: None },
            trunks: Arc::new(Trunks::new(vec![trunk])),
            plan: Arc::new(plan),
        };
        let mut now = Now::default();
        now.mono = Mono::from_nanos(1_000_000_000);
        Self { shard: Shard::new(&config), now, out: ShardOut::new() }
    }

    fn receive(&mut self, from: &str, text: &str) -> Vec<(String, String)> {
        let path = Path {
            transport: Transport::Udp,
            local: "127.0.0.1:5060".parse().unwrap(),
            remote: from.parse().unwrap(),
        };
        let text = text.replace('\n', "\r\n");
        let datagram = Datagram { bytes: text.as_bytes(), path, received_at: self.now.mono };
        self.shard.receive(self.now, datagram, &mut self.out);
        self.shard.flush(self.now, &mut self.out);
        self.drain()
    }

    fn drain(&mut self) -> Vec<(String, String)> {
        let sent = self
            .out
            .net
            .sends()
            .map(|(path, bytes)| {
                (path.remote.to_string(), String::from_utf8_lossy(bytes).into_owned())
            })
            .collect();
        self.out.net.clear();
        sent
    }

    fn wait(&mut self, time: Duration) -> Vec<(String, String)> {
        let end = self.now.mono + time;
        let mut sent = Vec::new();
        while let Some(at) = self.shard.next_timeout().filter(|at| *at <= end) {
            self.now.mono = self.now.mono.max(at);
            self.shard.fire(self.now, &mut self.out);
            self.shard.flush(self.now, &mut self.out);
            sent.extend(self.drain());
        }
        self.now.mono = end;
        sent
    }
}

const SDP: &str = "v=0\no=- 1 1 IN IP4 127.0.0.1\ns=-\n\
    c=IN IP4 127.0.0.1\nt=0 0\nm=audio 6000 RTP/AVP 0\na=rtpmap:0 PCMU/8000\n";

fn invite(user: &str) -> String {
    format!(
        "INVITE sip:{user}@127.0.0.1:5060 SIP/2.0\n\
         Via: SIP/2.0/UDP 127.0.0.1:5071;branch=z9hG4bK-1\n\
         From: \"A\" <sip:alice@127.0.0.1:5071>;tag=a1\nTo: <sip:{user}@127.0.0.1:5060>\n\
         Call-ID: c1@x\n\
         CSeq: 1 INVITE\nContact: <sip:alice@127.0.0.1:5071>\nMax-Forwards: 70\n\
         Content-Type: application/sdp\nContent-Length: {}\n\n{SDP}",
        SDP.replace('\n', "\r\n").len()
    )
}

fn in_dialog(method: &str, to: &str, cseq: u32, branch: &str) -> String {
    format!(
        "{method} sip:127.0.0.1:5060 SIP/2.0\n\
         Via: SIP/2.0/UDP 127.0.0.1:5071;branch=z9hG4bK-{branch}\n\
         From: \"A\" <sip:alice@127.0.0.1:5071>;tag=a1\nTo: {to}\nCall-ID: c1@x\n\
         CSeq: {cseq} {method}\n\
         Max-Forwards: 70\nContent-Length: 0\n\n"
    )
}

fn header<'a>(message: &'a str, name: &str) -> &'a str {
    let line = message.lines().find(|line| line.starts_with(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name} in {message}")).split_once(": ").unwrap().1
}

#[test]
fn a_call_is_answered_and_ended() {
    let mut world = World::new();
    let sent = world.receive("127.0.0.1:5071", &invite("answer"));
    let lines: Vec<_> = sent.iter().map(|(_, text)| text.lines().next().unwrap()).collect();
    assert_eq!(lines, ["SIP/2.0 180 Ringing", "SIP/2.0 200 OK"], "no 100 is needed");
    let to = header(&sent[1].1, "To").to_owned();
    assert!(sent[1].1.contains("m=audio"), "{}", sent[1].1);
    // The 2xx is repeated until its ACK.
    let repeats = world.wait(Duration::from_millis(1600));
    assert_eq!(repeats.len(), 2);
    assert!(world.receive("127.0.0.1:5071", &in_dialog("ACK", &to, 1, "2")).is_empty());
    assert!(world.wait(Duration::from_secs(40)).is_empty());
    let sent = world.receive("127.0.0.1:5071", &in_dialog("BYE", &to, 2, "3"));
    assert!(sent[0].1.starts_with("SIP/2.0 200 OK"), "{sent:?}");
    assert_eq!(world.out.records.len(), 1);
    world.wait(Duration::from_secs(40));
    assert!(
        world.shard.leftovers().iter().all(|(_, count)| *count == 0),
        "{:?}",
        world.shard.leftovers()
    );
}

#[test]
fn refusals_have_their_status() {
    let mut world = World::new();
    let sent = world.receive("127.0.0.1:5071", &invite("busy"));
    assert!(sent[0].1.starts_with("SIP/2.0 486 "), "{sent:?}");
    let mut world = World::new();
    let sent = world.receive("127.0.0.1:5071", &invite("nobody"));
    assert!(sent[0].1.starts_with("SIP/2.0 404 "), "{sent:?}");
    let mut world = World::new();
    let sent = world.receive("127.0.0.2:5071", &invite("answer"));
    assert!(sent[0].1.starts_with("SIP/2.0 403 "), "{sent:?}");
}

#[test]
fn a_call_is_bridged() {
    let mut world = World::new();
    let sent = world.receive("127.0.0.1:5071", &invite("bridge"));
    assert_eq!(sent.len(), 2, "{sent:?}");
    let (to, b_invite) = &sent[0];
    assert_eq!(to, "127.0.0.1:5070");
    assert!(b_invite.starts_with("INVITE sip:service@127.0.0.1:5070 SIP/2.0\r\n"), "{b_invite}");
    assert!(b_invite.contains("Max-Forwards: 69\r\n"), "{b_invite}");
    assert!(b_invite.contains("m=audio 6000"), "{b_invite}");
    assert!(sent[1].1.starts_with("SIP/2.0 100 "));
    let answer = |status: &str, body: &str| {
        format!(
            "SIP/2.0 {status}\nVia: {}\nFrom: {}\nTo: {};tag=b1\nCall-ID: {}\nCSeq: 1 INVITE\n\
             Contact: <sip:bob@127.0.0.1:5070>\nContent-Type: application/sdp\n\
             Content-Length: {}\n\n{body}",
            header(b_invite, "Via"),
            header(b_invite, "From"),
            header(b_invite, "To"),
            header(b_invite, "Call-ID"),
            body.replace('\n', "\r\n").len()
        )
    };
    let sent = world.receive("127.0.0.1:5070", &answer("180 Ringing", ""));
    assert!(sent[0].1.starts_with("SIP/2.0 180 "), "{sent:?}");
    let sent = world.receive("127.0.0.1:5070", &answer("200 OK", &SDP.replace("6000", "7000")));
    assert_eq!(sent.len(), 2, "{sent:?}");
    let (ack, ok) = (&sent[0].1, &sent[1].1);
    assert!(ack.starts_with("ACK sip:bob@127.0.0.1:5070 SIP/2.0\r\n"), "{ack}");
    assert!(ok.starts_with("SIP/2.0 200 ") && ok.contains("m=audio 7000"), "{ok}");
    let to = header(ok, "To").to_owned();
    world.receive("127.0.0.1:5071", &in_dialog("ACK", &to, 1, "2"));
    let sent = world.receive("127.0.0.1:5071", &in_dialog("BYE", &to, 2, "3"));
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent[0].1.starts_with("SIP/2.0 200 "));
    assert!(sent[1].1.starts_with("BYE sip:bob@127.0.0.1:5070 SIP/2.0\r\n"), "{}", sent[1].1);
    assert_eq!(world.out.records.len(), 1);
}
