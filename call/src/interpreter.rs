//! The interpreter: where a call stands in its plan, and how it gets on.
//!
//! A call is not a task. It holds the number of its next step; [`run`] executes steps until one
//! waits for something, the plan is over, or the steps of this turn are used up (then the call goes
//! to the run queue).

use dialplan::{App, ExtensionId, GotoTarget, Plan};

use crate::apps::{dial, simple, wait};
use crate::call::{Call, CallVars, Doing, INBOUND};
use crate::calls::Env;
use crate::cause::Cause;
use crate::facts::{CallFact, CallFault, STEP_VERBOSITY};
use crate::leg::LegCommand;
use crate::out::TimerKind;
use crate::record::EndedBy;

/// Steps that a plan may run without waiting for anything: beyond is a Goto loop, and the call
/// ends with cause 25. The longest honest plan has 1,000 steps (`dialplan::limits::STEPS_MAX`).
pub const STEPS_WITHOUT_PAUSE_MAX: u16 = 4096;

/// How long an overlap caller may think about his next digit (Asterisk's default; Q.931's T302 is
/// longer, for the sake of rotary dials).
const DIGITS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// Where a call stands.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    pub(crate) extension: Option<ExtensionId>,
    /// The index of the next step.
    pub(crate) next: u16,
    steps_without_pause: u16,
    /// Where a Goto led to; at first it is what was dialled, in the endpoint's context.
    pub(crate) place: Option<Box<Place>>,
}

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) context: Box<str>,
    pub(crate) exten: Box<str>,
}

impl Cursor {
    /// The number of the current step, from 1.
    pub(crate) fn priority(&self) -> u32 {
        u32::from(self.next.max(1))
    }

    /// The call waited for something, so whatever it runs next is no endless loop.
    pub(crate) fn rested(&mut self) {
        self.steps_without_pause = 0;
    }
}

/// A new call: the number is looked up.
pub(crate) fn begin(call: &mut Call, may_grow: bool, env: &mut Env<'_, '_>) {
    env.cx.out.facts.push(CallFact::NewChannel { channel: call.channel() });
    look_up(call, may_grow, env);
}

/// More digits came from an overlap caller.
pub(crate) fn on_digits(call: &mut Call, digits: &str, may_grow: bool, env: &mut Env<'_, '_>) {
    call.text = call.text.with_digits(digits);
    look_up(call, may_grow, env);
}

/// No more digits will come.
pub(crate) fn on_digits_timeout(call: &mut Call, env: &mut Env<'_, '_>) {
    look_up(call, false, env);
}

fn look_up(call: &mut Call, may_grow: bool, env: &mut Env<'_, '_>) {
    let plan = env.plan;
    let (context, digits, caller) = (call.context(), call.text.digits(), call.caller_number());
    let found = plan.find_complete(context, digits, caller);
    let could_grow = (may_grow || found.is_none()) && plan.may_grow(context, digits, caller);
    match found {
        _ if may_grow && could_grow => {
            call.doing = Doing::Digits;
            call.command(INBOUND, LegCommand::WantDigits, env);
            call.arm(TimerKind::Digits, Some(DIGITS_TIMEOUT), env);
        }
        Some(extension) => {
            call.disarm();
            call.cursor.extension = Some(extension);
            call.doing = Doing::Ready;
        }
        None => {
            let cause = if could_grow { Cause::INCOMPLETE_NUMBER } else { Cause::UNALLOCATED };
            no_extension(call, cause, env);
        }
    }
}

fn no_extension(call: &mut Call, cause: Cause, env: &mut Env<'_, '_>) {
    env.counts.no_extension += 1;
    env.cx.out.facts.push(CallFact::NoExtension {
        channel: call.channel(),
        endpoint: std::sync::Arc::clone(&call.endpoint),
        caller: call.text.caller_number().into(),
        peer: call.text.peer().into(),
        exten: call.text.digits().into(),
        context: call.context().into(),
    });
    call.end(cause, EndedBy::Plan, env);
}

/// Runs steps while the call is ready and has steps left in this turn.
pub(crate) fn run(call: &mut Call, env: &mut Env<'_, '_>) {
    let mut left = env.limits.steps_per_turn;
    while left > 0 && matches!(call.doing, Doing::Ready) {
        left -= 1;
        step(call, env);
    }
}

