//! Reads what Set, MSet and SIPAddHeader set.

use crate::app::App;
use crate::limits::NESTING_MAX;
use crate::read::args::{Arg, Reading, outside_holes, split, top_level};
use crate::read::functions::database_key;
use crate::read::known;
use crate::read::templates::{template, variable_name};
use crate::set::{Assignment, HeaderChange, Heirs, MARKS, SetTarget, is_free_header};
use crate::template::Template;

/// `Set(NAME=value)`.
pub(crate) fn set(name: Arg<'_>, arg: Option<Arg<'_>>) -> Reading<App> {
    let Some(arg) = arg else { return Err(name.wrong("Set needs NAME=value")) };
    Ok(App::Set([assignment(arg)?].into()))
}

/// `MSet(A=1,B=2)`.
pub(crate) fn mset(name: Arg<'_>, args: &[Arg<'_>]) -> Reading<App> {
    if args.is_empty() {
        return Err(name.wrong("MSet needs NAME=value,NAME=value ..."));
    }
    let read: Reading<Vec<_>> = args.iter().map(|arg| assignment(*arg)).collect();
    Ok(App::Set(read?.into()))
}

/// `SIPAddHeader(Name: value)`.
pub(crate) fn add_header(name: Arg<'_>, arg: Option<Arg<'_>>) -> Reading<App> {
    let form = "SIPAddHeader needs Name: value";
    let Some(arg) = arg else { return Err(name.wrong(form)) };
    let unquoted = arg.text.len() >= 2 && arg.text.starts_with('"') && arg.text.ends_with('"');
    let arg = if unquoted { arg.part(1..arg.text.len() - 1) } else { arg };
    let colon = outside_holes(arg.text).find(|(_, byte)| *byte == b':');
    let Some((colon, _)) = colon else { return Err(arg.wrong(form)) };
    let target = header(arg.to(colon).trimmed(), HeaderChange::Add)?;
    let value = template(arg.from(colon + 1).trimmed())?;
    Ok(App::Set([Assignment { target, value }].into()))
}

/// `SIPRemoveHeader(Name)`.
pub(crate) fn remove_header(arg: Option<Arg<'_>>) -> Reading<App> {
    let name = arg.map(template).transpose()?.unwrap_or_else(|| Template::fixed(""));
    let target = SetTarget::Header(HeaderChange::Remove, name);
    Ok(App::Set([Assignment { target, value: Template::fixed("") }].into()))
}

fn assignment(arg: Arg<'_>) -> Reading<Assignment> {
    let equals = top_level(arg.text, |byte| byte == b'=').next().or_else(|| {
        // A quote in front of the `=` is the name's fault, and said there.
        outside_holes(arg.text).find(|(_, byte)| *byte == b'=').map(|(at, _)| at)
    });
    let Some(equals) = equals else {
        return Err(arg.wrong("Set needs NAME=value; the `=` is missing"));
    };
    let target = target(arg.to(equals).trimmed())?;
    Ok(Assignment { target, value: template(arg.from(equals + 1))? })
}

fn target(arg: Arg<'_>) -> Reading<SetTarget> {
    let open = arg.text.find(['(', '$']).filter(|at| arg.text[*at..].starts_with('('));
    let Some(open) = open else { return variable(arg) };
    let Some(inside) = arg.text[open + 1..].strip_suffix(')') else {
        return Err(arg.wrong_at(open..open + 1, "`(` is not closed: `)` is missing"));
    };
    let (name, inside) = (arg.to(open), arg.part(open + 1..open + 1 + inside.len()));
    let upper = name.text.to_ascii_uppercase();
    let own = |arg: Arg<'_>| variable_name(arg.trimmed(), NESTING_MAX);
    match (upper.as_str(), inside.text) {
        ("CALLERID", "num" | "number") => Ok(SetTarget::CallerNumber),
        ("CALLERID", "name") => Ok(SetTarget::CallerName),
        ("CALLERID", "all") => Ok(SetTarget::CallerAll),
        ("TIMEOUT", "absolute") => Ok(SetTarget::AbsoluteTimeout),
        ("CHANNEL" | "CDR", _) => {
            let whole = format!("{upper}({})", inside.text);
            let mark = MARKS.iter().find(|mark| ***mark == *whole);
            mark.map(|mark| SetTarget::Mark(mark)).ok_or_else(|| {
                arg.wrong(format!("of {upper}, these can be set: {}", MARKS.join(", ")))
            })
        }
        ("GLOBAL", _) => own(inside).map(SetTarget::Global),
        ("LOCAL", _) => own(inside).map(SetTarget::Local),
        ("ARRAY", _) => {
            let names: Reading<Vec<_>> =
                split(inside, b',', usize::MAX).into_iter().map(own).collect();
            Ok(SetTarget::Array(names?.into()))
        }
        ("DB", _) => {
            let [family, key] = database_key(name, inside)?;
            Ok(SetTarget::Database(template(family)?, template(key)?))
        }
        ("PJSIP_HEADER", _) => pjsip_header(name, inside),
        _ => Err(name.wrong(known::settable(name.text))),
    }
}

fn variable(arg: Arg<'_>) -> Reading<SetTarget> {
    let (heirs, bare) = if arg.text.starts_with("__") {
        (Heirs::All, arg.from(2))
    } else if arg.text.starts_with('_') {
        (Heirs::Children, arg.from(1))
    } else {
        (Heirs::Nobody, arg)
    };
    Ok(SetTarget::Variable { name: variable_name(bare, NESTING_MAX)?, heirs })
}

fn pjsip_header<'t>(name: Arg<'t>, inside: Arg<'t>) -> Reading<SetTarget> {
    let form = "write PJSIP_HEADER(add,Name), (update,Name) or (remove,Name)";
    let pieces = split(inside, b',', 2);
    let [change, header_name] = pieces[..] else { return Err(name.wrong(form)) };
    match change.text {
        "add" => header(header_name, HeaderChange::Add),
        "update" => header(header_name, HeaderChange::Update),
        "remove" => Ok(SetTarget::Header(HeaderChange::Remove, template(header_name)?)),
        _ => Err(change.wrong(form)),
    }
}

fn header(arg: Arg<'_>, change: HeaderChange) -> Reading<SetTarget> {
    let name = template(arg)?;
    if name.as_fixed().is_some_and(|name| !is_free_header(name)) {
        let message = "this is no header field that a plan may write: the call writes it itself, \
                       or it is no name";
        return Err(arg.wrong(message));
    }
    Ok(SetTarget::Header(change, name))
}
