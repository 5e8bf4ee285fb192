//! One connection: what is read becomes messages, what is queued is written, and a clock watches
//! both.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sip::wire::{Inlet, Piece};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Closed, Outlet, Parcel, Shared};

/// Bytes of one read.
const READ_BYTES: usize = 16_384;

/// Bytes of one write: what waits is joined up to here.
const WRITE_BYTES: usize = 65_536;

/// The answer to a keep-alive (RFC 5626 4.4.1).
const PONG: &[u8] = b"\r\n";

pub(crate) struct Connection {
    shared: Arc<Shared>,
    stream: TcpStream,
    local: SocketAddr,
    remote: SocketAddr,
    inlet: Inlet,
    deadline: Deadline,
}

/// When the connection is closed if nothing more comes.
#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    why: Closed,
}

impl Connection {
    pub(crate) fn new(
        shared: Arc<Shared>,
        stream: TcpStream,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Self {
        let deadline = Deadline { at: Instant::now() + shared.limits.first, why: Closed::Slow };
        Self { shared, stream, local, remote, inlet: Inlet::default(), deadline }
    }

    /// Runs until the connection ends; gives why.
    pub(crate) async fn run(&mut self, outlet: &mut Outlet) -> Closed {
        let mut stopping = self.shared.stopping();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let ended = tokio::select! {
                read = self.stream.read(&mut buffer) => match read {
                    Ok(0) | Err(_) => Some(Closed::ByPeer),
                    Ok(length) => self.take(&buffer[..length]).await,
                },
                parcel = outlet.queue.recv() => match parcel {
                    Some(parcel) => self.write(parcel, outlet).await,
                    None => Some(Closed::Ended),
                },
                () = sleep_until(self.deadline.at) => Some(self.deadline.why),
                _ = stopping.changed() => Some(Closed::Ended),
            };
            if let Some(why) = ended {
                return why;
            }
        }
    }

    /// Takes in what was read.
    async fn take(&mut self, bytes: &[u8]) -> Option<Closed> {
        let was_within = self.inlet.is_within();
        self.inlet.feed(bytes);
        let (mut messages, mut pings) = (Vec::new(), 0_usize);
        let is_broken = loop {
            match self.inlet.next_piece() {
                Ok(Some(Piece::Message(message))) => messages.push(message.to_vec()),
                Ok(Some(Piece::Ping)) => pings += 1,
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        let is_fresh = !messages.is_empty() || pings > 0;
        if !messages.is_empty() {
            let count = u64::try_from(messages.len()).unwrap_or(u64::MAX);
            self.shared.counts.received.fetch_add(count, Ordering::Relaxed);
            self.shared.user.received(self.local, self.remote, &messages);
        }
        if is_broken {
            let rest = self.inlet.rest();
            if let Some(last) = self.shared.user.broken(self.local, self.remote, rest) {
                let _ = self.put(&last).await;
                self.linger().await;
            }
            return Some(Closed::Broken);
        }
        self.set_deadline(was_within && !is_fresh);
        if pings > 0 { self.put(PONG).await } else { None }
    }

    /// The peer has as long as a message may take to read the last word: a connection that is
    /// closed with bytes unread is reset, and the word with it.
    async fn linger(&mut self) {
        let _ = self.stream.shutdown().await;
        let mut rest = vec![0; READ_BYTES];
        let _ = timeout(Duration::from_secs(1), async {
            while let Ok(1..) = self.stream.read(&mut rest).await {}
        })
        .await;
    }

    /// `goes_on`: the message that has begun was there before.
    fn set_deadline(&mut self, goes_on: bool) {
        if goes_on {
            return;
        }
        let limits = &self.shared.limits;
        let (span, why) = match self.inlet.is_within() {
            true => (limits.whole, Closed::Slow),
            false => (limits.idle, Closed::Idle),
        };
        self.deadline = Deadline { at: Instant::now() + span, why };
    }

    /// Writes a message, and others that wait behind it.
    async fn write(&mut self, first: Parcel, outlet: &mut Outlet) -> Option<Closed> {
        let mut bytes = first.bytes.into_vec();
        let mut count = 1;
        while bytes.len() < WRITE_BYTES {
            let Ok(next) = outlet.queue.try_recv() else { break };
            bytes.extend_from_slice(&next.bytes);
            count += 1;
        }
        outlet.waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
        self.shared.counts.sent.fetch_add(count, Ordering::Relaxed);
        self.put(&bytes).await
    }

    async fn put(&mut self, bytes: &[u8]) -> Option<Closed> {
        match timeout(self.shared.limits.whole, self.stream.write_all(bytes)).await {
            Ok(Ok(())) => None,
            Ok(Err(_)) => Some(Closed::ByPeer),
            Err(_) => Some(Closed::Full),
        }
    }
}
