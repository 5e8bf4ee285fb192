//! Are two URIs the same? sip and sips by RFC 3261 19.1.4, tel by RFC 3966 4, urn by RFC 8141 3.

use super::params::Params;
use super::scan;
use super::unescape::{Unescaped, eq_unescaped};
use super::uri::{Scheme, Uri, is_visual_separator};

/// A parameter of these names must stand in both URIs or in neither, whatever its default is.
const NEVER_IGNORED: [&[u8]; 5] = [b"user", b"ttl", b"method", b"maddr", b"transport"];

/// Parameters and headers are compared each with each; longer ones must be the same byte for byte,
/// so that a stranger cannot keep us comparing.
const COMPARED_BYTES_MAX: usize = 512;

impl Uri<'_> {
    /// Are the two equivalent by the rules of their scheme? The relation is not transitive (RFC
    /// 3261 19.1.4).
    pub fn equivalent(&self, other: &Uri<'_>) -> bool {
        if self.rest.len().max(other.rest.len()) > COMPARED_BYTES_MAX {
            return self.scheme == other.scheme && self.rest == other.rest;
        }
        match (self.scheme, other.scheme) {
            (Scheme::Sip, Scheme::Sip) | (Scheme::Sips, Scheme::Sips) => sip(self, other),
            (Scheme::Tel, Scheme::Tel) => tel(self, other),
            (Scheme::Urn, Scheme::Urn) => urn(self.rest, other.rest),
            (Scheme::Other(a), Scheme::Other(b)) => {
                a.eq_ignore_ascii_case(b) && self.rest == other.rest
            }
            (Scheme::Sip | Scheme::Sips | Scheme::Tel | Scheme::Urn | Scheme::Other(_), _) => false,
        }
    }
}

fn sip(a: &Uri<'_>, b: &Uri<'_>) -> bool {
    same_option(a.user, b.user)
        && same_option(a.password, b.password)
        && same_host(a, b)
        && a.port == b.port
        && same_sip_params(&a.params, &b.params)
        && same_sip_params(&b.params, &a.params)
        && has_headers_of(a, b)
        && has_headers_of(b, a)
}

fn same_option(a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => canonical(a).eq(canonical(b)),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// A character of the reserved set is not the same as its escape; any other is.
fn canonical(text: &[u8]) -> impl Iterator<Item = (u8, bool)> {
    Unescaped(text).map(|(b, is_escaped)| (b, is_escaped && b";/?:@&=+$,".contains(&b)))
}

fn canonical_caseless(text: &[u8]) -> impl Iterator<Item = (u8, bool)> {
    canonical(text).map(|(b, is_escaped)| (b.to_ascii_lowercase(), is_escaped))
}

fn same_host(a: &Uri<'_>, b: &Uri<'_>) -> bool {
    if a.is_ipv6 && b.is_ipv6 {
        // RFC 5954 4.2: by value, not by text; zones by text.
        let zone = |h: &[u8]| memchr::memchr(b'%', h).map(|i| h[i..].to_ascii_lowercase());
        return a.host_ip() == b.host_ip() && zone(a.host) == zone(b.host);
    }
    a.is_ipv6 == b.is_ipv6 && a.host.eq_ignore_ascii_case(b.host)
}

/// Every parameter of `a` that `b` has too must have the same value; some must not be missing.
fn same_sip_params(a: &Params<'_>, b: &Params<'_>) -> bool {
    a.iter().all(|param| {
        let found =
            b.iter().find(|p| canonical_caseless(p.name).eq(canonical_caseless(param.name)));
        match found {
            None => !NEVER_IGNORED.iter().any(|name| eq_unescaped(param.name, name)),
            Some(p) => match (param.value, p.value) {
                (None, None) => true,
                (Some(a), Some(b)) => canonical_caseless(a).eq(canonical_caseless(b)),
                (None, Some(_)) | (Some(_), None) => false,
            },
        }
    })
}

/// Header fields are never ignored; their order does not matter.
fn has_headers_of(a: &Uri<'_>, b: &Uri<'_>) -> bool {
    a.headers().all(|(name, value)| {
        let count = |uri: &Uri<'_>| {
            let same = |n: &[u8], v: &[u8]| {
                canonical_caseless(n).eq(canonical_caseless(name))
                    && canonical(v).eq(canonical(value))
            };
            uri.headers().filter(|(n, v)| same(n, v)).count()
        };
        count(a) == count(b)
    })
}

fn tel(a: &Uri<'_>, b: &Uri<'_>) -> bool {
    let (number_a, number_b) = (a.user.unwrap_or_default(), b.user.unwrap_or_default());
    same_number(number_a, number_b)
        && has_tel_params_of(&a.params, &b.params)
        && has_tel_params_of(&b.params, &a.params)
}

fn same_number(a: &[u8], b: &[u8]) -> bool {
    // The `+` of a global number is a character like the digits here, so local and global never
    // match.
    let digits = |text: &'_ [u8]| -> Vec<u8> {
        text.iter().filter(|b| !is_visual_separator(**b)).map(u8::to_ascii_lowercase).collect()
    };
    digits(a) == digits(b)
}

