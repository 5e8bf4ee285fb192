//! URIs: sip and sips (RFC 3261 19.1), tel (RFC 3966), urn (RFC 8141), and any other by its scheme.

use std::net::IpAddr;

use super::nameaddr::scheme_end;
use super::params::Params;
use super::unescape::{bad_escape, eq_unescaped, unescape};
use super::{Fault, Rule, scan, via};

/// What kind of URI it is. Schemes are compared without regard to case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme<'a> {
    /// `sip:`
    Sip,
    /// `sips:`
    Sips,
    /// `tel:`
    Tel,
    /// `urn:`
    Urn,
    /// Another scheme as written.
    Other(&'a [u8]),
}

/// The parts of a URI, escapes left in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uri<'a> {
    /// The scheme.
    pub scheme: Scheme<'a>,
    /// sip: the user part (an empty one, `sip:@host`, is none); tel: the number as written.
    pub user: Option<&'a [u8]>,
    /// sip: the password.
    pub password: Option<&'a [u8]>,
    /// sip: the host without brackets; empty for other schemes.
    pub host: &'a [u8],
    /// The host stood in brackets.
    pub is_ipv6: bool,
    /// sip: the port.
    pub port: Option<u16>,
    /// sip, tel: the parameters.
    pub params: Params<'a>,
    /// sip: what follows `?`, see [`Uri::headers`].
    pub raw_headers: Option<&'a [u8]>,
    /// All that follows the scheme's colon.
    pub rest: &'a [u8],
}

impl<'a> Uri<'a> {
    /// Takes a URI apart. Only sip, sips and tel URIs are looked into.
    pub fn parse(text: &'a [u8]) -> Result<Self, Fault> {
        let colon = scheme_end(text)?;
        if let Some(at) = text.iter().position(|&b| !scan::is_uri_byte(b)) {
            return Err(Fault::new(Rule::UriCharacter, at));
        }
        let scheme = Scheme::of(&text[..colon]);
        let rest = &text[colon + 1..];
        let plain = Self {
            scheme,
            user: None,
            password: None,
            host: b"",
            is_ipv6: false,
            port: None,
            params: Params::default(),
            raw_headers: None,
            rest,
        };
        let parsed = match scheme {
            Scheme::Sip | Scheme::Sips => plain.sip(),
            Scheme::Tel => plain.tel(),
            Scheme::Urn | Scheme::Other(_) if rest.is_empty() => Err(Fault::new(Rule::UriHost, 0)),
            Scheme::Urn | Scheme::Other(_) => Ok(plain),
        };
        parsed.map_err(|f| f.shifted(colon + 1))
    }

    fn sip(mut self) -> Result<Self, Fault> {
        let rest = self.rest;
        if let Some(at) = bad_escape_outside_zone(rest) {
            return Err(Fault::new(Rule::UriEscape, at));
        }
        // `@` cannot stand unescaped in a user part, a parameter or a header, so the first one is
        // the right one.
        let mut at = 0;
        if let Some(i) = memchr::memchr(b'@', rest) {
            self.user_info(&rest[..i]);
            at = i + 1;
        }
        at = self.host_port(at)?;
        let question = memchr::memchr(b'?', &rest[at..]).map_or(rest.len(), |i| at + i);
        self.params = Params::of_uri(&rest[at..question]);
        self.raw_headers = rest.get(question + 1..);
        Ok(self)
    }

    fn user_info(&mut self, info: &'a [u8]) {
        let colon = memchr::memchr(b':', info).unwrap_or(info.len());
        let user = &info[..colon];
        self.user = (!user.is_empty()).then_some(user);
        self.password = info.get(colon + 1..);
    }

