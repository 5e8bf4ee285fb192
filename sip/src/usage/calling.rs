//! A call of ours that has no final response yet: the UAC side of RFC 3261 §13.2, and the dialog
//! set that a forked INVITE makes (§13.2.2.4).
//!
//! Early dialogs are told apart by their To tag only: without 100rel and UPDATE nothing is sent in
//! them, so their state is made when one of them wins.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use turn::Mono;

use super::acks::AckOut;
use super::offers::{Carrier, Kind, OfferId};
use super::proof::Proof;
use super::{Body, EARLY_MAX, FORKS_MAX, Fate, Payload, State, TimerKind, Usage, What, Why};
use crate::agent::{MAX_FORWARDS, push_contact, push_via};
use crate::dialog::Dialog;
use crate::digest::Account;
use crate::endpoint::{PROVISIONAL_REFRESH, Purpose, Work, Writing};
use crate::path::Path;
use crate::transaction::{ClientId, ClientKind};
use crate::wire::{Builder, Message, Name};

/// How long a callee may say nothing more. Timer C must be above three minutes (§16.6); a UAS
/// should speak each minute (§13.3.1.1), but phones in the field do not, so it is well above.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// A new outbound call.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The way to the first hop.
    pub path: Path,
    /// The Request-URI, also used in To.
    pub uri: &'a [u8],
    /// The caller's name to show; empty for none. Quoted here.
    pub from_name: &'a [u8],
    /// The caller's number or name, escaped for a user part; empty for none.
    pub from_user: &'a [u8],
    /// Hops left; [`MAX_FORWARDS`] for a call that begins here.
    pub hops: u8,
    /// Further header lines, each ended by CRLF.
    pub lines: &'a [u8],
    /// The host of From; `None` is our address.
    pub from_host: Option<&'a [u8]>,
    /// What challenges of the peer are answered with.
    pub accounts: Option<&'a Arc<[Account]>>,
    /// The offer.
    pub offer: Option<(OfferId, Payload)>,
}

/// What an open INVITE of ours must remember.
#[derive(Debug)]
pub(crate) struct Calling {
    /// The INVITE's transaction: what a CANCEL is for.
    pub(crate) client: ClientId,
    path: Path,
    /// The To tags of the early dialogs, in the order in which they were first heard.
    early: SmallVec<[Box<[u8]>; 1]>,
    heard: Heard,
    /// When the callee last said that it works on it.
    heard_at: Mono,
    /// The layer above has ended the call; a 2xx that comes all the same is hung up at once.
    given_up: bool,
}

/// Whether CANCEL may be sent: only after a provisional response (§9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Nothing,
    Provisional,
    Cancelled,
}

impl Calling {
    pub(crate) fn path(&self) -> Path {
        self.path
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// The INVITE has been sent again, by another transaction.
    pub(crate) fn begin_again(&mut self, client: ClientId) {
        self.client = client;
        self.heard = Heard::Nothing;
        self.early.clear();
    }

    fn early(&mut self, tag: Option<&[u8]>) -> u8 {
        let tag = tag.unwrap_or_default();
        let known = self.early.iter().position(|known| known.eq_ignore_ascii_case(tag));
        let at = known.unwrap_or_else(|| {
            if self.early.len() < EARLY_MAX {
                self.early.push(tag.into());
            }
            self.early.len() - 1
        });
        u8::try_from(at).expect("EARLY_MAX is below 256")
    }
}

impl Usage {
    /// Sends the INVITE. `None`: the transaction table is full.
    pub(crate) fn call(work: &mut Work<'_, '_>, call: &Call<'_>) -> Option<Self> {
        let mut proof = None;
        let client = work.request(
            ClientKind::Invite,
            call.path,
            Purpose::Invite,
            |out, branch, writing| {
                let start = out.len();
                let mut builder = Builder::request(&mut *out, b"INVITE", call.uri);
                builder = builder.composed(Name::Via, |out| push_via(out, &call.path, branch));
                builder = builder.number(Name::MaxForwards, u64::from(call.hops.min(MAX_FORWARDS)));
                builder = builder.composed(Name::From, |out| push_from(out, call, writing));
                builder = builder.parts(Name::To, &[b"<", call.uri, b">"]);
                builder = builder.composed(Name::CallId, |out| writing.write_call_id(out));
                builder = builder.header(Name::CSeq, b"1 INVITE");
                builder = builder.composed(Name::Contact, |out| push_contact(out, &call.path));
                builder = builder.header(Name::Allow, crate::agent::ALLOW);
                builder = writing.agent().user_agent(builder).line(call.lines);
                match &call.offer {
                    Some((_, body)) => builder.body(Some(&body.content_type), &body.bytes),
                    None => builder.no_body(),
                }
                proof = call
                    .accounts
                    .filter(|accounts| !accounts.is_empty())
                    .map(|accounts| Box::new(Proof::new(accounts, &out[start..])));
            },
        )?;
        let calling = Calling {
            client,
            path: call.path,
            early: SmallVec::new(),
            heard: Heard::Nothing,
            heard_at: work.turn.now,
            given_up: false,
        };
        let mut usage = Self::new(super::Role::Client, State::Calling(Box::new(calling)), None);
        usage.proof = proof;
        if let Some((oid, _)) = call.offer {
            usage.offers.local_offer(oid);
        }
        Some(usage)
    }