fn has_tel_params_of(a: &Params<'_>, b: &Params<'_>) -> bool {
    a.iter().all(|param| {
        let value = param.value.map(scan::trim);
        match (b.find(param.name), value) {
            (None, _) => false,
            (Some(other), None) => other.is_none(),
            (Some(None), Some(_)) => false,
            (Some(Some(other)), Some(value)) => {
                let is_number =
                    value.first() == Some(&b'+') || param.name.eq_ignore_ascii_case(b"ext");
                if is_number {
                    same_number(value, other)
                } else {
                    canonical_caseless(value).eq(canonical_caseless(other))
                }
            }
        }
    })
}

/// The namespace in any case, the rest by case; but labels of `urn:service` in any case (RFC 5031
/// 4.1).
fn urn(a: &[u8], b: &[u8]) -> bool {
    let split = |text: &[u8]| memchr::memchr(b':', text).unwrap_or(text.len());
    let (end_a, end_b) = (split(a), split(b));
    if !a[..end_a].eq_ignore_ascii_case(&b[..end_b]) {
        return false;
    }
    if a[..end_a].eq_ignore_ascii_case(b"service") {
        return a[end_a..].eq_ignore_ascii_case(&b[end_b..]);
    }
    a[end_a..] == b[end_b..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        let [a, b] = [a, b].map(|text| Uri::parse(text.as_bytes()).unwrap());
        let (there, back) = (a.equivalent(&b), b.equivalent(&a));
        assert_eq!(there, back, "the relation is symmetric");
        there
    }

    /// The pairs of RFC 3261 19.1.4 and its rules.
    #[test]
    fn equivalent_sip_uris() {
        for (a, b) in [
            ("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtlanTa.CoM;Transport=tcp"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com;security=on"),
            (
                "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
                "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
            ),
            (
                "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
                "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
            ),
            ("sip:a@[2001:db8::1]", "sip:a@[2001:DB8:0::1]"),
            ("SIP:a@b", "sip:a@b"),
            ("sip:a@b;lr", "sip:a@b"),
            ("sip:a@b;x=%41", "sip:a@b;X=a"),
        ] {
            assert!(same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn different_sip_uris() {
        for (a, b) in [
            ("SIP:ALICE@AtLanTa.CoM;Transport=udp", "sip:alice@AtLanTa.CoM;Transport=UDP"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:6000;transport=tcp"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com?Subject=next%20meeting"),
            ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"),
            ("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;security=off"),
            ("sip:a@b", "sips:a@b"),
            ("sip:a@b", "sip:b"),
            ("sip:a:x@b", "sip:a@b"),
            ("sip:a%3Bb@c", "sip:a;b@c"),
            ("sip:a@b;maddr=1.2.3.4", "sip:a@b"),
            ("sip:a@b;user=phone", "sip:a@b"),
            ("sip:a@b;ttl=1", "sip:a@b"),
            ("sip:a@b?x=1&x=1", "sip:a@b?x=1"),
            ("sip:a@[fe80::1%25a]", "sip:a@[fe80::1%25b]"),
            ("sip:a@b", "tel:1"),
        ] {
            assert!(!same(a, b), "{a} {b}");
        }
    }

    /// RFC 3261 19.1.4 says itself that two may each equal a third and not one another.
    #[test]
    fn the_relation_is_not_transitive() {
        assert!(same("sip:carol@chicago.com", "sip:carol@chicago.com;security=on"));
        assert!(same("sip:carol@chicago.com", "sip:carol@chicago.com;security=off"));
        assert!(!same("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;security=off"));
    }

    /// RFC 3966 4.
    #[test]
    fn telephone_numbers() {
        for (a, b) in [
            ("tel:+1-201-555-0123", "TEL:+1(201)555.0123"),
            ("tel:7042;phone-context=Example.com", "tel:70-42;Phone-Context=example.COM"),
            ("tel:7042;phone-context=+1-201", "tel:7042;phone-context=+1201"),
            ("tel:+1201;ext=5-5;isub=a", "tel:+1201;ISUB=A;ext=55"),
        ] {
            assert!(same(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("tel:+12015550123", "tel:12015550123"),
            ("tel:7042;phone-context=example.com", "tel:7042"),
            ("tel:7042;phone-context=a", "tel:7042;phone-context=b"),
            ("tel:+1201", "tel:+1202"),
        ] {
            assert!(!same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn names_and_the_rest() {
        assert!(same("urn:service:sos.fire", "URN:Service:SOS.fire"));
        assert!(same("urn:UUID:a", "urn:uuid:a"));
        assert!(!same("urn:uuid:a", "urn:uuid:A"));
        assert!(!same("urn:uuid:a", "urn:uuidx:a"));
        assert!(same("ISBN:1", "isbn:1"));
        assert!(!same("isbn:1", "name:1"));
    }

    #[test]
    fn a_very_long_uri_equals_only_itself() {
        let long = format!("sip:a@b;{}", ";x".repeat(COMPARED_BYTES_MAX));
        assert!(same(&long, &long));
        assert!(!same(&long, "sip:a@b"));
    }
}
