//! The side that answers: a UAS for bridged runs (RFC 3261 8.2, 13.3.1, 15.1.2), sans-IO. Via,
//! From, To, Call-ID and CSeq of an answer always come from its request (8.2.6.2).
//!
//! ```text
//! INVITE ──► Ringing ── ring time over ──► Answered ── ACK of 2xx ──► Confirmed ── BYE ──► gone
//!            │  180      or CANCEL: 487     │ repeats: T1 doubling to T2
//!            │                              ├── ACK of a failure ──► gone
//!            └ (ring time 0: at once) ──►   └── 64 x T1 without ACK: unacked ──► gone
//! ```
//!
//! What it does not do: 100rel, re-INVITE (488), authentication. A repeat of an INVITE that comes
//! after its BYE would make a new call: networks that reorder by seconds are not its place.

mod misbehaviour;

pub use misbehaviour::Misbehaviour;

use crate::caller::{T1, T2, TRANSACTION_TIMEOUT};
use crate::identity::Run;
use hashbrown::HashTable;
use serde::Serialize;
use sip::path::{Outbox, Path, Transport};
use sip::wire::{
    Builder, CopyWith, Framing, Index, Message, Method, Name, copy_response_head, response_address,
};
use std::net::SocketAddr;
use std::time::Duration;
use turn::{HashKey, Mono, Rng, Slot, Slots, Wheel};

/// Addresses of ours for which the end of a 200 is kept ready.
const TAILS_MAX: usize = 8;
const RETRY_AFTER_S: &[u8] = b"5";

/// How calls are answered.
#[derive(Clone, Copy, Debug)]
pub struct Answering {
    /// The final status.
    pub code: u16,
    /// How long to ring (180) before it; zero: not at all.
    pub ring: Duration,
    /// Calls in the table; beyond it 503.
    pub calls_max: u32,
    /// Faults on purpose.
    pub misbehaviour: Misbehaviour,
}

/// What happened, in whole numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AnswerCounts {
    /// New INVITEs.
    pub invites: u64,
    /// INVITEs that came again.
    pub repeated_invites: u64,
    /// Calls answered by 2xx.
    pub answered: u64,
    /// Calls answered by a failure, busy ones on purpose included.
    pub refused: u64,
    /// Calls refused with 503 because the table was full.
    pub full: u64,
    /// Final responses acknowledged.
    pub acked: u64,
    /// Final responses that were never acknowledged.
    pub unacked: u64,
    /// Responses sent again by timer.
    pub repeated_responses: u64,
    /// Calls hung up by the peer.
    pub byes: u64,
    /// BYEs for no call that is known.
    pub strange_byes: u64,
    /// Calls cancelled.
    pub cancels: u64,
    /// Other requests.
    pub others: u64,
    /// Datagrams that are no SIP message.
    pub garbage: u64,
    /// Datagrams ignored on purpose.
    pub ignored: u64,
    /// Most calls at once.
    pub calls_peak: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Ringing,
    Answered { status: u16, interval: Duration },
    Confirmed,
}

#[derive(Debug)]
struct Call {
    key: u64,
    phase: Phase,
    due: Mono,
    deadline: Mono,
    path: Path,
    /// Via, From, To with our tag, Call-ID and CSeq of the INVITE's responses, until the ACK.
    head: Vec<u8>,
}

/// All calls that are being answered.
#[derive(Debug)]
pub struct Answerer {
    run: Run,
    answering: Answering,
    key: HashKey,
    random: Rng,
    calls: Slots<Call>,
    by_invite: HashTable<(u64, Slot)>,
    wheel: Wheel<Slot>,
    due: Vec<Slot>,
    index: Option<Box<Index>>,
    tails: Vec<(SocketAddr, Vec<u8>)>,
    /// Heads of calls that are over, to be used again.
    spare: Vec<Vec<u8>>,
    pace: misbehaviour::Pace,
    /// Messages that wait; the driver sends and clears them.
    pub outbox: Outbox,
    /// What happened so far.
    pub counts: AnswerCounts,
}

impl Answerer {
    /// No calls yet.
    pub fn new(run: Run, answering: Answering, mut random: Rng, now: Mono) -> Self {
        Self {
            run,
            answering,
            key: random.hash_key(),
            random,
            calls: Slots::with_capacity(answering.calls_max),
            by_invite: HashTable::with_capacity(answering.calls_max as usize),
            wheel: Wheel::new(now),
            due: Vec::new(),
            index: Some(Box::new(Index::new())),
            tails: Vec::new(),
            spare: Vec::new(),
            pace: misbehaviour::Pace::default(),
            outbox: Outbox::new(),
            counts: AnswerCounts::default(),
        }
    }

    /// Calls in any phase.
    pub fn open(&self) -> usize {
        self.calls.len()
    }

