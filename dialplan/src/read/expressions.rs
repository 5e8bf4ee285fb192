//! Reads expressions `$[ ... ]`. See [`crate::expression`] for the grammar.

use crate::expression::{Expression, Operator, Pattern, compile};
use crate::limits::NESTING_MAX;
use crate::read::args::{Arg, Reading, outside_holes};
use crate::read::templates::nested;
use crate::template::Escape;

/// Reads what stands between `$[` and `]`. `depth`: how deep it may go on.
pub(crate) fn expression(inside: Arg<'_>, depth: usize) -> Reading<Expression> {
    let mut reader = Reader { tokens: tokens(inside)?, at: 0, whole: inside };
    let read = reader.choice(depth)?;
    match reader.next() {
        None => Ok(read),
        Some(token) => Err(token.arg().wrong("an operator is missing before this")),
    }
}

#[derive(Clone, Copy)]
enum Token<'t> {
    Sign(Sign, Arg<'t>),
    /// A quoted text, without its quotes, or a bare one.
    Operand(Arg<'t>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Binary(Operator),
    Not,
    Open,
    Close,
    Question,
    Otherwise,
    /// `:` looks at the start, `=~` anywhere.
    Match {
        is_anchored: bool,
    },
}

impl<'t> Token<'t> {
    fn arg(self) -> Arg<'t> {
        match self {
            Self::Sign(_, arg) | Self::Operand(arg) => arg,
        }
    }
}

/// Longer ones first.
const SIGNS: &[(&str, Sign)] = &[
    ("=~", Sign::Match { is_anchored: false }),
    ("~~", Sign::Binary(Operator::Join)),
    ("::", Sign::Otherwise),
    ("!=", Sign::Binary(Operator::Unequal)),
    ("<=", Sign::Binary(Operator::LessOrEqual)),
    (">=", Sign::Binary(Operator::GreaterOrEqual)),
    ("==", Sign::Binary(Operator::Equal)),
    (":", Sign::Match { is_anchored: true }),
    ("?", Sign::Question),
    ("=", Sign::Binary(Operator::Equal)),
    ("<", Sign::Binary(Operator::Less)),
    (">", Sign::Binary(Operator::Greater)),
    ("|", Sign::Binary(Operator::Or)),
    ("&", Sign::Binary(Operator::And)),
    ("+", Sign::Binary(Operator::Plus)),
    ("-", Sign::Binary(Operator::Minus)),
    ("*", Sign::Binary(Operator::Times)),
    ("/", Sign::Binary(Operator::Divide)),
    ("%", Sign::Binary(Operator::Remainder)),
    ("!", Sign::Not),
    ("(", Sign::Open),
    (")", Sign::Close),
];

