//! One REGISTER (RFC 3261 §10.3, steps 6 to 8).

use smallvec::SmallVec;
use std::time::Duration;
use turn::Wall;

use super::binding::{Aor, Binding, Parts, Reach, left};
use super::{CONTACTS_MAX, Policy, TEXT_MAX, WhenFull};
use crate::path::Path;
use crate::wire::{Message, Name, NameAddr, Scheme, Uri, push_decimal};

/// RFC 3261 §10.2.1.1: an unreadable time counts as an hour, and what is longer than an hour is
/// never too brief (§10.3 step 7).
const HOUR: Duration = Duration::from_secs(3600);

/// What a REGISTER did to one binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// There is a new one.
    Added {
        /// Which.
        serial: u32,
    },
    /// It lasts longer.
    Refreshed {
        /// Which.
        serial: u32,
    },
    /// It is gone, as was asked for.
    Removed {
        /// Its contact.
        contact: Box<[u8]>,
    },
    /// It is gone since another one took its place.
    Replaced {
        /// Its contact.
        contact: Box<[u8]>,
    },
}

/// The answer to a REGISTER.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// The status.
    pub status: u16,
    /// Finished header lines: Contact for each binding, Path, Min-Expires.
    pub lines: Vec<u8>,
    /// What changed; nothing unless the status is 200.
    pub changes: SmallVec<[Change; 1]>,
}

/// A contact, as the request asks for it.
#[derive(Clone, Copy, Debug)]
struct Wanted<'m> {
    uri: &'m [u8],
    instance: &'m [u8],
    reg_id: u32,
    q: u16,
    /// Zero removes the binding.
    expires: Duration,
}

/// Does what `message`, a REGISTER that came by `way`, asks of `aor`.
pub fn register(
    aor: &mut Aor,
    message: &Message<'_>,
    way: Path,
    now: Wall,
    policy: &Policy,
    keeper: u8,
) -> Registered {
    // What is over does not count, whether or not its keeper has noticed.
    let over = aor.expire(now);
    let mut changes: SmallVec<[Change; 1]> = over
        .into_iter()
        .map(|binding| Change::Removed { contact: binding.contact().into() })
        .collect();
    let asked = Asked { message, way, now, policy, keeper };
    let outcome = match message.is_contact_star() {
        true => asked.clear(aor, &mut changes),
        false => asked.all(aor, &mut changes),
    };
    match outcome {
        Ok(()) => Registered { status: 200, lines: asked.lines(aor), changes },
        Err(refused) => Registered { status: refused.status, lines: refused.lines, changes },
    }
}

/// A refusal.
struct Refused {
    status: u16,
    lines: Vec<u8>,
}

impl Refused {
    fn with(status: u16) -> Self {
        Self { status, lines: Vec::new() }
    }
}

/// A REGISTER and all that it is judged by.
struct Asked<'a, 'm> {
    message: &'a Message<'m>,
    way: Path,
    now: Wall,
    policy: &'a Policy,
    keeper: u8,
}

type Changes = SmallVec<[Change; 1]>;

