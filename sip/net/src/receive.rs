//! Memory for a batch of received datagrams.

use crate::address::KernelAddress;
use crate::control::{Control, Said};
use crate::{BATCH_MAX, sys};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// No UDP payload is longer, so nothing is ever cut off.
const DATAGRAM_MAX: usize = 65_535;
/// Distance between two buffers. An odd number of cache lines more than 64 KiB: at a power of two
/// all buffers would compete for the same few cache lines.
const STRIDE: usize = 65_536 + 3 * 64;

/// Reusable memory for one batch. Its pages are touched only as far as datagrams are long.
pub struct ReceiveBatch {
    buffers: Vec<u8>,
    names: Vec<KernelAddress>,
    controls: Vec<Control>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    filled: usize,
    bound: SocketAddr,
    truncated: u64,
}

// SAFETY: the raw pointers in `vectors` and `headers` are rewritten from the other fields at the
// start of each call that uses them, and are used during that call only.
unsafe impl Send for ReceiveBatch {}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The payload.
    pub bytes: &'a [u8],
    /// Who sent it.
    pub remote: SocketAddr,
    /// The address of ours that was hit; where an answer has to leave from.
    pub local: SocketAddr,
    /// When the kernel took it in: nanoseconds of the realtime clock. See
    /// [`crate::Clock::realtime_to_mono`].
    pub received_at: Option<u64>,
}

impl ReceiveBatch {
    /// Memory for `size` datagrams, at least one and at most [`BATCH_MAX`].
    pub fn new(size: usize) -> Self {
        let size = size.clamp(1, BATCH_MAX);
        let nowhere = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Self {
            buffers: vec![0; size * STRIDE],
            names: vec![KernelAddress::empty(); size],
            controls: vec![Control::empty(); size],
            vectors: vec![nowhere; size],
            headers: vec![sys::empty_entry(); size],
            filled: 0,
            bound: SocketAddr::from(([0, 0, 0, 0], 0)),
            truncated: 0,
        }
    }

    /// What the last receive brought, in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = Datagram<'_>> {
        (0..self.filled).filter_map(|index| self.datagram(index))
    }

    /// How many datagrams the last receive brought.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Whether the last receive brought nothing.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Datagrams left out since the start because they were cut short. Stays 0: the buffers hold
    /// the longest payload of UDP.
    pub fn truncated(&self) -> u64 {
        self.truncated
    }

    /// Forgets what was received.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Receives without waiting. `Ok((count, drops))`; `drops` is the socket's counter if told.
    pub(crate) fn fill(
        &mut self,
        fd: RawFd,
        bound: SocketAddr,
    ) -> io::Result<(usize, Option<u32>)> {
        self.filled = 0;
        self.bound = bound;
        self.point();
        // SAFETY: `point` has just set every header to the buffers of this value, with their
        // lengths; `&mut self` keeps everybody else away during the call.
        self.filled = unsafe { sys::receive(fd, &mut self.headers) }?;
        let mut drops = None;
        for index in 0..self.filled {
            let header = &self.headers[index].msg_hdr;
            self.truncated += u64::from(header.msg_flags & libc::MSG_TRUNC != 0);
            for said in self.controls[index].messages(header.msg_controllen) {
                if let Said::Dropped(count) = said {
                    drops = Some(count);
                }
            }
        }
        Ok((self.filled, drops))
    }

    fn point(&mut self) {
        let buffers = self.buffers.chunks_exact_mut(STRIDE);
        let places = self.names.iter_mut().zip(&mut self.controls).zip(buffers);
        let outs = self.vectors.iter_mut().zip(&mut self.headers);
        for (((name, control), buffer), (vector, entry)) in places.zip(outs) {
            vector.iov_base = buffer.as_mut_ptr().cast();
            vector.iov_len = DATAGRAM_MAX;
            let header = &mut entry.msg_hdr;
            header.msg_name = (&raw mut *name).cast();
            header.msg_namelen = KernelAddress::SIZE;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = control.0.len();
            header.msg_flags = 0;
        }
    }

    fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        let entry = &self.headers[index];
        if entry.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
            return None;
        }
        let remote = self.names[index].read()?;
        let start = index * STRIDE;
        let bytes = &self.buffers[start..start + (entry.msg_len as usize).min(DATAGRAM_MAX)];
        let mut datagram = Datagram { bytes, remote, local: self.bound, received_at: None };
        for said in self.controls[index].messages(entry.msg_hdr.msg_controllen) {
            match said {
                Said::ReceivedAt(nanos) => datagram.received_at = Some(nanos),
                Said::Local(ip) => datagram.local.set_ip(ip),
                Said::Dropped(_) | Said::Error(_) | Said::Other => {}
            }
        }
        Some(datagram)
    }
}

impl std::fmt::Debug for ReceiveBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReceiveBatch({} of {})", self.filled, self.headers.len())
    }
}
