//! Where a SIP server with a name is (RFC 3263 §4.1, §4.2): which records are to be asked for, and
//! what their answers mean.
//!
//! ```text
//! host is an address ───────────────────────────────► found
//! port is given ──────────────────────────► A, AAAA ─► found, or not
//! transport is given ──────────────► SRV ─► A, AAAA of each target
//! neither ──► NAPTR ─► its service ─► SRV ─► A, AAAA of each target
//!               └ none: SRV of each transport that we have, in order
//!                                     └ none at all: A, AAAA of the host, port 5060
//! ```
//!
//! A value without I/O: it says one [`Question`] after the other and is told the [`Answer`]. To
//! fail over from one place to the next (§4.3) is the caller's part: the list has the order for it.
//! TLS and WebSocket are transports that we do not have; a record for them is passed over.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use turn::Rng;

use crate::path::Transport;

/// Records of one answer; more are not looked at.
pub const RECORDS_MAX: usize = 16;

/// Places that a name may lead to; more are not tried.
pub const PLACES_MAX: usize = 32;

/// Questions about one name: a NAPTR, its SRVs, and two for each target.
pub const QUESTIONS_MAX: usize = 1 + RECORDS_MAX + 2 * RECORDS_MAX;

/// The port of SIP over UDP and TCP.
const DEFAULT_PORT: u16 = 5060;

/// What an SRV name has before the host: `_sip._udp.`.
const SERVICE_BYTES: usize = 10;

/// Whom to find: the host part of a URI.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// The host: a name, or an address without brackets.
    pub host: Box<str>,
    /// The port, if one is given: then there is no SRV look-up.
    pub port: Option<u16>,
    /// The transport, if one is given: then there is no NAPTR look-up.
    pub transport: Option<Transport>,
}

/// What we can send by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ways {
    /// UDP.
    pub udp: bool,
    /// TCP.
    pub tcp: bool,
    /// To IPv4 addresses.
    pub v4: bool,
    /// To IPv6 addresses.
    pub v6: bool,
}

/// A type of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Which services a domain has (RFC 3403).
    Naptr,
    /// Where a service is (RFC 2782).
    Srv,
    /// An IPv4 address.
    A,
    /// An IPv6 address.
    Aaaa,
}

/// What to ask the DNS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// Of which name, without the dot at its end.
    pub name: Box<str>,
    /// For which records.
    pub kind: Kind,
}

/// A NAPTR record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Naptr {
    /// The lowest counts first.
    pub order: u16,
    /// Among those of the same order, the lowest is preferred.
    pub preference: u16,
    /// `s`: the replacement is the name of SRV records.
    pub flags: Box<str>,
    /// `SIP+D2U`, `SIP+D2T`.
    pub service: Box<str>,
    /// The next name.
    pub replacement: Box<str>,
}

/// An SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Srv {
    /// The lowest is tried first.
    pub priority: u16,
    /// The part of this target among those of the same priority.
    pub weight: u16,
    /// The port.
    pub port: u16,
    /// The host; empty or `.` says that there is no such service.
    pub target: Box<str>,
}

/// What the DNS says to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Kind::Naptr`].
    Naptr(Vec<Naptr>),
    /// To [`Kind::Srv`].
    Srv(Vec<Srv>),
    /// To [`Kind::A`] and [`Kind::Aaaa`].
    Addresses(Vec<IpAddr>),
    /// There is no such record.
    Nothing,
    /// No server answered, or it could not tell.
    Silence,
}

/// Where somebody is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// At these places, to be tried in this order.
    Found(Vec<(SocketAddr, Transport)>),
    /// Nowhere: there is no such name, or it has no place that we can send to.
    Unknown,
    /// Nobody could tell.
    Silent,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask this, and come back with the answer.
    Ask(Question),
    /// That is it.
    Done(Located),
}

#[derive(Debug)]
enum State {
    /// The services of the host.
    Naptr,
    /// The targets of a service.
    Srv(Transport),
    /// The addresses of the target at hand.
    Addresses(Target, Kind),
    Over,
}

#[derive(Clone, Debug)]
struct Target {
    host: Box<str>,
    port: u16,
    transport: Transport,
}