    /// A response to our first INVITE.
    pub(crate) fn on_invite_response<'m>(
        &mut self,
        work: &mut Work<'_, 'm>,
        message: Message<'m>,
        status: u16,
    ) -> Fate {
        if matches!(status, 401 | 407) && self.prove(work, &message) {
            return Fate::Keep;
        }
        match (&self.state, status) {
            (State::Calling(_), 100..=199) => self.on_provisional(work, message, status),
            (State::Calling(_), 200..=299) => {
                self.proven();
                self.on_success(work, message)
            }
            (State::Calling(_), _) => {
                work.remember_refused();
                self.tell_end(work, Why::Refused(status), Some(message));
                Fate::Gone
            }
            (State::Confirmed, 200..=299) => self.on_further_success(work, message),
            // A provisional or failure that comes after the 2xx of another branch (§13.2.2.4).
            (State::Confirmed | State::Invited(_), _) => Fate::Keep,
        }
    }

    fn on_provisional<'m>(
        &mut self,
        work: &mut Work<'_, 'm>,
        message: Message<'m>,
        status: u16,
    ) -> Fate {
        let State::Calling(calling) = &mut self.state else { return Fate::Keep };
        let first = calling.heard == Heard::Nothing;
        if first {
            calling.heard = Heard::Provisional;
            work.arm(TimerKind::Refresh, work.turn.now + PROVISIONAL_REFRESH);
        }
        calling.heard_at = work.turn.now;
        if calling.given_up {
            self.cancel_when_allowed(work);
            return Fate::Keep;
        }
        if status == 100 {
            if first {
                self.tell(work, What::Provisional { early: 0, status, answer: None });
            }
            return Fate::Keep;
        }
        let early = calling.early(message.to_tag());
        let answer = self.offers.offered().zip(work.stack.session_body(&message));
        self.tell(work, What::Provisional { early, status, answer });
        Fate::Keep
    }

    fn on_success<'m>(&mut self, work: &mut Work<'_, 'm>, message: Message<'m>) -> Fate {
        let State::Calling(calling) = &mut self.state else { return Fate::Keep };
        let early = calling.early(message.to_tag());
        let (path, given_up) = (calling.path, calling.given_up);
        let Ok(dialog) = Dialog::of_client(&message, path) else {
            // More text than a dialog may have: no ACK can be written for it either, so the
            // callee gives its 2xx up after 64*T1 and says BYE (§13.3.1.4).
            self.tell_end(work, Why::Refused(513), Some(message));
            return Fate::Gone;
        };
        self.dialog = Some(dialog);
        self.state = State::Confirmed;
        let cseq = message.cseq().number;
        if given_up {
            self.send_ack(work, cseq, None);
            self.send_bye(work, &super::End::default());
            return Fate::Gone;
        }
        let session = self.take_success_body(work, &message, cseq);
        self.tell(work, What::Accepted { early, message, session });
        self.send_queued(work)
    }

    /// The description in a 2xx to an INVITE of ours: the answer to our offer, or the offer that
    /// we left to the peer, whose answer goes into the ACK. Sends the ACK in all other cases.
    pub(crate) fn take_success_body<'m>(
        &mut self,
        work: &mut Work<'_, 'm>,
        message: &Message<'m>,
        cseq: u32,
    ) -> Option<(OfferId, Kind, Body<'m>)> {
        let body = work.stack.session_body(message);
        if let Some(oid) = self.offers.remote_answer() {
            self.send_ack(work, cseq, None);
            return body.map(|body| (oid, Kind::Answer, body));
        }
        let Some(body) = body else {
            self.send_ack(work, cseq, None);
            return None;
        };
        let oid = match self.reinvite_asks() {
            Some(oid) => self.offers.remote_offer_as(oid, Carrier::Success).then_some(oid),
            None => self.offers.remote_offer(Carrier::Success),
        };
        match oid {
            Some(oid) => {
                self.ack = AckOut::Owed { cseq };
                Some((oid, Kind::Offer, body))
            }
            None => {
                self.send_ack(work, cseq, None);
                None
            }
        }
    }

    /// A 2xx after the first: a repeat, or another branch of a forked INVITE (§13.2.2.4).
    fn on_further_success<'m>(&mut self, work: &mut Work<'_, 'm>, message: Message<'m>) -> Fate {
        let Some(dialog) = &self.dialog else { return Fate::Keep };
        if dialog.matches(&message) {
            self.repeat_ack(work, message.cseq().number);
        } else if self.forks < FORKS_MAX {
            self.forks += 1;
            let path = dialog.path();
            work.end_stray_dialog(&message, path);
        }
        Fate::Keep
    }

    /// A 2xx to an INVITE whose transaction is over: one of ours came again, or late, or from
    /// another branch.
    pub(crate) fn on_late_success<'m>(
        &mut self,
        work: &mut Work<'_, 'm>,
        message: Message<'m>,
    ) -> Fate {
        match self.state {
            State::Calling(_) => self.on_success(work, message),
            State::Confirmed | State::Invited(_) => self.on_further_success(work, message),
        }
    }

    /// No final response came (Timer B), or the transaction failed.
    pub(crate) fn on_invite_failed(&mut self, work: &mut Work<'_, '_>, why: Why) -> Fate {
        match self.state {
            State::Calling(_) => {
                self.tell_end(work, why, None);
                Fate::Gone
            }
            State::Confirmed | State::Invited(_) => Fate::Keep,
        }
    }

    /// The layer above ends a call that is not answered (§9.1).
    pub(crate) fn give_up_calling(&mut self, work: &mut Work<'_, '_>) -> Fate {
        let State::Calling(calling) = &mut self.state else { return Fate::Keep };
        calling.given_up = true;
        self.cancel_when_allowed(work);
        Fate::Keep
    }

    /// From its first provisional response on an INVITE has no timeout (§17.1.1.2): a callee that
    /// falls silent is given up as Timer C of a proxy would (§16.6 step 11).
    pub(crate) fn watch_silence(&mut self, work: &mut Work<'_, '_>) -> Fate {
        let State::Calling(calling) = &mut self.state else { return Fate::Keep };
        let is_over = work.turn.now - calling.heard_at >= SILENCE_MAX;
        if is_over && !calling.given_up {
            calling.given_up = true;
            self.tell_end(work, Why::TimedOut, None);
        }
        // A CANCEL for which there was no room is tried again.
        let State::Calling(calling) = &self.state else { return Fate::Keep };
        if calling.given_up {
            self.cancel_when_allowed(work);
        }
        work.arm(TimerKind::Refresh, work.turn.now + PROVISIONAL_REFRESH);
        Fate::Keep
    }

    fn cancel_when_allowed(&mut self, work: &mut Work<'_, '_>) {
        let State::Calling(calling) = &mut self.state else { return };
        match calling.heard {
            Heard::Nothing | Heard::Cancelled => {}
            Heard::Provisional => {
                if work.cancel(calling.client) {
                    calling.heard = Heard::Cancelled;
                }
            }
        }
    }
}

/// `"Name" <sip:user@host:port>;tag=...`.
fn push_from(out: &mut Vec<u8>, call: &Call<'_>, writing: &Writing<'_>) {
    if !call.from_name.is_empty() {
        out.push(b'"');
        for &byte in call.from_name {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                0..=0x1f | 0x7f => {} // a control character must not end the line
                _ => out.push(byte),
            }
        }
        out.extend_from_slice(b"\" ");
    }
    out.extend_from_slice(b"<sip:");
    if !call.from_user.is_empty() {
        out.extend_from_slice(call.from_user);
        out.push(b'@');
    }
    match call.from_host {
        Some(host) => out.extend_from_slice(host),
        None => crate::agent::push_address(out, call.path.local),
    }
    out.extend_from_slice(b">;tag=");
    writing.write_tag(out);
}
