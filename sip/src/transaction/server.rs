//! The server side of the table: requests that peers send (RFC 3261 §17.2, §9.2).

use super::server_invite::{self, ServerInvite};
use super::server_non_invite::{self, ServerNonInvite};
use super::timing::{Alarm, Linger, Side, Timer};
use super::tombstones::{Kept, Place, SWEEP_MAX};
use super::{
    CancelTarget, Inbound, Outcome, ServerId, Slot, TimerKey, Transactions, Turn, compose,
    has_room, key,
};
use crate::path::Path;
use crate::wire::{Framing, Message, Method, response_address};
use std::time::Duration;
use turn::Mono;

/// How many server slots can be told apart from tombstones in the directory.
pub(super) const INDEX_MAX: u32 = 1 << 30;

/// A request of a peer that waits for its final response, or an INVITE that waits for its ACK.
#[derive(Debug)]
pub(super) struct Server<U> {
    key: u64,
    /// Where responses go (§18.2.2).
    path: Path,
    user: Option<U>,
    /// The last response, for repeats of the request.
    last: Option<Box<[u8]>>,
    machine: Machine,
    /// The request's To had a tag, so an answer copies it.
    has_to_tag: bool,
    /// The request must be matched by the rules for RFC 2543.
    is_older: bool,
}

const _: () = assert!(size_of::<Server<Slot>>() <= 160);

#[derive(Debug)]
enum Machine {
    Invite(ServerInvite),
    NonInvite(ServerNonInvite),
}

/// What the directory knows about a key.
#[derive(Clone, Copy)]
enum Found {
    Live(Slot),
    Buried(Place),
}

impl<U: Copy> Transactions<U> {
    /// Says who will answer the request. For an INVITE that is not answered within the turn this
    /// is a must: a CANCEL needs to know.
    pub fn set_user(&mut self, id: ServerId, user: U) {
        if let Some(server) = self.servers.view_mut(id.0) {
            server.user = Some(user);
        }
    }

    /// Who answers the request.
    pub fn user_of_server(&self, id: ServerId) -> Option<U> {
        self.servers.view(id.0)?.user
    }

    /// Where the responses of a live server transaction go.
    pub fn server_path(&self, id: ServerId) -> Option<Path> {
        self.servers.view(id.0).map(|server| server.path)
    }

    /// Sends a response. `bytes` is the finished message and `status` its status code. Whether it
    /// was sent: a second final response, or one to what has ended, is discarded (§17.2.2).
    pub fn respond(
        &mut self,
        turn: &mut Turn<'_>,
        id: ServerId,
        status: u16,
        bytes: &[u8],
    ) -> bool {
        match self.servers.view(id.0).map(|server| &server.machine) {
            None => false,
            Some(Machine::Invite(_)) => self.respond_invite(turn, id.0, status, bytes),
            Some(Machine::NonInvite(_)) => self.respond_non_invite(turn, id.0, status, bytes),
        }
    }

    /// Ends a server transaction without a word. A repeat of its request is a new request.
    pub fn drop_server(&mut self, id: ServerId) {
        self.remove_server(id.0);
    }

    /// Whether a request is a repeat of one that has a transaction. For a user that wants to
    /// refuse new ones without making one.
    pub fn knows(&self, now: Mono, message: &Message<'_>) -> bool {
        let key = key::of_request(&self.key, message, message.method());
        self.find(now, key).is_some()
    }

    pub(super) fn receive_request(
        &mut self,
        turn: &mut Turn<'_>,
        message: &Message<'_>,
        method: Method<'_>,
        path: Path,
    ) -> Inbound<U> {
        let key = key::of_request(&self.key, message, method);
        match self.find(turn.now, key) {
            Some(Found::Live(slot)) => self.repeat_live(turn, slot),
            Some(Found::Buried(place)) => self.repeat_buried(turn, message, path, place),
            None => return self.admit(key, message, method, path),
        }
        self.counts.absorbed += 1;
        Inbound::Absorbed
    }

