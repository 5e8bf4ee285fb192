//! A bound UDP socket.

use crate::address::KernelAddress;
use crate::control::{Control, Said};
use crate::send::is_echo;
use crate::{Outgoing, ReceiveBatch, SendBatch, SendReport, sys};
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Entries of the error queue taken in one call: a dead peer must not keep a turn busy.
const PATH_ERRORS_MAX: usize = 64;
/// How often one receive steps over an error that belongs to something sent.
const ECHOES_MAX: usize = 16;

/// How a socket is set up.
#[derive(Clone, Copy, Debug)]
pub struct UdpOptions {
    /// Bytes of receive buffer to ask for. A queued datagram of 600 bytes takes about 1.3 KiB of
    /// it: the kernel's default of 208 KiB holds 166, less than 3 ms at full rate.
    pub receive_buffer: usize,
    /// Bytes of send buffer to ask for.
    pub send_buffer: usize,
    /// Lets several sockets (one a shard) bind the same address (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// Asks the kernel when each datagram arrived (`SO_TIMESTAMPNS`).
    pub timestamps: bool,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self { receive_buffer: 16 << 20, send_buffer: 4 << 20, reuse_port: false, timestamps: true }
    }
}

/// Something an operator should know about a socket that works all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The kernel granted a smaller receive buffer than asked.
    ReceiveBufferSmall {
        /// Bytes asked for.
        asked: usize,
        /// Bytes granted.
        granted: usize,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReceiveBufferSmall { asked, granted } => write!(
                f,
                "the receive buffer has {} KiB instead of {} KiB and may overflow under load: \
                 sysctl -w net.core.rmem_max={asked}",
                granted / 1024,
                asked / 1024
            ),
        }
    }
}

/// An error that came back from the network for something sent earlier (RFC 3261 18.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathError {
    /// Whom the datagram had been sent to.
    pub remote: SocketAddr,
    /// The system's error number: `ECONNREFUSED` when nobody listens there.
    pub errno: i32,
}

/// One bound, non-blocking UDP socket.
#[derive(Debug)]
pub struct UdpPort {
    socket: Socket,
    local: SocketAddr,
    receive_buffer: usize,
    dropped: AtomicU64,
    echoes: AtomicU64,
}

impl UdpPort {
    /// Binds `address` (port 0: the kernel chooses). An IPv6 wildcard does not take IPv4 in.
    pub fn bind(address: SocketAddr, options: &UdpOptions) -> io::Result<(Self, Vec<Warning>)> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if options.reuse_port {
            socket.set_reuse_port(true)?;
        }
        let fd = socket.as_raw_fd();
        set_options(fd, address, options)?;
        let (receive_buffer, warnings) = size_buffers(&socket, options)?;
        socket.bind(&address.into())?;
        let local = socket
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::Error::other("bound to something else than IPv4 or IPv6"))?;
        let (dropped, echoes) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok((Self { socket, local, receive_buffer, dropped, echoes }, warnings))
    }

    /// The address bound, with the port that the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Bytes of receive buffer that the kernel granted.
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// Receives what is there, up to the batch's size. `Ok(0)` when there is nothing.
    pub fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        for _ in 0..ECHOES_MAX {
            match batch.fill(self.socket.as_raw_fd(), self.local) {
                Ok((count, drops)) => {
                    if let Some(drops) = drops {
                        self.note_drops(drops);
                    }
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error().is_some_and(is_echo) => {
                    self.echoes.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }

    /// Sends all of `list` and tells what did not leave. Does not wait.
    pub fn send<'a>(
        &self,
        batch: &mut SendBatch,
        list: impl IntoIterator<Item = Outgoing<'a>>,
    ) -> SendReport {
        let choose_source = self.local.ip().is_unspecified();
        batch.send(self.socket.as_raw_fd(), choose_source, list.into_iter())
    }

    /// For loops without tokio: waits until a datagram (or an error) may be there, at most
    /// `limit`. False when nothing came or a signal did. An error keeps it true at once until
    /// [`UdpPort::take_path_errors`] has taken it.
    pub fn wait_readable(&self, limit: Duration) -> bool {
        sys::wait(self.socket.as_raw_fd(), libc::POLLIN, limit)
    }

    /// As [`UdpPort::wait_readable`], until the socket may take datagrams again.
    pub fn wait_writable(&self, limit: Duration) -> bool {
        sys::wait(self.socket.as_raw_fd(), libc::POLLOUT, limit)
    }

    /// Datagrams that the kernel dropped since the start because the receive buffer was full.
    pub fn dropped_by_kernel(&self) -> u64 {
        if let Ok(drops) = sys::drops(self.socket.as_raw_fd()) {
            self.note_drops(drops);
        }
        self.dropped.load(Ordering::Relaxed)
    }

    /// Appends errors that came back for what was sent earlier; at most 64 a call. Cheap when there
    /// are none: one system call. Call it from time to time and whenever [`crate::AsyncUdp`] wakes
    /// without a datagram.
    pub fn take_path_errors(&self, errors: &mut Vec<PathError>) {
        for _ in 0..PATH_ERRORS_MAX {
            let Some((error, _)) = self.next_path_error(&mut []) else { return };
            errors.extend(error);
        }
    }

    /// As [`UdpPort::take_path_errors`], each with the datagram that it is about, as far as the
    /// network gave it back and `memory` holds it. An error can be forged by whoever guesses our
    /// port: trust it only for a datagram that holds something of ours that cannot be guessed.
    pub fn take_returned(&self, memory: &mut [u8], mut each: impl FnMut(PathError, &[u8])) {
        for _ in 0..PATH_ERRORS_MAX {
            let Some((error, length)) = self.next_path_error(memory) else { return };
            if let Some(error) = error {
                each(error, &memory[..length]);
            }
        }
    }

    /// `None`: the queue is empty. Otherwise the error, unless it names no peer, and how many bytes
    /// of the datagram came back.
    fn next_path_error(&self, memory: &mut [u8]) -> Option<(Option<PathError>, usize)> {
        let mut name = KernelAddress::empty();
        let mut control = Control::empty();
        let mut vector =
            libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() };
        let mut header = sys::empty_header();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_name = (&raw mut name).cast();
        header.msg_namelen = KernelAddress::SIZE;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = control.0.len();
        // SAFETY: name, control and vector live in this frame, memory outlives the call, and all
        // have the lengths given.
        let length = unsafe { sys::receive_error(self.socket.as_raw_fd(), &mut header) }.ok()?;
        let errno = control.messages(header.msg_controllen).find_map(|said| match said {
            Said::Error(errno) => Some(errno),
            Said::ReceivedAt(_) | Said::Local(_) | Said::Dropped(_) | Said::Other => None,
        });
        let error = name.read().zip(errno).map(|(remote, errno)| PathError { remote, errno });
        Some((error, length.min(memory.len())))
    }

    /// The kernel's counter has 32 bits and wraps; ours does not.
    fn note_drops(&self, kernel: u32) {
        let known = self.dropped.load(Ordering::Relaxed);
        let more = kernel.wrapping_sub(known as u32);
        // A counter read earlier may be told later: that is no step of four thousand million.
        if more < u32::MAX / 2 {
            self.dropped.store(known + u64::from(more), Ordering::Relaxed);
        }
    }
}

