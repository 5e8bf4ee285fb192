//! What every usage shares while it works: transactions, identifiers, our user agent's name, and
//! the turn in which all happens.

use std::time::Duration;
use turn::{HashKey, Mono, Rng, Slot};

use super::{Counts, Purpose, Reply, User, ended::EndedSets};
use crate::agent::{Agent, push_contact};
use crate::dialog::Dialog;
use crate::mint::{BRANCH_LEN, MINTED_LEN, Minted, Minter};
use crate::path::Path;
use crate::transaction::{ClientId, ClientKind, ServerId, TimerKey, Timing, Transactions, Turn};
use crate::usage::{Body, Event, Events, TimerKind, UsageId};
use crate::wire::{self, Builder, CopyWith, Message, Name};

/// The shared parts of an endpoint.
pub(crate) struct Stack {
    pub(super) transactions: Transactions<User>,
    pub(super) minter: Minter,
    pub(super) agent: Agent,
    pub(super) timing: Timing,
    pub(super) rng: Rng,
    pub(super) key: HashKey,
    pub(super) counts: Counts,
    pub(super) ended: EndedSets,
    scratch: Vec<u8>,
}

impl Stack {
    pub(super) fn new(
        transactions: Transactions<User>,
        minter: Minter,
        agent: Agent,
        timing: Timing,
        mut rng: Rng,
    ) -> Self {
        Self {
            transactions,
            minter,
            agent,
            timing,
            key: rng.hash_key(),
            rng,
            counts: Counts::default(),
            ended: EndedSets::new(),
            scratch: Vec::with_capacity(4096),
        }
    }

    pub(crate) fn timing(&self) -> &Timing {
        &self.timing
    }

    pub(crate) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// The message written last into the scratch buffer.
    pub(crate) fn scratch(&self) -> &[u8] {
        &self.scratch
    }

    /// The scratch buffer, emptied, to write a message into.
    pub(crate) fn scratch_mut(&mut self) -> &mut Vec<u8> {
        self.scratch.clear();
        &mut self.scratch
    }

    pub(crate) fn random_below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    pub(crate) fn count_repeat(&mut self) {
        self.counts.successes_repeated += 1;
    }

    /// Where responses of `server` go.
    pub(crate) fn server_path(&self, server: ServerId) -> Option<Path> {
        self.transactions.server_path(server)
    }

    /// A branch for a message that is no transaction (ACK to a 2xx).
    pub(crate) fn loose_branch(&mut self) -> [u8; BRANCH_LEN] {
        self.transactions.loose_branch()
    }

    /// A short hash of a peer's tag.
    pub(super) fn tag_hash(&self, tag: &[u8]) -> u32 {
        self.key.hash(&tag.to_ascii_lowercase()) as u32
    }

    /// A tag for a response that makes no dialog: the same for each repeat of the request, so that
    /// it can be said without state (§8.2.7).
    pub(crate) fn stateless_tag(&self, message: &Message<'_>) -> [u8; MINTED_LEN] {
        use std::hash::Hasher;
        let mut hasher = self.key.hasher();
        hasher.write(message.top_via().branch().unwrap_or_default());
        hasher.write_u8(0xff);
        hasher.write(message.call_id());
        let mut tag = Vec::with_capacity(MINTED_LEN);
        let slot = Slot { index: u32::MAX, generation: hasher.finish() as u32 };
        self.minter.write(Minted::Tag, slot, &mut tag);
        tag.try_into().expect("minted text has a fixed length")
    }

    /// The lines that each response to `message` copies; see [`wire::copy_response_head`].
    pub(crate) fn response_head(
        &mut self,
        message: &Message<'_>,
        to_tag: Option<&[u8]>,
        path: Path,
    ) -> Box<[u8]> {
        let with =
            CopyWith { record_route: message.method() == wire::Method::Invite, timestamp: true };
        let scratch = self.scratch_mut();
        wire::copy_response_head(scratch, message, to_tag, path.remote, with);
        self.scratch().into()
    }

    /// Writes a whole response without usage into the scratch buffer.
    pub(super) fn write_reply(&mut self, message: &Message<'_>, path: Path, reply: &Reply<'_>) {
        let tag = match message.to_tag() {
            Some(_) => None,
            None => Some(self.stateless_tag(message)),
        };
        self.scratch.clear();
        let mut builder = Builder::response(&mut self.scratch, reply.status, None);
        let with = CopyWith { record_route: false, timestamp: false };
        builder = builder.with(|out| {
            wire::copy_response_head(
                out,
                message,
                tag.as_ref().map(|tag| &tag[..]),
                path.remote,
                with,
            );
        });
        builder = reply.write(builder, message);
        if message.method() == wire::Method::Options && reply.status == 200 {
            builder = builder.composed(Name::Contact, |out| push_contact(out, &path));
            builder = self.agent.server(builder);
        }
        builder.no_body();
    }

    /// The description in a message, if there is one that we understand.
    pub(crate) fn session_body<'m>(&self, message: &Message<'m>) -> Option<Body<'m>> {
        super::checks::session_part(message)
    }

    /// §8.2.2.3 for a request within a dialog.
    pub(crate) fn check_extensions(&self, message: &Message<'_>) -> Result<(), Reply<'static>> {
        super::checks::require(message)
    }

    /// As [`Stack::session_body`] for a request, with the refusal of §8.2.3 for what we do not
    /// understand.
    pub(crate) fn checked_session_body<'m>(
        &self,
        message: &Message<'m>,
    ) -> Result<Option<Body<'m>>, Reply<'static>> {
        super::checks::session_body(message)
    }
}

