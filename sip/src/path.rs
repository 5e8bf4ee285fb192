//! Where a message goes and where it came from, and the outbox of a turn.
//!
//! A [`Path`] is a transport with both of its addresses. It holds the *local* one too, because on
//! a host with several addresses an answer must leave from the address that was hit (RFC 3261
//! §18.2.2; a NAT in between drops anything else). An [`Outbox`] collects what one turn wants to
//! send; the driver sends it in batches and clears it. Nothing here opens a socket or resolves a
//! name.

use std::net::SocketAddr;
use std::ops::Range;

/// A transport protocol of RFC 3261 §18 or RFC 7118.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Transport {
    /// Datagrams; all others are streams of messages.
    Udp,
    /// A plain stream.
    Tcp,
    /// TLS over TCP.
    Tls,
    /// WebSocket over TCP.
    Ws,
    /// WebSocket over TLS.
    Wss,
}

impl Transport {
    /// Whether the transport itself repeats what was lost, so that transactions must not
    /// (RFC 3261 §17.1.1.2, §17.1.2.2).
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// The word for a Via header field.
    pub const fn as_via(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Ws => "WS",
            Self::Wss => "WSS",
        }
    }
}

/// One way between us and a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Path {
    /// The transport protocol.
    pub transport: Transport,
    /// Our address: the one that was hit, or the one to send from.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
}

impl Path {
    /// The same path with another peer address.
    pub const fn to(self, remote: SocketAddr) -> Self {
        Self { remote, ..self }
    }
}

/// The messages that one turn wants to send, in order. All bytes lie in one buffer that keeps its
/// capacity, so a turn allocates nothing once the buffer has grown to the size of the largest
/// turn. What bounds it is the bound on the work of a turn: the driver clears it after each.
#[derive(Debug, Default)]
pub struct Outbox {
    arena: Vec<u8>,
    sends: Vec<(Path, Range<u32>)>,
    has_streams: bool,
}

impl Outbox {
    /// An empty outbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends a finished message.
    pub fn send(&mut self, path: Path, bytes: &[u8]) {
        self.compose(path, |buffer| buffer.extend_from_slice(bytes));
    }

    /// Sends the message that `write` appends to the buffer (which may hold others before it) and
    /// gives it back. What appends nothing sends nothing.
    pub fn compose(&mut self, path: Path, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let start = self.arena.len();
        write(&mut self.arena);
        let end = self.arena.len();
        debug_assert!(end >= start, "compose only appends");
        if end > start {
            self.sends.push((path, offset(start)..offset(end)));
            self.has_streams |= path.transport.is_reliable();
        }
        &self.arena[start..]
    }

    /// The messages in the order in which they were sent.
    pub fn sends(&self) -> impl ExactSizeIterator<Item = (Path, &[u8])> {
        self.sends
            .iter()
            .map(|(path, range)| (*path, &self.arena[range.start as usize..range.end as usize]))
    }

    /// How many messages wait.
    pub fn len(&self) -> usize {
        self.sends.len()
    }

    /// Whether no message waits.
    pub fn is_empty(&self) -> bool {
        self.sends.is_empty()
    }

    /// Forgets all messages and keeps the memory.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.sends.clear();
        self.has_streams = false;
    }

    /// Whether a message among them goes over a stream.
    pub fn has_streams(&self) -> bool {
        self.has_streams
    }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("a turn sends less than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(port: u16) -> Path {
        Path {
            transport: Transport::Udp,
            local: SocketAddr::from(([127, 0, 0, 1], 5060)),
            remote: SocketAddr::from(([127, 0, 0, 2], port)),
        }
    }

    #[test]
    fn messages_come_out_in_order_with_their_paths() {
        let mut out = Outbox::new();
        out.send(path(1), b"one");
        assert_eq!(out.compose(path(2), |buffer| buffer.extend_from_slice(b"second")), b"second");
        let seen: Vec<_> = out.sends().collect();
        assert_eq!(seen, [(path(1), &b"one"[..]), (path(2), &b"second"[..])]);
        out.clear();
        assert!(out.is_empty());
        assert_eq!(out.sends().len(), 0);
    }

    #[test]
    fn an_empty_message_is_not_sent() {
        let mut out = Outbox::new();
        assert_eq!(out.compose(path(1), |_| ()), b"");
        assert_eq!(out.len(), 0);
    }

    #[test]
    fn only_udp_is_unreliable() {
        let all = [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Ws, Transport::Wss];
        let unreliable: Vec<_> = all.into_iter().filter(|kind| !kind.is_reliable()).collect();
        assert_eq!(unreliable, [Transport::Udp]);
        assert_eq!(all.map(Transport::as_via), ["UDP", "TCP", "TLS", "WS", "WSS"]);
    }
}
