//! The client side of the table: requests that we send.
//!
//! A response finds its slot by the branch, which we have minted, and is then compared by sent-by
//! (RFC 3261 §18.1.2) and method (§17.1.3). A CANCEL shares the branch of its INVITE, so the way to
//! it leads through the slot of the INVITE, which stays until the CANCEL has ended.

use super::client_invite::{self, ClientInvite};
use super::client_non_invite::{self, ClientNonInvite};
use super::timing::{Alarm, Side, Timer};
use super::{
    ClientId, ClientKind, Inbound, Minted, Outcome, Slot, TransactionCounts, Transactions, Turn,
    compose, has_room,
};
use crate::mint::Reading;
use crate::path::Path;
use crate::wire::{Framing, Message, Method, Name, Via};
use memchr::memmem;

/// A request of ours on its way.
#[derive(Debug)]
pub(super) struct Client<U> {
    user: U,
    path: Path,
    /// What is sent again: the request, or the ACK that took its place.
    bytes: Box<[u8]>,
    sent_by: Span,
    /// The CANCEL of an INVITE; the INVITE of a CANCEL.
    link: Option<Slot>,
    machine: Machine,
}

const _: () = assert!(size_of::<Client<Slot>>() <= 160);

#[derive(Debug)]
enum Machine {
    Invite(ClientInvite),
    NonInvite(ClientNonInvite),
}

/// Where the sent-by of our Via lies in a request.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u16,
    end: u16,
}

/// What an event meant.
#[derive(Clone, Copy)]
enum Step {
    Absorbed,
    Report,
    ReportFinal,
    Stray,
    TimedOut,
    Unsent,
}

impl<U: Copy> Transactions<U> {
    /// Starts a client transaction. `write` appends the request to the buffer; it puts the branch
    /// that it is given into the top Via. `None` if there is no room: the user treats it as a 503.
    pub fn request(
        &mut self,
        turn: &mut Turn<'_>,
        kind: ClientKind,
        path: Path,
        user: U,
        write: impl FnOnce(&mut Vec<u8>, &[u8]),
    ) -> Option<ClientId> {
        let slot = self.room_for_client(kind == ClientKind::Invite)?;
        let branch = self.minter.branch(slot);
        let bytes = turn.out.compose(path, |buffer| write(buffer, &branch));
        let sent_by = sent_by_before(bytes, &branch);
        let bytes = Box::from(bytes);
        let mut alarm = alarm(turn, &self.timing, path, slot);
        let machine = match kind {
            ClientKind::Invite => Machine::Invite(ClientInvite::start(&mut alarm)),
            ClientKind::NonInvite => Machine::NonInvite(ClientNonInvite::start(&mut alarm)),
        };
        self.put_client(slot, Client { user, path, bytes, sent_by, link: None, machine })
    }

    /// Cancels an INVITE by a client transaction of its own (§9.1). `None` if there is nothing to
    /// cancel (no provisional response yet, or it is over), it has been cancelled already, or there
    /// is no room.
    pub fn cancel(&mut self, turn: &mut Turn<'_>, id: ClientId, user: U) -> Option<ClientId> {
        let slot = self.room_for_client(false)?;
        let invite = self.clients.view_mut(id.0)?;
        let path = invite.path;
        let Machine::Invite(machine) = &mut invite.machine else { return None };
        let mut clock = alarm(turn, &self.timing, path, id.0);
        if machine.on_event(client_invite::Event::Cancel, &mut clock)
            != client_invite::Action::SendCancel
        {
            return None;
        }
        let message = self.scratch.parse(&invite.bytes, Framing::Datagram).ok()?;
        let branch = message.top_via().branch().unwrap_or_default();
        let bytes = turn.out.compose(path, |buffer| compose::cancel(buffer, &message));
        let sent_by = sent_by_before(bytes, branch);
        let bytes = Box::from(bytes);
        let mut clock = alarm(turn, &self.timing, path, slot);
        let machine = Machine::NonInvite(ClientNonInvite::start(&mut clock));
        invite.link = Some(slot);
        self.put_client(slot, Client { user, path, bytes, sent_by, link: Some(id.0), machine })
    }