    pub(super) fn receive_ack(&mut self, turn: &mut Turn<'_>, message: &Message<'_>) -> Inbound<U> {
        match self.find_for_ack(turn, message) {
            Some(Found::Live(slot)) => {
                if self.is_acked(slot, message) {
                    self.step_server_invite(turn, slot, server_invite::Event::Ack);
                    self.counts.absorbed += 1;
                    return Inbound::Absorbed;
                }
                Inbound::Ack
            }
            Some(Found::Buried(Place { ring: Linger::I, .. })) => {
                self.counts.absorbed += 1;
                Inbound::Absorbed
            }
            // RFC 6026 §7.1: an accepted INVITE's ACK is the user's, whatever its branch.
            Some(Found::Buried(Place { ring: Linger::J | Linger::L, .. })) | None => Inbound::Ack,
        }
    }

    pub(super) fn receive_cancel(
        &mut self,
        turn: &mut Turn<'_>,
        message: &Message<'_>,
        path: Path,
    ) -> Inbound<U> {
        let inbound = self.receive_request(turn, message, Method::Cancel, path);
        let Inbound::Request(cancel) = inbound else { return inbound };
        // §9.2: the matching rules, as if it had the method of what it cancels. Only an INVITE can
        // be cancelled.
        let key = key::of_request(&self.key, message, Method::Invite);
        let target = match self.find(turn.now, key) {
            Some(Found::Live(slot)) if self.is_from_same_hop(slot, path) => {
                self.cancel_target(slot)
            }
            Some(Found::Live(_)) => CancelTarget::Unknown,
            Some(Found::Buried(_)) => CancelTarget::Answered,
            None => CancelTarget::Unknown,
        };
        Inbound::Cancel { cancel, target }
    }

    pub(super) fn on_server_timer(
        &mut self,
        turn: &mut Turn<'_>,
        timer: Timer,
        slot: Slot,
    ) -> Option<Outcome<U>> {
        self.servers.view(slot)?;
        match timer {
            Timer::G => self.step_server_invite(turn, slot, server_invite::Event::TimerG),
            Timer::H => self.step_server_invite(turn, slot, server_invite::Event::TimerH),
            Timer::A | Timer::B | Timer::D | Timer::E | Timer::F => {
                debug_assert!(false, "no server transaction arms {timer:?}");
                None
            }
        }
    }

    pub(super) fn on_response_unsent(
        &mut self,
        turn: &mut Turn<'_>,
        message: &Message<'_>,
    ) -> Option<Outcome<U>> {
        let method = message.cseq().method;
        let key = key::of_branch(&self.key, &message.top_via(), method);
        let Found::Live(slot) = self.find(turn.now, key)? else { return None };
        let server = self.servers.view_mut(slot)?;
        match &mut server.machine {
            Machine::Invite(_) => {
                self.step_server_invite(turn, slot, server_invite::Event::SendFailed)
            }
            Machine::NonInvite(machine) => {
                let reliable = server.path.transport.is_reliable();
                let event = server_non_invite::Event::SendFailed;
                if machine.on_event(event, reliable) != server_non_invite::Action::Failed {
                    return None;
                }
                let user = server.user;
                self.remove_server(slot);
                Some(Outcome::ResponseUnsent(ServerId(slot), user))
            }
        }
    }

    /// Takes out what has expired in `ring`, a bounded number at a time.
    pub(super) fn sweep(&mut self, turn: &mut Turn<'_>, ring: Linger) {
        for _ in 0..SWEEP_MAX {
            if !self.tombstones.oldest(ring).is_some_and(|stone| stone.is_over(turn.now)) {
                break;
            }
            self.pop_tombstone(ring);
        }
        let next = self.tombstones.next_expiry(ring, turn.now);
        *self.tombstones.armed(ring) = next.is_some();
        if let Some(at) = next {
            turn.timers.arm(at, TimerKey::Sweep(ring));
        }
    }

