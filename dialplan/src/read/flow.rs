//! Reads what decides where a call goes on: Goto, Gosub, ExecIf, While and their kin.

use crate::app::{App, GotoTarget, Step};
use crate::flow::{Clock, Execution, GosubCall, Inner, Test};
use crate::limits::NESTING_MAX;
use crate::read::apps::{GotoNote, Notes, app, call, left_open};
use crate::read::args::{Arg, Reading, split, top_level};
use crate::read::conditions::condition;
use crate::read::templates::template;
use crate::time::Times;

/// How a test is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Condition,
    Time,
}

/// Reads a condition, or times.
pub(crate) fn test(arg: Arg<'_>, kind: Kind) -> Reading<Test> {
    if kind == Kind::Condition {
        return condition(arg).map(Test::Condition);
    }
    clock(arg).map(Test::Time)
}

/// Reads times.
pub(crate) fn clock(arg: Arg<'_>) -> Reading<Clock> {
    let text = template(arg)?;
    if text.as_fixed().is_none() {
        return Ok(Clock::Computed(text));
    }
    Times::parse(arg.text).map(Clock::Fixed).map_err(|(range, why)| arg.wrong_at(range, why))
}

/// `test?one:other`, taken apart; the parts behind the `?` may be empty, but not both.
pub(crate) fn choice<'t>(
    name: Arg<'t>,
    arg: Option<Arg<'t>>,
    form: &str,
) -> Reading<(Arg<'t>, Arg<'t>, Arg<'t>)> {
    let Some(arg) = arg else { return Err(name.wrong(form)) };
    let Some(question) = top_level(arg.text, |byte| byte == b'?').next() else {
        let why = left_open(arg.text).unwrap_or(form);
        return Err(arg.wrong(format!("the `?` is missing: {why}")));
    };
    let rest = arg.from(question + 1);
    let (yes, no) = match top_level(rest.text, |byte| byte == b':').next() {
        Some(at) => (rest.to(at).trimmed(), rest.from(at + 1).trimmed()),
        None => (rest.trimmed(), rest.from(rest.text.len())),
    };
    if yes.text.is_empty() && no.text.is_empty() {
        return Err(arg.wrong(format!("nothing stands behind the `?`: {form}")));
    }
    Ok((arg.to(question).trimmed(), yes, no))
}

const EMPTY: &str = "a part of the place to go to is empty";

/// Reads `[[context,]number,]label`.
pub(crate) fn goto<'t>(
    name: Arg<'t>,
    args: &[Arg<'t>],
    notes: &mut Notes<'t>,
) -> Reading<GotoTarget> {
    if let Some(empty) = args.iter().find(|arg| arg.text.is_empty()) {
        let place = if empty.piece == name.piece { name } else { *empty };
        return Err(place.wrong(EMPTY));
    }
    let (context, number, step) = match args {
        [step] => (None, None, *step),
        [number, step] => (None, Some(*number), *step),
        [context, number, step] => (Some(*context), Some(*number), *step),
        [] => return Err(name.wrong("it needs a label, or [[context,]number,]label")),
        [_, _, _, more, ..] => return Err(more.wrong("a place is [[context,]number,]label")),
    };
    let read = GotoTarget {
        context: context.map(template).transpose()?,
        number: number.map(template).transpose()?,
        step: template(step)?,
    };
    if matches!(step.text, "n" | "s" | "hint") || step.text.contains('+') {
        return Err(step.wrong("a Goto leads to a label, or to a step by its number from 1"));
    }
    notes.gotos.push(GotoNote { target: read.clone(), context, number, step });
    Ok(read)
}

/// `GotoIf` and `GotoIfTime`.
pub(crate) fn goto_if<'t>(
    (name, kind): (Arg<'t>, Kind),
    arg: Option<Arg<'t>>,
    notes: &mut Notes<'t>,
) -> Reading<App> {
    let form = match kind {
        Kind::Condition => "GotoIf needs condition?label or condition?label:label",
        Kind::Time => "GotoIfTime needs times,days,mdays,months?label[:label]",
    };
    let (asked, yes, no) = choice(name, arg, form)?;
    let test = test(asked, kind)?;
    let mut place = |arg: Arg<'t>| {
        if arg.text.is_empty() {
            return Ok(None);
        }
        goto(arg, &split(arg, b',', usize::MAX), notes).map(Some)
    };
    Ok(App::GotoIf { test, yes: place(yes)?, no: place(no)? })
}

