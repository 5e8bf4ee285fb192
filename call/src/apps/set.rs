//! Set, MSet and SIPAddHeader, and the database's applications.

use std::time::Duration;

use dialplan::{Assignment, Heirs, SetTarget, Template};

use crate::call::{Call, CallerPart};
use crate::calls::Env;
use crate::extras::HEIRLOOMS_MAX;
use crate::facts::CallFault;
use crate::flow;
use crate::interpreter::vars;

/// Sets one thing after the other; each value is worked out when its turn comes.
pub(crate) fn set(call: &mut Call, assignments: &[Assignment], env: &mut Env<'_, '_>) {
    for assignment in assignments {
        if let Err(fault) = assign(call, assignment, env) {
            call.fault(fault, env);
        }
    }
}

/// Deletes an entry of the database, or a tree of them.
pub(crate) fn delete(
    call: &mut Call,
    family: &Template,
    key: Option<&Template>,
    env: &mut Env<'_, '_>,
) {
    let rendered = {
        let vars = vars(call, env);
        let key = key.map(|key| key.rendered(&vars)).transpose();
        key.and_then(|key| Ok((family.rendered(&vars)?, key)))
    };
    match rendered {
        Ok((family, Some(key))) => env.cx.world.delete_database(&family, &key, false),
        Ok((tree, None)) => {
            let (family, prefix) = tree.split_once('/').unwrap_or((&tree, ""));
            env.cx.world.delete_database(family, prefix, true);
        }
        Err(fault) => call.fault(CallFault::Unrenderable(fault), env),
    }
}

fn assign(
    call: &mut Call,
    assignment: &Assignment,
    env: &mut Env<'_, '_>,
) -> Result<(), CallFault> {
    let fill = |call: &Call, text: &Template, env: &Env<'_, '_>| {
        text.rendered(&vars(call, env)).map_err(CallFault::Unrenderable)
    };
    let value = fill(call, &assignment.value, env)?;
    let room = |is_room: bool| if is_room { Ok(()) } else { Err(CallFault::NoRoom) };
    match &assignment.target {
        SetTarget::Variable { name, heirs } => {
            let name = fill(call, name, env)?;
            mark(call, &name, *heirs)?;
            flow::store(call, &name, &value, env);
        }
        SetTarget::Local(name) => {
            let name = fill(call, name, env)?;
            flow::set_local(call, &name, &value, env);
        }
        SetTarget::Array(names) => {
            let mut values = value.split(',');
            for name in names {
                let name = fill(call, name, env)?;
                flow::store(call, &name, values.next().unwrap_or_default(), env);
            }
        }
        SetTarget::Global(name) => {
            let name = fill(call, name, env)?;
            room(env.cx.world.set_global(&name, &value))?;
        }
        SetTarget::Database(family, key) => {
            let (family, key) = (fill(call, family, env)?, fill(call, key, env)?);
            room(env.cx.world.set_database(&family, &key, &value))?;
        }
        SetTarget::CallerNumber => caller(call, CallerPart::Number, &value),
        SetTarget::CallerName => caller(call, CallerPart::Name, &value),
        SetTarget::CallerAll => {
            let (name, number) = split_caller(&value);
            caller(call, CallerPart::Name, name);
            caller(call, CallerPart::Number, number);
        }
        SetTarget::AbsoluteTimeout => {
            let text = if value.trim().is_empty() { "0" } else { value.trim() };
            let seconds: f64 = text.parse().map_err(|_| CallFault::NotSeconds)?;
            let span = Duration::try_from_secs_f64(seconds).map_err(|_| CallFault::NotSeconds)?;
            call.limit((!span.is_zero()).then_some(span), true, env);
        }
        SetTarget::Mark(name) => flow::store(call, name, &value, env),
        SetTarget::Header(change, name) => {
            let name = fill(call, name, env)?;
            let is_changed = call.extras_mut().change_header(*change, &name, &value);
            if !is_changed {
                return Err(CallFault::HeaderRefused);
            }
        }
    }
    Ok(())
}

/// Notes who inherits a variable.
fn mark(call: &mut Call, name: &str, heirs: Heirs) -> Result<(), CallFault> {
    if heirs == Heirs::Nobody {
        return Ok(());
    }
    let heirlooms = &mut call.extras_mut().heirlooms;
    heirlooms.retain(|(known, _)| **known != *name);
    if heirlooms.len() == HEIRLOOMS_MAX {
        return Err(CallFault::NoRoom);
    }
    heirlooms.push((name.into(), heirs));
    Ok(())
}

fn caller(call: &mut Call, part: CallerPart, value: &str) {
    call.caller_set.get_or_insert_default().set(part, value);
}

/// `"Ann" <301>`, `Ann <301>`, or a number alone.
fn split_caller(text: &str) -> (&str, &str) {
    let text = text.trim();
    match text.strip_suffix('>').and_then(|rest| rest.rsplit_once('<')) {
        Some((name, number)) => (name.trim().trim_matches('"'), number.trim()),
        None => ("", text),
    }
}
