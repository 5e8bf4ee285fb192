//! What our user agent says of itself in every message: Via, Contact, Allow, Server.
//!
//! RFC 3261 §8.1.1.7 (Via), §8.1.1.8 (Contact), §20.5 (Allow), §20.35 (Server). Nothing here
//! decides anything; it only writes.

use std::net::{IpAddr, SocketAddr};

use crate::path::Path;
use crate::wire::{Builder, Name, push_decimal};

/// The methods that we understand, as the value of Allow. INFO and unknown methods pass through a
/// dialog end to end, so only INFO is named.
pub const ALLOW: &[u8] = b"INVITE, ACK, BYE, CANCEL, OPTIONS, INFO, REGISTER";

/// The bodies that we understand outside of a dialog's pass-through, as the value of Accept.
pub const ACCEPT: &[u8] = b"application/sdp";

/// Hops that a request of ours may take (RFC 3261 §8.1.1.6).
pub const MAX_FORWARDS: u8 = 70;

/// Our user agent's name.
#[derive(Clone, Debug)]
pub struct Agent {
    name: Box<[u8]>,
}

impl Agent {
    /// An agent called `name` in Server and User-Agent; an empty name leaves both out.
    pub fn new(name: &str) -> Self {
        Self { name: name.as_bytes().into() }
    }

    /// Writes `User-Agent` into a request.
    pub fn user_agent<'w>(&self, builder: Builder<'w>) -> Builder<'w> {
        match self.name.is_empty() {
            true => builder,
            false => builder.header(Name::UserAgent, &self.name),
        }
    }

    /// Writes `Server` into a response.
    pub fn server<'w>(&self, builder: Builder<'w>) -> Builder<'w> {
        match self.name.is_empty() {
            true => builder,
            false => builder.header(Name::Server, &self.name),
        }
    }
}

/// Appends `SIP/2.0/UDP host:port;branch=...;rport`, the value of our Via. `rport` is always asked
/// for, so that answers find us behind a translator (RFC 3581 §3).
pub fn push_via(out: &mut Vec<u8>, path: &Path, branch: &[u8]) {
    out.extend_from_slice(b"SIP/2.0/");
    out.extend_from_slice(path.transport.as_via().as_bytes());
    out.push(b' ');
    push_address(out, path.local);
    out.extend_from_slice(b";branch=");
    out.extend_from_slice(branch);
    out.extend_from_slice(b";rport");
}

/// Appends `<sip:host:port>`, where the peer of `path` reaches us again.
pub fn push_contact(out: &mut Vec<u8>, path: &Path) {
    out.extend_from_slice(b"<sip:");
    push_address(out, path.local);
    if path.transport.is_reliable() {
        out.extend_from_slice(b";transport=");
        out.extend(path.transport.as_via().bytes().map(|letter| letter.to_ascii_lowercase()));
    }
    out.push(b'>');
}

/// Appends `host:port`, an IPv6 host in brackets.
pub fn push_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            for (at, octet) in ip.octets().into_iter().enumerate() {
                if at > 0 {
                    out.push(b'.');
                }
                push_decimal(out, u64::from(octet));
            }
        }
        IpAddr::V6(ip) => {
            out.push(b'[');
            out.extend_from_slice(ip.to_string().as_bytes());
            out.push(b']');
        }
    }
    out.push(b':');
    push_decimal(out, u64::from(address.port()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Transport;

    fn path(local: &str, transport: Transport) -> Path {
        let local = local.parse().unwrap();
        Path { transport, local, remote: local }
    }

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn addresses_are_written_as_in_a_uri() {
        let v4 = path("127.0.0.1:5060", Transport::Udp);
        let v6 = path("[2001:db8::1]:5061", Transport::Tls);
        assert_eq!(
            text(|out| push_via(out, &v4, b"z9hG4bKx")),
            "SIP/2.0/UDP 127.0.0.1:5060;branch=z9hG4bKx;rport"
        );
        assert_eq!(text(|out| push_contact(out, &v4)), "<sip:127.0.0.1:5060>");
        assert_eq!(text(|out| push_contact(out, &v6)), "<sip:[2001:db8::1]:5061;transport=tls>");
    }
}
