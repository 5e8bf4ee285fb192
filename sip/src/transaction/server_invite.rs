//! The INVITE server transaction: RFC 3261 §17.2.1 as changed by RFC 6026 §7.1.
//!
//! ```text
//!                       │ INVITE: to TU
//!                       ▼
//!      INVITE: last ┌────────────┐ 2xx from TU: send ──────────────► (Accepted: L = 64 T1)
//!      1xx again ┌──│ Proceeding │                INVITE: absorbed; ACK: to TU
//!                └─►│            │
//!      1xx from TU: └────────────┘
//!      send             │ 300-699 from TU: send, G = T1 (unreliable), H = 64 T1
//!                       ▼
//!      INVITE, G:   ┌───────────┐ ACK ────────────────────────────► (Confirmed: I = T4 or 0)
//!      send again┌──│ Completed │                 INVITE, ACK: absorbed
//!                └─►│           │ H: inform TU ───────────────────► (end)
//!                   └───────────┘
//!      send failed: inform TU, stay (RFC 6026 §7.1)
//! ```
//!
//! Accepted and Confirmed do nothing but absorb repeats, so they are no states of a live
//! transaction but tombstones (see [`super::tombstones`]). Repeats of a 2xx are the transaction
//! user's: it sends them straight to the outbox (§13.3.1.4).
//!
//! The 100 (Trying) of §17.2.1 is not made here: the endpoint knows when it can be spared and
//! sends it as any other response. A repeated INVITE before the first response is absorbed.

use super::timing::{Alarm, Timer};
use std::time::Duration;

/// What can happen to the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// The INVITE came again.
    Repeated,
    /// An ACK came.
    Ack,
    /// The user responds with 100-199.
    Provisional,
    /// The user responds with 200-299.
    Success,
    /// The user responds with 300-699.
    Failure,
    TimerG,
    TimerH,
    /// A response could not be sent.
    SendFailed,
}

/// What the table does about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Nothing,
    /// Send the last response once more, if there is one.
    Repeat,
    /// Send the response and keep it for repeats.
    SendAndKeep,
    /// Send the response and leave a tombstone for Timer L.
    SendAndAccept,
    /// Leave a tombstone for Timer I.
    Confirm,
    /// End.
    End,
    /// Tell the user that the ACK is missing, and end.
    AckMissing,
    /// Tell the user that sending failed.
    Failed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Proceeding,
    Completed { interval: Duration },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ServerInvite {
    state: State,
}

impl ServerInvite {
    /// The INVITE has just arrived.
    pub(super) const fn start() -> Self {
        Self { state: State::Proceeding }
    }

