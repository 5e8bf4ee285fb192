//! Expressions `$[ ... ]`: Asterisk's operators on texts and numbers.
//!
//! ```text
//! loosest   a ? b :: c      b if a is true, else c
//!           a | b           a if it is true, else b
//!           a & b           a if both are true, else 0
//!           = != < > <= >=  1 or 0; numbers if both are, else texts
//!           + -             numbers
//!           * / %           numbers
//!           ! -             0 or 1; the negative
//! tightest  a : b  a =~ b   the part of a that the pattern b finds: at its start, anywhere
//!           a ~~ b          both texts as one
//! ```
//!
//! Truth is Asterisk's: the empty text and a number that is zero are false, all else is true. The
//! text is taken apart at load, so a value with an operator in it stays a value and an empty one is
//! no syntax error: that is where ours differs from Asterisk's, which reads the filled-in text. A
//! text where a number belongs counts as if it were not there, as in Asterisk; a division by zero
//! gives 0. Numbers are `f64`, shown with 15 digits. Patterns are the `regex` crate's: of several
//! alternatives the first one that matches counts, not the longest.

use std::cmp::Ordering;
use std::fmt::Write as _;

use regex::Regex;

use crate::template::{RenderFault, Template, Variables};

/// An expression, ready to be worked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A text.
    Value(Template),
    /// `!` of it.
    Not(Box<Expression>),
    /// `-` of it.
    Negative(Box<Expression>),
    /// Two sides.
    Binary(Operator, Box<Expression>, Box<Expression>),
    /// A text, and a pattern that finds something in it.
    Match(Box<Expression>, Pattern),
    /// `a ? b :: c`.
    Choice(Box<[Expression; 3]>),
}

/// What stands between two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `|`
    Or,
    /// `&`
    And,
    /// `=`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `<=`
    LessOrEqual,
    /// `>=`
    GreaterOrEqual,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `/`
    Divide,
    /// `%`
    Remainder,
    /// `~~`
    Join,
}

/// What `:` and `=~` look for.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Known at load.
    Fixed {
        /// As written.
        text: Box<str>,
        /// Whether it must begin where the text begins.
        is_anchored: bool,
        /// Compiled.
        regex: Regex,
    },
    /// Known in the call; one that is none finds nothing.
    Computed {
        /// The pattern's text.
        text: Box<Expression>,
        /// Whether it must begin where the text begins.
        is_anchored: bool,
    },
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Fixed { text, is_anchored, .. },
                Self::Fixed { text: theirs, is_anchored: their, .. },
            ) => text == theirs && is_anchored == their,
            (
                Self::Computed { text, is_anchored },
                Self::Computed { text: theirs, is_anchored: their },
            ) => text == theirs && is_anchored == their,
            (Self::Fixed { .. }, Self::Computed { .. })
            | (Self::Computed { .. }, Self::Fixed { .. }) => false,
        }
    }
}

impl Eq for Pattern {}

/// Memory that a compiled pattern may take: a pattern that a person writes takes a tenth.
const PATTERN_BYTES_MAX: usize = 1 << 18;

/// Compiles a pattern; the error says what is wrong with it.
pub(crate) fn compile(text: &str, is_anchored: bool) -> Result<Regex, String> {
    let anchored = format!("^(?:{text})");
    let built = regex::RegexBuilder::new(if is_anchored { &anchored } else { text })
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build();
    built.map_err(|error| {
        if let regex::Error::CompiledTooBig(_) = error {
            return "it is too large".to_owned();
        }
        error.to_string().lines().last().unwrap_or("it is none").trim().to_owned()
    })
}

impl Expression {
    /// Appends its value.
    pub fn render(&self, vars: &dyn Variables, out: &mut String) -> Result<(), RenderFault> {
        if let Self::Value(text) = self {
            return text.render(vars, out);
        }
        out.push_str(&self.value(vars)?);
        Ok(())
    }

    fn value(&self, vars: &dyn Variables) -> Result<String, RenderFault> {
        match self {
            Self::Value(text) => {
                let mut out = String::new();
                text.render(vars, &mut out)?;
                Ok(out)
            }
            Self::Not(inner) => Ok(flag(!is_true(&inner.value(vars)?))),
            Self::Negative(inner) => Ok(shown(-number(&inner.value(vars)?).unwrap_or(0.0))),
            Self::Match(text, pattern) => pattern.find(&text.value(vars)?, vars),
            Self::Choice(parts) => {
                let [condition, yes, no] = &**parts;
                if is_true(&condition.value(vars)?) { yes.value(vars) } else { no.value(vars) }
            }
            Self::Binary(operator, a, b) => {
                let a = a.value(vars)?;
                if *operator == Operator::Or && is_true(&a) {
                    return Ok(a);
                }
                if *operator == Operator::And && !is_true(&a) {
                    return Ok(flag(false));
                }
                Ok(operator.apply(a, b.value(vars)?))
            }
        }
    }
}

