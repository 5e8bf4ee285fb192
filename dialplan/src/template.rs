//! Texts with variables in them: `${VAR}`, `${VAR:offset}`, `${VAR:offset:length}`, nested.
//!
//! A template is split once, at load. What a variable holds is data from then on: it fills its
//! hole and is never read again as syntax, so a dialled `300&SIP/trunk/900` stays one number. In a
//! URI, a hole escapes or checks its value ([`Escape`]). A hole may also hold a function
//! (`${LEN(x)}`, [`Function`]) or an expression (`$[1 + 2]`, [`Expression`]).

use crate::expression::Expression;
use crate::function::{Function, Question};
use crate::limits::VALUE_MAX;
use crate::time::Moment;

/// Where the values of variables come from.
pub trait Variables {
    /// Appends the variable's value to `out`; false when there is no such variable, which reads as
    /// empty.
    fn value(&self, name: &str, out: &mut String) -> bool;

    /// Appends the answer to a question that only the call or the world around it can answer;
    /// nothing when there is none.
    fn ask(&self, _: Question, _: &[Box<str>], _: &mut String) {}

    /// A point in local time: so many seconds after 1970 began, or now.
    fn moment(&self, epoch: Option<i64>) -> Moment {
        Moment::from_epoch(epoch.unwrap_or_default(), 0)
    }

    /// A number below `bound`, another one each time.
    fn random(&self, _: u64) -> u64 {
        0
    }
}

/// No variables at all.
impl Variables for () {
    fn value(&self, _: &str, _: &mut String) -> bool {
        false
    }
}

/// A text with holes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub(crate) parts: Box<[Part]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(Box<str>),
    Hole(Box<Hole>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) source: Source,
    pub(crate) offset: i32,
    pub(crate) length: Option<i32>,
    pub(crate) escape: Escape,
}

/// What fills a hole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The variable of that name.
    Variable(Template),
    /// What a function gives.
    Function(Function),
    /// What an expression comes to.
    Expression(Expression),
}

/// What is done to a value before it fills its hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    /// Nothing: the place has no syntax.
    Plain,
    /// The user part of a SIP URI: what has a meaning there is written `%HH`.
    UriUser,
    /// The host of a SIP URI: a value with anything but letters, digits, `.`, `-`, `:`, `[`, `]`
    /// is refused, and so is an empty one.
    UriHost,
}

/// Why a text could not be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenderFault {
    /// It would be longer than [`VALUE_MAX`].
    TooLong,
    /// A variable's value cannot stand in the host of a URI.
    NotAHost,
}

impl std::fmt::Display for RenderFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong => write!(f, "the text is longer than {VALUE_MAX} bytes"),
            Self::NotAHost => f.write_str("the value of a variable is not a host"),
        }
    }
}

impl std::error::Error for RenderFault {}

impl Template {
    /// A text without holes.
    pub fn fixed(text: &str) -> Self {
        if text.is_empty() {
            return Self { parts: Box::new([]) };
        }
        Self { parts: Box::new([Part::Text(text.into())]) }
    }

    /// The whole text, when it has no holes.
    pub fn as_fixed(&self) -> Option<&str> {
        match &*self.parts {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Appends the text to `out` with every hole filled in. On a fault `out` is as it was.
    pub fn render(&self, vars: &dyn Variables, out: &mut String) -> Result<(), RenderFault> {
        let start = out.len();
        let filled = self.render_from(start, vars, out);
        if filled.is_err() {
            out.truncate(start);
        }
        filled
    }

    /// The text in a string of its own.
    pub fn rendered(&self, vars: &dyn Variables) -> Result<Box<str>, RenderFault> {
        let mut out = String::new();
        self.render(vars, &mut out)?;
        Ok(out.into())
    }

    fn render_from(
        &self,
        start: usize,
        vars: &dyn Variables,
        out: &mut String,
    ) -> Result<(), RenderFault> {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Hole(hole) => hole.fill(vars, out)?,
            }
            if out.len() - start > VALUE_MAX {
                return Err(RenderFault::TooLong);
            }
        }
        Ok(())
    }
}

impl Hole {
    fn fill(&self, vars: &dyn Variables, out: &mut String) -> Result<(), RenderFault> {
        let start = out.len();
        match &self.source {
            Source::Variable(name) => {
                match name.as_fixed() {
                    Some(name) => vars.value(name, out),
                    None => vars.value(&name.rendered(vars)?, out),
                };
            }
            Source::Function(function) => function.render(vars, out)?,
            Source::Expression(expression) => expression.render(vars, out)?,
        }
        self.cut(start, out);
        match self.escape {
            Escape::Plain => Ok(()),
            Escape::UriUser => {
                escape_user(start, out);
                Ok(())
            }
            Escape::UriHost if is_host(&out[start..]) => Ok(()),
            Escape::UriHost => Err(RenderFault::NotAHost),
        }
    }

    /// Keeps the part of the value that offset and length name, counted in characters. A negative
    /// offset counts from the end; a negative length leaves out that many at the end.
    fn cut(&self, start: usize, out: &mut String) {
        if self.offset == 0 && self.length.is_none() {
            return;
        }
        let count = i64::try_from(out[start..].chars().count()).unwrap_or(i64::MAX);
        let offset = i64::from(self.offset);
        let from = if offset < 0 { (count + offset).max(0) } else { offset.min(count) };
        let to = match self.length.map(i64::from) {
            None => count,
            Some(length) if length < 0 => (count + length).max(from),
            Some(length) => (from + length).min(count),
        };
        let at = |nth: i64| {
            let nth = usize::try_from(nth).unwrap_or(usize::MAX);
            out[start..].char_indices().nth(nth).map_or(out.len(), |(index, _)| start + index)
        };
        let (from, to) = (at(from), at(to));
        out.truncate(to);
        out.replace_range(start..from, "");
    }
}

/// RFC 3261 25.1: unreserved characters and `+` stand as they are. The others that a user part may
/// hold (`;`, `?`, `/` ...) mean something to some peers, and a value shall mean nothing.
fn is_user_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.!~*'()+".contains(&byte)
}

fn is_host(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_host_byte)
}

pub(crate) fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte)
}

fn escape_user(start: usize, out: &mut String) {
    if out[start..].bytes().all(is_user_byte) {
        return;
    }
    let value = out.split_off(start);
    for byte in value.bytes() {
        if is_user_byte(byte) {
            out.push(char::from(byte));
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}