/// The search for one server.
#[derive(Debug)]
pub struct Locate {
    wanted: Wanted,
    ways: Ways,
    state: State,
    /// SRV names that may still be asked for.
    services: VecDeque<(Box<str>, Transport)>,
    /// Targets whose addresses are still to be asked for.
    targets: VecDeque<Target>,
    found: Vec<(SocketAddr, Transport)>,
    questions: usize,
    /// Whether a question had no answer.
    is_silent: bool,
}

impl Locate {
    /// Nothing has been asked yet.
    pub fn new(wanted: Wanted, ways: Ways) -> Self {
        Self {
            wanted,
            ways,
            state: State::Over,
            services: VecDeque::new(),
            targets: VecDeque::new(),
            found: Vec::new(),
            questions: 0,
            is_silent: false,
        }
    }

    /// Begins. To be called once.
    pub fn start(&mut self) -> Step {
        let usual = if self.ways.udp { Transport::Udp } else { Transport::Tcp };
        let transport = self.wanted.transport;
        if transport.is_some_and(|it| !self.has(it)) {
            return self.done();
        }
        if let Ok(ip) = self.wanted.host.parse::<IpAddr>() {
            let place = SocketAddr::new(ip, self.wanted.port.unwrap_or(DEFAULT_PORT));
            self.add(place, transport.unwrap_or(usual));
            return self.done();
        }
        if !is_name(&self.wanted.host) {
            return self.done();
        }
        if let Some(port) = self.wanted.port {
            // §4.2: a port leaves A and AAAA; §4.1: with a port and no transport it is UDP.
            return self.ask_host(port, transport.unwrap_or(usual));
        }
        if let Some(transport) = transport {
            self.services.push_back((self.service(transport), transport));
            return self.next_service();
        }
        let host = self.wanted.host.clone();
        self.ask(&host, Kind::Naptr, State::Naptr)
    }

    /// Goes on with the answer to the last question.
    pub fn answer(&mut self, answer: Answer, rng: &mut Rng) -> Step {
        self.is_silent |= answer == Answer::Silence;
        match std::mem::replace(&mut self.state, State::Over) {
            State::Naptr => self.on_naptr(answer),
            State::Srv(transport) => self.on_srv(answer, transport, rng),
            State::Addresses(target, kind) => self.on_addresses(answer, target, kind),
            State::Over => self.done(),
        }
    }

    /// §4.1: the services that we have, in the order of the domain.
    fn on_naptr(&mut self, answer: Answer) -> Step {
        let mut records = match answer {
            Answer::Naptr(records) => records,
            Answer::Srv(_) | Answer::Addresses(_) | Answer::Nothing | Answer::Silence => vec![],
        };
        records.truncate(RECORDS_MAX);
        records.sort_by_key(|record| (record.order, record.preference));
        for record in records {
            let transport = match record.service.to_ascii_uppercase().as_str() {
                "SIP+D2U" => Transport::Udp,
                "SIP+D2T" => Transport::Tcp,
                _ => continue,
            };
            if self.has(transport) && record.flags.eq_ignore_ascii_case("s") {
                let name = record.replacement.trim_end_matches('.');
                self.services.push_back((name.into(), transport));
            }
        }
        if self.services.is_empty() {
            for transport in [Transport::Udp, Transport::Tcp] {
                if self.has(transport) {
                    self.services.push_back((self.service(transport), transport));
                }
            }
        }
        self.next_service()
    }

    /// §4.2: the targets in the order of RFC 2782; without any, the next service, in the end the
    /// host itself.
    fn on_srv(&mut self, answer: Answer, transport: Transport, rng: &mut Rng) -> Step {
        let mut records = match answer {
            Answer::Srv(records) => records,
            Answer::Naptr(_) | Answer::Addresses(_) | Answer::Nothing | Answer::Silence => vec![],
        };
        if records.is_empty() {
            return self.next_service();
        }
        records.truncate(RECORDS_MAX);
        let is_there = |record: &Srv| !record.target.trim_end_matches('.').is_empty();
        records.retain(is_there);
        for record in in_order(records, rng) {
            let host = record.target.trim_end_matches('.').into();
            self.targets.push_back(Target { host, port: record.port, transport });
        }
        self.services.clear();
        self.next_target()
    }

