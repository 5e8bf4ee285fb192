//! One pattern of an extension: what it matches, and which of two comes first.
//!
//! `_` starts a pattern. Then, position by position: `X` 0-9, `Z` 1-9, `N` 2-9 (either case),
//! `[1235-9a-c]` a set, anything else itself. At the end `.` is one or more characters, `!` none
//! or more. `-` and blanks are for the eye and skipped, as `-` is in a dialled number.
//!
//! The order is Asterisk's (its `dialplan show` was asked): position by position, the smaller set
//! first; sets of one size by their characters, the one with the lower character where they first
//! differ comes first (`[125]` before `[134]`); `.` after all sets, `!` after `.`, the end of the
//! pattern last.

use std::cmp::Reverse;
use std::ops::Range;

use smallvec::SmallVec;

/// What is wrong where in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) at: Range<usize>,
    pub(crate) message: String,
}

impl Wrong {
    pub(crate) fn new(at: Range<usize>, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// A set of ASCII characters. The lowest character is the highest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set(u128);

impl Set {
    pub(crate) fn empty() -> Self {
        Self(0)
    }

    pub(crate) fn of(byte: u8) -> Self {
        if byte.is_ascii() { Self(1 << (127 - byte)) } else { Self(0) }
    }

    fn range(from: u8, to: u8) -> Self {
        (from..=to).fold(Self::empty(), Self::with)
    }

    fn with(self, byte: u8) -> Self {
        Self(self.0 | Self::of(byte).0)
    }

    pub(crate) fn contains(self, byte: u8) -> bool {
        self.0 & Self::of(byte).0 != 0
    }

    pub(crate) fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Size, then the lower characters first: they are the higher bits.
    fn rank(self) -> (u32, Reverse<u128>) {
        (self.len(), Reverse(self.0))
    }
}

impl PartialOrd for Set {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Set {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// One position of a pattern, in Asterisk's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Position {
    Set(Set),
    Dot,
    Bang,
    End,
}

/// A pattern; the last position is `Dot`, `Bang` or `End`. Comparing two is Asterisk's order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pattern {
    pub(crate) positions: Box<[Position]>,
}

impl Pattern {
    /// Reads what stands behind the `_`. Places in a fault count from there.
    pub(crate) fn parse(text: &str) -> Result<Self, Wrong> {
        let bytes = text.as_bytes();
        let mut positions = Vec::new();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let mut next = at + 1;
            match byte {
                b'-' | b' ' => {}
                b'X' | b'x' => positions.push(Position::Set(Set::range(b'0', b'9'))),
                b'Z' | b'z' => positions.push(Position::Set(Set::range(b'1', b'9'))),
                b'N' | b'n' => positions.push(Position::Set(Set::range(b'2', b'9'))),
                b'[' => {
                    let (set, end) = parse_set(text, at)?;
                    positions.push(Position::Set(set));
                    next = end;
                }
                b'.' | b'!' => return Self::parse_tail(text, at, positions),
                b']' => return Err(Wrong::new(at..next, "`]` closes no set")),
                b'/' => return Err(Wrong::new(at..next, SLASH)),
                _ if !byte.is_ascii() => return Err(not_ascii(text, at)),
                _ => positions.push(Position::Set(Set::of(byte))),
            }
            at = next;
        }
        if positions.is_empty() {
            return Err(Wrong::new(0..text.len(), "the pattern is empty"));
        }
        positions.push(Position::End);
        Ok(Self { positions: positions.into() })
    }

    fn parse_tail(text: &str, at: usize, mut positions: Vec<Position>) -> Result<Self, Wrong> {
        let dot = text.as_bytes().get(at) == Some(&b'.');
        if at + 1 < text.len() {
            let sign = if dot { '.' } else { '!' };
            let message = format!("nothing may follow `{sign}`, it stands for the whole rest");
            return Err(Wrong::new(at + 1..text.len(), message));
        }
        positions.push(if dot { Position::Dot } else { Position::Bang });
        Ok(Self { positions: positions.into() })
    }

    /// Whether a whole number (without `-`) matches.
    pub(crate) fn matches(&self, number: &[u8]) -> bool {
        let mut rest = number;
        for position in &self.positions {
            match position {
                Position::Set(set) => match rest.split_first() {
                    Some((byte, tail)) if set.contains(*byte) => rest = tail,
                    _ => return false,
                },
                Position::Dot => return !rest.is_empty(),
                Position::Bang => return true,
                Position::End => return rest.is_empty(),
            }
        }
        false
    }

    /// In words, why a number (without `-`) does not match; `None` when it does.
    pub(crate) fn refusal(&self, number: &[u8]) -> Option<String> {
        for (at, position) in self.positions.iter().enumerate() {
            let nth = at + 1;
            match (position, number.get(at)) {
                (Position::Set(set), Some(byte)) if set.contains(*byte) => {}
                (Position::Set(_), Some(byte)) => {
                    let shown = char::from(*byte).escape_default();
                    return Some(format!("position {nth} does not take '{shown}'"));
                }
                (Position::Set(_), None) => {
                    return Some(format!("the number ends before position {nth}"));
                }
                (Position::Dot, None) => return Some("`.` needs one more character".to_owned()),
                (Position::End, Some(_)) => {
                    return Some(format!("the number goes on behind position {at}"));
                }
                (Position::Dot, Some(_)) | (Position::Bang, _) | (Position::End, None) => {
                    return None;
                }
            }
        }
        None
    }
}

/// What is said to a `/` in the style of extensions.conf.
pub(crate) const SLASH: &str = "a `/` cannot be dialled here; for a match on the caller's number \
                                write caller = \"...\" beside match";

fn not_ascii(text: &str, at: usize) -> Wrong {
    let length = text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
    Wrong::new(at..at + length, "a pattern holds ASCII characters only")
}

/// Reads `[...]` that starts at `open`; gives the set and the place behind it.
fn parse_set(text: &str, open: usize) -> Result<(Set, usize), Wrong> {
    let Some(length) = text[open..].find(']') else {
        return Err(Wrong::new(open..open + 1, "the set is not closed: `]` is missing"));
    };
    let close = open + length;
    let bytes = text.as_bytes();
    let mut set = Set::empty();
    let mut at = open + 1;
    while at < close {
        let from = bytes[at];
        if !from.is_ascii() {
            return Err(not_ascii(text, at));
        }
        if at + 2 < close && bytes[at + 1] == b'-' {
            let to = bytes[at + 2];
            if !to.is_ascii() {
                return Err(not_ascii(text, at + 2));
            }
            if to < from {
                return Err(Wrong::new(at..at + 3, "the range runs backwards"));
            }
            set = Set(set.0 | Set::range(from, to).0);
            at += 3;
        } else {
            set = set.with(from);
            at += 1;
        }
    }
    if set.len() == 0 {
        return Err(Wrong::new(open..close + 1, "the set is empty"));
    }
    Ok((set, close + 1))
}

/// A number without its `-`, which are for the eye only.
pub(crate) fn bare(number: &str) -> SmallVec<[u8; 64]> {
    number.bytes().filter(|byte| *byte != b'-').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text.strip_prefix('_').unwrap()).unwrap()
    }

    #[test]
    fn classes_are_digits_in_either_case() {
        for (class, digits) in [("X", "0123456789"), ("Z", "123456789"), ("N", "23456789")] {
            for byte in 0..=255_u8 {
                let wanted = digits.as_bytes().contains(&byte);
                for text in [format!("_{class}"), format!("_{}", class.to_lowercase())] {
                    assert_eq!(pattern(&text).matches(&[byte]), wanted, "{text} {byte}");
                }
            }
        }
    }

    #[test]
    fn dp05_a_dot_needs_one_more_character_and_a_bang_none() {
        assert!(!pattern("_9.").matches(b"9"));
        assert!(pattern("_9.").matches(b"91"));
        assert!(pattern("_9!").matches(b"9"));
        assert!(pattern("_9!").matches(b"91"));
        assert!(pattern("_!").matches(b""));
    }

    #[test]
    fn dashes_and_blanks_in_a_pattern_are_for_the_eye() {
        assert_eq!(pattern("_NXX-XXXX"), pattern("_NXXXXXX"));
        assert_eq!(pattern("_0 800 X"), pattern("_0800X"));
    }

    #[test]
    fn a_set_of_one_is_that_character_and_ranges_count_once() {
        assert_eq!(pattern("_[6]"), pattern("_6"));
        assert_eq!(pattern("_[2-9]"), pattern("_N"));
        assert_eq!(pattern("_[2-95-6]"), pattern("_N"));
    }

    #[test]
    fn the_order_is_what_asterisk_22_shows() {
        let shown = [
            "_4X", "_5", "_640X", "_64NX", "_64XX", "_6[34]NX", "_6[45]NX", "_6XX1", "_6.", "_9X",
            "_9.", "_9!", "_9", "_[12]", "_[13]", "_[17]", "_[18]", "_[19]", "_[1a]", "_[1b]",
            "_[24]", "_[125]", "_[128]", "_[134]", "_[189]", "_[12345]", "_[12349]", "_[1-4a]",
            "_[1235a]", "_[15678]", "_N", "_Z", "_X", "_.", "_!",
        ];
        for turn in 0..shown.len() {
            let mut sorted = shown;
            sorted.rotate_left(turn);
            sorted.sort_by_key(|text| pattern(text));
            assert_eq!(sorted, shown);
        }
    }

    #[test]
    fn the_end_of_a_pattern_comes_after_all_else() {
        assert!(pattern("_9!") < pattern("_9"));
        assert!(pattern("_9.") < pattern("_9!"));
        assert!(pattern("_9X") < pattern("_9."));
    }

    #[test]
    fn every_fault_of_a_pattern_has_its_place() {
        let cases = [
            ("", 0..0, "the pattern is empty"),
            ("--", 0..2, "the pattern is empty"),
            ("1[23", 1..2, "the set is not closed: `]` is missing"),
            ("1[]", 1..3, "the set is empty"),
            ("1[9-2]", 2..5, "the range runs backwards"),
            ("12]", 2..3, "`]` closes no set"),
            ("1.2", 2..3, "nothing may follow `.`, it stands for the whole rest"),
            ("1!-", 2..3, "nothing may follow `!`, it stands for the whole rest"),
            ("1ä", 1..3, "a pattern holds ASCII characters only"),
            ("[1-ä]", 3..5, "a pattern holds ASCII characters only"),
            ("1/2", 1..2, SLASH),
        ];
        for (text, at, message) in cases {
            assert_eq!(Pattern::parse(text), Err(Wrong::new(at, message)), "{text}");
        }
    }
}
