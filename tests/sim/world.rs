//! The world: shards, callers, callees and the network between them on virtual time. Everything
//! that happens is a function of the seed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use call::{Endpoint, Record};
use pbx_core::{
    Datagram, Directory, DirectorySpec, Fact, Hop, Limits, Locals, Prefix, Router, Shard,
    ShardConfig, ShardMessage, ShardOut, Shared, Trunk,
};
use sip::path::{Path, Transport};
use turn::{HashKey, Mono, Now, Rng, Wall};

use crate::callee::Callee;
use crate::caller::{Caller, Plan};
use crate::mutant::{Mutant, Planted};
use crate::net::{Weather, arrivals};
use crate::text::Text;

const PBX: &str = "127.0.0.1:5060";
/// Where Dial's URIs lead, and where the trunk `carrier` is.
const CALLEES: [&str; 2] = ["127.0.0.1:5070", "127.0.0.2:5070"];
const EPOCH: u16 = 3;

const PLAN: &str = r#"
[[context.callers.exten]]
match = "answer"
steps = ["Ringing()", "Answer()", "Wait(86400)"]
[[context.callers.exten]]
match = "busy"
steps = ["Busy()"]
[[context.callers.exten]]
match = "bridge"
steps = ["Dial(sip:service@127.0.0.1:5070,12)"]
[[context.callers.exten]]
match = "carrier"
steps = ["Dial(SIP/carrier/1234,12)"]
[[context.callers.exten]]
match = "both"
steps = ["Dial(sip:one@127.0.0.1:5070&sip:two@127.0.0.1:5070,12)"]
[[context.callers.exten]]
match = "turns"
[[context.callers.exten.steps]]
app = "Dial"
targets = ["sip:one@127.0.0.1:5070", "SIP/carrier/2"]
mode = "sequential"
ring_timeout_s = 6
"#;

/// How one run is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) seed: u64,
    pub(crate) shards: u8,
    pub(crate) calls: usize,
    pub(crate) weather: Weather,
    pub(crate) mutant: Option<Mutant>,
    /// Percent of messages between shards that find a full queue.
    pub(crate) hops_lost: u64,
}

struct Delivery {
    from: SocketAddr,
    to: SocketAddr,
    text: String,
}

/// Ordered by arrival, then by sending: the heap is a function of its inputs.
struct Flying(Mono, u64, Delivery);

impl PartialEq for Flying {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Flying {}
impl PartialOrd for Flying {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Flying {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

pub(crate) struct World {
    pub(crate) callers: Vec<Caller>,
    pub(crate) callees: Vec<Callee>,
    pub(crate) records: Vec<Record>,
    pub(crate) shards: Vec<Shard>,
    /// What a shard said that must not be said in a world of well-formed messages.
    pub(crate) odd_facts: Vec<String>,
    router: Router,
    flying: BinaryHeap<Reverse<Flying>>,
    starts: Vec<(Mono, usize)>,
    setting: Setting,
    planted: Planted,
    rng: Rng,
    sent: u64,
    now: Mono,
    /// `SIM_TRACE` is set: every message is printed.
    is_traced: bool,
}

impl World {
    pub(crate) fn new(setting: Setting) -> Self {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&setting.seed.to_le_bytes());
        let mut rng = Rng::new(seed);
        let (mint_key, route_key) = (rng.hash_key(), rng.hash_key());
        let plan = dialplan::parse(&[("sim.toml", PLAN)]).unwrap_or_else(|e| panic!("{e}"));
        let (plan, directory) = (Arc::new(plan), Arc::new(directory(setting.shards)));
        let shared = pbx_shared::shared(100, Duration::from_secs(60));
        let shards = (0..setting.shards).map(|shard| {
            let mut seed = seed;
            seed[31] = shard + 1;
            let plan = Arc::clone(&plan);
            let keys = (mint_key, [9; 32]);
            let parts = (plan, Arc::clone(&directory), shared.clone());
            Shard::new(&config(shard, setting.shards, seed, keys, parts))
        });
        let shards = shards.collect();
        let callers: Vec<_> =
            (0..setting.calls).map(|id| Caller::new(id, Plan::draw(&mut rng))).collect();
        let starts = (0..setting.calls)
            .map(|id| (Mono::ZERO + Duration::from_millis(1000 + rng.below(20_000)), id))
            .collect();
        Self {
            callers,
            callees: Vec::new(),
            records: Vec::new(),
            shards,
            odd_facts: Vec::new(),
            router: Router::new(EPOCH, setting.shards, mint_key, route_key),
            flying: BinaryHeap::new(),
            starts,
            setting,
            planted: Planted::new(setting.mutant),
            rng,
            sent: 0,
            now: Mono::ZERO,
            is_traced: std::env::var_os("SIM_TRACE").is_some(),
        }
    }

