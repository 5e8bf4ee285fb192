//! A socket with its batches: what both sides of the tool drive.

use anyhow::Context as _;
use sip::path::Outbox;
use sip_net::{Clock, Outgoing, PathError, ReceiveBatch, SendBatch, UdpOptions, UdpPort};
use std::net::SocketAddr;
use std::time::Duration;
use turn::Mono;

/// How often a full socket is waited for before the rest of a list is given up.
const FULL_MAX: u32 = 50;
/// How long to wait each time.
const FULL_WAIT: Duration = Duration::from_millis(2);

/// A socket, its memory and a clock.
#[derive(Debug)]
pub struct Link {
    /// The socket.
    pub port: UdpPort,
    /// What the last receive brought.
    pub received: ReceiveBatch,
    sending: SendBatch,
    /// The only clock of this side.
    pub clock: Clock,
    /// How often the socket was full when something was to be sent.
    pub full: u64,
    unsent: Vec<usize>,
    path_errors: Vec<PathError>,
}

impl Link {
    /// Binds `local`; warnings go to standard error.
    pub fn bind(local: SocketAddr) -> anyhow::Result<Self> {
        let (port, warnings) = UdpPort::bind(local, &UdpOptions::default())
            .with_context(|| format!("cannot bind UDP {local}"))?;
        for warning in warnings {
            eprintln!("warning: {warning}");
        }
        Ok(Self {
            port,
            received: ReceiveBatch::new(sip_net::BATCH_MAX),
            sending: SendBatch::new(),
            clock: Clock::new(),
            full: 0,
            unsent: Vec::new(),
            path_errors: Vec::new(),
        })
    }

    /// Sends all that waits in `outbox`, trying again when the socket is full; the places of what
    /// did not leave, and when that was known.
    pub fn send(&mut self, outbox: &Outbox) -> (&[usize], Mono) {
        self.unsent.clear();
        let mut from = 0;
        for _ in 0..FULL_MAX {
            let rest = outbox.sends().skip(from);
            let outgoing = rest.map(|(path, bytes)| Outgoing {
                local: path.local,
                remote: path.remote,
                bytes,
            });
            let report = self.port.send(&mut self.sending, outgoing);
            self.unsent.extend(report.failed.iter().map(|failure| from + failure.index));
            let Some(place) = report.would_block_from else {
                return (&self.unsent, self.clock.mono());
            };
            from += place;
            self.full += 1;
            self.port.wait_writable(FULL_WAIT);
        }
        self.unsent.extend(from..outbox.len());
        (&self.unsent, self.clock.mono())
    }

    /// How many errors came back from the network since the last call.
    pub fn take_path_errors(&mut self) -> u64 {
        self.path_errors.clear();
        self.port.take_path_errors(&mut self.path_errors);
        self.path_errors.len() as u64
    }

    /// When the kernel took a datagram in, on the monotonic clock; `now` if it did not say or says
    /// what cannot be.
    pub fn arrival(&self, received_at: Option<u64>, now: Mono) -> Mono {
        const OLDEST: Duration = Duration::from_secs(60);
        let at = received_at.map_or(now, |nanos| self.clock.realtime_to_mono(nanos));
        if now - at > OLDEST || at - now > OLDEST { now } else { at }
    }
}
