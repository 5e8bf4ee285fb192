//! The user agent core: what a SIP element that is UAS and UAC at once does with each message.
//!
//! An [`Endpoint`] is a value: messages, commands and `now` go in; messages to send (an
//! [`Outbox`]) and [`Event`]s come out. It holds the transactions (RFC 3261 §17), the INVITE
//! usages with their dialogs (§12-§15) and their timers. It knows nothing of calls, dialplans or
//! media, opens no socket and reads no clock.
//!
//! ```text
//! message ─► transactions ─┬─ absorbed
//!                          ├─ new request ─► checks (§8.2) ─► usage ─► Event::Invited
//!                          ├─ in dialog (our tag) ─────────► usage ─► Event
//!                          ├─ ACK, CANCEL ─────────────────► usage ─► Event
//!                          └─ response (our branch) ───────► usage ─► Event
//! ```
//!
//! Before a new request costs anything the layer above is asked by [`Admission`] whether it may
//! come in at all; a refusal is answered without state (§8.2.7).

mod belongs;
mod checks;
mod ended;
mod outside;
mod receive;
mod stack;

use turn::{HashKey, Mono, NumberMap, Rng, Seed, Slot, Slots, Wheel, number_map};

use crate::agent::{ACCEPT, ALLOW, Agent};
use crate::mint::{Minted, Minter};
use crate::path::{Outbox, Path};
use crate::transaction::{
    ClientKind, ServerId, TimerKey, Timing, TransactionCounts, TransactionLimits, Transactions,
    Turn,
};
use crate::usage::offers::{Kind, OfferId};
use crate::usage::{
    Call, End, Event, Events, Fate, Payload, RequestId, Role, TimerKind, Usage, UsageId,
};
use crate::wire::{self, Builder, Message, Name};

pub use outside::Outside;
use stack::Stack;
pub(crate) use stack::{PROVISIONAL_REFRESH, Work, Writing};

/// What a client transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The first INVITE of a usage.
    Invite,
    /// A re-INVITE.
    Reinvite,
    /// A BYE; its answer matters to nobody.
    Bye,
    /// A CANCEL; likewise.
    Cancel,
    /// A request of the layer above.
    Ask(RequestId),
    /// A request of the layer above outside of any dialog, by the name that it gave it.
    Outside(u64),
}

/// The user of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) usage: UsageId,
    pub(crate) purpose: Purpose,
}

/// How large the tables are. All are sized at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointLimits {
    /// Usages, which are legs: two for a bridged call.
    pub usages_max: u32,
    /// For the transaction table.
    pub transactions: TransactionLimits,
}

/// What an endpoint is made of.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Grows with each start of the program.
    pub epoch: u16,
    /// Which shard this is.
    pub shard: u8,
    /// The key of minted identifiers, the same on all shards.
    pub mint_key: HashKey,
    /// Everything random on this shard comes from it.
    pub seed: Seed,
    /// T1, T2, T4.
    pub timing: Timing,
    /// Table sizes.
    pub limits: EndpointLimits,
    /// For Server and User-Agent; may be empty.
    pub name: Box<str>,
    /// When the clock starts.
    pub start: Mono,
}

/// What has been counted since the start; all are totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests refused without state by [`Admission`].
    pub refused: u64,
    /// Requests of these that got no answer.
    pub silenced: u64,
    /// Requests refused with 503 because a table was full.
    pub full: u64,
    /// Messages that broke a rule and were answered.
    pub rejected: u64,
    /// Responses and ACKs that belong to nothing.
    pub strays: u64,
    /// 2xx that were repeated for want of an ACK.
    pub successes_repeated: u64,
    /// Dialogs of forked INVITEs that were acknowledged and hung up at once.
    pub stray_dialogs_ended: u64,
}

/// What a response carries beyond what it copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Nothing.
    None,
    /// Allow (405, 200 to OPTIONS).
    Allow,
    /// Unsupported, with what the request required (420).
    Unsupported,
    /// Accept (415).
    Accept,
    /// Accept-Encoding (415).
    AcceptEncoding,
    /// Retry-After in seconds (503, 500).
    RetryAfter(u32),
    /// Allow, Accept and the rest that tells a peer what we can (200 to OPTIONS, §11.2).
    Capabilities,
}

/// A response without a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The status code.
    pub status: u16,
    /// What it carries.
    pub extra: Extra,
    /// What was wrong, for a Warning header field; empty for none.
    pub warning: &'a str,
    /// Further header lines, each ended by CRLF.
    pub lines: &'a [u8],
}