    /// When [`Answerer::fire`] has work.
    pub fn next_timeout(&self) -> Option<Mono> {
        self.wheel.next_timeout()
    }

    /// A datagram from `remote` that hit `local`.
    pub fn receive(&mut self, bytes: &[u8], local: SocketAddr, remote: SocketAddr, now: Mono) {
        if self.answering.misbehaviour.drops(&mut self.random) {
            self.counts.ignored += 1;
            return;
        }
        let Some(mut index) = self.index.take() else { return };
        match index.parse(bytes, Framing::Datagram) {
            Ok(message) if message.is_request() => {
                let remote = response_address(&message, remote);
                let path = Path { transport: Transport::Udp, local, remote };
                self.on_request(&message, path, now);
            }
            // We send no requests, so no response is ours.
            Ok(_) | Err(_) => self.counts.garbage += 1,
        }
        self.index = Some(index);
    }

    /// Lets due timers act.
    pub fn fire(&mut self, now: Mono) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.fire(now, &mut due);
        for slot in due.drain(..) {
            self.on_timer(slot, now);
        }
        self.due = due;
    }

    fn on_request(&mut self, request: &Message<'_>, path: Path, now: Mono) {
        match request.method() {
            Method::Invite if request.to_tag().is_some() => self.respond(request, path, 488),
            Method::Invite => self.on_invite(request, path, now),
            Method::Ack => self.on_ack(request),
            Method::Bye => self.on_bye(request, path),
            Method::Cancel => self.on_cancel(request, path, now),
            Method::Options | Method::Info | Method::Notify | Method::Message => {
                self.counts.others += 1;
                self.respond(request, path, 200);
            }
            Method::Register
            | Method::Prack
            | Method::Update
            | Method::Refer
            | Method::Subscribe
            | Method::Publish
            | Method::Other(_) => {
                self.counts.others += 1;
                self.respond(request, path, 501);
            }
        }
    }

    fn on_invite(&mut self, request: &Message<'_>, path: Path, now: Mono) {
        let key = self.invite_key(request);
        if let Some(slot) = self.find(key) {
            self.counts.repeated_invites += 1;
            return self.send_current(slot);
        }
        self.counts.invites += 1;
        let Some(slot) = self.calls.next_slot() else {
            self.counts.full += 1;
            return self.respond(request, path, 503);
        };
        let mut head = self.spare.pop().unwrap_or_default();
        let tag = self.run.mark(slot);
        let with = CopyWith { record_route: true, timestamp: false };
        copy_response_head(&mut head, request, Some(&tag), path.remote, with);
        let deadline = now + TRANSACTION_TIMEOUT;
        let call = Call { key, phase: Phase::Ringing, due: now, deadline, path, head };
        if self.calls.insert(call).is_err() {
            return;
        }
        self.by_invite.insert_unique(key, (key, slot), |(key, _)| *key);
        self.counts.calls_peak = self.counts.calls_peak.max(self.calls.len() as u64);
        if self.pace.is_above(self.answering.misbehaviour.busy_above, now) {
            return self.answer(slot, 503, now);
        }
        let Answering { ring, misbehaviour, .. } = self.answering;
        if !ring.is_zero() {
            self.send_current(slot);
        }
        match ring + misbehaviour.late {
            Duration::ZERO => self.answer(slot, self.answering.code, now),
            wait => self.arm(slot, now + wait),
        }
    }

    fn on_ack(&mut self, request: &Message<'_>) {
        let Some(slot) = request.to_tag().and_then(|tag| self.run.read(tag)) else { return };
        let Some(call) = self.calls.view_mut(slot) else { return };
        let Phase::Answered { status, .. } = call.phase else { return };
        self.counts.acked += 1;
        if status >= 300 {
            return self.forget(slot);
        }
        call.phase = Phase::Confirmed;
        let mut head = std::mem::take(&mut call.head);
        head.clear();
        self.spare.push(head);
    }

    fn on_bye(&mut self, request: &Message<'_>, path: Path) {
        if self.answering.misbehaviour.ignore_bye {
            self.counts.ignored += 1;
            return;
        }
        let slot = request.to_tag().and_then(|tag| self.run.read(tag));
        let is_known = slot.is_some_and(|slot| self.calls.view(slot).is_some());
        match slot {
            Some(slot) if is_known => {
                self.counts.byes += 1;
                self.forget(slot);
                self.respond(request, path, 200);
            }
            // A tag of ours whose call is over: our 200 was lost, this is its repeat.
            Some(_) => self.respond(request, path, 200),
            None => {
                self.counts.strange_byes += 1;
                self.respond(request, path, 481);
            }
        }
    }

    fn on_cancel(&mut self, request: &Message<'_>, path: Path, now: Mono) {
        let Some(slot) = self.find(self.invite_key(request)) else {
            return self.respond(request, path, 481);
        };
        self.respond(request, path, 200);
        if self.calls.view(slot).is_some_and(|call| call.phase == Phase::Ringing) {
            self.counts.cancels += 1;
            self.answer(slot, 487, now);
        }
    }

    fn on_timer(&mut self, slot: Slot, now: Mono) {
        let Some(call) = self.calls.view_mut(slot) else { return };
        if call.due > now {
            return;
        }
        match call.phase {
            Phase::Ringing => self.answer(slot, self.answering.code, now),
            Phase::Answered { .. } if call.deadline <= now => {
                self.counts.unacked += 1;
                self.forget(slot);
            }
            Phase::Answered { status, interval } => {
                let interval = (interval * 2).min(T2);
                call.phase = Phase::Answered { status, interval };
                let due = (now + interval).min(call.deadline);
                self.counts.repeated_responses += 1;
                self.arm(slot, due);
                self.send_current(slot);
            }
            Phase::Confirmed => {}
        }
    }

    /// The final response.
    fn answer(&mut self, slot: Slot, status: u16, now: Mono) {
        let Some(call) = self.calls.view_mut(slot) else { return };
        call.phase = Phase::Answered { status, interval: T1 };
        call.deadline = now + TRANSACTION_TIMEOUT;
        match status {
            200..=299 => self.counts.answered += 1,
            _ => self.counts.refused += 1,
        }
        self.arm(slot, now + T1);
        self.send_current(slot);
    }

    fn arm(&mut self, slot: Slot, at: Mono) {
        let Some(call) = self.calls.view_mut(slot) else { return };
        call.due = at;
        self.wheel.arm(at, slot);
    }

    /// Sends what the INVITE's answer is at present, for the first time or again.
    fn send_current(&mut self, slot: Slot) {
        let Self { outbox, calls, tails, answering, .. } = self;
        let Some(call) = calls.view(slot) else { return };
        let status = match call.phase {
            Phase::Ringing if answering.ring.is_zero() => return,
            Phase::Ringing => 180,
            Phase::Answered { status, .. } => status,
            Phase::Confirmed => return,
        };
        let tail = tail_for(tails, call.path.local);
        outbox.compose(call.path, |out| {
            let response = Builder::response(out, status, None).line(&call.head);
            match status {
                200..=299 => drop(response.with(|out| out.extend_from_slice(tail))),
                503 => response.header(Name::RetryAfter, RETRY_AFTER_S).no_body(),
                _ => response.no_body(),
            }
        });
    }

    /// An answer that needs no state.
    fn respond(&mut self, request: &Message<'_>, path: Path, status: u16) {
        self.outbox.compose(path, |out| {
            let response = Builder::response(out, status, None).with(|out| {
                let with = CopyWith::default();
                copy_response_head(out, request, Some(b"s"), path.remote, with);
            });
            match status {
                503 => response.header(Name::RetryAfter, RETRY_AFTER_S).no_body(),
                _ => response.no_body(),
            }
        });
    }

    fn forget(&mut self, slot: Slot) {
        let Some(call) = self.calls.remove(slot) else { return };
        if let Ok(entry) = self.by_invite.find_entry(call.key, |(_, known)| *known == slot) {
            entry.remove();
        }
        if call.head.capacity() > 0 {
            let mut head = call.head;
            head.clear();
            self.spare.push(head);
        }
    }

    /// The INVITE and its CANCEL share branch and Call-ID (9.1).
    fn invite_key(&self, request: &Message<'_>) -> u64 {
        use std::hash::Hasher as _;
        let mut hasher = self.key.hasher();
        hasher.write(request.top_via().branch().unwrap_or(b""));
        hasher.write_u8(0xff);
        hasher.write(request.call_id());
        hasher.finish()
    }

    fn find(&self, key: u64) -> Option<Slot> {
        self.by_invite.find(key, |(known, _)| *known == key).map(|(_, slot)| *slot)
    }
}

/// Contact, description and the end of a 200 sent from `local`; made once for each address.
fn tail_for(tails: &mut Vec<(SocketAddr, Vec<u8>)>, local: SocketAddr) -> &[u8] {
    let place = match tails.iter().position(|(known, _)| *known == local) {
        Some(place) => place,
        None => {
            if tails.len() == TAILS_MAX {
                tails.clear();
            }
            tails.push((local, tail(local)));
            tails.len() - 1
        }
    };
    &tails[place].1
}

fn tail(local: SocketAddr) -> Vec<u8> {
    let ip = local.ip();
    let family = if ip.is_ipv4() { "IP4" } else { "IP6" };
    let body = format!(
        "v=0\r\no=sipstress 1 1 IN {family} {ip}\r\ns=-\r\nc=IN {family} {ip}\r\nt=0 0\r\n\
         m=audio 6002 RTP/AVP 0 8\r\na=sendrecv\r\n"
    );
    format!(
        "Contact: <sip:answer@{local}>\r\nContent-Type: application/sdp\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests;
