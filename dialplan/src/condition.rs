//! The condition of GotoIf: a text, or an expression `$[ ... ]` of comparisons.
//!
//! Truth is Asterisk's: the empty text and a number that is zero are false, all else is true.
//! Built: `=  !=  <  >  <=  >=  &  |  !` and parentheses; arithmetic, matching (`:`, `=~`) and the
//! conditional (`?::`) are not built yet and refused at load. Operands are split at load, so a
//! value with an operator in it stays a value, and an empty one is no syntax error.

use std::cmp::Ordering;

use crate::template::{RenderFault, Template, Variables};

/// A condition, ready to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A text: false when empty or zero.
    Truth(Template),
    /// `!` of it.
    Not(Box<Condition>),
    /// `&`: both.
    Both(Box<Condition>, Box<Condition>),
    /// `|`: at least one.
    Either(Box<Condition>, Box<Condition>),
    /// A comparison: of numbers if both sides are numbers, else of texts.
    Compare(Comparison, Template, Template),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
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
}

impl Condition {
    /// Whether it holds.
    pub fn holds(&self, vars: &dyn Variables) -> Result<bool, RenderFault> {
        match self {
            Self::Truth(text) => Ok(is_true(&text.rendered(vars)?)),
            Self::Not(inner) => Ok(!inner.holds(vars)?),
            Self::Both(a, b) => Ok(a.holds(vars)? && b.holds(vars)?),
            Self::Either(a, b) => Ok(a.holds(vars)? || b.holds(vars)?),
            Self::Compare(how, a, b) => Ok(how.holds(&a.rendered(vars)?, &b.rendered(vars)?)),
        }
    }
}

impl Comparison {
    fn holds(self, a: &str, b: &str) -> bool {
        let (a, b) = (unquoted(a), unquoted(b));
        let order = match (number(a), number(b)) {
            (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            _ => a.cmp(b),
        };
        match self {
            Self::Equal => order == Ordering::Equal,
            Self::Unequal => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::Greater => order == Ordering::Greater,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
        }
    }
}

fn is_true(text: &str) -> bool {
    let text = unquoted(text.trim());
    !text.is_empty() && number(text) != Some(0.0)
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text)
}

/// A plain decimal number; a value like `inf` or `1e5` is a text.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.bytes().all(|b| b.is_ascii_digit() || b"+-.".contains(&b));
    if digits { text.parse().ok() } else { None }
}
