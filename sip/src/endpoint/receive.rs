//! The way of one message through the endpoint: RFC 3261 §8.2, §9.2, §12.2.2, §13.2.2.4.

use std::hash::Hasher;
use turn::{Mono, Slot};

use super::{Admission, Endpoint, Extra, Purpose, Reply, User, Work, checks};
use crate::dialog::{Dialog, DialogFault};
use crate::mint::{Minted, Reading};
use crate::path::{Outbox, Path};
use crate::transaction::{
    CancelTarget, ClientId, Inbound, Outcome, ServerId, TimerKey, Turn, answer_path,
};
use crate::usage::offers::Carrier;
use crate::usage::{
    Event, Events, Fate, Invited, Role, State, Usage, UsageId, What, Why, tag_stem,
};
use crate::wire::{Message, Method};

/// When and how a message came.
#[derive(Clone, Copy)]
pub(super) struct Came {
    pub(super) now: Mono,
    pub(super) path: Path,
}

/// What an INVITE without room gets (RFC 3261 §21.5.4), in seconds.
const FULL_RETRY_AFTER_S: u32 = 5;

impl Endpoint {
    /// Takes one message in. The events borrow from it.
    pub fn receive<'m>(
        &mut self,
        now: Mono,
        message: Message<'m>,
        path: Path,
        admission: &mut dyn Admission,
        out: &mut Outbox,
    ) -> Events<'m> {
        let mut events = Events::new();
        if begins_something(&message)
            && !self.stack.transactions.knows(now, &message)
            && let Some(reply) = admission.refuse(&message, &path)
        {
            self.stack.counts.refused += 1;
            match reply.status {
                0 => self.stack.counts.silenced += 1,
                _ => self.answer_without_state(&message, path, &reply, out),
            }
            return events;
        }
        if names_a_dialog(&message)
            && self.find_by_tag(message.to_tag(), &message).is_none()
            && !self.stack.transactions.knows(now, &message)
        {
            // §12.2.2 without state: nobody has asked yet whether the sender may come in.
            self.stack.counts.strays += 1;
            self.answer_without_state(&message, path, &Reply::status(481), out);
            return events;
        }
        let came = Came { now, path };
        let mut turn = Turn { now, out, timers: &mut self.timers };
        match self.stack.transactions.receive(&mut turn, &message, path) {
            Inbound::Absorbed => {}
            Inbound::Dropped => self.stack.counts.strays += 1,
            Inbound::Full => {
                self.stack.counts.full += 1;
                let reply = Reply::retry_after(503, FULL_RETRY_AFTER_S);
                self.answer_without_state(&message, path, &reply, out);
            }
            Inbound::Request(server) => {
                self.on_request(came, server, message, out, &mut events);
            }
            Inbound::Ack => self.on_ack(now, message, out, &mut events),
            Inbound::Cancel { cancel, target } => {
                let status = if matches!(target, CancelTarget::Unknown) { 481 } else { 200 };
                self.respond(came, cancel, &message, &Reply::status(status), out);
                self.on_cancelled(now, target, out, &mut events);
            }
            Inbound::Response { client, user, .. } => {
                self.on_response(came, (client, user), message, out, &mut events);
            }
            Inbound::StrayResponse => self.on_stray_response(came, message, out, &mut events),
        }
        events
    }

    /// Answers a request that the wire layer could only salvage, or that must be refused before
    /// anything else, without keeping any state (§8.2.7). ACK gets no answer.
    pub fn reject(
        &mut self,
        message: &Message<'_>,
        path: Path,
        reply: &Reply<'_>,
        out: &mut Outbox,
    ) {
        self.stack.counts.rejected += 1;
        self.answer_without_state(message, path, reply, out);
    }

    /// A message that had been given out could not be sent (§17.1.4).
    pub fn on_send_failed(
        &mut self,
        now: Mono,
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> Events<'static> {
        let mut events = Events::new();
        let mut turn = Turn { now, out, timers: &mut self.timers };
        let outcome = self.stack.transactions.on_send_failed(&mut turn, message);
        self.on_outcome(now, outcome, out, &mut events);
        events
    }

    fn answer_without_state(
        &mut self,
        message: &Message<'_>,
        path: Path,
        reply: &Reply<'_>,
        out: &mut Outbox,
    ) {
        if message.method() == Method::Ack {
            return;
        }
        self.stack.write_reply(message, path, reply);
        out.send(answer_path(message, path), self.stack.scratch());
    }

    // ----- requests

    fn on_request<'m>(
        &mut self,
        came: Came,
        server: ServerId,
        message: Message<'m>,
        out: &mut Outbox,
        events: &mut Events<'m>,
    ) {
        if message.to_tag().is_some() {
            return self.on_request_in_dialog(came, server, message, out, events);
        }
        let outcome = match checks::check(&message) {
            Err(reply) => Err(reply),
            Ok(()) if message.method() == Method::Invite => {
                self.on_invite(came, server, message, out, events)
            }
            Ok(()) if message.method() == Method::Register => {
                let what = What::Outside { server, message };
                events.push(Event { usage: NO_USAGE, owner: None, what });
                Ok(())
            }
            Ok(()) => Err(Reply { extra: Extra::Capabilities, ..Reply::status(200) }),
        };
        if let Err(reply) = outcome {
            self.respond(came, server, &message, &reply, out);
        }
    }

    /// A request with a To tag: for one of our dialogs, or for none (481, §12.2.2).
    fn on_request_in_dialog<'m>(
        &mut self,
        came: Came,
        server: ServerId,
        message: Message<'m>,
        out: &mut Outbox,
        events: &mut Events<'m>,
    ) {
        let Some(id) = self.find_by_tag(message.to_tag(), &message) else {
            return self.respond(came, server, &message, &Reply::status(481), out);
        };
        if message.method() == Method::Invite {
            let user = User { usage: id, purpose: Purpose::Reinvite };
            self.stack.transactions.set_user(server, user);
        }
        self.work_on(came, id, out, events, |usage, work| usage.on_request(work, server, message));
    }

    /// A new call: what is left of the checks, then a usage (§8.2.2.2, §13.3.1).
    fn on_invite<'m>(
        &mut self,
        came: Came,
        server: ServerId,
        message: Message<'m>,
        out: &mut Outbox,
        events: &mut Events<'m>,
    ) -> Result<(), Reply<'static>> {
        let path = came.path;
        let merge_key = self.merge_key(&message);
        if self.merged.contains_key(&merge_key) {
            return Err(Reply::status(482));
        }
        let body = checks::session_body(&message)?;
        let full = Reply::retry_after(503, FULL_RETRY_AFTER_S);
        let id = UsageId(self.usages.next_slot().ok_or(full)?);
        let mut tag = Vec::with_capacity(crate::mint::MINTED_LEN);
        self.stack.minter.write(Minted::Tag, id.0, &mut tag);
        let dialog = Dialog::of_server(&message, &tag, path).map_err(|fault| match fault {
            DialogFault::NoContact => Reply { warning: "INVITE without Contact", ..BAD },
            DialogFault::NotAddress => Reply { warning: "Contact or Record-Route", ..BAD },
            DialogFault::TooLong => Reply::status(513),
        })?;
        let head = self.stack.response_head(&message, Some(&tag), path);
        let tag_end = memchr::memmem::find(&head, &tag).map_or(head.len(), |at| at + tag.len());
        let cseq = message.cseq().number;
        let invited = Invited { server, head, tag_end, cseq, told: 0, early: 0, path };
        let mut usage = Usage::new(Role::Server, State::Invited(Box::new(invited)), Some(dialog));
        usage.merge_key = merge_key;
        let offer = body.and_then(|body| Some((usage.offers.remote_offer(Carrier::Invite)?, body)));
        self.usages.insert(usage).map_err(|_| full)?;
        self.merged.insert(merge_key, id);
        self.fresh.push(id);
        let user = User { usage: id, purpose: Purpose::Invite };
        self.stack.transactions.set_user(server, user);
        self.work_on(came, id, out, events, |_, work| {
            work.tell_new(What::Invited { message, offer });
            Fate::Keep
        });
        Ok(())
    }

    fn on_ack<'m>(
        &mut self,
        now: Mono,
        message: Message<'m>,
        out: &mut Outbox,
        events: &mut Events<'m>,
    ) {
        match self.find_by_tag(message.to_tag(), &message) {
            Some(id) => self.work(now, id, out, events, |usage, work| usage.on_ack(work, message)),
            None => self.stack.counts.strays += 1,
        }
    }

    /// A CANCEL, which has been answered (§9.2).
    fn on_cancelled(
        &mut self,
        now: Mono,
        target: CancelTarget<User>,
        out: &mut Outbox,
        events: &mut Events<'_>,
    ) {
        match target {
            CancelTarget::Open(_, user) => {
                self.work(now, user.usage, out, events, |usage, work| usage.on_cancel(work));
            }
            CancelTarget::Answered | CancelTarget::Unknown => {}
        }
    }

    // ----- responses

    fn on_response<'m>(
        &mut self,
        came: Came,
        (client, user): (ClientId, User),
        message: Message<'m>,
        out: &mut Outbox,
        events: &mut Events<'m>,
    ) {
        let status = message.status().unwrap_or(500);
        if let Purpose::Outside(owner) = user.purpose {
            if status >= 200 {
                let what = What::OutsideReplied { owner, status, message: Some(message) };
                events.push(Event { usage: NO_USAGE, owner: None, what });
            }
            return;
        }
        let is_invite = matches!(user.purpose, Purpose::Invite | Purpose::Reinvite);
        if is_invite && self.usages.view(user.usage.0).is_none() {
            // The dialog ended while the INVITE was still open (case T14). One that has only
            // provisional responses would stay so for ever.
            if status < 200 {
                let user = User { purpose: Purpose::Cancel, ..user };
                let mut turn = Turn { now: came.now, out, timers: &mut self.timers };
                self.stack.transactions.cancel(&mut turn, client, user);
                return;
            }
            return self.on_stray_response(came, message, out, events);
        }
        self.work(came.now, user.usage, out, events, |usage, work| match user.purpose {
            Purpose::Invite => usage.on_invite_response(work, message, status),
            Purpose::Reinvite => usage.on_reinvite_response(work, message, status),
            Purpose::Ask(rid) => usage.on_replied(work, rid, status, Some(message)),
            Purpose::Bye | Purpose::Cancel | Purpose::Outside(_) => Fate::Keep,
        });
    }

    /// A response to no transaction: a 2xx that came late or again (§13.2.2.4). Our From tag says
    /// whose it is.
    fn on_stray_response<'m>(
        &mut self,
        came: Came,
        message: Message<'m>,
        out: &mut Outbox,
        events: &mut Events<'m>,
    ) {
        let Came { now, path } = came;
        let is_success = matches!(message.status(), Some(200..=299));
        let slot = self.slot_of_tag(message.from_tag());
        let Some(slot) = slot.filter(|_| is_success && message.method() == Method::Invite) else {
            self.stack.counts.strays += 1;
            return;
        };
        let id = UsageId(slot);
        if let Some(usage) = self.usages.view(slot) {
            if usage.dialog.as_ref().is_none_or(|d| d.call_id() == message.call_id()) {
                self.work_on(came, id, out, events, |usage, work| {
                    usage.on_late_success(work, message)
                });
            }
            return;
        }
        let tag = message.to_tag().map(|tag| self.stack.tag_hash(tag));
        let known = self.stack.ended.find(slot);
        let turn = Turn { now, out, timers: &mut self.timers };
        let mut work = Work { stack: &mut self.stack, turn, id, path, events };
        match known {
            None => work.stack.counts.strays += 1,
            Some(known) if Some(known) == tag => work.acknowledge_only(&message, path),
            Some(_) if work.stack.ended.hang_up_fork(slot) => {
                work.end_stray_dialog(&message, path);
            }
            Some(_) => work.stack.counts.strays += 1,
        }
    }

    // ----- timers

    pub(super) fn transaction_timer(
        &mut self,
        now: Mono,
        key: TimerKey,
        out: &mut Outbox,
        events: &mut Events<'static>,
    ) {
        let mut turn = Turn { now, out, timers: &mut self.timers };
        let outcome = self.stack.transactions.on_timer(&mut turn, key);
        self.on_outcome(now, outcome, out, events);
    }

    fn on_outcome(
        &mut self,
        now: Mono,
        outcome: Option<Outcome<User>>,
        out: &mut Outbox,
        events: &mut Events<'static>,
    ) {
        let (user, status, why) = match outcome {
            Some(Outcome::TimedOut(_, user)) => (user, 408, Why::TimedOut),
            Some(Outcome::RequestUnsent(_, user)) => (user, 503, Why::Unreachable),
            // Our refusal was never acknowledged, or could not be sent: nothing is left to do.
            Some(Outcome::AckMissing(..) | Outcome::ResponseUnsent(..)) | None => return,
        };
        if let Purpose::Outside(owner) = user.purpose {
            let what = What::OutsideReplied { owner, status, message: None };
            events.push(Event { usage: NO_USAGE, owner: None, what });
            return;
        }
        self.work(now, user.usage, out, events, |usage, work| match user.purpose {
            Purpose::Invite => usage.on_invite_failed(work, why),
            Purpose::Reinvite => usage.on_reinvite_failed(work, why),
            Purpose::Ask(rid) => usage.on_replied(work, rid, status, None),
            Purpose::Bye | Purpose::Cancel | Purpose::Outside(_) => Fate::Keep,
        });
    }

    // ----- inside

    pub(super) fn respond(
        &mut self,
        came: Came,
        server: ServerId,
        message: &Message<'_>,
        reply: &Reply<'_>,
        out: &mut Outbox,
    ) {
        if reply.status >= 400 {
            self.stack.counts.rejected += 1;
        }
        let Came { now, path } = came;
        let mut events = Events::new();
        let turn = Turn { now, out, timers: &mut self.timers };
        Work { stack: &mut self.stack, turn, id: NO_USAGE, path, events: &mut events }
            .reply(server, message, reply);
    }

    /// As [`Endpoint::work`], with the way that the message at hand came.
    fn work_on<'m>(
        &mut self,
        came: Came,
        id: UsageId,
        out: &mut Outbox,
        events: &mut Events<'m>,
        act: impl FnOnce(&mut Usage, &mut Work<'_, 'm>) -> Fate,
    ) {
        self.work(came.now, id, out, events, |usage, work| {
            work.path = came.path;
            act(usage, work)
        });
    }

    /// The usage whose dialog a request with our tag in To belongs to.
    fn find_by_tag(&self, tag: Option<&[u8]>, message: &Message<'_>) -> Option<UsageId> {
        let slot = self.slot_of_tag(tag)?;
        let dialog = self.usages.view(slot)?.dialog.as_ref()?;
        dialog.matches(message).then_some(UsageId(slot))
    }

    fn slot_of_tag(&self, tag: Option<&[u8]>) -> Option<Slot> {
        match self.stack.minter.read(Minted::Tag, tag_stem(tag?)) {
            Reading::Ours { shard, slot } if shard == self.stack.minter.shard() => Some(slot),
            Reading::Ours { .. } | Reading::OldEpoch | Reading::Strange => None,
        }
    }

    /// Call-ID, From tag and CSeq: what a merged request shares with its twin (§8.2.2.2).
    fn merge_key(&self, message: &Message<'_>) -> u64 {
        let cseq = message.cseq();
        let mut hasher = self.stack.key.hasher();
        hasher.write(message.call_id());
        hasher.write_u8(0xff);
        hasher.write(message.from_tag().unwrap_or_default());
        hasher.write_u8(0xff);
        hasher.write_u32(cseq.number);
        hasher.finish().max(1) // 0 means none
    }
}

const BAD: Reply<'static> = Reply::status(400);

/// Stands where no usage is meant.
pub(super) const NO_USAGE: UsageId = UsageId(Slot { index: u32::MAX, generation: 0 });

/// Whether a request stands outside of every dialog and transaction.
fn begins_something(message: &Message<'_>) -> bool {
    message.is_request()
        && message.to_tag().is_none()
        && !matches!(message.method(), Method::Ack | Method::Cancel)
}

/// Whether a request says that it belongs to a dialog. ACK and CANCEL get no state of a dialog.
fn names_a_dialog(message: &Message<'_>) -> bool {
    message.is_request()
        && message.to_tag().is_some()
        && !matches!(message.method(), Method::Ack | Method::Cancel)
}