    /// Ends a client transaction without a word. Its responses are stray from then on.
    pub fn drop_client(&mut self, id: ClientId) {
        self.end_client(id.0);
    }

    /// Where the request went.
    pub fn client_path(&self, id: ClientId) -> Option<Path> {
        self.clients.view(id.0).map(|client| client.path)
    }

    pub(super) fn receive_response(
        &mut self,
        turn: &mut Turn<'_>,
        message: &Message<'_>,
        status: u16,
    ) -> Inbound<U> {
        if message.values(Name::Via).nth(1).is_some() {
            self.counts.dropped_vias += 1; // §8.1.3.3
            return Inbound::Dropped;
        }
        let via = message.top_via();
        let Some(slot) = self.find_client(&via, message.cseq().method) else {
            self.counts.strays += 1;
            return Inbound::StrayResponse;
        };
        let client = self.clients.view(slot).expect("it has just been found");
        if !client.sent_by_is(&via) {
            self.counts.dropped_sent_by += 1; // §18.1.2
            return Inbound::Dropped;
        }
        let user = client.user;
        let step = match client.machine {
            Machine::Invite(_) => {
                let event = match status {
                    ..200 => client_invite::Event::Provisional,
                    200..300 => client_invite::Event::Success,
                    300.. => client_invite::Event::Failure,
                };
                self.step_client_invite(turn, slot, event, Some(message))
            }
            Machine::NonInvite(_) => {
                let event = match status {
                    ..200 => client_non_invite::Event::Provisional,
                    200.. => client_non_invite::Event::Final,
                };
                self.step_client_non_invite(turn, slot, event)
            }
        };
        match step {
            Step::Report => Inbound::Response { client: ClientId(slot), user, fin: false },
            Step::ReportFinal => Inbound::Response { client: ClientId(slot), user, fin: true },
            Step::Stray => {
                self.counts.strays += 1;
                Inbound::StrayResponse
            }
            Step::Absorbed | Step::TimedOut | Step::Unsent => {
                self.counts.absorbed += 1;
                Inbound::Absorbed
            }
        }
    }

    pub(super) fn on_client_timer(
        &mut self,
        turn: &mut Turn<'_>,
        timer: Timer,
        slot: Slot,
    ) -> Option<Outcome<U>> {
        let client = self.clients.view(slot)?;
        let user = client.user;
        let step = match (&client.machine, timer) {
            (Machine::Invite(_), Timer::A) => {
                self.step_client_invite(turn, slot, client_invite::Event::TimerA, None)
            }
            (Machine::Invite(_), Timer::B) => {
                self.step_client_invite(turn, slot, client_invite::Event::TimerB, None)
            }
            (Machine::Invite(_), Timer::D) => {
                self.step_client_invite(turn, slot, client_invite::Event::TimerD, None)
            }
            (Machine::NonInvite(_), Timer::E) => {
                self.step_client_non_invite(turn, slot, client_non_invite::Event::TimerE)
            }
            (Machine::NonInvite(_), Timer::F) => {
                self.step_client_non_invite(turn, slot, client_non_invite::Event::TimerF)
            }
            (Machine::Invite(_), Timer::E | Timer::F | Timer::G | Timer::H)
            | (Machine::NonInvite(_), Timer::A | Timer::B | Timer::D | Timer::G | Timer::H) => {
                debug_assert!(false, "no machine arms the timer of another");
                return None;
            }
        };
        outcome(step, ClientId(slot), user)
    }

    pub(super) fn on_request_unsent(
        &mut self,
        turn: &mut Turn<'_>,
        message: &Message<'_>,
    ) -> Option<Outcome<U>> {
        // The ACK of a failed INVITE is the INVITE's.
        let method = message.method();
        let method = if method == Method::Ack { Method::Invite } else { method };
        let slot = self.find_client(&message.top_via(), method)?;
        let client = self.clients.view(slot)?;
        let user = client.user;
        let step = match client.machine {
            Machine::Invite(_) => {
                self.step_client_invite(turn, slot, client_invite::Event::SendFailed, None)
            }
            Machine::NonInvite(_) => {
                self.step_client_non_invite(turn, slot, client_non_invite::Event::SendFailed)
            }
        };
        outcome(step, ClientId(slot), user)
    }