impl Operator {
    fn apply(self, a: String, b: String) -> String {
        match self {
            Self::Or => b,
            Self::And if is_true(&b) => a,
            Self::And => flag(false),
            Self::Join => a + &b,
            Self::Equal => flag(order(&a, &b) == Ordering::Equal),
            Self::Unequal => flag(order(&a, &b) != Ordering::Equal),
            Self::Less => flag(order(&a, &b) == Ordering::Less),
            Self::Greater => flag(order(&a, &b) == Ordering::Greater),
            Self::LessOrEqual => flag(order(&a, &b) != Ordering::Greater),
            Self::GreaterOrEqual => flag(order(&a, &b) != Ordering::Less),
            Self::Plus => shown(either(&a, &b, |a, b| a + b)),
            Self::Minus => shown(either(&a, &b, |a, b| a - b)),
            Self::Times => shown(both(&a, &b, |a, b| a * b)),
            Self::Divide => shown(both(&a, &b, |a, b| if b == 0.0 { 0.0 } else { a / b })),
            Self::Remainder => shown(both(&a, &b, |a, b| if b == 0.0 { 0.0 } else { a % b })),
        }
    }
}

/// Of two numbers; 0 when one is none.
fn both(a: &str, b: &str, calculate: impl Fn(f64, f64) -> f64) -> f64 {
    number(a).zip(number(b)).map_or(0.0, |(a, b)| calculate(a, b))
}

/// Of two numbers; what is no number counts for nothing.
fn either(a: &str, b: &str, calculate: impl Fn(f64, f64) -> f64) -> f64 {
    match (number(a), number(b)) {
        (Some(a), Some(b)) => calculate(a, b),
        (one, other) => one.or(other).unwrap_or(0.0),
    }
}

impl Pattern {
    /// The first group that matched, else the length of the match, else what is false of the two.
    fn find(&self, text: &str, vars: &dyn Variables) -> Result<String, RenderFault> {
        let compiled;
        let regex = match self {
            Self::Fixed { regex, .. } => regex,
            Self::Computed { text: pattern, is_anchored } => {
                match compile(unquoted(&pattern.value(vars)?), *is_anchored) {
                    Ok(regex) => {
                        compiled = regex;
                        &compiled
                    }
                    Err(_) => return Ok(flag(false)),
                }
            }
        };
        let has_group = regex.captures_len() > 1;
        Ok(match regex.captures(unquoted(text)) {
            Some(found) if has_group => found.get(1).map_or("", |it| it.as_str()).to_owned(),
            Some(found) => found.get(0).map_or(0, |it| it.as_str().chars().count()).to_string(),
            None if has_group => String::new(),
            None => flag(false),
        })
    }
}

fn flag(is_so: bool) -> String {
    if is_so { "1" } else { "0" }.to_owned()
}

fn order(a: &str, b: &str) -> Ordering {
    let (a, b) = (unquoted(a), unquoted(b));
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        _ => a.cmp(b),
    }
}

/// Whether a text is true.
pub(crate) fn is_true(text: &str) -> bool {
    let text = unquoted(text.trim());
    !text.is_empty() && number(text) != Some(0.0)
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text)
}

/// A plain decimal number; a value like `inf` or `1e5` is a text.
pub(crate) fn number(text: &str) -> Option<f64> {
    let text = unquoted(text.trim());
    let digits = text.bytes().all(|b| b.is_ascii_digit() || b"+-.".contains(&b));
    if digits { text.parse().ok() } else { None }
}

/// A number with 15 digits that count and no more than it needs.
fn shown(number: f64) -> String {
    let mut rounded = String::new();
    let _ = write!(rounded, "{number:.14e}");
    match rounded.parse::<f64>() {
        // Without the sign of a negative zero.
        Ok(0.0) | Err(_) => "0".to_owned(),
        Ok(number) => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_people_write_them() {
        for (number, wanted) in
            [(3.0, "3"), (-0.0, "0"), (0.1 + 0.2, "0.3"), (1e15, "1000000000000000"), (2.5, "2.5")]
        {
            assert_eq!(shown(number), wanted);
        }
    }

    #[test]
    fn a_pattern_is_bounded() {
        assert!(compile("a{1000}{1000}", false).is_err());
        assert!(compile("(", false).is_err());
        assert!(compile("[0-9]+", true).is_ok());
    }
}
