//! The interpreter: where a call stands in its plan, and how it gets on.
//!
//! A call is not a task. It holds the number of its next step; [`run`] executes steps until one
//! waits for something, the plan is over, or the steps of this turn are used up (then the call goes
//! to the run queue).

use dialplan::{App, ExtensionId, Moment, Plan, Step};
use turn::Now;

use crate::apps::{dial, set, simple, wait};
use crate::call::{Call, Doing, INBOUND};
use crate::call_vars::CallVars;
use crate::calls::Env;
use crate::cause::Cause;
use crate::facts::{CallFact, CallFault, STEP_VERBOSITY};
use crate::flow;
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
    /// The index of the next step.
    pub(crate) fn index(&self) -> usize {
        usize::from(self.next)
    }

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

/// No more digits will come: what there is counts, else the extension `t`.
pub(crate) fn on_digits_timeout(call: &mut Call, env: &mut Env<'_, '_>) {
    let who = flow::seeker(call, env);
    let is_whole = env.plan.find_complete(call.context(), call.text.digits(), who).is_some();
    if !is_whole && flow::run_special(call, "t", env) {
        call.disarm();
        call.doing = Doing::Ready;
        return;
    }
    look_up(call, false, env);
}

fn look_up(call: &mut Call, may_grow: bool, env: &mut Env<'_, '_>) {
    let plan = env.plan;
    let (context, digits, who) = (call.context(), call.text.digits(), flow::seeker(call, env));
    let found = plan.find_complete(context, digits, who);
    let could_grow = (may_grow || found.is_none()) && plan.may_grow(context, digits, who);
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
    let steps = call.cursor.extension.map(|id| plan.steps(id));
    let Some(step) = steps.and_then(|steps| steps.get(call.cursor.index())) else {
        simple::fall_through(call, env);
        return;
    };
    call.cursor.steps_without_pause += 1;
    if call.cursor.steps_without_pause > STEPS_WITHOUT_PAUSE_MAX {
        env.counts.endless_plans += 1;
        call.fault(CallFault::EndlessPlan, env);
        call.end(Cause::ROUTING_LOOP, EndedBy::Plan, env);
        return;
    }
    advance(call, step, env);
}

/// Executes the step at which the call stands.
pub(crate) fn advance(call: &mut Call, step: &Step, env: &mut Env<'_, '_>) {
    call.cursor.next += 1;
    if env.cx.verbose_wanted >= STEP_VERBOSITY {
        tell_step(call, (&step.app, &step.data), env);
    }
    if let App::ExecIf(execution) = &step.app {
        let Some(holds) = flow::holds(call, &execution.test, env) else { return };
        let Some(inner) = execution.branch(holds) else { return };
        if env.cx.verbose_wanted >= STEP_VERBOSITY {
            tell_step(call, (&inner.app, &inner.data), env);
        }
        execute(call, &inner.app, Some(holds), env);
    } else {
        execute(call, &step.app, None, env);
    }
}

/// `branch`: of the step's ExecIf.
fn execute(call: &mut Call, app: &App, branch: Option<bool>, env: &mut Env<'_, '_>) {
    match app {
        App::Answer => simple::answer(call, env),
        App::Hangup { cause } => simple::hang_up(call, cause.as_ref(), env),
        App::Dial(dial) => dial::dial(call, dial, branch, env),
        App::Ringing => simple::ringing(call, env),
        App::Progress => simple::progress(call, env),
        App::Busy { timeout } => wait::tone(call, Cause::USER_BUSY, timeout.as_ref(), env),
        App::Congestion { timeout } => wait::tone(call, Cause::CONGESTION, timeout.as_ref(), env),
        App::Wait(length) => wait::wait(call, length, env),
        App::NoOp(_) | App::ExecIf(_) => {}
        App::Set(assignments) => set::set(call, assignments, env),
        App::DatabaseDelete { family, key } => set::delete(call, family, key.as_ref(), env),
        App::Goto(target) => flow::go_to(call, target, env),
        App::GotoIf { test, yes, no } => {
            flow::go_to_if(call, test, (yes.as_ref(), no.as_ref()), env);
        }
        App::Gosub { test, yes, no } => {
            let holds = test.as_ref().map_or(Some(true), |test| flow::holds(call, test, env));
            let chosen = holds.and_then(|holds| if holds { yes.as_ref() } else { no.as_ref() });
            if let Some(gosub) = chosen {
                flow::gosub(call, gosub, env);
            }
        }
        App::Return(value) => flow::go_back(call, value, env),
        App::StackPop => _ = flow::pop(call),
        App::While { test, after } => {
            // What cannot be told ends the loop, or it might never end.
            if !flow::holds(call, test, env).unwrap_or(false) {
                call.cursor.next = *after;
            }
        }
        App::Jump { to, .. } => call.cursor.next = *to,
        App::Log { level, text } => simple::log(call, *level, text, env),
        App::Verbose { level, text } => simple::verbose(call, *level, text, env),
    }
}

fn tell_step(call: &Call, (app, data): (&App, &str), env: &mut Env<'_, '_>) {
    let rendered =
        if let App::NoOp(text) = app { text.rendered(&vars(call, env)).ok() } else { None };
    env.cx.out.facts.push(CallFact::Step {
        channel: call.channel(),
        context: call.context().into(),
        exten: call.exten().into(),
        priority: call.cursor.priority(),
        app: app.name(),
        data: rendered.unwrap_or_else(|| data.into()),
    });
}

/// The local time so many seconds after 1970 began, or now. The offset from UTC is today's.
pub(crate) fn moment(now: Now, epoch: Option<i64>) -> Moment {
    let epoch = epoch.unwrap_or_else(|| now.wall.as_micros().div_euclid(1_000_000));
    Moment::from_epoch(epoch, now.utc_offset_s)
}

/// The variables of a call, to fill in a text.
pub(crate) fn vars<'c>(call: &'c Call, env: &'c Env<'_, '_>) -> CallVars<'c> {
    CallVars { call, plan: env.plan, system: env.system, now: env.cx.now, world: env.cx.world }
}
