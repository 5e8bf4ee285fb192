//! Values of an account as the PBX takes them: names, addresses, networks, durations.

use crate::write::{list, quoted};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The port of SIP where none is said.
const PORT: u16 = 5060;

/// A value of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    List(Vec<String>),
    Number(u32),
    Truth(bool),
}

impl Value {
    /// As it is written.
    pub(crate) fn toml(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::List(texts) => list(texts.iter().map(String::as_str)),
            Self::Number(number) => number.to_string(),
            Self::Truth(truth) => truth.to_string(),
        }
    }
}

/// What is shown to others.
pub(crate) fn caller(text: &str) -> Result<Value, String> {
    if text.len() > 128 || text.chars().any(char::is_control) {
        return Err("at most 128 bytes, and no control characters".to_owned());
    }
    Ok(Value::Text(text.to_owned()))
}

/// A name that goes into channel names and addresses.
pub(crate) fn name(text: &str) -> Result<Value, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !text.is_empty() && text.len() <= 64 && text.chars().all(fits) {
        return Ok(Value::Text(text.to_owned()));
    }
    Err("a name has 1 to 64 letters, digits, '-', '_' or '.' here".to_owned())
}

/// What stands in header fields as it is: a realm, a user agent.
pub(crate) fn printable(text: &str) -> Result<String, String> {
    if (1..=128).contains(&text.len()) && text.chars().all(|c| (' '..='~').contains(&c)) {
        return Ok(text.to_owned());
    }
    Err("1 to 128 printable ASCII characters are wanted".to_owned())
}

/// A text that is there.
pub(crate) fn filled(text: &str) -> Result<Value, String> {
    if text.is_empty() { Err("it is empty".into()) } else { Ok(Value::Text(text.to_owned())) }
}

/// A host name or an address in a URI.
pub(crate) fn host(text: &str) -> Result<Value, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    if text.is_empty() || text.len() > 255 || !text.bytes().all(fits) {
        return Err("a host name or an address is wanted".to_owned());
    }
    Ok(Value::Text(text.to_owned()))
}

/// `address[:port]` of ours.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    read_address(text).ok_or_else(|| "an address is wanted, and perhaps a port".to_owned())
}

fn read_address(text: &str) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address);
    }
    let ip = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok()?;
    Some(SocketAddr::new(ip, PORT))
}

/// Where somebody else is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// An address.
    Address(SocketAddr),
    /// A name for the DNS; without a port, its SRV records say it.
    Name { host: String, port: Option<u16> },
}

impl Peer {
    /// With another port.
    pub(crate) fn at_port(mut self, number: u16) -> Self {
        match &mut self {
            Self::Address(address) => address.set_port(number),
            Self::Name { port, .. } => *port = Some(number),
        }
        self
    }

    /// Without the port.
    pub(crate) fn host(&self) -> String {
        match self {
            Self::Address(address) => address.ip().to_string(),
            Self::Name { host, .. } => host.clone(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name { host, port: Some(port) } => write!(f, "{host}:{port}"),
            Self::Name { host, port: None } => f.write_str(host),
        }
    }
}

/// `address[:port]` or `name[:port]` of a peer.
pub(crate) fn peer(text: &str) -> Result<Peer, String> {
    if let Some(address) = read_address(text) {
        return Ok(Peer::Address(address));
    }
    let wrong = || "a host name or an address is wanted, and perhaps a port".to_owned();
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => {
            let port = port.parse().ok().filter(|number| *number > 0);
            (host, Some(port.ok_or_else(wrong)?))
        }
        None => (text, None),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| {
        let is_long = label.is_empty() || label.len() > 63;
        !is_long && label.bytes().all(fits) && !label.starts_with('-') && !label.ends_with('-')
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    if host.len() <= 253 && host.split('.').all(is_label) && !is_number {
        return Ok(Peer::Name { host: host.to_ascii_lowercase(), port });
    }
    Err(wrong())
}

/// An address or a network, with a length or a mask.
pub(crate) fn network(text: &str) -> Result<String, String> {
    let wrong =
        || "an address or a network is wanted: where calls come from is not looked up".to_owned();
    let (ip, length) = match text.split_once('/') {
        Some((ip, length)) => (ip, Some(length)),
        None => (text, None),
    };
    let ip: IpAddr = ip.trim().parse().map_err(|_| wrong())?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let Some(length) = length.map(str::trim) else { return Ok(ip.to_string()) };
    let bits: u32 = match length.parse::<IpAddr>() {
        Ok(mask) => {
            let (bits, width) = number(mask);
            let ones = (bits << (128 - width)).leading_ones().min(width);
            let is_mask = bits.count_ones() == ones && width == most;
            if is_mask { ones } else { return Err(wrong()) }
        }
        Err(_) => length.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?,
    };
    let (value, width) = number(ip);
    let kept = if bits == 0 { 0 } else { value >> (width - bits) << (width - bits) };
    let network = match ip {
        IpAddr::V4(_) => IpAddr::V4(u32::try_from(kept).unwrap_or_default().into()),
        IpAddr::V6(_) => IpAddr::V6(kept.into()),
    };
    Ok(if bits == most { network.to_string() } else { format!("{network}/{bits}") })
}

fn number(ip: IpAddr) -> (u128, u32) {
    match ip {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32),
        IpAddr::V6(ip) => (u128::from(ip), 128),
    }
}

/// Seconds to a duration.
pub(crate) fn seconds(text: &str, least: u32, most: u32) -> Result<Value, String> {
    match text.trim().parse::<u32>() {
        Ok(number) if (least..=most).contains(&number) => Ok(Value::Text(format!("{number}s"))),
        Ok(_) | Err(_) => Err(format!("{least} to {most} seconds are wanted")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_addresses_or_names() {
        for (text, expected, host) in [
            ("192.0.2.1", "192.0.2.1:5060", "192.0.2.1"),
            ("[2001:db8::1]:5070", "[2001:db8::1]:5070", "2001:db8::1"),
            ("Sip.Example.com", "sip.example.com", "sip.example.com"),
            ("sip.example.com.:5080", "sip.example.com:5080", "sip.example.com"),
        ] {
            let peer = peer(text).unwrap();
            assert_eq!((peer.to_string().as_str(), peer.host().as_str()), (expected, host));
        }
        assert_eq!(peer("a.example").unwrap().at_port(7).to_string(), "a.example:7");
        for wrong in ["", "a b", "a:0", "a:", "-a.example", "192.0.2.300", "a..b", "$"] {
            assert!(peer(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn networks_have_lengths_or_masks() {
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1/32", "192.0.2.1"),
            ("192.0.2.7/24", "192.0.2.0/24"),
            ("192.0.2.7/255.255.255.0", "192.0.2.0/24"),
            ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
            ("0.0.0.0/0.0.0.0", "0.0.0.0/0"),
            ("2001:db8::1/32", "2001:db8::/32"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(network(text).as_deref(), Ok(expected), "{text}");
        }
        for text in ["sip.example.com", "192.0.2.1/33", "192.0.2.1/255.0.255.0", "1.2.3.4/ffff::"] {
            assert!(network(text).is_err(), "{text}");
        }
    }
}
