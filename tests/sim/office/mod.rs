//! An office in the simulation: phones that register and call each other, over datagrams and over
//! connections that break, while the configuration is reloaded and the program is killed and
//! started again with nothing but what it has written.

mod checks;
mod desk;
mod mutant;
mod open;
mod phone;
mod process;
mod registration;
mod talk;
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use pbx_core::{Datagram, Fact, Refused, Shard, ShardMessage, ShardOut};
use sip::path::{Path, Transport};
use turn::{Mono, Now, Rng};

use crate::net::{Weather, arrivals};
use crate::text::Text;
use crate::world::{address, now, trace};
use desk::Turn;
use mutant::{Journal, Mutant};
use phone::Phone;
use process::{FIRST_EPOCH, PBX, Process, accounts, configuration};
use talk::Talk;

/// Accounts `100` to `108`: each configuration knows all but one.
const ACCOUNTS: usize = 9;
/// The first few accounts have two phones.
const PHONES: usize = 12;
/// How often the table is compared with what the phones know.
const AUDIT: Duration = Duration::from_secs(5);
/// The longest that a datagram is on its way.
const ON_ITS_WAY: Duration = Duration::from_millis(450);

/// How one run is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) seed: u64,
    /// At the beginning; a start may have fewer.
    pub(crate) shards: u8,
    pub(crate) weather: Weather,
    pub(crate) mutant: Option<Mutant>,
}

/// What happens beside the phones' doings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Reload,
    /// At once, or in the middle of the next turn that wants to send something.
    Kill {
        in_turn: bool,
    },
    Start,
    /// The connection of a phone breaks, if it has one.
    Break(usize),
    Audit,
}

/// What is on its way.
enum Parcel {
    Message {
        path: Path,
        is_to_pbx: bool,
        text: String,
    },
    /// Back to the shard that could not send it.
    Unsent {
        epoch: u16,
        shard: usize,
        text: String,
    },
    /// A phone notices that its connection is gone, or was never made.
    Closed {
        phone: usize,
        connection: Option<SocketAddr>,
    },
}

/// Ordered by arrival, then by sending.
struct Flying(Mono, u64, Parcel);

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

/// What a run has met, so that a test can say that the seeds reach what they are there for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    pub(crate) kills: u32,
    pub(crate) kills_in_turn: u32,
    pub(crate) calls_killed: u32,
    pub(crate) bindings_restored: u32,
    pub(crate) reloads: u32,
    pub(crate) calls_reloaded: u32,
    pub(crate) broken: u32,
    pub(crate) unsent: u32,
}

impl Met {
    pub(crate) fn add(&mut self, more: Self) {
        self.kills += more.kills;
        self.kills_in_turn += more.kills_in_turn;
        self.calls_killed += more.calls_killed;
        self.bindings_restored += more.bindings_restored;
        self.reloads += more.reloads;
        self.calls_reloaded += more.calls_reloaded;
        self.broken += more.broken;
        self.unsent += more.unsent;
    }
}

pub(crate) struct Office {
    pub(crate) phones: Vec<Phone>,
    pub(crate) journal: Journal,
    pub(crate) faults: Vec<String>,
    pub(crate) met: Met,
    /// Calls that went on elsewhere, by the epoch of the program.
    forwards: BTreeMap<u16, usize>,
    /// `None` between a kill and the start after it.
    process: Option<Process>,
    epoch: u16,
    /// What must be there again after the start.
    before: Vec<String>,
    names: Vec<String>,
    is_second: bool,
    /// It is killed in the middle of the next turn that sends.
    is_dying: bool,
    killed_at: Option<Mono>,
    started_at: Mono,
    events: Vec<(Mono, Event)>,
    flying: BinaryHeap<Reverse<Flying>>,
    /// Near ends of the phones' connections that are open.
    connections: BTreeSet<SocketAddr>,
    /// When the last message of a connection arrives: the next one is not earlier.
    arrived: BTreeMap<(SocketAddr, bool), Mono>,
    ports: u16,
    setting: Setting,
    rng: Rng,
    sent: u64,
    turns: u64,
    now: Mono,
    is_traced: bool,
}

