//! Which SIP messages an operator looks at, and where they go: into the log, into a pcap file, or
//! both. Rules are few; without one a message costs a look at an empty option.

use crate::capture::Capture;
use sip::path::Path;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rules at a time.
pub(crate) const RULES_MAX: usize = 32;

/// What a rule looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Every message.
    All,
    /// Those of an address.
    Peer(IpAddr),
    /// Those of an endpoint or trunk: by the addresses that it has, and by its name in a URI.
    Endpoint {
        /// Its name.
        name: String,
        /// Its trunk's addresses; those of a phone's contacts.
        addresses: Vec<IpAddr>,
    },
    /// Those of a call.
    Call {
        /// As the operator named it.
        name: String,
        /// Of all its legs.
        call_ids: Vec<Vec<u8>>,
    },
}

impl Whose {
    fn matches(&self, path: &Path, bytes: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Peer(peer) => *peer == path.remote.ip().to_canonical(),
            Self::Endpoint { name, addresses } => {
                addresses.contains(&path.remote.ip().to_canonical()) || names(bytes, name)
            }
            Self::Call { call_ids, .. } => {
                call_id(bytes).is_some_and(|id| call_ids.iter().any(|it| it == id))
            }
        }
    }

    /// As it is listed, and typed to take it away.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Peer(peer) => format!("peer {peer}"),
            Self::Endpoint { name, .. } => format!("endpoint {name}"),
            Self::Call { name, .. } => format!("call {name}"),
        }
    }
}

/// The value of the line Call-ID (RFC 3261 20.8), also in its compact form.
fn call_id(bytes: &[u8]) -> Option<&[u8]> {
    bytes.split(|byte| *byte == b'\n').take_while(|line| line.len() > 1).find_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        let name = line[..colon].trim_ascii();
        let is_it = name.eq_ignore_ascii_case(b"Call-ID") || name.eq_ignore_ascii_case(b"i");
        is_it.then(|| line[colon + 1..].trim_ascii())
    })
}

/// Whether `sip:name@` stands in a message.
fn names(bytes: &[u8], name: &str) -> bool {
    let wanted = name.as_bytes();
    memchr::memmem::find_iter(bytes, wanted).any(|at| {
        let before = at.checked_sub(1).map(|at| bytes[at]);
        before == Some(b':') && bytes.get(at + wanted.len()) == Some(&b'@')
    })
}

/// One rule, and how often it held.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) whose: Whose,
    /// Where the messages go; the log when `None`.
    pub(crate) capture: Option<Arc<Capture>>,
    pub(crate) messages: AtomicU64,
}

impl Rule {
    pub(crate) fn new(whose: Whose, capture: Option<Arc<Capture>>) -> Self {
        Self { whose, capture, messages: AtomicU64::new(0) }
    }
}

/// All rules, as shards see them.
#[derive(Clone, Debug)]
pub(crate) struct Rules(pub(crate) Arc<Vec<Arc<Rule>>>);

impl Rules {
    /// Puts a message where it is wanted; whether that is the log, too.
    pub(crate) fn take(&self, path: &Path, is_ours: bool, wall_us: i64, bytes: &[u8]) -> bool {
        let mut is_logged = false;
        for rule in self.0.iter().filter(|rule| rule.whose.matches(path, bytes)) {
            rule.messages.fetch_add(1, Ordering::Relaxed);
            match &rule.capture {
                Some(capture) => capture.take(path, is_ours, wall_us, bytes),
                None => is_logged = true,
            }
        }
        is_logged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::path::Transport;

    const INVITE: &[u8] = b"INVITE sip:100@pbx SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\n\
        From: <sip:alice@pbx>;tag=1\r\nTo: <sip:100@pbx>\r\nCall-ID: abc@h\r\nCSeq: 1 INVITE\r\n\
        Content-Length: 0\r\n\r\n";

    fn path(remote: &str) -> Path {
        Path {
            transport: Transport::Udp,
            local: "127.0.0.1:5060".parse().unwrap(),
            remote: remote.parse().unwrap(),
        }
    }

    #[test]
    fn rules_look_at_peer_endpoint_and_call() {
        let far = path("192.0.2.1:5060");
        let holds = |whose: &Whose| whose.matches(&far, INVITE);
        assert!(holds(&Whose::All) && holds(&Whose::Peer(far.remote.ip())));
        assert!(!holds(&Whose::Peer("192.0.2.2".parse().unwrap())));
        let endpoint = |name: &str, addresses| Whose::Endpoint { name: name.into(), addresses };
        assert!(holds(&endpoint("alice", vec![])) && !holds(&endpoint("ali", vec![])));
        assert!(holds(&endpoint("trunk", vec![far.remote.ip()])));
        let call = |id: &[u8]| Whose::Call { name: "C-1".into(), call_ids: vec![id.to_vec()] };
        assert!(holds(&call(b"abc@h")) && !holds(&call(b"abc")));
        assert_eq!(call_id(b"SIP/2.0 200 OK\r\nI : x\r\n\r\nCall-ID: y\r\n"), Some(&b"x"[..]));
        assert_eq!(call_id(b"SIP/2.0 200 OK\r\n\r\nCall-ID: y\r\n"), None);
    }
}