impl Reply<'static> {
    /// A plain one, with the header fields that the status itself asks for.
    pub const fn status(status: u16) -> Self {
        let extra = match status {
            405 | 501 => Extra::Allow,
            _ => Extra::None,
        };
        Self { status, extra, warning: "", lines: b"" }
    }

    /// One that tells when to try again.
    pub const fn retry_after(status: u16, seconds: u32) -> Self {
        Self { status, extra: Extra::RetryAfter(seconds), warning: "", lines: b"" }
    }

    /// None at all: the request is forgotten. For what is not worth an answer.
    pub const fn silence() -> Self {
        Self::status(0)
    }
}

impl Reply<'_> {
    fn write<'w>(&self, builder: Builder<'w>, message: &Message<'_>) -> Builder<'w> {
        let builder = match self.extra {
            Extra::None => builder,
            Extra::Allow => builder.header(Name::Allow, ALLOW),
            Extra::Accept => builder.header(Name::Accept, ACCEPT),
            Extra::AcceptEncoding => builder.header(Name::AcceptEncoding, b"identity"),
            Extra::RetryAfter(seconds) => builder.number(Name::RetryAfter, u64::from(seconds)),
            Extra::Unsupported => builder.composed(Name::Unsupported, |out| {
                let names = [Name::Require, Name::ProxyRequire];
                let tags = names.into_iter().flat_map(|name| message.values(name));
                for (at, tag) in tags.enumerate() {
                    // One line: a line each would be many times as long as the request.
                    if at > 0 {
                        out.push(b',');
                    }
                    wire::unfold(tag, out);
                }
            }),
            Extra::Capabilities => builder
                .header(Name::Allow, ALLOW)
                .header(Name::Accept, ACCEPT)
                .header(Name::AcceptEncoding, b"identity")
                .header(Name::Supported, b""),
        };
        let builder = builder.line(self.lines);
        match self.warning {
            "" => builder,
            text => builder.parts(Name::Warning, &[b"399 - \"", text.as_bytes(), b"\""]),
        }
    }
}

/// Whether a request that would begin something may come in. Asked before any state is made; a
/// refusal is answered without state, so it must be cheap.
pub trait Admission {
    /// `Some` refuses. Asked once about each request: never about a repeat, ACK, CANCEL or requests
    /// within a dialog.
    fn refuse<'s>(&'s mut self, message: &Message<'_>, path: &Path) -> Option<Reply<'s>>;
}

/// Admits everybody; for tests and tools.
#[derive(Clone, Copy, Debug)]
pub struct AdmitAll;

impl Admission for AdmitAll {
    fn refuse<'s>(&'s mut self, _: &Message<'_>, _: &Path) -> Option<Reply<'s>> {
        None
    }
}

/// See the module.
pub struct Endpoint {
    stack: Stack,
    usages: Slots<Usage>,
    /// Open INVITEs from outside by Call-ID, From tag and CSeq: for merged requests (§8.2.2.2).
    merged: NumberMap<UsageId>,
    timers: Wheel<TimerKey>,
    /// INVITEs of this turn, for the lazy 100.
    fresh: Vec<UsageId>,
    due: Vec<TimerKey>,
    /// What commands made happen, told at the end of the turn.
    said: Vec<Event<'static>>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("usages", &self.usages.len()).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// An endpoint with empty tables.
    pub fn new(config: &EndpointConfig) -> Self {
        let mut rng = Rng::new(config.seed);
        let minter = Minter::new(config.epoch, config.shard, config.mint_key);
        let key = rng.hash_key();
        let limits = config.limits;
        let transactions = Transactions::new(minter, config.timing, limits.transactions, key);
        let agent = Agent::new(&config.name);
        Self {
            stack: Stack::new(transactions, minter, agent, config.timing, rng),
            usages: Slots::with_capacity(limits.usages_max),
            merged: number_map(limits.usages_max as usize),
            timers: Wheel::new(config.start),
            fresh: Vec::with_capacity(64),
            due: Vec::with_capacity(64),
            said: Vec::new(),
        }
    }

    // ----- commands

    /// Calls somebody. `None`: a table is full.
    pub fn invite(
        &mut self,
        now: Mono,
        call: &Call<'_>,
        owner: Slot,
        out: &mut Outbox,
    ) -> Option<UsageId> {
        let id = UsageId(self.usages.next_slot()?);
        let mut events = Events::new();
        let turn = Turn { now, out, timers: &mut self.timers };
        let mut work =
            Work { stack: &mut self.stack, turn, id, path: call.path, events: &mut events };
        let mut usage = Usage::call(&mut work, call)?;
        usage.owner = Some(owner);
        self.usages.insert(usage).ok().map(UsageId)
    }

