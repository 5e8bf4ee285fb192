//! Where a call goes when the phone that it called does not take it: forwarding as configured
//! (busy, no answer; `always` is decided before), and the phone's own redirection (a 3xx, RFC 3261
//! §8.1.3.4). Both go on as a Local leg to a number in the phone's context: what a phone may not
//! dial, it may not redirect to either.

use std::sync::Arc;

use ::sip::usage::End;
use ::sip::wire::{NameAddr, Uri};
use call::{Cause, LegEvent, Placement};
use turn::{Mono, Now, Slot, Wheel};

use crate::directory::{Forward, Phone};
use crate::remote::LegOwner;
use crate::shard::Shard;
use crate::{Fact, Onto, ShardOut};

/// Early dialogs of the leg that a call goes on as begin here: those below were the phone's.
const BASE: u8 = 4;

/// What a leg to a phone needs to go on elsewhere.
#[derive(Debug)]
pub(super) struct Onward {
    placement: Box<Placement>,
    forward: Forward,
    context: Arc<call::Endpoint>,
    /// Whether a redirection is followed.
    follows: bool,
}

/// The timers of legs that go on when nobody answers.
#[derive(Debug)]
pub(crate) struct Patience {
    wheel: Wheel<Slot>,
}

impl Patience {
    pub(crate) fn new(start: Mono) -> Self {
        Self { wheel: Wheel::new(start) }
    }

    pub(crate) fn next_timeout(&self) -> Option<Mono> {
        self.wheel.next_timeout()
    }
}

impl Onward {
    pub(super) fn new(phone: &Phone, placement: Box<Placement>) -> Self {
        let follows = !placement.stays;
        let forward = if follows { phone.forward.clone() } else { Forward::default() };
        Self { placement, forward, context: Arc::clone(&phone.endpoint), follows }
    }

    /// The number to go on to for that reason, if there is one.
    fn number(&self, cause: &Cause) -> Option<(Box<str>, Onto)> {
        if let 300..=399 = cause.code() {
            let contacts = cause.origin.as_ref()?.contacts.as_ref()?;
            return Some((redirected(contacts).filter(|_| self.follows)?, Onto::Redirected));
        }
        match cause.q850 {
            17 => Some((self.forward.busy.clone()?, Onto::Busy)),
            18..=20 => {
                let (number, _) = self.forward.no_answer.as_ref()?;
                Some((number.clone(), Onto::NoAnswer))
            }
            _ => None,
        }
    }
}

impl Shard {
    /// The forwarding that holds before a phone is called, if any.
    pub(super) fn forward_at_once(
        phone: &Phone,
        placement: &Placement,
        refusal: Option<&Cause>,
    ) -> Option<(Box<str>, Onto)> {
        if placement.stays {
            return None;
        }
        let no_answer = || phone.forward.no_answer.as_ref().map(|(number, _)| number.clone());
        match refusal.map(|cause| cause.q850) {
            None => Some((phone.forward.always.clone()?, Onto::Always)),
            Some(17) => Some((phone.forward.busy.clone()?, Onto::Busy)),
            Some(20) => Some((no_answer()?, Onto::NoAnswer)),
            Some(_) => None,
        }
    }

    /// Calls a number in place of a phone.
    pub(super) fn go_on(
        &mut self,
        now: Now,
        owner: LegOwner,
        mut placement: Box<Placement>,
        (phone, number, onto): (&call::Endpoint, &str, Onto),
        out: &mut ShardOut,
    ) -> Result<(), Cause> {
        let endpoint: Box<str> = phone.name.clone();
        out.facts.push(Fact::Forwarded { endpoint, number: number.into(), onto });
        self.counts.forwarded += 1;
        self.place_local(now, owner, &mut placement, (number, &phone.context, BASE))
    }

