//! Connections over loopback: limits, deadlines, flows.

#![allow(clippy::unwrap_used)] // a test may fail loudly

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sip_net::{Closed, StreamLimits, StreamUser, Streams};

/// What came of the streams.
#[derive(Default)]
struct Log {
    received: Mutex<Vec<(SocketAddr, String)>>,
    failed: Mutex<Vec<(u8, String)>>,
    closed: Mutex<Vec<Closed>>,
}

impl StreamUser for Log {
    fn received(&self, _: SocketAddr, remote: SocketAddr, messages: &[Vec<u8>]) {
        let texts = messages.iter().map(|it| (remote, String::from_utf8_lossy(it).into_owned()));
        self.received.lock().unwrap().extend(texts);
    }

    fn broken(&self, _: SocketAddr, _: SocketAddr, rest: &[u8]) -> Option<Vec<u8>> {
        assert!(rest.starts_with(b"OPTIONS"));
        Some(b"SIP/2.0 400 Bad Request\r\n\r\n".to_vec())
    }

    fn failed(&self, sender: u8, message: Box<[u8]>) {
        let text = String::from_utf8_lossy(&message).into_owned();
        self.failed.lock().unwrap().push((sender, text));
    }

    fn closed(&self, _: SocketAddr, why: Closed) {
        self.closed.lock().unwrap().push(why);
    }
}

struct World {
    log: Arc<Log>,
    streams: Streams,
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

fn world(limits: StreamLimits) -> World {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let log = Arc::new(Log::default());
    let user: Arc<dyn StreamUser> = Arc::clone(&log) as _;
    let streams = Streams::new(limits, user, runtime.handle().clone());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    streams.listen(listener).unwrap();
    World { log, streams, address, _runtime: runtime }
}

fn short() -> StreamLimits {
    let span = Duration::from_millis(150);
    StreamLimits { first: span, whole: span, idle: span, ..StreamLimits::default() }
}

/// Waits until it is so, for some seconds at most.
#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(10), "it never came to be");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn peer(world: &World) -> TcpStream {
    let stream = TcpStream::connect(world.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

const MESSAGE: &str = "OPTIONS sip:a SIP/2.0\r\nl: 2\r\n\r\nok";

#[test]
fn messages_go_both_ways_over_the_connection_of_the_peer() {
    let world = world(StreamLimits::default());
    let mut peer = peer(&world);
    peer.write_all(format!("{MESSAGE}{MESSAGE}\r\n\r\n").as_bytes()).unwrap();
    until(|| world.log.received.lock().unwrap().len() == 2);
    let (remote, text) = world.log.received.lock().unwrap()[0].clone();
    assert_eq!((remote, text.as_str()), (peer.local_addr().unwrap(), MESSAGE));
    let mut pong = [0; 2];
    peer.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"\r\n");
    world.streams.send(world.address, remote, 3, b"answer");
    let mut answer = [0; 6];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"answer");
    assert_eq!(world.streams.counts().open, 1);
    drop(peer);
    until(|| !world.streams.has_flow(remote));
    until(|| *world.log.closed.lock().unwrap() == [Closed::ByPeer]);
}

#[test]
fn a_connection_is_opened_for_what_has_none_and_used_again() {
    let world = world(StreamLimits::default());
    let far = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = far.local_addr().unwrap();
    world.streams.send(world.address, to, 0, b"one");
    world.streams.send(world.address, to, 0, b"two");
    let (mut stream, _) = far.accept().unwrap();
    let mut both = [0; 6];
    stream.read_exact(&mut both).unwrap();
    assert_eq!(&both, b"onetwo");
    stream.write_all(MESSAGE.as_bytes()).unwrap();
    until(|| world.log.received.lock().unwrap().len() == 1);
    assert_eq!(world.streams.counts().connected, 1);
}

#[test]
fn what_cannot_be_sent_comes_back_to_its_sender() {
    let world = world(StreamLimits::default());
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    world.streams.send(world.address, nobody, 7, b"lost");
    until(|| world.log.failed.lock().unwrap().len() == 1);
    assert_eq!(world.log.failed.lock().unwrap()[0], (7, "lost".to_owned()));
    until(|| *world.log.closed.lock().unwrap() == [Closed::Unreachable]);
    assert_eq!(world.streams.counts().open, 0);
}

#[test]
fn silence_and_slowness_end_a_connection() {
    for (sent, why) in [
        ("", Closed::Slow),
        ("OPTIONS sip:a SIP", Closed::Slow),
        (MESSAGE, Closed::Idle),
        ("OPTIONS sip:a SIP/2.0\r\nl: 9\r\n\r\nhalf", Closed::Slow),
    ] {
        let world = world(short());
        let mut peer = peer(&world);
        peer.write_all(sent.as_bytes()).unwrap();
        let mut end = [0; 1];
        assert_eq!(peer.read(&mut end).unwrap_or(0), 0, "{sent:?}");
        until(|| *world.log.closed.lock().unwrap() == [why]);
    }
}

#[test]
fn a_message_in_crumbs_is_cut_off_in_time() {
    let world = world(short());
    let mut peer = peer(&world);
    let began = Instant::now();
    while peer.write_all(b"X").is_ok() && began.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(20));
    }
    until(|| *world.log.closed.lock().unwrap() == [Closed::Slow]);
}

#[test]
fn case_c04_a_stream_without_framing_is_told_and_closed() {
    let world = world(StreamLimits::default());
    let mut peer = peer(&world);
    peer.write_all(b"OPTIONS sip:a SIP/2.0\r\nCall-ID: 1\r\n\r\n").unwrap();
    let mut said = String::new();
    peer.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("SIP/2.0 400"), "{said}");
    until(|| *world.log.closed.lock().unwrap() == [Closed::Broken]);
}

#[test]
fn connections_are_limited_in_all_and_by_address() {
    for limits in [
        StreamLimits { connections: 2, ..StreamLimits::default() },
        StreamLimits { per_address: 2, ..StreamLimits::default() },
    ] {
        let world = world(limits);
        let _two = [peer(&world), peer(&world)];
        until(|| world.streams.counts().open == 2);
        let mut third = peer(&world);
        let mut end = [0; 1];
        assert_eq!(third.read(&mut end).unwrap_or(0), 0);
        until(|| *world.log.closed.lock().unwrap() == [Closed::Refused]);
    }
}

#[test]
fn case_c05_a_peer_that_does_not_read_is_given_up_and_what_it_missed_comes_back() {
    let limits = StreamLimits { queue: 1 << 20, ..short() };
    let world = world(StreamLimits { idle: Duration::from_secs(60), ..limits });
    let mut peer = peer(&world);
    peer.write_all(MESSAGE.as_bytes()).unwrap();
    until(|| world.log.received.lock().unwrap().len() == 1);
    let remote = peer.local_addr().unwrap();
    let large = vec![b'x'; 1 << 16];
    for _ in 0..400 {
        world.streams.send(world.address, remote, 1, &large);
    }
    until(|| world.log.closed.lock().unwrap().contains(&Closed::Full));
    assert!(world.log.failed.lock().unwrap().len() > 100);
}

#[test]
fn all_connections_end_with_the_program() {
    let world = world(StreamLimits::default());
    let mut peer = peer(&world);
    peer.write_all(MESSAGE.as_bytes()).unwrap();
    until(|| world.streams.counts().received == 1);
    world.streams.stop();
    let mut end = [0; 1];
    assert_eq!(peer.read(&mut end).unwrap_or(0), 0);
    until(|| *world.log.closed.lock().unwrap() == [Closed::Ended]);
}
