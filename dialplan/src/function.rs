//! Functions: `${NAME(arguments)}`.
//!
//! Those that only look at their arguments are worked out here. What needs the call, the database
//! or the directory is asked of [`Variables::ask`].

use std::fmt::Write as _;

use crate::expression;
use crate::flow::Test;
use crate::limits::VALUE_MAX;
use crate::template::{RenderFault, Template, Variables};
use regex::Regex;

/// A function with its arguments.
#[derive(Clone, Debug)]
pub enum Function {
    /// `LEN(text)`: its characters.
    Len(Template),
    /// `TOUPPER(text)`.
    ToUpper(Template),
    /// `TOLOWER(text)`.
    ToLower(Template),
    /// `ISNULL(text)`: 1 when it is empty, else 0.
    IsNull(Template),
    /// `EXISTS(text)`: 1 when it is not empty, else 0.
    Exists(Template),
    /// `IF(condition?yes:no)` and `IFTIME(times?yes:no)`.
    If(Test, Template, Template),
    /// `TRIM(text)`: without blanks at either end.
    Trim(Template),
    /// `REPLACE(variable,characters,by)`: each of the characters in a variable's value.
    Replace(Template, Template, Template),
    /// `STRFTIME(epoch,,form)`: a point in local time.
    Strftime(Template, Template),
    /// `CUT(variable,delimiter,fields)`: some fields of a variable's value.
    Cut {
        /// The variable's name.
        name: Template,
        /// One character; `-` when none is given.
        delimiter: Template,
        /// `2`, `2-4`, `2-`, `-4`, several joined by `&`.
        fields: Template,
    },
    /// `FILTER(allowed,text)`: the characters that are allowed; `a-z` is a range.
    Filter(Template, Template),
    /// `FIELDQTY(variable,delimiter)`: how many fields a variable's value has.
    FieldQuantity(Template, Template),
    /// `REGEX("pattern" text)`: 1 when the pattern finds something, else 0.
    Regex(Finder, Template),
    /// `RAND(from,to)`.
    Rand(Template, Template),
    /// `URIENCODE(text)`.
    UriEncode(Template),
    /// `URIDECODE(text)`.
    UriDecode(Template),
    /// What is asked of the call and of the world around it.
    Ask(Question, Box<[Template]>),
}

/// A compiled pattern, compared by its text.
#[derive(Clone, Debug)]
pub struct Finder(pub(crate) Regex);

impl PartialEq for Finder {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        // Their texts say all; comparing them is for tests and reloads only.
        format!("{self:?}") == format!("{other:?}")
    }
}

impl Eq for Function {}

/// What only the call or the world around it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// `DB(family/key)`: the value.
    Database,
    /// `DB_EXISTS(family/key)`: 1 or 0.
    DatabaseExists,
    /// `DB_DELETE(family/key)`: the value, which is gone then.
    DatabaseDelete,
    /// `GLOBAL(name)`: the value of a global variable.
    Global,
    /// `DEVICE_STATE(SIP/name)`.
    DeviceState,
    /// `DIALPLAN_EXISTS(context,number)`: 1 or 0.
    DialplanExists,
    /// `PJSIP_HEADER(read,name,number)` and `SIP_HEADER(name,number)`: a header line of the
    /// request that began the call.
    Header,
    /// `HINT(number@context)`: the devices behind it.
    Hint,
    /// `EXTENSION_STATE(number@context)`: the state of these devices.
    ExtensionState,
}

