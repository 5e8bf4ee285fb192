//! A client table against a server table over a network that loses, doubles and reorders, on
//! virtual time. Whatever happens: each request ends exactly once, no repeat is taken for a new
//! request, and in the end nothing is left.

use super::rig::{LIMITS, Rig, answer, parse, text};
use super::*;
use crate::path::Transport;
use std::collections::BTreeMap;
use std::time::Duration;
use turn::{Mono, Rng};

const CALLS: u32 = 12;
/// How long after the last outcome everything must be gone: Timer H and then Timer I.
const LINGERS_MAX: Duration = Duration::from_secs(40);
/// The kind of the server user's timer that repeats a 2xx (§13.3.1.4).
const REPEAT_2XX: u8 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Story {
    Accepted,
    Refused,
    Cancelled,
    Asked,
}

/// How bad the network is, in percent and ms.
#[derive(Clone, Copy)]
struct Network {
    transport: Transport,
    loss: u64,
    doubles: u64,
    /// At least, and less than.
    delay: (u64, u64),
}

const GOOD: Network = Network { transport: Transport::Udp, loss: 0, doubles: 0, delay: (1, 40) };
const BAD: Network = Network { transport: Transport::Udp, loss: 15, doubles: 10, delay: (1, 700) };
const STREAM: Network = Network { transport: Transport::Tcp, loss: 0, doubles: 0, delay: (20, 21) };

#[derive(Debug)]
enum Due {
    Start(u32),
    ToServer(String),
    ToClient(String),
    Cancel(u32),
    /// The server's user responds with this status.
    Respond(u32, u16),
}

/// What the client's user knows of one of its requests, and the server's user of the same.
#[derive(Debug, Default)]
struct Call {
    client: Option<ClientId>,
    finals: Vec<u16>,
    timeouts: u32,
    cancelling: bool,
    cancel_ends: u32,
    server: Option<(ServerId, String)>,
    is_answered: bool,
    is_acked: bool,
    accepted: Option<(String, Duration)>,
}

struct World {
    client: Rig,
    server: Rig,
    network: Network,
    rng: Rng,
    queue: BTreeMap<(Mono, u64), Due>,
    serial: u64,
    now: Mono,
    calls: Vec<Call>,
    trace: Vec<(u64, String)>,
    context: String,
}

fn story(call: u32) -> Story {
    [Story::Accepted, Story::Refused, Story::Cancelled, Story::Asked][call as usize % 4]
}

impl World {
    fn new(seed: u8, network: Network) -> Self {
        let mut world = Self {
            client: Rig::with(network.transport, LIMITS),
            server: Rig::with(network.transport, LIMITS),
            network,
            rng: Rng::new([seed; 32]),
            queue: BTreeMap::new(),
            serial: 0,
            now: Mono::ZERO,
            calls: (0..CALLS).map(|_| Call::default()).collect(),
            trace: Vec::new(),
            context: format!("seed {seed}"),
        };
        std::mem::swap(&mut world.server.path.local, &mut world.server.path.remote);
        for call in 0..CALLS {
            let after = world.ms((0, 2000));
            world.later(after, Due::Start(call));
        }
        world
    }