impl Office {
    pub(crate) fn new(setting: Setting) -> Self {
        let mut seed = [1; 32];
        seed[..8].copy_from_slice(&setting.seed.to_le_bytes());
        let mut rng = Rng::new(seed);
        let names: Vec<String> = (0..ACCOUNTS).map(|at| (100 + at).to_string()).collect();
        let phones = (0..PHONES).map(|at| Phone::new(at, &names, &mut rng)).collect();
        let journal = Journal::new(setting.mutant);
        let process = Process::start(
            (FIRST_EPOCH, setting.shards, 0),
            configuration(false, &names),
            &journal,
            now(Mono::ZERO),
            &mut rng,
        );
        let events = events(&mut rng);
        Self {
            phones,
            journal,
            faults: Vec::new(),
            met: Met::default(),
            forwards: BTreeMap::new(),
            process: Some(process),
            epoch: FIRST_EPOCH,
            before: Vec::new(),
            names,
            is_second: false,
            is_dying: false,
            killed_at: None,
            started_at: Mono::ZERO,
            events,
            flying: BinaryHeap::new(),
            connections: BTreeSet::new(),
            arrived: BTreeMap::new(),
            ports: 20_000,
            setting,
            rng,
            sent: 0,
            turns: 0,
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
        let event = self.events.first().map(|(at, _)| *at);
        let shards = self.process.iter().flat_map(|process| &process.shards);
        let shards = shards.filter_map(Shard::next_timeout).min();
        let phones = self.phones.iter().filter_map(Phone::next_timeout).min();
        [flying, event, shards, phones].into_iter().flatten().min()
    }

    fn step(&mut self) {
        let now = self.now;
        while let Some(Reverse(flying)) = self.flying.pop() {
            if flying.0 > now {
                self.flying.push(Reverse(flying));
                break;
            }
            self.deliver(flying.2);
        }
        while self.events.first().is_some_and(|(at, _)| *at <= now) {
            let (_, event) = self.events.remove(0);
            self.on_event(event);
        }
        for id in 0..self.phones.len() {
            if self.phones[id].next_timeout().is_some_and(|at| at <= now) {
                self.act_phone(id, Phone::fire);
            }
        }
        for id in 0..usize::from(self.setting.shards) {
            let shard = self.process.as_ref().and_then(|process| process.shards.get(id));
            if shard.and_then(Shard::next_timeout).is_some_and(|at| at <= now) {
                self.act_shard(id, Shard::fire);
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        if self.is_traced {
            println!("{:>7} {event:?}", self.now.as_millis());
        }
        match event {
            Event::Reload => self.reload(),
            Event::Kill { in_turn: true } => self.is_dying = self.process.is_some(),
            Event::Kill { in_turn: false } => self.kill(),
            Event::Start => self.start(),
            Event::Break(phone) => self.break_connection(phone),
            Event::Audit => checks::audit(self),
        }
    }

    fn reload(&mut self) {
        self.is_second = !self.is_second;
        if let Some(process) = &mut self.process {
            process.reload(configuration(self.is_second, &self.names));
            self.met.reloads += 1;
            let calls: usize = process.shards.iter().map(Shard::calls).sum();
            self.met.calls_reloaded += calls as u32;
        }
    }

    /// Ends the process as `kill -9` does.
    fn kill(&mut self) {
        self.is_dying = false;
        let Some(process) = self.process.take() else { return };
        self.met.kills += 1;
        self.met.calls_killed += process.shards.iter().map(Shard::calls).sum::<usize>() as u32;
        self.before = process.state(now(self.now));
        self.journal.on_kill(self.epoch);
        self.killed_at = Some(self.now);
        for phone in &mut self.phones {
            phone.registration.on_killed();
            let running = phone.talks.iter_mut().filter(|talk| !talk.is_over());
            running.for_each(|talk| talk.is_excused = true);
        }
        for phone in 0..self.phones.len() {
            self.break_connection(phone);
        }
        let pause = Duration::from_millis(200 + self.rng.below(4_000));
        let at = self.now + pause;
        let place = self.events.partition_point(|(before, _)| *before <= at);
        self.events.insert(place, (at, Event::Start));
    }

    fn start(&mut self) {
        self.epoch += 1;
        // An operator may have changed that, too.
        let shards = 1 + self.rng.below(u64::from(self.setting.shards)) as u8;
        let process = Process::start(
            (self.epoch, shards, self.turns),
            configuration(self.is_second, &self.names),
            &self.journal,
            now(self.now),
            &mut self.rng,
        );
        self.started_at = self.now;
        self.process = Some(process);
        checks::check_restored(self);
        checks::audit(self);
    }

    fn break_connection(&mut self, id: usize) {
        let Some(connection) = self.phones[id].connection else { return };
        if self.connections.remove(&connection) {
            self.met.broken += 1;
            let later = self.now + Duration::from_millis(self.rng.below(2_000));
            self.fly(later, Parcel::Closed { phone: id, connection: Some(connection) });
        }
    }

    fn act_phone(&mut self, id: usize, act: impl FnOnce(&mut Phone, &mut Turn<'_>)) {
        let known = self.phones[id].talks.len();
        let mut turn = Turn { now: self.now, rng: &mut self.rng, out: Vec::new() };
        act(&mut self.phones[id], &mut turn);
        let out = turn.out;
        // What a killed program had sent still arrives.
        let was_killed = self.killed_at.is_some_and(|at| self.now < at + ON_ITS_WAY);
        for talk in &mut self.phones[id].talks[known..] {
            talk.is_excused |= was_killed && !talk.is_caller;
        }
        out.iter().for_each(|text| self.send_of_phone(id, text));
    }

    fn send_of_phone(&mut self, id: usize, text: &str) {
        let local = address(PBX);
        if !self.phones[id].desk.is_stream {
            let remote = address(&self.phones[id].desk.host);
            let path = Path { transport: Transport::Udp, local, remote };
            self.send(path, true, text);
            return;
        }
        let is_up = self.process.is_some();
        if self.phones[id].connection.is_none() && is_up {
            self.ports += 1;
            let connection = SocketAddr::new(address(&self.phones[id].desk.host).ip(), self.ports);
            self.phones[id].connection = Some(connection);
            self.connections.insert(connection);
        }
        let connection = self.phones[id].connection;
        match connection.filter(|connection| self.connections.contains(connection)) {
            Some(remote) => {
                self.send(Path { transport: Transport::Tcp, local, remote }, true, text);
            }
            None => {
                let soon = self.now + Duration::from_millis(10);
                self.fly(soon, Parcel::Closed { phone: id, connection });
            }
        }
    }

    /// A turn of a shard, and of those that it has messages for.
    fn act_shard(&mut self, id: usize, act: impl FnOnce(&mut Shard, Now, &mut ShardOut)) {
        let hops = self.turn(id, act);
        let mut hops: VecDeque<_> = hops.into();
        while let Some((to, message)) = hops.pop_front() {
            let to = usize::from(to);
            hops.extend(self.turn(to, |shard, now, out| shard.message(now, message, out)));
        }
    }

    fn turn(
        &mut self,
        id: usize,
        act: impl FnOnce(&mut Shard, Now, &mut ShardOut),
    ) -> Vec<(u8, ShardMessage)> {
        let now = now(self.now);
        let Some(process) = &mut self.process else { return Vec::new() };
        let mut out = ShardOut::new();
        act(&mut process.shards[id], now, &mut out);
        process.shards[id].flush(now, &mut out);
        self.turns += 1;
        let has_something = !out.stored.is_empty() || !out.records.is_empty();
        let is_last = self.is_dying && has_something && !out.net.is_empty();
        let stored = std::mem::take(&mut out.stored);
        let records = std::mem::take(&mut out.records);
        self.journal.write((self.turns, id as u8, self.epoch), stored, records, is_last);
        let accounts = accounts(self.is_second, &self.names);
        for fact in &out.facts {
            if matches!(fact, Fact::Forwarded { .. }) {
                *self.forwards.entry(self.epoch).or_default() += 1;
            }
            if !is_usual(fact, &accounts) {
                self.faults.push(format!("{} ms: {fact:?}", self.now.as_millis()));
            }
        }
        // Killed before anything was sent, or just after.
        let is_sent = !is_last
            || self.rng.below(2) == 0
            || self.journal.mutant == Some(Mutant::SentBeforeWritten);
        if is_sent {
            for (path, bytes) in out.net.sends() {
                let text = String::from_utf8(bytes.to_vec()).expect("the PBX sends UTF-8 here");
                self.send_of_shard(id, path, text);
            }
        }
        if is_last {
            self.met.kills_in_turn += 1;
            self.kill();
            return Vec::new();
        }
        out.hops
    }

    fn send_of_shard(&mut self, id: usize, path: Path, text: String) {
        if !self.journal.is_sent(self.epoch, &text) {
            return;
        }
        if path.transport.is_reliable() && !self.connections.contains(&path.remote) {
            self.met.unsent += 1;
            if self.is_traced {
                trace(self.now, path.local, path.remote, &text, &[]);
            }
            let later = self.now + Duration::from_micros(self.rng.below(50_000));
            self.fly(later, Parcel::Unsent { epoch: self.epoch, shard: id, text });
            return;
        }
        self.send(path, false, &text);
    }

    fn send(&mut self, path: Path, is_to_pbx: bool, text: &str) {
        let arrivals = match path.transport.is_reliable() {
            false => arrivals(&mut self.rng, self.setting.weather, self.now),
            true => {
                let at = self.now + Duration::from_micros(500 + self.rng.below(30_000));
                let last = self.arrived.entry((path.remote, is_to_pbx)).or_insert(at);
                *last = at.max(*last);
                vec![*last]
            }
        };
        if arrivals.is_empty() && text.starts_with("SIP/2.0 401 ") {
            self.talk_of(text).into_iter().for_each(|talk| talk.challenges_lost += 1);
        }
        if self.is_traced {
            let (from, to) = match is_to_pbx {
                true => (path.remote, path.local),
                false => (path.local, path.remote),
            };
            trace(self.now, from, to, text, &arrivals);
        }
        for at in arrivals {
            self.fly(at, Parcel::Message { path, is_to_pbx, text: text.to_owned() });
        }
    }

    /// The call of a caller that a message is of.
    fn talk_of(&mut self, text: &str) -> Option<&mut Talk> {
        let text = Text::read(text.as_bytes());
        let mut talks = self.phones.iter_mut().flat_map(|phone| &mut phone.talks);
        talks.find(|talk| talk.is_caller && talk.call_id == text.header("Call-ID"))
    }

    fn fly(&mut self, at: Mono, parcel: Parcel) {
        self.sent += 1;
        self.flying.push(Reverse(Flying(at, self.sent, parcel)));
    }

    fn deliver(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::Message { path, text, .. }
                if path.transport.is_reliable() && !self.connections.contains(&path.remote) =>
            {
                if self.is_traced {
                    println!("{:>7} lost with its connection: {text}", self.now.as_millis());
                }
            }
            Parcel::Message { path, is_to_pbx: true, text } => self.deliver_to_pbx(path, &text),
            Parcel::Message { path, is_to_pbx: false, text } => {
                let is_meant = |phone: &Phone| match path.transport.is_reliable() {
                    true => phone.connection == Some(path.remote),
                    false => address(&phone.desk.host) == path.remote,
                };
                match self.phones.iter().position(is_meant) {
                    Some(id) => self.act_phone(id, |phone, turn| phone.receive(&text, turn)),
                    None => self.faults.push(format!("to nobody at {}: {text}", path.remote)),
                }
            }
            Parcel::Unsent { epoch, shard, text } => {
                if epoch == self.epoch {
                    self.act_shard(shard, |shard, now, out| {
                        shard.on_send_failed(now, text.as_bytes(), out);
                    });
                }
            }
            Parcel::Closed { phone, connection } => {
                if self.phones[phone].connection == connection {
                    self.act_phone(phone, Phone::on_closed);
                }
            }
        }
    }

    fn deliver_to_pbx(&mut self, path: Path, text: &str) {
        let Some(process) = &self.process else { return };
        let shard = process.route(text.as_bytes());
        if text.starts_with("INVITE ") {
            self.talk_of(text).into_iter().for_each(|talk| talk.invites_heard += 1);
        }
        self.act_shard(shard, |shard, now, out| {
            let datagram = Datagram { bytes: text.as_bytes(), path, received_at: now.mono };
            shard.receive(now, datagram, out);
        });
    }
}

/// When the world is hard on the program.
fn events(rng: &mut Rng) -> Vec<(Mono, Event)> {
    let mut events = Vec::new();
    let at = |rng: &mut Rng, from: u64, to: u64| {
        Mono::ZERO + Duration::from_millis(from + rng.below(to - from))
    };
    for _ in 0..1 + rng.below(3) {
        let in_turn = rng.below(2) == 0;
        events.push((at(rng, 10_000, 160_000), Event::Kill { in_turn }));
    }
    for _ in 0..1 + rng.below(3) {
        events.push((at(rng, 10_000, 160_000), Event::Reload));
    }
    for phone in 0..PHONES {
        for _ in 0..rng.below(3) {
            events.push((at(rng, 5_000, 160_000), Event::Break(phone)));
        }
    }
    for turn in 0..80 {
        events.push((Mono::ZERO + AUDIT * turn, Event::Audit));
    }
    events.sort_by_key(|(at, _)| *at);
    events
}

/// What a shard may say in this world. Who is in no account of this configuration is a stranger.
fn is_usual(fact: &Fact, accounts: &[&str]) -> bool {
    if let Fact::Refused { why: Refused::UnknownUser, from, .. } = fact {
        return !accounts.iter().any(|name| name.as_bytes() == &**from);
    }
    matches!(
        fact,
        Fact::Call(_)
            | Fact::Registered { .. }
            | Fact::Unregistered { .. }
            | Fact::NotRegistered { status: 423, .. }
            | Fact::Forwarded { .. }
            | Fact::Unroutable { .. }
    )
}
