//! The INVITE client transaction: RFC 3261 §17.1.1 as changed by RFC 6026 §7.2, and what §9.1
//! says about a cancelled one.
//!
//! ```text
//!                        │ INVITE from TU: send, A = T1 (unreliable), B = 64 T1
//!                        ▼
//!          A: send  ┌─────────┐ B: inform TU ───────────────────────────► (end)
//!          again ┌──│ Calling │ 2xx: to TU ─────────────────────────────► (end)
//!                └─►│         │ send failed: inform TU ─────────────────► (end)
//!                   └─────────┘ 300-699: to TU, send ACK ──────────────┐
//!                        │ 1xx: to TU                                  │
//!                        ▼                                             │
//!          1xx:  ┌──┌────────────┐ 2xx, send failed: as above ─► (end) │
//!          to TU └─►│ Proceeding │ 300-699: to TU, send ACK ───────────┤
//!                   └────────────┘                                     │
//!                        │ TU cancels: B = 64 T1                       │
//!                        ▼                                             │
//!          1xx:  ┌──┌────────────┐ 2xx, send failed: as above ─► (end) │
//!          to TU └─►│ Cancelling │ 300-699: to TU, send ACK ───────────┤
//!                   └────────────┘ B: inform TU ───────────────► (end) │
//!                                                                      ▼
//!                              D: (end)           300-699:  ┌──┌───────────┐
//!                         send failed: (end) ◄──  send ACK  └─►│ Completed │ D = 32 s or 0
//!                                                              └───────────┘
//!  (end): the slot is freed. While a CANCEL is alive its INVITE stays as `Over`, because the
//!  branch that both share leads to the INVITE's slot.
//! ```
//!
//! RFC 6026 §7.2 keeps an accepted transaction for 64 T1, so that repeats of the 2xx and the
//! 2xx of other branches can be told from stray ones. Here the slot is freed at once: a later 2xx
//! is reported as stray, and the transaction user finds its dialog set by our From tag, which is
//! a handle just as the branch is. That is the same test by another key, and it saves a slot for
//! 32 s per answered call. A transaction user that knows no such dialog drops the response, as
//! §7.2 demands.
//!
//! No ACK to a 2xx is made here, and Timer C (§16.6) is the endpoint's.

use super::timing::{Alarm, Timer};
use std::time::Duration;
use turn::Mono;

/// What can happen to the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// 100-199 arrived.
    Provisional,
    /// 200-299 arrived.
    Success,
    /// 300-699 arrived.
    Failure,
    /// The transaction user cancels.
    Cancel,
    TimerA,
    TimerB,
    TimerD,
    /// The request or the ACK could not be sent.
    SendFailed,
}

/// What the table does about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Nothing,
    /// Send the request once more.
    Repeat,
    /// Pass the response up.
    Report,
    /// Pass the response up and end.
    ReportAndEnd,
    /// Pass the response up, send its ACK, keep the ACK.
    ReportAndAck,
    /// Pass the response up, send its ACK, end.
    ReportAckAndEnd,
    /// Send the ACK once more.
    RepeatAck,
    /// The response belongs to no transaction.
    Stray,
    /// Send a CANCEL.
    SendCancel,
    /// Tell the user that no answer came, and end.
    TimedOut,
    /// Tell the user that sending failed, and end.
    Failed,
    /// End without a word.
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Calling { interval: Duration },
    Proceeding,
    Cancelling { deadline: Mono },
    Completed,
    Over,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ClientInvite {
    state: State,
}

impl ClientInvite {
    /// The request has just been sent.
    pub(super) fn start(alarm: &mut Alarm<'_>) -> Self {
        let interval = alarm.timing.t1;
        if !alarm.reliable {
            alarm.arm(Timer::A, interval); // §17.1.1.2
        }
        alarm.arm(Timer::B, alarm.timing.timeout());
        Self { state: State::Calling { interval } }
    }

    /// It has ended, but its slot still leads to its CANCEL.
    pub(super) fn stay_over(&mut self) {
        self.state = State::Over;
    }

    pub(super) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    pub(super) fn on_event(&mut self, event: Event, alarm: &mut Alarm<'_>) -> Action {
        match self.state {
            State::Calling { interval } => self.calling(interval, event, alarm),
            State::Proceeding => self.proceeding(event, alarm),
            State::Cancelling { deadline } => self.cancelling(deadline, event, alarm),
            State::Completed => completed(event),
            State::Over => over(event),
        }
    }