/// Reads `[[context,]number,]label[(arguments)]`.
pub(crate) fn gosub<'t>(
    name: Arg<'t>,
    args: &[Arg<'t>],
    notes: &mut Notes<'t>,
) -> Reading<GosubCall> {
    let Some((last, rest)) = args.split_last() else {
        return Err(name.wrong("Gosub needs [[context,]number,]label[(arguments)]"));
    };
    let mut place = rest.to_vec();
    let mut given = Vec::new();
    match last.text.find('(').filter(|at| !last.text[..*at].contains('$')) {
        Some(open) => {
            let Some(inside) = last.text[open + 1..].strip_suffix(')') else {
                return Err(last.wrong_at(open..open + 1, "`(` is not closed: `)` is missing"));
            };
            place.push(last.to(open).trimmed());
            let inside = last.part(open + 1..open + 1 + inside.len());
            if !inside.text.trim().is_empty() {
                given = split(inside, b',', usize::MAX);
            }
        }
        None => place.push(*last),
    }
    let target = goto(name, &place, notes)?;
    let args: Reading<Vec<_>> = given.into_iter().map(template).collect();
    Ok(GosubCall { target, args: args?.into() })
}

/// `GosubIf`.
pub(crate) fn gosub_if<'t>(
    name: Arg<'t>,
    arg: Option<Arg<'t>>,
    notes: &mut Notes<'t>,
) -> Reading<App> {
    let form = "GosubIf needs condition?label[(arguments)][:label[(arguments)]]";
    let (asked, yes, no) = choice(name, arg, form)?;
    let test = test(asked, Kind::Condition)?;
    let mut place = |arg: Arg<'t>| {
        if arg.text.is_empty() {
            return Ok(None);
        }
        gosub(arg, &split(arg, b',', usize::MAX), notes).map(|call| Some(Box::new(call)))
    };
    Ok(App::Gosub { test: Some(test), yes: place(yes)?, no: place(no)? })
}

/// `ExecIf` and `ExecIfTime`.
pub(crate) fn exec_if<'t>(
    (name, kind): (Arg<'t>, Kind),
    arg: Option<Arg<'t>>,
    notes: &mut Notes<'t>,
) -> Reading<App> {
    let form = match kind {
        Kind::Condition => "ExecIf needs condition?App(arguments)[:App(arguments)]",
        Kind::Time => "ExecIfTime needs times,days,mdays,months?App(arguments)[:App(arguments)]",
    };
    let (asked, yes, no) = choice(name, arg, form)?;
    let test = test(asked, kind)?;
    let mut inner = |arg: Arg<'t>| {
        if arg.text.is_empty() {
            return Ok(None);
        }
        let (name, args) = call(arg)?;
        let data = args.text().into();
        let app = app(name, &args, notes)?;
        if matches!(app, App::ExecIf(_)) {
            return Err(name.wrong("an ExecIf inside an ExecIf: use GotoIf"));
        }
        if matches!(app, App::While { .. } | App::Jump { name: "EndWhile", .. }) {
            return Err(name.wrong("a loop cannot begin or end inside an ExecIf"));
        }
        Ok(Some(Inner { app, data }))
    };
    let (yes, no) = (inner(yes)?, inner(no)?);
    Ok(App::ExecIf(Box::new(Execution { test, yes, no })))
}

/// Finds for each While its EndWhile, and for what jumps inside a loop the loop. An error names the
/// step and says what is wrong with it.
pub(crate) fn pair_loops(steps: &mut [Step]) -> Result<(), (usize, String)> {
    let mut open: Vec<usize> = Vec::new();
    // The loop of each step, as (While, EndWhile).
    let mut loops: Vec<Option<usize>> = vec![None; steps.len()];
    let mut ends: Vec<usize> = vec![0; steps.len()];
    for (at, step) in steps.iter().enumerate() {
        if matches!(step.app, App::While { .. }) {
            open.push(at);
            if open.len() > NESTING_MAX {
                return Err((at, format!("loops nest {NESTING_MAX} deep at most")));
            }
        }
        loops[at] = open.last().copied();
        if matches!(step.app, App::Jump { name: "EndWhile", .. }) {
            let Some(start) = open.pop() else {
                return Err((at, "EndWhile without a While before it".to_owned()));
            };
            ends[start] = at;
        }
    }
    if let Some(start) = open.last() {
        return Err((*start, "While without an EndWhile behind it".to_owned()));
    }
    for (at, step) in steps.iter_mut().enumerate() {
        let of = loops[at];
        set_jump(&mut step.app, of, &ends).map_err(|why| (at, why))?;
        if let App::ExecIf(execution) = &mut step.app {
            let Execution { yes, no, .. } = &mut **execution;
            for inner in yes.iter_mut().chain(no) {
                set_jump(&mut inner.app, of, &ends).map_err(|why| (at, why))?;
            }
        }
    }
    Ok(())
}

fn set_jump(app: &mut App, of: Option<usize>, ends: &[usize]) -> Result<(), String> {
    let index = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
    if let App::While { after, .. } = app {
        // The While itself is in its own loop.
        *after = of.and_then(|start| ends.get(start)).map_or(0, |end| index(end + 1));
    } else if let App::Jump { name, to } = app {
        let Some(start) = of else { return Err(format!("{name} outside of a loop")) };
        *to = if *name == "ExitWhile" { index(ends[start] + 1) } else { index(start) };
    }
    Ok(())
}
