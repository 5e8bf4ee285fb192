//! One shard, and the messages of a call as SIPp sends them: shared by benches.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use call::Endpoint;
use pbx_core::{
    Datagram, Directory, DirectorySpec, Limits, Locals, Prefix, Shard, ShardConfig, ShardOut, Trunk,
};
use sip::path::{Path, Transport};
use turn::{HashKey, Mono, Now};

const PLAN: &str = r#"
[[context.default.exten]]
match = "answer"
steps = ["Ringing()", "Answer()", "Wait(86400)"]
[[context.default.exten]]
match = "bridge"
steps = ["Dial(sip:service@127.0.0.1:5070)"]
"#;

pub(crate) const SDP: &str = "v=0\r\no=user1 53655765 2353687637 IN IP4 127.0.0.1\r\ns=-\r\n\
    c=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";
pub(crate) const CALLER: &str = "127.0.0.1:5071";
pub(crate) const CALLEE: &str = "127.0.0.1:5070";

/// A shard on virtual time.
pub(crate) struct World {
    shard: Shard,
    /// What time it is.
    pub(crate) now: Now,
    /// What came out of the last turn.
    pub(crate) out: ShardOut,
}

impl World {
    /// Everybody on this machine may call `answer` and `bridge`.
    pub(crate) fn new() -> Self {
        let plan = dialplan::parse(&[("plan.toml", PLAN)]).unwrap_or_else(|e| panic!("{e}"));
        let endpoint = Arc::new(Endpoint {
            channel: "SIP/sipp".into(),
            name: "sipp".into(),
            context: "default".into(),
        });
        let trunk = Trunk {
            sources: vec![Prefix::host("127.0.0.1".parse().expect("an address"))],
            ..Trunk::named(endpoint)
        };
        let directory = DirectorySpec { trunks: vec![trunk], ..DirectorySpec::default() };
        let config = ShardConfig {
            shard: 0,
            shards: 1,
            epoch: 1,
            seed: [7; 32],
            mint_key: HashKey::new(1, 2),
            start: Mono::ZERO,
            limits: Limits::default(),
            timing: sip::transaction::Timing::default(),
            agent: "bench".into(),
            system: "".into(),
            locals: Locals { v4: "127.0.0.1:5060".parse().ok(), ..Locals::default() },
            nonce_key: [9; 32],
            directory: Arc::new(Directory::new(directory)),
            shared: pbx_shared::shared(1, Duration::from_secs(60)),
            plan: Arc::new(plan),
        };
        Self { shard: Shard::new(&config), now: Now::default(), out: ShardOut::new() }
    }

    /// A turn with one datagram.
    pub(crate) fn receive(&mut self, from: &str, text: &str) {
        let path = Path {
            transport: Transport::Udp,
            local: "127.0.0.1:5060".parse().expect("an address"),
            remote: from.parse().expect("an address"),
        };
        self.out.clear();
        let datagram = Datagram { bytes: text.as_bytes(), path, received_at: self.now.mono };
        self.shard.receive(self.now, datagram, &mut self.out);
        self.shard.flush(self.now, &mut self.out);
        black_box(&self.out);
    }

    /// The text of a message that the last turn sent.
    pub(crate) fn sent(&self, at: usize) -> String {
        let (_, bytes) = self.out.net.sends().nth(at).expect("something was sent");
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Due timers, 50 us later.
    pub(crate) fn tick(&mut self) {
        self.now.mono = self.now.mono + Duration::from_micros(50);
        self.out.clear();
        self.shard.fire(self.now, &mut self.out);
    }
}

/// A request of call `n`.
pub(crate) fn request(method: &str, user: &str, n: u32, to_tag: &str, body: &str) -> String {
    let cseq = if method == "BYE" { 2 } else { 1 };
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    format!(
        "{method} sip:{user}@127.0.0.1:5060 SIP/2.0\r\n\
         Via: SIP/2.0/UDP 127.0.0.1:5071;branch=z9hG4bK-4711-{n}-{method}\r\n\
         From: sipp <sip:sipp@127.0.0.1:5071>;tag=4711SIPpTag00{n}\r\n\
         To: {user} <sip:{user}@127.0.0.1:5060>{to_tag}\r\nCall-ID: {n}-4711@127.0.0.1\r\n\
         CSeq: {cseq} {method}\r\nContact: sip:sipp@127.0.0.1:5071\r\nMax-Forwards: 70\r\n\
         Subject: Performance Test\r\n{kind}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The callee's response.
pub(crate) fn response(request: &str, status: &str, body: &str) -> String {
    let line = |name: &str| {
        request.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned()
    };
    format!(
        "SIP/2.0 {status}\r\n{}\r\n{}\r\n{};tag=b1\r\n{}\r\n{}\r\nContact: <sip:127.0.0.1:5070>\r\n\
         Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
        line("Via"),
        line("From"),
        line("To"),
        line("Call-ID"),
        line("CSeq"),
        body.len()
    )
}

/// The parameter `;tag=...` of a message's To.
pub(crate) fn tag_of(message: &str) -> String {
    let to = message.lines().find(|line| line.starts_with("To:")).unwrap_or_default();
    to.rfind(";tag=").map(|at| to[at..].to_owned()).unwrap_or_default()
}
