//! What leaves: filled templates, and the account of what the kernel took.

use super::{Call, Caller, Dialog, Kind};
use crate::tally::Cause;
use crate::template::Filling;
use sip::path::{Outbox, Path};
use sip::wire::{Builder, CopyWith, Message, Name, copy_response_head};
use turn::{Mono, Slot};

/// What a message in the outbox is, for the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// The first INVITE of a call, due at `scheduled`.
    Invite {
        /// The call.
        slot: Slot,
        /// When it was due.
        scheduled: Mono,
    },
    /// A repeat by timer.
    Repeat,
    /// Anything else.
    Other,
}

impl Caller {
    /// The messages that wait.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// How many messages wait.
    pub fn waiting(&self) -> usize {
        self.sendings.len()
    }

    /// The kernel has taken message `index` of the outbox, at `now`.
    pub fn on_sent(&mut self, index: usize, now: Mono) {
        self.tally.packets_out += 1;
        match self.sendings[index] {
            Sending::Invite { scheduled, .. } => {
                self.tally.sent += 1;
                self.tally.send_lag.note(now - scheduled);
            }
            Sending::Repeat => self.tally.retransmissions += 1,
            Sending::Other => {}
        }
    }

    /// The kernel has refused message `index` of the outbox. Without its INVITE a call has failed;
    /// anything else is repeated by timer or by the peer.
    pub fn on_unsent(&mut self, index: usize) {
        if let Sending::Invite { slot, .. } = self.sendings[index] {
            self.fail(slot, Cause::Unsent);
        }
    }

    /// Forgets the messages: all have been sent or refused.
    pub fn clear_sends(&mut self) {
        self.outbox.clear();
        self.sendings.clear();
    }

    pub(super) fn send_invite(&mut self, slot: Slot, sending: Sending) {
        let Self { outbox, path, templates, run, .. } = self;
        let mark = run.mark(slot);
        let filling = Filling {
            kind: Kind::Invite,
            mark: &mark,
            to: &templates.to,
            target: b"",
            routes: b"",
        };
        outbox.compose(*path, |out| templates.invite.fill(out, &filling));
        self.sendings.push(sending);
    }

    pub(super) fn repeat_invite(&mut self, slot: Slot) {
        self.send_invite(slot, Sending::Repeat);
    }

    pub(super) fn send_cancel(&mut self, slot: Slot, is_repeat: bool) {
        let Self { outbox, path, templates, run, .. } = self;
        let mark = run.mark(slot);
        let filling = Filling {
            kind: Kind::Invite,
            mark: &mark,
            to: &templates.to,
            target: b"",
            routes: b"",
        };
        outbox.compose(*path, |out| templates.cancel.fill(out, &filling));
        self.sendings.push(if is_repeat { Sending::Repeat } else { Sending::Other });
    }

    /// The ACK of the 2xx of a call in the table.
    pub(super) fn send_ack(&mut self, slot: Slot) {
        let Self { outbox, path, templates, run, calls, .. } = self;
        let Some(call) = calls.view(slot) else { return };
        let mark = run.mark(slot);
        let filling = call.dialog.filling(Kind::Ack, &mark);
        outbox.compose(*path, |out| templates.ack.fill(out, &filling));
        self.sendings.push(Sending::Other);
    }

    pub(super) fn send_bye(&mut self, slot: Slot, is_repeat: bool) {
        let Self { outbox, path, templates, run, calls, .. } = self;
        let Some(call) = calls.view(slot) else { return };
        let mark = run.mark(slot);
        let filling = call.dialog.filling(Kind::Bye, &mark);
        outbox.compose(*path, |out| templates.bye.fill(out, &filling));
        self.sendings.push(if is_repeat { Sending::Repeat } else { Sending::Other });
    }

    /// ACK and BYE for a 2xx that no call in the table wants (13.2.2.4): its call was given up, or
    /// it comes from another branch of a fork. The BYE is not repeated.
    pub(super) fn send_farewell(&mut self, slot: Slot, dialog: &Dialog) {
        let Self { outbox, path, templates, run, .. } = self;
        let mark = run.mark(slot);
        let ack = dialog.filling(Kind::Ack, &mark);
        outbox.compose(*path, |out| templates.ack.fill(out, &ack));
        let bye = dialog.filling(Kind::Stale, &mark);
        outbox.compose(*path, |out| templates.bye.fill(out, &bye));
        self.sendings.extend([Sending::Other, Sending::Other]);
    }

    /// The ACK of a failure, from the response alone.
    pub(super) fn send_ack_failure(&mut self, slot: Slot, response: &Message<'_>) {
        let Self { outbox, path, templates, run, .. } = self;
        let mark = run.mark(slot);
        let to = response.header(Name::To).unwrap_or(b"");
        let filling = Filling { kind: Kind::Invite, mark: &mark, to, target: b"", routes: b"" };
        outbox.compose(*path, |out| templates.ack_failure.fill(out, &filling));
        self.sendings.push(Sending::Other);
    }

    pub(super) fn respond(&mut self, request: &Message<'_>, status: u16) {
        respond(&mut self.outbox, self.path, request, status);
        self.sendings.push(Sending::Other);
    }
}

fn respond(outbox: &mut Outbox, path: Path, request: &Message<'_>, status: u16) {
    outbox.compose(path, |out| {
        Builder::response(out, status, None)
            .with(|out| {
                copy_response_head(out, request, Some(b"s"), path.remote, CopyWith::default());
            })
            .no_body();
    });
}

impl Call {
    pub(super) fn has_dialog(&self) -> bool {
        self.dialog.to_end > 0
    }
}

impl Dialog {
    fn filling<'a>(&'a self, kind: Kind, mark: &'a crate::identity::Mark) -> Filling<'a> {
        let (to_end, target_end) = (usize::from(self.to_end), usize::from(self.target_end));
        Filling {
            kind,
            mark,
            to: &self.text[..to_end],
            target: &self.text[to_end..target_end],
            routes: &self.text[target_end..],
        }
    }

    /// What a 2xx says about its dialog (12.1.2); `None` when it lacks tag or Contact, or says too
    /// much.
    pub(super) fn of(response: &Message<'_>) -> Option<Self> {
        let (to, contact) = (response.header(Name::To)?, response.contact()?);
        response.to_tag()?;
        let mut text = smallvec::SmallVec::new();
        text.extend_from_slice(to);
        let to_end = u16::try_from(text.len()).ok()?;
        text.extend_from_slice(contact.uri);
        let target_end = u16::try_from(text.len()).ok()?;
        let recorded: smallvec::SmallVec<[&[u8]; 4]> = response.values(Name::RecordRoute).collect();
        for route in recorded.iter().rev() {
            text.extend_from_slice(b"Route: ");
            text.extend_from_slice(route);
            text.extend_from_slice(b"\r\n");
        }
        let fits = text.len() <= crate::template::DIALOG_BYTES_MAX;
        fits.then_some(Self { text, to_end, target_end })
    }

    pub(super) fn to(&self) -> &[u8] {
        &self.text[..usize::from(self.to_end)]
    }
}