/// One usage at work in one turn.
pub(crate) struct Work<'t, 'm> {
    pub(crate) stack: &'t mut Stack,
    pub(crate) turn: Turn<'t>,
    pub(crate) id: UsageId,
    /// The way that the message at hand came; meaningless for commands and timers.
    pub(crate) path: Path,
    pub(crate) events: &'t mut Events<'m>,
}

impl<'m> Work<'_, 'm> {
    /// Arms a timer of the usage.
    pub(crate) fn arm(&mut self, kind: TimerKind, at: Mono) {
        self.turn.timers.arm(at, TimerKey::User(kind.code(), self.id.0));
    }

    /// Sends what lies in the scratch buffer as a response of `server`.
    pub(crate) fn respond(&mut self, server: ServerId, status: u16) {
        let Stack { transactions, scratch, .. } = &mut *self.stack;
        transactions.respond(&mut self.turn, server, status, scratch);
    }

    /// Answers a request that asks for nothing more.
    pub(crate) fn reply(&mut self, server: ServerId, message: &Message<'_>, reply: &Reply<'_>) {
        self.stack.write_reply(message, self.path, reply);
        self.respond(server, reply.status);
    }

    /// Starts a client transaction for the usage. `write` is given the branch.
    pub(crate) fn request(
        &mut self,
        kind: ClientKind,
        path: Path,
        purpose: Purpose,
        write: impl FnOnce(&mut Vec<u8>, &[u8], &Writing<'_>),
    ) -> Option<ClientId> {
        let user = User { usage: self.id, purpose };
        let Stack { transactions, minter, agent, .. } = &mut *self.stack;
        let writing = Writing { minter, agent, slot: self.id.0 };
        transactions
            .request(&mut self.turn, kind, path, user, |out, branch| write(out, branch, &writing))
    }

    /// As [`Work::request`] for anything but INVITE; `false` when the table is full.
    pub(crate) fn request_non_invite(
        &mut self,
        path: Path,
        purpose: Purpose,
        write: impl FnOnce(&mut Vec<u8>, &[u8], &Agent),
    ) -> bool {
        self.request(ClientKind::NonInvite, path, purpose, |out, branch, writing| {
            write(out, branch, writing.agent());
        })
        .is_some()
    }

    /// Cancels an INVITE of ours (§9.1). `false`: it cannot be now.
    pub(crate) fn cancel(&mut self, client: ClientId) -> bool {
        let user = User { usage: self.id, purpose: Purpose::Cancel };
        self.stack.transactions.cancel(&mut self.turn, client, user).is_some()
    }

    /// Remembers that our INVITE was refused: a 2xx of another branch may still come (§16.7 step
    /// 5).
    pub(crate) fn remember_refused(&mut self) {
        let (now, none) = (self.turn.now, self.stack.tag_hash(b""));
        let until = now + self.stack.timing.t1 * 64;
        self.stack.ended.remember(now, until, self.id.0, none);
    }

    /// Acknowledges a 2xx whose dialog has ended (RFC 5407 §3.1.3, case T14).
    pub(crate) fn acknowledge_only(&mut self, message: &Message<'_>, path: Path) {
        let Ok(dialog) = Dialog::of_client(message, path) else { return };
        let branch = self.stack.loose_branch();
        let agent = &self.stack.agent;
        self.turn.out.compose(dialog.path(), |out| {
            dialog.request(out, b"ACK", message.cseq().number, &branch, agent).no_body();
        });
    }

    /// Acknowledges and hangs up a dialog that nobody wants: a further 2xx of a forked INVITE
    /// (§13.2.2.4).
    pub(crate) fn end_stray_dialog(&mut self, message: &Message<'_>, path: Path) {
        let Ok(mut dialog) = Dialog::of_client(message, path) else { return };
        self.acknowledge_only(message, path);
        let cseq = dialog.next_cseq();
        self.request_non_invite(dialog.path(), Purpose::Bye, |out, branch, agent| {
            dialog.request(out, b"BYE", cseq, branch, agent).no_body();
        });
        self.stack.counts.stray_dialogs_ended += 1;
    }

    /// Says that something happened to the usage of an owner that the usage does not know yet.
    pub(crate) fn tell_new(&mut self, what: crate::usage::What<'m>) {
        self.events.push(Event { usage: self.id, owner: None, what });
    }
}

/// What a request's writer may look at.
pub(crate) struct Writing<'s> {
    minter: &'s Minter,
    agent: &'s Agent,
    slot: Slot,
}

impl Writing<'_> {
    pub(crate) fn agent(&self) -> &Agent {
        self.agent
    }

    /// The usage's tag.
    pub(crate) fn write_tag(&self, out: &mut Vec<u8>) {
        self.minter.write(Minted::Tag, self.slot, out);
    }

    /// A Call-ID for the usage: minted for its slot, so that it lands on our shard.
    pub(crate) fn write_call_id(&self, out: &mut Vec<u8>) {
        self.minter.write(Minted::CallId, self.slot, out);
    }
}

/// How long a caller may wait without hearing anything but 100 or silence (RFC 3261 §13.3.1.1 asks
/// for a provisional response each minute).
pub(crate) const PROVISIONAL_REFRESH: Duration = Duration::from_secs(60);
