//! Thin, checked wrappers around the system calls that socket2 does not offer.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Sets an integer socket option.
pub(crate) fn set_option(fd: RawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer is to a live i32 and the length given is its size; the kernel only reads.
    let status = unsafe {
        libc::setsockopt(fd, level, name, (&raw const value).cast(), size_of::<i32>() as u32)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How many datagrams the kernel dropped because this socket's buffer was full (`SO_MEMINFO`).
pub(crate) fn drops(fd: RawFd) -> io::Result<u32> {
    const DROPS: usize = 8; // SK_MEMINFO_DROPS of linux/sock_diag.h
    const SO_MEMINFO: i32 = 55;
    let mut counts = [0_u32; DROPS + 1];
    let mut length = size_of_val(&counts) as u32;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of `counts`.
    let status = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            SO_MEMINFO,
            counts.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if status == 0 { Ok(counts[DROPS]) } else { Err(io::Error::last_os_error()) }
}

/// `recvmmsg` without waiting.
///
/// # Safety
/// Each header's pointers must lead to memory that is valid for the lengths beside them and that
/// nobody else uses during the call.
pub(crate) unsafe fn receive(fd: RawFd, headers: &mut [libc::mmsghdr]) -> io::Result<usize> {
    // SAFETY: the slice is valid for its length; the caller answers for what the headers point to.
    // No timeout is given.
    let count = unsafe {
        libc::recvmmsg(
            fd,
            headers.as_mut_ptr(),
            headers.len() as u32,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
        )
    };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
}

/// `sendmmsg` without waiting.
///
/// # Safety
/// Each header's pointers must lead to memory that is valid for the lengths beside them.
pub(crate) unsafe fn send(fd: RawFd, headers: &mut [libc::mmsghdr]) -> io::Result<usize> {
    // SAFETY: the slice is valid for its length; the caller answers for what the headers point to.
    let count = unsafe {
        libc::sendmmsg(fd, headers.as_mut_ptr(), headers.len() as u32, libc::MSG_DONTWAIT)
    };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
}

/// One entry of the socket's error queue, into `header`.
///
/// # Safety
/// As for [`receive`].
pub(crate) unsafe fn receive_error(fd: RawFd, header: &mut libc::msghdr) -> io::Result<usize> {
    // SAFETY: the header is a live value; the caller answers for what it points to.
    let count = unsafe { libc::recvmsg(fd, header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Waits for one of `events`, at most `limit`.
pub(crate) fn wait(fd: RawFd, events: i16, limit: Duration) -> bool {
    let mut polled = libc::pollfd { fd, events, revents: 0 };
    let timeout = libc::timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    // SAFETY: one live pollfd, a live timeout, and no signal mask.
    let count = unsafe { libc::ppoll(&raw mut polled, 1, &raw const timeout, std::ptr::null()) };
    count > 0
}

/// A message header with nothing in it.
pub(crate) fn empty_header() -> libc::msghdr {
    // SAFETY: all-zero is a valid msghdr: null pointers beside zero lengths.
    unsafe { std::mem::zeroed() }
}

/// An array entry for [`receive`] and [`send`] with nothing in it.
pub(crate) fn empty_entry() -> libc::mmsghdr {
    libc::mmsghdr { msg_hdr: empty_header(), msg_len: 0 }
}
