//! INVITE within a dialog: RFC 3261 §14, both ways, with glare.
//!
//! ```text
//!               peer's INVITE            accept / refuse / CANCEL / BYE
//!      ┌────────────────────────► Server ─────────────────────────────┐
//!   none                                                              ├──► none
//!      ├── our offer ──► Client ──2xx, failure────────────────────────┤
//!      │                   │ 491                                      │
//!      │                   └────► Backoff ──timer──► Client           │
//!      └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! What cannot be sent yet (an exchange is open, a 2xx has no ACK) waits in one place: a newer
//! offer replaces an older one that has not left.

use std::time::Duration;
use turn::Mono;

use super::acks::AckOut;
use super::offers::{Carrier, Kind, OfferId};
use super::{Body, Fate, Payload, Role, State, TimerKind, Usage, What, Why, has_come};
use crate::agent::{ALLOW, push_contact};
use crate::endpoint::{Purpose, Reply, Work};
use crate::path::Path;
use crate::transaction::{ClientId, ClientKind, ServerId};
use crate::wire::{Builder, Message, Name};

/// Re-INVITEs of ours that may meet glare one after the other before the offer counts as refused.
const GLARE_TRIES_MAX: u8 = 5;

/// How often 64*T1 a re-INVITE of ours may stay without a final response: a person may have to
/// agree to it, but nobody takes two minutes.
const PATIENCE: u32 = 4;

/// Seconds for Retry-After in the 500 of §14.2: a random number up to this.
const RETRY_AFTER_MAX_S: u64 = 10;

/// An offer that is to be made; `None` asks the peer for one.
#[derive(Debug)]
struct Wish {
    oid: OfferId,
    body: Option<Payload>,
    tries: u8,
}

#[derive(Debug)]
enum Phase {
    /// Nothing under way; a wish may wait.
    Idle,
    /// The peer's re-INVITE waits for our final response.
    Server { server: ServerId, head: Box<[u8]>, cseq: u32, path: Path, asked: Option<OfferId> },
    /// Ours waits for the peer's, until `due`.
    Client { wish: Wish, client: ClientId, cseq: u32, due: Mono },
    /// Ours met the peer's; tried again at `due`.
    Backoff { wish: Wish, due: Mono },
}

/// The re-INVITE machine of one usage; made when first needed.
#[derive(Debug)]
pub(crate) struct Reinvite {
    state: Phase,
    waiting: Option<Wish>,
}

impl Reinvite {
    fn idle() -> Box<Self> {
        Box::new(Self { state: Phase::Idle, waiting: None })
    }
}

impl Usage {
    fn reinvite_mut(&mut self) -> &mut Reinvite {
        self.reinvite.get_or_insert_with(Reinvite::idle)
    }

    /// The exchange that our empty re-INVITE asks for.
    pub(crate) fn reinvite_asks(&self) -> Option<OfferId> {
        match &self.reinvite.as_ref()?.state {
            Phase::Client { wish, .. } if wish.body.is_none() => Some(wish.oid),
            Phase::Client { .. } | Phase::Idle | Phase::Server { .. } | Phase::Backoff { .. } => {
                None
            }
        }
    }

    // ----- the peer's re-INVITE

