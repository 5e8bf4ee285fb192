//! Addresses in From, To, Contact, Route and their like (RFC 3261 20.10, 25.1 name-addr and
//! addr-spec).

use super::params::{self, Params};
use super::scan::{self, Span};
use super::{Fault, Rule};

/// `"display" <uri>;params` or `uri;params`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NameAddr<'a> {
    /// The display name as it was written, with its quotes; see [`NameAddr::display_unquoted`].
    pub display: Option<&'a [u8]>,
    /// The URI without angle brackets. Its scheme is checked, the rest is
    /// [`Uri::parse`](super::Uri::parse)'s.
    pub uri: &'a [u8],
    /// The parameters of the header value (not of the URI).
    pub params: Params<'a>,
}

impl<'a> NameAddr<'a> {
    /// Reads one value. A list is split first: [`Message::values`](super::Message::values).
    pub fn parse(value: &'a [u8]) -> Result<Self, Fault> {
        Self::parse_with(value, b"").map(|(addr, _)| addr)
    }

    /// The same, and the value of one parameter on the way.
    pub(crate) fn parse_with(
        value: &'a [u8],
        wanted: &[u8],
    ) -> Result<(Self, Option<&'a [u8]>), Fault> {
        let start = value.iter().take_while(|b| scan::is_lws(**b)).count();
        let (display, uri, rest) = match value.get(start) {
            None => return Err(Fault::new(Rule::AngleBrackets, start)),
            Some(b'"') => Self::quoted(value, start)?,
            Some(_) => match memchr::memchr3(b'<', b';', b'"', &value[start..]) {
                Some(i) if value[start + i] == b'<' => Self::bracketed(value, start, start + i)?,
                Some(i) if value[start + i] == b'"' => {
                    return Err(Fault::new(Rule::DisplayName, start + i));
                }
                Some(i) => Self::bare(value, start, start + i)?,
                None => Self::bare(value, start, value.len())?,
            },
        };
        if let Some(&b) = value.get(rest)
            && b != b';'
            && !scan::is_lws(b)
        {
            return Err(Fault::new(Rule::AfterAddress, rest));
        }
        let params = &value[rest..];
        let found = params::check(params, wanted).map_err(|f| after_address(f, params, rest))?;
        Ok((Self { display, uri, params: Params::of_header(params) }, found))
    }

    /// What can be made of a value that does not parse: all of it as the URI. For the answer to a
    /// broken request.
    pub(crate) fn unparsed(value: &'a [u8]) -> Self {
        Self { display: None, uri: value, params: Params::default() }
    }

    /// The `tag` parameter.
    pub fn tag(&self) -> Option<&'a [u8]> {
        self.params.value(b"tag")
    }

    /// Appends the display name without quotes, escapes and folds; nothing if there is none.
    pub fn display_unquoted(&self, out: &mut Vec<u8>) {
        let Some(display) = self.display else { return };
        unquote(display, out);
    }

    fn quoted(value: &'a [u8], start: usize) -> Result<Parts<'a>, Fault> {
        let end = scan::quoted_end(value, start).ok_or(Fault::new(Rule::QuoteUnbalanced, start))?;
        let open = end + value[end..].iter().take_while(|b| scan::is_lws(**b)).count();
        if value.get(open) != Some(&b'<') {
            return Err(Fault::new(Rule::DisplayName, open));
        }
        Self::bracketed(value, start, open)
    }

    fn bracketed(value: &'a [u8], start: usize, open: usize) -> Result<Parts<'a>, Fault> {
        let close = memchr::memchr(b'>', &value[open..])
            .map(|i| open + i)
            .ok_or(Fault::new(Rule::AngleBrackets, open))?;
        let display = scan::trim(&value[start..open]);
        let uri = &value[open + 1..close];
        if uri.is_empty() {
            return Err(Fault::new(Rule::AngleBrackets, open));
        }
        check_uri(uri).map_err(|f| f.shifted(open + 1))?;
        Ok(((!display.is_empty()).then_some(display), uri, close + 1))
    }

    fn bare(value: &'a [u8], start: usize, end: usize) -> Result<Parts<'a>, Fault> {
        let uri = scan::trim(&value[start..end]);
        check_uri(uri).map_err(|f| f.shifted(start))?;
        // RFC 3261 20: a URI with a comma, a question mark or a semicolon needs the brackets.
        match memchr::memchr2(b',', b'?', uri) {
            Some(at) => Err(Fault::new(Rule::BareUri, start + at)),
            None => Ok((None, uri, end)),
        }
    }
}

/// Display name, URI, and where the parameters begin.
type Parts<'a> = (Option<&'a [u8]>, &'a [u8], usize);

fn after_address(fault: Fault, params: &[u8], start: usize) -> Fault {
    let is_first = fault.rule == Rule::Parameter && scan::trim(&params[..fault.at]).is_empty();
    let rule = if is_first && params.get(fault.at) != Some(&b';') {
        Rule::AfterAddress
    } else {
        fault.rule
    };
    Fault::new(rule, fault.at + start)
}

/// The least that every URI must be: a scheme, a colon, and no byte that ends a URI.
fn check_uri(uri: &[u8]) -> Result<(), Fault> {
    let colon = scheme_end(uri)?;
    match uri[colon..].iter().position(|&b| !scan::is_uri_byte(b)) {
        Some(at) => Err(Fault::new(Rule::UriCharacter, colon + at)),
        None => Ok(()),
    }
}

/// Where the scheme ends: the place of its colon.
pub(crate) fn scheme_end(uri: &[u8]) -> Result<usize, Fault> {
    if uri.starts_with(b"sip:") {
        return Ok(3);
    }
    let at = uri
        .iter()
        .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')))
        .unwrap_or(uri.len());
    let is_scheme = uri.get(at) == Some(&b':') && uri[0].is_ascii_alphabetic();
    if is_scheme { Ok(at) } else { Err(Fault::new(Rule::UriScheme, at)) }
}

/// Appends a quoted string without its quotes and backslashes, and any text without its folds.
pub fn unquote(text: &[u8], out: &mut Vec<u8>) {
    let Some(inner) = text.strip_prefix(b"\"").and_then(|t| t.strip_suffix(b"\"")) else {
        return unfold(text, out);
    };
    let start = out.len();
    unfold(inner, out);
    let mut read = start;
    let mut write = start;
    while read < out.len() {
        if out[read] == b'\\' && read + 1 < out.len() {
            read += 1;
        }
        out[write] = out[read];
        read += 1;
        write += 1;
    }
    out.truncate(write);
}

/// Appends a value with each fold (line end and the white space around it) as one space (RFC 3261
/// 7.3.1).
pub fn unfold(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'\r', b'\n', rest) {
        let mut end = at;
        while end > 0 && matches!(rest[end - 1], b' ' | b'\t') {
            end -= 1;
        }
        out.extend_from_slice(&rest[..end]);
        out.push(b' ');
        let white = rest[at..].iter().take_while(|b| scan::is_lws(**b)).count();
        rest = &rest[at + white..];
    }
    out.extend_from_slice(rest);
}

/// The spans of an address in a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AddrSpans {
    display: Option<Span>,
    uri: Span,
    params: Span,
    pub(crate) tag: Option<Span>,
}