fn step(call: &mut Call, env: &mut Env<'_, '_>) {
    let plan: &Plan = env.plan;
    let index = call.cursor.next;
    let found =
        call.cursor.extension.and_then(|id| Some((id, plan.steps(id).get(index as usize)?)));
    let Some((extension, step)) = found else {
        simple::fall_through(call, env);
        return;
    };
    call.cursor.next += 1;
    call.cursor.steps_without_pause += 1;
    if call.cursor.steps_without_pause > STEPS_WITHOUT_PAUSE_MAX {
        env.counts.endless_plans += 1;
        call.fault(CallFault::EndlessPlan, env);
        call.end(Cause::ROUTING_LOOP, EndedBy::Plan, env);
        return;
    }
    if env.cx.verbose_wanted >= STEP_VERBOSITY {
        tell_step(call, step, env);
    }
    match &step.app {
        App::Answer => simple::answer(call, env),
        App::Hangup { cause } => simple::hang_up(call, cause.as_ref(), env),
        App::Dial(dial) => dial::dial(call, dial, (extension, index), env),
        App::Ringing => simple::ringing(call, env),
        App::Progress => simple::progress(call, env),
        App::Busy { timeout } => wait::tone(call, Cause::USER_BUSY, timeout.as_ref(), env),
        App::Congestion { timeout } => wait::tone(call, Cause::CONGESTION, timeout.as_ref(), env),
        App::Wait(length) => wait::wait(call, length, env),
        App::NoOp(_) => {}
        App::Set { name, value } => simple::set(call, name, value, env),
        App::Goto(target) => go_to(call, target, env),
        App::GotoIf { condition, yes, no } => {
            let holds = condition.holds(&vars(call, env));
            match holds {
                Ok(true) => yes.iter().for_each(|target| go_to(call, target, env)),
                Ok(false) => no.iter().for_each(|target| go_to(call, target, env)),
                Err(fault) => call.fault(CallFault::Unrenderable(fault), env),
            }
        }
        App::Verbose { level, text } => simple::verbose(call, *level, text, env),
    }
}

fn tell_step(call: &Call, step: &dialplan::Step, env: &mut Env<'_, '_>) {
    let rendered = match &step.app {
        App::NoOp(text) => text.rendered(&vars(call, env)).ok(),
        App::Answer
        | App::Hangup { .. }
        | App::Dial(_)
        | App::Ringing
        | App::Progress
        | App::Busy { .. }
        | App::Congestion { .. }
        | App::Wait(_)
        | App::Set { .. }
        | App::Goto(_)
        | App::GotoIf { .. }
        | App::Verbose { .. } => None,
    };
    env.cx.out.facts.push(CallFact::Step {
        channel: call.channel(),
        context: call.context().into(),
        exten: call.exten().into(),
        priority: call.cursor.priority(),
        app: step.app.name(),
        data: rendered.unwrap_or_else(|| step.data.clone()),
    });
}

fn go_to(call: &mut Call, target: &GotoTarget, env: &mut Env<'_, '_>) {
    match way(call, target, env) {
        Ok(Some((extension, index, place))) => {
            call.cursor.extension = Some(extension);
            call.cursor.next = index;
            if place.is_some() {
                call.cursor.place = place;
            }
        }
        Ok(None) => {
            call.fault(CallFault::GotoNowhere, env);
            call.end(Cause::UNALLOCATED, EndedBy::Plan, env);
        }
        Err(fault) => call.fault(CallFault::Unrenderable(fault), env),
    }
}

type Way = (ExtensionId, u16, Option<Box<Place>>);

fn way(
    call: &Call,
    target: &GotoTarget,
    env: &Env<'_, '_>,
) -> Result<Option<Way>, dialplan::RenderFault> {
    let vars = vars(call, env);
    let step = target.step.rendered(&vars)?;
    let index_of = |index: usize| u16::try_from(index).ok();
    if target.context.is_none() && target.number.is_none() {
        let Some(extension) = call.cursor.extension else { return Ok(None) };
        let index = env.plan.step_at(extension, &step).and_then(index_of);
        return Ok(index.map(|index| (extension, index, None)));
    }
    let filled = |text: &Option<dialplan::Template>, or: &str| {
        text.as_ref().map_or_else(|| Ok(or.into()), |text| text.rendered(&vars))
    };
    let context = filled(&target.context, call.context())?;
    let exten = filled(&target.number, call.exten())?;
    let entered = env.plan.enter(&context, &exten, call.caller_number(), &step);
    let Ok((extension, index)) = entered else { return Ok(None) };
    let place = Some(Box::new(Place { context, exten }));
    Ok(index_of(index).map(|index| (extension, index, place)))
}

/// The variables of a call, to fill in a text.
pub(crate) fn vars<'c>(call: &'c Call, env: &'c Env<'_, '_>) -> CallVars<'c> {
    CallVars { call, plan: env.plan, system: env.system }
}
