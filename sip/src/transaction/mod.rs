//! The transaction layer: RFC 3261 §17 and §9, as changed by RFC 6026, with the matching rules for
//! peers of RFC 2543.
//!
//! ```text
//!              request()  cancel()              respond()
//!   user           │         │                     │            ▲ Inbound, Outcome
//!  ────────────────┼─────────┼─────────────────────┼────────────┼──────────────────
//!                  ▼         ▼                     ▼            │
//!   Transactions  ┌───────────────────┐  ┌───────────────────┐ receive()  on_timer()
//!                 │ client slots      │  │ server slots      │──► tombstones
//!                 │ client_invite     │  │ server_invite     │
//!                 │ client_non_invite │  │ server_non_invite │
//!                 └───────────────────┘  └───────────────────┘
//!                   ▲ by minted branch     ▲ by keyed hash of branch, sent-by, method
//! ```
//!
//! Each machine is a file of its own, pure: events in, an action out. This table finds the machine
//! and does what it says with messages, timers and slots. All tables have their full size from the
//! start, so that no call pays for growing one.
//!
//! Not here: the 100 (Trying) and Timer C (the endpoint's), repeats of a 2xx to INVITE and its ACK
//! (the INVITE usage's), merged requests (§8.2.2.2, the endpoint's), finding an address (RFC 3263).

mod client;
mod client_invite;
mod client_non_invite;
mod compose;
mod directory;
mod key;
mod server;
mod server_invite;
mod server_non_invite;
mod timing;
mod tombstones;

#[cfg(test)]
mod property;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod tests_client;
#[cfg(test)]
mod tests_server;

pub use timing::{Linger, Timer, TimerKey, Timing, Turn};

use crate::mint::{BRANCH_LEN, Minted, Minter};
use crate::path::Path;
use crate::wire::{Index, Message, Method, StartLine};
use client::Client;
use directory::Directory;
use server::Server;
pub(crate) use server::answer_path;
use tombstones::Tombstones;
use turn::{HashKey, Slot, Slots};

/// New INVITEs leave one in this many slots to BYE, CANCEL and whatever else serves a running
/// call: new calls are refused first.
const RESERVE_SHARE: usize = 8;

/// The index that no slot has: for branches that belong to no transaction.
const LOOSE_INDEX: u32 = u32::MAX;

/// A client transaction: we sent the request. Stale once it has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ClientId(pub Slot);

/// A server transaction: the peer sent the request. Stale once it has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ServerId(pub Slot);

/// Which machine a request of ours needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientKind {
    /// It is an INVITE.
    Invite,
    /// It is neither INVITE nor ACK.
    NonInvite,
}

/// How much the table holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransactionLimits {
    /// Client transactions, those included that only keep the ACK of a failed INVITE (32 s).
    pub clients_max: u32,
    /// Server transactions that wait for a response or for an ACK.
    pub servers_max: u32,
    /// Finished server transactions that still recognise repeats (32 s). When there are more, the
    /// oldest are forgotten early.
    pub tombstones_max: u32,
}

/// What a message from the network is to the user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inbound<U> {
    /// A repeat that has been dealt with.
    Absorbed,
    /// A broken or foreign response that must be dropped in silence (§8.1.3.3, §18.1.2).
    Dropped,
    /// A new request. The user responds, and for an INVITE says at once who it is.
    Request(ServerId),
    /// A new request for which there is no room: the user answers 503 without a transaction.
    Full,
    /// An ACK that is not for a non-2xx response of ours.
    Ack,
    /// A CANCEL.
    Cancel {
        /// The transaction of the CANCEL itself, which must be answered.
        cancel: ServerId,
        /// What it is about.
        target: CancelTarget<U>,
    },
    /// A response to a request of ours.
    Response {
        /// The transaction; over if the response is final.
        client: ClientId,
        /// Whose it is.
        user: U,
        /// Whether the response is final.
        fin: bool,
    },
    /// A response to no transaction: perhaps a late 2xx to an INVITE, which shows in its From tag.
    StrayResponse,
}

/// What a CANCEL is about (§9.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CancelTarget<U> {
    /// An INVITE without final response: 200 to the CANCEL, 487 to the INVITE.
    Open(ServerId, U),
    /// An INVITE that already has its final response: 200 to the CANCEL, and nothing else.
    Answered,
    /// No INVITE that is known: 481 to the CANCEL.
    Unknown,
}

/// What a due timer or a send error means to the user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome<U> {
    /// No final response came (Timer B or F): as good as a 408 (§8.1.3.1). It is over.
    TimedOut(ClientId, U),
    /// No ACK came for our non-2xx response (Timer H). It is over.
    AckMissing(ServerId, Option<U>),
    /// The request could not be sent: as good as a 503 (§8.1.3.1). It is over.
    RequestUnsent(ClientId, U),
    /// A response could not be sent.
    ResponseUnsent(ServerId, Option<U>),
}

