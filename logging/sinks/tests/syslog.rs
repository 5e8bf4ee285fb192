//! A syslog of the test's own: what it gets, and what happens while it is gone.

mod common;

use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{AT, Folder, hub, lines};
use logging::{LaneSize, Levels, notice};
use logging_sinks::{Facility, Format, Logger, SinkSpec, SyslogAddress, SyslogShape, Target};

fn spec(address: SyslogAddress, shape: SyslogShape) -> SinkSpec {
    let levels: Levels = "notice".parse().expect("known levels");
    let format = Format::Syslog { facility: Facility::LOCAL0, shape };
    SinkSpec { format, ..SinkSpec::new("syslog", levels, Target::Syslog(address)) }
}

fn other(path: &Path) -> SinkSpec {
    SinkSpec::file("other", path, "notice,error".parse().expect("known levels"))
}

#[test]
fn each_line_is_a_datagram_over_udp() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let address = SyslogAddress::Udp(server.local_addr().unwrap());
    let hub = hub();
    let logger = Logger::start(&hub, vec![spec(address, SyslogShape::Rfc5424)]).unwrap();
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::THREAD).unwrap();
    lane.set_now(AT);
    for number in 0..10_u8 {
        notice!(lane, "number {}", number);
    }
    logger.flush();
    for number in 0..10 {
        let mut datagram = [0; 2048];
        let length = server.recv(&mut datagram).unwrap();
        let text = std::str::from_utf8(&datagram[..length]).unwrap();
        assert!(text.starts_with("<133>1 2026-11-30T20:15:01.123456Z "), "{text}");
        assert!(text.ends_with(&format!("number {number}")), "{text}");
    }
    assert_eq!(logger.view().sinks[0].counts.written, 10);
}

#[test]
fn a_syslog_that_is_gone_costs_only_its_own_lines_and_is_found_again() {
    let folder = Folder::new("syslog");
    let (socket, path) = (folder.path("log"), folder.path("other"));
    let server = UnixDatagram::bind(&socket).unwrap();
    let hub = hub();
    let to = SyslogAddress::Unix(socket.clone());
    let specs = vec![spec(to, SyslogShape::Bsd), other(&path)];
    let logger = Logger::start(&hub, specs).unwrap();
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::THREAD).unwrap();
    notice!(lane, "before");
    logger.flush();
    drop(server);
    std::fs::remove_file(&socket).unwrap();
    for _ in 0..10 {
        notice!(lane, "during");
        logger.flush();
    }
    let view = logger.view();
    let counts = view.sinks[0].counts;
    assert!(counts.is_balanced(), "{counts:?}");
    assert_eq!((counts.written, view.sinks[1].counts.dropped), (1, 0));
    assert!(view.sinks[0].failure.is_some());
    // It is started anew.
    let server = UnixDatagram::bind(&socket).unwrap();
    let start = Instant::now();
    while logger.view().sinks[0].failure.is_some() {
        notice!(lane, "after");
        logger.flush();
        assert!(start.elapsed() < Duration::from_secs(20), "it heals");
        std::thread::sleep(Duration::from_millis(20));
    }
    logger.flush();
    let counts = logger.view().sinks[0].counts;
    assert!(counts.is_balanced(), "{counts:?}");
    let all = lines(&path);
    let failed = all.iter().filter(|line| line.contains("Log 'syslog' cannot be written")).count();
    let healed = format!("Log 'syslog' is written again; {} lines were lost", counts.dropped);
    assert_eq!(failed, 1, "{all:?}");
    assert_eq!(all.iter().filter(|line| line.ends_with(&healed)).count(), 1, "{all:?}");
    server.set_nonblocking(true).unwrap();
    let mut got = 0;
    while server.recv(&mut [0; 2048]).is_ok() {
        got += 1;
    }
    assert_eq!(got + 1, counts.written);
}

#[test]
fn a_syslog_that_takes_nothing_does_not_hold_up_others() {
    let folder = Folder::new("syslog-stuck");
    let (socket, path) = (folder.path("log"), folder.path("other"));
    let _server = UnixDatagram::bind(&socket).unwrap();
    let hub = hub();
    let specs = vec![spec(SyslogAddress::Unix(socket), SyslogShape::Bsd), other(&path)];
    let logger = Logger::start(&hub, specs).unwrap();
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::SHARD).unwrap();
    for number in 0..2_000_u32 {
        notice!(lane, "number {}", number);
    }
    logger.flush();
    let numbered = || lines(&path).iter().filter(|line| line.contains("number ")).count();
    assert_eq!(numbered(), 2_000);
    let counts = logger.view().sinks[0].counts;
    assert!(counts.is_balanced() && counts.dropped > 0, "{counts:?}");
}
