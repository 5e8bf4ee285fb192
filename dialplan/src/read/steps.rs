//! Walks the `steps` of one extension.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::app::{App, Seconds, Step, seconds};
use crate::limits::{NAME_MAX, STEPS_MAX};
use crate::read::apps::{self, Args, DialTable, Notes};
use crate::read::args::{Arg, Misread, Reading};
use crate::read::file::{DraftExtension, DraftGoto, Reader};
use crate::read::flow::pair_loops;
use crate::read::known::shown;

type Value<'t> = Spanned<DeValue<'t>>;

/// Reads all steps into the extension.
pub(crate) fn read(reader: &mut Reader<'_>, value: &Value<'_>, extension: &mut DraftExtension) {
    let list = reader.list(value, "`steps`");
    if list.is_empty() && value.get_ref().is_array() {
        reader.wrong(value.span(), "the extension has no steps");
    }
    if let Some(extra) = list.get(STEPS_MAX) {
        reader.wrong(extra.span(), format!("an extension has at most {STEPS_MAX} steps"));
    }
    for step in list.iter().take(STEPS_MAX) {
        match read_step(reader, step, extension) {
            Some(step) => extension.steps.push(step),
            None => extension.broken = true,
        }
    }
    if !extension.broken
        && let Err((at, why)) = pair_loops(&mut extension.steps)
    {
        let span = list.get(at).map_or_else(|| value.span(), Spanned::span);
        reader.wrong(span, why);
        extension.broken = true;
    }
    extension.broken |= list.is_empty();
}

fn read_step(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    extension: &mut DraftExtension,
) -> Option<Step> {
    let line = reader.line_number(value.span().start);
    match value.get_ref() {
        DeValue::String(text) => {
            let arg = Arg::new(text, 0);
            let pieces = [value.span()];
            let mut notes = Notes::default();
            let read = apps::call(arg).and_then(|(name, args)| {
                let data = args.text();
                Ok((apps::app(name, &args, &mut notes)?, data))
            });
            let (app, data) = settled(reader, read, &pieces)?;
            note(reader, notes, &pieces, extension);
            Some(Step { app, label: None, data: data.into(), line })
        }
        DeValue::Table(table) => read_table(reader, value.span(), table, extension)
            .map(|(app, label, data)| Step { app, label, data, line }),
        DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_) => {
            let message = "a step is a text such as \"Answer()\" or a table with `app`";
            reader.wrong(value.span(), message);
            None
        }
    }
}

/// What was read, or the fault in its place.
fn settled<T>(reader: &mut Reader<'_>, read: Reading<T>, pieces: &[Range<usize>]) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(Misread { piece, wrong }) => {
            let span = pieces.get(piece).cloned().unwrap_or_default();
            reader.wrong_inside(span, wrong);
            None
        }
    }
}

/// Keeps what must be checked later, with places in the file.
fn note(
    reader: &Reader<'_>,
    notes: Notes<'_>,
    pieces: &[Range<usize>],
    extension: &mut DraftExtension,
) {
    let place = |arg: Arg<'_>| {
        let span = pieces.get(arg.piece).cloned().unwrap_or_default();
        reader.location(reader.inside(span, arg.at..arg.at + arg.text.len()))
    };
    for goto in notes.gotos {
        extension.gotos.push(DraftGoto {
            context: goto.context.map(place),
            number: goto.number.map(place),
            step: place(goto.step),
            target: goto.target,
        });
    }
    extension.trunks.extend(notes.trunks.into_iter().map(|arg| (arg.text.into(), place(arg))));
}

type TableStep = (App, Option<Box<str>>, Box<str>);

