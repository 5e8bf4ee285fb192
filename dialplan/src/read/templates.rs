//! Reads a text with variables.

use std::ops::Range;

use crate::limits::{NAME_MAX, NESTING_MAX, TEMPLATE_MAX};
use crate::read::args::{Arg, Reading, outside_holes, top_level};
use crate::read::expressions::expression;
use crate::read::functions::function;
use crate::read::known;
use crate::template::{Escape, Hole, Part, Source, Template};

/// Reads a text whose holes take their values as they are.
pub(crate) fn template(arg: Arg<'_>) -> Reading<Template> {
    escaped(arg, Escape::Plain)
}

/// Reads a text whose holes escape or check their values.
pub(crate) fn escaped(arg: Arg<'_>, escape: Escape) -> Reading<Template> {
    if arg.text.len() > TEMPLATE_MAX {
        return Err(arg.wrong(format!("a text is at most {TEMPLATE_MAX} bytes long")));
    }
    nested(arg, escape, NESTING_MAX)
}

/// Reads a text whose holes may go `depth` deep.
pub(crate) fn nested(arg: Arg<'_>, escape: Escape, depth: usize) -> Reading<Template> {
    let bytes = arg.text.as_bytes();
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut at = 0;
    while let Some(c) = arg.text.get(at..).and_then(|rest| rest.chars().next()) {
        let mut next = at + c.len_utf8();
        match (c, bytes.get(at + 1)) {
            ('\\', Some(_)) => {
                let literal = arg.text[next..].chars().next().unwrap_or('\\');
                text.push(literal);
                next += literal.len_utf8();
            }
            ('$', Some(b'{')) => {
                let inside = closed(arg, at)?;
                next = inside.end + 1;
                if depth == 0 {
                    let message = format!("`${{` stands more than {NESTING_MAX} deep");
                    return Err(arg.wrong_at(at..next, message));
                }
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text).into()));
                }
                parts.push(Part::Hole(Box::new(hole(arg.part(inside), escape, depth)?)));
            }
            ('$', Some(b'[')) => {
                let inside = closed_expression(arg, at)?;
                next = inside.end + 1;
                let Some(depth) = depth.checked_sub(1) else {
                    let message = format!("`$[` stands more than {NESTING_MAX} deep");
                    return Err(arg.wrong_at(at..next, message));
                };
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text).into()));
                }
                let source = Source::Expression(expression(arg.part(inside), depth)?);
                parts.push(Part::Hole(Box::new(Hole { source, offset: 0, length: None, escape })));
            }
            _ => text.push(c),
        }
        at = next;
    }
    if !text.is_empty() {
        parts.push(Part::Text(text.into()));
    }
    Ok(Template { parts: parts.into() })
}

/// The inside of a `$[...]` that starts at `open`: brackets in quotes and in `${...}` do not count,
/// others do in pairs.
fn closed_expression(arg: Arg<'_>, open: usize) -> Reading<Range<usize>> {
    let (mut depth, mut is_quoted) = (0_usize, false);
    for (at, byte) in outside_holes(&arg.text[open + 2..]) {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'[' if !is_quoted => depth += 1,
            b']' if !is_quoted && depth == 0 => return Ok(open + 2..open + 2 + at),
            b']' if !is_quoted => depth -= 1,
            _ => {}
        }
    }
    Err(arg.wrong_at(open..open + 2, "`$[` is not closed: `]` is missing"))
}

/// The inside of a `${...}` that starts at `open`.
fn closed(arg: Arg<'_>, open: usize) -> Reading<Range<usize>> {
    let bytes = arg.text.as_bytes();
    let mut depth = 0_usize;
    let mut at = open;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'$' if bytes.get(at + 1) == Some(&b'{') => {
                depth += 1;
                at += 1;
            }
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(open + 2..at);
                }
            }
            _ => {}
        }
        at += 1;
    }
    Err(arg.wrong_at(open..open + 2, "`${` is not closed: `}` is missing"))
}

/// Reads the inside of `${...}`: name, offset, length.
fn hole(arg: Arg<'_>, escape: Escape, depth: usize) -> Reading<Hole> {
    let (call, rest) = called(arg)?;
    let mut fields = fields(rest).into_iter();
    let name = fields.next().unwrap_or(arg);
    let offset = fields.next().map(number).transpose()?.flatten().unwrap_or(0);
    let length = fields.next().map(number).transpose()?.flatten();
    if let Some(more) = fields.next() {
        return Err(more.wrong("a variable takes an offset and a length, and no more"));
    }
    let source = match call {
        Some((function_name, inside)) => {
            if !name.text.trim().is_empty() {
                return Err(name.wrong("only `:offset:length` may follow a function"));
            }
            Source::Function(function(function_name, inside, depth - 1)?)
        }
        None => Source::Variable(variable_name(name, depth - 1)?),
    };
    Ok(Hole { source, offset, length, escape })
}

type Called<'t> = (Option<(Arg<'t>, Arg<'t>)>, Arg<'t>);

