//! Via values (RFC 3261 20.42, 18.2.1; RFC 3581; IPv6 by RFC 5118 4.5).

use std::net::{IpAddr, Ipv6Addr};

use super::params::{self, Params};
use super::scan::{self, Scan, Span};
use super::{Fault, Rule};

/// RFC 3261 8.1.1.7: branches that begin so are unique and name their transaction.
pub const MAGIC_COOKIE: &[u8] = b"z9hG4bK";

/// One Via value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Via<'a> {
    /// `UDP`, `TCP`, ... as written.
    pub transport: &'a [u8],
    /// The host of the sent-by, without brackets.
    pub host: &'a [u8],
    /// The host stood in brackets.
    pub is_ipv6: bool,
    /// The port of the sent-by.
    pub port: Option<u16>,
    /// Its parameters.
    pub params: Params<'a>,
    /// The whole value, parameters included.
    pub raw: &'a [u8],
    branch: Option<&'a [u8]>,
}

impl<'a> Via<'a> {
    /// Reads one value; a list is split first.
    pub fn parse(value: &'a [u8]) -> Result<Self, Fault> {
        let (mut via, rest) = Self::parse_front(value, Version::Ours)?;
        via.branch =
            params::check(rest, b"branch").map_err(|f| f.shifted(value.len() - rest.len()))?;
        Ok(via)
    }

    /// All but the check of the parameters: enough to send an answer, even to a version that we do
    /// not speak.
    pub(crate) fn parse_front(
        value: &'a [u8],
        version: Version,
    ) -> Result<(Self, &'a [u8]), Fault> {
        let mut scan = Scan::new(value);
        protocol(&mut scan, version)?;
        let transport = scan.token();
        let at = scan.at();
        scan.skip_lws();
        if transport.is_empty() || scan.at() == at {
            return Err(Fault::new(Rule::ViaProtocol, at));
        }
        let at = scan.at();
        let is_ipv6 = scan.eat(b'[');
        let host = if is_ipv6 {
            let host = scan.take_while(|b| b != b']');
            if !scan.eat(b']') || ipv6(host).is_none() {
                return Err(Fault::new(Rule::ViaSentBy, at));
            }
            host
        } else {
            scan.take_while(scan::is_host_byte)
        };
        scan.skip_lws();
        let mut port = None;
        if scan.eat(b':') {
            scan.skip_lws();
            let number = scan::decimal(scan.digits()).and_then(|n| u16::try_from(n).ok());
            port = Some(number.ok_or(Fault::new(Rule::ViaSentBy, scan.at()))?);
            scan.skip_lws();
        }
        if host.is_empty() || !matches!(scan.peek(), None | Some(b';')) {
            return Err(Fault::new(Rule::ViaSentBy, scan.at()));
        }
        let rest = scan.rest();
        let params = Params::of_header(rest);
        Ok((Self { transport, host, is_ipv6, port, params, raw: value, branch: None }, rest))
    }

