//! What arrives: responses to our requests, and requests of the server.

use super::{Caller, Dialog, Phase, T1};
use crate::identity::Kind;
use crate::tally::Cause;
use sip::wire::{Framing, Message, Method, Name};
use turn::{Mono, Slot};

impl Caller {
    /// A datagram that the kernel took in at `at` (monotonic).
    pub fn receive(&mut self, bytes: &[u8], at: Mono, now: Mono) {
        self.tally.packets_in += 1;
        self.tally.read_lag.note(now - at);
        let Some(mut index) = self.index.take() else { return };
        match index.parse(bytes, Framing::Datagram) {
            Ok(message) if message.is_request() => self.on_request(&message),
            Ok(message) => self.on_response(&message, at, now),
            Err(_) => self.tally.garbage += 1,
        }
        self.index = Some(index);
    }

    fn on_response(&mut self, response: &Message<'_>, at: Mono, now: Mono) {
        let status = response.status().unwrap_or(0);
        let ours = response.top_via().branch().and_then(|branch| self.run.read_branch(branch));
        match (ours, response.cseq().method) {
            (Some((Kind::Invite, slot)), Method::Invite) => match status {
                100..=199 => self.on_provisional(slot, status),
                200..=299 => self.on_success(slot, response, at, now),
                _ => self.on_failure(slot, response, status),
            },
            // What counts about a CANCEL is the INVITE's own final response (9.1).
            (Some((Kind::Invite, _)), Method::Cancel) | (Some((Kind::Stale, _)), Method::Bye) => {}
            (Some((Kind::Bye, slot)), Method::Bye) => self.on_bye_response(slot, status),
            _ => self.tally.strays += 1,
        }
    }

    fn on_provisional(&mut self, slot: Slot, status: u16) {
        match status {
            100 => self.tally.trying += 1,
            _ => self.tally.ringing += 1,
        }
        // After the final response, or for a call given up, it means nothing more.
        let Some(call) = self.calls.view_mut(slot) else { return };
        if let Phase::Inviting { .. } = call.phase {
            call.phase = Phase::Proceeding;
            let deadline = call.deadline;
            self.rearm(slot, deadline);
        }
    }

    fn on_success(&mut self, slot: Slot, response: &Message<'_>, at: Mono, now: Mono) {
        let Some(dialog) = Dialog::of(response) else {
            if self.calls.view(slot).is_some_and(|call| !call.has_dialog()) {
                self.fail(slot, Cause::Protocol);
            }
            return;
        };
        let Some(call) = self.calls.view_mut(slot) else {
            self.tally.late_answers += 1;
            return self.send_farewell(slot, &dialog);
        };
        match call.phase {
            Phase::Inviting { .. } | Phase::Proceeding => {
                call.dialog = dialog;
                let scheduled = call.scheduled;
                let status = response.status().unwrap_or(0);
                *self.tally.statuses.entry(status).or_default() += 1;
                self.tally.answer(at - scheduled);
                self.send_ack(slot);
                self.hold(slot, now);
            }
            Phase::Cancelling { .. } => {
                // The CANCEL came too late; the failure has been counted.
                self.tally.late_answers += 1;
                self.send_farewell(slot, &dialog);
                self.forget(slot);
            }
            Phase::Held | Phase::Ending { .. } if call.dialog.to() == dialog.to() => {
                self.tally.repeated_answers += 1;
                self.send_ack(slot);
            }
            Phase::Held | Phase::Ending { .. } => self.send_farewell(slot, &dialog),
        }
    }

    /// The call is answered: hold it as long as wanted.
    fn hold(&mut self, slot: Slot, now: Mono) {
        let Some(call) = self.calls.view_mut(slot) else { return };
        match self.behaviour.hold {
            Some(span) if span.is_zero() => self.end(slot, now),
            Some(span) => {
                call.phase = Phase::Held;
                call.deadline = now + span;
                let deadline = call.deadline;
                self.held += 1;
                self.rearm(slot, deadline);
            }
            None => {
                call.phase = Phase::Held;
                // No timer that is still in the wheel may end it.
                call.due = Mono::from_nanos(u64::MAX);
                self.held += 1;
            }
        }
    }

    fn on_failure(&mut self, slot: Slot, response: &Message<'_>, status: u16) {
        self.send_ack_failure(slot, response);
        let Some(call) = self.calls.view(slot) else { return };
        match call.phase {
            Phase::Inviting { .. } | Phase::Proceeding => {
                *self.tally.statuses.entry(status).or_default() += 1;
                let has_retry_after = response.header(Name::RetryAfter).is_some();
                self.tally.retry_after += u64::from(status == 503 && has_retry_after);
                self.fail(slot, Cause::of_status(status));
            }
            Phase::Cancelling { .. } => self.forget(slot),
            // A fork's loser, or a server that changed its mind: the answer stands.
            Phase::Held | Phase::Ending { .. } => self.tally.strays += 1,
        }
    }

    fn on_bye_response(&mut self, slot: Slot, status: u16) {
        let Some(call) = self.calls.view_mut(slot) else { return };
        match (call.phase, status) {
            // The timer's interval is not stretched to T2 as 17.1.2.2 has it for a provisional
            // response: nobody sends one to a BYE, and repeats would be told as such.
            (Phase::Ending { .. }, 100..=199) => call.phase = Phase::Ending { interval: T1 },
            (Phase::Ending { .. }, 200..=299) => {
                self.tally.completed += 1;
                self.forget(slot);
            }
            (Phase::Ending { .. }, _) => self.fail(slot, Cause::ByeRefused),
            (
                Phase::Inviting { .. } | Phase::Proceeding | Phase::Cancelling { .. } | Phase::Held,
                _,
            ) => self.tally.strays += 1,
        }
    }

    fn on_request(&mut self, request: &Message<'_>) {
        self.tally.requests += 1;
        match request.method() {
            Method::Ack => {}
            Method::Bye => self.on_bye(request),
            Method::Options | Method::Info | Method::Notify | Method::Message => {
                self.respond(request, 200);
            }
            // Changes of a session that has no media are declined, the call goes on.
            Method::Invite | Method::Update => self.respond(request, 488),
            Method::Cancel
            | Method::Prack
            | Method::Register
            | Method::Refer
            | Method::Subscribe
            | Method::Publish
            | Method::Other(_) => self.respond(request, 501),
        }
    }

    /// The server hangs up. Crossing our own BYE that is nothing special (15.1.2).
    fn on_bye(&mut self, request: &Message<'_>) {
        let slot = self.run.read(request.call_id());
        let Some(call) = slot.and_then(|slot| self.calls.view(slot)) else {
            return self.respond(request, 481);
        };
        let is_held = call.phase == Phase::Held;
        self.respond(request, 200);
        if is_held && let Some(slot) = slot {
            self.fail(slot, Cause::HungUp);
        }
    }
}
