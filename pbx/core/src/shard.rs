//! The shard itself: inputs, and the order in which their consequences are dealt with.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use call::{CallLimits, CallOut, CallTimer, Calls, Cause, ChannelView, LegCommand, LegId, Naming};
use dialplan::Plan;
use sip::endpoint::{Endpoint, EndpointConfig, EndpointLimits};
use sip::mint::Minted;
use sip::path::{Outbox, Path, Transport};
use sip::transaction::{Timing, TransactionLimits};
use sip::usage::Events;
use sip::wire::{Framing, Index, peek};
use turn::{HashKey, Mono, Now, NumberMap, Rng, Seed, Slots, Wheel, number_map};

use crate::directory::Directory;
use crate::inbound::Doorman;
use crate::legs::onward::Patience;
use crate::legs::originate::Originations;
use crate::legs::{Leg, Place};
use crate::lines::Lines;
use crate::pings::Pings;
use crate::register::Registrar;
use crate::remote::ShardMessage;
use crate::resolve::{Lookups, Query};
use crate::shared::{Shared, Stored};
use crate::surroundings::Surroundings;
use crate::{Fact, ShardCounts};

/// What an input of a call comes with.
macro_rules! cx {
    ($shard:ident, $now:expr) => {
        call::Cx {
            now: $now,
            out: &mut $shard.call_out,
            world: &$shard.world,
            verbose_wanted: $shard.verbose_wanted,
        }
    };
}
pub(crate) use cx;

/// How much a shard may hold and do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls at a time: the size of the table. Below 2^24.
    pub calls_max: u32,
    /// Calls from which on new ones are refused with 503; leaves the rest for races.
    pub calls_soft_max: u32,
    /// SIP legs at a time, two for a bridged call.
    pub legs_max: u32,
    /// How long a new INVITE may have waited in the socket before it is refused (DESIGN 9).
    pub sojourn_max: Duration,
    /// Finished transactions that are remembered.
    pub tombstones_max: u32,
}

impl Default for Limits {
    /// Room for 60,000 held calls with two legs each, and for 32 s of 20,000 calls a second with
    /// two finished transactions each.
    fn default() -> Self {
        Self {
            calls_max: 65_536,
            calls_soft_max: 64_000,
            legs_max: 131_072,
            sojourn_max: Duration::from_millis(200),
            tombstones_max: 1_400_000,
        }
    }
}

/// Our own addresses for calls that we place, one a family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locals {
    /// For IPv4 peers.
    pub v4: Option<SocketAddr>,
    /// For IPv6 peers.
    pub v6: Option<SocketAddr>,
    /// For IPv4 peers over TCP.
    pub tcp_v4: Option<SocketAddr>,
    /// For IPv6 peers over TCP.
    pub tcp_v6: Option<SocketAddr>,
    /// Whether a request that is too long for a datagram goes over TCP (RFC 3261 18.1.1).
    pub switches: bool,
}

impl Locals {
    /// The way to a peer; `None` when we have no address of its family and transport.
    pub fn path(&self, transport: Transport, remote: SocketAddr) -> Option<Path> {
        let local = match (transport, remote.is_ipv4()) {
            (Transport::Udp, true) => self.v4,
            (Transport::Udp, false) => self.v6,
            (Transport::Tcp, true) => self.tcp_v4,
            (Transport::Tcp, false) => self.tcp_v6,
            (Transport::Tls | Transport::Ws | Transport::Wss, _) => None,
        };
        Some(Path { transport, local: local?, remote })
    }
}

/// What a shard is made of.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// Which shard this is, from 0.
    pub shard: u8,
    /// How many there are.
    pub shards: u8,
    /// Grows with each start of the program.
    pub epoch: u16,
    /// Everything random on this shard comes from it.
    pub seed: Seed,
    /// The key of minted identifiers, the same on all shards.
    pub mint_key: HashKey,
    /// When the clock starts.
    pub start: Mono,
    /// Table sizes and thresholds.
    pub limits: Limits,
    /// T1, T2, T4.
    pub timing: Timing,
    /// For Server and User-Agent; may be empty.
    pub agent: Box<str>,
    /// The system's name in unique ids; may be empty.
    pub system: Arc<str>,
    /// Our addresses for calls that we place.
    pub locals: Locals,
    /// Makes nonces, the same on all shards and unknown to anybody else.
    pub nonce_key: [u8; 32],
    /// Whom we know.
    pub directory: Arc<Directory>,
    /// What all shards share.
    pub shared: Shared,
    /// The dialplan.
    pub plan: Arc<Plan>,
}

