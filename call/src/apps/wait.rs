//! The applications that let time pass: Wait, Busy, Congestion.

use dialplan::Seconds;

use crate::call::{Call, Doing};
use crate::calls::Env;
use crate::cause::Cause;
use crate::facts::CallFault;
use crate::interpreter::vars;
use crate::out::TimerKind;
use crate::record::EndedBy;

/// Waits, then goes on with the next step.
pub(crate) fn wait(call: &mut Call, length: &Seconds, env: &mut Env<'_, '_>) {
    let span = length.length(&vars(call, env));
    match span {
        None => call.fault(CallFault::NotSeconds, env),
        Some(span) if span.is_zero() => {}
        Some(span) => {
            call.doing = Doing::Pause { then: None };
            call.arm(TimerKind::Pause, Some(span), env);
        }
    }
}

/// Busy and Congestion: a caller who was not answered is refused with the cause; one who was hears
/// the tone (once there are tones) until he hangs up or the time is over.
pub(crate) fn tone(
    call: &mut Call,
    cause: Cause,
    timeout: Option<&Seconds>,
    env: &mut Env<'_, '_>,
) {
    if call.inbound.is_waiting() {
        call.end(cause, EndedBy::Plan, env);
        return;
    }
    let span = timeout.map(|timeout| timeout.length(&vars(call, env)));
    if span == Some(None) {
        call.fault(CallFault::NotSeconds, env);
    }
    call.doing = Doing::Pause { then: Some(cause) };
    call.arm(TimerKind::Pause, span.flatten(), env);
}
