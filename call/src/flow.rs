//! Where a plan goes on: Goto, Gosub and Return, loops, and the extensions that run on events (`i`
//! for an invalid number, `t` when a caller is silent, `T` when the time is over, `h` at the end).

use dialplan::{App, ExtensionId, GosubCall, GotoTarget, Seeker, Template, Test};

use crate::call::Call;
use crate::calls::Env;
use crate::cause::Cause;
use crate::extras::{Frame, GOSUB_DEPTH_MAX};
use crate::facts::CallFault;
use crate::interpreter::{self, Place, vars};
use crate::record::EndedBy;

/// Steps that the extension `h` may run: the longest extension, once.
const LAST_STEPS_MAX: usize = dialplan::limits::STEPS_MAX;

/// Who looks for an extension: this caller, now.
pub(crate) fn seeker<'c>(call: &'c Call, env: &Env<'_, '_>) -> Seeker<'c> {
    let at = env.plan.has_times().then(|| interpreter::moment(env.cx.now, None));
    Seeker { caller: call.caller_number(), at }
}

/// Goes there; a place that does not exist is the extension `i`'s, else the end of the call.
pub(crate) fn go_to(call: &mut Call, target: &GotoTarget, env: &mut Env<'_, '_>) {
    match way(call, target, env) {
        Ok(Ok(way)) => enter(call, way),
        Ok(Err(exten)) => {
            call.fault(CallFault::GotoNowhere, env);
            let invalid = exten.unwrap_or_else(|| call.exten().into());
            if call.vars.set("INVALID_EXTEN", &invalid).is_err() || !run_special(call, "i", env) {
                call.end(Cause::UNALLOCATED, EndedBy::Plan, env);
            }
        }
        Err(fault) => call.fault(CallFault::Unrenderable(fault), env),
    }
}

/// Which of two places a test means, if any.
pub(crate) fn go_to_if(
    call: &mut Call,
    test: &Test,
    (yes, no): (Option<&GotoTarget>, Option<&GotoTarget>),
    env: &mut Env<'_, '_>,
) {
    if let Some(target) = holds(call, test, env).and_then(|holds| if holds { yes } else { no }) {
        go_to(call, target, env);
    }
}

/// Whether a test holds; `None` when it cannot be told, which is said.
pub(crate) fn holds(call: &Call, test: &Test, env: &mut Env<'_, '_>) -> Option<bool> {
    let told = test.holds(&vars(call, env));
    told.map_err(|fault| call.fault(CallFault::Unrenderable(fault), env)).ok()
}

/// Runs the extension of that name in the call's context, from its first step; false when there is
/// none, or when the call is in it already: an event of an event would never end.
pub(crate) fn run_special(call: &mut Call, name: &str, env: &mut Env<'_, '_>) -> bool {
    let found = env.plan.find_named(call.context(), name, seeker(call, env));
    let Some(extension) = found.filter(|_| call.exten() != name) else { return false };
    let place = Place { context: call.context().into(), exten: name.into() };
    enter(call, (extension, 0, Some(Box::new(place))));
    true
}

/// Runs the extension `h`, if the call's context has one: what needs no caller any more.
pub(crate) fn run_last(call: &mut Call, cause: &Cause, env: &mut Env<'_, '_>) {
    if call.cursor.extension.is_none() || !run_special(call, "h", env) {
        return;
    }
    call.cause.get_or_insert_with(|| cause.clone());
    for _ in 0..LAST_STEPS_MAX {
        let found =
            call.cursor.extension.and_then(|id| env.plan.steps(id).get(call.cursor.index()));
        let Some(step) = found.filter(|step| needs_no_leg(&step.app)) else { return };
        interpreter::advance(call, step, env);
    }
}

fn needs_no_leg(app: &App) -> bool {
    match app {
        App::NoOp(_)
        | App::Set(_)
        | App::DatabaseDelete { .. }
        | App::Goto(_)
        | App::GotoIf { .. }
        | App::Gosub { .. }
        | App::Return(_)
        | App::StackPop
        | App::While { .. }
        | App::Jump { .. }
        | App::Log { .. }
        | App::Verbose { .. } => true,
        App::ExecIf(execution) => {
            let branches = [execution.branch(true), execution.branch(false)];
            branches.into_iter().flatten().all(|inner| needs_no_leg(&inner.app))
        }
        App::Answer
        | App::Hangup { .. }
        | App::Dial(_)
        | App::Ringing
        | App::Progress
        | App::Busy { .. }
        | App::Congestion { .. }
        | App::Wait(_) => false,
    }
}

