//! The lines, byte for byte as Asterisk's default format has them, and what cannot be forged.

mod common;

use std::net::SocketAddr;

use common::{AT, Folder, hub, lines};
use logging::{LaneSize, Quoted, Shown, debug, error, notice, security, verbose, warning};
use logging_sinks::{DateFormat, Logger, SinkSpec};

const ALL: &str = "error,warning,notice,security,verbose(10),dtmf,debug";

#[test]
fn lines_have_the_shape_of_asterisks_default_format() {
    let folder = Folder::new("shape");
    let path = folder.path("full");
    let hub = hub();
    let spec = SinkSpec::file("shape", &path, ALL.parse().unwrap());
    let logger = Logger::start(&hub, vec![spec]).unwrap();
    let mut lane = hub.turn_lane("shard-0", 1638, LaneSize::THREAD).unwrap();
    lane.set_now(AT);
    let remote: SocketAddr = "192.0.2.3:5060".parse().unwrap();
    let v6: SocketAddr = "[2001:db8::2]:5060".parse().unwrap();
    logging::set_debug_module("lines", Some(2));
    notice!(
        lane,
        call = 26,
        from = remote,
        "Call from '{}' ({}) to extension '{}' rejected because extension not found in \
         context '{}'.",
        "sipp",
        remote,
        b"999",
        "default"
    );
    notice!(
        lane,
        "Registration from '{}' failed for '{}' - Wrong password",
        b"<sip:301@example.com>",
        v6
    );
    verbose!(1, lane, "one");
    verbose!(2, lane, "two");
    verbose!(3, lane, call = 1, "Executing [{}@{}:{}] {}", "100", "default", 1_u32, "Answer");
    verbose!(4, lane, "four");
    warning!(lane, "{} {} {} {}", -1_i32, true, None::<u8>, std::time::Duration::from_millis(1500));
    error!(lane, "{}", Shown(std::io::Error::from_raw_os_error(28)));
    security!(lane, "SecurityEvent=\"{}\"", "FailedACL");
    debug!(2, lane, "state {}", "up");
    logger.flush();
    let expected = "\
[2026-11-30 20:15:01.123] NOTICE[1638][C-0000001a] lines.rs: Call from 'sipp' (192.0.2.3:5060) to \
extension '999' rejected because extension not found in context 'default'.
[2026-11-30 20:15:01.123] NOTICE[1638] lines.rs: Registration from '<sip:301@example.com>' failed \
for '[2001:db8::2]:5060' - Wrong password
[2026-11-30 20:15:01.123] VERBOSE[1638] lines.rs:  one
[2026-11-30 20:15:01.123] VERBOSE[1638] lines.rs:   == two
[2026-11-30 20:15:01.123] VERBOSE[1638][C-00000001] lines.rs:     -- Executing \
[100@default:1] Answer
[2026-11-30 20:15:01.123] VERBOSE[1638] lines.rs:        > four
[2026-11-30 20:15:01.123] WARNING[1638] lines.rs: -1 yes - 1.500
[2026-11-30 20:15:01.123] ERROR[1638] lines.rs: No space left on device (os error 28)
[2026-11-30 20:15:01.123] SECURITY[1638] lines.rs: SecurityEvent=\"FailedACL\"
[2026-11-30 20:15:01.123] DEBUG[1638] lines.rs: state up";
    assert_eq!(lines(&path), expected.lines().collect::<Vec<_>>());
}