/// A datagram as it came.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The way that it took.
    pub path: Path,
    /// When the kernel took it in.
    pub received_at: Mono,
}

/// What came of the inputs since the last [`ShardOut::clear`].
#[derive(Debug, Default)]
pub struct ShardOut {
    /// Messages to send.
    pub net: Outbox,
    /// What happened.
    pub facts: Vec<Fact>,
    /// Calls that ended.
    pub records: Vec<call::Record>,
    /// What must survive the program: to be written before `net` is sent.
    pub stored: Vec<Stored>,
    /// Host names to look up; each is answered by [`Shard::resolved`], in its time.
    pub queries: Vec<Query>,
    /// Messages to other shards: to which, and what.
    pub hops: Vec<(u8, ShardMessage)>,
}

impl ShardOut {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.net.clear();
        self.facts.clear();
        self.records.clear();
        self.stored.clear();
        self.queries.clear();
        self.hops.clear();
    }
}

/// See the crate.
#[derive(Debug)]
pub struct Shard {
    pub(crate) shard: u8,
    pub(crate) shards: u8,
    pub(crate) endpoint: Endpoint,
    pub(crate) calls: Calls,
    pub(crate) legs: Slots<Leg>,
    /// Where each leg lives, by [`crate::LegOwner`]'s key.
    pub(crate) places: NumberMap<Place>,
    pub(crate) call_out: CallOut,
    pub(crate) directory: Arc<Directory>,
    pub(crate) shared: Shared,
    /// What the plans of its calls see of all that.
    pub(crate) world: Surroundings,
    pub(crate) registrar: Registrar,
    pub(crate) lines: Lines,
    pub(crate) pings: Pings,
    pub(crate) patience: Patience,
    pub(crate) lookups: Lookups,
    pub(crate) originations: Originations,
    pub(crate) doorman: Doorman,
    /// Legs of each trunk on this shard.
    pub(crate) trunk_calls: Vec<u32>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) locals: Locals,
    pub(crate) counts: ShardCounts,
    pub(crate) scratch: crate::legs::Scratch,
    pub(crate) limits: Limits,
    timers: Wheel<CallTimer>,
    due: Vec<CallTimer>,
    index: Option<Box<Index>>,
    /// The way of the message that is dealt with.
    pub(crate) arrived: Option<Path>,
    /// A second list to swap with the commands that are being obeyed.
    obeying: Vec<(LegId, LegCommand)>,
    pub(crate) is_draining: bool,
    /// Ends of remote legs that found a full queue, to be sent again; one a leg at most.
    pub(crate) endings: Vec<(u8, ShardMessage)>,
    pub(crate) is_trying_at_once: bool,
    pub(crate) verbose_wanted: u8,
}

