//! The fields of a challenge or of credentials: `Digest name=value, name="value"`.

use std::borrow::Cow;

use crate::wire::{unfold, unquote};

/// Fields that are read; more make the whole thing unreadable.
const FIELDS_MAX: usize = 32;

/// The fields of one header field value of scheme Digest, not looked at yet.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    text: &'a [u8],
}

impl<'a> Fields<'a> {
    /// `None`: another scheme.
    pub fn of(value: &'a [u8]) -> Option<Self> {
        let end = value.iter().position(|byte| is_blank(*byte))?;
        let (scheme, text) = value.split_at(end);
        scheme.eq_ignore_ascii_case(b"Digest").then_some(Self { text })
    }

    /// The fields in order: names as written, values with their quotes. `Err` at the first thing
    /// that is no field.
    pub fn iter(&self) -> impl Iterator<Item = Result<(&'a [u8], &'a [u8]), Unreadable>> + use<'a> {
        let mut rest = self.text;
        let mut count = 0;
        std::iter::from_fn(move || {
            rest = skip(rest);
            if rest.is_empty() {
                return None;
            }
            count += 1;
            let taken = if count > FIELDS_MAX { None } else { take(rest) };
            match taken {
                Some((name, value, left)) => {
                    rest = left;
                    Some(Ok((name, value)))
                }
                None => {
                    rest = b"";
                    Some(Err(Unreadable))
                }
            }
        })
    }
}

/// It is not what a digest looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// The value without its quotes, and without the backslashes in it.
pub(super) fn plain(value: &[u8]) -> Cow<'_, [u8]> {
    match bare(value) {
        inner if !inner.contains(&b'\\') => Cow::Borrowed(inner),
        _ => {
            let mut out = Vec::with_capacity(value.len());
            unquote(value, &mut out);
            Cow::Owned(out)
        }
    }
}

/// The value without its quotes, else as it was sent: so it goes into a hash.
pub(super) fn bare(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(value)
}

/// The value with each fold as one space (RFC 3261 7.3.1), so that both sides hash the same.
pub(super) fn unfolded(value: &[u8]) -> Cow<'_, [u8]> {
    if !has_fold(value) {
        return Cow::Borrowed(value);
    }
    let mut flat = Vec::with_capacity(value.len());
    unfold(value, &mut flat);
    Cow::Owned(flat)
}

/// Whether a line ends within the value.
pub(super) fn has_fold(value: &[u8]) -> bool {
    memchr::memchr2(b'\r', b'\n', value).is_some()
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn skip(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !is_blank(*byte) && *byte != b',');
    end.map_or(b"", |end| &text[end..])
}

fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_blank(*byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_blank(*byte)).map_or(start, |at| at + 1);
    &text[start..end]
}

type Taken<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// Takes one field off: name, value, and what is left.
fn take(text: &[u8]) -> Option<Taken<'_>> {
    let equals = memchr::memchr(b'=', text)?;
    let name = trim(&text[..equals]);
    let value = &text[equals + 1..];
    let start = value.iter().position(|byte| !is_blank(*byte)).unwrap_or(value.len());
    let value = &value[start..];
    let is_name = !name.is_empty() && !name.iter().any(|byte| is_blank(*byte) || *byte == b'"');
    let end = match value.first() {
        Some(b'"') => quoted_end(value)?,
        Some(_) | None => bare_end(value)?,
    };
    let (value, rest) = value.split_at(end);
    let is_separated = rest.is_empty() || skip(rest).is_empty() || trim(rest).starts_with(b",");
    (is_name && is_separated).then_some((name, trim(value), rest))
}

/// Where a value without quotes ends. One with a quote or a backslash in it could not be told from
/// a quoted one, once it stands between the quotes of an answer.
fn bare_end(text: &[u8]) -> Option<usize> {
    let end = memchr::memchr(b',', text).unwrap_or(text.len());
    memchr::memchr2(b'"', b'\\', &text[..end]).is_none().then_some(end)
}

/// Where a quoted string at the start ends.
fn quoted_end(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(value: &str) -> Result<Vec<(String, String)>, Unreadable> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let fields = Fields::of(value.as_bytes()).expect("Digest");
        fields.iter().map(|field| field.map(|(name, value)| (text(name), text(value)))).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, Unreadable> {
        Ok(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn fields_come_out_in_order_with_their_quotes() {
        assert_eq!(
            fields("digest realm=\"a, b\" ,\r\n nc = 00000001,,qop=auth , x=\"q\\\"=,\""),
            pairs(&[
                ("realm", "\"a, b\""),
                ("nc", "00000001"),
                ("qop", "auth"),
                ("x", "\"q\\\"=,\"")
            ])
        );
        assert_eq!(fields("Digest "), pairs(&[]));
        assert!(Fields::of(b"Basic dXNlcg==").is_none());
        assert!(Fields::of(b"Digest").is_none());
    }

    #[test]
    fn what_is_no_field_is_told() {
        for text in [
            "Digest nonce",
            "Digest a=\"b",
            "Digest a=\"b\"c=d",
            "Digest =x",
            "Digest \"=x",
            "Digest a=b\"c",
            "Digest a=b\\",
        ] {
            assert_eq!(fields(text), Err(Unreadable), "{text}");
        }
        let many = format!("Digest {}", "a=b,".repeat(FIELDS_MAX + 1));
        assert_eq!(fields(&many), Err(Unreadable));
    }

    #[test]
    fn a_fold_becomes_one_space() {
        assert_eq!(&*unfolded(b"Digest a=\"b \r\n\t c\""), b"Digest a=\"b c\"");
        assert!(matches!(unfolded(b"Digest a=\"b\""), Cow::Borrowed(_)));
    }

    #[test]
    fn quotes_and_backslashes_go() {
        assert_eq!(&*plain(b"\"a\\\"b\""), b"a\"b");
        assert_eq!(&*plain(b"\"plain\""), b"plain");
        assert_eq!(&*plain(b"token"), b"token");
        assert_eq!(bare(b"\"a\\b\""), b"a\\b");
    }
}
