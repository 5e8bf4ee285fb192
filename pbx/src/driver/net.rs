//! The sockets of one shard.

use crate::metrics::DriverCounts;
use pbx_core::Datagram;
use sip::path::{Outbox, Path, Transport};
use sip_net::{AsyncUdp, Clock, Outgoing, ReceiveBatch, SendBatch, Streams, UdpPort};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use turn::Now;

/// Datagrams that wait for a socket that takes none: 30 ms at full rate. UDP may lose the rest.
const BACKLOG_MAX: usize = 4_096;

/// The longest datagram that is recognised when the network gives it back.
const RETURNED_MAX: usize = 8_192;

/// No datagram waits longer in a socket; what looks older comes from a step of the clock.
const SOJOURN_BELIEVED: Duration = Duration::from_secs(30);

/// The sockets and the memory for their batches.
pub(crate) struct Net {
    ports: Vec<AsyncUdp>,
    /// Their addresses.
    locals: Vec<SocketAddr>,
    receive: ReceiveBatch,
    send: SendBatch,
    backlog: Outbox,
    /// For a datagram that came back.
    returned: Vec<u8>,
    /// Where messages over TCP go, and as whose.
    streams: Option<(Streams, u8)>,
}

impl Net {
    /// Registers the sockets with the runtime of the calling thread.
    pub(crate) fn new(ports: Vec<UdpPort>, streams: Option<(Streams, u8)>) -> io::Result<Self> {
        Ok(Self {
            locals: ports.iter().map(UdpPort::local_addr).collect(),
            ports: ports.into_iter().map(AsyncUdp::new).collect::<io::Result<_>>()?,
            receive: ReceiveBatch::new(sip_net::BATCH_MAX),
            send: SendBatch::new(),
            backlog: Outbox::new(),
            returned: vec![0; RETURNED_MAX],
            streams,
        })
    }

