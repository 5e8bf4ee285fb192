//! Comma lists (RFC 3261 7.3.1): split outside quotes and angle brackets.
//!
//! Not for WWW-Authenticate, Authorization and their Proxy kin, nor for Date: their commas
//! separate something else.

use super::scan;

/// The values of one header line.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Values<'a> {
    /// Splits this header value.
    pub fn new(value: &'a [u8]) -> Self {
        Self { rest: Some(value) }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    /// Empty values (`a,,b`, or an empty header) are skipped.
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let rest = self.rest?;
            let end = end_of_value(rest);
            self.rest = rest.get(end + 1..);
            let value = scan::trim(&rest[..end]);
            if !value.is_empty() {
                return Some(value);
            }
        }
    }
}

/// The first comma outside quotes and angle brackets. An opened quote or bracket without an end
/// reaches to the end.
pub(crate) fn end_of_value(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = memchr::memchr3(b',', b'"', b'<', &text[at..]) {
        at += found;
        let end = match text[at] {
            b',' => return at,
            b'"' => scan::quoted_end(text, at),
            _ => memchr::memchr(b'>', &text[at..]).map(|i| at + i + 1),
        };
        match end {
            Some(end) => at = end,
            None => break,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &[u8]) -> Vec<&[u8]> {
        Values::new(text).collect()
    }

    #[test]
    fn commas_inside_quotes_and_brackets_do_not_split() {
        assert_eq!(
            split(b"\"Bell, A\" <sip:a,b@c>;q=\"1,2\" , <sip:d>,sip:e"),
            [&b"\"Bell, A\" <sip:a,b@c>;q=\"1,2\""[..], b"<sip:d>", b"sip:e"]
        );
    }

    #[test]
    fn empty_values_are_skipped() {
        assert_eq!(split(b""), [b""; 0]);
        assert_eq!(split(b" ,, a ,"), [b"a"]);
    }

    #[test]
    fn an_open_quote_swallows_the_rest() {
        assert_eq!(split(b"a, \"b, c"), [&b"a"[..], b"\"b, c"]);
    }
}