    fn ms(&mut self, (start, end): (u64, u64)) -> Duration {
        Duration::from_millis(start + self.rng.below(end - start))
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    fn later(&mut self, after: Duration, due: Due) {
        self.serial += 1;
        self.queue.insert((self.now + after, self.serial), due);
    }

    /// Runs until all has ended and has had time to fade.
    fn run(&mut self) {
        let mut end = None;
        for _ in 0..100_000 {
            let times = [
                self.queue.keys().next().map(|(at, _)| *at),
                self.client.timers.next_timeout(),
                self.server.timers.next_timeout(),
            ];
            let Some(at) = times.into_iter().flatten().min() else { return };
            if end.is_none() && self.calls.iter().all(Call::has_ended) {
                end = Some(self.now + LINGERS_MAX);
            }
            if end.is_some_and(|end| at > end) {
                return;
            }
            self.now = self.now.max(at);
            (self.client.now, self.server.now) = (self.now, self.now);
            self.fire();
            while let Some(entry) = self.queue.first_entry().filter(|e| e.key().0 <= self.now) {
                let due = entry.remove();
                self.act(due);
                self.pump();
            }
        }
        panic!("{}: it never ends", self.context);
    }

    fn fire(&mut self) {
        let mut due = Vec::new();
        self.client.timers.fire(self.now, &mut due);
        for key in due.drain(..) {
            let (table, mut turn) = self.client.turn();
            match table.on_timer(&mut turn, key) {
                Some(Outcome::TimedOut(_, user)) if user >= CALLS => {
                    self.calls[(user - CALLS) as usize].cancel_ends += 1;
                }
                Some(Outcome::TimedOut(_, user)) => self.calls[user as usize].timeouts += 1,
                Some(other) => panic!("{}: {other:?}", self.context),
                None => {}
            }
        }
        self.server.timers.fire(self.now, &mut due);
        for key in due {
            if let TimerKey::User(REPEAT_2XX, slot) = key {
                self.repeat_2xx(slot);
            } else {
                let (table, mut turn) = self.server.turn();
                let outcome = table.on_timer(&mut turn, key);
                assert!(
                    matches!(outcome, None | Some(Outcome::AckMissing(..))),
                    "{}: {outcome:?}",
                    self.context
                );
            }
        }
        self.pump();
    }

    fn act(&mut self, due: Due) {
        self.trace.push((self.now.as_nanos(), format!("{due:?}")));
        match due {
            Due::Start(call) => self.start(call),
            Due::ToServer(text) => self.on_server(&text),
            Due::ToClient(text) => self.on_client(&text),
            Due::Cancel(call) => {
                let id = self.calls[call as usize].client.expect("it has been started");
                if self.client.cancel(id, CALLS + call).is_some() {
                    self.calls[call as usize].cancelling = true;
                }
            }
            Due::Respond(call, status) => self.respond(call, status),
        }
    }

    /// Gives what both sides have sent to the network.
    fn pump(&mut self) {
        for text in self.client.sent() {
            self.carry(|| Due::ToServer(text.clone()));
        }
        for text in self.server.sent() {
            self.carry(|| Due::ToClient(text.clone()));
        }
    }

    fn carry(&mut self, due: impl Fn() -> Due) {
        let copies = if self.chance(self.network.doubles) { 2 } else { 1 };
        for _ in 0..copies {
            if !self.chance(self.network.loss) {
                let delay = self.ms(self.network.delay);
                self.later(delay, due());
            }
        }
    }

    fn start(&mut self, call: u32) {
        let (kind, method) = match story(call) {
            Story::Accepted | Story::Refused | Story::Cancelled => (ClientKind::Invite, "INVITE"),
            Story::Asked => (ClientKind::NonInvite, "OPTIONS"),
        };
        let path = self.client.path;
        let (table, mut turn) = self.client.turn();
        let id = table.request(&mut turn, kind, path, call, |buffer, branch| {
            let branch = text(branch);
            buffer.extend_from_slice(request(method, path, &branch, call).as_bytes());
        });
        self.calls[call as usize].client = id;
    }

    fn on_client(&mut self, text: &str) {
        let inbound = self.client.receive(text);
        let (call, status) = number_and_status(text);
        match inbound {
            Inbound::Response { user, fin, .. } if user >= CALLS => {
                assert!(fin, "{}", self.context);
                self.calls[(user - CALLS) as usize].cancel_ends += 1;
            }
            Inbound::Response { user, fin, .. } => {
                assert_eq!(user, call, "{}", self.context);
                if fin {
                    self.calls[call as usize].finals.push(status);
                } else if story(call) == Story::Cancelled {
                    let after = self.ms((0, 3000));
                    self.later(after, Due::Cancel(call));
                }
            }
            Inbound::StrayResponse | Inbound::Absorbed => {}
            Inbound::Dropped
            | Inbound::Request(_)
            | Inbound::Full
            | Inbound::Ack
            | Inbound::Cancel { .. } => panic!("{}: {inbound:?}", self.context),
        }
        let is_2xx = (200..300).contains(&status) && text.contains(" INVITE\r\n");
        if is_2xx && inbound != Inbound::Absorbed {
            let branch = rig::text(&self.client.table.loose_branch());
            let path = self.client.path;
            let ack = request("ACK", path, &branch, call)
                .replace("<sip:bob@b.example>", "<sip:bob@b.example>;tag=b2");
            self.client.out.send(path, ack.as_bytes());
        }
    }

    fn on_server(&mut self, text: &str) {
        let inbound = self.server.receive(text);
        let (call, _) = number_and_status(text);
        match inbound {
            Inbound::Request(id) => self.on_request(call, id, text),
            Inbound::Cancel { cancel, target } => {
                let status = match target {
                    CancelTarget::Open(id, user) => {
                        assert_eq!(user, call, "{}", self.context);
                        let known = self.calls[call as usize].server.as_ref().map(|s| s.0);
                        assert_eq!(known, Some(id), "{}", self.context);
                        self.respond(call, 487);
                        200
                    }
                    CancelTarget::Answered => 200,
                    CancelTarget::Unknown => panic!("{}: {text}", self.context),
                };
                self.server.respond(cancel, text, status);
            }
            Inbound::Ack => self.calls[call as usize].is_acked = true,
            Inbound::Absorbed => {}
            Inbound::Dropped
            | Inbound::Full
            | Inbound::Response { .. }
            | Inbound::StrayResponse => panic!("{}: {inbound:?}", self.context),
        }
    }

    fn on_request(&mut self, call: u32, id: ServerId, text: &str) {
        let state = &mut self.calls[call as usize];
        assert!(state.server.is_none(), "{}: a repeat became a request: {text}", self.context);
        state.server = Some((id, text.to_owned()));
        self.server.table.set_user(id, call);
        let rings_after = self.ms((0, 1500));
        let answers_after = self.ms((1500, 6000));
        let (ringing, status) = match story(call) {
            Story::Accepted => (180, 200),
            Story::Refused => (180, 486),
            Story::Cancelled => (180, 480),
            Story::Asked => (183, 200),
        };
        if self.chance(60) || story(call) == Story::Cancelled {
            self.later(rings_after, Due::Respond(call, ringing));
        }
        self.later(answers_after, Due::Respond(call, status));
    }

    fn respond(&mut self, call: u32, status: u16) {
        let state = &mut self.calls[call as usize];
        let Some((id, text)) = state.server.clone() else { return };
        if state.is_answered {
            assert!(!self.server.respond(id, &text, status), "{}", self.context);
            return;
        }
        state.is_answered = status >= 200;
        assert!(self.server.respond(id, &text, status), "{}", self.context);
        if (200..300).contains(&status) && story(call) != Story::Asked {
            let t1 = self.server.table.timing.t1;
            self.calls[call as usize].accepted = Some((answer(&text, status), t1));
            let slot = Slot { index: call, generation: 0 };
            self.server.timers.arm(self.now + t1, TimerKey::User(REPEAT_2XX, slot));
        }
    }

    /// What a UAS core does until the ACK comes (§13.3.1.4).
    fn repeat_2xx(&mut self, slot: Slot) {
        let timing = self.server.table.timing;
        let state = &mut self.calls[slot.index as usize];
        let Some((bytes, interval)) = &mut state.accepted else { return };
        if state.is_acked || *interval > timing.timeout() {
            return;
        }
        self.server.out.send(self.server.path, bytes.as_bytes());
        *interval = (*interval * 2).min(timing.t2);
        let next = self.now + *interval;
        self.server.timers.arm(next, TimerKey::User(REPEAT_2XX, slot));
    }

    fn assert_all_ended_once(&self) {
        for (number, call) in self.calls.iter().enumerate() {
            let context = format!("{}, call {number}: {call:?}", self.context);
            assert_eq!(call.finals.len() + call.timeouts as usize, 1, "{context}");
            assert_eq!(call.cancel_ends, u32::from(call.cancelling), "{context}");
        }
        self.client.assert_empty(&self.context);
        self.server.assert_empty(&self.context);
    }
}

impl Call {
    fn has_ended(&self) -> bool {
        self.finals.len() as u32 + self.timeouts > 0
            && self.cancel_ends >= u32::from(self.cancelling)
    }
}

fn request(method: &str, path: Path, branch: &str, call: u32) -> String {
    format!(
        "{method} sip:bob@b.example SIP/2.0\r\n\
         Via: SIP/2.0/{} {};branch={branch};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@a.example>;tag=a{call}\r\nTo: <sip:bob@b.example>\r\n\
         Call-ID: {call}@a.example\r\nCSeq: 314 {method}\r\nContent-Length: 0\r\n\r\n",
        path.transport.as_via(),
        path.local
    )
}

fn number_and_status(text: &str) -> (u32, u16) {
    let mut index = Index::new();
    let message = parse(&mut index, text);
    let call_id = std::str::from_utf8(message.call_id()).unwrap();
    let number = call_id.split('@').next().unwrap().parse().unwrap();
    (number, message.status().unwrap_or(0))
}

#[test]
fn on_a_good_network_each_story_ends_as_it_must() {
    for seed in 0..20 {
        let mut world = World::new(seed, GOOD);
        world.run();
        world.assert_all_ended_once();
        for (number, call) in (0..).zip(&world.calls) {
            let wanted: &[u16] = match story(number) {
                Story::Accepted | Story::Asked => &[200],
                Story::Refused => &[486],
                Story::Cancelled => &[487, 480], // a late CANCEL changes nothing
            };
            assert!(wanted.contains(&call.finals[0]), "seed {seed}: {call:?}");
            assert_eq!(call.is_acked, story(number) == Story::Accepted, "seed {seed}: {call:?}");
        }
    }
}

#[test]
fn on_a_bad_network_each_request_ends_once_and_nothing_is_left() {
    let (mut requests, mut timeouts, mut unacked, mut repeats) = (0, 0, 0, 0);
    for seed in 0..100 {
        let mut world = World::new(seed, BAD);
        world.run();
        world.assert_all_ended_once();
        for call in &world.calls {
            requests += 1;
            timeouts += call.timeouts;
            unacked += u32::from(call.accepted.is_some() && !call.is_acked);
        }
        repeats += world.client.table.counts().requests_repeated;
        repeats += world.server.table.counts().responses_repeated;
    }
    assert_eq!(requests, 1200);
    assert!(repeats > 1000, "the network was not bad: {repeats} repeats");
    // All copies of a message can get lost, but hardly ever do.
    assert!(timeouts + unacked < 12, "{timeouts} timed out, {unacked} without ACK");
}

#[test]
fn on_a_stream_nothing_is_sent_twice() {
    for seed in 0..20 {
        let mut world = World::new(seed, STREAM);
        world.run();
        world.assert_all_ended_once();
        assert_eq!(world.client.table.counts().requests_repeated, 0, "seed {seed}");
        assert_eq!(world.server.table.counts().responses_repeated, 0, "seed {seed}");
    }
}

#[test]
fn one_seed_gives_one_run() {
    let run = || {
        let mut world = World::new(7, BAD);
        world.run();
        world.trace
    };
    assert_eq!(run(), run());
}