impl Function {
    /// Appends its value.
    pub fn render(&self, vars: &dyn Variables, out: &mut String) -> Result<(), RenderFault> {
        let flag = |is_so: bool, out: &mut String| out.push(if is_so { '1' } else { '0' });
        match self {
            Self::Len(text) => {
                let count = text.rendered(vars)?.chars().count();
                let _ = write!(out, "{count}");
            }
            Self::ToUpper(text) => out.push_str(&text.rendered(vars)?.to_uppercase()),
            Self::ToLower(text) => out.push_str(&text.rendered(vars)?.to_lowercase()),
            Self::IsNull(text) => flag(text.rendered(vars)?.is_empty(), out),
            Self::Exists(text) => flag(!text.rendered(vars)?.is_empty(), out),
            Self::Trim(text) => out.push_str(text.rendered(vars)?.trim()),
            Self::Replace(name, characters, by) => {
                let mut value = String::new();
                vars.value(&name.rendered(vars)?, &mut value);
                let characters = characters.rendered(vars)?;
                let by = by.rendered(vars)?;
                let start = out.len();
                for c in value.chars() {
                    match characters.contains(c) {
                        true => out.push_str(&by),
                        false => out.push(c),
                    }
                    if out.len() - start > VALUE_MAX {
                        return Err(RenderFault::TooLong);
                    }
                }
            }
            Self::Strftime(epoch, form) => {
                let epoch = epoch.rendered(vars)?;
                let epoch = if epoch.trim().is_empty() { None } else { Some(whole(&epoch)) };
                vars.moment(epoch).format(&form.rendered(vars)?, out);
            }
            Self::If(test, yes, no) => {
                let chosen = if test.holds(vars)? { yes } else { no };
                chosen.render(vars, out)?;
            }
            Self::Cut { name, delimiter, fields } => {
                let (value, delimiter) = named(vars, name, delimiter)?;
                cut(&value, delimiter, &fields.rendered(vars)?, out);
            }
            Self::FieldQuantity(name, delimiter) => {
                let (value, delimiter) = named(vars, name, delimiter)?;
                let count = if value.is_empty() { 0 } else { value.split(delimiter).count() };
                let _ = write!(out, "{count}");
            }
            Self::Filter(allowed, text) => {
                filter(&allowed.rendered(vars)?, &text.rendered(vars)?, out);
            }
            Self::Regex(finder, text) => flag(finder.0.is_match(&text.rendered(vars)?), out),
            Self::Rand(from, to) => {
                let bound = |text: &Template| Ok(whole(&text.rendered(vars)?));
                let (from, to): (i64, i64) = (bound(from)?, bound(to)?);
                let width = u64::try_from(to.saturating_sub(from)).unwrap_or(0).saturating_add(1);
                let drawn = i64::try_from(vars.random(width)).unwrap_or(0);
                let _ = write!(out, "{}", from.saturating_add(drawn));
            }
            Self::UriEncode(text) => encode(&text.rendered(vars)?, out),
            Self::UriDecode(text) => decode(&text.rendered(vars)?, out),
            Self::Ask(question, args) => {
                let args: Result<Vec<Box<str>>, _> =
                    args.iter().map(|arg| arg.rendered(vars)).collect();
                vars.ask(*question, &args?, out);
            }
        }
        Ok(())
    }
}

fn whole(text: &str) -> i64 {
    expression::number(text).map_or(0, |number| number as i64)
}

/// The value of a variable whose name is `name`, and the delimiter of its fields.
fn named(
    vars: &dyn Variables,
    name: &Template,
    delimiter: &Template,
) -> Result<(String, char), RenderFault> {
    let mut value = String::new();
    vars.value(&name.rendered(vars)?, &mut value);
    Ok((value, delimiter.rendered(vars)?.chars().next().unwrap_or('-')))
}

/// Appends the fields that `wanted` names, counted from 1, joined by the delimiter.
fn cut(value: &str, delimiter: char, wanted: &str, out: &mut String) {
    let parts: Vec<&str> = value.split(delimiter).collect();
    let mut is_first = true;
    for range in wanted.split('&') {
        let bound = |text: &str, or: usize| match text.trim() {
            "" => or,
            text => text.parse().unwrap_or(or),
        };
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (bound(from, 1), bound(to, parts.len())),
            None => (bound(range, 1), bound(range, 1)),
        };
        for part in parts.iter().take(to).skip(from.max(1) - 1) {
            if !std::mem::take(&mut is_first) {
                out.push(delimiter);
            }
            out.push_str(part);
        }
    }
}

/// Appends the characters of `text` that `allowed` holds.
fn filter(allowed: &str, text: &str, out: &mut String) {
    let signs: Vec<char> = allowed.chars().collect();
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(first) = signs.get(at) {
        match (signs.get(at + 1), signs.get(at + 2)) {
            (Some('-'), Some(last)) => {
                ranges.push((*first, *last));
                at += 3;
            }
            _ => {
                ranges.push((*first, *first));
                at += 1;
            }
        }
    }
    let is_allowed = |sign: &char| ranges.iter().any(|(from, to)| (from..=to).contains(&sign));
    out.extend(text.chars().filter(is_allowed));
}

fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

fn decode(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3).filter(|_| *byte == b'%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                decoded.push(value);
                at += 3;
            }
            None => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    out.push_str(&String::from_utf8_lossy(&decoded));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(work: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        work(&mut out);
        out
    }

    #[test]
    fn fields_are_cut_as_in_asterisk() {
        let cut = |wanted: &str| out(|out| cut("a-b-c-d", '-', wanted, out));
        assert_eq!(cut("1"), "a");
        assert_eq!(cut("2-3"), "b-c");
        assert_eq!(cut("3-"), "c-d");
        assert_eq!(cut("-2"), "a-b");
        assert_eq!(cut("1&4"), "a-d");
        assert_eq!(cut("9"), "");
    }

    #[test]
    fn texts_are_filtered_and_coded() {
        assert_eq!(out(|out| filter("0-9+", "+49 (30) 123", out)), "+4930123");
        assert_eq!(out(|out| filter("a-", "a-b", out)), "a-");
        assert_eq!(out(|out| encode("ä b/c", out)), "%C3%A4%20b%2Fc");
        assert_eq!(out(|out| decode("%C3%A4%20b%2", out)), "ä b%2");
        assert_eq!(out(|out| decode("%ä", out)), "%ä");
    }
}
