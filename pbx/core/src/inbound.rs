//! The way of a message into a shard: the doorman, then the endpoint, then whom it is for.

use std::net::IpAddr;
use std::sync::Arc;

use sip::digest::Challenger;
use sip::endpoint::Reply;
use sip::path::Path;
use sip::wire::{Fault, Message, Rule, Uri};
use turn::{HashKey, Mono, Now};

use crate::directory::Directory;
use crate::gate::Gate;
use crate::shard::{Datagram, Shard};
use crate::strangers::{Charge, StrangerCounts, Strangers, Verdict};
use crate::{Fact, Refused, ShardOut};

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
            caller: None,
            refused: None,
            verdict: None,
        };
        let events = self.endpoint.receive(now.mono, message, path, &mut gate, &mut out.net);
        let (caller, refused, verdict) = (gate.caller, gate.refused, gate.verdict);
        if let Some(why) = refused {
            self.counts.refused[why.index()] += 1;
            self.tell_refusal(why, verdict, &message, path, out);
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
        self.counts.malformed += 1;
        let source = datagram.path.remote;
        let is_trunk = self.directory.trunks().of_source(source.ip()).is_some();
        if !is_trunk {
            let budget = self.directory.strangers();
            let charge = Charge::Rubbish;
            let verdict = self.doorman.strangers.charge(budget, now.mono, source.ip(), charge);
            if verdict == Verdict::Silence {
                // It is counted, and has been told of often enough.
                return;
            }
        }
        // A stranger that sends rubbish is not worth an answer; a phone of ours is.
        let may_answer = is_trunk || self.doorman.strangers.is_vouched(now.mono, source.ip());
        let answered = match (message, fault.rule.status()) {
            (Some(message), Some(status)) if may_answer => {
                let reply = Reply { warning: fault.rule.text(), ..Reply::status(status) };
                self.endpoint.reject(&message, datagram.path, &reply, &mut out.net);
                status
            }
            (Some(_) | None, _) => 0,
        };
        out.facts.push(Fact::Malformed { fault, source, answered });
    }

    fn tell_refusal(
        &self,
        why: Refused,
        verdict: Option<Verdict>,
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
                out.facts.push(Fact::Unanswered { source, challenges });
            }
            Some(Verdict::Answer | Verdict::Silence) | None => {}
        }
        let is_told_enough = verdict == Some(Verdict::Silence) && !why.is_failure();
        if !matches!(why, Refused::Challenged | Refused::Stale) && !is_told_enough {
            out.facts.push(self.refused_fact(why, message, path));
        }
    }

    fn refused_fact(&self, why: Refused, message: &Message<'_>, path: Path) -> Fact {
        let method = message.method().as_bytes();
        let method = &method[..method.len().min(METHOD_TEXT_MAX)];
        let is_shown = why == Refused::Stranger || why.is_failure();
        let shown = |text: &[u8]| if is_shown { Box::from(text) } else { Box::default() };
        let from = Uri::parse(message.from().uri).ok().and_then(|uri| uri.user).unwrap_or_default();
        let claimed = || {
            let id = self.directory.phone_of_user(str::from_utf8(from).ok()?)?;
            Some(Arc::clone(&self.directory.phone(id)?.endpoint))
        };
        Fact::Refused {
            why,
            path,
            method: method.into(),
            from: shown(from),
            call_id: shown(message.call_id()),
            endpoint: claimed(),
        }
    }
}

/// Most bytes of an unknown method that a fact shows.
const METHOD_TEXT_MAX: usize = 32;
