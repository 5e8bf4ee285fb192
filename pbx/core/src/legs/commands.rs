//! What `call` wants of a leg, done by its SIP usage.

use ::sip::usage::offers::Kind;
use ::sip::usage::{Payload, UsageId};
use call::{Cause, Description, Foreign, LegCommand, LegEvent, NOBODY, OfferId, RequestId};
use turn::{Now, Slot};

use super::cause::{end_of, status_of_q850};
use crate::ShardOut;
use crate::shard::Shard;

impl Shard {
    /// Obeys a command for the leg in `slot`.
    pub(super) fn obey_leg(
        &mut self,
        now: Now,
        slot: Slot,
        command: LegCommand,
        out: &mut ShardOut,
    ) {
        let Some(usage) = self.usage_of(slot) else { return };
        let at = now.mono;
        match command {
            LegCommand::Alerting { early, answer } => {
                self.provide(now, usage, (early.0, 180), answer, out);
            }
            LegCommand::Progress { early, answer, .. } => {
                self.provide(now, usage, (early.0, 183), answer, out);
            }
            LegCommand::Answer { early, description } => {
                let description = description.map(|(oid, it)| (oid.0, payload(it)));
                let description = description.as_ref().map(|(oid, it)| (*oid, it));
                self.endpoint.accept(at, usage, early.0, description, &mut out.net);
            }
            LegCommand::Offer(oid, it) => self.describe(now, usage, (oid, Kind::Offer, it), out),
            LegCommand::AnswerOffer(oid, it) => {
                self.describe(now, usage, (oid, Kind::Answer, it), out);
            }
            LegCommand::WantOffer(oid) => {
                self.endpoint.want_offer(at, usage, oid.0, &mut out.net);
            }
            LegCommand::RefuseOffer(oid, cause) => self.refuse_offer(now, slot, oid, &cause, out),
            LegCommand::Foreign(rid, foreign) => self.pass_on(now, slot, rid, &foreign, out),
            LegCommand::ForeignReply(rid, NOBODY, _) => {
                self.endpoint.reply_unhandled(at, usage, rid.0, &mut out.net);
            }
            LegCommand::ForeignReply(rid, status, foreign) => {
                let response = (rid.0, status, &*foreign.head, &*foreign.body);
                self.endpoint.reply(at, usage, response, &mut out.net);
            }
            LegCommand::Release(cause) => {
                let end = end_of(&cause);
                match self.legs.view(slot).is_some_and(|leg| leg.fork.is_some()) {
                    true => self.end_branches(now, slot, &end, out),
                    false => self.endpoint.end(at, usage, &end, &mut out.net),
                }
                self.release_leg(now, slot, cause, out);
            }
            // 100 (Trying) is said at the end of the turn when nothing else is.
            LegCommand::Proceeding => {}
            // SIP legs never say that their number may grow, that they transfer, or a digit; so
            // `call` never asks for this. Hold is TDM's.
            LegCommand::WantDigits
            | LegCommand::TransferProgress(..)
            | LegCommand::Digit(_)
            | LegCommand::Hold(_)
            | LegCommand::Place(_) => self.counts.stale_commands += 1,
        }
    }

    fn provide(
        &mut self,
        now: Now,
        usage: UsageId,
        progress: (u8, u16),
        answer: Option<(OfferId, Description)>,
        out: &mut ShardOut,
    ) {
        let body = answer.map(|(_, it)| payload(it));
        self.endpoint.provide(now.mono, usage, progress, body.as_ref(), &mut out.net);
    }

    fn describe(
        &mut self,
        now: Now,
        usage: UsageId,
        (oid, kind, it): (OfferId, Kind, Description),
        out: &mut ShardOut,
    ) {
        self.endpoint.describe(now.mono, usage, (oid.0, kind, payload(it)), &mut out.net);
    }

    fn refuse_offer(
        &mut self,
        now: Now,
        slot: Slot,
        oid: OfferId,
        cause: &Cause,
        out: &mut ShardOut,
    ) {
        let Some(usage) = self.usage_of(slot) else { return };
        let status = match cause.code() {
            0 => status_of_q850(cause.q850),
            code => code,
        };
        if self.endpoint.refuse_offer(now.mono, usage, oid.0, status, &mut out.net) {
            self.release_leg(now, slot, Cause::INCOMPATIBLE, out);
        }
    }

    /// Sends a request of the other leg; what cannot be sent is replied to at once.
    fn pass_on(
        &mut self,
        now: Now,
        slot: Slot,
        rid: RequestId,
        foreign: &Foreign,
        out: &mut ShardOut,
    ) {
        let Some(leg) = self.legs.view(slot) else { return };
        let (usage, owner) = (leg.usage, leg.owner);
        let request = (rid.0, &*foreign.kind, &*foreign.head, &*foreign.body);
        if !self.endpoint.ask(now.mono, usage, request, &mut out.net) {
            let reply = LegEvent::ForeignReply(rid, 500, super::sip::empty_foreign());
            self.tell(now, owner, reply, out);
        }
    }
}

fn payload(it: Description) -> Payload {
    Payload { content_type: it.content_type, bytes: it.body }
}
