//! Keep-alives to the contacts of endpoints (`qualify`): an OPTIONS request now and then, whose
//! answer, whatever it says, means that the contact is there; the time it takes is its RTT.
//!
//! ```text
//! registered ─► waits ─ due ─► asked ─┬─ answer in time ─► reachable (after `up_after`), waits
//!                 ▲                   └─ silence ────────► unreachable (after `down_after`), waits
//!                 └── while the binding is there and this shard keeps it
//! ```
//!
//! Calls leave out contacts that are known to be unreachable. Each contact is looked after by the
//! shard that took its REGISTER.

use std::sync::Arc;
use std::time::Duration;

use ::sip::agent::push_address;
use ::sip::endpoint::Outside;
use ::sip::path::Path;
use ::sip::registrar::{Aor, Reach};
use turn::{HashKey, Mono, Now, NumberMap, Rng, Wheel, number_map};

use crate::directory::{Phone, QualifySpec};
use crate::shard::Shard;
use crate::{Fact, ShardOut};

/// Marks the owner of such a request: lines to trunks have small numbers.
const MARK: u64 = 1 << 63;

/// The longest time until a new contact is asked first: a thousand phones that register at once
/// are not asked at once.
const FIRST_MAX: Duration = Duration::from_secs(10);

/// All contacts that this shard asks.
#[derive(Debug)]
pub(crate) struct Pings {
    by_key: NumberMap<Ping>,
    wheel: Wheel<(u64, u32)>,
    rng: Rng,
    key: HashKey,
}

#[derive(Debug)]
struct Ping {
    aor: Box<str>,
    contact: Box<[u8]>,
    sent: Option<Mono>,
    silences: u8,
    answers: u8,
    cseq: u32,
    /// Another one after each use: what belongs to an older one is stale.
    round: u32,
}

/// Where a contact is asked.
struct Way {
    path: Path,
    lines: Vec<u8>,
    spec: QualifySpec,
}

impl Pings {
    pub(crate) fn new(start: Mono, mut rng: Rng) -> Self {
        let key = rng.hash_key();
        Self { by_key: number_map(0), wheel: Wheel::new(start), rng, key }
    }

    pub(crate) fn next_timeout(&self) -> Option<Mono> {
        self.wheel.next_timeout()
    }

    /// How many contacts are asked.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    fn key_of(&self, aor: &str, contact: &[u8]) -> u64 {
        self.key.hash(&[aor.as_bytes(), b"\0", contact].concat()) | MARK
    }

    fn wait(&mut self, key: u64, due: Mono) {
        if let Some(ping) = self.by_key.get_mut(&key) {
            ping.round = ping.round.wrapping_add(1);
            self.wheel.arm(due, (key, ping.round));
        }
    }
}

/// Whether a request of ours was such a keep-alive.
pub(crate) fn is_ping(owner: u64) -> bool {
    owner & MARK != 0
}

impl Shard {
    /// The bindings of an endpoint may have changed: each contact is asked from now on.
    pub(crate) fn watch_contacts(&mut self, now: Now, phone: &Phone) {
        let Some(spec) = phone.qualify else { return };
        let shard = self.shard;
        let mut contacts: Vec<Box<[u8]>> = Vec::new();
        self.shared.locations.view(phone.aor(), &mut |aor: &Aor| {
            let ours = aor.bindings().iter().filter(|binding| binding.keeper() == shard);
            contacts.extend(ours.map(|binding| binding.contact().into()));
        });
        for contact in contacts {
            let key = self.pings.key_of(phone.aor(), &contact);
            if self.pings.by_key.contains_key(&key) {
                continue;
            }
            let aor = phone.aor().into();
            let ping =
                Ping { aor, contact, sent: None, silences: 0, answers: 0, cseq: 0, round: 0 };
            self.pings.by_key.insert(key, ping);
            let most = spec.every.min(FIRST_MAX).as_millis();
            let first = self.pings.rng.below(u64::try_from(most).unwrap_or(1).max(1));
            self.pings.wait(key, now.mono + Duration::from_millis(first));
        }
    }

    /// Asks the contacts whose time has come, and gives up those that did not answer in time.
    pub(crate) fn fire_pings(&mut self, now: Now, out: &mut ShardOut) {
        let mut due = Vec::new();
        self.pings.wheel.fire(now.mono, &mut due);
        for (key, round) in due {
            let Some(ping) = self.pings.by_key.get_mut(&key).filter(|it| it.round == round) else {
                continue;
            };
            match ping.sent.take() {
                Some(_) => self.on_contact_answer(now, key, None, out),
                None => self.ask_contact(now, key, out),
            }
        }
    }

