//! Our lines to trunks: registrations with them, and pings that see whether their peers are there.
//!
//! Each line is looked after by one shard, chosen by the trunk's name; what it learns lies in the
//! trunk's state, which all shards see. The machine of a registration is `sip::registration`'s; a
//! ping is an OPTIONS request, and any answer at all means that the peer is there.
//!
//! A peer with a name is looked up before each attempt. Its line stays at the place that answered
//! last, and goes on to the next one of the name when that falls silent.
//!
//! After a reload lines that are still wanted go on, new ones begin, and a registration that is no
//! longer wanted is taken back. While the program is on its way down all are taken back.

use std::sync::Arc;
use std::time::Duration;

use call::Endpoint;
use sip::agent::push_address;
use sip::endpoint::Outside;
use sip::locate::Located;
use sip::path::Path;
use sip::registration::{Registration, RegistrationConfig, State, Step};
use sip::wire::{Message, escape_user};
use turn::{HashKey, Mono, Now, Rng, Wheel};

use crate::directory::{Directory, Hop, QualifySpec};
use crate::pings::is_ping;
use crate::resolve::{Asker, hop_of};
use crate::shard::Shard;
use crate::{Fact, Registered, ShardOut};

/// All lines of a shard.
#[derive(Debug)]
pub(crate) struct Lines {
    lines: Vec<Line>,
    wheel: Wheel<u32>,
    fired: Vec<u32>,
    serial: u32,
    rng: Rng,
    /// For Call-IDs and tags that nobody can guess.
    key: HashKey,
    is_stale: bool,
}

#[derive(Debug)]
struct Line {
    /// Names it in the wheel and in answers; another one after each use.
    serial: u32,
    endpoint: Arc<Endpoint>,
    kind: Kind,
    hop: Hop,
    /// The way to it; of a name, to the place that was tried last.
    path: Option<Path>,
    /// Whether `path` is the way for the attempt at hand.
    is_located: bool,
    /// Whether the last attempt had no answer.
    is_silent: bool,
    call_id: Box<str>,
    tag: Box<str>,
    /// No longer wanted: it goes when its last answer has come.
    is_leaving: bool,
}

#[derive(Debug)]
enum Kind {
    Registration {
        machine: Box<Registration>,
    },
    Ping {
        peer: usize,
        spec: QualifySpec,
        sent: Option<Mono>,
        silences: u8,
        answers: u8,
        cseq: u32,
    },
}

impl Lines {
    pub(crate) fn new(start: Mono, mut rng: Rng) -> Self {
        Self {
            lines: Vec::new(),
            wheel: Wheel::new(start),
            fired: Vec::new(),
            serial: 0,
            key: rng.hash_key(),
            rng,
            is_stale: true,
        }
    }

    /// The configuration has changed, or the program is on its way down.
    pub(crate) fn look_again(&mut self) {
        self.is_stale = true;
    }

    pub(crate) fn next_timeout(&self) -> Option<Mono> {
        if self.is_stale { Some(Mono::ZERO) } else { self.wheel.next_timeout() }
    }

    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    fn find(&mut self, serial: u32) -> Option<usize> {
        self.lines.iter().position(|line| line.serial == serial)
    }
}

impl Line {
    /// The URI where we want to be called, for the place that is tried.
    fn contact(&self) -> Vec<u8> {
        let mut contact = b"sip:".to_vec();
        if let (Kind::Registration { machine }, Some(path)) = (&self.kind, self.path) {
            escape_user(machine.config().contact_user.as_bytes(), &mut contact);
            contact.push(b'@');
            push_address(&mut contact, path.local);
        }
        contact
    }
}

/// A line that is wanted.
struct Wanted {
    endpoint: Arc<Endpoint>,
    hop: Hop,
    kind: WantedKind,
}

enum WantedKind {
    Registration(Arc<RegistrationConfig>),
    Ping(usize, QualifySpec),
}

impl Wanted {
    fn is(&self, line: &Line) -> bool {
        let is_same_kind = match (&self.kind, &line.kind) {
            (WantedKind::Registration(config), Kind::Registration { machine }) => {
                **config == *machine.config()
            }
            (WantedKind::Ping(peer, spec), Kind::Ping { peer: theirs, spec: its, .. }) => {
                peer == theirs && spec == its
            }
            (WantedKind::Registration(_), Kind::Ping { .. })
            | (WantedKind::Ping(..), Kind::Registration { .. }) => false,
        };
        is_same_kind && self.hop == line.hop && self.endpoint.name == line.endpoint.name
    }
}

