//! Reads the condition of GotoIf. The grammar, loosest first: `|`, `&`, one comparison, `!`.

use crate::condition::{Comparison, Condition};
use crate::limits::NESTING_MAX;
use crate::read::args::{Arg, Reading};
use crate::read::templates::template;
use crate::template::Template;

/// Reads a text or `$[ ... ]`.
pub(crate) fn condition(arg: Arg<'_>) -> Reading<Condition> {
    let Some(inside) = arg.text.strip_prefix("$[") else {
        return template(arg).map(Condition::Truth);
    };
    if !inside.ends_with(']') {
        return Err(arg.wrong("`$[` is not closed: `]` is missing at the end of the condition"));
    }
    let inside = arg.part(2..arg.text.len() - 1);
    let mut reader = Reader { tokens: tokens(inside)?, at: 0, whole: inside };
    let read = reader.either(NESTING_MAX)?.into_condition();
    match reader.next() {
        None => Ok(read),
        Some(token) => Err(token.arg().wrong("an operator is missing before this")),
    }
}

#[derive(Clone, Copy)]
enum Token<'t> {
    Operator(Operator, Arg<'t>),
    /// A quoted text, without its quotes, or a bare one.
    Operand(Arg<'t>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Not,
    Open,
    Close,
    Compare(Comparison),
}

impl<'t> Token<'t> {
    fn arg(self) -> Arg<'t> {
        match self {
            Self::Operator(_, arg) | Self::Operand(arg) => arg,
        }
    }
}

/// Longer ones first.
const OPERATORS: &[(&str, Operator)] = &[
    ("!=", Operator::Compare(Comparison::Unequal)),
    ("<=", Operator::Compare(Comparison::LessOrEqual)),
    (">=", Operator::Compare(Comparison::GreaterOrEqual)),
    ("==", Operator::Compare(Comparison::Equal)),
    ("=", Operator::Compare(Comparison::Equal)),
    ("<", Operator::Compare(Comparison::Less)),
    (">", Operator::Compare(Comparison::Greater)),
    ("|", Operator::Or),
    ("&", Operator::And),
    ("!", Operator::Not),
    ("(", Operator::Open),
    (")", Operator::Close),
];

/// Operators of Asterisk that are not built. Longer ones first.
const UNBUILT: &[&str] = &["=~", "~~", "::", ":", "?", "+", "-", "*", "/", "%", "~", ","];

fn tokens(arg: Arg<'_>) -> Reading<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = arg.text.get(at..).filter(|rest| !rest.is_empty()) {
        let blanks = rest.len() - rest.trim_start().len();
        if blanks > 0 {
            at += blanks;
        } else if let Some(sign) = UNBUILT.iter().find(|s| starts_unbuilt(rest, s)) {
            let message = format!("the operator `{sign}` is not built yet");
            return Err(arg.wrong_at(at..at + sign.len(), message));
        } else if let Some((sign, operator)) = OPERATORS.iter().find(|o| rest.starts_with(o.0)) {
            tokens.push(Token::Operator(*operator, arg.part(at..at + sign.len())));
            at += sign.len();
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let Some(length) = quoted.find('"') else {
                return Err(arg.wrong_at(at..at + 1, "the quote is not closed"));
            };
            tokens.push(Token::Operand(arg.part(at + 1..at + 1 + length)));
            at += length + 2;
        } else {
            let length = bare_operand(rest);
            tokens.push(Token::Operand(arg.part(at..at + length)));
            at += length;
        }
    }
    Ok(tokens)
}

/// A sign directly before a digit belongs to the number.
fn starts_unbuilt(rest: &str, sign: &str) -> bool {
    let signs_a_number =
        matches!(sign, "+" | "-") && rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    rest.starts_with(sign) && !signs_a_number
}

