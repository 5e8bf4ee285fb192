//! Reads one step: the application's name and its arguments.

use crate::app::{App, Dial, GotoTarget, HangupCause, Mode, Seconds, cause, seconds};
use crate::limits::{NESTING_MAX, SECONDS_MAX, TARGETS_MAX};
use crate::read::args::{Arg, Reading, outside_holes, split, top_level};
use crate::read::conditions::condition;
use crate::read::known::{self, shown};
use crate::read::targets::target;
use crate::read::templates::{template, variable_name};

/// The arguments of a step.
#[derive(Clone, Debug)]
pub(crate) enum Args<'t> {
    /// All in one text, with commas between.
    Joined(Arg<'t>),
    /// Each in its own text.
    Apart(Vec<Arg<'t>>),
}

/// What must be checked once the whole plan is known.
#[derive(Debug, Default)]
pub(crate) struct Notes<'t> {
    pub(crate) gotos: Vec<GotoNote<'t>>,
    pub(crate) trunks: Vec<Arg<'t>>,
}

/// A place to go to, with the places of its parts.
#[derive(Debug)]
pub(crate) struct GotoNote<'t> {
    pub(crate) target: GotoTarget,
    pub(crate) context: Option<Arg<'t>>,
    pub(crate) number: Option<Arg<'t>>,
    pub(crate) step: Arg<'t>,
}

/// The arguments of a Dial that is written as a table.
#[derive(Debug, Default)]
pub(crate) struct DialTable<'t> {
    pub(crate) targets: Vec<Arg<'t>>,
    pub(crate) sequential: bool,
    pub(crate) ring_timeout: Option<Seconds>,
    pub(crate) options: Option<Arg<'t>>,
}

/// Takes `Name(arguments)` or `Name` apart.
pub(crate) fn call(arg: Arg<'_>) -> Reading<(Arg<'_>, Args<'_>)> {
    let arg = arg.trimmed();
    let Some(open) = arg.text.find('(') else {
        return Ok((arg, Args::Joined(arg.from(arg.text.len()))));
    };
    let name = arg.to(open).trimmed();
    let mut closing = top_level(&arg.text[open + 1..], |byte| byte == b')');
    match closing.next().map(|at| open + 1 + at) {
        Some(close) if close + 1 == arg.text.len() => {
            Ok((name, Args::Joined(arg.part(open + 1..close))))
        }
        Some(close) => Err(arg.from(close + 1).wrong("nothing may follow the closing `)`")),
        None => Err(arg.wrong_at(open..open + 1, unclosed(&arg.text[open + 1..]))),
    }
}

/// Says what keeps `(` open.
fn unclosed(inside: &str) -> String {
    let what = left_open(inside).unwrap_or("`)` is missing");
    format!("`(` is not closed: {what}")
}

/// What hides the rest of a text from being split.
fn left_open(text: &str) -> Option<&'static str> {
    if text.bytes().filter(|byte| *byte == b'"').count() % 2 == 1 {
        Some("a quote inside is not closed")
    } else if text.matches("${").count() > text.matches('}').count() {
        Some("a `${` inside is not closed")
    } else if text.matches("$[").count() > text.matches(']').count() {
        Some("a `$[` inside is not closed")
    } else {
        None
    }
}

/// Reads an application with its arguments.
pub(crate) fn app<'t>(name: Arg<'t>, args: &Args<'t>, notes: &mut Notes<'t>) -> Reading<App> {
    if name.text.is_empty() {
        return Err(name.wrong("the application's name is missing"));
    }
    let known = known::application(name.text).map_err(|said| name.wrong(said))?;
    let taken = |most| args_of(known, name, args, most);
    match known {
        "Answer" => answer(&taken(2)?),
        "Ringing" => taken(0).map(|_| App::Ringing),
        "Progress" => taken(0).map(|_| App::Progress),
        "Hangup" => hangup(&taken(1)?),
        "Busy" => Ok(App::Busy { timeout: optional_seconds(&taken(1)?)? }),
        "Congestion" => Ok(App::Congestion { timeout: optional_seconds(&taken(1)?)? }),
        "Wait" => match optional_seconds(&taken(1)?)? {
            Some(length) => Ok(App::Wait(length)),
            None => Err(name.wrong("Wait needs the seconds, such as Wait(2)")),
        },
        "NoOp" => match rest_of(known, name, args, 1)?.first() {
            Some(text) => template(*text).map(App::NoOp),
            None => Ok(App::NoOp(crate::template::Template::fixed(""))),
        },
        "Set" => set(name, rest_of(known, name, args, 1)?.first().copied()),
        "Verbose" => verbose(name, &rest_of(known, name, args, 2)?),
        "Goto" => goto(name, &taken(3)?, notes).map(App::Goto),
        "GotoIf" => goto_if(name, rest_of(known, name, args, 1)?.first().copied(), notes),
        "Dial" => dial(name, &taken(4)?, notes),
        _ => Err(name.wrong(format!("the application {known} is not built yet"))),
    }
}