    fn calling(&mut self, interval: Duration, event: Event, alarm: &mut Alarm<'_>) -> Action {
        match event {
            Event::TimerA => {
                let interval = interval * 2; // no cap, unlike Timer E
                alarm.arm(Timer::A, interval);
                self.state = State::Calling { interval };
                Action::Repeat
            }
            Event::TimerB => Action::TimedOut,
            Event::Provisional => {
                self.state = State::Proceeding;
                Action::Report
            }
            Event::Success => Action::ReportAndEnd,
            Event::Failure => self.complete(alarm),
            Event::SendFailed => Action::Failed, // §17.1.4
            // §9.1: not before a provisional response.
            Event::Cancel | Event::TimerD => Action::Nothing,
        }
    }

    fn proceeding(&mut self, event: Event, alarm: &mut Alarm<'_>) -> Action {
        match event {
            Event::Provisional => Action::Report,
            Event::Success => Action::ReportAndEnd,
            Event::Failure => self.complete(alarm),
            Event::Cancel => {
                let after = alarm.timing.timeout(); // §9.1, last paragraph
                alarm.arm(Timer::B, after);
                self.state = State::Cancelling { deadline: alarm.now + after };
                Action::SendCancel
            }
            Event::SendFailed => Action::Failed,
            Event::TimerA | Event::TimerB | Event::TimerD => Action::Nothing,
        }
    }

    fn cancelling(&mut self, deadline: Mono, event: Event, alarm: &mut Alarm<'_>) -> Action {
        match event {
            Event::Provisional => Action::Report,
            Event::Success => Action::ReportAndEnd, // it crossed the CANCEL
            Event::Failure => self.complete(alarm),
            // The first Timer B, armed with the INVITE, may come before the deadline.
            Event::TimerB if alarm.now < deadline => Action::Nothing,
            Event::TimerB => Action::TimedOut,
            Event::SendFailed => Action::Failed,
            Event::Cancel | Event::TimerA | Event::TimerD => Action::Nothing,
        }
    }

    /// §17.1.1.2: ACK even on a reliable transport, where Timer D is zero.
    fn complete(&mut self, alarm: &mut Alarm<'_>) -> Action {
        if alarm.reliable {
            return Action::ReportAckAndEnd;
        }
        alarm.arm(Timer::D, alarm.timing.timer_d());
        self.state = State::Completed;
        Action::ReportAndAck
    }
}

fn completed(event: Event) -> Action {
    match event {
        Event::Failure => Action::RepeatAck,
        Event::Success => Action::Stray, // of another branch: the user's to end
        Event::TimerD => Action::End,
        // The user has had its final response: there is nothing left to tell.
        Event::SendFailed => Action::End,
        Event::Provisional | Event::Cancel | Event::TimerA | Event::TimerB => Action::Nothing,
    }
}