    /// Claims a usage that has been told of by [`crate::usage::What::Invited`]. Must happen in the
    /// same turn.
    pub fn set_owner(&mut self, id: UsageId, owner: Slot) {
        if let Some(usage) = self.usages.view_mut(id.0) {
            usage.owner = Some(owner);
        }
    }

    /// Sends a provisional response (101 to 199) of early dialog `early`.
    pub fn provide(
        &mut self,
        now: Mono,
        id: UsageId,
        progress: (u8, u16),
        body: Option<&Payload>,
        out: &mut Outbox,
    ) {
        self.command(now, id, out, |usage, work| {
            usage.provide(work, progress.0, progress.1, body);
            Fate::Keep
        });
    }

    /// Accepts an INVITE with 200. `description` answers its offer, or is our offer for a delayed
    /// one.
    pub fn accept(
        &mut self,
        now: Mono,
        id: UsageId,
        early: u8,
        description: Option<(OfferId, &Payload)>,
        out: &mut Outbox,
    ) {
        self.command(now, id, out, |usage, work| {
            usage.accept(work, early, description);
            Fate::Keep
        });
    }

    /// Offers, or answers an offer, in whatever message may carry it, as soon as it may.
    pub fn describe(
        &mut self,
        now: Mono,
        id: UsageId,
        description: (OfferId, Kind, Payload),
        out: &mut Outbox,
    ) {
        let (oid, kind, body) = description;
        self.command(now, id, out, |usage, work| {
            usage.describe(work, oid, kind, body);
            Fate::Keep
        });
    }

    /// Asks the peer for an offer (an empty re-INVITE).
    pub fn want_offer(&mut self, now: Mono, id: UsageId, oid: OfferId, out: &mut Outbox) {
        self.command(now, id, out, |usage, work| {
            usage.offer(work, oid, None);
            Fate::Keep
        });
    }

    /// Refuses the peer's offer, or its wish for one. `true`: the usage is gone by it (an offer in
    /// a 2xx cannot be refused otherwise).
    pub fn refuse_offer(
        &mut self,
        now: Mono,
        id: UsageId,
        oid: OfferId,
        status: u16,
        out: &mut Outbox,
    ) -> bool {
        self.command(now, id, out, |usage, work| usage.refuse_offer(work, oid, status));
        self.usages.view(id.0).is_none_or(|usage| !usage.is_owned())
    }

    /// Sends a request within the dialog: method, further header lines, body. `false`: it cannot
    /// be sent.
    pub fn ask(
        &mut self,
        now: Mono,
        id: UsageId,
        request: (RequestId, &[u8], &[u8], &[u8]),
        out: &mut Outbox,
    ) -> bool {
        let (rid, method, lines, body) = request;
        let mut sent = false;
        self.command(now, id, out, |usage, work| {
            sent = usage.ask(work, rid, method, lines, body);
            Fate::Keep
        });
        sent
    }

    /// Replies to a request within the dialog: status, further header lines, body.
    pub fn reply(
        &mut self,
        now: Mono,
        id: UsageId,
        response: (RequestId, u16, &[u8], &[u8]),
        out: &mut Outbox,
    ) {
        let (rid, status, lines, body) = response;
        self.command(now, id, out, |usage, work| {
            usage.reply(work, rid, status, lines, body);
            Fate::Keep
        });
    }

    /// Replies to a request within the dialog that nobody above could deal with.
    pub fn reply_unhandled(&mut self, now: Mono, id: UsageId, rid: RequestId, out: &mut Outbox) {
        self.command(now, id, out, |usage, work| {
            usage.reply_unhandled(work, rid);
            Fate::Keep
        });
    }

    /// Ends a usage, whatever its state asks for: a refusal, CANCEL or BYE. Its owner hears no
    /// more.
    pub fn end(&mut self, now: Mono, id: UsageId, end: &End, out: &mut Outbox) {
        self.command(now, id, out, |usage, work| {
            usage.close_requests(work);
            usage.end(work, end)
        });
    }

    /// Sends a request outside of any dialog: REGISTER or OPTIONS. What comes of it is told by
    /// [`crate::usage::What::OutsideReplied`]. `false`: the table of transactions is full.
    pub fn request(
        &mut self,
        now: Mono,
        request: &Outside<'_>,
        owner: u64,
        out: &mut Outbox,
    ) -> bool {
        let user = User { usage: receive::NO_USAGE, purpose: Purpose::Outside(owner) };
        let mut turn = Turn { now, out, timers: &mut self.timers };
        let Stack { transactions, agent, .. } = &mut self.stack;
        let kind = ClientKind::NonInvite;
        transactions
            .request(&mut turn, kind, request.path, user, |out, branch| {
                request.write(out, branch, agent);
            })
            .is_some()
    }

