//! The non-INVITE client transaction: RFC 3261 §17.1.2.
//!
//! ```text
//!                     │ request from TU: send, E = T1 (unreliable), F = 64 T1
//!                     ▼
//!       E: send  ┌────────┐ F: inform TU ──────────► (end)
//!       again,┌──│ Trying │ send failed: inform TU ► (end)
//!       E = 2E└─►│        │ 200-699: to TU ────────► (end)
//!      up to T2  └────────┘
//!                     │ 1xx: to TU
//!                     ▼
//!       E: send  ┌────────────┐ F: inform TU ──────────► (end)
//!       again,┌──│ Proceeding │ send failed: inform TU ► (end)
//!       E = T2└─►│            │ 200-699: to TU ────────► (end)
//!       1xx: to  └────────────┘
//!         TU
//! ```
//!
//! The state Completed with its Timer K buffers repeats of the final response. Here the slot is
//! freed at once: the generation in the branch makes repeats stale, so they reach nobody.

use super::timing::{Alarm, Timer};
use std::time::Duration;

/// What can happen to the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// 100-199 arrived.
    Provisional,
    /// 200-699 arrived.
    Final,
    TimerE,
    TimerF,
    /// The request could not be sent.
    SendFailed,
}

/// What the table does about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// Send the request once more.
    Repeat,
    /// Pass the response up.
    Report,
    /// Pass the response up and end.
    ReportAndEnd,
    /// Tell the user that no answer came, and end.
    TimedOut,
    /// Tell the user that sending failed, and end.
    Failed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Trying { interval: Duration },
    Proceeding,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ClientNonInvite {
    state: State,
}

impl ClientNonInvite {
    /// The request has just been sent.
    pub(super) fn start(alarm: &mut Alarm<'_>) -> Self {
        let interval = alarm.timing.t1;
        if !alarm.reliable {
            alarm.arm(Timer::E, interval); // §17.1.2.2
        }
        alarm.arm(Timer::F, alarm.timing.timeout());
        Self { state: State::Trying { interval } }
    }

    pub(super) fn on_event(&mut self, event: Event, alarm: &mut Alarm<'_>) -> Action {
        match self.state {
            State::Trying { interval } => self.trying(interval, event, alarm),
            State::Proceeding => proceeding(event, alarm),
        }
    }

    fn trying(&mut self, interval: Duration, event: Event, alarm: &mut Alarm<'_>) -> Action {
        match event {
            Event::TimerE => {
                let interval = (interval * 2).min(alarm.timing.t2);
                alarm.arm(Timer::E, interval);
                self.state = State::Trying { interval };
                Action::Repeat
            }
            Event::TimerF => Action::TimedOut,
            Event::Provisional => {
                self.state = State::Proceeding;
                Action::Report
            }
            Event::Final => Action::ReportAndEnd,
            Event::SendFailed => Action::Failed, // §17.1.4
        }
    }
}

fn proceeding(event: Event, alarm: &mut Alarm<'_>) -> Action {
    match event {
        Event::TimerE => {
            alarm.arm(Timer::E, alarm.timing.t2);
            Action::Repeat
        }
        Event::TimerF => Action::TimedOut,
        Event::Provisional => Action::Report,
        Event::Final => Action::ReportAndEnd,
        Event::SendFailed => Action::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::super::timing::Side;
    use super::super::timing::bench_of_one::Around;
    use super::*;

    fn start(reliable: bool) -> (ClientNonInvite, Around) {
        let mut around = Around::new(Side::Client, reliable);
        let machine = ClientNonInvite::start(&mut around.alarm());
        (machine, around)
    }

    /// Runs all timers to the end; when each was due and what was done.
    fn run(machine: &mut ClientNonInvite, around: &mut Around) -> Vec<(u64, Action)> {
        let mut seen = Vec::new();
        while let Some((at, timer)) = around.next() {
            let event = match timer {
                Timer::E => Event::TimerE,
                Timer::F => Event::TimerF,
                Timer::A | Timer::B | Timer::D | Timer::G | Timer::H => panic!("{timer:?}"),
            };
            let action = machine.on_event(event, &mut around.alarm());
            seen.push((at, action));
            if action == Action::TimedOut {
                break;
            }
        }
        seen
    }

    #[test]
    fn repeats_double_up_to_t2_until_timer_f() {
        let (mut machine, mut around) = start(false);
        let seen = run(&mut machine, &mut around);
        let repeats = [500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500];
        assert_eq!(seen[..10], repeats.map(|at| (at, Action::Repeat)));
        assert_eq!(seen[10..], [(32_000, Action::TimedOut)]);
    }

    #[test]
    fn after_a_provisional_repeats_go_on_at_t2_and_timer_f_still_runs() {
        let (mut machine, mut around) = start(false);
        let action = machine.on_event(Event::Provisional, &mut around.alarm());
        assert_eq!(action, Action::Report);
        let seen = run(&mut machine, &mut around);
        let repeats = [500, 4500, 8500, 12_500, 16_500, 20_500, 24_500, 28_500];
        assert_eq!(seen[..8], repeats.map(|at| (at, Action::Repeat)));
        assert_eq!(seen.last(), Some(&(32_000, Action::TimedOut)));
    }

    #[test]
    fn a_reliable_transport_gets_no_repeats_but_a_timeout() {
        let (mut machine, mut around) = start(true);
        assert_eq!(run(&mut machine, &mut around), [(32_000, Action::TimedOut)]);
    }

    #[test]
    fn a_final_response_goes_up_and_ends_it() {
        for provisional_first in [false, true] {
            let (mut machine, mut around) = start(false);
            if provisional_first {
                machine.on_event(Event::Provisional, &mut around.alarm());
                let further = machine.on_event(Event::Provisional, &mut around.alarm());
                assert_eq!(further, Action::Report);
            }
            let action = machine.on_event(Event::Final, &mut around.alarm());
            assert_eq!(action, Action::ReportAndEnd);
        }
    }

    #[test]
    fn a_send_error_is_told() {
        let (mut machine, mut around) = start(false);
        assert_eq!(machine.on_event(Event::SendFailed, &mut around.alarm()), Action::Failed);
        machine.on_event(Event::Provisional, &mut around.alarm());
        assert_eq!(machine.on_event(Event::SendFailed, &mut around.alarm()), Action::Failed);
    }
}