impl<'m> Asked<'_, 'm> {
    /// `Contact: *` (step 6): alone, and with `Expires: 0`.
    fn clear(&self, aor: &mut Aor, changes: &mut Changes) -> Result<(), Refused> {
        let is_alone = self.message.values(Name::Contact).count() == 1;
        if !is_alone || self.message.header(Name::Expires).and_then(seconds) != Some(0) {
            return Err(Refused::with(400));
        }
        if aor.bindings.iter().any(|binding| self.is_late(binding)) {
            return Err(Refused::with(500));
        }
        let gone = aor.bindings.drain(..);
        changes.extend(gone.map(|it| Change::Removed { contact: it.contact().into() }));
        Ok(())
    }

    /// The contacts (step 7), all or none.
    fn all(&self, aor: &mut Aor, changes: &mut Changes) -> Result<(), Refused> {
        let mut wanted: SmallVec<[Wanted<'m>; 1]> = SmallVec::new();
        for value in self.message.values(Name::Contact) {
            if wanted.len() == CONTACTS_MAX {
                return Err(Refused::with(400));
            }
            wanted.push(self.read(value)?);
        }
        if let [one] = wanted[..] {
            return self.one(aor, &one, changes);
        }
        let (before, known) = (aor.clone(), changes.len());
        for one in &wanted {
            if let Err(refused) = self.one(aor, one, changes) {
                *aor = before;
                changes.truncate(known);
                return Err(refused);
            }
        }
        Ok(())
    }

    fn read(&self, value: &'m [u8]) -> Result<Wanted<'m>, Refused> {
        let bad = || Refused::with(400);
        let contact = NameAddr::parse(value).map_err(|_| bad())?;
        let uri = Uri::parse(contact.uri).map_err(|_| bad())?;
        let instance = contact.params.value(b"+sip.instance").unwrap_or_default();
        let is_short = contact.uri.len() <= TEXT_MAX && instance.len() <= TEXT_MAX;
        if !matches!(uri.scheme, Scheme::Sip | Scheme::Sips) || !is_short {
            return Err(bad());
        }
        let header = || self.message.header(Name::Expires);
        let said = contact.params.value(b"expires").or_else(header);
        let expires = match said.map(seconds) {
            Some(Some(seconds)) => Duration::from_secs(seconds.into()),
            Some(None) => HOUR,
            None => self.policy.expires_default,
        };
        let is_brief = !expires.is_zero() && expires < self.policy.expires_min.min(HOUR);
        if is_brief {
            let mut lines = b"Min-Expires: ".to_vec();
            push_decimal(&mut lines, self.policy.expires_min.as_secs());
            lines.extend_from_slice(b"\r\n");
            return Err(Refused { status: 423, lines });
        }
        let reg_id = contact.params.value(b"reg-id").and_then(seconds).unwrap_or(0);
        Ok(Wanted {
            uri: contact.uri,
            instance,
            reg_id,
            q: contact.params.value(b"q").map_or(1000, thousandths),
            expires: expires.min(self.policy.expires_max),
        })
    }

    /// One contact. Nothing has changed when it is refused.
    fn one(
        &self,
        aor: &mut Aor,
        wanted: &Wanted<'m>,
        changes: &mut Changes,
    ) -> Result<(), Refused> {
        // The device's own, before one that has only the same address.
        let is_device =
            |it: &Binding| !wanted.instance.is_empty() && it.instance() == wanted.instance;
        let all = || aor.bindings.iter().enumerate().filter(|(_, it)| is_same(it, wanted));
        let place = all().find(|(_, it)| is_device(it)).or_else(|| all().next());
        let place = place.map(|(place, _)| place);
        if place.is_some_and(|place| self.is_late(&aor.bindings[place])) {
            return Err(Refused::with(500));
        }
        if wanted.expires.is_zero() {
            if let Some(place) = place {
                let gone = aor.bindings.remove(place);
                changes.push(Change::Removed { contact: gone.contact().into() });
            }
            return Ok(());
        }
        let texts = self.texts()?;
        if place.is_none() && aor.bindings.len() >= usize::from(self.policy.contacts_max) {
            let victim = self.victim(aor).ok_or(Refused::with(403))?;
            let gone = aor.bindings.remove(victim);
            changes.push(Change::Replaced { contact: gone.contact().into() });
        }
        let mut binding = self.binding(wanted, &texts);
        binding.serial = aor.next_serial();
        let serial = binding.serial;
        match place {
            Some(place) => {
                let before = std::mem::replace(&mut aor.bindings[place], binding);
                if before.contact() != wanted.uri {
                    changes.push(Change::Replaced { contact: before.contact().into() });
                    changes.push(Change::Added { serial });
                } else {
                    aor.mark(serial, before.reach());
                    changes.push(Change::Refreshed { serial });
                }
            }
            None => {
                // One at a time: most endpoints have one contact, and space for four would be half
                // of what a registrar's table takes.
                aor.bindings.reserve_exact(1);
                aor.bindings.push(binding);
                changes.push(Change::Added { serial });
            }
        }
        // What was the same device or the same address is the new one now, and not there twice.
        aor.bindings.retain(|it| {
            let stays = it.serial == serial || !(is_same(it, wanted) || it.contact() == wanted.uri);
            if !stays && it.contact() != wanted.uri {
                changes.push(Change::Replaced { contact: it.contact().into() });
            }
            stays
        });
        Ok(())
    }

    /// Call-ID, Path and User-Agent, short enough to be kept.
    fn texts(&self) -> Result<(Vec<u8>, &'m [u8]), Refused> {
        let mut path = Vec::new();
        for value in self.message.values(Name::Path) {
            if !path.is_empty() {
                path.extend_from_slice(b", ");
            }
            crate::wire::unfold(value, &mut path);
        }
        if path.len() > TEXT_MAX || self.message.call_id().len() > TEXT_MAX {
            return Err(Refused::with(400));
        }
        let agent = self.message.header(Name::UserAgent).unwrap_or_default();
        Ok((path, &agent[..agent.len().min(AGENT_MAX)]))
    }

    fn binding(&self, wanted: &Wanted<'m>, (path, user_agent): &(Vec<u8>, &'m [u8])) -> Binding {
        let micros = i64::try_from(wanted.expires.as_micros()).unwrap_or(i64::MAX);
        Binding::new(&Parts {
            contact: wanted.uri,
            call_id: self.message.call_id(),
            instance: wanted.instance,
            path,
            user_agent,
            reg_id: wanted.reg_id,
            cseq: self.message.cseq().number,
            q: wanted.q,
            keeper: self.keeper,
            expires_at: Wall::from_micros(self.now.as_micros().saturating_add(micros)),
            registered_at: self.now,
            way: self.way,
        })
    }

    /// Whether the request is older than what made the binding, or the same.
    fn is_late(&self, binding: &Binding) -> bool {
        binding.call_id() == self.message.call_id() && self.message.cseq().number <= binding.cseq()
    }

    /// Which binding goes when there is no room for another one.
    fn victim(&self, aor: &Aor) -> Option<usize> {
        let of = |is_it: &dyn Fn(&Binding) -> bool| aor.bindings.iter().position(is_it);
        let call_id = self.message.call_id();
        of(&|binding| binding.call_id() == call_id && !self.is_late(binding))
            .or_else(|| of(&|binding| binding.reach() == Reach::Unreachable))
            .or_else(|| {
                let oldest = (0..aor.bindings.len())
                    .min_by_key(|place| aor.bindings[*place].registered_at());
                oldest.filter(|_| self.policy.when_full == WhenFull::ReplaceOldest)
            })
    }

    /// The lines of a 200: every binding with what is left of its time (step 8).
    fn lines(&self, aor: &Aor) -> Vec<u8> {
        let mut out = Vec::with_capacity(96 * aor.bindings.len());
        for binding in &aor.bindings {
            out.extend_from_slice(b"Contact: <");
            out.extend_from_slice(binding.contact());
            out.extend_from_slice(b">;expires=");
            // Rounded up: a phone that is told 0 would take itself for unregistered.
            let left = left(self.now, binding.expires_at());
            push_decimal(&mut out, left.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX));
            if binding.q() < 1000 {
                out.extend_from_slice(format!(";q=0.{:03}", binding.q()).as_bytes());
            }
            if !binding.instance().is_empty() {
                out.extend_from_slice(b";+sip.instance=");
                out.extend_from_slice(binding.instance());
            }
            if binding.reg_id() > 0 {
                out.extend_from_slice(format!(";reg-id={}", binding.reg_id()).as_bytes());
            }
            out.extend_from_slice(b"\r\n");
        }
        let knows_path =
            self.message.values(Name::Supported).any(|it| it.eq_ignore_ascii_case(b"path"));
        if knows_path {
            // RFC 3327 5.3: the client learns which way it took.
            for value in self.message.values(Name::Path) {
                out.extend_from_slice(b"Path: ");
                crate::wire::unfold(value, &mut out);
                out.extend_from_slice(b"\r\n");
            }
        }
        out
    }
}