impl Shard {
    /// An idle shard. All tables get their size here.
    pub fn new(config: &ShardConfig) -> Self {
        let limits = config.limits;
        let endpoint = Endpoint::new(&EndpointConfig {
            epoch: config.epoch,
            shard: config.shard,
            mint_key: config.mint_key,
            seed: config.seed,
            timing: config.timing,
            limits: EndpointLimits {
                usages_max: limits.legs_max,
                transactions: TransactionLimits {
                    clients_max: limits.legs_max,
                    servers_max: limits.legs_max,
                    tombstones_max: limits.tombstones_max,
                },
            },
            name: config.agent.clone(),
            start: config.start,
        });
        let naming = Naming {
            system: Arc::clone(&config.system),
            shard: config.shard,
            shards: config.shards,
        };
        let call_limits = CallLimits { calls_max: limits.calls_max, ..CallLimits::default() };
        Self {
            shard: config.shard,
            shards: config.shards,
            endpoint,
            calls: Calls::new(call_limits, &naming),
            legs: Slots::with_capacity(limits.legs_max),
            places: number_map(limits.legs_max as usize),
            call_out: CallOut::new(),
            trunk_calls: vec![0; config.directory.trunks().len()],
            doorman: Doorman::new(
                config.nonce_key,
                (config.mint_key, config.shard),
                &config.directory,
            ),
            directory: Arc::clone(&config.directory),
            shared: config.shared.clone(),
            registrar: Registrar::new(config.start, config.mint_key),
            world: Surroundings::new(
                config.shared.clone(),
                Arc::clone(&config.directory),
                Rng::new(own_seed(config.seed, 0x40)),
            ),
            lines: Lines::new(config.start, Rng::new(own_seed(config.seed, 0x80))),
            pings: Pings::new(config.start, Rng::new(own_seed(config.seed, 0x20))),
            patience: Patience::new(config.start),
            lookups: Lookups::new(config.start),
            originations: Originations::new(config.start),
            plan: Arc::clone(&config.plan),
            locals: config.locals,
            counts: ShardCounts::default(),
            scratch: crate::legs::Scratch::default(),
            limits,
            timers: Wheel::new(config.start),
            due: Vec::new(),
            index: Some(Box::new(Index::new())),
            arrived: None,
            obeying: Vec::new(),
            is_draining: false,
            endings: Vec::new(),
            is_trying_at_once: false,
            verbose_wanted: 0,
        }
    }

    // ----- inputs

    /// Takes a datagram in.
    pub fn receive(&mut self, now: Now, datagram: Datagram<'_>, out: &mut ShardOut) {
        self.counts.datagrams += 1;
        let source = datagram.path.remote.ip();
        if self.doorman.is_closed(now.mono, source) && !self.is_awaited(datagram.bytes) {
            self.doorman.count_closed_drop();
            return;
        }
        let Some(mut index) = self.index.take() else { return };
        self.arrived = Some(datagram.path);
        let is_stream = datagram.path.transport.is_reliable();
        let framing = if is_stream { Framing::Stream } else { Framing::Datagram };
        match index.parse(datagram.bytes, framing) {
            Ok(message) => self.on_message(now, message, &datagram, out),
            Err(fault) => {
                let message = index.salvage(datagram.bytes);
                self.on_fault(now, (fault, message), &datagram, out);
            }
        }
        self.index = Some(index);
        self.settle(now, out);
        self.arrived = None;
    }

    /// Whether it belongs to what runs: an answer to a request of ours, or a request within a
    /// dialog of ours. Calls of a closed source can end that way, and nobody guesses what names
    /// them.
    fn is_awaited(&self, bytes: &[u8]) -> bool {
        let Some(seen) = peek(bytes) else { return false };
        let (kind, text) = match seen.is_response {
            true => (Minted::Branch, Some(seen.top_branch)),
            false => (Minted::Tag, seen.to_tag),
        };
        text.is_some_and(|text| self.endpoint.minted_by(kind, text).is_some())
    }

    /// Does what is due.
    pub fn fire(&mut self, now: Now, out: &mut ShardOut) {
        let events = self.endpoint.fire(now.mono, &mut out.net);
        self.on_events(now, events, out);
        let mut due = std::mem::take(&mut self.due);
        self.timers.fire(now.mono, &mut due);
        for timer in due.drain(..) {
            let mut cx = cx!(self, now);
            self.calls.on_timer(&mut cx, timer);
        }
        self.due = due;
        self.expire_bindings(now, out);
        self.fire_lines(now, out);
        self.fire_pings(now, out);
        self.fire_patience(now, out);
        self.fire_lookups(now, out);
        self.fire_originations(now, out);
        self.settle(now, out);
    }

