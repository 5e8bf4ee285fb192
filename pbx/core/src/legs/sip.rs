//! What a SIP usage says, told to `call`.

use std::sync::Arc;

use ::sip::agent::{MAX_FORWARDS, push_address};
use ::sip::path::Path;
use ::sip::usage::offers::Kind;
use ::sip::usage::{Body, End, Event, RequestId as SipRequestId, UsageId, What};
use ::sip::wire::{Message, Name, Scheme, Uri};
use bytes::Bytes;
use call::{
    Description, Early, Foreign, LegEvent, OfferId, RequestId, SessionPart, Setup, SetupText, Text,
};
use smallvec::SmallVec;
use turn::{Now, Slot};

use super::cause::{cause_of, cause_of_status};
use super::{Claim, Leg, Scratch};
use crate::CallerId;
use crate::ShardOut;
use crate::gate::Caller;
use crate::remote::LegOwner;
use crate::shard::{Shard, cx};

/// Seconds after which a caller may try again who found a table full.
const FULL_RETRY_AFTER_S: u32 = 5;

impl Shard {
    /// Something happened to a usage. `path` is the way of the message that brought it, if one did.
    pub(crate) fn on_event(
        &mut self,
        now: Now,
        event: Event<'_>,
        (path, caller): (Path, Option<Caller>),
        out: &mut ShardOut,
    ) {
        if let What::Invited { message, offer } = event.what {
            self.on_invited(now, event.usage, (message, offer), (path, caller), out);
            return;
        }
        if let What::Outside { server, message } = event.what {
            self.on_outside(now, (server, &message), (path, caller), out);
            return;
        }
        if let What::OutsideReplied { owner, status, message } = event.what {
            self.on_line_reply(now, owner, (status, message), out);
            return;
        }
        let Some(slot) = event.owner else { return };
        let Some(leg) = self.legs.view(slot) else { return };
        if leg.fork.is_some() {
            self.on_branch(now, slot, (event.usage, event.what), out);
            return;
        }
        match translate(&event.what) {
            Told::Event(leg_event) => self.tell_leg(now, slot, *leg_event, out),
            Told::Over(cause) => self.fail_leg(now, slot, cause, out),
            Told::Nothing => {}
        }
    }

    /// A new call from outside.
    fn on_invited(
        &mut self,
        now: Now,
        usage: UsageId,
        (message, offer): (Message<'_>, Option<(u32, Body<'_>)>),
        (path, caller): (Path, Option<Caller>),
        out: &mut ShardOut,
    ) {
        let refuse = |status| End { status, ..End::default() };
        let directory = Arc::clone(&self.directory);
        let known = match caller {
            Some(Caller::Trunk(id)) => directory
                .trunks()
                .view(id)
                .map(|trunk| (&trunk.endpoint, Claim::Trunk(id), NOBODY_ELSE)),
            Some(Caller::Phone(id)) => directory.phone(id).map(|phone| {
                (&phone.endpoint, Claim::Phone(Arc::clone(&phone.state)), &phone.caller_id)
            }),
            None => None,
        };
        let Some((endpoint, claim, shown)) = known else {
            self.endpoint.end(now.mono, usage, &refuse(403), &mut out.net);
            return;
        };
        let Some(text) = read_text(&mut self.scratch, &message, &path, shown) else {
            self.endpoint.end(now.mono, usage, &refuse(404), &mut out.net);
            return;
        };
        let setup = Setup {
            endpoint: Arc::clone(endpoint),
            text,
            may_grow: false,
            hops: message.max_forwards().unwrap_or(MAX_FORWARDS),
            local: path.local.ip(),
            offer: offer.map(|(oid, body)| (OfferId(oid), description(body))),
            headers: if self.plan.reads_headers() { header_lines(&message) } else { "".into() },
            variables: Vec::new(),
            is_answered: false,
        };
        let plan = Arc::clone(&self.plan);
        let mut cx = cx!(self, now);
        let has_room = self.legs.next_slot().is_some();
        let leg = has_room.then(|| self.calls.setup(&mut cx, &plan, setup).ok()).flatten();
        let Some(leg) = leg else {
            self.counts.full += 1;
            let end = End { retry_after_s: Some(FULL_RETRY_AFTER_S), ..refuse(503) };
            self.endpoint.end(now.mono, usage, &end, &mut out.net);
            return;
        };
        let owner = LegOwner { shard: self.shard, leg };
        if let Some(slot) = self.add_leg(Leg::new(usage, owner, SmallVec::from_iter([claim]))) {
            self.endpoint.set_owner(usage, slot);
        }
    }

    pub(super) fn usage_of(&self, slot: Slot) -> Option<UsageId> {
        self.legs.view(slot).map(|leg| leg.usage)
    }
}

