//! The applications that are done at once: Answer, Hangup, Ringing, Progress, Set, Verbose, and the
//! end of a plan without a Hangup.

use dialplan::{HangupCause, Template};

use crate::call::{Call, CallerPart, INBOUND};
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

/// Sets a variable, or a part of the caller's identity.
pub(crate) fn set(call: &mut Call, name: &Template, value: &Template, env: &mut Env<'_, '_>) {
    let rendered = {
        let vars = vars(call, env);
        name.rendered(&vars).and_then(|name| Ok((name, value.rendered(&vars)?)))
    };
    let (name, value) = match rendered {
        Ok(rendered) => rendered,
        Err(fault) => return call.fault(CallFault::Unrenderable(fault), env),
    };
    let part = match &*name {
        "CALLERID(num)" => Some(CallerPart::Number),
        "CALLERID(name)" => Some(CallerPart::Name),
        _ => None,
    };
    if let Some(part) = part {
        call.caller_set.get_or_insert_default().set(part, &value);
    } else if call.vars.set(&name, &value).is_err() {
        env.counts.variables_full += 1;
        call.fault(CallFault::VariablesFull, env);
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