impl AddrSpans {
    pub(crate) fn new(bytes: &[u8], addr: &NameAddr<'_>, tag: Option<&[u8]>) -> Self {
        Self {
            display: addr.display.map(|d| Span::of(bytes, d)),
            uri: Span::of(bytes, addr.uri),
            params: if addr.params.raw().is_empty() {
                Span::default()
            } else {
                Span::of(bytes, addr.params.raw())
            },
            tag: tag.map(|t| Span::of(bytes, t)),
        }
    }

    pub(crate) fn view<'a>(&self, bytes: &'a [u8]) -> NameAddr<'a> {
        NameAddr {
            display: self.display.map(|s| s.in_bytes(bytes)),
            uri: self.uri.in_bytes(bytes),
            params: Params::of_header(self.params.in_bytes(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn display(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        NameAddr::parse(text.as_bytes()).unwrap().display_unquoted(&mut out);
        out
    }

    #[test]
    fn the_forms_of_an_address() {
        for (text, name, uri, tag) in [
            ("sip:a@b;tag=1", None, "sip:a@b", Some("1")),
            ("  <sip:a@b;x>  ; tag = 1 ", None, "sip:a@b;x", Some("1")),
            ("A B<sip:a@b>", Some("A B"), "sip:a@b", None),
            ("\"a;tag=2 <x>\" <sip:a@b>", Some("\"a;tag=2 <x>\""), "sip:a@b", None),
            ("\"\" <tel:1;x=\\>;y=\"<\"", Some("\"\""), "tel:1;x=\\", None),
            ("Bell, A (x) <sip:a>", Some("Bell, A (x)"), "sip:a", None),
            ("isbn:1", None, "isbn:1", None),
        ] {
            let addr = NameAddr::parse(text.as_bytes()).unwrap();
            assert_eq!(addr.display, name.map(str::as_bytes), "{text}");
            assert_eq!(addr.uri, uri.as_bytes(), "{text}");
            assert_eq!(addr.tag(), tag.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn display_names_lose_quotes_escapes_and_folds() {
        assert_eq!(display("\"a \\\" \\\\ b\" <sip:a>"), b"a \" \\ b");
        assert_eq!(display("\"a \r\n\t b\" <sip:a>"), b"a b");
        assert_eq!(display("Plain \\ Name <sip:a>"), b"Plain \\ Name");
        assert_eq!(display("sip:a"), b"");
    }

    #[test]
    fn broken_addresses_are_told_with_their_place() {
        for (text, rule, at) in [
            ("", Rule::AngleBrackets, 0),
            ("  ", Rule::AngleBrackets, 2),
            ("<>", Rule::AngleBrackets, 0),
            ("<sip:a", Rule::AngleBrackets, 0),
            ("\"a <sip:a>", Rule::QuoteUnbalanced, 0),
            ("\"a\" sip:a", Rule::DisplayName, 4),
            ("a \"b\" <sip:a>", Rule::DisplayName, 2),
            ("\"a\"", Rule::DisplayName, 3),
            ("a", Rule::UriScheme, 1),
            ("sip:a b", Rule::UriCharacter, 5),
            ("< sip:a >", Rule::UriScheme, 1),
            ("<sip:a\">", Rule::UriCharacter, 6),
            ("sip:a?x=y", Rule::BareUri, 5),
            ("sip:a,sip:b", Rule::BareUri, 5),
            ("<sip:a>x", Rule::AfterAddress, 7),
            ("<sip:a> x", Rule::AfterAddress, 8),
            ("<sip:a>, <sip:b>", Rule::AfterAddress, 7),
            ("<sip:a>;;", Rule::Parameter, 8),
            ("<sip:a>;x y", Rule::Parameter, 10),
        ] {
            assert_eq!(NameAddr::parse(text.as_bytes()), Err(Fault { rule, at }), "{text}");
        }
    }
}
