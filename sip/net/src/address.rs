//! Socket addresses as the kernel writes them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for an IPv4 or IPv6 address of the kernel, always aligned.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union KernelAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl KernelAddress {
    pub(crate) const SIZE: u32 = size_of::<Self>() as u32;

    pub(crate) fn empty() -> Self {
        Self {
            v6: libc::sockaddr_in6 {
                sin6_family: 0,
                sin6_port: 0,
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
                sin6_scope_id: 0,
            },
        }
    }

    /// Writes `address` and tells how many bytes count.
    pub(crate) fn write(&mut self, address: SocketAddr) -> u32 {
        match address {
            SocketAddr::V4(v4) => {
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as u16,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                size_of::<libc::sockaddr_in>() as u32
            }
            SocketAddr::V6(v6) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as u16,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                size_of::<libc::sockaddr_in6>() as u32
            }
        }
    }

    /// The address, unless the kernel left something else than IPv4 or IPv6.
    pub(crate) fn read(&self) -> Option<SocketAddr> {
        // SAFETY: both variants are plain numbers for which every bit pattern is valid, the whole
        // union is initialised by `empty`, and the family lies at the same place in both.
        let (v4, v6) = unsafe { (self.v4, self.v6) };
        match i32::from(v4.sin_family) {
            libc::AF_INET => {
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernel_s_form() {
        for text in ["127.0.0.5:5060", "[::1]:5061", "[fe80::1%3]:65535", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            let mut kernel = KernelAddress::empty();
            kernel.write(address);
            assert_eq!(kernel.read(), Some(address));
        }
        assert_eq!(KernelAddress::empty().read(), None);
    }
}