    /// Lets a leg's patience end in time.
    pub(super) fn be_patient(&mut self, now: Now, slot: Slot) {
        let leg = self.legs.view(slot);
        let onward = leg.and_then(|leg| leg.onward.as_ref());
        if let Some((_, span)) = onward.and_then(|onward| onward.forward.no_answer.as_ref()) {
            self.patience.wheel.arm(now.mono + *span, slot);
        }
    }

    /// Legs that nobody answered for long enough go on.
    pub(crate) fn fire_patience(&mut self, now: Now, out: &mut ShardOut) {
        let mut due = Vec::new();
        self.patience.wheel.fire(now.mono, &mut due);
        for slot in due {
            let Some(leg) = self.legs.view(slot).filter(|leg| leg.onward.is_some()) else {
                continue;
            };
            let (usage, is_forked) = (leg.usage, leg.fork.is_some());
            match is_forked {
                true => self.end_branches(now, slot, &End::default(), out),
                false => self.endpoint.end(now.mono, usage, &End::default(), &mut out.net),
            }
            self.fail_leg(now, slot, Cause::NO_ANSWER, out);
        }
    }

    /// The party of a leg that was not answered does not take the call: it goes on elsewhere, or is
    /// over.
    pub(super) fn fail_leg(&mut self, now: Now, slot: Slot, cause: Cause, out: &mut ShardOut) {
        let onward = self.legs.view_mut(slot).and_then(|leg| leg.onward.take());
        let way = onward.and_then(|onward| {
            let (number, onto) = onward.number(&cause)?;
            Some((onward, number, onto))
        });
        let Some((onward, number, onto)) = way else {
            return self.release_leg(now, slot, cause, out);
        };
        let Some(owner) = self.remove_leg(slot) else { return };
        let Onward { placement, context, .. } = *onward;
        if let Err(cause) = self.go_on(now, owner, placement, (&context, &number, onto), out) {
            self.tell(now, owner, LegEvent::Released(cause), out);
        }
    }
}

/// The user part of the contact with the highest q, of lines `Contact: ...`.
fn redirected(contacts: &[u8]) -> Option<Box<str>> {
    let lines = contacts.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let values = lines.filter_map(|line| line.strip_prefix(b"Contact: "));
    let mut best: Option<(u32, Box<str>)> = None;
    for contact in values.filter_map(|value| NameAddr::parse(value).ok()) {
        let Ok(uri) = Uri::parse(contact.uri) else { continue };
        let mut user = Vec::new();
        uri.user_text(&mut user);
        let Ok(user) = String::from_utf8(user) else { continue };
        let is_clean = !user.is_empty() && !user.chars().any(char::is_control);
        let q = contact.params.value(b"q").map_or(1_000, thousandths);
        if is_clean && best.as_ref().is_none_or(|(known, _)| q > *known) {
            best = Some((q, user.into()));
        }
    }
    best.map(|(_, user)| user)
}

/// `0.5` as 500; what is no q is the lowest.
fn thousandths(q: &[u8]) -> u32 {
    let text = std::str::from_utf8(q).unwrap_or_default();
    let value: f32 = text.trim().parse().unwrap_or(0.0);
    (value.clamp(0.0, 1.0) * 1_000.0) as u32
}

#[cfg(test)]
mod tests {
    use super::redirected;

    #[test]
    fn a_redirection_is_to_the_user_that_is_preferred() {
        let user = |lines: &str| redirected(lines.as_bytes()).map(String::from);
        assert_eq!(user("Contact: <sip:200@a>\r\n").as_deref(), Some("200"));
        let two = "Contact: <sip:200@a>;q=0.3\r\nContact: \"B\" <sip:3%301@b>;q=0.7\r\n";
        assert_eq!(user(two).as_deref(), Some("301"));
        assert_eq!(user("Contact: <sip:a.example>\r\n"), None);
        assert_eq!(user("Contact: <sip:%0a@a>\r\n"), None);
        assert_eq!(user("Contact: nonsense\r\n"), None);
    }
}