impl AsRawFd for UdpPort {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn set_options(fd: RawFd, address: SocketAddr, options: &UdpOptions) -> io::Result<()> {
    let wildcard = address.ip().is_unspecified();
    if address.is_ipv4() {
        sys::set_option(fd, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?;
        if wildcard {
            sys::set_option(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
        }
    } else {
        sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
        if wildcard {
            sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        }
    }
    if options.timestamps {
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    }
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
}

/// Asks for the buffers, by force where we may, and reads back what was granted.
fn size_buffers(socket: &Socket, options: &UdpOptions) -> io::Result<(usize, Vec<Warning>)> {
    let fd = socket.as_raw_fd();
    let asked = options.receive_buffer;
    let clamped = i32::try_from(asked).unwrap_or(i32::MAX / 2);
    if sys::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, clamped).is_err() {
        socket.set_recv_buffer_size(asked)?;
    }
    // The send buffer matters less: what does not fit is reported to the sender.
    socket.set_send_buffer_size(options.send_buffer)?;
    // The kernel doubles the figure for its bookkeeping and reads the double back.
    let granted = socket.recv_buffer_size()? / 2;
    let warnings = if granted < asked {
        vec![Warning::ReceiveBufferSmall { asked, granted }]
    } else {
        Vec::new()
    };
    Ok((granted, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drop_counter_survives_its_wrap() {
        let address = "127.0.0.1:0".parse().unwrap();
        let (port, _) = UdpPort::bind(address, &UdpOptions::default()).unwrap();
        port.note_drops(u32::MAX / 2 - 1);
        port.note_drops(u32::MAX - 3);
        port.note_drops(2);
        assert_eq!(port.dropped.load(Ordering::Relaxed), (1 << 32) + 2);
        port.note_drops(1); // told late
        assert_eq!(port.dropped.load(Ordering::Relaxed), (1 << 32) + 2);
    }

    #[test]
    fn a_small_buffer_is_told_with_its_remedy() {
        let text = Warning::ReceiveBufferSmall { asked: 16 << 20, granted: 212_992 }.to_string();
        assert!(text.contains("208 KiB instead of 16384 KiB"), "{text}");
        assert!(text.ends_with("sysctl -w net.core.rmem_max=16777216"), "{text}");
    }
}