    /// The `branch` parameter.
    pub fn branch(&self) -> Option<&'a [u8]> {
        self.branch.or_else(|| self.params.value(b"branch"))
    }

    /// A branch that begins with the magic cookie and has something behind it: transactions are
    /// matched by it. Otherwise by the rules of RFC 2543 (RFC 3261 17.2.3).
    pub fn has_unique_branch(&self) -> bool {
        self.branch().is_some_and(|b| {
            b.len() > MAGIC_COOKIE.len()
                && b[..MAGIC_COOKIE.len()].eq_ignore_ascii_case(MAGIC_COOKIE)
        })
    }

    /// RFC 3581: `None` is absent, `Some(None)` asks for it, `Some(Some(port))` is filled in.
    pub fn rport(&self) -> Option<Option<u16>> {
        let value = self.params.find(b"rport")?;
        Some(value.and_then(scan::decimal).and_then(|n| u16::try_from(n).ok()))
    }

    /// The `received` parameter as text, without brackets. The grammar has none around an IPv6
    /// address, some senders put them (RFC 5118 4.5).
    pub fn received(&self) -> Option<&'a [u8]> {
        self.params.value(b"received").map(unbracketed)
    }

    /// The `received` parameter as an address.
    pub fn received_ip(&self) -> Option<IpAddr> {
        self.received().and_then(ip)
    }

    /// The `maddr` parameter.
    pub fn maddr(&self) -> Option<&'a [u8]> {
        self.params.value(b"maddr").map(unbracketed)
    }

    /// The `ttl` parameter.
    pub fn ttl(&self) -> Option<u8> {
        self.params.value(b"ttl").and_then(scan::decimal).and_then(|n| u8::try_from(n).ok())
    }

    /// `host[:port]` as written, brackets included.
    pub fn sent_by(&self) -> &'a [u8] {
        let start = Span::of(self.raw, self.host).start as usize - usize::from(self.is_ipv6);
        scan::trim(&self.raw[start..self.raw.len() - self.params.raw().len()])
    }

    /// The sent-by's host as an address; `None` for a name.
    pub fn host_ip(&self) -> Option<IpAddr> {
        ip(self.host)
    }
}

/// Which protocol version a Via may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    Ours,
    Any,
}

/// `SIP / 2.0 /` with any white space around the slashes.
fn protocol(scan: &mut Scan<'_>, version: Version) -> Result<(), Fault> {
    if scan.rest().starts_with(b"SIP/2.0/") {
        scan.skip(8);
        return Ok(());
    }
    scan.skip_lws();
    for wanted in [&b"SIP"[..], b"2.0"] {
        let at = scan.at();
        let token = scan.token();
        let is_wanted = token.eq_ignore_ascii_case(wanted)
            || (wanted == b"2.0" && version == Version::Any && !token.is_empty());
        scan.skip_lws();
        if !is_wanted || !scan.eat(b'/') {
            return Err(Fault::new(Rule::ViaProtocol, at));
        }
        scan.skip_lws();
    }
    Ok(())
}

fn unbracketed(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"[").and_then(|t| t.strip_suffix(b"]")).unwrap_or(text)
}

/// An address of either family, without brackets; a zone (`fe80::1%eth0`) is left out.
pub(crate) fn ip(text: &[u8]) -> Option<IpAddr> {
    // Most names begin with a letter that no IPv4 address has, and have no colon.
    if text.first().is_some_and(u8::is_ascii_digit) && !text.contains(&b':') {
        return std::str::from_utf8(text).ok()?.parse().ok().map(IpAddr::V4);
    }
    ipv6(text).map(IpAddr::V6)
}

/// An IPv6 address without brackets. RFC 3261's own grammar once gave `2001:db8:::192.0.2.1`, with
/// a colon too many: that is read as it was meant (RFC 5118 4.10).
pub(crate) fn ipv6(text: &[u8]) -> Option<Ipv6Addr> {
    let zone = memchr::memchr(b'%', text).unwrap_or(text.len());
    let text = &text[..zone];
    let parse = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
    if let Some(address) = parse(text) {
        return Some(address);
    }
    let at = memchr::memmem::find(text, b":::")?;
    let mut meant = [0_u8; IPV6_TEXT_MAX];
    let meant = meant.get_mut(..text.len() - 1)?;
    meant[..at].copy_from_slice(&text[..at]);
    meant[at..].copy_from_slice(&text[at + 1..]);
    parse(meant)
}

/// The longest text of an IPv6 address: six groups and a dotted IPv4 address.
const IPV6_TEXT_MAX: usize = 45;

/// The spans of a Via in a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ViaSpans {
    raw: Span,
    transport: Span,
    host: Span,
    params: Span,
    branch: Option<Span>,
    port: Option<u16>,
    is_ipv6: bool,
}