/// Takes `NAME(arguments)` off, unless it can be read and set like a variable; gives what follows.
fn called(arg: Arg<'_>) -> Reading<Called<'_>> {
    let open = arg.text.find(['(', '$', '{', ':']).filter(|at| arg.text[*at..].starts_with('('));
    let Some(open) = open else { return Ok((None, arg)) };
    let is_variable = |name: &&str| {
        let rest = arg.text.strip_prefix(*name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    if known::VARIABLES.iter().any(is_variable) {
        return Ok((None, arg));
    }
    let inside = arg.from(open + 1);
    match top_level(inside.text, |byte| byte == b')').next() {
        Some(close) => Ok((Some((arg.to(open), inside.to(close))), inside.from(close + 1))),
        None => Err(arg.wrong_at(open..open + 1, "`(` is not closed: `)` is missing")),
    }
}

/// Splits at `:`, but not inside a nested `${...}`.
fn fields(arg: Arg<'_>) -> Vec<Arg<'_>> {
    let mut fields = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, byte) in arg.text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 => {
                fields.push(arg.part(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    fields.push(arg.from(start));
    fields
}

/// Reads an offset or a length; an empty one is none.
fn number(arg: Arg<'_>) -> Reading<Option<i32>> {
    let text = arg.text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if text.contains("${") {
        return Err(arg.wrong("a variable as offset or length is not built yet"));
    }
    text.parse().map(Some).map_err(|_| arg.wrong("an offset or a length is a whole number"))
}

/// Reads a variable's name, which may hold variables itself; or one of the few functions.
pub(crate) fn variable_name(arg: Arg<'_>, depth: usize) -> Reading<Template> {
    if known::VARIABLES.contains(&arg.text) {
        return Ok(Template::fixed(arg.text));
    }
    if let Some(open) = arg.text.find('(')
        && !arg.text[..open].contains('$')
    {
        return Err(arg.wrong_at(0..open, known::function(&arg.text[..open])));
    }
    if arg.text.is_empty() {
        return Err(arg.wrong("the name of the variable is missing"));
    }
    if arg.text.len() > NAME_MAX {
        return Err(arg.wrong(format!("a variable's name is at most {NAME_MAX} bytes long")));
    }
    let name = nested(arg, Escape::Plain, depth)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let texts = name.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text),
        Part::Hole(_) => None,
    });
    if texts.into_iter().any(|text| !text.chars().all(allowed)) {
        return Err(arg.wrong("a variable's name has letters, digits and `_` only"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::{RenderFault, Variables};

    struct Table(&'static [(&'static str, &'static str)]);

    impl Variables for Table {
        fn value(&self, name: &str, out: &mut String) -> bool {
            let found = self.0.iter().find(|(known, _)| *known == name);
            if let Some((_, value)) = found {
                out.push_str(value);
            }
            found.is_some()
        }
    }

    const VARS: Table =
        Table(&[("EXTEN", "918005551212"), ("N", "2"), ("A2", "zwei"), ("UML", "äöü"), ("E", "")]);

    fn rendered(text: &str) -> String {
        let template = template(Arg::new(text, 0)).unwrap();
        template.rendered(&VARS).unwrap().into()
    }

    #[test]
    fn substrings_count_as_in_asterisk() {
        assert_eq!(rendered("${EXTEN}"), "918005551212");
        assert_eq!(rendered("${EXTEN:1}"), "18005551212");
        assert_eq!(rendered("${EXTEN:-4}"), "1212");
        assert_eq!(rendered("${EXTEN:1:2}"), "18");
        assert_eq!(rendered("${EXTEN:-4:2}"), "12");
        assert_eq!(rendered("${EXTEN:0:-10}"), "91");
        assert_eq!(rendered("${EXTEN:99}"), "");
        assert_eq!(rendered("${EXTEN:-99}"), "918005551212");
        assert_eq!(rendered("${EXTEN:1:99}"), "18005551212");
        assert_eq!(rendered("${EXTEN:5:-99}"), "");
        assert_eq!(rendered("${EXTEN::3}"), "918");
        assert_eq!(rendered("${UML:1:1}"), "ö");
    }

    #[test]
    fn names_nest_and_unknown_ones_are_empty() {
        assert_eq!(rendered("${A${N}}"), "zwei");
        assert_eq!(rendered("<${NONE}${E}>"), "<>");
        assert_eq!(rendered("a$b \\${N} \\\\ $"), "a$b ${N} \\ $");
    }

    #[test]
    fn a_value_is_never_read_again() {
        let vars = Table(&[("A", "${B}"), ("B", "no")]);
        let template = template(Arg::new("${A}", 0)).unwrap();
        assert_eq!(&*template.rendered(&vars).unwrap(), "${B}");
    }

    #[test]
    fn a_text_that_grows_too_long_is_refused_and_leaves_nothing() {
        struct Long;
        impl Variables for Long {
            fn value(&self, _: &str, out: &mut String) -> bool {
                out.push_str(&"x".repeat(3_000));
                true
            }
        }
        let template = template(Arg::new("${A}${A}", 0)).unwrap();
        let mut out = String::from("kept");
        assert_eq!(template.render(&Long, &mut out), Err(RenderFault::TooLong));
        assert_eq!(out, "kept");
    }
}