/// The arguments, at most `most`.
fn args_of<'t>(app: &str, name: Arg<'t>, args: &Args<'t>, most: usize) -> Reading<Vec<Arg<'t>>> {
    let list = match args {
        Args::Joined(arg) if arg.text.trim().is_empty() => Vec::new(),
        Args::Joined(arg) => split(*arg, b',', usize::MAX),
        Args::Apart(list) => list.clone(),
    };
    if let Some(extra) = list.get(most) {
        let place = if extra.text.is_empty() { name } else { *extra };
        return Err(place.wrong(match most {
            0 => format!("{app} takes no arguments"),
            1 => format!("{app} takes one argument, not {}", list.len()),
            _ => format!("{app} takes at most {most} arguments, not {}", list.len()),
        }));
    }
    Ok(list)
}

/// The arguments, where the last of `most` is the whole rest, commas included.
fn rest_of<'t>(app: &str, name: Arg<'t>, args: &Args<'t>, most: usize) -> Reading<Vec<Arg<'t>>> {
    match args {
        Args::Joined(arg) if !arg.text.trim().is_empty() => Ok(split(*arg, b',', most)),
        Args::Joined(_) | Args::Apart(_) => args_of(app, name, args, most),
    }
}

fn answer(args: &[Arg<'_>]) -> Reading<App> {
    match args.iter().find(|arg| !arg.text.is_empty()) {
        Some(delay) => Err(delay.wrong("a delay of Answer is not built yet; write a Wait")),
        None => Ok(App::Answer),
    }
}

fn hangup(args: &[Arg<'_>]) -> Reading<App> {
    let Some(arg) = args.first().filter(|arg| !arg.text.is_empty()) else {
        return Ok(App::Hangup { cause: None });
    };
    let text = template(*arg)?;
    let Some(fixed) = text.as_fixed() else {
        return Ok(App::Hangup { cause: Some(HangupCause::Computed(text)) });
    };
    match cause(fixed) {
        Some(cause) => Ok(App::Hangup { cause: Some(HangupCause::Fixed(cause)) }),
        None => {
            let names = crate::app::CAUSES.iter().map(|(name, _)| *name);
            let guess = known::suggestion(fixed, names);
            let shown = shown(fixed);
            Err(arg.wrong(format!(
                "'{shown}' is no hang-up cause: a number from 1 to 127 or a name such as \
                 USER_BUSY{guess}"
            )))
        }
    }
}

fn optional_seconds(args: &[Arg<'_>]) -> Reading<Option<Seconds>> {
    args.first().filter(|arg| !arg.text.is_empty()).map(|arg| length(*arg)).transpose()
}

/// Reads a number of seconds or a text with variables.
pub(crate) fn length(arg: Arg<'_>) -> Reading<Seconds> {
    let text = template(arg)?;
    let Some(fixed) = text.as_fixed() else { return Ok(Seconds::Computed(text)) };
    seconds(fixed).map(Seconds::Fixed).ok_or_else(|| {
        arg.wrong(format!("'{}' is no number of seconds from 0 to {SECONDS_MAX}", shown(fixed)))
    })
}

fn set(name: Arg<'_>, arg: Option<Arg<'_>>) -> Reading<App> {
    let Some(arg) = arg else { return Err(name.wrong("Set needs NAME=value")) };
    let Some((equals, _)) = outside_holes(arg.text).find(|(_, byte)| *byte == b'=') else {
        return Err(arg.wrong("Set needs NAME=value; the `=` is missing"));
    };
    let variable = arg.to(equals).trimmed();
    if variable.text.starts_with('_') {
        return Err(variable.wrong("variables that new legs inherit (`_NAME`) are not built yet"));
    }
    let name = variable_name(variable, NESTING_MAX)?;
    Ok(App::Set { name, value: template(arg.from(equals + 1))? })
}

fn verbose(name: Arg<'_>, args: &[Arg<'_>]) -> Reading<App> {
    let (level, text) = match args {
        [text] => (0, *text),
        [level, text] => match level.text.parse::<u8>() {
            Ok(number) if number <= 10 => (number, *text),
            _ => return Err(level.wrong("the verbosity is a number from 0 to 10")),
        },
        _ => return Err(name.wrong("Verbose needs a text, such as Verbose(1,hello)")),
    };
    let quoted = text.text.len() >= 2 && text.text.starts_with('"') && text.text.ends_with('"');
    let text = if quoted { text.part(1..text.text.len() - 1) } else { text };
    Ok(App::Verbose { level, text: template(text)? })
}

fn goto<'t>(name: Arg<'t>, args: &[Arg<'t>], notes: &mut Notes<'t>) -> Reading<GotoTarget> {
    if let Some(empty) = args.iter().find(|arg| arg.text.is_empty()) {
        let place = if empty.piece == name.piece { name } else { *empty };
        return Err(place.wrong(EMPTY));
    }
    let (context, number, step) = match args {
        [step] => (None, None, *step),
        [number, step] => (None, Some(*number), *step),
        [context, number, step] => (Some(*context), Some(*number), *step),
        _ => return Err(name.wrong("Goto needs a label, or [[context,]number,]label")),
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

const EMPTY: &str = "a part of the place to go to is empty";

fn goto_if<'t>(name: Arg<'t>, arg: Option<Arg<'t>>, notes: &mut Notes<'t>) -> Reading<App> {
    const FORM: &str = "GotoIf needs condition?label or condition?label:label";
    let Some(arg) = arg else { return Err(name.wrong(FORM)) };
    let Some(question) = top_level(arg.text, |byte| byte == b'?').next() else {
        let why = left_open(arg.text).unwrap_or(FORM);
        return Err(arg.wrong(format!("the `?` is missing: {why}")));
    };
    let condition = condition(arg.to(question).trimmed())?;
    let places = arg.from(question + 1);
    let colon = top_level(places.text, |byte| byte == b':').next();
    let (yes, no) = match colon {
        Some(at) => (places.to(at).trimmed(), places.from(at + 1).trimmed()),
        None => (places.trimmed(), places.from(places.text.len())),
    };
    if yes.text.is_empty() && no.text.is_empty() {
        return Err(arg.wrong(format!("there is no place to go to: {FORM}")));
    }
    let mut place = |arg: Arg<'t>| {
        if arg.text.is_empty() {
            return Ok(None);
        }
        goto(arg, &split(arg, b',', usize::MAX), notes).map(Some)
    };
    Ok(App::GotoIf { condition, yes: place(yes)?, no: place(no)? })
}

fn dial<'t>(name: Arg<'t>, args: &[Arg<'t>], notes: &mut Notes<'t>) -> Reading<App> {
    let Some(targets) = args.first().filter(|arg| !arg.text.is_empty()) else {
        return Err(name.wrong(NO_TARGET));
    };
    if let Some(url) = args.get(3).filter(|arg| !arg.text.is_empty()) {
        return Err(url.wrong("the URL of Dial is not built yet"));
    }
    let mut table = DialTable { options: args.get(2).copied(), ..DialTable::default() };
    let mut start = 0;
    for (at, _) in outside_holes(targets.text).filter(|(_, byte)| *byte == b'&') {
        table.targets.push(targets.part(start..at).trimmed());
        start = at + 1;
    }
    table.targets.push(targets.from(start).trimmed());
    if let Some(timeout) = args.get(1).filter(|arg| !arg.text.is_empty()) {
        table.ring_timeout = Some(length(*timeout)?);
    }
    dial_table(name, table, notes)
}

const NO_TARGET: &str = "Dial needs a target, such as Dial(SIP/trunk/${EXTEN},30)";

/// Reads a Dial whose arguments are apart already.
pub(crate) fn dial_table<'t>(
    name: Arg<'t>,
    table: DialTable<'t>,
    notes: &mut Notes<'t>,
) -> Reading<App> {
    if table.targets.is_empty() {
        return Err(name.wrong(NO_TARGET));
    }
    if let Some(extra) = table.targets.get(TARGETS_MAX) {
        return Err(extra.wrong(format!("a Dial has at most {TARGETS_MAX} targets")));
    }
    let mut dial = Dial {
        targets: Vec::with_capacity(table.targets.len()),
        mode: if table.sequential { Mode::Sequential } else { Mode::Parallel },
        ring_timeout: table.ring_timeout,
        ringing: false,
        go_on: false,
    };
    for text in table.targets {
        dial.targets.push(target(text, &mut notes.trunks)?);
    }
    if let Some(options) = table.options {
        dial_options(options, &mut dial)?;
    }
    Ok(App::Dial(Box::new(dial)))
}

/// Options of Dial in Asterisk.
const DIAL_OPTIONS: &str = "AabBcCdDeEfFGhHiIjJkKLmMnNoOpPQRsStTuUvwWxXz";

fn dial_options(arg: Arg<'_>, dial: &mut Dial) -> Reading<()> {
    for (at, option) in arg.text.char_indices() {
        let place = at..at + option.len_utf8();
        match option {
            'r' if arg.text[at + 1..].starts_with('(') => {
                return Err(arg.wrong_at(place, "a tone for Dial's option `r` is not built yet"));
            }
            'r' => dial.ringing = true,
            'g' => dial.go_on = true,
            _ if DIAL_OPTIONS.contains(option) => {
                let message = format!("Dial's option `{option}` is not built yet");
                return Err(arg.wrong_at(place, message));
            }
            _ => {
                let message = format!("Dial has no option `{}`", option.escape_default());
                return Err(arg.wrong_at(place, message));
            }
        }
    }
    Ok(())
}