/// What an event is to `call`.
pub(super) enum Told {
    Event(Box<LegEvent>),
    Over(call::Cause),
    Nothing,
}

pub(super) fn translate(what: &What<'_>) -> Told {
    let event = match *what {
        What::Outside { .. } | What::OutsideReplied { .. } | What::Invited { .. } | What::Acked => {
            return Told::Nothing;
        }
        What::Provisional { status: 100, .. } => LegEvent::Proceeding,
        What::Provisional { early, status, answer } => provisional(early, status, answer),
        What::Accepted { early, session, .. } => {
            LegEvent::Answered { early: Early(early), session: session_of(session) }
        }
        What::Described { oid, kind: Kind::Offer, body } => {
            LegEvent::Offer(OfferId(oid), description(body))
        }
        What::Described { oid, kind: Kind::Answer, body } => {
            LegEvent::Answer(OfferId(oid), description(body))
        }
        What::WantsOffer { oid } => LegEvent::OfferWanted(OfferId(oid)),
        What::OfferRefused { oid, status } => {
            LegEvent::OfferRefused(OfferId(oid), cause_of_status(status))
        }
        What::Asked { rid, message } => LegEvent::Foreign(request_id(rid), foreign(&message)),
        What::Replied { rid, status, message } => {
            let foreign = message.as_ref().map_or_else(empty_foreign, foreign);
            LegEvent::ForeignReply(request_id(rid), status, foreign)
        }
        What::Ended { why, ref message } => return Told::Over(cause_of(why, message.as_ref())),
    };
    Told::Event(Box::new(event))
}