    /// Runs until nothing is left to happen, or `end`.
    pub(crate) fn run(&mut self, end: Duration) {
        let end = Mono::ZERO + end;
        while let Some(at) = self.next().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.step();
        }
        self.now = end;
    }

    fn next(&self) -> Option<Mono> {
        let flying = self.flying.peek().map(|Reverse(flying)| flying.0);
        let starts = self.starts.iter().map(|(at, _)| *at).min();
        let shards = self.shards.iter().filter_map(Shard::next_timeout).min();
        let callers = self.callers.iter().filter_map(Caller::next_timeout).min();
        let callees = self.callees.iter().filter_map(Callee::next_timeout).min();
        [flying, starts, shards, callers, callees].into_iter().flatten().min()
    }

    fn step(&mut self) {
        let now = self.now;
        while let Some(Reverse(flying)) = self.flying.peek() {
            if flying.0 > now {
                break;
            }
            let Some(Reverse(Flying(_, _, delivery))) = self.flying.pop() else { return };
            self.deliver(delivery);
        }
        let due: Vec<_> =
            self.starts.iter().filter(|(at, _)| *at <= now).map(|(_, id)| *id).collect();
        self.starts.retain(|(at, _)| *at > now);
        for id in due {
            self.act_caller(id, Caller::start);
        }
        for id in 0..self.callers.len() {
            if self.callers[id].next_timeout().is_some_and(|at| at <= now) {
                self.act_caller(id, Caller::fire);
            }
        }
        for id in 0..self.callees.len() {
            if self.callees[id].next_timeout().is_some_and(|at| at <= now) {
                self.act_callee(id, Callee::fire);
            }
        }
        for shard in 0..self.shards.len() {
            if self.shards[shard].next_timeout().is_some_and(|at| at <= now) {
                self.act_shard(shard, Shard::fire);
            }
        }
    }

    fn act_caller(&mut self, id: usize, act: impl FnOnce(&mut Caller, Mono, &mut Vec<String>)) {
        let mut out = Vec::new();
        act(&mut self.callers[id], self.now, &mut out);
        let from = address(&self.callers[id].local);
        out.into_iter().for_each(|text| self.send(from, address(PBX), &text));
    }

    fn act_callee(&mut self, id: usize, act: impl FnOnce(&mut Callee, Mono, &mut Vec<String>)) {
        let mut out = Vec::new();
        act(&mut self.callees[id], self.now, &mut out);
        let from = address(&self.callees[id].local);
        out.into_iter().for_each(|text| self.send(from, address(PBX), &text));
    }

    /// A turn of a shard, and of those that it has messages for.
    fn act_shard(&mut self, id: usize, act: impl FnOnce(&mut Shard, Now, &mut ShardOut)) {
        let mut hops = VecDeque::from(self.turn(id, act));
        let mut hops: VecDeque<_> = hops.drain(..).map(|(to, message)| (id, to, message)).collect();
        while let Some((from, to, message)) = hops.pop_front() {
            let is_lost = self.rng.below(100) < self.setting.hops_lost;
            let at = if is_lost { from } else { usize::from(to) };
            let more = self.turn(at, |shard, now, out| match is_lost {
                true => shard.undelivered(now, to, message, out),
                false => shard.message(now, message, out),
            });
            hops.extend(more.into_iter().map(|(to, message)| (at, to, message)));
        }
    }

    fn turn(
        &mut self,
        id: usize,
        act: impl FnOnce(&mut Shard, Now, &mut ShardOut),
    ) -> Vec<(u8, ShardMessage)> {
        let now = now(self.now);
        let mut out = ShardOut::new();
        act(&mut self.shards[id], now, &mut out);
        self.shards[id].flush(now, &mut out);
        for (path, bytes) in out.net.sends() {
            let text = String::from_utf8(bytes.to_vec()).expect("the PBX sends UTF-8 here");
            for text in self.planted.outgoing(text) {
                self.send(path.local, path.remote, &text);
            }
        }
        for record in out.records.drain(..) {
            self.records.extend(self.planted.record(record));
        }
        for fact in &out.facts {
            if !matches!(fact, Fact::Call(_)) {
                self.odd_facts.push(format!("{fact:?}"));
            }
        }
        out.hops
    }

