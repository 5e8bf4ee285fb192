//! The batch path on loopback.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use sip_net::{AsyncUdp, Clock, Outgoing, PathError, ReceiveBatch, SendBatch, UdpOptions, UdpPort};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

fn bind(text: &str) -> UdpPort {
    UdpPort::bind(text.parse().unwrap(), &UdpOptions::default()).unwrap().0
}

/// False with a printed reason where the machine has no IPv6 loopback.
fn has_ipv6() -> bool {
    match UdpPort::bind("[::1]:0".parse().unwrap(), &UdpOptions::default()) {
        Ok(_) => true,
        Err(error) => {
            println!("skipped: no ::1 here: {error}");
            false
        }
    }
}

/// Loopback delivers before `send` returns, but not by any promise: look a few times.
fn receive(port: &UdpPort, batch: &mut ReceiveBatch) -> usize {
    for _ in 0..200 {
        match port.receive(batch).unwrap() {
            0 => {
                port.wait_readable(Duration::from_millis(5));
            }
            count => return count,
        }
    }
    0
}

fn outgoing<'a>(from: &UdpPort, remote: SocketAddr, bytes: &'a [u8]) -> Outgoing<'a> {
    Outgoing { local: from.local_addr(), remote, bytes }
}

fn answers_leave_from(wildcard: &str, hit: &str) {
    let server = bind(wildcard);
    let hit = SocketAddr::new(hit.parse().unwrap(), server.local_addr().port());
    let client = bind(&SocketAddr::new(hit.ip(), 0).to_string());
    let (mut sends, mut batch) = (SendBatch::new(), ReceiveBatch::new(8));
    assert_eq!(client.send(&mut sends, [outgoing(&client, hit, b"ping")]).sent, 1);
    assert_eq!(receive(&server, &mut batch), 1);
    let ping = batch.iter().next().unwrap();
    assert_eq!((ping.bytes, ping.remote, ping.local), (&b"ping"[..], client.local_addr(), hit));

    let pong = Outgoing { local: ping.local, remote: ping.remote, bytes: b"pong" };
    assert_eq!(server.send(&mut sends, [pong]).sent, 1);
    let mut batch = ReceiveBatch::new(8);
    assert_eq!(receive(&client, &mut batch), 1);
    assert_eq!(batch.iter().next().unwrap().remote, hit);
}

#[test]
fn an_answer_leaves_from_the_address_that_was_hit() {
    answers_leave_from("0.0.0.0:0", "127.0.0.5");
    if has_ipv6() {
        answers_leave_from("[::]:0", "::1");
    }
}

#[test]
fn a_long_list_arrives_whole_and_in_order_with_timestamps() {
    let (server, client) = (bind("127.0.0.1:0"), bind("127.0.0.2:0"));
    let payloads: Vec<Vec<u8>> =
        (0..300_u32).map(|n| n.to_be_bytes().repeat(1 + n as usize)).collect();
    let list = payloads.iter().map(|bytes| outgoing(&client, server.local_addr(), bytes));
    let report = client.send(&mut SendBatch::new(), list);
    assert_eq!((report.sent, report.would_block_from), (300, None));
    let clock = Clock::new();
    let mut batch = ReceiveBatch::new(64);
    let mut seen = 0;
    while seen < 300 {
        assert!(receive(&server, &mut batch) > 0, "only {seen} came");
        let now = clock.sample().mono;
        for datagram in batch.iter() {
            assert_eq!(datagram.bytes, payloads[seen]);
            assert_eq!(datagram.local, server.local_addr());
            let age = now - clock.realtime_to_mono(datagram.received_at.unwrap());
            assert!(age < Duration::from_secs(60), "{age:?}");
            seen += 1;
        }
    }
    assert_eq!(batch.truncated(), 0);
}

#[test]
fn the_longest_datagram_fits_and_a_longer_one_fails_alone() {
    let (server, client) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let (fits, too_long) = (vec![7; 65_507], vec![8; 65_508]);
    let to = server.local_addr();
    let list = [&b"a"[..], &too_long, &fits].map(|bytes| outgoing(&client, to, bytes));
    let report = client.send(&mut SendBatch::new(), list);
    assert_eq!(report.sent, 2);
    assert_eq!(report.failed.len(), 1);
    assert_eq!((report.failed[0].index, report.failed[0].errno), (1, libc::EMSGSIZE));
    let (mut batch, mut lengths) = (ReceiveBatch::new(2), Vec::new());
    while lengths.len() < 2 && receive(&server, &mut batch) > 0 {
        lengths.extend(batch.iter().map(|datagram| datagram.bytes.len()));
    }
    assert_eq!(lengths, [1, 65_507]);
}

#[test]
fn a_refusal_names_its_peer_and_harms_no_other() {
    let (client, server) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let gone = bind("127.0.0.1:0").local_addr();
    let mut sends = SendBatch::new();
    for round in 0..3 {
        let list = [(gone, &b"lost"[..]), (server.local_addr(), b"kept")]
            .map(|(to, bytes)| outgoing(&client, to, bytes));
        let report = client.send(&mut sends, list);
        assert_eq!((report.sent, report.failed.len()), (2, 0), "round {round}");
    }
    let mut errors = Vec::new();
    client.take_path_errors(&mut errors);
    let refused = PathError { remote: gone, errno: libc::ECONNREFUSED };
    assert_eq!(errors, [refused; 3]);
    let (mut batch, mut kept) = (ReceiveBatch::new(64), 0);
    while kept < 3 && receive(&server, &mut batch) > 0 {
        kept += batch.iter().filter(|datagram| datagram.bytes == b"kept").count();
    }
    assert_eq!(kept, 3);
}

