//! Readiness of a [`UdpPort`] in a tokio loop.

use crate::{Outgoing, ReceiveBatch, SendBatch, SendReport, UdpPort};
use std::io;
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

/// A [`UdpPort`] registered with tokio. Only waiting is asynchronous: after `readable` returns,
/// call [`AsyncUdp::receive`] until it brings nothing.
#[derive(Debug)]
pub struct AsyncUdp {
    fd: AsyncFd<UdpPort>,
}

impl AsyncUdp {
    /// Registers `port` with the current runtime; panics outside of one.
    pub fn new(port: UdpPort) -> io::Result<Self> {
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::ERROR;
        // SAFETY: a `UdpPort` owns its descriptor: it stays open and the same until the port is
        // dropped, and nothing here takes the port out of the `AsyncFd`.
        let registered = unsafe { AsyncFd::register_with_interest(port, interest) };
        registered.map(|fd| Self { fd }).map_err(|refused| refused.into_parts().1)
    }

    /// The socket.
    pub fn port(&self) -> &UdpPort {
        self.fd.get_ref()
    }

    /// Waits until a datagram, or an error that came back, may be there: call
    /// [`AsyncUdp::receive`] until it brings nothing, then [`UdpPort::take_path_errors`]. Dropping
    /// the future loses nothing.
    pub async fn readable(&self) -> io::Result<()> {
        let mut guard = self.fd.ready(Interest::READABLE | Interest::ERROR).await?;
        // An error is told once; the next one makes a new event.
        guard.clear_ready_matching(Ready::ERROR);
        Ok(())
    }

    /// Waits until the socket may take datagrams again, after a report with `would_block_from`.
    pub async fn writable(&self) -> io::Result<()> {
        self.fd.writable().await?.retain_ready();
        Ok(())
    }

    /// [`UdpPort::receive`]; nothing there ends the readiness. Only that does: a batch that is not
    /// full may have been cut off by an error that came back.
    pub fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        // A socket that is known to have nothing is not asked; the batch may hold another one's.
        batch.clear();
        let received = self.fd.try_io(Interest::READABLE, |port| match port.receive(batch)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        });
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    /// [`UdpPort::send`]; a full socket ends the readiness for [`AsyncUdp::writable`].
    pub fn send<'a>(
        &self,
        batch: &mut SendBatch,
        list: impl IntoIterator<Item = Outgoing<'a>>,
    ) -> SendReport {
        // Stands when the socket is known to be full and nothing is tried.
        let mut report = SendReport { would_block_from: Some(0), ..SendReport::default() };
        let tried = self.fd.try_io(Interest::WRITABLE, |port| {
            report = port.send(batch, list);
            match report.would_block_from {
                Some(_) => Err(io::ErrorKind::WouldBlock.into()),
                None => Ok(()),
            }
        });
        debug_assert!(tried.is_ok() || report.would_block_from.is_some());
        report
    }
}