    /// Reads the host and port from `at` on; gives where they end.
    fn host_port(&mut self, at: usize) -> Result<usize, Fault> {
        let rest = self.rest;
        let mut end;
        if rest.get(at) == Some(&b'[') {
            let close = memchr::memchr(b']', &rest[at..]).ok_or(Fault::new(Rule::UriHost, at))?;
            self.host = &rest[at + 1..at + close];
            self.is_ipv6 = true;
            end = at + close + 1;
            if via::ipv6(self.host).is_none() {
                return Err(Fault::new(Rule::UriHost, at));
            }
        } else {
            let length = rest[at..].iter().take_while(|b| scan::is_host_byte(**b)).count();
            end = at + length;
            self.host = &rest[at..end];
            if length == 0 {
                return Err(Fault::new(Rule::UriHost, at));
            }
        }
        if rest.get(end) == Some(&b':') {
            let start = end + 1;
            let digits = rest[start..].iter().take_while(|b| b.is_ascii_digit()).count();
            end = start + digits;
            let port = scan::decimal(&rest[start..end]).and_then(|n| u16::try_from(n).ok());
            self.port = Some(port.ok_or(Fault::new(Rule::UriPort, start))?);
        }
        match rest.get(end) {
            None | Some(b';' | b'?') => Ok(end),
            Some(_) if self.port.is_some() => Err(Fault::new(Rule::UriPort, end)),
            Some(_) => Err(Fault::new(Rule::UriHost, end)),
        }
    }

    fn tel(mut self) -> Result<Self, Fault> {
        let end = memchr::memchr(b';', self.rest).unwrap_or(self.rest.len());
        let number = &self.rest[..end];
        let digits = number.strip_prefix(b"+").unwrap_or(number);
        let is_digit = |b: &u8| b.is_ascii_hexdigit() || matches!(b, b'*' | b'#');
        if !digits.iter().any(is_digit) {
            return Err(Fault::new(Rule::TelNumber, 0));
        }
        let is_part = |b: &u8| is_digit(b) || is_visual_separator(*b);
        if let Some(at) = digits.iter().position(|b| !is_part(b)) {
            return Err(Fault::new(Rule::TelNumber, at + number.len() - digits.len()));
        }
        self.user = Some(number);
        self.params = Params::of_uri(&self.rest[end..]);
        Ok(self)
    }

    /// Is it `sip:` or `sips:`?
    pub fn is_sip(&self) -> bool {
        matches!(self.scheme, Scheme::Sip | Scheme::Sips)
    }

    /// The host as an address; `None` for a name. A zone (`fe80::1%254`) is left out.
    pub fn host_ip(&self) -> Option<IpAddr> {
        via::ip(self.host)
    }

    /// Appends the user part (of a tel URI: the number) without escapes. The result is data, see
    /// [`unescape`].
    pub fn user_text(&self, out: &mut Vec<u8>) {
        if let Some(user) = self.user {
            unescape(user, out);
        }
    }

    /// The header fields of a sip URI, names and values still escaped.
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.raw_headers
            .unwrap_or_default()
            .split(|b| *b == b'&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let equal = memchr::memchr(b'=', pair).unwrap_or(pair.len());
                (&pair[..equal], pair.get(equal + 1..).unwrap_or_default())
            })
    }

    /// The value of one header field, still escaped.
    pub fn header(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.headers().find(|(n, _)| eq_unescaped(n, name)).map(|(_, value)| value)
    }
}

impl<'a> Scheme<'a> {
    fn of(text: &'a [u8]) -> Self {
        let is = |name: &[u8]| text.eq_ignore_ascii_case(name);
        match text.len() {
            3 if is(b"sip") => Self::Sip,
            3 if is(b"tel") => Self::Tel,
            3 if is(b"urn") => Self::Urn,
            4 if is(b"sips") => Self::Sips,
            _ => Self::Other(text),
        }
    }
}

/// RFC 3966 3: they only make a number readable.
pub(crate) fn is_visual_separator(b: u8) -> bool {
    matches!(b, b'-' | b'.' | b'(' | b')')
}