    fn admit(
        &mut self,
        key: u64,
        message: &Message<'_>,
        method: Method<'_>,
        path: Path,
    ) -> Inbound<U> {
        let is_invite = method == Method::Invite;
        if !has_room(&self.servers, is_invite) {
            self.counts.servers_full += 1;
            return Inbound::Full;
        }
        let machine = if is_invite {
            Machine::Invite(ServerInvite::start())
        } else {
            Machine::NonInvite(ServerNonInvite::start())
        };
        let server = Server {
            key,
            path: answer_path(message, path),
            user: None,
            last: None,
            machine,
            has_to_tag: message.to_tag().is_some(),
            is_older: key::is_older(message),
        };
        match self.servers.insert(server) {
            Ok(slot) => {
                self.directory.insert(key, pack(Stored::Live(slot.index)));
                Inbound::Request(ServerId(slot))
            }
            Err(_) => Inbound::Full,
        }
    }

    fn repeat_live(&mut self, turn: &mut Turn<'_>, slot: Slot) {
        let Some(server) = self.servers.view_mut(slot) else { return };
        match &mut server.machine {
            Machine::Invite(_) => {
                self.step_server_invite(turn, slot, server_invite::Event::Repeated);
            }
            Machine::NonInvite(machine) => {
                let reliable = server.path.transport.is_reliable();
                let action = machine.on_event(server_non_invite::Event::Repeated, reliable);
                if action == server_non_invite::Action::Repeat {
                    self.repeat_last(turn, slot);
                }
            }
        }
    }

    fn repeat_buried(
        &mut self,
        turn: &mut Turn<'_>,
        message: &Message<'_>,
        path: Path,
        place: Place,
    ) {
        let Some(stone) = self.tombstones.view(place) else { return };
        let (to, source, status) = (answer_path(message, path), path.remote, stone.status);
        let to_tag = match stone.kept() {
            Kept::NoAnswer => return,
            Kept::Nothing => None,
            Kept::ToTag(tag) => Some(tag),
            Kept::Whole(bytes) => {
                turn.out.send(to, bytes);
                self.counts.responses_repeated += 1;
                return;
            }
        };
        turn.out.compose(to, |buffer| {
            compose::plain_answer(buffer, message, status, to_tag, source);
        });
        self.counts.responses_repeated += 1;
    }

    /// §22.1: a CANCEL is believed from the hop that sent the request. A branch can be guessed.
    fn is_from_same_hop(&self, slot: Slot, path: Path) -> bool {
        self.servers.view(slot).is_some_and(|server| {
            server.path.remote.ip().to_canonical() == path.remote.ip().to_canonical()
        })
    }

    fn cancel_target(&self, slot: Slot) -> CancelTarget<U> {
        let Some(server) = self.servers.view(slot) else { return CancelTarget::Unknown };
        match (&server.machine, server.user) {
            (Machine::Invite(machine), Some(user)) if machine.is_open() => {
                CancelTarget::Open(ServerId(slot), user)
            }
            (Machine::Invite(machine), None) if machine.is_open() => CancelTarget::Unknown,
            (Machine::Invite(_), _) => CancelTarget::Answered,
            (Machine::NonInvite(_), _) => CancelTarget::Unknown,
        }
    }

    fn respond_invite(
        &mut self,
        turn: &mut Turn<'_>,
        slot: Slot,
        status: u16,
        bytes: &[u8],
    ) -> bool {
        use server_invite::{Action, Event};
        let event = match status {
            ..200 => Event::Provisional,
            200..300 => Event::Success,
            300.. => Event::Failure,
        };
        let Some(server) = self.servers.view_mut(slot) else { return false };
        let Machine::Invite(machine) = &mut server.machine else { return false };
        let mut alarm = alarm(turn, &self.timing, server.path, slot);
        match machine.on_event(event, &mut alarm) {
            Action::SendAndKeep => {
                turn.out.send(server.path, bytes);
                server.last = Some(Box::from(bytes));
                true
            }
            Action::SendAndAccept => {
                turn.out.send(server.path, bytes);
                self.bury(turn, slot, Linger::L);
                true
            }
            Action::Nothing => false,
            Action::Repeat
            | Action::Confirm
            | Action::End
            | Action::AckMissing
            | Action::Failed => {
                debug_assert!(false, "no answer to a response");
                false
            }
        }
    }