#[test]
fn a_refused_datagram_comes_back() {
    let client = bind("127.0.0.1:0");
    let gone = bind("127.0.0.1:0").local_addr();
    let list = [&b"short"[..], b"longer than its room"].map(|bytes| outgoing(&client, gone, bytes));
    assert_eq!(client.send(&mut SendBatch::new(), list).sent, 2);
    let (mut memory, mut back) = ([0; 10], Vec::new());
    client.take_returned(&mut memory, |error, bytes| back.push((error.remote, bytes.to_vec())));
    assert_eq!(back, [(gone, b"short".to_vec()), (gone, b"longer tha".to_vec())]);
}

#[test]
fn a_full_receive_buffer_is_counted() {
    let options = UdpOptions { receive_buffer: 4096, ..UdpOptions::default() };
    let (server, _) = UdpPort::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let client = bind("127.0.0.1:0");
    let list = (0..200).map(|_| outgoing(&client, server.local_addr(), &[0; 500]));
    assert_eq!(client.send(&mut SendBatch::new(), list).sent, 200);
    let (mut batch, mut came) = (ReceiveBatch::new(64), 0);
    loop {
        match server.receive(&mut batch).unwrap() {
            0 => break,
            count => came += count as u64,
        }
    }
    assert!(came < 200);
    assert_eq!(server.dropped_by_kernel(), 200 - came);
}

#[test]
fn shards_share_an_address_and_each_flow_keeps_its_shard() {
    let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let (first, _) = UdpPort::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let (second, _) = UdpPort::bind(first.local_addr(), &options).unwrap();
    let mut batch = ReceiveBatch::new(64);
    let mut shares = [0, 0];
    for _ in 0..32 {
        let client = bind("127.0.0.1:0");
        let list = (0..2).map(|_| outgoing(&client, first.local_addr(), b"x"));
        assert_eq!(client.send(&mut SendBatch::new(), list).sent, 2);
        let counts = [first.receive(&mut batch).unwrap(), second.receive(&mut batch).unwrap()];
        assert!(counts == [2, 0] || counts == [0, 2], "{counts:?}");
        shares[0] += counts[0];
        shares[1] += counts[1];
    }
    assert!(shares[0] > 0 && shares[1] > 0, "{shares:?}");
}

#[test]
fn tokio_wakes_for_datagrams_and_for_errors() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let limit = Duration::from_secs(10);
        let server = AsyncUdp::new(bind("127.0.0.1:0")).unwrap();
        let mut batch = ReceiveBatch::new(4);
        let to = server.port().local_addr();
        for round in 0..3 {
            let client = bind("127.0.0.1:0");
            client.send(&mut SendBatch::new(), (0..6).map(|_| outgoing(&client, to, b"hello")));
            let mut came = 0;
            while came < 6 {
                tokio::time::timeout(limit, server.readable()).await.unwrap().unwrap();
                came += server.receive(&mut batch).unwrap();
            }
            assert_eq!(came, 6, "round {round}");
            assert_eq!(server.receive(&mut batch).unwrap(), 0);
        }
        let gone = bind("127.0.0.1:0").local_addr();
        let lost = Outgoing { local: to, remote: gone, bytes: b"x" };
        assert_eq!(server.send(&mut SendBatch::new(), [lost]).sent, 1);
        tokio::time::timeout(limit, server.readable()).await.unwrap().unwrap();
        let mut errors = Vec::new();
        server.port().take_path_errors(&mut errors);
        assert_eq!(errors.first().map(|error| error.remote), Some(gone));
    });
}

/// Ports share a batch; a socket that tokio knows to be empty is not even asked.
#[test]
fn a_port_without_datagrams_leaves_none_of_another_one_in_the_batch() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (busy, idle) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
        let (busy, idle) = (AsyncUdp::new(busy).unwrap(), AsyncUdp::new(idle).unwrap());
        let (mut batch, to) = (ReceiveBatch::new(4), busy.port().local_addr());
        let client = bind("127.0.0.1:0");
        for _ in 0..3 {
            client.send(&mut SendBatch::new(), [outgoing(&client, to, b"hello")]);
            let limit = Duration::from_secs(10);
            tokio::time::timeout(limit, busy.readable()).await.unwrap().unwrap();
            assert_eq!(busy.receive(&mut batch).unwrap(), 1);
            assert_eq!((idle.receive(&mut batch).unwrap(), batch.len()), (0, 0));
        }
    });
}

#[test]
fn families_do_not_mix_on_a_wildcard() {
    if !has_ipv6() {
        return;
    }
    let six = bind("[::]:0");
    let port = six.local_addr().port();
    let four = bind(&format!("0.0.0.0:{port}"));
    assert_eq!(four.local_addr().ip(), IpAddr::from([0, 0, 0, 0]));
}