/// Like [`bad_escape`], but a zone may follow a bare `%` inside the brackets of an IPv6 address
/// (seen before RFC 6874).
fn bad_escape_outside_zone(text: &[u8]) -> Option<usize> {
    let at = bad_escape(text)?;
    let open = memchr::memchr(b'[', text);
    let close = memchr::memchr(b']', text);
    let is_zone = matches!((open, close), (Some(o), Some(c)) if o < at && at < c);
    if is_zone {
        let close = close.unwrap_or(at);
        return bad_escape(&text[close..]).map(|i| close + i);
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri<'_> {
        Uri::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn all_parts_of_a_sip_uri() {
        let uri =
            uri("sips:al%20ice;x=1:p%40ss@Host_1.example.com:5061;lr;ttl=1?Subject=a%20b&x&y=");
        assert_eq!((uri.scheme, uri.is_sip()), (Scheme::Sips, true));
        assert_eq!(uri.user, Some(&b"al%20ice;x=1"[..]));
        assert_eq!(uri.password, Some(&b"p%40ss"[..]));
        assert_eq!((uri.host, uri.port), (&b"Host_1.example.com"[..], Some(5061)));
        assert_eq!(uri.params.raw(), b";lr;ttl=1");
        let headers: Vec<_> = uri.headers().collect();
        assert_eq!(headers, [(&b"Subject"[..], &b"a%20b"[..]), (b"x", b""), (b"y", b"")]);
        let mut text = Vec::new();
        uri.user_text(&mut text);
        assert_eq!(text, b"al ice;x=1");
    }

    #[test]
    fn the_least_of_each_scheme() {
        assert_eq!(uri("sip:h").host, b"h");
        assert_eq!(uri("tel:*43#").user, Some(&b"*43#"[..]));
        assert_eq!(uri("urn:service:sos").rest, b"service:sos");
        assert_eq!(uri("x+y-z.1:anything").scheme, Scheme::Other(b"x+y-z.1"));
        assert_eq!(uri("sip:1.2.3.4").host_ip(), Some([1, 2, 3, 4].into()));
        assert_eq!(uri("sip:1host").host_ip(), None);
    }

    #[test]
    fn an_at_sign_in_the_headers_is_no_user() {
        let uri = uri("sip:a@b?Replaces=1@c%3Bto-tag%3D1");
        assert_eq!((uri.user, uri.host), (Some(&b"a"[..]), &b"b"[..]));
        assert_eq!(uri.header(b"replaces"), Some(&b"1@c%3Bto-tag%3D1"[..]));
    }

    #[test]
    fn broken_uris_are_told_with_their_place() {
        for (text, rule, at) in [
            ("", Rule::UriScheme, 0),
            ("sip", Rule::UriScheme, 3),
            ("1sip:a", Rule::UriScheme, 4),
            ("si p:a", Rule::UriScheme, 2),
            ("sip:", Rule::UriHost, 4),
            ("sip:a@", Rule::UriHost, 6),
            ("sip:a@b c", Rule::UriCharacter, 7),
            ("sip:a@b\r\nX: y", Rule::UriCharacter, 7),
            ("sip:a%2@b", Rule::UriEscape, 5),
            ("sip:a@b@c", Rule::UriHost, 7),
            ("sip:a@b:", Rule::UriPort, 8),
            ("sip:a@b:65536", Rule::UriPort, 8),
            ("sip:a@b:1x", Rule::UriPort, 9),
            ("sip:a@2001:db8::1", Rule::UriPort, 11),
            ("sip:a@[::1", Rule::UriHost, 6),
            ("sip:a@[zz]", Rule::UriHost, 6),
            ("sip:a@[::1]x", Rule::UriHost, 11),
            ("tel:", Rule::TelNumber, 4),
            ("tel:+", Rule::TelNumber, 4),
            ("tel:+12x4", Rule::TelNumber, 7),
            ("urn:", Rule::UriHost, 4),
        ] {
            assert_eq!(Uri::parse(text.as_bytes()), Err(Fault { rule, at }), "{text}");
        }
    }
}