    /// §17.1.3: by branch and method.
    fn find_client(&self, via: &Via<'_>, method: Method<'_>) -> Option<Slot> {
        let Reading::Ours { shard, slot } = self.minter.read(Minted::Branch, via.branch()?) else {
            return None;
        };
        if shard != self.minter.shard() {
            return None;
        }
        let client = self.clients.view(slot)?;
        match (&client.machine, method) {
            (Machine::Invite(machine), Method::Invite) => (!machine.is_over()).then_some(slot),
            (Machine::Invite(_), Method::Cancel) => client.link,
            (Machine::Invite(_), _) => None,
            (Machine::NonInvite(_), _) => (client.method() == method.as_bytes()).then_some(slot),
        }
    }

    fn step_client_invite(
        &mut self,
        turn: &mut Turn<'_>,
        slot: Slot,
        event: client_invite::Event,
        response: Option<&Message<'_>>,
    ) -> Step {
        use client_invite::Action;
        let Some(client) = self.clients.view_mut(slot) else { return Step::Absorbed };
        let mut alarm = alarm(turn, &self.timing, client.path, slot);
        let Machine::Invite(machine) = &mut client.machine else { return Step::Absorbed };
        match machine.on_event(event, &mut alarm) {
            Action::Nothing => Step::Absorbed,
            Action::Repeat => {
                client.repeat(turn, &mut self.counts);
                Step::Absorbed
            }
            Action::RepeatAck => {
                turn.out.send(client.path, &client.bytes);
                self.counts.acks_repeated += 1;
                Step::Absorbed
            }
            Action::Report => Step::Report,
            Action::ReportAndEnd => {
                self.end_client(slot);
                Step::ReportFinal
            }
            Action::ReportAndAck => {
                self.acknowledge(turn, slot, response);
                Step::ReportFinal
            }
            Action::ReportAckAndEnd => {
                self.acknowledge(turn, slot, response);
                self.end_client(slot);
                Step::ReportFinal
            }
            Action::Stray => Step::Stray,
            Action::TimedOut => {
                self.end_client(slot);
                Step::TimedOut
            }
            Action::Failed => {
                self.end_client(slot);
                Step::Unsent
            }
            Action::End => {
                self.end_client(slot);
                Step::Absorbed
            }
            Action::SendCancel => {
                debug_assert!(false, "only cancel() cancels");
                Step::Absorbed
            }
        }
    }

    fn step_client_non_invite(
        &mut self,
        turn: &mut Turn<'_>,
        slot: Slot,
        event: client_non_invite::Event,
    ) -> Step {
        use client_non_invite::Action;
        let Some(client) = self.clients.view_mut(slot) else { return Step::Absorbed };
        let mut alarm = alarm(turn, &self.timing, client.path, slot);
        let Machine::NonInvite(machine) = &mut client.machine else { return Step::Absorbed };
        match machine.on_event(event, &mut alarm) {
            Action::Repeat => {
                client.repeat(turn, &mut self.counts);
                Step::Absorbed
            }
            Action::Report => Step::Report,
            Action::ReportAndEnd => {
                self.end_client(slot);
                Step::ReportFinal
            }
            Action::TimedOut => {
                self.end_client(slot);
                Step::TimedOut
            }
            Action::Failed => {
                self.end_client(slot);
                Step::Unsent
            }
        }
    }

    /// Sends the ACK of `response` and keeps it in the place of the INVITE.
    fn acknowledge(&mut self, turn: &mut Turn<'_>, slot: Slot, response: Option<&Message<'_>>) {
        let Some(client) = self.clients.view_mut(slot) else { return };
        let Some(response) = response else { return };
        let Ok(invite) = self.scratch.parse(&client.bytes, Framing::Datagram) else {
            debug_assert!(false, "the user writes sound requests");
            return;
        };
        let branch = invite.top_via().branch().unwrap_or_default();
        let bytes = turn.out.compose(client.path, |buffer| compose::ack(buffer, &invite, response));
        client.sent_by = sent_by_before(bytes, branch);
        client.bytes = Box::from(bytes);
    }