/// How many there are, and what has been counted since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransactionCounts {
    /// Live client transactions.
    pub clients: u32,
    /// Live server transactions.
    pub servers: u32,
    /// Finished server transactions that still recognise repeats.
    pub tombstones: u32,
    /// Messages that were repeats and went no further.
    pub absorbed: u64,
    /// Requests that our timers sent again.
    pub requests_repeated: u64,
    /// Responses sent again, by timer or because the request was.
    pub responses_repeated: u64,
    /// ACKs sent again.
    pub acks_repeated: u64,
    /// Responses dropped because they have more than one Via.
    pub dropped_vias: u64,
    /// Responses dropped because their sent-by is not the one of the request.
    pub dropped_sent_by: u64,
    /// Responses that belong to no transaction.
    pub strays: u64,
    /// Requests of ours that found no room.
    pub clients_full: u64,
    /// Requests of peers that found no room.
    pub servers_full: u64,
    /// Tombstones that went before their time.
    pub tombstones_evicted: u64,
    /// Answers that could not be kept for repeats of their request.
    pub answers_forgotten: u64,
}

/// All transactions of a shard. `U` says who sits on top; it may have become stale by the time it
/// is given back.
#[derive(Debug)]
pub struct Transactions<U> {
    minter: Minter,
    timing: Timing,
    key: HashKey,
    clients: Slots<Client<U>>,
    servers: Slots<Server<U>>,
    tombstones: Tombstones,
    directory: Directory,
    /// For reading requests of our own again.
    scratch: Index,
    /// How many loose branches were given out.
    loose: u32,
    counts: TransactionCounts,
}

impl<U: Copy> Transactions<U> {
    /// An empty table. `key` is a secret of this shard.
    pub fn new(minter: Minter, timing: Timing, limits: TransactionLimits, key: HashKey) -> Self {
        let tombstones = Tombstones::new(limits.tombstones_max);
        let keys = limits.servers_max as usize + tombstones.capacity() as usize;
        Self {
            minter,
            timing,
            key,
            clients: Slots::with_capacity(limits.clients_max),
            servers: Slots::with_capacity(limits.servers_max.min(server::INDEX_MAX)),
            tombstones,
            directory: Directory::new(keys),
            scratch: Index::new(),
            loose: 0,
            counts: TransactionCounts::default(),
        }
    }

    /// A message from the network, any request or response.
    pub fn receive(
        &mut self,
        turn: &mut Turn<'_>,
        message: &Message<'_>,
        path: Path,
    ) -> Inbound<U> {
        match message.start() {
            StartLine::Response { status, .. } => self.receive_response(turn, message, status),
            StartLine::Request { method: Method::Ack, .. } => self.receive_ack(turn, message),
            StartLine::Request { method: Method::Cancel, .. } => {
                self.receive_cancel(turn, message, path)
            }
            StartLine::Request { method, .. } => self.receive_request(turn, message, method, path),
        }
    }

    /// One of our timers is due. A timer that no longer means anything gives `None`.
    pub fn on_timer(&mut self, turn: &mut Turn<'_>, key: TimerKey) -> Option<Outcome<U>> {
        match key {
            TimerKey::Client(timer, slot) => self.on_client_timer(turn, timer, slot),
            TimerKey::Server(timer, slot) => self.on_server_timer(turn, timer, slot),
            TimerKey::Sweep(ring) => {
                self.sweep(turn, ring);
                None
            }
            TimerKey::User(..) => {
                debug_assert!(false, "the user's timers are the user's");
                None
            }
        }
    }

    /// `message`, which this layer or its user had put into the outbox, could not be sent
    /// (§17.1.4, §17.2.4). What belongs to no live transaction gives `None`.
    pub fn on_send_failed(
        &mut self,
        turn: &mut Turn<'_>,
        message: &Message<'_>,
    ) -> Option<Outcome<U>> {
        if message.is_request() {
            self.on_request_unsent(turn, message)
        } else {
            self.on_response_unsent(turn, message)
        }
    }

    /// A branch for a request that is no transaction: the ACK of a 2xx (§13.2.2.4). Responses to
    /// it are stray.
    pub fn loose_branch(&mut self) -> [u8; BRANCH_LEN] {
        self.loose = self.loose.wrapping_add(1);
        self.minter.branch(Slot { index: LOOSE_INDEX, generation: self.loose })
    }

    /// How many there are, and what has been counted.
    pub fn counts(&self) -> TransactionCounts {
        TransactionCounts {
            clients: self.clients.len() as u32,
            servers: self.servers.len() as u32,
            tombstones: self.tombstones.len(),
            ..self.counts
        }
    }
}

/// Whether there is room for another value; for a new INVITE not in the reserve.
fn has_room<T>(slots: &Slots<T>, is_invite: bool) -> bool {
    let capacity = slots.capacity() as usize;
    let reserve = if is_invite { capacity / RESERVE_SHARE } else { 0 };
    slots.len() + reserve < capacity
}