impl Shard {
    /// Does what is due on our lines.
    pub(crate) fn fire_lines(&mut self, now: Now, out: &mut ShardOut) {
        if std::mem::take(&mut self.lines.is_stale) {
            self.renew_lines(now, out);
        }
        let mut fired = std::mem::take(&mut self.lines.fired);
        self.lines.wheel.fire(now.mono, &mut fired);
        for serial in fired.drain(..) {
            if let Some(at) = self.lines.find(serial) {
                self.on_line_due(now, at, out);
            }
        }
        self.lines.fired = fired;
    }

    /// Begins lines that are wanted and ends those that are not.
    fn renew_lines(&mut self, now: Now, out: &mut ShardOut) {
        let directory = Arc::clone(&self.directory);
        let wanted = if self.is_draining { Vec::new() } else { self.wanted_lines(&directory) };
        for at in (0..self.lines.lines.len()).rev() {
            if !wanted.iter().any(|it| it.is(&self.lines.lines[at])) {
                self.end_line(now, at, out);
            }
        }
        for it in wanted {
            let is_there = |line: &Line| it.is(line) && !line.is_leaving;
            if !self.lines.lines.iter().any(is_there) {
                self.begin_line(now, it, out);
            }
        }
    }

    fn wanted_lines(&self, directory: &Directory) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        for trunk in directory.trunks().iter() {
            if !self.is_mine(&trunk.endpoint.name) {
                continue;
            }
            let endpoint = || Arc::clone(&trunk.endpoint);
            if let Some(config) = &trunk.registration
                && let Some(hop) = hop_of(config.registrar.as_bytes())
                && self.may_reach(&hop)
            {
                let kind = WantedKind::Registration(Arc::clone(config));
                wanted.push(Wanted { endpoint: endpoint(), hop, kind });
            }
            let Some(spec) = trunk.qualify else { continue };
            for (peer, hop) in trunk.peers.iter().enumerate() {
                if self.may_reach(hop) {
                    let kind = WantedKind::Ping(peer, spec);
                    wanted.push(Wanted { endpoint: endpoint(), hop: hop.clone(), kind });
                }
            }
        }
        wanted
    }

    /// Whether this shard looks after the lines of that trunk.
    fn is_mine(&self, name: &str) -> bool {
        let sum = name
            .bytes()
            .fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        sum % u32::from(self.shards.max(1)) == u32::from(self.shard)
    }

    /// Whether we have an address to send from; of a name that is known when it is looked up.
    fn may_reach(&self, hop: &Hop) -> bool {
        match hop {
            Hop::Address(address, transport) => self.locals.path(*transport, *address).is_some(),
            Hop::Name(_) => true,
        }
    }

    fn begin_line(&mut self, now: Now, wanted: Wanted, out: &mut ShardOut) {
        let lines = &mut self.lines;
        let serial = lines.next_serial();
        let name = |what: &str, number: u64| -> Box<str> {
            let text = format!("{what}-{number}-{}", wanted.endpoint.name);
            format!("{:016x}", lines.key.hash(text.as_bytes())).into()
        };
        let (call_id, tag) = {
            let number = u64::from(serial);
            (name("call", number), name("tag", number))
        };
        let kind = match wanted.kind {
            WantedKind::Registration(config) => {
                Kind::Registration { machine: Box::new(Registration::new(config)) }
            }
            WantedKind::Ping(peer, spec) => {
                Kind::Ping { peer, spec, sent: None, silences: 0, answers: 0, cseq: 0 }
            }
        };
        let Wanted { endpoint, hop, .. } = wanted;
        let path = match &hop {
            Hop::Address(address, transport) => self.locals.path(*transport, *address),
            Hop::Name(_) => None,
        };
        lines.lines.push(Line {
            serial,
            endpoint,
            kind,
            is_located: path.is_some(),
            hop,
            path,
            is_silent: false,
            call_id,
            tag,
            is_leaving: false,
        });
        let at = lines.lines.len() - 1;
        let step = match &mut self.lines.lines[at].kind {
            Kind::Registration { machine } => machine.start(),
            Kind::Ping { .. } => Step::Send,
        };
        self.take_step(now, at, step, out);
    }

    fn end_line(&mut self, now: Now, at: usize, out: &mut ShardOut) {
        let line = &mut self.lines.lines[at];
        let step = match &mut line.kind {
            Kind::Registration { machine } if !line.is_leaving => machine.stop(now.mono),
            // It is on its way.
            Kind::Registration { .. } => return,
            Kind::Ping { .. } => Step::Rest,
        };
        line.is_leaving = true;
        match step {
            Step::Send => self.take_step(now, at, step, out),
            Step::WaitUntil(_) | Step::Rest => _ = self.lines.lines.remove(at),
        }
    }

    fn on_line_due(&mut self, now: Now, at: usize, out: &mut ShardOut) {
        let line = &mut self.lines.lines[at];
        line.is_located &= matches!(line.hop, Hop::Address(..));
        let step = match &mut line.kind {
            Kind::Registration { machine } => machine.on_due(),
            Kind::Ping { sent, spec, .. } => match sent.take() {
                // The time for an answer is over.
                Some(began) => {
                    line.is_silent = true;
                    let wait = spec.every.saturating_sub(spec.timeout);
                    let step = Step::WaitUntil(began + spec.timeout + wait);
                    self.on_ping(now, at, None, out);
                    step
                }
                None => Step::Send,
            },
        };
        self.take_step(now, at, step, out);
    }

    /// The answer to a request of ours outside of any dialog; `owner` is the line's serial.
    pub(crate) fn on_line_reply(
        &mut self,
        now: Now,
        owner: u64,
        (status, message): (u16, Option<Message<'_>>),
        out: &mut ShardOut,
    ) {
        if is_ping(owner) {
            return self.on_ping_reply(now, owner, message.is_some(), out);
        }
        let found = u32::try_from(owner).ok().and_then(|serial| self.lines.find(serial));
        let Some(at) = found else { return };
        let Lines { lines, rng, .. } = &mut self.lines;
        let line = &mut lines[at];
        line.is_silent = message.is_none();
        let contact = line.contact();
        let step = match &mut line.kind {
            Kind::Registration { machine } => {
                let reply = (status, message.as_ref());
                let before = machine.state();
                let step = machine.on_reply(now.mono, reply, &contact, rng);
                self.tell_registration(now, at, before, (status, message.is_some()), out);
                step
            }
            Kind::Ping { sent, spec, .. } => {
                let Some(began) = sent.take() else { return };
                let rtt = message.is_some().then(|| now.mono - began);
                let step = Step::WaitUntil(began + spec.every);
                self.on_ping(now, at, rtt, out);
                step
            }
        };
        let is_over = self.lines.lines[at].is_leaving && step == Step::Rest;
        if is_over {
            self.lines.lines.remove(at);
        } else {
            self.take_step(now, at, step, out);
        }
    }

    /// What a step asks for. Each gets a new serial, so that what belongs to an older one is stale.
    fn take_step(&mut self, now: Now, at: usize, step: Step, out: &mut ShardOut) {
        let serial = self.lines.next_serial();
        self.lines.lines[at].serial = serial;
        match step {
            Step::Send => self.send_line(now, at, out),
            Step::WaitUntil(due) => self.lines.wheel.arm(due, serial),
            Step::Rest => {}
        }
    }

    fn send_line(&mut self, now: Now, at: usize, out: &mut ShardOut) {
        let Lines { lines, rng, wheel, .. } = &mut self.lines;
        let line = &mut lines[at];
        let Some(path) = line.path.filter(|_| line.is_located) else {
            return self.locate_line(now, at, out);
        };
        let mut added = Vec::new();
        let mut uri = b"sip:".to_vec();
        match &line.hop {
            Hop::Address(address, _) => push_address(&mut uri, *address),
            Hop::Name(_) => uri.extend_from_slice(line.hop.to_string().as_bytes()),
        }
        let mut from = b"sip:".to_vec();
        push_address(&mut from, path.local);
        let contact = line.contact();
        let (method, cseq): (&[u8], u32) = match &mut line.kind {
            Kind::Registration { machine } => {
                let contact = [b"<", &contact[..], b">"].concat();
                let cseq = machine.write(&contact, rng, &mut added);
                uri = machine.config().registrar.as_bytes().into();
                from = machine.config().aor.as_bytes().into();
                (b"REGISTER", cseq)
            }
            Kind::Ping { sent, spec, cseq, .. } => {
                *sent = Some(now.mono);
                *cseq += 1;
                wheel.arm(now.mono + spec.timeout, line.serial);
                (b"OPTIONS", *cseq)
            }
        };
        let to = if method == b"REGISTER" { &from } else { &uri };
        let request = Outside {
            path,
            method,
            uri: &uri,
            from: &from,
            from_tag: line.tag.as_bytes(),
            to,
            call_id: line.call_id.as_bytes(),
            cseq,
            lines: &added,
        };
        let owner = u64::from(line.serial);
        if !self.endpoint.request(now.mono, &request, owner, &mut out.net) {
            // A full table: as if nobody had answered.
            self.on_line_reply(now, owner, (503, None), out);
        }
    }

    /// Asks where the peer of a line is.
    fn locate_line(&mut self, now: Now, at: usize, out: &mut ShardOut) {
        let line = &self.lines.lines[at];
        let serial = line.serial;
        let wanted = match &line.hop {
            Hop::Name(wanted) => Some(wanted.clone()),
            Hop::Address(..) => None,
        };
        let asked = wanted.and_then(|it| self.look_up(now, &it, Asker::Line(serial), out));
        if asked.is_none() {
            self.on_line_located(now, serial, &Located::Silent, out);
        }
    }

    /// The peer of a line has been looked up. Without a place it is as if nobody had answered.
    pub(crate) fn on_line_located(
        &mut self,
        now: Now,
        serial: u32,
        located: &Located,
        out: &mut ShardOut,
    ) {
        let Some(at) = self.lines.find(serial) else { return };
        let places = match located {
            Located::Found(places) => &places[..],
            Located::Unknown | Located::Silent => &[],
        };
        let ways = places.iter().filter_map(|(place, by)| self.locals.path(*by, *place));
        let ways: Vec<Path> = ways.collect();
        let line = &mut self.lines.lines[at];
        let last = ways.iter().position(|way| Some(*way) == line.path);
        let next = match last {
            Some(last) if line.is_silent => (last + 1) % ways.len(),
            Some(last) => last,
            None => 0,
        };
        if let Some(way) = ways.get(next) {
            line.path = Some(*way);
            line.is_located = true;
            return self.send_line(now, at, out);
        }
        if let Kind::Ping { sent, .. } = &mut line.kind {
            *sent = Some(now.mono);
        }
        self.on_line_reply(now, u64::from(serial), (503, None), out);
    }

    /// A peer has answered after `rtt`, or not.
    fn on_ping(&mut self, _: Now, at: usize, rtt: Option<Duration>, out: &mut ShardOut) {
        let line = &mut self.lines.lines[at];
        let Kind::Ping { peer, spec, silences, answers, .. } = &mut line.kind else { return };
        let directory = &self.directory;
        let trunk = directory.trunks().named(&line.endpoint.name);
        let Some(trunk) = trunk.and_then(|id| directory.trunks().view(id)) else { return };
        let was_reachable = trunk.state.is_reachable(*peer);
        let is_reachable = match rtt {
            Some(_) => {
                *silences = 0;
                *answers = answers.saturating_add(1);
                was_reachable || *answers >= spec.up_after
            }
            None => {
                *answers = 0;
                *silences = silences.saturating_add(1);
                was_reachable && *silences < spec.down_after
            }
        };
        if is_reachable {
            trunk.state.set_reachable(*peer, Some(rtt.unwrap_or_else(|| trunk.state.rtt())));
        } else {
            trunk.state.set_reachable(*peer, None);
        }
        if is_reachable != was_reachable {
            let endpoint = Arc::clone(&line.endpoint);
            let peer = line.hop.clone();
            out.facts.push(Fact::PeerReach { endpoint, peer, is_reachable, rtt });
        }
    }

    fn tell_registration(
        &mut self,
        now: Now,
        at: usize,
        before: State,
        (status, is_answered): (u16, bool),
        out: &mut ShardOut,
    ) {
        let line = &self.lines.lines[at];
        let Kind::Registration { machine } = &line.kind else { return };
        let registered = match machine.state() {
            State::Idle | State::Leaving => Registered::No,
            State::Trying => return,
            State::Registered => Registered::Yes,
            State::Waiting if is_answered => Registered::Refused,
            State::Waiting => Registered::Silent,
        };
        let directory = &self.directory;
        let trunk = directory.trunks().named(&line.endpoint.name);
        let Some(trunk) = trunk.and_then(|id| directory.trunks().view(id)) else { return };
        let left = i64::try_from((machine.until() - now.mono).as_secs()).unwrap_or(i64::MAX);
        let was = trunk.state.registration().0;
        trunk.state.set_registration(registered, now.wall.as_micros() / 1_000_000 + left);
        if registered != was && before != machine.state() {
            let endpoint = Arc::clone(&line.endpoint);
            out.facts.push(Fact::TrunkRegistration { endpoint, registered, status });
        }
    }
}