    fn respond_non_invite(
        &mut self,
        turn: &mut Turn<'_>,
        slot: Slot,
        status: u16,
        bytes: &[u8],
    ) -> bool {
        use server_non_invite::{Action, Event};
        let event = if status < 200 { Event::Provisional } else { Event::Final };
        let Some(server) = self.servers.view_mut(slot) else { return false };
        let Machine::NonInvite(machine) = &mut server.machine else { return false };
        let reliable = server.path.transport.is_reliable();
        let action = machine.on_event(event, reliable);
        turn.out.send(server.path, bytes);
        match action {
            Action::SendAndKeep => server.last = Some(Box::from(bytes)),
            Action::SendAndComplete => {
                let has_to_tag = server.has_to_tag;
                if let Some(place) = self.bury(turn, slot, Linger::J) {
                    self.keep_answer(place, status, bytes, has_to_tag);
                }
            }
            Action::SendAndEnd => self.remove_server(slot),
            Action::Nothing | Action::Repeat | Action::Failed => {
                debug_assert!(false, "each response of the user is sent");
            }
        }
        true
    }

    fn step_server_invite(
        &mut self,
        turn: &mut Turn<'_>,
        slot: Slot,
        event: server_invite::Event,
    ) -> Option<Outcome<U>> {
        use server_invite::Action;
        let server = self.servers.view_mut(slot)?;
        let Machine::Invite(machine) = &mut server.machine else { return None };
        let user = server.user;
        let mut alarm = alarm(turn, &self.timing, server.path, slot);
        match machine.on_event(event, &mut alarm) {
            Action::Nothing => None,
            Action::Repeat => {
                self.repeat_last(turn, slot);
                None
            }
            Action::Confirm => {
                self.bury(turn, slot, Linger::I);
                None
            }
            Action::End => {
                self.remove_server(slot);
                None
            }
            Action::AckMissing => {
                self.remove_server(slot);
                Some(Outcome::AckMissing(ServerId(slot), user))
            }
            Action::Failed => Some(Outcome::ResponseUnsent(ServerId(slot), user)),
            Action::SendAndKeep | Action::SendAndAccept => {
                debug_assert!(false, "only respond() has something to send");
                None
            }
        }
    }

    /// Nothing to repeat before the first response: the repeat of the request is absorbed.
    fn repeat_last(&mut self, turn: &mut Turn<'_>, slot: Slot) {
        let Some(server) = self.servers.view(slot) else { return };
        if let Some(bytes) = &server.last {
            turn.out.send(server.path, bytes);
            self.counts.responses_repeated += 1;
        }
    }

    fn find(&self, now: Mono, key: u64) -> Option<Found> {
        let place = self.directory.find(key, |place| self.is_under(key, place, now))?;
        match unpack(place) {
            Stored::Live(index) => {
                let (slot, _) = self.servers.from_index(index).next()?;
                Some(Found::Live(slot))
            }
            Stored::Buried(place) => Some(Found::Buried(place)),
        }
    }

    /// Whether what lies at `place` has this key and its time is not over.
    fn is_under(&self, key: u64, place: u32, now: Mono) -> bool {
        match unpack(place) {
            Stored::Live(index) => {
                self.servers.from_index(index).next().is_some_and(|(_, server)| server.key == key)
            }
            Stored::Buried(place) => {
                let stone = self.tombstones.view(place);
                stone.is_some_and(|stone| stone.key == key && !stone.is_over(now))
            }
        }
    }

    /// §17.2.3: by branch, or for a peer of RFC 2543 by a To tag that is either the request's or
    /// the one of our response.
    fn find_for_ack(&self, turn: &Turn<'_>, message: &Message<'_>) -> Option<Found> {
        let by_own_tag = key::of_request(&self.key, message, Method::Invite);
        let found = self.find(turn.now, by_own_tag);
        if found.is_some() || !key::is_older(message) {
            return found;
        }
        self.find(turn.now, key::of_older(&self.key, message, Method::Invite, None))
    }

    /// Whether an ACK with the key of this transaction is for its non-2xx. By the rules for
    /// RFC 2543 its To tag must be the one of the response.
    fn is_acked(&mut self, slot: Slot, ack: &Message<'_>) -> bool {
        let Some(server) = self.servers.view(slot) else { return false };
        let Some(response) = server.last.as_deref().filter(|_| server.is_older) else {
            return true;
        };
        let response = self.scratch.parse(response, Framing::Datagram);
        response.is_ok_and(|response| response.to_tag() == ack.to_tag())
    }