/// The length of an operand without quotes: up to a blank or an operator, `${...}` whole.
fn bare_operand(rest: &str) -> usize {
    let ends = |byte: u8| byte.is_ascii_whitespace() || b"\"|&=!<>()+-*/%:?~,".contains(&byte);
    // The first character is an operand's, whatever it is: a sign is decided by then.
    crate::read::args::outside_holes(rest)
        .find(|(at, byte)| *at > 0 && ends(*byte))
        .map_or(rest.len(), |(at, _)| at)
}

struct Reader<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    whole: Arg<'t>,
}

enum Term {
    Value(Template),
    Truth(Condition),
}

impl Term {
    fn into_condition(self) -> Condition {
        match self {
            Self::Value(text) => Condition::Truth(text),
            Self::Truth(condition) => condition,
        }
    }
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Option<Token<'t>> {
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        token
    }

    /// Steps over the next token if `wanted` takes it.
    fn taken<T>(&mut self, wanted: impl Fn(Operator) -> Option<T>) -> Option<(T, Arg<'t>)> {
        let Some(Token::Operator(operator, arg)) = self.tokens.get(self.at).copied() else {
            return None;
        };
        let found = wanted(operator)?;
        self.at += 1;
        Some((found, arg))
    }

    fn is(wanted: Operator) -> impl Fn(Operator) -> Option<()> {
        move |operator| (operator == wanted).then_some(())
    }

    fn either(&mut self, depth: usize) -> Reading<Term> {
        let mut left = self.both(depth)?;
        while self.taken(Self::is(Operator::Or)).is_some() {
            let right = self.both(depth)?.into_condition();
            left = Term::Truth(Condition::Either(Box::new(left.into_condition()), Box::new(right)));
        }
        Ok(left)
    }

    fn both(&mut self, depth: usize) -> Reading<Term> {
        let mut left = self.compared(depth)?;
        while self.taken(Self::is(Operator::And)).is_some() {
            let right = self.compared(depth)?.into_condition();
            left = Term::Truth(Condition::Both(Box::new(left.into_condition()), Box::new(right)));
        }
        Ok(left)
    }

    fn compared(&mut self, depth: usize) -> Reading<Term> {
        let left = self.term(depth)?;
        let comparison = |operator| match operator {
            Operator::Compare(how) => Some(how),
            Operator::Or | Operator::And | Operator::Not | Operator::Open | Operator::Close => None,
        };
        let Some((how, sign)) = self.taken(comparison) else { return Ok(left) };
        let right = self.term(depth)?;
        if let Some((_, again)) = self.taken(comparison) {
            return Err(again.wrong("comparing the result of a comparison is not built yet"));
        }
        match (left, right) {
            (Term::Value(left), Term::Value(right)) => {
                Ok(Term::Truth(Condition::Compare(how, left, right)))
            }
            (Term::Truth(_), _) | (_, Term::Truth(_)) => {
                Err(sign.wrong("comparing the result of a condition is not built yet"))
            }
        }
    }

    fn term(&mut self, depth: usize) -> Reading<Term> {
        let Some(token) = self.next() else {
            let end = self.whole.text.len();
            return Err(self.whole.wrong_at(end..end, "the condition ends where a value belongs"));
        };
        if depth == 0 {
            return Err(token.arg().wrong(format!("conditions nest {NESTING_MAX} deep at most")));
        }
        match token {
            Token::Operand(arg) => template(arg).map(Term::Value),
            Token::Operator(Operator::Not, _) => {
                let inner = self.term(depth - 1)?.into_condition();
                Ok(Term::Truth(Condition::Not(Box::new(inner))))
            }
            Token::Operator(Operator::Open, open) => {
                let inner = self.either(depth - 1)?;
                if self.taken(Self::is(Operator::Close)).is_none() {
                    return Err(open.wrong("`(` is not closed: `)` is missing"));
                }
                Ok(inner)
            }
            Token::Operator(_, arg) => Err(arg.wrong("a value belongs before this operator")),
        }
    }
}
