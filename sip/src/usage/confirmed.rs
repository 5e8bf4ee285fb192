//! Requests within a confirmed (or early, from its caller) dialog: RFC 3261 §12.2.2, §15.1.2.
//!
//! BYE ends the usage. INVITE goes to [`super::reinvite`]. What SIP itself has no use for (INFO,
//! OPTIONS, MESSAGE, unknown methods) is asked of the layer above, which passes it end to end.

use super::offers::{Kind, OfferId};
use super::{ASKED_MAX, Asked, End, Fate, Payload, RequestId, State, Usage, What, Why};
use crate::agent::ALLOW;
use crate::dialog::Sequence;
use crate::endpoint::{Purpose, Reply, Work};
use crate::transaction::ServerId;
use crate::usage::offers::Carrier;
use crate::wire::{Message, Method, Name};

impl Usage {
    /// A request in our dialog other than ACK and CANCEL.
    pub(crate) fn on_request<'m>(
        &mut self,
        work: &mut Work<'_, 'm>,
        server: ServerId,
        message: Message<'m>,
    ) -> Fate {
        let Some(dialog) = &mut self.dialog else {
            work.reply(server, &message, &Reply::status(481));
            return Fate::Keep;
        };
        if dialog.receive_cseq(message.cseq().number) == Sequence::OutOfOrder {
            work.reply(server, &message, &Reply::status(500));
            return Fate::Keep;
        }
        match message.method() {
            Method::Bye => self.on_bye(work, server, message),
            Method::Invite => self.on_reinvite(work, server, message),
            // Not built: they would need state that we do not keep.
            Method::Update
            | Method::Refer
            | Method::Subscribe
            | Method::Register
            | Method::Publish => {
                work.reply(server, &message, &Reply::status(405));
                Fate::Keep
            }
            // Nothing of ours is provisional-reliable or subscribed (RFC 3262 §3, RFC 6665 §4.1.3).
            Method::Prack | Method::Notify => {
                work.reply(server, &message, &Reply::status(481));
                Fate::Keep
            }
            Method::Info | Method::Options | Method::Message | Method::Other(_) => {
                self.on_foreign(work, server, message);
                Fate::Keep
            }
            Method::Ack | Method::Cancel => Fate::Keep,
        }
    }

    fn on_bye<'m>(
        &mut self,
        work: &mut Work<'_, 'm>,
        server: ServerId,
        message: Message<'m>,
    ) -> Fate {
        work.reply(server, &message, &Reply::status(200));
        if matches!(self.state, State::Invited(_)) {
            // §15.1.2: BYE in an early dialog; the INVITE gets 487.
            self.refuse(work, &End { status: 487, ..End::default() });
        }
        self.close_requests(work);
        self.tell_end(work, Why::Bye, Some(message));
        Fate::Gone
    }

    fn on_foreign<'m>(&mut self, work: &mut Work<'_, 'm>, server: ServerId, message: Message<'m>) {
        if self.owner.is_none() || self.asked.len() >= ASKED_MAX {
            work.reply(server, &message, &Reply::status(500));
            return;
        }
        if let Err(refusal) = work.stack.check_extensions(&message) {
            work.reply(server, &message, &refusal);
            return;
        }
        let rid = self.mint_request();
        let head = work.stack.response_head(&message, None, work.path);
        let unhandled = unhandled(&message);
        self.asked.push(Asked { rid, server, head, unhandled });
        self.tell(work, What::Asked { rid, message });
    }

    /// Replies to what was asked and nobody above could deal with.
    pub(crate) fn reply_unhandled(&mut self, work: &mut Work<'_, '_>, rid: RequestId) {
        let asked = self.asked.iter().find(|asked| asked.rid == rid);
        if let Some(status) = asked.map(|asked| asked.unhandled) {
            self.reply(work, rid, status, b"", b"");
        }
    }

    /// Replies to what was asked. `lines` are further header lines, each ended by CRLF.
    pub(crate) fn reply(
        &mut self,
        work: &mut Work<'_, '_>,
        rid: RequestId,
        status: u16,
        lines: &[u8],
        body: &[u8],
    ) {
        let Some(at) = self.asked.iter().position(|asked| asked.rid == rid) else { return };
        let asked = self.asked.swap_remove(at);
        let status = if (200..700).contains(&status) { status } else { 500 };
        let mut builder = crate::wire::Builder::response(work.stack.scratch_mut(), status, None);
        builder = builder.line(&asked.head);
        builder = builder.line(lines);
        if status == 405 {
            builder = builder.header(Name::Allow, ALLOW);
        }
        // The type is among the lines, as it came.
        builder.body(None, body);
        work.respond(asked.server, status);
    }

    /// Sends a request that SIP does not understand. `lines` include Content-Type.
    pub(crate) fn ask(
        &mut self,
        work: &mut Work<'_, '_>,
        rid: RequestId,
        method: &[u8],
        lines: &[u8],
        body: &[u8],
    ) -> bool {
        let credentials = self.credentials(work, method);
        let Some(dialog) = self.dialog.as_mut().filter(|_| matches!(self.state, State::Confirmed))
        else {
            return false;
        };
        let cseq = dialog.next_cseq();
        let path = dialog.path();
        work.request_non_invite(path, Purpose::Ask(rid), |out, branch, agent| {
            let mut builder = dialog.request(out, method, cseq, branch, agent);
            builder = builder.line(&credentials).line(lines);
            builder.body(None, body);
        })
    }

    /// The response to our `ask`; `None` when none came in time.
    pub(crate) fn on_replied<'m>(
        &mut self,
        work: &mut Work<'_, 'm>,
        rid: RequestId,
        status: u16,
        message: Option<Message<'m>>,
    ) -> Fate {
        if status < 200 {
            return Fate::Keep;
        }
        self.tell(work, What::Replied { rid, status, message });
        // §12.2.1.2: the peer does not know the dialog, or is silent: it is over.
        if status == 481 || (status == 408 && message.is_none()) {
            return self.dialog_gone(work, message);
        }
        Fate::Keep
    }

    /// §12.2.1.2: ends a dialog that the peer has lost.
    pub(crate) fn dialog_gone<'m>(
        &mut self,
        work: &mut Work<'_, 'm>,
        message: Option<Message<'m>>,
    ) -> Fate {
        self.close_requests(work);
        self.send_bye(work, &End::default());
        self.tell_end(work, Why::DialogGone, message);
        Fate::Gone
    }

    /// Answers everything of the peer's that still waits, since the dialog ends.
    pub(crate) fn close_requests(&mut self, work: &mut Work<'_, '_>) {
        for asked in std::mem::take(&mut self.asked) {
            let mut builder = crate::wire::Builder::response(work.stack.scratch_mut(), 481, None);
            builder = builder.line(&asked.head);
            builder.no_body();
            work.respond(asked.server, 481);
        }
        self.close_reinvite(work);
    }

    /// A description from the layer above, to go out in whatever message may carry it.
    pub(crate) fn describe(
        &mut self,
        work: &mut Work<'_, '_>,
        oid: OfferId,
        kind: Kind,
        body: Payload,
    ) {
        match kind {
            Kind::Offer => self.offer(work, oid, Some(body)),
            Kind::Answer => match self.offers.owes(oid) {
                Some(Carrier::Success) if self.is_confirmed() => {
                    self.offers.local_answer(oid);
                    self.accept_reinvite(work, Some(&body));
                }
                Some(Carrier::Ack) => {
                    self.offers.local_answer(oid);
                    if let super::AckOut::Owed { cseq } = self.ack {
                        self.send_ack(work, cseq, Some(Box::new(body)));
                    }
                    self.send_queued(work);
                }
                // The initial INVITE is answered by `accept`; anything else is too late.
                Some(Carrier::Success | Carrier::Invite) | None => {}
            },
        }
    }

    /// Refuses the peer's offer. An offer in a 2xx cannot be refused (§13.2.2.4): that ends the
    /// dialog, and the layer above, which learns of it by `Fate::Gone`.
    pub(crate) fn refuse_offer(
        &mut self,
        work: &mut Work<'_, '_>,
        oid: OfferId,
        status: u16,
    ) -> Fate {
        match self.offers.owes(oid) {
            Some(Carrier::Ack) => {
                self.offers.drop_exchange();
                self.owner = None;
                self.hang_up(work, &End { q850: Some(88), ..End::default() })
            }
            Some(Carrier::Success | Carrier::Invite) => {
                self.offers.drop_exchange();
                self.refuse_reinvite(work, status);
                Fate::Keep
            }
            None => {
                self.refuse_asked_offer(work, oid, status);
                Fate::Keep
            }
        }
    }
}

/// What a request in a dialog gets when there is no other leg to pass it to: the dialog is alive
/// (OPTIONS, an empty INFO), its body means nothing to us (RFC 6086 §4.2.2), or the method does
/// not.
fn unhandled(message: &Message<'_>) -> u16 {
    match message.method() {
        Method::Options => 200,
        Method::Info if message.body().is_empty() => 200,
        Method::Info => 415,
        Method::Message => 405,
        Method::Other(_) | Method::Invite | Method::Ack | Method::Bye | Method::Cancel => 501,
        Method::Register
        | Method::Prack
        | Method::Update
        | Method::Refer
        | Method::Notify
        | Method::Subscribe
        | Method::Publish => 405,
    }
}
