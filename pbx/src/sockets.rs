//! The addresses that the program listens on, and those that it calls itself by.

use crate::config::Config;
use crate::mailbox::Post;
use crate::start::{StartFault, fault};
use crate::streams;
use logging::{Hub, Shown, warning};
use pbx_core::{Locals, Router};
use sip_net::{UdpOptions, UdpPort};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// The sockets of each shard.
pub(crate) fn bind_udp(config: &Config) -> Result<Vec<Vec<UdpPort>>, StartFault> {
    let options = UdpOptions {
        receive_buffer: usize::try_from(config.sip.receive_buffer).unwrap_or(usize::MAX),
        reuse_port: config.shards > 1,
        ..UdpOptions::default()
    };
    let mut shards: Vec<Vec<UdpPort>> = (0..config.shards).map(|_| Vec::new()).collect();
    for address in &config.sip.listen {
        // The first shard's socket settles the port that the kernel chooses.
        let mut wanted = *address;
        for (number, ports) in shards.iter_mut().enumerate() {
            let bound = UdpPort::bind(wanted, &options);
            let (port, warnings) = bound.map_err(fault(format!("listen on udp {wanted}")))?;
            wanted = port.local_addr();
            if number == 0 {
                for warning in warnings {
                    warning!("udp {}: {}", wanted, Shown(&warning));
                }
            }
            ports.push(port);
        }
    }
    Ok(shards)
}

/// Listens on TCP, unless it is switched off; gives the addresses and the running connections.
pub(crate) fn start_tcp(
    config: &Config,
    udp: &[SocketAddr],
    deliver_to: (Router, Vec<Post>),
    hub: &Arc<Hub>,
) -> Result<(Vec<SocketAddr>, Option<streams::Running>), StartFault> {
    if config.sip.listen_tcp.is_empty() {
        return Ok((Vec::new(), None));
    }
    let listeners = streams::bind(&config.sip.listen_tcp, udp)
        .map_err(|(address, error)| fault(format!("listen on tcp {address}"))(error))?;
    let addresses = listeners.iter().map(std::net::TcpListener::local_addr);
    let addresses = addresses.collect::<io::Result<_>>().map_err(fault("listen on tcp"))?;
    let running = streams::start(listeners, config.limits.streams, deliver_to, hub)
        .map_err(fault("start the thread of TCP"))?;
    Ok((addresses, Some(running)))
}

/// The address of each family and transport that we call from.
pub(crate) fn locals(udp: &[SocketAddr], tcp: &[SocketAddr]) -> Locals {
    let first = |addresses: &[SocketAddr], is_it: fn(&SocketAddr) -> bool| {
        addresses.iter().copied().find(is_it).map(reachable)
    };
    Locals {
        v4: first(udp, SocketAddr::is_ipv4),
        v6: first(udp, SocketAddr::is_ipv6),
        tcp_v4: first(tcp, SocketAddr::is_ipv4),
        tcp_v6: first(tcp, SocketAddr::is_ipv6),
        ..Locals::default()
    }
}

/// A wildcard address cannot stand in a Via: the one that the kernel would use towards the world
/// stands for it (nothing is sent for that).
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let far: SocketAddr = match address.ip() {
        IpAddr::V4(_) => ([192, 0, 2, 1], 9).into(),
        IpAddr::V6(_) => ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 9).into(),
    };
    let asked = UdpSocket::bind(SocketAddr::new(address.ip(), 0)).and_then(|socket| {
        socket.connect(far)?;
        socket.local_addr()
    });
    match asked {
        Ok(found) => SocketAddr::new(found.ip(), address.port()),
        Err(_) if address.is_ipv4() => ([127, 0, 0, 1], address.port()).into(),
        Err(_) => ([0, 0, 0, 0, 0, 0, 0, 1], address.port()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_never_stands_for_us() {
        let any: SocketAddr = "0.0.0.0:5060".parse().unwrap();
        let found = reachable(any);
        assert!(!found.ip().is_unspecified());
        assert_eq!(found.port(), 5060);
        let given: SocketAddr = "127.0.0.1:5080".parse().unwrap();
        assert_eq!(reachable(given), given);
    }
}