    fn send(&mut self, from: SocketAddr, to: SocketAddr, text: &str) {
        let arrivals = arrivals(&mut self.rng, self.setting.weather, self.now);
        if self.is_traced {
            trace(self.now, from, to, text, &arrivals);
        }
        for at in arrivals {
            self.sent += 1;
            let delivery = Delivery { from, to, text: text.to_owned() };
            self.flying.push(Reverse(Flying(at, self.sent, delivery)));
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { from, to, text } = delivery;
        if to == address(PBX) {
            if !self.planted.is_seen(&text) {
                return;
            }
            let shard = usize::from(self.router.route(text.as_bytes()));
            let path = Path { transport: Transport::Udp, local: to, remote: from };
            self.act_shard(shard, |shard, now, out| {
                let datagram = Datagram { bytes: text.as_bytes(), path, received_at: now.mono };
                shard.receive(now, datagram, out);
            });
        } else if CALLEES.map(address).contains(&to) {
            self.deliver_to_callee(to, &text);
        } else if let Some(id) = self.callers.iter().position(|c| address(&c.local) == to) {
            self.act_caller(id, |caller, now, out| caller.receive(text.as_bytes(), now, out));
        } else {
            self.odd_facts.push(format!("to nobody at {to}: {text}"));
        }
    }

    fn deliver_to_callee(&mut self, to: SocketAddr, text: &str) {
        let text = Text::read(text.as_bytes());
        let call_id = text.header("Call-ID");
        if let Some(id) = self.callees.iter().position(|callee| callee.call_id == call_id) {
            self.act_callee(id, |callee, now, out| callee.receive(&text, now, out));
        } else if text.status().is_none() && text.method() == "INVITE" {
            let mut out = Vec::new();
            let local = to.to_string();
            let callee = Callee::new(text, &local, &mut self.rng, self.now, &mut out);
            self.callees.push(callee);
            out.into_iter().for_each(|text| self.send(to, address(PBX), &text));
        }
        // Anything else overtook the INVITE, which was lost: it will be repeated.
    }
}

/// One line for a message: when, between whom, what, and when it arrives, if it does.
pub(crate) fn trace(now: Mono, from: SocketAddr, to: SocketAddr, text: &str, arrivals: &[Mono]) {
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    let start = text.lines().next().unwrap_or_default();
    let arrivals: Vec<u64> = arrivals.iter().map(|at| at.as_millis()).collect();
    let (call, cseq) = (line("Call-ID:"), line("CSeq:"));
    println!("{:>7} {from} > {to} {start} | {cseq} | {call} | {arrivals:?}", now.as_millis());
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Civil time runs along, from some day in 2026.
pub(crate) fn now(mono: Mono) -> Now {
    let micros = 1_790_000_000_000_000 + (mono.as_nanos() / 1_000) as i64;
    Now { mono, wall: Wall::from_micros(micros), utc_offset_s: 3_600 }
}

fn directory(shards: u8) -> Directory {
    let trunk = |name: &str, source: &str, peer: Option<&str>, owner| Trunk {
        sources: vec![Prefix::host(source.parse().expect("an address"))],
        peers: peer.map(|peer| Hop::Address(address(peer), Transport::Udp)).into_iter().collect(),
        owner,
        ..Trunk::named(Arc::new(Endpoint {
            channel: format!("SIP/{name}").into(),
            name: name.into(),
            context: "callers".into(),
        }))
    };
    // With several shards all legs of the carrier live on the last one: most are remote legs.
    let owner = (shards > 1).then(|| shards - 1);
    let trunks = vec![
        trunk("callers", "127.0.0.1", None, None),
        trunk("carrier", "127.0.0.2", Some(CALLEES[1]), owner),
    ];
    Directory::new(DirectorySpec { trunks, ..DirectorySpec::default() })
}

fn config(
    shard: u8,
    shards: u8,
    seed: [u8; 32],
    (mint_key, nonce_key): (HashKey, [u8; 32]),
    (plan, directory, shared): (Arc<dialplan::Plan>, Arc<Directory>, Shared),
) -> ShardConfig {
    ShardConfig {
        shard,
        shards,
        epoch: EPOCH,
        seed,
        mint_key,
        start: Mono::ZERO,
        limits: Limits {
            calls_max: 256,
            calls_soft_max: 250,
            legs_max: 1024,
            tombstones_max: 8192,
            // Nothing waits here: a held datagram is late on the network, not in the socket.
            ..Limits::default()
        },
        timing: sip::transaction::Timing::default(),
        agent: "sim".into(),
        system: "sim".into(),
        locals: Locals { v4: Some(address(PBX)), ..Locals::default() },
        nonce_key,
        directory,
        shared,
        plan,
    }
}