    /// Ends a batch of inputs: lets calls of the run queue go on, then says 100 (Trying) where
    /// nothing else was said.
    pub fn flush(&mut self, now: Now, out: &mut ShardOut) {
        if self.calls.has_runnable() {
            let mut cx = cx!(self, now);
            self.calls.resume(&mut cx);
            self.settle(now, out);
        }
        for _ in 0..FLUSH_ROUNDS_MAX {
            let events = self.endpoint.flush(now.mono, &mut out.net);
            if events.is_empty() {
                break;
            }
            self.on_events(now, events, out);
            self.settle(now, out);
        }
        self.counts.hops += self.endings.len() as u64;
        out.hops.append(&mut self.endings);
    }

    /// When [`Shard::fire`] and [`Shard::flush`] must next be called though nothing comes in;
    /// `None`: never.
    pub fn next_timeout(&self) -> Option<Mono> {
        if self.calls.has_runnable() || !self.endings.is_empty() {
            return Some(Mono::ZERO);
        }
        let waits = [
            self.endpoint.next_timeout(),
            self.timers.next_timeout(),
            self.registrar.next_timeout(),
            self.lines.next_timeout(),
            self.pings.next_timeout(),
            self.patience.next_timeout(),
            self.lookups.next_timeout(),
            self.originations.next_timeout(),
        ];
        waits.into_iter().flatten().min()
    }

    /// Takes a message of another shard in.
    pub fn message(&mut self, now: Now, message: ShardMessage, out: &mut ShardOut) {
        match message {
            ShardMessage::Command { owner, command } => self.obey_for(now, owner, command, out),
            ShardMessage::Event { leg, event } => self.on_remote_event(now, leg, event),
        }
        self.settle(now, out);
    }

    /// A message for shard `to` could not be delivered: its leg counts as broken, and both sides
    /// come to know, however often that must be tried.
    pub fn undelivered(&mut self, now: Now, to: u8, message: ShardMessage, out: &mut ShardOut) {
        self.break_leg(now, to, message, out);
        self.settle(now, out);
    }

    /// A message in [`ShardOut::net`] could not be sent, or the network gave it back; of one that
    /// came back the end may be missing.
    pub fn on_send_failed(&mut self, now: Now, bytes: &[u8], out: &mut ShardOut) {
        let Some(mut index) = self.index.take() else { return };
        let message = match index.parse(bytes, Framing::Datagram) {
            Ok(message) => Some(message),
            Err(_) => index.salvage(bytes),
        };
        if let Some(message) = message {
            let events = self.endpoint.on_send_failed(now.mono, &message, &mut out.net);
            self.on_events(now, events, out);
        }
        self.index = Some(index);
        self.settle(now, out);
    }

    // ----- words of operators

    /// Takes a new dialplan and a new directory for calls to come; running calls keep theirs.
    pub fn reload(&mut self, plan: Arc<Plan>, directory: Arc<Directory>) {
        self.plan = plan;
        self.doorman.learn(&directory);
        self.lines.look_again();
        self.world.directory = Arc::clone(&directory);
        let old = std::mem::replace(&mut self.directory, directory);
        self.rename_trunks(old.trunks());
    }

    /// From now on new calls are refused (or let in again).
    pub fn drain(&mut self, is_draining: bool) {
        self.lines.look_again();
        self.is_draining = is_draining;
    }

    /// From now on new calls are refused from this many on: a part of a cap that shards share.
    pub fn set_calls_soft_max(&mut self, most: u32) {
        self.limits.calls_soft_max = most;
    }

    /// From now on nothing is done (or done again) that must survive the program, since it cannot
    /// be written.
    pub fn set_room_to_store(&mut self, has_room: bool) {
        self.doorman.has_room_to_store = has_room;
        self.world.has_room_to_store.set(has_room);
    }

    /// Whether 100 (Trying) is said to each INVITE at once, and not only where its turn has nothing
    /// better to say.
    pub fn set_trying_at_once(&mut self, is_wanted: bool) {
        self.is_trying_at_once = is_wanted;
    }

    /// Whether a request that is too long for a datagram goes over TCP.
    pub fn set_switches(&mut self, switches: bool) {
        self.locals.switches = switches;
    }

    /// The highest verbosity that anybody wants to read.
    pub fn set_verbose(&mut self, level: u8) {
        self.verbose_wanted = level;
    }

