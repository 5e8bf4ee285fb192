//! The third leg of the handshake: repeating a 2xx until its ACK comes (RFC 3261 §13.3.1.4), and
//! sending an ACK for every 2xx (§13.2.2.4).
//!
//! A 2xx and its ACK are no transaction: both are repeated end to end, and since both legs of a
//! call have their own dialog, neither ever crosses to the other leg.

use std::time::Duration;
use turn::Mono;

use super::{Fate, Payload, State, TimerKind, Usage, What, Why, has_come};
use crate::endpoint::{Purpose, Work};
use crate::path::Path;
use crate::usage::offers::Kind;
use crate::wire::{Builder, Message, Name, push_decimal};

/// A 2xx of ours that waits for its ACK.
#[derive(Debug)]
pub(crate) struct Unacked {
    pub(crate) cseq: u32,
    bytes: Box<[u8]>,
    path: Path,
    interval: Duration,
    due: Mono,
    deadline: Mono,
    /// The layer above has hung up; the BYE waits for the ACK (§15, case T05).
    pub(crate) bye: Option<Box<super::End>>,
}

/// What we owe for the last 2xx to an INVITE of ours.
#[derive(Debug)]
pub(crate) enum AckOut {
    /// No 2xx came yet.
    None,
    /// A 2xx brought an offer; the ACK waits for our answer.
    Owed { cseq: u32 },
    /// Sent; a repeated 2xx gets it again.
    Sent { cseq: u32, body: Option<Box<Payload>> },
}

impl Usage {
    /// Keeps a 2xx that has just been sent, to be repeated.
    pub(crate) fn await_ack(&mut self, work: &mut Work<'_, '_>, cseq: u32, path: Path) {
        let timing = work.stack.timing();
        let now = work.turn.now;
        let due = now + timing.t1;
        self.unacked = Some(Box::new(Unacked {
            cseq,
            bytes: work.stack.scratch().into(),
            path,
            interval: timing.t1,
            due,
            deadline: now + timing.t1 * 64,
            bye: None,
        }));
        work.arm(TimerKind::Success, due);
    }

    pub(crate) fn repeat_success(&mut self, work: &mut Work<'_, '_>) -> Fate {
        let now = work.turn.now;
        let Some(unacked) = &mut self.unacked else { return Fate::Keep };
        if !has_come(unacked.due, now) {
            return Fate::Keep;
        }
        if has_come(unacked.deadline, now) {
            return self.ack_missing(work);
        }
        unacked.interval = (unacked.interval * 2).min(work.stack.timing().t2);
        unacked.due = (now + unacked.interval).min(unacked.deadline);
        let due = unacked.due;
        work.turn.out.send(unacked.path, &unacked.bytes);
        work.stack.count_repeat();
        work.arm(TimerKind::Success, due);
        Fate::Keep
    }

    /// §13.3.1.4: no ACK within 64*T1: the dialog is confirmed, but the session is to be ended.
    fn ack_missing(&mut self, work: &mut Work<'_, '_>) -> Fate {
        self.unacked = None;
        self.send_bye(work, &super::End::default());
        self.tell_end(work, Why::AckMissing, None);
        Fate::Gone
    }

    /// An ACK for a 2xx came.
    pub(crate) fn on_ack<'m>(&mut self, work: &mut Work<'_, 'm>, message: Message<'m>) -> Fate {
        let number = message.cseq().number;
        match self.unacked.take_if(|unacked| unacked.cseq == number) {
            None => Fate::Keep, // a repeat, or for something else
            Some(unacked) => self.acked(work, *unacked, message),
        }
    }

    fn acked<'m>(
        &mut self,
        work: &mut Work<'_, 'm>,
        unacked: Unacked,
        message: Message<'m>,
    ) -> Fate {
        if let Some(end) = unacked.bye {
            self.send_bye(work, &end);
            return Fate::Gone;
        }
        self.tell(work, What::Acked);
        if self.offers.offered().is_some() {
            match (work.stack.session_body(&message), self.offers.remote_answer()) {
                (Some(body), Some(oid)) => {
                    self.tell(work, What::Described { oid, kind: Kind::Answer, body });
                }
                // §13.2.2.4: our offer must be answered in the ACK; without, the session is as
                // it was before the offer.
                (_, Some(oid)) => self.tell(work, What::OfferRefused { oid, status: 488 }),
                (_, None) => {}
            }
        }
        self.send_queued(work)
    }

    /// Acknowledges the 2xx with number `cseq`.
    pub(crate) fn send_ack(
        &mut self,
        work: &mut Work<'_, '_>,
        cseq: u32,
        body: Option<Box<Payload>>,
    ) {
        let credentials = self.credentials(work, b"ACK");
        let Some(dialog) = &self.dialog else { return };
        let branch = work.stack.loose_branch();
        let agent = work.stack.agent();
        work.turn.out.compose(dialog.path(), |out| {
            let builder = dialog.request(out, b"ACK", cseq, &branch, agent).line(&credentials);
            match &body {
                Some(body) => builder.body(Some(&body.content_type), &body.bytes),
                None => builder.no_body(),
            }
        });
        self.ack = AckOut::Sent { cseq, body };
    }

    /// A 2xx came again: so does its ACK, unless it still waits for an answer.
    pub(crate) fn repeat_ack(&mut self, work: &mut Work<'_, '_>, cseq: u32) {
        match std::mem::replace(&mut self.ack, AckOut::None) {
            AckOut::Sent { cseq: last, body } if last == cseq => self.send_ack(work, cseq, body),
            other @ (AckOut::None | AckOut::Owed { .. } | AckOut::Sent { .. }) => self.ack = other,
        }
    }

    /// Says BYE (§15.1.1). Nobody waits for its answer: the transaction repeats it alone.
    pub(crate) fn send_bye(&mut self, work: &mut Work<'_, '_>, end: &super::End) {
        let credentials = self.credentials(work, b"BYE");
        let Some(dialog) = &mut self.dialog else { return };
        let cseq = dialog.next_cseq();
        let path = dialog.path();
        work.request_non_invite(path, Purpose::Bye, |out, branch, agent| {
            let builder = dialog.request(out, b"BYE", cseq, branch, agent).line(&credentials);
            write_reason(builder, end.q850).no_body();
        });
    }

    /// The layer above hangs up a confirmed dialog.
    pub(crate) fn hang_up(&mut self, work: &mut Work<'_, '_>, end: &super::End) -> Fate {
        if let Some(unacked) = &mut self.unacked {
            unacked.bye = Some(Box::new(end.clone()));
            return Fate::Keep;
        }
        if let AckOut::Owed { cseq } = self.ack {
            self.send_ack(work, cseq, None); // the offer dies with the dialog
        }
        debug_assert!(matches!(self.state, State::Confirmed));
        self.send_bye(work, end);
        Fate::Gone
    }
}

/// Writes `Reason: Q.850;cause=N` (RFC 3326 §2).
pub(crate) fn write_reason(builder: Builder<'_>, q850: Option<u8>) -> Builder<'_> {
    match q850 {
        None => builder,
        Some(cause) => builder.composed(Name::Reason, |out| {
            out.extend_from_slice(b"Q.850;cause=");
            push_decimal(out, u64::from(cause));
        }),
    }
}
