//! The way of a message into a shard: the doorman, then the endpoint, then whom it is for.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use call::CallFact;
use sip::digest::Challenger;
use sip::endpoint::Reply;
use sip::path::{Path, Transport};
use sip::wire::{Fault, Message, Rule, Uri};
use turn::{HashKey, Mono, Now};

use crate::directory::{Directory, PhoneId};
use crate::gate::Gate;
use crate::shard::{Datagram, Shard};
use crate::strangers::{Charge, StrangerCounts, Strangers, Verdict};
use crate::{Fact, Refused, ShardOut, Trunk, TrunkId};

/// What the gate keeps between two messages.
#[derive(Debug)]
pub(crate) struct Doorman {
    nonce_key: [u8; 32],
    challenger: Challenger,
    strangers: Strangers,
    lines: Vec<u8>,
    pub(crate) has_room_to_store: bool,
}

impl Doorman {
    pub(crate) fn new(
        nonce_key: [u8; 32],
        (key, shard): (HashKey, u8),
        directory: &Directory,
    ) -> Self {
        Self {
            nonce_key,
            // 16 million nonces a second keep two shards apart.
            challenger: challenger(nonce_key, u32::from(shard) << 24, directory),
            strangers: Strangers::new(key),
            lines: Vec::with_capacity(512),
            has_room_to_store: true,
        }
    }

    /// Takes realm and hashes of another directory over.
    pub(crate) fn learn(&mut self, directory: &Directory) {
        self.challenger = challenger(self.nonce_key, self.challenger.next_serial(), directory);
    }

    pub(crate) fn is_closed(&mut self, now: Mono, ip: IpAddr) -> bool {
        self.strangers.is_closed(now, ip)
    }

    /// A message of a closed source was dropped.
    pub(crate) fn count_closed_drop(&mut self) {
        self.strangers.counts.closed_drops += 1;
    }

    pub(crate) fn counts(&self) -> StrangerCounts {
        self.strangers.counts
    }
}

fn challenger(key: [u8; 32], first: u32, directory: &Directory) -> Challenger {
    let (realm, algorithms) = (directory.realm(), directory.algorithms());
    Challenger::new(key, realm, algorithms, directory.nonce_lifetime(), first)
}

impl Shard {
    /// A message that breaks no rule of the wire.
    pub(crate) fn on_message(
        &mut self,
        now: Now,
        message: Message<'_>,
        datagram: &Datagram<'_>,
        out: &mut ShardOut,
    ) {
        let path = datagram.path;
        let directory = Arc::clone(&self.directory);
        let nonces = Arc::clone(&self.shared.nonces);
        let mut gate = Gate {
            directory: &directory,
            challenger: &self.doorman.challenger,
            nonces: &*nonces,
            strangers: &mut self.doorman.strangers,
            trunk_calls: &self.trunk_calls,
            limits: &self.limits,
            calls: self.calls.len(),
            is_draining: self.is_draining,
            has_room_to_store: self.doorman.has_room_to_store,
            now,
            received_at: datagram.received_at,
            lines: &mut self.doorman.lines,
            claimed: None,
            caller: None,
            refused: None,
            verdict: None,
        };
        let events = self.endpoint.receive(now.mono, message, path, &mut gate, &mut out.net);
        let (caller, refused, verdict) = (gate.caller, gate.refused, gate.verdict);
        let claimed = gate.claimed;
        if let Some(why) = refused {
            self.counts.refused[why.index()] += 1;
            self.tell_refusal((why, verdict, claimed), &message, path, out);
        }
        if self.is_trying_at_once {
            let more = self.endpoint.flush(now.mono, &mut out.net);
            self.on_events(now, more, out);
        }
        for event in events {
            self.on_event(now, event, (path, caller), out);
        }
    }

