//! The non-INVITE server transaction: RFC 3261 §17.2.2.
//!
//! ```text
//!                      │ request: to TU
//!                      ▼
//!    request:    ┌────────────┐ 200-699 from TU: send ──┐
//!    absorbed ┌──│   Trying   │ send failed: (no send)  │
//!             └─►│            │                         │
//!                └────────────┘                         ├─► (Completed: J = 64 T1 or 0)
//!                      │ 1xx from TU: send              │     request: same answer again
//!                      ▼                                │
//!    request, ┌──┌────────────┐ 200-699 from TU: send ──┘
//!    1xx:     └─►│ Proceeding │ send failed: inform TU ───► (end)
//!    send        └────────────┘
//! ```
//!
//! Completed only answers repeats, so it is no state of a live transaction but a tombstone (see
//! [`super::tombstones`]).

/// What can happen to the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// The request came again.
    Repeated,
    /// The user responds with 100-199.
    Provisional,
    /// The user responds with 200-699.
    Final,
    /// A response could not be sent.
    SendFailed,
}

/// What the table does about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Nothing,
    /// Send the last response once more.
    Repeat,
    /// Send the response and keep it for repeats.
    SendAndKeep,
    /// Send the response and leave a tombstone for Timer J.
    SendAndComplete,
    /// Send the response and end.
    SendAndEnd,
    /// Tell the user that sending failed, and end.
    Failed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Trying,
    Proceeding,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ServerNonInvite {
    state: State,
}

impl ServerNonInvite {
    /// The request has just arrived.
    pub(super) const fn start() -> Self {
        Self { state: State::Trying }
    }

    pub(super) fn on_event(&mut self, event: Event, reliable: bool) -> Action {
        match self.state {
            State::Trying => self.trying(event, reliable),
            State::Proceeding => proceeding(event, reliable),
        }
    }

    fn trying(&mut self, event: Event, reliable: bool) -> Action {
        match event {
            Event::Repeated => Action::Nothing, // §17.2.2: discarded
            Event::Provisional => {
                self.state = State::Proceeding;
                Action::SendAndKeep
            }
            Event::Final => finish(reliable),
            Event::SendFailed => Action::Nothing, // nothing has been sent yet
        }
    }
}

fn proceeding(event: Event, reliable: bool) -> Action {
    match event {
        Event::Repeated => Action::Repeat,
        Event::Provisional => Action::SendAndKeep,
        Event::Final => finish(reliable),
        Event::SendFailed => Action::Failed, // §17.2.4
    }
}

/// Timer J is zero on a reliable transport.
fn finish(reliable: bool) -> Action {
    if reliable { Action::SendAndEnd } else { Action::SendAndComplete }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_discarded_until_something_was_sent() {
        let mut machine = ServerNonInvite::start();
        assert_eq!(machine.on_event(Event::Repeated, false), Action::Nothing);
        assert_eq!(machine.on_event(Event::Provisional, false), Action::SendAndKeep);
        assert_eq!(machine.on_event(Event::Repeated, false), Action::Repeat);
        assert_eq!(machine.on_event(Event::Provisional, false), Action::SendAndKeep);
    }

    #[test]
    fn a_final_response_completes_and_on_a_reliable_transport_ends() {
        for provisional_first in [false, true] {
            for (reliable, wanted) in [(false, Action::SendAndComplete), (true, Action::SendAndEnd)]
            {
                let mut machine = ServerNonInvite::start();
                if provisional_first {
                    machine.on_event(Event::Provisional, reliable);
                }
                assert_eq!(machine.on_event(Event::Final, reliable), wanted);
            }
        }
    }

    #[test]
    fn a_send_error_ends_it_once_something_was_sent() {
        let mut machine = ServerNonInvite::start();
        assert_eq!(machine.on_event(Event::SendFailed, false), Action::Nothing);
        machine.on_event(Event::Provisional, false);
        assert_eq!(machine.on_event(Event::SendFailed, false), Action::Failed);
    }
}