fn tokens(arg: Arg<'_>) -> Reading<Vec<Token<'_>>> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut at = 0;
    while let Some(rest) = arg.text.get(at..).filter(|rest| !rest.is_empty()) {
        let blanks = rest.len() - rest.trim_start().len();
        if blanks > 0 {
            at += blanks;
            continue;
        }
        let wants_value = match tokens.last() {
            None => true,
            Some(Token::Sign(sign, _)) => *sign != Sign::Close,
            Some(Token::Operand(_)) => false,
        };
        if let Some((text, sign)) = SIGNS
            .iter()
            .find(|(text, _)| rest.starts_with(text) && !signs_number(rest, text, wants_value))
        {
            tokens.push(Token::Sign(*sign, arg.part(at..at + text.len())));
            at += text.len();
        } else if rest.starts_with([',', '~']) {
            let message = format!("there is no operator `{}`", &rest[..1]);
            return Err(arg.wrong_at(at..at + 1, message));
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let Some(length) = closing_quote(quoted) else {
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

/// The place of the quote that closes a text; one inside `${...}` is none.
fn closing_quote(text: &str) -> Option<usize> {
    outside_holes(text).find(|(_, byte)| *byte == b'"').map(|(at, _)| at)
}

/// A sign directly before a digit, where a value belongs, is the number's.
fn signs_number(rest: &str, sign: &str, wants_value: bool) -> bool {
    wants_value
        && matches!(sign, "+" | "-")
        && rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
}

/// The length of an operand without quotes: up to a blank or an operator, `${...}` and `$[...]`
/// whole.
fn bare_operand(rest: &str) -> usize {
    let ends = |byte: u8| byte.is_ascii_whitespace() || b"\"|&=!<>()+-*/%:?~,".contains(&byte);
    let (mut depth, mut before) = (0_usize, 0);
    for (at, byte) in outside_holes(rest) {
        let is_expression = byte == b'[' && before == b'$';
        before = byte;
        match byte {
            b'[' if is_expression || depth > 0 => depth += 1,
            b']' if depth > 0 => depth -= 1,
            // The first character is an operand's, whatever it is: a sign is decided by then.
            _ if at > 0 && depth == 0 && ends(byte) => return at,
            _ => {}
        }
    }
    rest.len()
}

struct Reader<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    whole: Arg<'t>,
}

/// The binary operators by how tightly they bind, the loosest first.
const LEVELS: &[&[Operator]] = &[
    &[Operator::Or],
    &[Operator::And],
    &[
        Operator::Equal,
        Operator::Unequal,
        Operator::Less,
        Operator::Greater,
        Operator::LessOrEqual,
        Operator::GreaterOrEqual,
    ],
    &[Operator::Plus, Operator::Minus],
    &[Operator::Times, Operator::Divide, Operator::Remainder],
];

impl<'t> Reader<'t> {
    fn next(&mut self) -> Option<Token<'t>> {
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        token
    }

    fn peek(&self) -> Option<(Sign, Arg<'t>)> {
        match self.tokens.get(self.at) {
            Some(Token::Sign(sign, arg)) => Some((*sign, *arg)),
            Some(Token::Operand(_)) | None => None,
        }
    }

    /// Steps over that sign.
    fn takes(&mut self, wanted: Sign) -> Option<Arg<'t>> {
        let (sign, arg) = self.peek()?;
        (sign == wanted).then(|| {
            self.at += 1;
            arg
        })
    }

    fn choice(&mut self, depth: usize) -> Reading<Expression> {
        let condition = self.binary(0, depth)?;
        let Some(question) = self.takes(Sign::Question) else { return Ok(condition) };
        let deeper = self.deeper(question, depth)?;
        let yes = self.choice(deeper)?;
        if self.takes(Sign::Otherwise).is_none() {
            return Err(question.wrong("`?` needs a `::` and what holds otherwise"));
        }
        let no = self.choice(deeper)?;
        Ok(Expression::Choice(Box::new([condition, yes, no])))
    }

    fn binary(&mut self, level: usize, depth: usize) -> Reading<Expression> {
        let Some(operators) = LEVELS.get(level) else { return self.unary(depth) };
        let mut left = self.binary(level + 1, depth)?;
        while let Some((Sign::Binary(operator), _)) = self.peek() {
            if !operators.contains(&operator) {
                break;
            }
            self.at += 1;
            let right = self.binary(level + 1, depth)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn unary(&mut self, depth: usize) -> Reading<Expression> {
        if let Some(sign) = self.takes(Sign::Not) {
            let depth = self.deeper(sign, depth)?;
            return Ok(Expression::Not(Box::new(self.unary(depth)?)));
        }
        if let Some(sign) = self.takes(Sign::Binary(Operator::Minus)) {
            let depth = self.deeper(sign, depth)?;
            return Ok(Expression::Negative(Box::new(self.unary(depth)?)));
        }
        self.matched(depth)
    }

    fn matched(&mut self, depth: usize) -> Reading<Expression> {
        let mut left = self.operand(depth)?;
        loop {
            match self.peek() {
                Some((Sign::Match { is_anchored }, _)) => {
                    self.at += 1;
                    let place = self.tokens.get(self.at).map_or(self.whole, |token| token.arg());
                    let pattern = pattern(self.operand(depth)?, place, is_anchored)?;
                    left = Expression::Match(Box::new(left), pattern);
                }
                Some((Sign::Binary(Operator::Join), _)) => {
                    self.at += 1;
                    let right = self.operand(depth)?;
                    left = Expression::Binary(Operator::Join, Box::new(left), Box::new(right));
                }
                Some(_) | None => return Ok(left),
            }
        }
    }

    fn operand(&mut self, depth: usize) -> Reading<Expression> {
        let Some(token) = self.next() else {
            let end = self.whole.text.len();
            let message = "the expression ends where a value belongs";
            return Err(self.whole.wrong_at(end..end, message));
        };
        let depth = self.deeper(token.arg(), depth)?;
        match token {
            Token::Operand(arg) => nested(arg, Escape::Plain, depth).map(Expression::Value),
            Token::Sign(Sign::Open, open) => {
                let inner = self.choice(depth)?;
                if self.takes(Sign::Close).is_none() {
                    return Err(open.wrong("`(` is not closed: `)` is missing"));
                }
                Ok(inner)
            }
            Token::Sign(_, arg) => Err(arg.wrong("a value belongs before this operator")),
        }
    }

    fn deeper(&self, at: Arg<'t>, depth: usize) -> Reading<usize> {
        let message = format!("expressions nest {NESTING_MAX} deep at most");
        depth.checked_sub(1).ok_or_else(|| at.wrong(message))
    }
}

fn pattern(read: Expression, place: Arg<'_>, is_anchored: bool) -> Reading<Pattern> {
    let text = if let Expression::Value(text) = &read { text.as_fixed() } else { None };
    let fixed = text.map(str::to_owned);
    match fixed {
        Some(text) => match compile(&text, is_anchored) {
            Ok(regex) => Ok(Pattern::Fixed { text: text.into(), is_anchored, regex }),
            Err(why) => Err(place.wrong(format!("this is no pattern: {why}"))),
        },
        None => Ok(Pattern::Computed { text: Box::new(read), is_anchored }),
    }
}