    /// Replaces a live transaction by a tombstone.
    fn bury(&mut self, turn: &mut Turn<'_>, slot: Slot, ring: Linger) -> Option<Place> {
        let server = self.servers.remove(slot)?;
        if self.tombstones.is_full(ring) {
            self.evict(turn.now, ring);
        }
        let life = self.life(ring);
        let place = self.tombstones.push(server.key, ring, (turn.now, life));
        let (live, buried) = (pack(Stored::Live(slot.index)), pack(Stored::Buried(place)));
        self.directory.replace(server.key, live, buried);
        if !std::mem::replace(self.tombstones.armed(ring), true) {
            turn.timers.arm(turn.now + life, TimerKey::Sweep(ring));
        }
        Some(place)
    }

    /// Keeps of the answer what cannot be written from a repeat of the request. When too much is
    /// kept already, repeats get no answer.
    fn keep_answer(&mut self, place: Place, status: u16, bytes: &[u8], has_to_tag: bool) {
        let mut kept = Kept::Whole(bytes);
        if compose::is_plain(bytes, status) {
            if has_to_tag {
                kept = Kept::Nothing;
            } else if let Ok(answer) = self.scratch.parse(bytes, Framing::Datagram) {
                kept = answer.to_tag().map_or(Kept::Nothing, Kept::ToTag);
            }
        }
        if !self.tombstones.engrave(place, status, kept) {
            self.counts.answers_forgotten += 1;
        }
    }

    fn life(&self, linger: Linger) -> Duration {
        match linger {
            Linger::I => self.timing.t4,
            Linger::J | Linger::L => self.timing.timeout(),
        }
    }

    /// Makes room in a ring.
    fn evict(&mut self, now: Mono, ring: Linger) {
        if !self.tombstones.oldest(ring).is_some_and(|stone| stone.is_over(now)) {
            self.counts.tombstones_evicted += 1;
        }
        self.pop_tombstone(ring);
    }

    fn pop_tombstone(&mut self, ring: Linger) {
        if let Some((key, place)) = self.tombstones.pop(ring) {
            self.directory.remove(key, pack(Stored::Buried(place)));
        }
    }

    fn remove_server(&mut self, slot: Slot) {
        if let Some(server) = self.servers.remove(slot) {
            self.directory.remove(server.key, pack(Stored::Live(slot.index)));
        }
    }
}

/// Where a place of the directory is. Two bits say which table, the rest is the index.
#[derive(Clone, Copy)]
enum Stored {
    Live(u32),
    Buried(Place),
}

const CONFIRMED: u32 = 1 << 30;
const COMPLETED: u32 = 2 << 30;
const ACCEPTED: u32 = 3 << 30;
const INDEX: u32 = INDEX_MAX - 1;

fn pack(stored: Stored) -> u32 {
    match stored {
        Stored::Live(index) => index,
        Stored::Buried(Place { ring: Linger::I, index }) => CONFIRMED | index,
        Stored::Buried(Place { ring: Linger::J, index }) => COMPLETED | index,
        Stored::Buried(Place { ring: Linger::L, index }) => ACCEPTED | index,
    }
}

fn unpack(place: u32) -> Stored {
    let index = place & INDEX;
    let ring = match place & !INDEX {
        0 => return Stored::Live(index),
        CONFIRMED => Linger::I,
        COMPLETED => Linger::J,
        _ => Linger::L,
    };
    Stored::Buried(Place { ring, index })
}

/// §18.2.2: on the connection on which the request came, or to where its top Via says.
pub(crate) fn answer_path(request: &Message<'_>, path: Path) -> Path {
    if path.transport.is_reliable() {
        return path;
    }
    path.to(response_address(request, path.remote))
}

fn alarm<'t>(
    turn: &'t mut Turn<'_>,
    timing: &'t super::Timing,
    path: Path,
    slot: Slot,
) -> Alarm<'t> {
    let reliable = path.transport.is_reliable();
    Alarm { now: turn.now, timing, reliable, side: Side::Server, slot, timers: turn.timers }
}
