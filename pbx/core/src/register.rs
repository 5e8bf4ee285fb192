//! REGISTER, as a registrar answers it (RFC 3261 10.3), and what becomes of bindings later.
//!
//! The rules for one address of record are `sip::registrar`'s; the bindings lie in the table that
//! all shards share. The shard that accepted the last REGISTER of an address is its *keeper*: it
//! takes the binding out when its time is over. An address is looked at when the first of its
//! bindings may be over, at most [`EXPIRED_PER_TURN`] a turn.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use sip::endpoint::Reply;
use sip::path::Path;
use sip::registrar::{self, Aor, Change};
use sip::transaction::ServerId;
use sip::wire::Message;
use turn::{HashKey, Mono, Now, NumberMap, Wall, Wheel, number_map};

use crate::directory::{Phone, PhoneId};
use crate::gate::Caller;
use crate::shard::Shard;
use crate::shared::Stored;
use crate::{Fact, ShardOut, Unregistered};

/// Addresses whose bindings are looked at in one turn: some 50 us.
const EXPIRED_PER_TURN: usize = 64;

/// Seconds after which a phone may try again that found the table full.
const FULL_RETRY_AFTER: &[u8] = b"Retry-After: 30\r\n";

/// What a shard remembers of the addresses that it keeps.
#[derive(Debug)]
pub(crate) struct Registrar {
    /// When to look at an address again, by the hash of its name.
    wheel: Wheel<u64>,
    kept: NumberMap<Kept>,
    /// Those that are to be looked at now.
    due: VecDeque<u64>,
    fired: Vec<u64>,
    key: HashKey,
}

#[derive(Debug)]
struct Kept {
    name: Box<str>,
    /// When it is looked at next. What the wheel says besides is left from before.
    at: Mono,
}