    /// Hangs up the channel with that name. `false`: there is none.
    pub fn hangup(&mut self, now: Now, channel: &str, out: &mut ShardOut) -> bool {
        let Some(leg) = self.calls.find_channel(channel) else { return false };
        let mut cx = cx!(self, now);
        self.calls.hangup(&mut cx, leg, Cause::NORMAL_CLEARING);
        self.settle(now, out);
        true
    }

    /// Hangs up at most `most` calls; gives how many are left. For the end of a drain, in slices.
    pub fn hangup_some(&mut self, now: Now, most: usize, out: &mut ShardOut) -> usize {
        let calls: Vec<_> = self.calls.ids().take(most).collect();
        for call in calls {
            let mut cx = cx!(self, now);
            self.calls.hangup(&mut cx, LegId { call, leg: 0 }, Cause::NORMAL_CLEARING);
        }
        self.settle(now, out);
        self.calls.len()
    }

    /// Up to about `limit` channels from place `from` on, and where the next page begins.
    pub fn channels(&self, now: Now, from: u32, limit: usize) -> (Vec<ChannelView>, Option<u32>) {
        self.calls.channels(now, from, limit)
    }

    /// How many calls there are.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Totals, and what there is right now.
    pub fn counts(&self) -> ShardCounts {
        ShardCounts {
            calls: self.calls.len(),
            legs: self.legs.len(),
            endpoint: self.endpoint.counts(),
            transactions: self.endpoint.transaction_counts(),
            call: *self.calls.counts(),
            strangers: self.doorman.counts(),
            kept: self.registrar.len(),
            pinged: self.pings.len(),
            lookups_waiting: self.lookups.len(),
            ..self.counts
        }
    }

    /// What is left in any table; all zero once everything has ended and 64*T1 have passed.
    pub fn leftovers(&self) -> [(&'static str, usize); 10] {
        let transactions = self.endpoint.transaction_counts();
        let (ended, merged) = self.endpoint.leftovers();
        [
            ("calls", self.calls.len()),
            ("legs", self.legs.len()),
            ("places", self.places.len()),
            ("usages", self.endpoint.usages()),
            ("client transactions", transactions.clients as usize),
            ("server transactions", transactions.servers as usize),
            ("ended dialogs", ended),
            ("merge keys", merged),
            ("look-ups", self.lookups.len()),
            ("trunk calls", self.trunk_calls.iter().map(|calls| *calls as usize).sum()),
        ]
    }

    // ----- inside

    /// Events that no message brought.
    pub(crate) fn on_events(&mut self, now: Now, events: Events<'static>, out: &mut ShardOut) {
        for event in events {
            self.on_event(now, event, (NO_PATH, None), out);
        }
    }

    /// Obeys commands until there is none left, then hands the rest over.
    pub(crate) fn settle(&mut self, now: Now, out: &mut ShardOut) {
        while !self.call_out.commands.is_empty() {
            let mut commands = std::mem::take(&mut self.obeying);
            std::mem::swap(&mut commands, &mut self.call_out.commands);
            for (leg, command) in commands.drain(..) {
                self.obey(now, leg, command, out);
            }
            self.obeying = commands;
        }
        for (at, timer) in self.call_out.timers.drain(..) {
            self.timers.arm(at, timer);
        }
        let mut facts = std::mem::take(&mut self.call_out.facts);
        for fact in facts.drain(..) {
            self.tell_strange_number(&fact, out);
            out.facts.push(Fact::Call(fact));
        }
        self.call_out.facts = facts;
        out.records.append(&mut self.call_out.records);
        self.world.drain(&mut out.stored);
    }
}

/// Another seed than the endpoint's.
fn own_seed(mut seed: Seed, mark: u8) -> Seed {
    seed[30] ^= mark;
    seed
}

/// What the events of a flush lead to may need another one; more rounds than a few are a fault.
const FLUSH_ROUNDS_MAX: usize = 8;

/// For events that no message brought: their way is not looked at.
const NO_PATH: Path = Path {
    transport: Transport::Udp,
    local: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    remote: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
};