fn provisional(early: u8, status: u16, answer: Option<(u32, Body<'_>)>) -> LegEvent {
    let answer = answer.map(|(oid, body)| (OfferId(oid), description(body)));
    let early = Early(early);
    match status {
        180 => LegEvent::Alerting { early, answer },
        _ => LegEvent::Progress { early, inband: answer.is_some(), answer },
    }
}

fn session_of(session: Option<(u32, Kind, Body<'_>)>) -> SessionPart {
    match session {
        None => SessionPart::Unsaid,
        Some((oid, Kind::Answer, body)) => SessionPart::Answer(OfferId(oid), description(body)),
        Some((oid, Kind::Offer, body)) => SessionPart::Offer(OfferId(oid), description(body)),
    }
}

fn request_id(rid: SipRequestId) -> RequestId {
    RequestId(rid)
}

const SDP: &[u8] = b"application/sdp";

fn description(body: Body<'_>) -> Description {
    let content_type = match body.content_type {
        SDP => Bytes::from_static(SDP),
        other => Bytes::copy_from_slice(other),
    };
    Description { content_type, body: Bytes::copy_from_slice(body.bytes) }
}

/// A request or response for the other leg: what is end to end, as it stood.
fn foreign(message: &Message<'_>) -> Foreign {
    let mut head = Vec::new();
    for field in message.fields() {
        if is_end_to_end(field.name) {
            head.extend_from_slice(field.raw_name);
            head.extend_from_slice(b": ");
            ::sip::wire::unfold(field.value, &mut head);
            head.extend_from_slice(b"\r\n");
        }
    }
    Foreign {
        kind: Bytes::copy_from_slice(message.method().as_bytes()),
        head: head.into(),
        body: Bytes::copy_from_slice(message.body()),
    }
}

pub(super) fn empty_foreign() -> Foreign {
    Foreign { kind: Bytes::new(), head: Bytes::new(), body: Bytes::new() }
}

/// Header fields that mean the same on the other leg: what describes the body, and what nobody
/// here knows. Everything that belongs to this hop, this dialog or its credentials stays.
fn is_end_to_end(name: Name) -> bool {
    matches!(
        name,
        Name::ContentType
            | Name::ContentEncoding
            | Name::ContentDisposition
            | Name::Subject
            | Name::Date
            | Name::Reason
            | Name::Other
    )
}

/// What a trunk's calls show: what they say themselves.
const NOBODY_ELSE: &CallerId = &CallerId { number: None, name: None };

/// The texts of a new call, with the caller as the configuration wants him shown; `None` when the
/// number is no text.
fn read_text(
    scratch: &mut Scratch,
    message: &Message<'_>,
    path: &Path,
    shown: &CallerId,
) -> Option<Text> {
    let Scratch { digits, number, name, peer, .. } = scratch;
    for text in [&mut *digits, &mut *number, &mut *name, &mut *peer] {
        text.clear();
    }
    let uri = Uri::parse(message.request_uri()).ok()?;
    read_number(&uri, digits);
    let from = message.from();
    if let Ok(uri) = Uri::parse(from.uri) {
        read_number(&uri, number);
    }
    from.display_unquoted(name);
    push_address(peer, path.remote);
    Some(Text::pack(&SetupText {
        digits: if digits.is_empty() { "s" } else { std::str::from_utf8(digits).ok()? },
        caller_number: shown.number.as_deref().unwrap_or_else(|| clean(number)),
        caller_name: shown.name.as_deref().unwrap_or_else(|| clean(name)),
        foreign_id: clean_id(message.call_id()),
        peer: clean(peer),
    }))
}

/// Bytes of the header lines that a plan may read: a request with more has the first ones read.
const HEADER_LINES_MAX: usize = 8_192;

/// The header lines as the plan reads them: long names, one line each, without what it must not
/// see (a digest) or cannot (what is no text).
fn header_lines(message: &Message<'_>) -> Box<str> {
    let mut lines = String::new();
    let mut value = Vec::new();
    for field in message.fields() {
        if matches!(field.name, Name::Authorization | Name::ProxyAuthorization) {
            continue;
        }
        let is_known = field.name != Name::Other;
        let name = if is_known { field.name.as_bytes() } else { field.raw_name };
        value.clear();
        ::sip::wire::unfold(field.value, &mut value);
        value.retain(|byte| !byte.is_ascii_control() || *byte == b'\t');
        let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(&value)) else {
            continue;
        };
        if lines.len() + name.len() + value.len() + 3 > HEADER_LINES_MAX {
            break;
        }
        for part in [name, ": ", value, "\n"] {
            lines.push_str(part);
        }
    }
    lines.into()
}

/// The user part, unescaped; for a tel URI the number itself.
fn read_number(uri: &Uri<'_>, out: &mut Vec<u8>) {
    match uri.scheme {
        Scheme::Tel => out.extend_from_slice(uri.host),
        Scheme::Sip | Scheme::Sips | Scheme::Urn | Scheme::Other(_) => uri.user_text(out),
    }
}

/// The text without what could break a line of a header or a log; nothing when it is no UTF-8.
fn clean(text: &mut Vec<u8>) -> &str {
    text.retain(|byte| !byte.is_ascii_control());
    std::str::from_utf8(text).unwrap_or_default()
}

fn clean_id(call_id: &[u8]) -> &str {
    std::str::from_utf8(call_id).unwrap_or("(not UTF-8)")
}
