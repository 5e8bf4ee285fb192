//! Pieces of a step's text, each with its place, and how they are split.

use std::ops::Range;

use crate::pattern::Wrong;

/// A piece of text with its place: which string of the step, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arg<'t> {
    pub(crate) text: &'t str,
    /// Which of the step's strings (0 for a step that is one string).
    pub(crate) piece: usize,
    /// Where in that string.
    pub(crate) at: usize,
}

/// What is wrong in which string of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misread {
    pub(crate) piece: usize,
    pub(crate) wrong: Wrong,
}

pub(crate) type Reading<T> = Result<T, Misread>;

impl<'t> Arg<'t> {
    pub(crate) fn new(text: &'t str, piece: usize) -> Self {
        Self { text, piece, at: 0 }
    }

    /// A part of it.
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        let text = self.text.get(range.clone()).unwrap_or_default();
        Self { text, piece: self.piece, at: self.at + range.start }
    }

    pub(crate) fn from(self, start: usize) -> Self {
        self.part(start..self.text.len())
    }

    pub(crate) fn to(self, end: usize) -> Self {
        self.part(0..end)
    }

    pub(crate) fn trimmed(self) -> Self {
        let start = self.text.len() - self.text.trim_start().len();
        let length = self.text.trim().len();
        self.part(start..start + length)
    }

    /// A fault at all of it.
    pub(crate) fn wrong(self, message: impl Into<String>) -> Misread {
        self.wrong_at(0..self.text.len(), message)
    }

    /// A fault at a part of it.
    pub(crate) fn wrong_at(self, range: Range<usize>, message: impl Into<String>) -> Misread {
        let at = self.at + range.start..self.at + range.end;
        Misread { piece: self.piece, wrong: Wrong::new(at, message) }
    }
}

/// The places of those bytes of `text` that `wanted` picks and that stand at the top level: not
/// inside `${}`, `$[]`, parentheses or quotes, and not behind a backslash.
pub(crate) fn top_level(text: &str, wanted: impl Fn(u8) -> bool) -> impl Iterator<Item = usize> {
    let mut closers: Vec<u8> = Vec::new();
    let mut quoted = false;
    let mut skip = false;
    text.bytes().enumerate().filter_map(move |(at, byte)| {
        if skip {
            skip = false;
            return None;
        }
        let after_dollar = at > 0 && text.as_bytes()[at - 1] == b'$';
        match byte {
            b'\\' => {
                skip = true;
                return None;
            }
            b'"' => quoted = !quoted,
            b'{' if after_dollar => closers.push(b'}'),
            b'[' if after_dollar => closers.push(b']'),
            _ if quoted && closers.is_empty() => {}
            b'(' => closers.push(b')'),
            _ if closers.last() == Some(&byte) => {
                closers.pop();
                return None;
            }
            _ => {}
        }
        (!quoted && closers.is_empty() && wanted(byte)).then_some(at)
    })
}

/// Splits at every top-level `separator`, into at most `limit` pieces; blanks around a piece go.
pub(crate) fn split(arg: Arg<'_>, separator: u8, limit: usize) -> Vec<Arg<'_>> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for at in top_level(arg.text, |byte| byte == separator) {
        if pieces.len() + 1 == limit {
            break;
        }
        pieces.push(arg.part(start..at).trimmed());
        start = at + 1;
    }
    pieces.push(arg.from(start).trimmed());
    pieces
}

/// The bytes that stand outside `${...}` and not behind a backslash, with their places.
pub(crate) fn outside_holes(text: &str) -> impl Iterator<Item = (usize, u8)> {
    let (mut depth, mut skip, mut dollar) = (0_usize, false, false);
    text.bytes().enumerate().filter_map(move |(at, byte)| {
        let after_dollar = std::mem::replace(&mut dollar, byte == b'$' && !skip);
        if std::mem::take(&mut skip) {
            return None;
        }
        match byte {
            b'\\' => skip = true,
            b'{' if after_dollar => depth += 1,
            b'}' if depth > 0 => {
                depth -= 1;
                return None;
            }
            _ => {}
        }
        (depth == 0 && !skip).then_some((at, byte))
    })
}

/// The place of the first such byte.
pub(crate) fn find_outside(text: &str, wanted: u8) -> Option<usize> {
    outside_holes(text).find(|(_, byte)| *byte == wanted).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, separator: u8, limit: usize) -> Vec<&str> {
        split(Arg::new(text, 0), separator, limit).iter().map(|arg| arg.text).collect()
    }

    #[test]
    fn splits_at_the_top_level_only() {
        assert_eq!(texts("a, b ,c", b',', 9), ["a", "b", "c"]);
        assert_eq!(texts("${A:1,2},(x,y),\"p,q\",z\\,z", b',', 9).len(), 4);
        assert_eq!(texts("a,b,c", b',', 2), ["a", "b,c"]);
        assert_eq!(texts("", b',', 9), [""]);
    }

    #[test]
    fn a_piece_knows_its_place() {
        let pieces = split(Arg::new("ab, cd", 3), b',', 9);
        assert_eq!((pieces[1].piece, pieces[1].at), (3, 4));
    }

    #[test]
    fn a_variable_in_quotes_keeps_its_colon() {
        let text = "\"${A:1}\"=\"x:y\"?a:b";
        let colons: Vec<usize> = top_level(text, |byte| byte == b':').collect();
        assert_eq!(colons.len(), 1);
        assert_eq!(&text[colons[0]..], ":b");
    }
}
