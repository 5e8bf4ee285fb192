//! Parameters `;name=value` of header values and of URIs (RFC 3261 25.1 generic-param, 19.1.1
//! uri-parameter).

use super::scan::{self, Scan};
use super::unescape::eq_unescaped;
use super::{Fault, Rule};

/// The parameters behind a header value or inside a URI, still as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Params<'a> {
    raw: &'a [u8],
    is_uri: bool,
}

/// One parameter. A quoted value keeps its quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Param<'a> {
    /// The name as it was written.
    pub name: &'a [u8],
    /// `None` when no `=` follows the name.
    pub value: Option<&'a [u8]>,
}

impl<'a> Params<'a> {
    /// Parameters of a header value, from their first `;` on.
    pub fn of_header(raw: &'a [u8]) -> Self {
        Self { raw, is_uri: false }
    }

    /// Parameters of a URI: no quotes and no white space, but escapes (`%6C%72` is `lr`).
    pub fn of_uri(raw: &'a [u8]) -> Self {
        Self { raw, is_uri: true }
    }

    /// The text with the first `;`; empty when there is no parameter.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Is there no parameter at all?
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Looks a parameter up by name, in any case: `None` is absent, `Some(None)` is present
    /// without a value.
    pub fn find(&self, name: &[u8]) -> Option<Option<&'a [u8]>> {
        let is_uri = self.is_uri;
        self.iter().find(|p| is_name(p.name, name, is_uri)).map(|p| p.value)
    }

    /// The value of a parameter that has one.
    pub fn value(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.find(name).flatten()
    }

    /// All parameters in order; empty ones (`;;`) are skipped.
    pub fn iter(&self) -> ParamIter<'a> {
        ParamIter { rest: self.raw, is_uri: self.is_uri }
    }
}

fn is_name(written: &[u8], name: &[u8], is_uri: bool) -> bool {
    written.eq_ignore_ascii_case(name)
        || (is_uri && written.contains(&b'%') && eq_unescaped(written, name))
}

/// See [`Params::iter`].
#[derive(Clone, Debug)]
pub struct ParamIter<'a> {
    rest: &'a [u8],
    is_uri: bool,
}

impl<'a> Iterator for ParamIter<'a> {
    type Item = Param<'a>;

    fn next(&mut self) -> Option<Param<'a>> {
        loop {
            let rest = self.rest;
            if rest.is_empty() {
                return None;
            }
            let end = if self.is_uri {
                memchr::memchr(b';', rest).unwrap_or(rest.len())
            } else {
                end_of_param(rest)
            };
            self.rest = rest.get(end + 1..).unwrap_or_default();
            let text = scan::trim(&rest[..end]);
            if text.is_empty() {
                continue;
            }
            return Some(match memchr::memchr(b'=', text) {
                None => Param { name: text, value: None },
                Some(equal) => Param {
                    name: scan::trim(&text[..equal]),
                    value: Some(scan::trim(&text[equal + 1..])),
                },
            });
        }
    }
}

/// The next `;` outside quotes.
fn end_of_param(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b';', b'"', &text[at..]) {
        at += found;
        if text[at] == b';' {
            return at;
        }
        match scan::quoted_end(text, at) {
            Some(end) => at = end,
            None => break,
        }
    }
    text.len()
}

/// Checks the parameters of a header value to its end, and picks the value of one of them.
///
/// Stricter than [`Params::iter`]: each has a token for a name, what follows `=` is not empty, and
/// the wanted one has a value.
pub(crate) fn check<'a>(raw: &'a [u8], wanted: &[u8]) -> Result<Option<&'a [u8]>, Fault> {
    let mut scan = Scan::new(raw);
    let mut found = None;
    loop {
        scan.skip_lws();
        if scan.is_done() {
            return Ok(found);
        }
        let at = scan.at();
        if !scan.eat(b';') {
            return Err(Fault::new(Rule::Parameter, at));
        }
        scan.skip_lws();
        let name = scan.token();
        if name.is_empty() {
            return Err(Fault::new(Rule::Parameter, scan.at()));
        }
        let is_wanted = found.is_none() && name.eq_ignore_ascii_case(wanted);
        scan.skip_lws();
        if !scan.eat(b'=') {
            if is_wanted {
                return Err(Fault::new(Rule::Parameter, scan.at()));
            }
            continue;
        }
        scan.skip_lws();
        let at = scan.at();
        let value = if scan.peek() == Some(b'"') {
            scan.quoted().ok_or(Fault::new(Rule::QuoteUnbalanced, at))?
        } else {
            scan.take_while(scan::is_value_byte)
        };
        if value.is_empty() {
            return Err(Fault::new(Rule::Parameter, at));
        }
        if is_wanted {
            found = Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_and_folds_around_separators_do_not_matter() {
        let params =
            Params::of_header(b" ; newparam =\r\n      newvalue ;\r\n  secondparam ; q = 0.33");
        assert_eq!(params.find(b"NewParam"), Some(Some(&b"newvalue"[..])));
        assert_eq!(params.find(b"secondparam"), Some(None));
        assert_eq!(params.value(b"q"), Some(&b"0.33"[..]));
        assert_eq!(params.find(b"nothere"), None);
        assert_eq!(params.iter().count(), 3);
        assert_eq!(check(params.raw(), b"q"), Ok(Some(&b"0.33"[..])));
    }

    #[test]
    fn a_quoted_value_may_hold_the_separators() {
        let raw = b";a=\"x;tag=no\\\";tag=no\";tag=yes";
        assert_eq!(Params::of_header(raw).value(b"tag"), Some(&b"yes"[..]));
        assert_eq!(check(raw, b"tag"), Ok(Some(&b"yes"[..])));
    }

    #[test]
    fn broken_parameters_are_told_with_their_place() {
        let cases: [(&[u8], Rule, usize); 7] = [
            (b";tag ;x", Rule::Parameter, 5),
            (b";;", Rule::Parameter, 1),
            (b"; =x", Rule::Parameter, 2),
            (b";a=", Rule::Parameter, 3),
            (b";a=b c", Rule::Parameter, 5),
            (b";a=\"b", Rule::QuoteUnbalanced, 3),
            (b";a=b,c", Rule::Parameter, 4),
        ];
        for (raw, rule, at) in cases {
            assert_eq!(check(raw, b"tag"), Err(Fault { rule, at }), "{raw:?}");
        }
    }

    #[test]
    fn names_of_uri_parameters_may_be_escaped() {
        let params = Params::of_uri(b";%6C%72;n%61me=v%61lue%25%34%31");
        assert_eq!(params.find(b"lr"), Some(None));
        assert_eq!(params.value(b"name"), Some(&b"v%61lue%25%34%31"[..]));
        // In a header's parameters `%` is an ordinary character of a token.
        assert_eq!(Params::of_header(b";%6C%72").find(b"lr"), None);
    }
}
