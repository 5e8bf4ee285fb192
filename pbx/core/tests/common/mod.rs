//! A world for one shard: virtual time, and the messages of a caller by hand.

#![allow(dead_code, unreachable_pub)] // each test binary uses its part
#![allow(clippy::unwrap_used, missing_docs)] // a test's world may fail loudly

pub mod phone;

use std::sync::Arc;
use std::time::Duration;

use call::Endpoint;
use pbx_core::{
    Datagram, Directory, DirectorySpec, Limits, Locals, Prefix, Shard, ShardConfig, ShardOut,
    Shared, Trunk,
};
use sip::path::{Path, Transport};
use turn::{HashKey, Mono, Now};

/// Answers, refuses and bridges.
pub const PLAN: &str = r#"
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

/// What the calls of `name` have in common.
pub fn endpoint(name: &str) -> Arc<Endpoint> {
    Arc::new(Endpoint {
        channel: format!("SIP/{name}").into(),
        name: name.into(),
        context: "default".into(),
    })
}

/// One shard on virtual time.
pub struct World {
    pub shard: Shard,
    pub now: Now,
    pub out: ShardOut,
    /// Over which messages come in.
    pub transport: Transport,
    /// What was sent the last time, with its transport.
    pub last_sent: Vec<(Transport, String, String)>,
}

impl World {
    pub fn new() -> Self {
        Self::with(PLAN, |_| {}, |_| {})
    }

    /// A world with another plan, and changes to its trunk and its limits.
    pub fn with(
        plan: &str,
        change_trunk: impl FnOnce(&mut Trunk),
        change_limits: impl FnOnce(&mut Limits),
    ) -> Self {
        Self::of(plan, Self::directory(change_trunk), change_limits)
    }

    /// A world with a directory of its own.
    pub fn of(plan: &str, directory: Directory, change_limits: impl FnOnce(&mut Limits)) -> Self {
        let shared = pbx_shared::shared(100, Duration::from_secs(60));
        Self::made(plan, directory, change_limits, shared)
    }

    /// A world whose tables hold something already.
    pub fn sharing(plan: &str, directory: Directory, shared: Shared) -> Self {
        Self::made(plan, directory, |_| {}, shared)
    }

    fn made(
        plan: &str,
        directory: Directory,
        change_limits: impl FnOnce(&mut Limits),
        shared: Shared,
    ) -> Self {
        let plan = dialplan::parse(&[("plan.toml", plan)]).unwrap_or_else(|e| panic!("{e}"));
        let mut limits =
            Limits { calls_max: 100, legs_max: 200, tombstones_max: 1000, ..Limits::default() };
        change_limits(&mut limits);
        let config = ShardConfig {
            shard: 0,
            shards: 1,
            epoch: 1,
            seed: [7; 32],
            mint_key: HashKey::new(1, 2),
            start: Mono::ZERO,
            limits,
            timing: Default::default(),
            agent: "test".into(),
            system: "".into(),
            locals: Locals {
                v4: Some("127.0.0.1:5060".parse().unwrap()),
                tcp_v4: Some("127.0.0.1:5060".parse().unwrap()),
                switches: true,
                ..Locals::default()
            },
            nonce_key: [9; 32],
            directory: Arc::new(directory),
            shared,
            plan: Arc::new(plan),
        };
        let now = Now { mono: Mono::from_nanos(10_000_000_000), ..Now::default() };
        Self {
            shard: Shard::new(&config),
            now,
            out: ShardOut::new(),
            transport: Transport::Udp,
            last_sent: Vec::new(),
        }
    }

    /// The trunk `peer`, which is everything at 127.0.0.1.
    pub fn directory(change: impl FnOnce(&mut Trunk)) -> Directory {
        Directory::new(DirectorySpec { trunks: vec![Self::trunk(change)], ..Default::default() })
    }

    /// The trunk alone.
    pub fn trunk(change: impl FnOnce(&mut Trunk)) -> Trunk {
        let mut trunk = Trunk {
            sources: vec![Prefix::host("127.0.0.1".parse().unwrap())],
            ..Trunk::named(endpoint("peer"))
        };
        change(&mut trunk);
        trunk
    }

    /// An operator begins a call; gives what is sent for it.
    pub fn originate(
        &mut self,
        wanted: pbx_core::Originate,
    ) -> Result<Vec<(String, String)>, pbx_core::NotOriginated> {
        self.shard.originate(self.now, wanted, &mut self.out)?;
        self.shard.flush(self.now, &mut self.out);
        Ok(self.drain())
    }

    /// A message comes in (with `\n` for line ends); gives what is sent for it, and to where.
    pub fn receive(&mut self, from: &str, text: &str) -> Vec<(String, String)> {
        self.receive_late(from, text, Duration::ZERO)
    }

    /// As [`World::receive`], for a message that has waited in the socket.
    pub fn receive_late(
        &mut self,
        from: &str,
        text: &str,
        waited: Duration,
    ) -> Vec<(String, String)> {
        let path = Path {
            transport: self.transport,
            local: "127.0.0.1:5060".parse().unwrap(),
            remote: from.parse().unwrap(),
        };
        let text = text.replace('\n', "\r\n");
        let received_at = Mono::from_nanos(self.now.mono.as_nanos() - waited.as_nanos() as u64);
        let datagram = Datagram { bytes: text.as_bytes(), path, received_at };
        self.shard.receive(self.now, datagram, &mut self.out);
        self.shard.flush(self.now, &mut self.out);
        self.drain()
    }

    /// What was sent since the last time.
    pub fn drain(&mut self) -> Vec<(String, String)> {
        self.last_sent = self
            .out
            .net
            .sends()
            .map(|(path, bytes)| {
                let text = String::from_utf8_lossy(bytes).into_owned();
                (path.transport, path.remote.to_string(), text)
            })
            .collect();
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

    /// A message of ours could not be sent; gives what is sent then.
    pub fn send_failed(&mut self, text: &str) -> Vec<(String, String)> {
        self.shard.on_send_failed(self.now, text.as_bytes(), &mut self.out);
        self.shard.flush(self.now, &mut self.out);
        self.drain()
    }

    /// Lets time pass; gives what was sent.
    pub fn wait(&mut self, time: Duration) -> Vec<(String, String)> {
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

/// A session description.
pub const SDP: &str = "v=0\no=- 1 1 IN IP4 127.0.0.1\ns=-\n\
    c=IN IP4 127.0.0.1\nt=0 0\nm=audio 6000 RTP/AVP 0\na=rtpmap:0 PCMU/8000\n";

/// The caller's INVITE.
pub fn invite(user: &str) -> String {
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

/// A request in the dialog of that INVITE, with the To of our response.
pub fn in_dialog(method: &str, to: &str, cseq: u32, branch: &str) -> String {
    format!(
        "{method} sip:127.0.0.1:5060 SIP/2.0\n\
         Via: SIP/2.0/UDP 127.0.0.1:5071;branch=z9hG4bK-{branch}\n\
         From: \"A\" <sip:alice@127.0.0.1:5071>;tag=a1\nTo: {to}\nCall-ID: c1@x\n\
         CSeq: {cseq} {method}\n\
         Max-Forwards: 70\nContent-Length: 0\n\n"
    )
}

/// The value of a header field.
pub fn header<'a>(message: &'a str, name: &str) -> &'a str {
    let line = message.lines().find(|line| line.starts_with(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name} in {message}")).split_once(": ").unwrap().1
}