    pub(crate) fn ports(&self) -> usize {
        self.ports.len()
    }

    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Waits until a socket can be read. Dropping the future loses nothing.
    pub(crate) async fn readable(&self) {
        if let [port] = &self.ports[..] {
            // An error shows up again when the socket is read.
            let _ = port.readable().await;
            return;
        }
        let mut waits: Vec<_> = self.ports.iter().map(|port| Box::pin(port.readable())).collect();
        poll_fn(|cx| {
            let is_ready = |wait: &mut std::pin::Pin<Box<_>>| {
                let wait: std::pin::Pin<&mut _> = pin!(wait);
                Future::poll(wait, cx).is_ready()
            };
            if waits.iter_mut().any(is_ready) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Receives one batch.
    pub(crate) fn receive<'n>(
        &'n mut self,
        port: usize,
        clock: &'n Clock,
        now: Now,
    ) -> io::Result<impl Iterator<Item = Datagram<'n>> + use<'n>> {
        self.ports[port].receive(&mut self.receive)?;
        Ok(self.receive.iter().map(move |datagram| {
            let at = datagram.received_at.map_or(now.mono, |at| clock.realtime_to_mono(at));
            let believed = at <= now.mono && now.mono - at < SOJOURN_BELIEVED;
            Datagram {
                bytes: datagram.bytes,
                path: Path {
                    transport: Transport::Udp,
                    local: datagram.local,
                    remote: datagram.remote,
                },
                received_at: if believed { at } else { now.mono },
            }
        }))
    }

    /// Sends everything, what waits from before first. Gives copies of the messages that the kernel
    /// refused; they will not arrive.
    pub(crate) fn send(&mut self, outbox: &Outbox, counts: &mut DriverCounts) -> Vec<Box<[u8]>> {
        let mut failed = Vec::new();
        if outbox.has_streams() {
            self.send_streams(outbox, counts, &mut failed);
        }
        if self.has_backlog() {
            let before = std::mem::take(&mut self.backlog);
            self.send_some(&before, counts, &mut failed);
        }
        if self.has_backlog() {
            let datagrams = outbox.sends().filter(|(path, _)| !path.transport.is_reliable());
            keep(&mut self.backlog, datagrams, counts);
        } else if !outbox.is_empty() {
            self.send_some(outbox, counts, &mut failed);
        }
        failed
    }

    /// Hands over what goes over TCP; what cannot be sent comes back through the mailbox.
    fn send_streams(
        &self,
        outbox: &Outbox,
        counts: &mut DriverCounts,
        failed: &mut Vec<Box<[u8]>>,
    ) {
        for (path, bytes) in outbox.sends().filter(|(path, _)| path.transport.is_reliable()) {
            match &self.streams {
                Some((streams, shard)) => streams.send(path.local, path.remote, *shard, bytes),
                None => {
                    counts.send_failures += 1;
                    failed.push(bytes.into());
                }
            }
        }
    }

    fn send_some(
        &mut self,
        outbox: &Outbox,
        counts: &mut DriverCounts,
        failed: &mut Vec<Box<[u8]>>,
    ) {
        for number in 0..self.ports.len() {
            let locals = &self.locals;
            let is_of_port = |path: &Path| {
                path.transport == Transport::Udp
                    && (locals.len() == 1 || port_for(path, locals) == number)
            };
            let of_port = || outbox.sends().filter(|(path, _)| is_of_port(path));
            let list = of_port().map(|(path, bytes)| Outgoing {
                local: path.local,
                remote: path.remote,
                bytes,
            });
            let report = self.ports[number].send(&mut self.send, list);
            counts.sent += report.sent as u64;
            for failure in &report.failed {
                counts.send_failures += 1;
                failed.extend(of_port().nth(failure.index).map(|(_, bytes)| bytes.into()));
            }
            if let Some(from) = report.would_block_from {
                keep(&mut self.backlog, of_port().skip(from), counts);
            }
        }
    }

    /// Brings the counts up to date that the kernel keeps.
    pub(crate) fn count(&mut self, counts: &mut DriverCounts) {
        counts.kernel_drops = self.ports.iter().map(|port| port.port().dropped_by_kernel()).sum();
    }

    /// Takes the errors that came back for what was sent (RFC 3261 §18.4). Gives the requests that
    /// they are about: their branch is ours and cannot be guessed, so nobody can forge an error to
    /// end somebody's transaction. Of responses nothing is believed.
    pub(crate) fn returned(&mut self, counts: &mut DriverCounts) -> Vec<Box<[u8]>> {
        let mut requests = Vec::new();
        for port in &self.ports {
            port.port().take_returned(&mut self.returned, |_, bytes| {
                counts.path_errors += 1;
                if !bytes.is_empty() && !bytes.starts_with(b"SIP/") {
                    requests.push(bytes.into());
                }
            });
        }
        requests
    }
}

/// Keeps messages that a full socket did not take.
fn keep<'m>(
    backlog: &mut Outbox,
    messages: impl Iterator<Item = (Path, &'m [u8])>,
    counts: &mut DriverCounts,
) {
    for (path, bytes) in messages {
        if backlog.len() < BACKLOG_MAX {
            backlog.send(path, bytes);
        } else {
            counts.send_drops += 1;
        }
    }
}

/// The socket that a message must leave from: the one that was hit.
fn port_for(path: &Path, ports: &[SocketAddr]) -> usize {
    let local = path.local;
    let exact = ports.iter().position(|port| *port == local);
    let wildcard = || {
        ports.iter().position(|port| {
            let same_family = port.is_ipv4() == local.is_ipv4();
            port.ip().is_unspecified() && same_family && port.port() == local.port()
        })
    };
    let family = || ports.iter().position(|port| port.is_ipv4() == local.is_ipv4());
    exact.or_else(wildcard).or_else(family).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_leaves_from_the_socket_that_was_hit() {
        let ports: Vec<SocketAddr> =
            ["127.0.0.1:5060", "127.0.0.1:5080", "0.0.0.0:5090", "[::]:5060"]
                .map(|text| text.parse().unwrap())
                .into();
        let choose = |text: &str| {
            let local = text.parse().unwrap();
            port_for(&Path { transport: Transport::Udp, local, remote: local }, &ports)
        };
        assert_eq!(choose("127.0.0.1:5080"), 1);
        assert_eq!(choose("192.0.2.7:5090"), 2);
        assert_eq!(choose("[2001:db8::1]:5060"), 3);
        assert_eq!(choose("192.0.2.7:9999"), 0);
    }
}