    /// A message that breaks a rule of the wire; `message` is what is left of it.
    pub(crate) fn on_fault(
        &mut self,
        now: Now,
        (fault, message): (Fault, Option<Message<'_>>),
        datagram: &Datagram<'_>,
        out: &mut ShardOut,
    ) {
        if fault.rule == Rule::KeepAlive {
            self.counts.keep_alives += 1;
            return;
        }
        let path = datagram.path;
        let (is_strangers, may_answer) = self.charge_rubbish(now, path.remote.ip());
        let answered = match (message, fault.rule.status()) {
            (Some(message), Some(status)) if may_answer => {
                let reply = Reply { warning: fault.rule.text(), ..Reply::status(status) };
                self.endpoint.reject(&message, path, &reply, &mut out.net);
                status
            }
            (Some(_) | None, _) => 0,
        };
        out.facts.push(Fact::Malformed { fault, path, is_strangers, answered });
    }

    /// A piece of a TCP connection that is no message; the connection has ended with it, and with
    /// an answer where one was due.
    pub fn broken_stream(&mut self, now: Now, (fault, path): (Fault, Path), out: &mut ShardOut) {
        let (is_strangers, _) = self.charge_rubbish(now, path.remote.ip());
        out.facts.push(Fact::Malformed { fault, path, is_strangers, answered: 0 });
    }

    /// Takes a broken message from its source's budget. Whether it is a stranger's, and whether it
    /// may be answered: a stranger that sends rubbish is not worth it; a trunk and a phone of ours
    /// are.
    fn charge_rubbish(&mut self, now: Now, source: IpAddr) -> (bool, bool) {
        self.counts.malformed += 1;
        if let Some(id) = self.directory.trunks().of_source(source) {
            return (self.is_open_to(id, source), true);
        }
        let strangers = &mut self.doorman.strangers;
        let budget = self.directory.strangers();
        let verdict = strangers.charge(budget, now.mono, source, Charge::Rubbish);
        let is_vouched = strangers.is_vouched(now.mono, source);
        (!is_vouched, is_vouched && verdict != Verdict::Silence)
    }

    /// Whether a trunk lets anybody in who comes from there.
    fn is_open_to(&self, id: TrunkId, source: IpAddr) -> bool {
        self.directory.trunks().view(id).is_some_and(|trunk| trunk.is_open_to(source))
    }

    /// Tells of a number that the plan does not have, when whoever dialled it is a stranger.
    pub(crate) fn tell_strange_number(&self, fact: &CallFact, out: &mut ShardOut) {
        let CallFact::NoExtension { endpoint, peer, .. } = fact else { return };
        let Ok(remote) = peer.parse::<SocketAddr>() else { return };
        let id = self.directory.trunks().of_source(remote.ip());
        let is_his = |trunk: &Trunk| trunk.endpoint.name == endpoint.name;
        let trunk = id.and_then(|id| self.directory.trunks().view(id)).filter(|it| is_his(it));
        if !trunk.is_some_and(|trunk| trunk.is_open_to(remote.ip())) {
            return;
        }
        // A number that was waited for comes to its end without a message.
        let path = match self.arrived.filter(|path| path.remote == remote) {
            Some(path) => Some(path),
            None => self.locals.path(Transport::Udp, remote),
        };
        if let Some(path) = path {
            let endpoint = Arc::clone(endpoint);
            out.facts.push(Fact::StrangeNumber { path, endpoint });
        }
    }

    fn tell_refusal(
        &self,
        (why, verdict, claimed): (Refused, Option<Verdict>, Option<PhoneId>),
        message: &Message<'_>,
        path: Path,
        out: &mut ShardOut,
    ) {
        let source = path.remote;
        match verdict {
            Some(Verdict::Closes) => {
                let penalty = self.directory.strangers().penalty;
                out.facts.push(Fact::SourceClosed { source, penalty });
            }
            Some(Verdict::Report(challenges)) => {
                let call_id = message.call_id().into();
                out.facts.push(Fact::Unanswered { path, call_id, challenges });
            }
            Some(Verdict::Answer | Verdict::Silence) | None => {}
        }
        if !matches!(why, Refused::Challenged | Refused::Stale) {
            out.facts.push(self.refused_fact((why, claimed), message, path));
        }
    }

    fn refused_fact(
        &self,
        (why, claimed): (Refused, Option<PhoneId>),
        message: &Message<'_>,
        path: Path,
    ) -> Fact {
        let method = message.method().as_bytes();
        let method = &method[..method.len().min(METHOD_TEXT_MAX)];
        let is_shown = why == Refused::Stranger || why.is_failure();
        let shown = |text: &[u8]| if is_shown { Box::from(text) } else { Box::default() };
        let from = Uri::parse(message.from().uri).ok().and_then(|uri| uri.user).unwrap_or_default();
        // Whose password is tried counts, not what From says.
        let by_from = || self.directory.phone_of_user(str::from_utf8(from).ok()?);
        let phone = claimed.or_else(by_from).and_then(|id| self.directory.phone(id));
        Fact::Refused {
            why,
            path,
            method: method.into(),
            from: shown(from),
            call_id: shown(message.call_id()),
            endpoint: phone.map(|phone| Arc::clone(&phone.endpoint)),
        }
    }
}

/// Most bytes of an unknown method that a fact shows.
const METHOD_TEXT_MAX: usize = 32;
