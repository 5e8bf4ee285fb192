//! Reads functions: `NAME(arguments)`.

use crate::condition::Condition;
use crate::expression::compile;
use crate::flow::Test;
use crate::function::{Finder, Function, Question};
use crate::read::args::{Arg, Reading, split, top_level};
use crate::read::flow::{self, Kind};
use crate::read::known;
use crate::read::templates::nested;
use crate::template::{Escape, Template};

/// Reads a function with its arguments; `depth`: how deep they may go on.
pub(crate) fn function(name: Arg<'_>, inside: Arg<'_>, depth: usize) -> Reading<Function> {
    let text = |arg: Arg<'_>| nested(arg, Escape::Plain, depth);
    let upper = name.text.to_ascii_uppercase();
    match upper.as_str() {
        "LEN" => text(inside).map(Function::Len),
        "TOUPPER" => text(inside).map(Function::ToUpper),
        "TOLOWER" => text(inside).map(Function::ToLower),
        "ISNULL" => text(inside).map(Function::IsNull),
        "EXISTS" => text(inside).map(Function::Exists),
        "URIENCODE" => text(inside).map(Function::UriEncode),
        "URIDECODE" => text(inside).map(Function::UriDecode),
        "IF" | "IFTIME" => {
            let kind = if upper == "IF" { Kind::Condition } else { Kind::Time };
            choice((name, kind), inside, &text)
        }
        "TRIM" => text(inside).map(Function::Trim),
        "REPLACE" => {
            let form = "REPLACE(variable,characters,by)";
            let [of, characters, by] = three(name, inside, form)?;
            Ok(Function::Replace(text(of)?, text(characters)?, text(by)?))
        }
        "STRFTIME" => strftime(name, inside, &text),
        "CUT" => {
            let [of, delimiter, fields] = three(name, inside, "CUT(variable,delimiter,fields)")?;
            let (name, delimiter) = (text(of)?, text(delimiter)?);
            Ok(Function::Cut { name, delimiter, fields: text(fields)? })
        }
        "FIELDQTY" => {
            let [of, delimiter] = two(name, inside, "FIELDQTY(variable,delimiter)")?;
            Ok(Function::FieldQuantity(text(of)?, text(delimiter)?))
        }
        "FILTER" => {
            let [allowed, of] = two(name, inside, "FILTER(allowed characters,text)")?;
            Ok(Function::Filter(text(allowed)?, text(of)?))
        }
        "RAND" => {
            let [from, to] = two(name, inside, "RAND(from,to)")?;
            Ok(Function::Rand(text(from)?, text(to)?))
        }
        "REGEX" => regex(inside, &text),
        _ => question(name, inside, &text),
    }
}

/// Reads a function that asks the call or the world around it.
fn question<'t>(
    name: Arg<'t>,
    inside: Arg<'t>,
    text: &dyn Fn(Arg<'t>) -> Reading<Template>,
) -> Reading<Function> {
    let upper = name.text.to_ascii_uppercase();
    match upper.as_str() {
        "DB" | "DB_EXISTS" | "DB_DELETE" => {
            let question = match upper.as_str() {
                "DB" => Question::Database,
                "DB_EXISTS" => Question::DatabaseExists,
                _ => Question::DatabaseDelete,
            };
            let [family, key] = database_key(name, inside)?;
            Ok(Function::Ask(question, [text(family)?, text(key)?].into()))
        }
        "GLOBAL" => Ok(Function::Ask(Question::Global, [text(inside)?].into())),
        "DEVICE_STATE" => Ok(Function::Ask(Question::DeviceState, [text(inside)?].into())),
        "SIP_HEADER" => {
            let mut pieces = split(inside, b',', 2).into_iter();
            let header = pieces.next().unwrap_or(inside);
            header_line(header, pieces.next(), text)
        }
        "PJSIP_HEADER" => {
            let mut pieces = split(inside, b',', 3).into_iter();
            match (pieces.next(), pieces.next()) {
                (Some(action), Some(header)) if action.text == "read" => {
                    header_line(header, pieces.next(), text)
                }
                _ => Err(name.wrong("to be read, it is PJSIP_HEADER(read,Name[,number])")),
            }
        }
        "HINT" => Ok(Function::Ask(Question::Hint, [text(inside)?].into())),
        "EXTENSION_STATE" => Ok(Function::Ask(Question::ExtensionState, [text(inside)?].into())),
        "DIALPLAN_EXISTS" => {
            let [context, number] = two(name, inside, "DIALPLAN_EXISTS(context,number)")?;
            Ok(Function::Ask(Question::DialplanExists, [text(context)?, text(number)?].into()))
        }
        _ => Err(name.wrong(known::function(name.text))),
    }
}

