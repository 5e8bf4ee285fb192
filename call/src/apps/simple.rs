//! The applications that are done at once: Answer, Hangup, Ringing, Progress, Verbose, Log, and the
//! end of a plan without a Hangup.

use dialplan::{HangupCause, LogLevel, Template};

use crate::call::{Call, INBOUND};
use crate::calls::Env;
use crate::cause::Cause;
use crate::facts::{CallFact, CallFault, DialStatus};
use crate::interpreter::vars;
use crate::leg::{Early, LegCommand};
use crate::leg_state::LegState;
use crate::record::EndedBy;

/// Answers the caller. There is no media of ours yet, so the description says `inactive`.
pub(crate) fn answer(call: &mut Call, env: &mut Env<'_, '_>) {
    if !call.inbound.is_waiting() {
        return;
    }
    let description = match call.offer.take() {
        Some((id, offer)) => match call.describe(&offer) {
            Ok(answer) => (id, answer),
            Err(fault) => {
                call.fault(CallFault::Undescribable(fault), env);
                call.end(Cause::INCOMPATIBLE, EndedBy::Plan, env);
                return;
            }
        },
        None => (call.mint_offer(), call.describe_first()),
    };
    let early = call.early.unused();
    call.answer_caller(early, Some(description), env);
}

/// Ends the call: with the given cause, else with that of the last Dial, else normally.
pub(crate) fn hang_up(call: &mut Call, cause: Option<&HangupCause>, env: &mut Env<'_, '_>) {
    let given = cause.and_then(|cause| cause.q850(&vars(call, env))).map(Cause::of);
    let cause = given.or_else(|| call.cause.take()).unwrap_or(Cause::NORMAL_CLEARING);
    call.end(cause, EndedBy::Plan, env);
}

/// The plan has no further step (Asterisk's autofallthrough): the cause of a failed Dial goes to
/// the caller as it came.
pub(crate) fn fall_through(call: &mut Call, env: &mut Env<'_, '_>) {
    if call.answered.is_some() {
        // Whoever was answered was served, whatever a later Dial met.
        return call.end(Cause::NORMAL_CLEARING, EndedBy::Plan, env);
    }
    let of_status = match call.dial_status {
        DialStatus::Busy => Cause::USER_BUSY,
        DialStatus::Congestion => Cause::CONGESTION,
        DialStatus::Unset
        | DialStatus::Answer
        | DialStatus::NoAnswer
        | DialStatus::ChanUnavail
        | DialStatus::Cancel => Cause::NORMAL_CLEARING,
    };
    let cause = call.cause.take().unwrap_or(of_status);
    call.end(cause, EndedBy::Plan, env);
}

/// Tells the caller that it rings.
pub(crate) fn ringing(call: &mut Call, env: &mut Env<'_, '_>) {
    if call.inbound.is_waiting() {
        call.inbound = LegState::Ringing;
        let early = Early::default();
        call.command(INBOUND, LegCommand::Alerting { early, answer: None }, env);
    }
}

/// Tells the caller of progress.
pub(crate) fn progress(call: &mut Call, env: &mut Env<'_, '_>) {
    if call.inbound.is_waiting() {
        let early = Early::default();
        call.command(INBOUND, LegCommand::Progress { early, inband: false, answer: None }, env);
    }
}

/// Says a line, if somebody wants to read it.
pub(crate) fn verbose(call: &Call, level: u8, text: &Template, env: &mut Env<'_, '_>) {
    if env.cx.verbose_wanted < level {
        return;
    }
    let rendered = text.rendered(&vars(call, env));
    match rendered {
        Ok(text) => {
            let channel = call.channel();
            env.cx.out.facts.push(CallFact::Verbose { channel, level, text });
        }
        Err(fault) => call.fault(CallFault::Unrenderable(fault), env),
    }
}

/// Writes a line to the log.
pub(crate) fn log(call: &Call, level: LogLevel, text: &Template, env: &mut Env<'_, '_>) {
    if level == LogLevel::Verbose {
        return verbose(call, 1, text, env);
    }
    let rendered = text.rendered(&vars(call, env));
    match rendered {
        Ok(text) => {
            let fact = CallFact::Log {
                channel: call.channel(),
                level,
                text,
                exten: call.exten().into(),
                context: call.context().into(),
                priority: call.cursor.priority(),
            };
            env.cx.out.facts.push(fact);
        }
        Err(fault) => call.fault(CallFault::Unrenderable(fault), env),
    }
}