/// The table gives no responses to it.
fn over(event: Event) -> Action {
    match event {
        Event::Provisional | Event::Success | Event::Failure => Action::Stray,
        Event::Cancel | Event::TimerA | Event::TimerB | Event::TimerD | Event::SendFailed => {
            Action::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::timing::Side;
    use super::super::timing::bench_of_one::Around;
    use super::*;

    fn start(reliable: bool) -> (ClientInvite, Around) {
        let mut around = Around::new(Side::Client, reliable);
        let machine = ClientInvite::start(&mut around.alarm());
        (machine, around)
    }

    fn event_of(timer: Timer) -> Event {
        match timer {
            Timer::A => Event::TimerA,
            Timer::B => Event::TimerB,
            Timer::D => Event::TimerD,
            Timer::E | Timer::F | Timer::G | Timer::H => panic!("{timer:?} is no timer of ours"),
        }
    }

    /// Runs all timers; when each was due and what was done.
    fn run(machine: &mut ClientInvite, around: &mut Around) -> Vec<(u64, Action)> {
        let mut seen = Vec::new();
        while let Some((at, timer)) = around.next() {
            let action = machine.on_event(event_of(timer), &mut around.alarm());
            if action != Action::Nothing {
                seen.push((at, action));
            }
            if matches!(action, Action::TimedOut | Action::End) {
                break;
            }
        }
        seen
    }

    #[test]
    fn the_request_is_repeated_at_doubling_intervals_until_timer_b() {
        let (mut machine, mut around) = start(false);
        let seen = run(&mut machine, &mut around);
        let repeats = [500, 1500, 3500, 7500, 15_500, 31_500].map(|at| (at, Action::Repeat));
        assert_eq!(seen[..6], repeats); // with the first: seven requests
        assert_eq!(seen[6..], [(32_000, Action::TimedOut)]);
    }

    #[test]
    fn a_reliable_transport_gets_no_repeats_but_a_timeout() {
        let (mut machine, mut around) = start(true);
        assert_eq!(run(&mut machine, &mut around), [(32_000, Action::TimedOut)]);
    }

    #[test]
    fn a_provisional_ends_the_repeats_and_the_timeout() {
        let (mut machine, mut around) = start(false);
        let action = machine.on_event(Event::Provisional, &mut around.alarm());
        assert_eq!(action, Action::Report);
        let further = machine.on_event(Event::Provisional, &mut around.alarm());
        assert_eq!(further, Action::Report);
        assert_eq!(run(&mut machine, &mut around), []);
    }

    #[test]
    fn a_2xx_goes_up_and_ends_it_without_an_ack() {
        for provisional_first in [false, true] {
            let (mut machine, mut around) = start(false);
            if provisional_first {
                machine.on_event(Event::Provisional, &mut around.alarm());
            }
            let action = machine.on_event(Event::Success, &mut around.alarm());
            assert_eq!(action, Action::ReportAndEnd);
        }
    }

    #[test]
    fn a_failure_is_acknowledged_and_its_repeats_too_for_32_seconds() {
        for provisional_first in [false, true] {
            let (mut machine, mut around) = start(false);
            if provisional_first {
                machine.on_event(Event::Provisional, &mut around.alarm());
            }
            let first = machine.on_event(Event::Failure, &mut around.alarm());
            assert_eq!(first, Action::ReportAndAck);
            let repeat = machine.on_event(Event::Failure, &mut around.alarm());
            assert_eq!(repeat, Action::RepeatAck);
            let late = machine.on_event(Event::Provisional, &mut around.alarm());
            assert_eq!(late, Action::Nothing);
            let other_branch = machine.on_event(Event::Success, &mut around.alarm());
            assert_eq!(other_branch, Action::Stray);
        }
    }

    #[test]
    fn timer_d_ends_it() {
        let mut around = Around::new(Side::Client, false);
        let mut machine = ClientInvite { state: State::Proceeding };
        machine.on_event(Event::Failure, &mut around.alarm());
        assert_eq!(run(&mut machine, &mut around), [(32_000, Action::End)]);
    }

    #[test]
    fn a_failure_on_a_reliable_transport_is_acknowledged_once() {
        let (mut machine, mut around) = start(true);
        let action = machine.on_event(Event::Failure, &mut around.alarm());
        assert_eq!(action, Action::ReportAckAndEnd);
    }

    #[test]
    fn a_send_error_is_told_until_a_final_response() {
        let (mut machine, mut around) = start(false);
        let action = machine.on_event(Event::SendFailed, &mut around.alarm());
        assert_eq!(action, Action::Failed);
        machine.on_event(Event::Failure, &mut around.alarm());
        assert_eq!(machine.on_event(Event::SendFailed, &mut around.alarm()), Action::End);
    }

    #[test]
    fn nothing_is_cancelled_before_a_provisional_or_twice() {
        let (mut machine, mut around) = start(false);
        assert_eq!(machine.on_event(Event::Cancel, &mut around.alarm()), Action::Nothing);
        machine.on_event(Event::Provisional, &mut around.alarm());
        assert_eq!(machine.on_event(Event::Cancel, &mut around.alarm()), Action::SendCancel);
        assert_eq!(machine.on_event(Event::Cancel, &mut around.alarm()), Action::Nothing);
    }

    #[test]
    fn a_cancelled_invite_without_a_final_response_ends_after_64_t1() {
        let (mut machine, mut around) = start(false);
        machine.on_event(Event::Provisional, &mut around.alarm());
        around.now = Mono::from_nanos(20_000_000_000);
        machine.on_event(Event::Cancel, &mut around.alarm());
        // The Timer B of the start (32 s) comes first and means nothing.
        assert_eq!(run(&mut machine, &mut around), [(52_000, Action::TimedOut)]);
    }

    #[test]
    fn a_2xx_that_crosses_the_cancel_goes_up() {
        let (mut machine, mut around) = start(false);
        machine.on_event(Event::Provisional, &mut around.alarm());
        machine.on_event(Event::Cancel, &mut around.alarm());
        let action = machine.on_event(Event::Success, &mut around.alarm());
        assert_eq!(action, Action::ReportAndEnd);
    }

    #[test]
    fn one_that_is_over_takes_no_response() {
        let (mut machine, mut around) = start(false);
        machine.stay_over();
        for event in [Event::Provisional, Event::Success, Event::Failure] {
            assert_eq!(machine.on_event(event, &mut around.alarm()), Action::Stray);
        }
        assert_eq!(run(&mut machine, &mut around), []);
    }
}
