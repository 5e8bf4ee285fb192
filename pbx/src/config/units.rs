//! Values with a unit or a form of their own.

use super::Prefix;
use super::trunks::Peer;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// `500ms`, `3s`, `10m`, `1h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let scale = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    match number.parse::<u64>().ok().filter(|_| scale > 0).and_then(|n| n.checked_mul(scale)) {
        Some(millis) => Ok(Duration::from_millis(millis)),
        None => {
            Err(format!("'{text}' is no duration such as \"200ms\", \"3s\", \"10m\" or \"1h\""))
        }
    }
}

/// `64KiB`, `16MiB`, `1GiB`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let shift = match unit {
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => 0,
    };
    match number.parse::<u64>().ok().filter(|_| shift > 0).and_then(|n| n.checked_mul(1 << shift)) {
        Some(bytes) => Ok(bytes),
        None => Err(format!("'{text}' is no size such as \"64KiB\", \"16MiB\" or \"1GiB\"")),
    }
}

fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// `192.0.2.1:5060`, `[2001:db8::1]:5060`.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("'{text}' is no address such as \"192.0.2.1:5060\" or \"[2001:db8::1]:5060\"")
    })
}

/// The port of SIP where none is given.
const SIP_PORT: u16 = 5060;

/// `192.0.2.1:5060`, `192.0.2.1`, `sip.example.com`, `sip.example.com:5080`.
pub(super) fn peer(text: &str) -> Result<Peer, String> {
    if let Ok(address) = text.parse() {
        return Ok(Peer::Address(address));
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(ip) = bare.parse() {
        return Ok(Peer::Address(SocketAddr::new(ip, SIP_PORT)));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let is_port = |port: &&str| port.bytes().all(|byte| byte.is_ascii_digit());
    let number = port.map(|port| Some(port).filter(is_port).and_then(|it| it.parse().ok()));
    match number {
        Some(None | Some(0)) => Err(format!("'{text}' has no port from 1 to 65535")),
        Some(Some(port)) => Ok(Peer::Name { host: host_name(host)?, port: Some(port) }),
        None => Ok(Peer::Name { host: host_name(host)?, port: None }),
    }
}

/// A host name (RFC 952, RFC 1123 2.1; underscores are taken, since some have them).
fn host_name(text: &str) -> Result<String, String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| {
        let is_long = label.is_empty() || label.len() > 63;
        !is_long && label.bytes().all(fits) && !label.starts_with('-') && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    if name.len() <= 253 && name.split('.').all(is_label) && !is_number {
        return Ok(name.to_ascii_lowercase());
    }
    Err(format!(
        "'{text}' is neither a host name such as \"sip.example.com\" nor an address such as \
         \"192.0.2.1:5060\""
    ))
}

/// `192.0.2.0/24`, `2001:db8::/32`, `192.0.2.1`.
pub(super) fn prefix(text: &str) -> Result<Prefix, String> {
    let wrong =
        || format!("'{text}' is no address or network such as \"192.0.2.1\" or \"192.0.2.0/24\"");
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        Some(bits) => bits.parse().ok().filter(|&bits: &u8| bits <= most).ok_or_else(wrong)?,
        None => most,
    };
    let prefix = Prefix { address, bits };
    if prefix.network() != address {
        let network = prefix.network();
        return Err(format!(
            "'{text}' has bits beyond its length: {network}/{bits} is the network"
        ));
    }
    Ok(prefix)
}

/// `0600`, as for chmod: a private or group-shared socket.
pub(super) fn socket_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode & !0o660 == 0 && mode & 0o600 == 0o600 => Ok(mode),
        Ok(_) | Err(_) => Err(format!("'{text}' is neither \"0600\" nor \"0660\"")),
    }
}

/// A name that goes into channel names, log lines and records.
pub(super) fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !text.is_empty() && text.len() <= 64 && text.chars().all(fits) {
        return Ok(text.to_owned());
    }
    Err("a name has 1 to 64 letters, digits, '-', '_' or '.'".to_owned())
}

/// Reads a host name or an address, as it stands in a URI.
pub(super) fn host(text: &str) -> Result<String, &'static str> {
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    if text.is_empty() || text.len() > 255 || !text.bytes().all(is_host) {
        return Err("a host name or an address is wanted");
    }
    Ok(text.to_owned())
}

/// What may stand in a Server or User-Agent header field.
pub(super) fn agent(text: &str) -> Result<String, String> {
    if !text.is_empty() && text.len() <= 128 && text.chars().all(|c| (' '..='~').contains(&c)) {
        return Ok(text.to_owned());
    }
    Err("a user agent has 1 to 128 printable ASCII characters".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_required() {
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for wrong in ["200", "ms", "-1s", "1.5s", "1 s", "99999999999999999999h", "1d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(size("16MiB"), Ok(16 << 20));
        for wrong in ["16", "16MB", "KiB", "99999999999999GiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_prefix_has_no_bits_beyond_its_length() {
        let v4 = |text: &str, bits| Prefix { address: text.parse().unwrap(), bits };
        assert_eq!(prefix("192.0.2.7"), Ok(v4("192.0.2.7", 32)));
        assert_eq!(prefix("127.0.0.0/8"), Ok(v4("127.0.0.0", 8)));
        assert_eq!(prefix("2001:db8::/32"), Ok(v4("2001:db8::", 32)));
        assert!(prefix("192.0.2.7/24").unwrap_err().contains("192.0.2.0/24"));
        for wrong in ["192.0.2.0/33", "example.com", "192.0.2", "::/129", "10.0.0.0/"] {
            assert!(prefix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_peer_is_an_address_or_a_name() {
        let at = |text: &str| Ok(Peer::Address(text.parse().unwrap()));
        let named = |host: &str, port| Ok(Peer::Name { host: host.to_owned(), port });
        assert_eq!(peer("192.0.2.1:5070"), at("192.0.2.1:5070"));
        assert_eq!(peer("192.0.2.1"), at("192.0.2.1:5060"));
        assert_eq!(peer("[2001:db8::1]"), at("[2001:db8::1]:5060"));
        assert_eq!(peer("SIP.example.com"), named("sip.example.com", None));
        assert_eq!(peer("sip.example.com.:5080"), named("sip.example.com", Some(5080)));
        assert_eq!(peer("localhost"), named("localhost", None));
        let long = format!("{}.example", "a".repeat(64));
        for wrong in [
            "",
            "a b",
            "-a.example",
            "a-.example",
            "a..example",
            "192.0.2.300",
            "a:b",
            "a:0",
            "a:65536",
            "a:+5",
            "a:",
            ":5060",
            "sip:a.example",
            "a/b",
            "ü.example",
            &long,
        ] {
            assert!(peer(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_socket_is_never_open_to_others() {
        assert_eq!(socket_mode("0600"), Ok(0o600));
        assert_eq!(socket_mode("660"), Ok(0o660));
        for wrong in ["0666", "0640x", "0060", "0777", ""] {
            assert!(socket_mode(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_cannot_break_a_line_or_a_header() {
        assert!(name("trunk-a.1").is_ok());
        for wrong in ["", "a b", "a'b", "ü", "a\nb"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
        assert!(agent("pbx/0.1").is_ok());
        assert!(agent("pbx\r\nX: y").is_err());
    }
}
