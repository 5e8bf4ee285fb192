//! `%HH` escapes of URIs (RFC 3261 19.1.1, RFC 3986 2.1).
//!
//! Unescaped text is **data**: it may hold CR, LF, NUL or any other byte. Whoever writes it into a
//! message again goes through [`escape_user`].

/// Appends `text` with its escapes replaced. What only looks like an escape stays as it is.
pub fn unescape(text: &[u8], out: &mut Vec<u8>) {
    out.extend(Unescaped(text).map(|(b, _)| b));
}

/// Appends `text` so that it can stand as the user part of a sip URI: every byte outside the
/// unreserved set and RFC 3261's user-unreserved becomes `%HH`.
pub fn escape_user(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &b in text {
        if is_user_byte(b) {
            out.push(b);
        } else {
            out.extend([b'%', HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]);
        }
    }
}

fn is_user_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_.!~*'()&=+$,;?/".contains(&b)
}

/// The bytes of a text with escapes; the flag says that the byte was escaped.
pub(crate) struct Unescaped<'a>(pub(crate) &'a [u8]);

impl Iterator for Unescaped<'_> {
    type Item = (u8, bool);

    fn next(&mut self) -> Option<(u8, bool)> {
        match self.0 {
            [] => None,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                self.0 = rest;
                Some((nibble(*high) << 4 | nibble(*low), true))
            }
            [b, rest @ ..] => {
                self.0 = rest;
                Some((*b, false))
            }
        }
    }
}

fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A') + 10,
    }
}

/// Is the escaped text this plain one, in any case?
pub(crate) fn eq_unescaped(escaped: &[u8], plain: &[u8]) -> bool {
    Unescaped(escaped)
        .map(|(b, _)| b.to_ascii_lowercase())
        .eq(plain.iter().map(u8::to_ascii_lowercase))
}

/// The place of the first `%` without two hexadecimal digits.
pub(crate) fn bad_escape(text: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'%', text).find(|&at| {
        let digits = text.get(at + 1..at + 3);
        !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        unescape(text, &mut out);
        out
    }

    #[test]
    fn escapes_become_bytes_and_the_rest_stays() {
        assert_eq!(plain(b"I%20have%20spaces"), b"I have spaces");
        assert_eq!(plain(b"null-%00-null"), b"null-\0-null");
        assert_eq!(plain(b"%25%34%31"), b"%41");
        assert_eq!(plain(b"%Z%4"), b"%Z%4");
        assert_eq!(plain(b"%0d%0A"), b"\r\n");
        assert_eq!(bad_escape(b"a%20b%Zc"), Some(5));
        assert_eq!(bad_escape(b"a%2"), Some(1));
        assert_eq!(bad_escape(b"a%20"), None);
    }

    #[test]
    fn escaping_a_user_part_survives_unescaping() {
        let every: Vec<u8> = (0..=255).collect();
        let mut escaped = Vec::new();
        escape_user(&every, &mut escaped);
        assert!(escaped.iter().all(|&b| is_user_byte(b) || b == b'%'));
        assert_eq!(plain(&escaped), every);
    }
}
