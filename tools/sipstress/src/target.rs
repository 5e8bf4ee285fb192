//! Whom we may send to: loopback, unless the tester says that the target is theirs.

use anyhow::{Context as _, bail};
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// SIP's port for UDP.
const PORT: u16 = 5060;

/// Reads `ADDRESS[:PORT]`; `localhost` is the only name.
pub fn parse(text: &str) -> anyhow::Result<SocketAddr> {
    let text = text.replacen("localhost", "127.0.0.1", 1);
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let ip: IpAddr = bare.parse().with_context(|| {
        format!(
            "'{text}' is no address: write 127.0.0.1:5060 or [::1]:5060 (names are not looked up)"
        )
    })?;
    Ok(SocketAddr::new(ip, PORT))
}

/// Refuses what is not on this machine, unless it is the tester's own.
pub fn check(target: SocketAddr, is_own: bool) -> anyhow::Result<()> {
    if target.port() == 0 || target.ip().is_unspecified() || target.ip().is_multicast() {
        bail!("{target} is no address of a server");
    }
    if !target.ip().is_loopback() && !is_own {
        bail!(
            "{target} is not on this machine. A load test against a server of others is an attack: \
             if this one is yours, say --i-own-this-target"
        );
    }
    Ok(())
}

/// The address to bind: as asked, else the one that leads to the target.
pub fn local(asked: Option<&str>, target: SocketAddr) -> anyhow::Result<SocketAddr> {
    if let Some(text) = asked {
        let address = match text.parse::<SocketAddr>() {
            Ok(address) => address,
            Err(_) => {
                let bare = text.trim_start_matches('[').trim_end_matches(']');
                let ip = bare.parse().with_context(|| format!("'{text}' is no address"))?;
                SocketAddr::new(ip, 0)
            }
        };
        if address.ip().is_unspecified() || address.is_ipv4() != target.is_ipv4() {
            bail!("--local {text}: a specific address of the target's family is wanted");
        }
        return Ok(address);
    }
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let probe = UdpSocket::bind(any).context("cannot open a socket")?;
    // Connecting a UDP socket sends nothing; it only chooses the address.
    probe.connect(target).with_context(|| format!("no way to {target}"))?;
    Ok(SocketAddr::new(probe.local_addr()?.ip(), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_with_and_without_port() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:5060"),
            ("127.0.0.1:5070", "127.0.0.1:5070"),
            ("localhost:5080", "127.0.0.1:5080"),
            ("::1", "[::1]:5060"),
            ("[::1]:5070", "[::1]:5070"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), address);
        }
        assert!(parse("example.org").is_err());
    }

    #[test]
    fn only_loopback_without_a_word() {
        let loopback: SocketAddr = "127.9.9.9:5060".parse().unwrap();
        let foreign: SocketAddr = "192.0.2.1:5060".parse().unwrap();
        assert!(check(loopback, false).is_ok());
        assert!(check(foreign, true).is_ok());
        let refusal = check(foreign, false).unwrap_err().to_string();
        assert!(refusal.contains("--i-own-this-target"), "{refusal}");
        assert!(check("0.0.0.0:5060".parse().unwrap(), true).is_err());
    }

    #[test]
    fn the_local_address_must_suit_the_target() {
        let target: SocketAddr = "127.0.0.1:5060".parse().unwrap();
        assert_eq!(local(Some("127.0.0.7"), target).unwrap().to_string(), "127.0.0.7:0");
        assert!(local(Some("::1"), target).is_err());
        assert!(local(Some("0.0.0.0:5"), target).is_err());
        assert!(local(None, target).unwrap().ip().is_loopback());
    }
}