    fn on_addresses(&mut self, answer: Answer, target: Target, kind: Kind) -> Step {
        let addresses = match answer {
            Answer::Addresses(addresses) => addresses,
            Answer::Naptr(_) | Answer::Srv(_) | Answer::Nothing | Answer::Silence => vec![],
        };
        for ip in addresses.into_iter().take(RECORDS_MAX) {
            self.add(SocketAddr::new(ip, target.port), target.transport);
        }
        if kind == Kind::A && self.ways.v6 {
            let host = target.host.clone();
            return self.ask(&host, Kind::Aaaa, State::Addresses(target, Kind::Aaaa));
        }
        self.next_target()
    }

    fn next_service(&mut self) -> Step {
        match self.services.pop_front() {
            Some((name, transport)) => self.ask(&name, Kind::Srv, State::Srv(transport)),
            None => {
                let usual = if self.ways.udp { Transport::Udp } else { Transport::Tcp };
                self.ask_host(DEFAULT_PORT, self.wanted.transport.unwrap_or(usual))
            }
        }
    }

    fn ask_host(&mut self, port: u16, transport: Transport) -> Step {
        self.targets.push_back(Target { host: self.wanted.host.clone(), port, transport });
        self.next_target()
    }

    fn next_target(&mut self) -> Step {
        let Some(target) = self.targets.pop_front() else { return self.done() };
        if let Ok(ip) = target.host.parse::<IpAddr>() {
            // RFC 2782 wants a name there; some write an address.
            self.add(SocketAddr::new(ip, target.port), target.transport);
            return self.next_target();
        }
        let kind = if self.ways.v4 { Kind::A } else { Kind::Aaaa };
        let host = target.host.clone();
        self.ask(&host, kind, State::Addresses(target, kind))
    }

    fn ask(&mut self, name: &str, kind: Kind, state: State) -> Step {
        if self.questions >= QUESTIONS_MAX || self.found.len() >= PLACES_MAX {
            return self.done();
        }
        self.questions += 1;
        self.state = state;
        let name = name.trim_end_matches('.').into();
        Step::Ask(Question { name, kind })
    }

    fn done(&mut self) -> Step {
        self.state = State::Over;
        let found = std::mem::take(&mut self.found);
        Step::Done(match (found.is_empty(), self.is_silent) {
            (false, _) => Located::Found(found),
            (true, false) => Located::Unknown,
            (true, true) => Located::Silent,
        })
    }

    fn add(&mut self, place: SocketAddr, transport: Transport) {
        let has_family = if place.is_ipv4() { self.ways.v4 } else { self.ways.v6 };
        let is_new = !self.found.contains(&(place, transport));
        if has_family && is_new && self.has(transport) && self.found.len() < PLACES_MAX {
            self.found.push((place, transport));
        }
    }

    fn has(&self, transport: Transport) -> bool {
        match transport {
            Transport::Udp => self.ways.udp,
            Transport::Tcp => self.ways.tcp,
            Transport::Tls | Transport::Ws | Transport::Wss => false,
        }
    }

    fn service(&self, transport: Transport) -> Box<str> {
        let protocol = if transport.is_reliable() { "tcp" } else { "udp" };
        format!("_sip._{protocol}.{}", self.wanted.host.trim_end_matches('.')).into()
    }
}

/// Whether the DNS can be asked for it, and for its services (RFC 1035 §2.3.4).
fn is_name(host: &str) -> bool {
    let is_label = |label: &str| !label.is_empty() && label.len() <= 63 && label.is_ascii();
    host.len() + SERVICE_BYTES <= 253 && host.trim_end_matches('.').split('.').all(is_label)
}

/// RFC 2782: by priority; among the same priority each is first as often as its weight says.
fn in_order(mut records: Vec<Srv>, rng: &mut Rng) -> Vec<Srv> {
    // Those of weight 0 stand first, so that they have a chance, if a small one.
    records.sort_by_key(|record| (record.priority, record.weight != 0));
    let mut ordered = Vec::with_capacity(records.len());
    while let Some(priority) = records.first().map(|record| record.priority) {
        let same = records.iter().take_while(|record| record.priority == priority);
        let sum: u64 = same.map(|record| u64::from(record.weight)).sum();
        let drawn = rng.below(sum + 1);
        let mut running = 0;
        let at = records.iter().position(|record| {
            running += u64::from(record.weight);
            running >= drawn
        });
        ordered.push(records.remove(at.unwrap_or(0)));
    }
    ordered
}

#[cfg(test)]
mod tests;
