//! Sending a list of datagrams in batches, with an account of each one that failed.

use crate::address::KernelAddress;
use crate::control::Control;
use crate::{BATCH_MAX, sys};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The address to send from; an unspecified one leaves the choice to the kernel.
    pub local: SocketAddr,
    /// The address to send to.
    pub remote: SocketAddr,
    /// The payload.
    pub bytes: &'a [u8],
}

/// A datagram that did not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendFailure {
    /// Its place in the list, from 0.
    pub index: usize,
    /// The system's error number: `EMSGSIZE`, `ECONNREFUSED`, `ENETUNREACH`, ...
    pub errno: i32,
}

/// What became of a list of datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendReport {
    /// How many the kernel took.
    pub sent: usize,
    /// The place of the first datagram that was not tried because the socket is full (`EAGAIN`,
    /// `ENOBUFS`); it and all that follow have not been sent.
    pub would_block_from: Option<usize>,
    /// Those that failed, in order.
    pub failed: Vec<SendFailure>,
}

/// Reusable memory for `sendmmsg`.
pub struct SendBatch {
    names: Vec<KernelAddress>,
    controls: Vec<Control>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the raw pointers in `vectors` and `headers` are rewritten at the start of each call that
// uses them, and are used during that call only.
unsafe impl Send for SendBatch {}

impl Default for SendBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl SendBatch {
    /// Memory for batches of [`BATCH_MAX`].
    pub fn new() -> Self {
        let nowhere = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Self {
            names: vec![KernelAddress::empty(); BATCH_MAX],
            controls: vec![Control::empty(); BATCH_MAX],
            vectors: vec![nowhere; BATCH_MAX],
            headers: vec![sys::empty_entry(); BATCH_MAX],
        }
    }

    /// Sends all of `list`; `choose_source` when the socket is bound to a wildcard address.
    pub(crate) fn send<'a>(
        &mut self,
        fd: RawFd,
        choose_source: bool,
        list: impl Iterator<Item = Outgoing<'a>>,
    ) -> SendReport {
        let mut report = SendReport::default();
        let mut list = list.fuse();
        let mut first = 0;
        loop {
            let mut count = 0;
            // The payloads outlive the loop's body (`'a`), so the pointers kept here stay valid.
            for outgoing in list.by_ref().take(BATCH_MAX) {
                self.point(count, outgoing, choose_source);
                count += 1;
            }
            if count == 0 {
                return report;
            }
            if !self.push(fd, first, count, &mut report) {
                return report;
            }
            first += count;
        }
    }

    fn point(&mut self, index: usize, outgoing: Outgoing<'_>, choose_source: bool) {
        let name_length = self.names[index].write(outgoing.remote);
        let vector = &mut self.vectors[index];
        vector.iov_base = outgoing.bytes.as_ptr().cast_mut().cast();
        vector.iov_len = outgoing.bytes.len();
        let header = &mut self.headers[index].msg_hdr;
        header.msg_name = (&raw mut self.names[index]).cast();
        header.msg_namelen = name_length;
        header.msg_iov = vector;
        header.msg_iovlen = 1;
        let source = outgoing.local.ip();
        let same_family = source.is_ipv4() == outgoing.remote.is_ipv4();
        if choose_source && same_family && !is_unspecified(source) {
            let control = &mut self.controls[index];
            header.msg_controllen = control.write_source(source);
            header.msg_control = control.0.as_mut_ptr().cast();
        } else {
            header.msg_control = std::ptr::null_mut();
            header.msg_controllen = 0;
        }
    }

    /// Sends the first `count` entries, whose places in the list begin at `first`. False when the
    /// socket is full.
    fn push(&mut self, fd: RawFd, first: usize, count: usize, report: &mut SendReport) -> bool {
        let mut next = 0;
        let mut retried = None;
        while next < count {
            // SAFETY: `point` has set the entries up to `count` to live payloads, names, controls
            // and vectors of this value.
            match unsafe { sys::send(fd, &mut self.headers[next..count]) } {
                Ok(sent) => {
                    report.sent += sent;
                    next += sent;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let errno = error.raw_os_error().unwrap_or(libc::EIO);
                    if errno == libc::EAGAIN || errno == libc::ENOBUFS {
                        report.would_block_from = Some(first + next);
                        return false;
                    }
                    // An error that came back for an earlier datagram is reported on the next
                    // call, whomever that one is for. The report has cleared it: try again once.
                    if is_echo(errno) && retried != Some(next) {
                        retried = Some(next);
                        continue;
                    }
                    report.failed.push(SendFailure { index: first + next, errno });
                    next += 1;
                }
            }
        }
        true
    }
}

/// Whether the error can belong to something sent earlier (ICMP).
pub(crate) fn is_echo(errno: i32) -> bool {
    matches!(
        errno,
        libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ENOPROTOOPT
            | libc::EPROTO
            | libc::EMSGSIZE
            | libc::EOPNOTSUPP
            | libc::EACCES
    )
}

fn is_unspecified(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_unspecified(),
    }
}

impl std::fmt::Debug for SendBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SendBatch")
    }
}