/// Goes there and remembers where it came from.
pub(crate) fn gosub(call: &mut Call, gosub: &GosubCall, env: &mut Env<'_, '_>) {
    let args: Result<Vec<Box<str>>, _> = {
        let vars = vars(call, env);
        gosub.args.iter().map(|arg| arg.rendered(&vars)).collect()
    };
    let (args, way) = match args.and_then(|args| Ok((args, way(call, &gosub.target, env)?))) {
        Ok(found) => found,
        Err(fault) => return call.fault(CallFault::Unrenderable(fault), env),
    };
    let Ok(way) = way else {
        call.fault(CallFault::GotoNowhere, env);
        return call.end(Cause::UNALLOCATED, EndedBy::Plan, env);
    };
    if call.extras_mut().frames.len() == GOSUB_DEPTH_MAX {
        env.counts.endless_plans += 1;
        call.fault(CallFault::GosubTooDeep, env);
        return call.end(Cause::ROUTING_LOOP, EndedBy::Plan, env);
    }
    let frame = Frame {
        extension: call.cursor.extension,
        next: call.cursor.next,
        place: call.cursor.place.as_ref().map(|place| {
            Box::new(Place { context: place.context.clone(), exten: place.exten.clone() })
        }),
        hidden: Vec::new(),
    };
    call.extras_mut().frames.push(frame);
    let count = args.len().to_string();
    set_local(call, "ARGC", &count, env);
    for (at, arg) in args.iter().enumerate() {
        set_local(call, &format!("ARG{}", at + 1), arg, env);
    }
    enter(call, way);
}

/// Goes back behind the last Gosub.
pub(crate) fn go_back(call: &mut Call, value: &Template, env: &mut Env<'_, '_>) {
    let rendered = value.rendered(&vars(call, env));
    let value = match rendered {
        Ok(value) => value,
        Err(fault) => return call.fault(CallFault::Unrenderable(fault), env),
    };
    let Some(frame) = pop(call) else {
        call.fault(CallFault::NothingToReturnTo, env);
        return call.end(Cause::NORMAL_CLEARING, EndedBy::Plan, env);
    };
    call.cursor.extension = frame.extension;
    call.cursor.next = frame.next;
    call.cursor.place = frame.place;
    store(call, "GOSUB_RETVAL", &value, env);
}

/// Forgets the last Gosub; its variables are what they were.
pub(crate) fn pop(call: &mut Call) -> Option<Frame> {
    let mut frame = call.extras.as_mut()?.frames.pop()?;
    for (name, before) in frame.hidden.drain(..).rev() {
        // What was there before finds room again.
        let _ = call.vars.set(&name, before.as_deref().unwrap_or_default());
    }
    Some(frame)
}

/// Sets a variable until the Return of this Gosub; without one, for good.
pub(crate) fn set_local(call: &mut Call, name: &str, value: &str, env: &mut Env<'_, '_>) {
    let before = call.vars.value(name).map(Into::into);
    let frame = call.extras.as_mut().and_then(|extras| extras.frames.last_mut());
    if let Some(frame) = frame.filter(|it| !it.hidden.iter().any(|(known, _)| **known == *name)) {
        frame.hidden.push((name.into(), before));
    }
    store(call, name, value, env);
}

/// Sets a variable, or says that there is no room for it.
pub(crate) fn store(call: &mut Call, name: &str, value: &str, env: &mut Env<'_, '_>) {
    if call.vars.set(name, value).is_err() {
        env.counts.variables_full += 1;
        call.fault(CallFault::VariablesFull, env);
    }
}

type Way = (ExtensionId, u16, Option<Box<Place>>);

fn enter(call: &mut Call, (extension, index, place): Way) {
    call.cursor.extension = Some(extension);
    call.cursor.next = index;
    if place.is_some() {
        call.cursor.place = place;
    }
}

/// The way there; the inner error is the number that leads nowhere, if it is another one.
fn way(
    call: &Call,
    target: &GotoTarget,
    env: &Env<'_, '_>,
) -> Result<Result<Way, Option<Box<str>>>, dialplan::RenderFault> {
    let vars = vars(call, env);
    let step = target.step.rendered(&vars)?;
    let index_of = |index: usize| u16::try_from(index).ok();
    if target.context.is_none() && target.number.is_none() {
        let Some(extension) = call.cursor.extension else { return Ok(Err(None)) };
        let index = env.plan.step_at(extension, &step).and_then(index_of);
        return Ok(index.map(|index| (extension, index, None)).ok_or(None));
    }
    let filled = |text: &Option<Template>, or: &str| {
        text.as_ref().map_or_else(|| Ok(or.into()), |text| text.rendered(&vars))
    };
    let context = filled(&target.context, call.context())?;
    let exten = filled(&target.number, call.exten())?;
    let entered = env.plan.enter(&context, &exten, seeker(call, env), &step);
    let found = entered.ok().and_then(|(id, index)| Some((id, index_of(index)?)));
    let Some((extension, index)) = found else { return Ok(Err(Some(exten))) };
    Ok(Ok((extension, index, Some(Box::new(Place { context, exten })))))
}