    /// Answers a request outside of any dialog that [`crate::usage::What::Outside`] told of.
    pub fn answer_outside(
        &mut self,
        now: Mono,
        (server, message): (ServerId, &Message<'_>),
        path: Path,
        reply: &Reply<'_>,
        out: &mut Outbox,
    ) {
        self.respond(receive::Came { now, path }, server, message, reply, out);
    }

    // ----- time

    /// When [`Endpoint::fire`] should be called; `None` when nothing waits.
    pub fn next_timeout(&self) -> Option<Mono> {
        self.timers.next_timeout()
    }

    /// Does what is due.
    pub fn fire(&mut self, now: Mono, out: &mut Outbox) -> Events<'static> {
        let mut events = Events::new();
        self.stack.ended.expire(now);
        let mut due = std::mem::take(&mut self.due);
        self.timers.fire(now, &mut due);
        for key in due.drain(..) {
            match key {
                TimerKey::User(kind, slot) => {
                    if let Some(kind) = TimerKind::of_code(kind) {
                        self.work(now, UsageId(slot), out, &mut events, |usage, work| {
                            usage.on_timer(work, kind)
                        });
                    }
                }
                TimerKey::Client(..) | TimerKey::Server(..) | TimerKey::Sweep(_) => {
                    self.transaction_timer(now, key, out, &mut events);
                }
            }
        }
        self.due = due;
        events
    }

    /// At the end of each turn: 100 (Trying) for the INVITEs that nothing has been said to. Gives
    /// what the turn's commands made happen (an offer that found a table full).
    pub fn flush(&mut self, now: Mono, out: &mut Outbox) -> Events<'static> {
        let mut fresh = std::mem::take(&mut self.fresh);
        for id in fresh.drain(..) {
            self.command(now, id, out, |usage, work| {
                usage.try_later(work);
                Fate::Keep
            });
        }
        self.fresh = fresh;
        self.said.drain(..).collect()
    }

    // ----- looking in

    /// How many usages there are.
    pub fn usages(&self) -> usize {
        self.usages.len()
    }

    /// What has been counted.
    pub fn counts(&self) -> Counts {
        self.stack.counts
    }

    /// What the transaction layer has counted.
    pub fn transaction_counts(&self) -> TransactionCounts {
        self.stack.transactions.counts()
    }

    /// Entries that remember ended dialogs, and merged-request keys: for leak checks.
    pub fn leftovers(&self) -> (usize, usize) {
        (self.stack.ended.len(), self.merged.len())
    }

    /// The shard that minted a tag, branch or Call-ID in this run.
    pub fn minted_by(&self, kind: Minted, text: &[u8]) -> Option<u8> {
        let text = if kind == Minted::Tag { crate::usage::tag_stem(text) } else { text };
        self.stack.minter.shard_of(kind, text)
    }

    // ----- inside

    /// Lets usage `id` do something in this turn.
    fn work<'m>(
        &mut self,
        now: Mono,
        id: UsageId,
        out: &mut Outbox,
        events: &mut Events<'m>,
        act: impl FnOnce(&mut Usage, &mut Work<'_, 'm>) -> Fate,
    ) {
        let Some(usage) = self.usages.view_mut(id.0) else { return };
        let path = usage.path().unwrap_or(NO_PATH);
        let turn = Turn { now, out, timers: &mut self.timers };
        let mut work = Work { stack: &mut self.stack, turn, id, path, events };
        if act(usage, &mut work) == Fate::Gone {
            self.drop_usage(now, id);
        }
    }

    fn command(
        &mut self,
        now: Mono,
        id: UsageId,
        out: &mut Outbox,
        act: impl FnOnce(&mut Usage, &mut Work<'_, 'static>) -> Fate,
    ) {
        let mut events = Events::new();
        self.work(now, id, out, &mut events, act);
        self.said.extend(events);
    }

    fn drop_usage(&mut self, now: Mono, id: UsageId) {
        let Some(usage) = self.usages.remove(id.0) else { return };
        if usage.merge_key != 0 {
            self.merged.remove(&usage.merge_key);
        }
        if usage.role == Role::Client
            && let Some(tag) = usage.dialog.as_ref().and_then(|dialog| dialog.remote_tag())
        {
            let tag = self.stack.tag_hash(tag);
            let until = now + self.stack.timing.t1 * 64;
            self.stack.ended.remember(now, until, id.0, tag);
        }
    }
}

/// For a usage that has no dialog yet: nothing is sent by it.
const NO_PATH: Path = Path {
    transport: crate::path::Transport::Udp,
    local: std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
    remote: std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
};