fn read_table(
    reader: &mut Reader<'_>,
    span: Range<usize>,
    table: &DeTable<'_>,
    extension: &mut DraftExtension,
) -> Option<TableStep> {
    const DIAL: [&str; 4] = ["targets", "mode", "ring_timeout_s", "options"];
    let allowed = ["app", "args", "label", "targets", "mode", "ring_timeout_s", "options"];
    reader.check_keys(table, "a step", &allowed, &[]);
    let label = match table.get("label") {
        Some(value) => read_label(reader, value, extension),
        None => None,
    };
    let Some(value) = table.get("app") else {
        reader.wrong(span, "a step needs `app`");
        return None;
    };
    let text = reader.text(value, "`app`")?;
    let mut pieces = vec![value.span()];
    let name = Arg::new(text, 0);
    if let Some(open) = text.find('(') {
        let rest = name.from(open);
        let wrong = Err::<(), _>(rest.wrong("in a table the arguments go into `args = [...]`"));
        settled(reader, wrong, &pieces);
        return None;
    }
    let args = match table.get("args") {
        Some(value) => texts(reader, value, "`args`", &mut pieces)?,
        None => Vec::new(),
    };
    let mut notes = Notes::default();
    let named = DIAL.iter().find_map(|key| table.get_key_value(*key));
    let (read, data) = if text.eq_ignore_ascii_case("Dial") && args.is_empty() {
        let (dial, data) = dial(reader, table, &mut pieces)?;
        (apps::dial_table(name, dial, &mut notes), data)
    } else if let Some((key, _)) = named {
        let message = if args.is_empty() {
            format!("only Dial takes `{}`", key.get_ref())
        } else {
            format!("either `args` or `{}`, not both", key.get_ref())
        };
        reader.wrong(key.span(), message);
        return None;
    } else {
        let data = args.iter().map(|arg| arg.text).collect::<Vec<_>>().join(",");
        (apps::app(name, &Args::Apart(args), &mut notes), data)
    };
    let app = settled(reader, read, &pieces)?;
    note(reader, notes, &pieces, extension);
    Some((app, label, data.into()))
}

fn read_label(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    extension: &DraftExtension,
) -> Option<Box<str>> {
    let label = reader.text(value, "`label`")?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let starts = label.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts || label.len() > NAME_MAX || !label.chars().all(allowed) {
        let message = format!(
            "a label starts with a letter and has letters, digits, `_` and `-`, at most {NAME_MAX}"
        );
        reader.wrong(value.span(), message);
        return None;
    }
    if extension.steps.iter().any(|step| step.label.as_deref() == Some(label)) {
        let message = format!("the label '{}' stands twice in this extension", shown(label));
        reader.wrong(value.span(), message);
    }
    Some(label.into())
}

/// The texts of a list; each becomes a piece.
fn texts<'v>(
    reader: &mut Reader<'_>,
    value: &'v Value<'_>,
    what: &str,
    pieces: &mut Vec<Range<usize>>,
) -> Option<Vec<Arg<'v>>> {
    let list = reader.list(value, what);
    let each = format!("each of {what}");
    let mut texts = Vec::with_capacity(list.len());
    for element in list {
        if let Some(text) = reader.text(element, &each) {
            texts.push(Arg::new(text, pieces.len()));
            pieces.push(element.span());
        }
    }
    (texts.len() == list.len() && value.get_ref().is_array()).then_some(texts)
}

/// Reads the keys of a Dial; gives also its arguments as a listing shows them.
fn dial<'v>(
    reader: &mut Reader<'_>,
    table: &'v DeTable<'_>,
    pieces: &mut Vec<Range<usize>>,
) -> Option<(DialTable<'v>, String)> {
    let mut dial = DialTable::default();
    if let Some(value) = table.get("targets") {
        dial.targets = texts(reader, value, "`targets`", pieces)?;
    }
    if let Some(value) = table.get("mode") {
        match reader.text(value, "`mode`")? {
            "parallel" => {}
            "sequential" => dial.sequential = true,
            _ => {
                let message = "`mode` is \"parallel\" (all at once) or \"sequential\" (in turn)";
                reader.wrong(value.span(), message);
                return None;
            }
        }
    }
    let mut timeout = String::new();
    if let Some(value) = table.get("ring_timeout_s") {
        (dial.ring_timeout, timeout) = ring_timeout(reader, value, pieces)?;
    }
    let mut options = "";
    if let Some(value) = table.get("options") {
        options = reader.text(value, "`options`")?;
        dial.options = Some(Arg::new(options, pieces.len()));
        pieces.push(value.span());
    }
    let between = if dial.sequential { " then " } else { "&" };
    let targets = dial.targets.iter().map(|arg| arg.text).collect::<Vec<_>>().join(between);
    let data = match (timeout.is_empty(), options.is_empty()) {
        (true, true) => targets,
        (false, true) => format!("{targets},{timeout}"),
        (_, false) => format!("{targets},{timeout},{options}"),
    };
    Some((dial, data))
}

fn ring_timeout(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    pieces: &mut Vec<Range<usize>>,
) -> Option<(Option<Seconds>, String)> {
    let number = match value.get_ref() {
        DeValue::Integer(number) => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        DeValue::String(text) => {
            let arg = Arg::new(text, pieces.len());
            pieces.push(value.span());
            let length = settled(reader, apps::length(arg), pieces)?;
            return Some((Some(length), text.to_string()));
        }
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => "",
    };
    let Some(length) = seconds(number) else {
        reader.wrong(value.span(), "`ring_timeout_s` is a number of seconds");
        return None;
    };
    Some((Some(Seconds::Fixed(length)), number.to_owned()))
}