    /// The answer to a keep-alive, or that there will be none.
    pub(crate) fn on_ping_reply(
        &mut self,
        now: Now,
        key: u64,
        is_answered: bool,
        out: &mut ShardOut,
    ) {
        let Some(ping) = self.pings.by_key.get_mut(&key) else { return };
        let Some(sent) = ping.sent.take() else { return };
        let rtt = is_answered.then(|| now.mono - sent);
        self.on_contact_answer(now, key, rtt, out);
    }

    /// Where a contact is, if it is still to be asked.
    fn way_of_contact(&self, key: u64) -> Option<Way> {
        let ping = self.pings.by_key.get(&key)?;
        let phone = self.directory.phone_named(&ping.aor)?;
        let spec = phone.qualify?;
        let mut way = None;
        self.shared.locations.view(&ping.aor, &mut |aor: &Aor| {
            let known = aor.bindings().iter().find(|binding| {
                binding.contact() == &*ping.contact && binding.keeper() == self.shard
            });
            way = known.map(|binding| {
                let remote = binding.address(phone.rewrites_contact);
                let mut lines = Vec::new();
                if !binding.path_header().is_empty() {
                    lines.extend_from_slice(b"Route: ");
                    lines.extend_from_slice(binding.path_header());
                    lines.extend_from_slice(b"\r\n");
                }
                Way { path: Path { remote, ..binding.way() }, lines, spec }
            });
        });
        way
    }

    fn ask_contact(&mut self, now: Now, key: u64, out: &mut ShardOut) {
        let Some(Way { path, lines, spec }) = self.way_of_contact(key) else {
            self.pings.by_key.remove(&key);
            return;
        };
        let Some(ping) = self.pings.by_key.get_mut(&key) else { return };
        ping.sent = Some(now.mono);
        ping.cseq += 1;
        let mut from = b"sip:".to_vec();
        push_address(&mut from, path.local);
        let tag = format!("{:x}", key & !MARK);
        let call_id = format!("{:016x}", self.pings.key.hash(&key.to_le_bytes()));
        let request = Outside {
            path,
            method: b"OPTIONS",
            uri: &ping.contact,
            from: &from,
            from_tag: tag.as_bytes(),
            to: &ping.contact,
            call_id: call_id.as_bytes(),
            cseq: ping.cseq,
            lines: &lines,
        };
        let is_sent = self.endpoint.request(now.mono, &request, key, &mut out.net);
        if is_sent {
            self.pings.wait(key, now.mono + spec.timeout);
        } else {
            // A full table says nothing about the contact.
            if let Some(ping) = self.pings.by_key.get_mut(&key) {
                ping.sent = None;
            }
            self.pings.wait(key, now.mono + spec.every);
        }
    }

    fn on_contact_answer(&mut self, now: Now, key: u64, rtt: Option<Duration>, out: &mut ShardOut) {
        let Some(Way { path, spec, .. }) = self.way_of_contact(key) else {
            self.pings.by_key.remove(&key);
            return;
        };
        let Some(ping) = self.pings.by_key.get_mut(&key) else { return };
        let is_due = match rtt {
            Some(_) => {
                ping.silences = 0;
                ping.answers = ping.answers.saturating_add(1);
                ping.answers >= spec.up_after
            }
            None => {
                ping.answers = 0;
                ping.silences = ping.silences.saturating_add(1);
                ping.silences >= spec.down_after
            }
        };
        let (aor_name, contact) = (ping.aor.clone(), ping.contact.clone());
        let mut changed = None;
        self.shared.locations.change(&aor_name, &mut |aor: &mut Aor| {
            let known = aor.bindings().iter().find(|binding| binding.contact() == &*contact);
            let Some((serial, was)) = known.map(|binding| (binding.serial(), binding.reach()))
            else {
                return;
            };
            let reach = match rtt {
                Some(rtt) if is_due || was != Reach::Unreachable => {
                    Reach::Reachable { rtt_us: u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX) }
                }
                None if is_due => Reach::Unreachable,
                Some(_) | None => was,
            };
            aor.mark(serial, reach);
            let was_there = was != Reach::Unreachable;
            let is_there = reach != Reach::Unreachable;
            let is_first = was == Reach::Unknown && rtt.is_some();
            if was_there != is_there || is_first {
                changed = Some(is_there);
            }
        });
        if let Some(is_reachable) = changed {
            let phone = self.directory.phone_named(&aor_name);
            if let Some(phone) = phone {
                let endpoint = Arc::clone(&phone.endpoint);
                let peer = crate::Hop::Address(path.remote, path.transport);
                out.facts.push(Fact::PeerReach { endpoint, peer, is_reachable, rtt });
            }
        }
        self.pings.wait(key, now.mono + spec.every);
    }
}