    fn room_for_client(&mut self, is_invite: bool) -> Option<Slot> {
        if !has_room(&self.clients, is_invite) {
            self.counts.clients_full += 1;
            return None;
        }
        self.clients.next_slot()
    }

    fn put_client(&mut self, promised: Slot, client: Client<U>) -> Option<ClientId> {
        let slot = self.clients.insert(client).ok()?;
        debug_assert_eq!(slot, promised, "nothing was put in between");
        Some(ClientId(slot))
    }

    /// Frees the slot, or leaves an INVITE over while its CANCEL lives.
    fn end_client(&mut self, slot: Slot) {
        let Some(client) = self.clients.view_mut(slot) else { return };
        let link = client.link;
        match &mut client.machine {
            Machine::Invite(machine) if link.is_some() => {
                machine.stay_over();
                client.bytes = Box::default();
            }
            Machine::Invite(_) | Machine::NonInvite(_) => {
                self.clients.remove(slot);
                self.part_from_invite(link);
            }
        }
    }

    /// A CANCEL has ended: its INVITE is only needed for itself.
    fn part_from_invite(&mut self, invite: Option<Slot>) {
        let Some(slot) = invite else { return };
        let Some(client) = self.clients.view_mut(slot) else { return };
        client.link = None;
        if matches!(&client.machine, Machine::Invite(machine) if machine.is_over()) {
            self.clients.remove(slot);
        }
    }
}

impl<U> Client<U> {
    /// The method of the request that is kept.
    fn method(&self) -> &[u8] {
        self.bytes.split(|byte| *byte == b' ').next().unwrap_or_default()
    }

    fn sent_by_is(&self, via: &Via<'_>) -> bool {
        let span = usize::from(self.sent_by.start)..usize::from(self.sent_by.end);
        let ours = self.bytes.get(span).unwrap_or_default();
        ours.eq_ignore_ascii_case(via.sent_by())
    }

    fn repeat(&self, turn: &mut Turn<'_>, counts: &mut TransactionCounts) {
        turn.out.send(self.path, &self.bytes);
        counts.requests_repeated += 1;
    }
}

fn alarm<'t>(
    turn: &'t mut Turn<'_>,
    timing: &'t super::Timing,
    path: Path,
    slot: Slot,
) -> Alarm<'t> {
    let reliable = path.transport.is_reliable();
    Alarm { now: turn.now, timing, reliable, side: Side::Client, slot, timers: turn.timers }
}

fn outcome<U>(step: Step, id: ClientId, user: U) -> Option<Outcome<U>> {
    match step {
        Step::TimedOut => Some(Outcome::TimedOut(id, user)),
        Step::Unsent => Some(Outcome::RequestUnsent(id, user)),
        Step::Absorbed | Step::Report | Step::ReportFinal | Step::Stray => None,
    }
}

/// The sent-by of the Via that carries `branch`: what stands between the transport and the first
/// parameter. Empty if the branch is not there, so that no response ever matches.
fn sent_by_before(request: &[u8], branch: &[u8]) -> Span {
    let found = memmem::find(request, branch).and_then(|at| {
        let line = request[..at].iter().rposition(|byte| *byte == b'\n')? + 1;
        let value = line + memchr::memchr(b':', &request[line..at])? + 1;
        let end = value + memchr::memchr(b';', &request[value..at])?;
        let text = request[value..end].trim_ascii_end();
        let start = value + text.iter().rposition(u8::is_ascii_whitespace)? + 1;
        let end = value + text.len();
        Some(Span { start: u16::try_from(start).ok()?, end: u16::try_from(end).ok()? })
    });
    debug_assert!(found.is_some(), "the request has the branch that was given");
    found.unwrap_or_default()
}
