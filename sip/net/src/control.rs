//! Control messages (`cmsg(3)`): what the kernel says about a datagram, and the source address that
//! we ask for. Read and written by offset over a byte buffer instead of by the C macros.
//!
//! ```text
//! ┌ length: usize ┬ level: i32 ┬ type: i32 ┬ payload … ┬ padding to 8 ┐ next header …
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Room for all that a socket of ours is told: timestamp 32, address 40, drops 24, error 16 + 44.
pub(crate) const CONTROL_SIZE: usize = 160;
const HEAD: usize = 16;

/// A buffer aligned as the kernel wants its headers.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Control(pub(crate) [u8; CONTROL_SIZE]);

impl Control {
    pub(crate) fn empty() -> Self {
        Self([0; CONTROL_SIZE])
    }

    /// Asks that a datagram leaves from `source`; tells the length of the control data.
    pub(crate) fn write_source(&mut self, source: IpAddr) -> usize {
        match source {
            IpAddr::V4(ip) => {
                // struct in_pktinfo: interface 0 (any), the source, and an unused address.
                let mut payload = [0; 12];
                payload[4..8].copy_from_slice(&ip.octets());
                self.write(libc::IPPROTO_IP, libc::IP_PKTINFO, &payload)
            }
            IpAddr::V6(ip) => {
                // struct in6_pktinfo: the source, then interface 0 (any).
                let mut payload = [0; 20];
                payload[..16].copy_from_slice(&ip.octets());
                self.write(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &payload)
            }
        }
    }

    fn write(&mut self, level: i32, kind: i32, payload: &[u8]) -> usize {
        let length = HEAD + payload.len();
        self.0[..8].copy_from_slice(&length.to_ne_bytes());
        self.0[8..12].copy_from_slice(&level.to_ne_bytes());
        self.0[12..16].copy_from_slice(&kind.to_ne_bytes());
        self.0[HEAD..length].copy_from_slice(payload);
        length.next_multiple_of(8)
    }

    /// The messages in the first `length` bytes.
    pub(crate) fn messages(&self, length: usize) -> Messages<'_> {
        Messages { rest: &self.0[..length.min(CONTROL_SIZE)] }
    }
}

/// What a control message says, as far as we ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// When the kernel took the datagram in: nanoseconds of the realtime clock.
    ReceivedAt(u64),
    /// The local address that was hit.
    Local(IpAddr),
    /// Datagrams dropped at this socket since it was opened (wraps).
    Dropped(u32),
    /// An error that came back for something sent earlier.
    Error(i32),
    Other,
}

pub(crate) struct Messages<'a> {
    rest: &'a [u8],
}

impl Iterator for Messages<'_> {
    type Item = Said;

    fn next(&mut self) -> Option<Said> {
        let head = self.rest.first_chunk::<HEAD>()?;
        let length = usize::from_ne_bytes(head[..8].try_into().expect("8 bytes"));
        if length < HEAD || length > self.rest.len() {
            self.rest = &[];
            return None;
        }
        let said = read(int(&head[8..]), int(&head[12..]), &self.rest[HEAD..length]);
        self.rest = self.rest.get(length.next_multiple_of(8)..).unwrap_or(&[]);
        Some(said)
    }
}

fn read(level: i32, kind: i32, payload: &[u8]) -> Said {
    match (level, kind, payload.len()) {
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, 16..) => {
            let seconds = u64::from_ne_bytes(payload[..8].try_into().expect("8 bytes"));
            let nanos = u64::from_ne_bytes(payload[8..16].try_into().expect("8 bytes"));
            Said::ReceivedAt(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
        }
        (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 4..) => Said::Dropped(int(payload) as u32),
        (libc::IPPROTO_IP, libc::IP_PKTINFO, 12..) => {
            let octets: [u8; 4] = payload[4..8].try_into().expect("4 bytes");
            Said::Local(Ipv4Addr::from(octets).into())
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20..) => {
            let octets: [u8; 16] = payload[..16].try_into().expect("16 bytes");
            Said::Local(Ipv6Addr::from(octets).into())
        }
        // struct sock_extended_err begins with the errno.
        (libc::IPPROTO_IP, libc::IP_RECVERR, 4..)
        | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 4..) => Said::Error(int(payload)),
        _ => Said::Other,
    }
}

fn int(bytes: &[u8]) -> i32 {
    i32::from_ne_bytes(bytes[..4].try_into().expect("4 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for text in ["127.0.0.9", "::1"] {
            let source: IpAddr = text.parse().unwrap();
            let mut control = Control::empty();
            let length = control.write_source(source);
            let said: Vec<_> = control.messages(length).collect();
            assert_eq!(said, [Said::Local(source)]);
        }
    }

    #[test]
    fn nonsense_ends_the_list_instead_of_running_away() {
        let mut control = Control::empty();
        assert_eq!(control.messages(CONTROL_SIZE).count(), 0); // length 0 is below a header
        control.0[..8].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(control.messages(CONTROL_SIZE).count(), 0);
        let length = control.write(1, 2, &[1; 100]);
        assert_eq!(control.messages(length - 60).count(), 0);
        assert_eq!(control.messages(length).collect::<Vec<_>>(), [Said::Other]);
    }
}
