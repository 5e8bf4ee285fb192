//! Reads one step: the application's name and its arguments.

use crate::app::{App, Dial, GotoTarget, HangupCause, LogLevel, Mode, Seconds, cause, seconds};
use crate::limits::{SECONDS_MAX, TARGETS_MAX};
use crate::read::args::{Arg, Reading, outside_holes, split, top_level};
use crate::read::flow::{Kind, exec_if, gosub, gosub_if, goto, goto_if, test};
use crate::read::functions::database_key;
use crate::read::known::{self, shown};
use crate::read::sets;
use crate::read::targets::target;
use crate::read::templates::template;

/// The arguments of a step.
#[derive(Clone, Debug)]
pub(crate) enum Args<'t> {
    /// All in one text, with commas between.
    Joined(Arg<'t>),
    /// Each in its own text.
    Apart(Vec<Arg<'t>>),
}

impl<'t> Args<'t> {
    /// The arguments as written, when they are one text.
    pub(crate) fn text(&self) -> &'t str {
        match self {
            Self::Joined(arg) => arg.text.trim(),
            Self::Apart(_) => "",
        }
    }
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
pub(crate) fn left_open(text: &str) -> Option<&'static str> {
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
        "Verbose" => verbose(name, &rest_of(known, name, args, 2)?),
        "Log" => log(name, &rest_of(known, name, args, 2)?),
        "Dial" => dial(name, &taken(4)?, notes),
        "Goto" => goto(name, &taken(3)?, notes).map(App::Goto),
        "Gosub" => {
            let call = gosub(name, &taken(3)?, notes)?;
            Ok(App::Gosub { test: None, yes: Some(Box::new(call)), no: None })
        }
        "Return" => match rest_of(known, name, args, 1)?.first() {
            Some(text) => template(*text).map(App::Return),
            None => Ok(App::Return(crate::template::Template::fixed(""))),
        },
        "StackPop" => taken(0).map(|_| App::StackPop),
        "EndWhile" => taken(0).map(|_| App::Jump { name: "EndWhile", to: 0 }),
        "ExitWhile" => taken(0).map(|_| App::Jump { name: "ExitWhile", to: 0 }),
        "ContinueWhile" => taken(0).map(|_| App::Jump { name: "ContinueWhile", to: 0 }),
        "MSet" => sets::mset(name, &taken(usize::MAX)?),
        _ => whole(known, name, rest_of(known, name, args, 1)?.first().copied(), notes),
    }
}

/// The applications whose argument is one text, commas included.
fn whole<'t>(
    known: &str,
    name: Arg<'t>,
    arg: Option<Arg<'t>>,
    notes: &mut Notes<'t>,
) -> Reading<App> {
    match known {
        "Set" => sets::set(name, arg),
        "SIPAddHeader" => sets::add_header(name, arg),
        "SIPRemoveHeader" => sets::remove_header(arg),
        "GotoIf" => goto_if((name, Kind::Condition), arg, notes),
        "GotoIfTime" => goto_if((name, Kind::Time), arg, notes),
        "GosubIf" => gosub_if(name, arg, notes),
        "ExecIf" => exec_if((name, Kind::Condition), arg, notes),
        "ExecIfTime" => exec_if((name, Kind::Time), arg, notes),
        "While" => {
            let Some(arg) = arg else { return Err(name.wrong("While needs a condition")) };
            Ok(App::While { test: test(arg, Kind::Condition)?, after: 0 })
        }
        "DBdel" => {
            let Some(arg) = arg else { return Err(name.wrong("DBdel needs family/key")) };
            let [family, key] = database_key(name, arg)?;
            Ok(App::DatabaseDelete { family: template(family)?, key: Some(template(key)?) })
        }
        "DBdeltree" => {
            let Some(arg) = arg else { return Err(name.wrong("DBdeltree needs family[/keytree]")) };
            Ok(App::DatabaseDelete { family: template(arg)?, key: None })
        }
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

fn log(name: Arg<'_>, args: &[Arg<'_>]) -> Reading<App> {
    let [level, text] = args else {
        return Err(name.wrong("Log needs a level and a text, such as Log(NOTICE,hello)"));
    };
    let read = match level.text.to_ascii_uppercase().as_str() {
        "DEBUG" => LogLevel::Debug,
        "NOTICE" => LogLevel::Notice,
        "WARNING" => LogLevel::Warning,
        "ERROR" => LogLevel::Error,
        "VERBOSE" => LogLevel::Verbose,
        _ => {
            let message = "the level is ERROR, WARNING, NOTICE, DEBUG or VERBOSE";
            return Err(level.wrong(message));
        }
    };
    Ok(App::Log { level: read, text: template(*text)? })
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
        stays: false,
        talk_limit: None,
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
    let mut at = 0;
    while let Some(option) = arg.text.get(at..).and_then(|rest| rest.chars().next()) {
        let place = at..at + option.len_utf8();
        let behind = arg.from(place.end);
        let inside = match behind.text.strip_prefix('(').map(|rest| rest.find(')')) {
            Some(Some(length)) => Some(behind.part(1..1 + length)),
            Some(None) => return Err(behind.wrong("`(` is not closed: `)` is missing")),
            None => None,
        };
        let fault = |message: String| Err(arg.wrong_at(place.clone(), message));
        match (option, inside) {
            ('r', Some(_)) => {
                return fault("a tone for Dial's option `r` is not built yet".to_owned());
            }
            ('r', None) => dial.ringing = true,
            ('g', None) => dial.go_on = true,
            ('i', None) => dial.stays = true,
            // Each one who was called and did not answer learns that another did; it is our way.
            ('c', None) => {}
            ('L', Some(inside)) => limit(dial, inside, 1)?,
            ('S', Some(inside)) => limit(dial, inside, 1_000)?,
            ('L' | 'S', None) => return fault(format!("Dial's option `{option}` needs a time")),
            _ if DIAL_OPTIONS.contains(option) && !"rgic".contains(option) => {
                return fault(format!("Dial's option `{option}` is not built yet"));
            }
            _ => return fault(format!("Dial has no option `{}`", option.escape_default())),
        }
        at = place.end + inside.map_or(0, |inside| inside.text.len() + 2);
    }
    Ok(())
}

/// Takes a time of talk, in units of so many milliseconds.
fn limit(dial: &mut Dial, arg: Arg<'_>, unit: u64) -> Reading<()> {
    let value = arg.text.trim();
    if value.contains(':') {
        return Err(arg.wrong("the warnings of Dial's option `L` need media and are not built yet"));
    }
    let number = value.parse::<u64>().ok().filter(|number| *number > 0);
    let Some(number) = number.filter(|number| *number <= SECONDS_MAX * 1_000 / unit) else {
        return Err(arg.wrong("this is no time that a call may take"));
    };
    let span = std::time::Duration::from_millis(number * unit);
    dial.talk_limit = Some(dial.talk_limit.map_or(span, |known| known.min(span)));
    Ok(())
}