#[test]
fn a_caller_can_neither_split_a_line_nor_end_a_quotation() {
    let folder = Folder::new("forge");
    let path = folder.path("messages");
    let hub = hub();
    let spec = SinkSpec::file("forge", &path, "notice,security".parse().unwrap());
    let logger = Logger::start(&hub, vec![spec]).unwrap();
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::THREAD).unwrap();
    lane.set_now(AT);
    let user: &[u8] =
        b"x' (UDP:10.9.9.9:5060) to extension '1' rejected because extension not found";
    notice!(lane, "Call from '{}' ({}) to", user, "192.0.2.5:5060");
    notice!(lane, "Request from '{}'", b"a\r\n[2026] NOTICE[1] x: Registration\xff\x1b[2J");
    let challenge = "n\",RemoteAddress=\"IPV4/UDP/10.8.8.8/5060";
    security!(
        lane,
        "RemoteAddress=\"{}\",Challenge=\"{}\"",
        "IPV4/UDP/1.2.3.4/5",
        Quoted(challenge)
    );
    notice!(lane, "Refused '{}'", b"Authorization: Digest response=\"0123\"");
    notice!(lane, "Long '{}'", "ü".repeat(200));
    logger.flush();
    let messages: Vec<String> =
        lines(&path).iter().map(|line| line.split_once(".rs: ").unwrap().1.to_owned()).collect();
    assert_eq!(messages, [
        "Call from 'x? ?UDP:10.9.9.9:5060? to extension ?1? rejected because extension not found' \
         (192.0.2.5:5060) to"
            .to_owned(),
        "Request from 'a??[2026] NOTICE[1] x: Registration??[2J'".to_owned(),
        "RemoteAddress=\"IPV4/UDP/1.2.3.4/5\",\
         Challenge=\"n?,RemoteAddress=?IPV4/UDP/10.8.8.8/5060\""
            .to_owned(),
        "Refused 'Authorization: ***'".to_owned(),
        format!("Long '{}…'", "ü".repeat(127)),
    ]);
}

#[test]
fn each_sink_has_its_own_levels_and_dates() {
    let folder = Folder::new("levels");
    let (messages, full) = (folder.path("messages"), folder.path("full"));
    let hub = hub();
    let mut plain = SinkSpec::file("messages", &messages, "notice".parse().unwrap());
    plain.dates = DateFormat::parse("%b %e %T").unwrap();
    let full_spec = SinkSpec::file("full", &full, "notice,verbose(3)".parse().unwrap());
    let logger = Logger::start(&hub, vec![plain, full_spec]).unwrap();
    let mut lane = hub.turn_lane("shard-0", 1, LaneSize::THREAD).unwrap();
    lane.set_now(AT);
    for level in 1..=5 {
        verbose!(level, lane, "level {}", level);
    }
    notice!(lane, "both");
    logger.flush();
    assert_eq!(lines(&messages), ["[Nov 30 20:15:01] NOTICE[1] lines.rs: both"]);
    assert_eq!(lines(&full).len(), 4);

    assert!(logger.set_levels("full", "notice".parse().unwrap()));
    assert!(!logger.set_levels("absent", "notice".parse().unwrap()));
    verbose!(3, lane, "no more");
    logger.flush();
    assert_eq!(lines(&full).len(), 4);

    // A sink added and removed at run time.
    let added = folder.path("added");
    logger.add(SinkSpec::file("added", &added, "notice".parse().unwrap())).unwrap();
    let again = SinkSpec::file("added", &added, "notice".parse().unwrap());
    assert!(logger.add(again).is_err(), "a name is taken once");
    notice!(lane, "to all");
    assert!(logger.remove("added"));
    notice!(lane, "no more");
    logger.flush();
    assert_eq!(lines(&added).len(), 1);
    let view = logger.view();
    assert_eq!(view.sinks.len(), 2);
    assert!(view.sinks.iter().all(|sink| sink.counts.is_balanced()), "{view:?}");
}

#[test]
fn lanes_are_merged_by_time() {
    let folder = Folder::new("merge");
    let path = folder.path("messages");
    let hub = hub();
    let mut lanes: Vec<_> = (0..3)
        .map(|n| hub.turn_lane(&format!("shard-{n}"), n, LaneSize::THREAD).unwrap())
        .collect();
    // The gate is open for the lanes before the writer runs, so it finds all three full.
    let demand = logging::Demand::new("merge", "notice,verbose(1)".parse().unwrap());
    for step in 0..300_u32 {
        let lane = &mut lanes[step as usize * 7 % 3];
        let wall = turn::Wall::from_micros(AT.wall.as_micros() + i64::from(step));
        lane.set_now(turn::Now { wall, ..AT });
        if step % 2 == 0 {
            notice!(lane, "step {}", step);
        } else {
            verbose!(1, lane, "step {}", step);
        }
    }
    let spec = SinkSpec::file("merge", &path, "notice,verbose(1)".parse().unwrap());
    let logger = Logger::start(&hub, vec![spec]).unwrap();
    drop(demand);
    logger.stop();
    let steps: Vec<u32> =
        lines(&path).iter().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(steps, (0..300).collect::<Vec<_>>());
}
