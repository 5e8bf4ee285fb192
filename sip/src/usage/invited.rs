//! A call from outside that has no final response yet: the UAS side of RFC 3261 §13.3.

use smallvec::SmallVec;

use super::acks::write_reason;
use super::offers::OfferId;
use super::{EARLY_MAX, End, Fate, Payload, State, TimerKind, Usage, Why};
use crate::agent::{ACCEPT, ALLOW, push_contact};
use crate::endpoint::{PROVISIONAL_REFRESH, Work};
use crate::path::Path;
use crate::transaction::ServerId;
use crate::wire::{Builder, Name};

/// What an open INVITE needs for its responses.
#[derive(Debug)]
pub(crate) struct Invited {
    pub(crate) server: ServerId,
    /// The lines that each response copies, our tag in To included.
    pub(crate) head: Box<[u8]>,
    /// Where our tag ends in `head`: the tags of further early dialogs get a suffix there.
    pub(crate) tag_end: usize,
    pub(crate) cseq: u32,
    /// The last provisional status that was sent; 0 before any.
    pub(crate) told: u16,
    /// The early dialog that said it.
    pub(crate) early: u8,
    /// The way that the INVITE came.
    pub(crate) path: Path,
}

impl Invited {
    /// Begins a response of early dialog `early`.
    fn response<'w>(&self, out: &'w mut Vec<u8>, status: u16, early: u8) -> Builder<'w> {
        let builder = Builder::response(out, status, None);
        if early == 0 {
            return builder.line(&self.head);
        }
        let (before, after) = self.head.split_at(self.tag_end);
        builder.with(|out| {
            [before, &tag_suffix(early), after].iter().for_each(|part| out.extend_from_slice(part));
        })
    }

    fn contact<'w>(&self, builder: Builder<'w>) -> Builder<'w> {
        builder.composed(Name::Contact, |out| push_contact(out, &self.path))
    }
}

/// What is appended to our tag for early dialog `early` of a leg further down (DESIGN 4): `.1` to
/// `.7`. The first has none.
pub(crate) fn tag_suffix(early: u8) -> SmallVec<[u8; 2]> {
    let mut suffix = SmallVec::new();
    if early > 0 {
        suffix.push(b'.');
        suffix.push(b'0' + early.min(EARLY_MAX as u8 - 1));
    }
    suffix
}

/// A tag of ours without the suffix that tells early dialogs apart.
pub fn tag_stem(tag: &[u8]) -> &[u8] {
    match tag {
        [stem @ .., b'.', b'1'..=b'7'] => stem,
        _ => tag,
    }
}

impl Usage {
    /// Sends a provisional response (§13.3.1.1).
    pub(crate) fn provide(
        &mut self,
        work: &mut Work<'_, '_>,
        early: u8,
        status: u16,
        body: Option<&Payload>,
    ) {
        let State::Invited(invited) = &mut self.state else { return };
        invited.told = status;
        invited.early = early;
        let scratch = work.stack.scratch_mut();
        let mut builder = invited.response(scratch, status, early);
        if status > 100 {
            builder = invited.contact(builder);
        }
        match body {
            Some(body) => builder.body(Some(&body.content_type), &body.bytes),
            None => builder.no_body(),
        }
        work.respond(invited.server, status);
    }

    /// Accepts (§13.3.1.4). `description` answers the offer, or is our offer for a delayed one.
    pub(crate) fn accept(
        &mut self,
        work: &mut Work<'_, '_>,
        early: u8,
        description: Option<(OfferId, &Payload)>,
    ) {
        let State::Invited(invited) = &self.state else { return };
        if let Some((oid, _)) = description
            && self.offers.local_answer(oid).is_none()
        {
            self.offers.local_offer(oid);
        }
        let path = work.stack.server_path(invited.server).unwrap_or(invited.path);
        let scratch = work.stack.scratch_mut();
        let builder = invited.contact(invited.response(scratch, 200, early));
        let builder = builder.header(Name::Allow, ALLOW);
        match description {
            Some((_, body)) => builder.body(Some(&body.content_type), &body.bytes),
            None => builder.no_body(),
        }
        let (server, cseq) = (invited.server, invited.cseq);
        work.respond(server, 200);
        if early > 0
            && let Some(dialog) = &mut self.dialog
        {
            dialog.extend_local_tag(&tag_suffix(early));
        }
        self.state = State::Confirmed;
        self.await_ack(work, cseq, path);
    }

    /// Refuses (§13.3.1.3), with what the layer above says.
    pub(crate) fn refuse(&mut self, work: &mut Work<'_, '_>, end: &End) -> Fate {
        let State::Invited(invited) = &self.state else { return Fate::Keep };
        let status = if (300..700).contains(&end.status) { end.status } else { 500 };
        let scratch = work.stack.scratch_mut();
        let mut builder = invited.response(scratch, status, invited.early);
        if let Some(contacts) = &end.contacts {
            builder = builder.line(contacts);
        }
        if let Some(seconds) = end.retry_after_s {
            builder = builder.number(Name::RetryAfter, u64::from(seconds));
        }
        builder = match status {
            405 => builder.header(Name::Allow, ALLOW),
            415 | 488 | 606 => builder.header(Name::Accept, ACCEPT),
            _ => builder,
        };
        write_reason(builder, end.q850).no_body();
        work.respond(invited.server, status);
        Fate::Gone
    }

    /// The caller's CANCEL; its own 200 has been sent (§9.2).
    pub(crate) fn on_cancel(&mut self, work: &mut Work<'_, '_>) -> Fate {
        match self.state {
            State::Invited(_) => {
                let fate = self.refuse(work, &End { status: 487, ..End::default() });
                self.tell_end(work, Why::Cancelled, None);
                fate
            }
            State::Confirmed => {
                self.cancel_reinvite(work);
                Fate::Keep
            }
            State::Calling(_) => Fate::Keep,
        }
    }

    /// At the end of the turn in which the INVITE came: 100 (Trying), unless something was said.
    pub(crate) fn try_later(&mut self, work: &mut Work<'_, '_>) {
        let State::Invited(invited) = &self.state else { return };
        let told = invited.told;
        if told == 0 {
            self.provide(work, 0, 100, None);
        }
        work.arm(TimerKind::Refresh, work.turn.now + PROVISIONAL_REFRESH);
    }

    /// §13.3.1.1: says again that it still rings, before a proxy's Timer C gives up.
    pub(crate) fn refresh_provisional(&mut self, work: &mut Work<'_, '_>) -> Fate {
        let State::Invited(invited) = &self.state else { return Fate::Keep };
        let (told, early) = (invited.told, invited.early);
        // A 183 is repeated without its description: one early answer is enough.
        self.provide(work, early, if told > 100 { told } else { 183 }, None);
        work.arm(TimerKind::Refresh, work.turn.now + PROVISIONAL_REFRESH);
        Fate::Keep
    }
}