/// The longest User-Agent that is kept; the rest is cut.
const AGENT_MAX: usize = 80;

fn is_same(binding: &Binding, wanted: &Wanted<'_>) -> bool {
    if !binding.instance().is_empty() && !wanted.instance.is_empty() {
        return binding.instance() == wanted.instance && binding.reg_id() == wanted.reg_id;
    }
    if binding.contact() == wanted.uri {
        return true;
    }
    match (Uri::parse(binding.contact()), Uri::parse(wanted.uri)) {
        (Ok(old), Ok(new)) => old.equivalent(&new),
        (Ok(_) | Err(_), _) => false,
    }
}

/// Reads `delta-seconds`; what is larger than 32 bits counts as the largest.
fn seconds(text: &[u8]) -> Option<u32> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = text.iter().fold(0_u32, |number, digit| {
        number.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
    });
    Some(number)
}

/// Reads a q value as thousandths; what is none counts as 1.
fn thousandths(text: &[u8]) -> u16 {
    let (whole, fraction) = match text.iter().position(|byte| *byte == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &b""[..]),
    };
    let is_number = fraction.len() <= 3 && fraction.iter().all(u8::is_ascii_digit);
    if whole != b"0" || !is_number {
        return 1000;
    }
    (0..3).fold(0, |sum, at| sum * 10 + u16::from(fraction.get(at).map_or(0, |it| it - b'0')))
}

#[cfg(test)]
mod tests;