/// `family/key`, both of them.
pub(crate) fn database_key<'t>(name: Arg<'t>, inside: Arg<'t>) -> Reading<[Arg<'t>; 2]> {
    let slash = top_level(inside.text, |byte| byte == b'/').next();
    match slash {
        Some(at) if at > 0 && at + 1 < inside.text.len() => {
            Ok([inside.to(at), inside.from(at + 1)])
        }
        Some(_) | None => Err(name.wrong("write DB(family/key)")),
    }
}

fn two<'t>(name: Arg<'t>, inside: Arg<'t>, form: &str) -> Reading<[Arg<'t>; 2]> {
    let args = split(inside, b',', 2);
    <[Arg<'t>; 2]>::try_from(args).map_err(|_| name.wrong(format!("write {form}")))
}

fn three<'t>(name: Arg<'t>, inside: Arg<'t>, form: &str) -> Reading<[Arg<'t>; 3]> {
    let args = split(inside, b',', 3);
    <[Arg<'t>; 3]>::try_from(args).map_err(|_| name.wrong(format!("write {form}")))
}

fn header_line<'t>(
    name: Arg<'t>,
    number: Option<Arg<'t>>,
    text: &dyn Fn(Arg<'t>) -> Reading<Template>,
) -> Reading<Function> {
    let number = number.map(text).transpose()?.unwrap_or_else(|| Template::fixed("1"));
    Ok(Function::Ask(Question::Header, [text(name)?, number].into()))
}

/// `epoch,zone,form`, each of which may be missing.
fn strftime<'t>(
    name: Arg<'t>,
    inside: Arg<'t>,
    text: &dyn Fn(Arg<'t>) -> Reading<Template>,
) -> Reading<Function> {
    let pieces = split(inside, b',', 3);
    if let Some(zone) = pieces.get(1).filter(|zone| !zone.text.is_empty()) {
        return Err(zone.wrong("a time zone of its own is not built yet"));
    }
    let Some(epoch) = pieces.first() else { return Err(name.wrong("write STRFTIME(epoch,,form)")) };
    let form = match pieces.get(2).filter(|form| !form.text.is_empty()) {
        Some(form) => text(*form)?,
        None => Template::fixed("%a %b %e %T %Y"),
    };
    Ok(Function::Strftime(text(*epoch)?, form))
}

/// `condition?yes:no`.
fn choice<'t>(
    (name, kind): (Arg<'t>, Kind),
    inside: Arg<'t>,
    text: &dyn Fn(Arg<'t>) -> Reading<Template>,
) -> Reading<Function> {
    let (asked, yes, no) = flow::choice(name, Some(inside), "write IF(condition?text:text)")?;
    let test = match kind {
        Kind::Condition => Test::Condition(Condition(text(asked)?)),
        Kind::Time => Test::Time(flow::clock(asked)?),
    };
    Ok(Function::If(test, text(yes)?, text(no)?))
}

/// `"pattern" text`.
fn regex<'t>(inside: Arg<'t>, text: &dyn Fn(Arg<'t>) -> Reading<Template>) -> Reading<Function> {
    let form = || inside.wrong("write REGEX(\"pattern\" text)");
    let quoted = inside.text.strip_prefix('"').ok_or_else(form)?;
    let length = quoted.find('"').ok_or_else(form)?;
    let pattern = inside.part(1..1 + length);
    let read = text(pattern)?;
    let fixed = read.as_fixed().ok_or_else(|| {
        pattern.wrong("a pattern with a variable in it is built in `$[ ... =~ ... ]` only")
    })?;
    let regex =
        compile(fixed, false).map_err(|why| pattern.wrong(format!("this is no pattern: {why}")))?;
    Ok(Function::Regex(Finder(regex), text(inside.from(length + 2).trimmed())?))
}