impl ViaSpans {
    pub(crate) fn new(bytes: &[u8], via: &Via<'_>) -> Self {
        Self {
            raw: Span::of(bytes, via.raw),
            transport: Span::of(bytes, via.transport),
            host: Span::of(bytes, via.host),
            params: Span::of(bytes, via.params.raw()),
            branch: via.branch.map(|b| Span::of(bytes, b)),
            port: via.port,
            is_ipv6: via.is_ipv6,
        }
    }

    pub(crate) fn view<'a>(&self, bytes: &'a [u8]) -> Via<'a> {
        Via {
            transport: self.transport.in_bytes(bytes),
            host: self.host.in_bytes(bytes),
            is_ipv6: self.is_ipv6,
            port: self.port,
            params: Params::of_header(self.params.in_bytes(bytes)),
            raw: self.raw.in_bytes(bytes),
            branch: self.branch.map(|s| s.in_bytes(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn via(text: &str) -> Via<'_> {
        Via::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn white_space_may_stand_around_everything() {
        let via = via(" sip / 2.0\r\n /\tUDP  [2001:db8::1] : 5070 ; branch\r\n = z9hG4bKx ;rport");
        assert_eq!(
            (via.transport, via.host, via.port),
            (&b"UDP"[..], &b"2001:db8::1"[..], Some(5070))
        );
        assert_eq!(via.branch(), Some(&b"z9hG4bKx"[..]));
        assert_eq!(via.rport(), Some(None));
        assert_eq!(via.sent_by(), b"[2001:db8::1] : 5070");
    }

    #[test]
    fn parameters_have_their_meaning() {
        let via =
            via("SIP/2.0/UDP h;maddr=224.0.1.75;ttl=16;rport=99;received=[2001:db8::1];branch=x");
        assert_eq!((via.maddr(), via.ttl()), (Some(&b"224.0.1.75"[..]), Some(16)));
        assert_eq!(via.rport(), Some(Some(99)));
        assert_eq!(via.received_ip(), Some("2001:db8::1".parse().unwrap()));
        assert_eq!(via.sent_by(), b"h");
    }

    #[test]
    fn a_branch_is_unique_with_something_behind_the_cookie() {
        for (text, is_unique) in [
            ("SIP/2.0/UDP h", false),
            ("SIP/2.0/UDP h;branch=1", false),
            ("SIP/2.0/UDP h;branch=z9hG4bK", false),
            ("SIP/2.0/UDP h;branch=z9hG4bK1", true),
            ("SIP/2.0/UDP h;branch=Z9HG4BK1", true),
        ] {
            assert_eq!(via(text).has_unique_branch(), is_unique, "{text}");
        }
    }

    #[test]
    fn broken_vias_are_told_with_their_place() {
        for (text, rule, at) in [
            ("", Rule::ViaProtocol, 0),
            ("SIP/7.0/UDP h", Rule::ViaProtocol, 4),
            ("HTTP/2.0/UDP h", Rule::ViaProtocol, 0),
            ("SIP/2.0/UDP", Rule::ViaProtocol, 11),
            ("SIP/2.0/ h", Rule::ViaProtocol, 8),
            ("SIP/2.0/UDP ;branch=1", Rule::ViaSentBy, 12),
            ("SIP/2.0/UDP h:", Rule::ViaSentBy, 14),
            ("SIP/2.0/UDP h:70000", Rule::ViaSentBy, 19),
            ("SIP/2.0/UDP 2001:db8::1", Rule::ViaSentBy, 17),
            ("SIP/2.0/UDP [zz]", Rule::ViaSentBy, 12),
            ("SIP/2.0/UDP [::1", Rule::ViaSentBy, 12),
            ("SIP/2.0/UDP h x", Rule::ViaSentBy, 14),
            ("SIP/2.0/UDP h;;", Rule::Parameter, 14),
        ] {
            assert_eq!(Via::parse(text.as_bytes()), Err(Fault { rule, at }), "{text}");
        }
    }
}