    /// Whether a final response is still to come.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Proceeding)
    }

    pub(super) fn on_event(&mut self, event: Event, alarm: &mut Alarm<'_>) -> Action {
        match self.state {
            State::Proceeding => self.proceeding(event, alarm),
            State::Completed { interval } => self.completed(interval, event, alarm),
        }
    }

    fn proceeding(&mut self, event: Event, alarm: &mut Alarm<'_>) -> Action {
        match event {
            Event::Repeated => Action::Repeat,
            Event::Provisional => Action::SendAndKeep,
            Event::Success => Action::SendAndAccept, // RFC 6026 §8.5
            Event::Failure => {
                let interval = alarm.timing.t1;
                if !alarm.reliable {
                    alarm.arm(Timer::G, interval);
                }
                alarm.arm(Timer::H, alarm.timing.timeout());
                self.state = State::Completed { interval };
                Action::SendAndKeep
            }
            Event::SendFailed => Action::Failed,
            // An ACK to nothing.
            Event::Ack | Event::TimerG | Event::TimerH => Action::Nothing,
        }
    }

    fn completed(&mut self, interval: Duration, event: Event, alarm: &mut Alarm<'_>) -> Action {
        match event {
            Event::Repeated => Action::Repeat,
            Event::TimerG => {
                let interval = (interval * 2).min(alarm.timing.t2);
                alarm.arm(Timer::G, interval);
                self.state = State::Completed { interval };
                Action::Repeat
            }
            Event::TimerH => Action::AckMissing,
            Event::Ack if alarm.reliable => Action::End, // Timer I is zero
            Event::Ack => Action::Confirm,
            Event::SendFailed => Action::Failed,
            // There is only one final response.
            Event::Provisional | Event::Success | Event::Failure => Action::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::timing::Side;
    use super::super::timing::bench_of_one::Around;
    use super::*;

    fn start(reliable: bool) -> (ServerInvite, Around) {
        (ServerInvite::start(), Around::new(Side::Server, reliable))
    }

    fn run(machine: &mut ServerInvite, around: &mut Around) -> Vec<(u64, Action)> {
        let mut seen = Vec::new();
        while let Some((at, timer)) = around.next() {
            let event = match timer {
                Timer::G => Event::TimerG,
                Timer::H => Event::TimerH,
                Timer::A | Timer::B | Timer::D | Timer::E | Timer::F => panic!("{timer:?}"),
            };
            let action = machine.on_event(event, &mut around.alarm());
            seen.push((at, action));
            if action == Action::AckMissing {
                break;
            }
        }
        seen
    }

    #[test]
    fn each_provisional_is_sent_and_the_last_one_repeated() {
        let (mut machine, mut around) = start(false);
        for _ in 0..2 {
            let sent = machine.on_event(Event::Provisional, &mut around.alarm());
            assert_eq!(sent, Action::SendAndKeep);
            let repeat = machine.on_event(Event::Repeated, &mut around.alarm());
            assert_eq!(repeat, Action::Repeat);
        }
        assert!(machine.is_open());
        assert_eq!(around.next(), None); // §17.2.1: not retransmitted by the transaction
    }

    #[test]
    fn a_2xx_is_sent_and_left_to_the_user() {
        let (mut machine, mut around) = start(false);
        let action = machine.on_event(Event::Success, &mut around.alarm());
        assert_eq!(action, Action::SendAndAccept);
        assert_eq!(around.next(), None);
    }

    #[test]
    fn a_failure_is_repeated_up_to_t2_until_timer_h_tells_that_the_ack_is_missing() {
        let (mut machine, mut around) = start(false);
        let sent = machine.on_event(Event::Failure, &mut around.alarm());
        assert_eq!(sent, Action::SendAndKeep);
        assert!(!machine.is_open());
        let seen = run(&mut machine, &mut around);
        let repeats = [500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500];
        assert_eq!(seen[..10], repeats.map(|at| (at, Action::Repeat)));
        assert_eq!(seen[10..], [(32_000, Action::AckMissing)]);
    }

    #[test]
    fn a_reliable_transport_gets_a_failure_once_but_timer_h_too() {
        let (mut machine, mut around) = start(true);
        machine.on_event(Event::Failure, &mut around.alarm());
        assert_eq!(run(&mut machine, &mut around), [(32_000, Action::AckMissing)]);
    }

    #[test]
    fn a_repeated_invite_gets_the_failure_again() {
        let (mut machine, mut around) = start(false);
        machine.on_event(Event::Failure, &mut around.alarm());
        let action = machine.on_event(Event::Repeated, &mut around.alarm());
        assert_eq!(action, Action::Repeat);
    }

    #[test]
    fn the_ack_confirms_and_on_a_reliable_transport_ends() {
        for (reliable, wanted) in [(false, Action::Confirm), (true, Action::End)] {
            let (mut machine, mut around) = start(reliable);
            machine.on_event(Event::Failure, &mut around.alarm());
            assert_eq!(machine.on_event(Event::Ack, &mut around.alarm()), wanted);
        }
    }

    #[test]
    fn an_ack_before_a_final_response_changes_nothing() {
        let (mut machine, mut around) = start(false);
        assert_eq!(machine.on_event(Event::Ack, &mut around.alarm()), Action::Nothing);
        assert!(machine.is_open());
    }

    #[test]
    fn a_second_final_response_is_discarded() {
        let (mut machine, mut around) = start(false);
        machine.on_event(Event::Failure, &mut around.alarm());
        for event in [Event::Provisional, Event::Success, Event::Failure] {
            assert_eq!(machine.on_event(event, &mut around.alarm()), Action::Nothing);
        }
    }

    #[test]
    fn a_send_error_is_told_and_changes_nothing() {
        let (mut machine, mut around) = start(false);
        assert_eq!(machine.on_event(Event::SendFailed, &mut around.alarm()), Action::Failed);
        assert!(machine.is_open());
        machine.on_event(Event::Failure, &mut around.alarm());
        assert_eq!(machine.on_event(Event::SendFailed, &mut around.alarm()), Action::Failed);
        assert_eq!(machine.on_event(Event::Ack, &mut around.alarm()), Action::Confirm);
    }
}