    /// §14.2.
    pub(crate) fn on_reinvite<'m>(
        &mut self,
        work: &mut Work<'_, 'm>,
        server: ServerId,
        message: Message<'m>,
    ) -> Fate {
        let ours = match self.reinvite.as_ref().map(|reinvite| &reinvite.state) {
            Some(Phase::Client { .. }) => true,
            Some(Phase::Server { .. }) => return self.too_early(work, server, &message),
            Some(Phase::Idle | Phase::Backoff { .. }) | None => false,
        };
        if matches!(self.state, State::Invited(_)) || self.unacked.is_some() {
            return self.too_early(work, server, &message);
        }
        if self.owner.is_none() {
            work.reply(server, &message, &Reply::status(481));
            return Fate::Keep;
        }
        if ours || !self.offers.is_stable() {
            work.reply(server, &message, &Reply::status(491));
            return Fate::Keep;
        }
        let checked = work.stack.check_extensions(&message);
        let body = match checked.and_then(|()| work.stack.checked_session_body(&message)) {
            Ok(body) => body,
            Err(refusal) => {
                work.reply(server, &message, &refusal);
                return Fate::Keep;
            }
        };
        let head = work.stack.response_head(&message, None, work.path);
        let path = work.path;
        let offer = body.and_then(|body| Some((self.offers.remote_offer(Carrier::Invite)?, body)));
        let asked = if offer.is_none() { Some(self.offers.mint()) } else { None };
        let cseq = message.cseq().number;
        if let Some(dialog) = &mut self.dialog {
            dialog.refresh_target(&message, path);
        }
        self.yield_to_peer(work);
        self.reinvite_mut().state = Phase::Server { server, head, cseq, path, asked };
        match (offer, asked) {
            (Some((oid, body)), _) => {
                self.tell(work, What::Described { oid, kind: Kind::Offer, body });
            }
            (None, Some(oid)) => self.tell(work, What::WantsOffer { oid }),
            (None, None) => {}
        }
        Fate::Keep
    }

    /// The peer's offer came while ours waited for another try after glare: ours goes after it.
    fn yield_to_peer(&mut self, work: &mut Work<'_, '_>) {
        let reinvite = self.reinvite_mut();
        match std::mem::replace(&mut reinvite.state, Phase::Idle) {
            Phase::Backoff { wish, .. } if reinvite.waiting.is_some() => {
                self.tell(work, What::OfferRefused { oid: wish.oid, status: 491 });
            }
            Phase::Backoff { wish, .. } => reinvite.waiting = Some(wish),
            other @ (Phase::Idle | Phase::Server { .. } | Phase::Client { .. }) => {
                reinvite.state = other;
            }
        }
    }

    /// §14.2: a second INVITE before the first has its final response.
    fn too_early<'m>(
        &mut self,
        work: &mut Work<'_, 'm>,
        server: ServerId,
        message: &Message<'m>,
    ) -> Fate {
        let seconds = work.stack.random_below(RETRY_AFTER_MAX_S + 1);
        work.reply(server, message, &Reply::retry_after(500, seconds as u32));
        Fate::Keep
    }

    /// 2xx to the peer's re-INVITE.
    pub(crate) fn accept_reinvite(&mut self, work: &mut Work<'_, '_>, body: Option<&Payload>) {
        let Some((server, head, cseq, path)) = self.take_server() else { return };
        let path = work.stack.server_path(server).unwrap_or(path);
        let mut builder = Builder::response(work.stack.scratch_mut(), 200, None);
        builder = builder.line(&head);
        builder = builder.composed(Name::Contact, |out| push_contact(out, &path));
        builder = builder.header(Name::Allow, ALLOW);
        match body {
            Some(body) => builder.body(Some(&body.content_type), &body.bytes),
            None => builder.no_body(),
        }
        work.respond(server, 200);
        self.await_ack(work, cseq, path);
    }

    /// Refuses the peer's re-INVITE; the session stays as it was (§14.2).
    pub(crate) fn refuse_reinvite(&mut self, work: &mut Work<'_, '_>, status: u16) {
        let Some((server, head, ..)) = self.take_server() else { return };
        let status = if (300..700).contains(&status) { status } else { 488 };
        let mut builder = Builder::response(work.stack.scratch_mut(), status, None);
        builder = builder.line(&head);
        if status == 500 {
            builder = builder.number(Name::RetryAfter, 1);
        }
        builder.no_body();
        work.respond(server, status);
        self.send_queued(work);
    }

    /// The layer above has no offer for the peer's empty re-INVITE.
    pub(crate) fn refuse_asked_offer(
        &mut self,
        work: &mut Work<'_, '_>,
        oid: OfferId,
        status: u16,
    ) {
        if self.asked_offer() == Some(oid) {
            self.refuse_reinvite(work, status);
        }
    }

    /// The peer takes its re-INVITE back.
    pub(crate) fn cancel_reinvite(&mut self, work: &mut Work<'_, '_>) {
        if let Some(Phase::Server { .. }) = self.reinvite.as_ref().map(|reinvite| &reinvite.state) {
            self.offers.drop_exchange();
            self.refuse_reinvite(work, 487);
        }
    }

    /// The dialog ends: nothing that waits is begun any more, and what is open is ended. An INVITE
    /// of ours would otherwise stay open for ever once it has a provisional response.
    pub(super) fn close_reinvite(&mut self, work: &mut Work<'_, '_>) {
        let Some(reinvite) = &mut self.reinvite else { return };
        reinvite.waiting = None;
        match reinvite.state {
            Phase::Client { client, .. } => _ = work.cancel(client),
            Phase::Server { .. } => self.cancel_reinvite(work),
            Phase::Idle | Phase::Backoff { .. } => {}
        }
    }

    fn asked_offer(&self) -> Option<OfferId> {
        match &self.reinvite.as_ref()?.state {
            Phase::Server { asked, .. } => *asked,
            Phase::Idle | Phase::Client { .. } | Phase::Backoff { .. } => None,
        }
    }

    fn take_server(&mut self) -> Option<(ServerId, Box<[u8]>, u32, Path)> {
        let reinvite = self.reinvite.as_mut()?;
        match std::mem::replace(&mut reinvite.state, Phase::Idle) {
            Phase::Server { server, head, cseq, path, .. } => Some((server, head, cseq, path)),
            other @ (Phase::Idle | Phase::Client { .. } | Phase::Backoff { .. }) => {
                reinvite.state = other;
                None
            }
        }
    }

    // ----- our re-INVITE

    /// Makes an offer (`Some`), or asks the peer for one (`None`), as soon as it is legal.
    pub(crate) fn offer(&mut self, work: &mut Work<'_, '_>, oid: OfferId, body: Option<Payload>) {
        if body.is_some() && self.asked_offer() == Some(oid) {
            self.offers.local_offer(oid);
            self.accept_reinvite(work, body.as_ref());
            return;
        }
        self.reinvite_mut().waiting = Some(Wish { oid, body, tries: 0 });
        self.send_queued(work);
    }

    /// Sends what waited, if it may go now.
    pub(crate) fn send_queued(&mut self, work: &mut Work<'_, '_>) -> Fate {
        let ready = self.is_confirmed()
            && self.unacked.is_none()
            && self.offers.is_stable()
            && !matches!(self.ack, AckOut::Owed { .. });
        let Some(reinvite) = &mut self.reinvite else { return Fate::Keep };
        if !ready || !matches!(reinvite.state, Phase::Idle) {
            return Fate::Keep;
        }
        if let Some(wish) = reinvite.waiting.take() {
            self.send_reinvite(work, wish);
        }
        Fate::Keep
    }

    fn send_reinvite(&mut self, work: &mut Work<'_, '_>, wish: Wish) {
        let credentials = self.credentials(work, b"INVITE");
        let Some(dialog) = &mut self.dialog else { return };
        let cseq = dialog.next_cseq();
        let path = dialog.path();
        let sent =
            work.request(ClientKind::Invite, path, Purpose::Reinvite, |out, branch, writing| {
                let mut builder = dialog.request(out, b"INVITE", cseq, branch, writing.agent());
                builder = builder
                    .line(&credentials)
                    .composed(Name::Contact, |out| push_contact(out, &path));
                builder = builder.header(Name::Allow, ALLOW);
                match &wish.body {
                    Some(body) => builder.body(Some(&body.content_type), &body.bytes),
                    None => builder.no_body(),
                }
            });
        let Some(client) = sent else {
            self.tell(work, What::OfferRefused { oid: wish.oid, status: 503 });
            return;
        };
        if wish.body.is_some() {
            self.offers.local_offer(wish.oid);
        }
        let due = work.turn.now + work.stack.timing().timeout() * PATIENCE;
        self.reinvite_mut().state = Phase::Client { wish, client, cseq, due };
        work.arm(TimerKind::Patience, due);
    }

    /// A response to our re-INVITE (§14.1).
    pub(crate) fn on_reinvite_response<'m>(
        &mut self,
        work: &mut Work<'_, 'm>,
        message: Message<'m>,
        status: u16,
    ) -> Fate {
        let number = message.cseq().number;
        let pending = match self.reinvite.as_ref().map(|reinvite| &reinvite.state) {
            Some(Phase::Client { cseq, .. }) => *cseq == number,
            Some(Phase::Idle | Phase::Server { .. } | Phase::Backoff { .. }) | None => false,
        };
        match status {
            0..=199 => Fate::Keep,
            200..=299 if pending => {
                let path = self.path().unwrap_or(work.path);
                if let Some(dialog) = &mut self.dialog {
                    dialog.refresh_target(&message, path);
                }
                let session = self.take_success_body(work, &message, number);
                self.reinvite_answered(work, session)
            }
            200..=299 => {
                self.acknowledge_late(work, number);
                Fate::Keep
            }
            _ if !pending => Fate::Keep,
            491 => self.on_glare(work),
            408 | 481 => self.dialog_gone(work, Some(message)),
            _ => self.offer_failed(work, status),
        }
    }

    /// A 2xx that comes again, or after we had lost patience: each gets its ACK (§13.2.2.4).
    fn acknowledge_late(&mut self, work: &mut Work<'_, '_>, cseq: u32) {
        match self.ack {
            AckOut::Sent { cseq: last, .. } | AckOut::Owed { cseq: last } if last >= cseq => {
                self.repeat_ack(work, cseq);
            }
            AckOut::None | AckOut::Sent { .. } | AckOut::Owed { .. } => {
                self.send_ack(work, cseq, None);
            }
        }
    }

    /// The peer has our re-INVITE and never decides: taken back, so that others may follow.
    pub(crate) fn lose_patience(&mut self, work: &mut Work<'_, '_>) -> Fate {
        let now = work.turn.now;
        match self.reinvite.as_ref().map(|reinvite| &reinvite.state) {
            Some(Phase::Client { client, due, .. }) if has_come(*due, now) => {
                work.cancel(*client);
                self.offer_failed(work, 408)
            }
            Some(
                Phase::Client { .. } | Phase::Idle | Phase::Server { .. } | Phase::Backoff { .. },
            )
            | None => Fate::Keep,
        }
    }

    /// Our re-INVITE was accepted: tells what came of it.
    fn reinvite_answered<'m>(
        &mut self,
        work: &mut Work<'_, 'm>,
        session: Option<(OfferId, Kind, Body<'m>)>,
    ) -> Fate {
        let Phase::Client { wish, .. } =
            std::mem::replace(&mut self.reinvite_mut().state, Phase::Idle)
        else {
            return Fate::Keep;
        };
        match session {
            Some((oid, kind, body)) => self.tell(work, What::Described { oid, kind, body }),
            // A 2xx without the description that it owes: as if refused.
            None => self.tell(work, What::OfferRefused { oid: wish.oid, status: 488 }),
        }
        self.send_queued(work)
    }

    /// Our re-INVITE got no final response at all.
    pub(crate) fn on_reinvite_failed(&mut self, work: &mut Work<'_, '_>, why: Why) -> Fate {
        match why {
            Why::Unreachable => self.offer_failed(work, 503),
            Why::TimedOut
            | Why::Refused(_)
            | Why::Cancelled
            | Why::Bye
            | Why::AckMissing
            | Why::DialogGone => self.dialog_gone(work, None),
        }
    }

    fn offer_failed(&mut self, work: &mut Work<'_, '_>, status: u16) -> Fate {
        let reinvite = self.reinvite_mut();
        match std::mem::replace(&mut reinvite.state, Phase::Idle) {
            Phase::Client { wish, .. } | Phase::Backoff { wish, .. } => {
                self.offers.drop_exchange();
                self.tell(work, What::OfferRefused { oid: wish.oid, status });
                self.send_queued(work)
            }
            other @ (Phase::Idle | Phase::Server { .. }) => {
                self.reinvite_mut().state = other;
                Fate::Keep
            }
        }
    }

    // ----- glare

    /// §14.1: who owns the Call-ID waits 2.1 to 4.0 s, the other 0 to 2.0 s, in steps of 10 ms.
    fn on_glare(&mut self, work: &mut Work<'_, '_>) -> Fate {
        let steps = match self.role {
            Role::Client => 210 + work.stack.random_below(191),
            Role::Server => work.stack.random_below(201),
        };
        let due = work.turn.now + Duration::from_millis(steps * 10);
        self.offers.drop_exchange();
        let reinvite = self.reinvite_mut();
        match std::mem::replace(&mut reinvite.state, Phase::Idle) {
            Phase::Client { mut wish, .. } if wish.tries < GLARE_TRIES_MAX => {
                wish.tries += 1;
                reinvite.state = Phase::Backoff { wish, due };
                work.arm(TimerKind::Glare, due);
            }
            Phase::Client { wish, .. } => {
                self.tell(work, What::OfferRefused { oid: wish.oid, status: 491 });
            }
            other @ (Phase::Idle | Phase::Server { .. } | Phase::Backoff { .. }) => {
                reinvite.state = other;
            }
        }
        Fate::Keep
    }

    pub(crate) fn glare_over(&mut self, work: &mut Work<'_, '_>) -> Fate {
        let now = work.turn.now;
        let Some(reinvite) = &mut self.reinvite else { return Fate::Keep };
        match std::mem::replace(&mut reinvite.state, Phase::Idle) {
            Phase::Backoff { wish, due } if has_come(due, now) => {
                // A newer offer has replaced this one: it is refused, the newer one goes.
                match &reinvite.waiting {
                    Some(_) => self.tell(work, What::OfferRefused { oid: wish.oid, status: 491 }),
                    None => reinvite.waiting = Some(wish),
                }
                self.send_queued(work)
            }
            other @ (Phase::Idle
            | Phase::Server { .. }
            | Phase::Client { .. }
            | Phase::Backoff { .. }) => {
                reinvite.state = other;
                Fate::Keep
            }
        }
    }
}