impl Registrar {
    pub(crate) fn new(start: Mono, key: HashKey) -> Self {
        Self {
            wheel: Wheel::new(start),
            kept: number_map(0),
            due: VecDeque::new(),
            fired: Vec::new(),
            key,
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Mono> {
        if self.due.is_empty() { self.wheel.next_timeout() } else { Some(Mono::ZERO) }
    }

    /// How many addresses it keeps.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Looks at an address at `at`, or earlier if that is planned already.
    fn arm(&mut self, name: &str, at: Mono) {
        let hash = self.key.hash(name.as_bytes());
        let kept = self.kept.entry(hash).or_insert_with(|| Kept { name: name.into(), at: LATER });
        if at < kept.at {
            kept.at = at;
            self.wheel.arm(at, hash);
        }
    }

    /// The next address to look at.
    fn next_due(&mut self, now: Mono) -> Option<Box<str>> {
        loop {
            let hash = self.due.pop_front()?;
            if self.kept.get(&hash).is_some_and(|kept| kept.at <= now) {
                return self.kept.remove(&hash).map(|kept| kept.name);
            }
        }
    }
}

/// A time that does not come.
const LATER: Mono = Mono::from_nanos(u64::MAX);

impl Shard {
    /// A REGISTER from somebody who was let in.
    pub(crate) fn on_outside(
        &mut self,
        now: Now,
        (server, message): (ServerId, &Message<'_>),
        (path, caller): (Path, Option<Caller>),
        out: &mut ShardOut,
    ) {
        let (status, lines) = match caller {
            Some(Caller::Phone(id)) => self.on_register(now, id, message, path, out),
            Some(Caller::Trunk(_)) | None => (403, Vec::new()),
        };
        let reply = Reply { lines: &lines, ..Reply::status(status) };
        self.endpoint.answer_outside(now.mono, (server, message), path, &reply, &mut out.net);
    }

    /// Gives the status, and the lines that go with it.
    fn on_register(
        &mut self,
        now: Now,
        id: PhoneId,
        message: &Message<'_>,
        path: Path,
        out: &mut ShardOut,
    ) -> (u16, Vec<u8>) {
        let directory = Arc::clone(&self.directory);
        let Some(phone) = directory.phone(id) else { return (403, Vec::new()) };
        let aor_name = phone.aor();
        let keeper = self.shard;
        let mut outcome = None;
        let mut next = None;
        let has_room = self.shared.locations.change(aor_name, &mut |aor: &mut Aor| {
            let done = registrar::register(aor, message, path, now.wall, &phone.policy, keeper);
            tell_changes(phone, aor, &done.changes, (now, path), out);
            next = aor.next_expiry();
            outcome = Some((done.status, done.lines));
        });
        if !has_room {
            self.counts.registers_refused += 1;
            return (503, FULL_RETRY_AFTER.to_vec());
        }
        let (status, lines) = outcome.unwrap_or((500, Vec::new()));
        if status < 300 {
            self.counts.registers += 1;
        } else {
            self.counts.registers_refused += 1;
            let endpoint = Arc::clone(&phone.endpoint);
            out.facts.push(Fact::NotRegistered { endpoint, path, status });
        }
        if let Some(next) = next {
            self.registrar.arm(aor_name, later(now, next));
        }
        if status < 300 {
            self.watch_contacts(now, phone);
        }
        (status, lines)
    }

    /// Looks at the addresses whose bindings may be over.
    pub(crate) fn expire_bindings(&mut self, now: Now, out: &mut ShardOut) {
        let Registrar { wheel, due, fired, .. } = &mut self.registrar;
        wheel.fire(now.mono, fired);
        due.extend(fired.drain(..));
        for _ in 0..EXPIRED_PER_TURN {
            let Some(name) = self.registrar.next_due(now.mono) else { return };
            self.expire(now, &name, out);
        }
    }

    fn expire(&mut self, now: Now, name: &str, out: &mut ShardOut) {
        let keeper = self.shard;
        let mut next = None;
        let mut expired = 0;
        let mut is_known = false;
        self.shared.locations.view(name, &mut |aor: &Aor| is_known = aor.is_kept_by(keeper));
        if !is_known {
            return;
        }
        self.shared.locations.change(name, &mut |aor: &mut Aor| {
            for binding in aor.expire(now.wall) {
                expired += 1;
                tell_gone(now, name, binding.contact(), Unregistered::Expired, out);
            }
            next = aor.next_expiry();
        });
        self.counts.expired += expired;
        if let Some(next) = next {
            self.registrar.arm(name, later(now, next));
        }
    }

    /// Takes over addresses whose bindings were read from the disk at the start.
    pub fn restore(&mut self, names: impl IntoIterator<Item = Box<str>>) {
        for name in names {
            let hash = self.registrar.key.hash(name.as_bytes());
            self.registrar.kept.insert(hash, Kept { name, at: Mono::ZERO });
            self.registrar.due.push_back(hash);
        }
    }

    /// From now on the contacts that were read from the disk are asked whether they are there.
    pub fn watch_restored(&mut self, now: Now) {
        let Registrar { due, kept, .. } = &self.registrar;
        let names: Vec<Box<str>> =
            due.iter().filter_map(|hash| kept.get(hash)).map(|kept| kept.name.clone()).collect();
        let directory = Arc::clone(&self.directory);
        for phone in names.iter().filter_map(|name| directory.phone_named(name)) {
            self.watch_contacts(now, phone);
        }
    }

    /// Forgets a binding of an address, or all of them. Gives how many.
    pub fn unregister(
        &mut self,
        now: Now,
        name: &str,
        contact: Option<&[u8]>,
        out: &mut ShardOut,
    ) -> usize {
        let mut gone = 0;
        let mut is_known = false;
        self.shared.locations.view(name, &mut |_| is_known = true);
        if is_known {
            self.shared.locations.change(name, &mut |aor: &mut Aor| {
                for binding in
                    aor.remove(|binding| contact.is_none_or(|it| it == binding.contact()))
                {
                    gone += 1;
                    tell_gone(now, name, binding.contact(), Unregistered::Operator, out);
                }
            });
        }
        self.settle(now, out);
        gone
    }
}

/// Writes down and tells what a REGISTER changed.
fn tell_changes(
    phone: &Phone,
    aor: &Aor,
    changes: &[Change],
    (now, path): (Now, Path),
    out: &mut ShardOut,
) {
    for change in changes {
        match change {
            Change::Added { serial } | Change::Refreshed { serial } => {
                let Some(binding) = aor.binding(*serial) else { continue };
                let mut line = String::new();
                binding.to_line(phone.aor(), &mut line);
                out.stored.push(Stored::Binding(line.into()));
                out.facts.push(Fact::Registered {
                    endpoint: Arc::clone(&phone.endpoint),
                    contact: binding.contact().into(),
                    path,
                    expires: left(now.wall, binding.expires_at()),
                    is_new: matches!(change, Change::Added { .. }),
                });
            }
            Change::Removed { contact } => {
                tell_gone(now, phone.aor(), contact, Unregistered::Asked, out);
            }
            Change::Replaced { contact } => {
                tell_gone(now, phone.aor(), contact, Unregistered::Replaced, out);
            }
        }
    }
}

fn tell_gone(now: Now, aor: &str, contact: &[u8], why: Unregistered, out: &mut ShardOut) {
    let mut line = String::new();
    registrar::removed_to_line(aor, contact, now.wall, &mut line);
    out.stored.push(Stored::Binding(line.into()));
    out.facts.push(Fact::Unregistered { aor: aor.into(), contact: contact.into(), why });
}

fn left(now: Wall, until: Wall) -> Duration {
    let micros = until.as_micros().saturating_sub(now.as_micros());
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

fn later(now: Now, until: Wall) -> Mono {
    now.mono + left(now.wall, until)
}
