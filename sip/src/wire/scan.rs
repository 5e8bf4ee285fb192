//! Bytes, classes and spans: what all parsers of this folder stand on (RFC 3261 25.1).

/// A range of a message. 32 bits are enough: a message is at most [`super::MESSAGE_BYTES_MAX`]
/// long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { start: narrow(start), end: narrow(end) }
    }

    /// Where `part`, a piece of `whole`, lies in it.
    pub(crate) fn of(whole: &[u8], part: &[u8]) -> Self {
        let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        debug_assert!(start + part.len() <= whole.len(), "part is a piece of whole");
        Self::new(start, start + part.len())
    }

    /// The bytes; nothing when the span does not belong to this message.
    pub(crate) fn in_bytes(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

const TOKEN: u8 = 1;
const HOST: u8 = 2;
const URI: u8 = 4;
const VALUE: u8 = 8;

/// One look-up per byte instead of a chain of comparisons.
static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        let is_alphanumeric = b.is_ascii_alphanumeric();
        let mut class = 0;
        if is_alphanumeric
            || matches!(b, b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~')
        {
            class |= TOKEN;
        }
        // The underscore is no part of a host name, but names of hosts in the field have it.
        if is_alphanumeric || matches!(b, b'-' | b'.' | b'_') {
            class |= HOST;
        }
        if b > 0x20 && b != 0x7f && !matches!(b, b'<' | b'>' | b'"') {
            class |= URI;
        }
        if class & URI != 0 && !matches!(b, b';' | b',') {
            class |= VALUE;
        }
        table[i] = class;
        i += 1;
    }
    table
}

pub(crate) fn is_token_byte(b: u8) -> bool {
    CLASS[b as usize] & TOKEN != 0
}

pub(crate) fn is_host_byte(b: u8) -> bool {
    CLASS[b as usize] & HOST != 0
}

/// Anything but white space, controls and the delimiters `<`, `>`, `"`. Bytes from 0x80 pass: raw
/// UTF-8 in a user part is against the grammar but does no harm, and the grammar is checked by
/// whoever needs the parts of the URI.
pub(crate) fn is_uri_byte(b: u8) -> bool {
    CLASS[b as usize] & URI != 0
}

/// What may stand in a parameter's unquoted value; wider than the grammar (see the table in
/// [`super`]).
pub(crate) fn is_value_byte(b: u8) -> bool {
    CLASS[b as usize] & VALUE != 0
}

/// White space inside a header value: a fold is white space too.
pub(crate) fn is_lws(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_lws(*first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && is_lws(*last)
    {
        text = rest;
    }
    text
}

/// Where the header line that begins at `from` ends, with its line end and all lines that go on
/// with it (RFC 3261 7.3.1: those begin with white space). `None` if no line end follows.
pub(crate) fn line_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr::memchr(b'\n', &bytes[at..])? + 1;
        if !matches!(bytes.get(at), Some(b' ' | b'\t')) {
            return Some(at);
        }
    }
}

/// A decimal number of any length with any leading zeros; `None` when empty, with other bytes, or
/// above 2^32 - 1.
pub(crate) fn decimal(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u32, |sum, b| {
        let digit = b.checked_sub(b'0').filter(|d| *d < 10)?;
        sum.checked_mul(10)?.checked_add(u32::from(digit))
    })
}

/// Where the quoted string that begins at `open` ends (just behind the closing quote).
pub(crate) fn quoted_end(text: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Reads a text from left to right.
pub(crate) struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_done(&self) -> bool {
        self.at >= self.text.len()
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    /// Takes this byte if it is the next one.
    pub(crate) fn eat(&mut self, b: u8) -> bool {
        let is_next = self.peek() == Some(b);
        self.at += usize::from(is_next);
        is_next
    }

    pub(crate) fn skip(&mut self, count: usize) {
        self.at = (self.at + count).min(self.text.len());
    }

    pub(crate) fn skip_lws(&mut self) {
        self.take_while(is_lws);
    }

    pub(crate) fn take_while(&mut self, is_wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let start = self.at;
        while let Some(&b) = self.text.get(self.at)
            && is_wanted(b)
        {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    pub(crate) fn token(&mut self) -> &'a [u8] {
        self.take_while(is_token_byte)
    }

    pub(crate) fn digits(&mut self) -> &'a [u8] {
        self.take_while(|b| b.is_ascii_digit())
    }

    /// Takes a quoted string with its quotes; the next byte is the opening quote.
    pub(crate) fn quoted(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        self.at = quoted_end(self.text, start)?;
        Some(&self.text[start..self.at])
    }
}
