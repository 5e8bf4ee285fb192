//! Every format, letter by letter, as Asterisk's logger.c prints it; and no field can make two
//! lines of one.

use std::io;
use std::sync::{Arc, Mutex};

use logging::{Hub, LaneSize, Levels, notice, security, verbose, warning};
use logging_sinks::{DateFormat, Facility, Format, Logger, Output, SinkSpec, SyslogShape, Target};
use proptest::prelude::*;
use turn::{Mono, Now, Wall};

/// 2026-11-30T20:15:01.123456Z.
const AT: Now =
    Now { mono: Mono::ZERO, wall: Wall::from_micros(1_796_069_701_123_456), utc_offset_s: 0 };

fn hub() -> Arc<Hub> {
    Hub::new(77, || AT)
}

#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Output for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panics with it").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn spec(&self, name: &str, format: Format) -> SinkSpec {
        let levels = "notice,warning,security,verbose(10)".parse::<Levels>().expect("known");
        let target = Target::Other("paper", Box::new(self.clone()));
        SinkSpec { format, ..SinkSpec::new(name, levels, target) }
    }

    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().expect("no test panics with it").clone();
        String::from_utf8(bytes).expect("UTF-8").lines().map(str::to_owned).collect()
    }
}

/// What a format makes of a record of each kind.
fn lines(format: Format, dates: &str) -> Vec<String> {
    let (hub, paper) = (hub(), Paper::default());
    let dates = DateFormat::parse(dates).expect("known conversions");
    let spec = SinkSpec { dates, ..paper.spec("paper", format) };
    let logger = Logger::start(&hub, vec![spec]).expect("nothing to open");
    let mut lane = hub.turn_lane("shard-0", 1638, LaneSize::THREAD).expect("few lanes");
    lane.set_now(AT);
    let user: &[u8] = b"o\"brien";
    #[rustfmt::skip]
    notice!(lane, "Registration from '<sip:{}>' failed for '{}' - Wrong password", user, 7_u8);
    for level in 1..=5 {
        verbose!(level, lane, call = 26, "level {}", level);
    }
    logger.flush();
    paper.lines()
}

/// Of the notice above.
const LINE: u32 = line!() - 9;

#[test]
fn the_default_format_is_the_one_that_fail2ban_reads() {
    let got = lines(Format::Default, "%F %T");
    let head = "[2026-11-30 20:15:01]";
    assert_eq!(
        got,
        [
            format!(
                "{head} NOTICE[1638] formats.rs: Registration from '<sip:o\"brien>' failed for '7' \
                 - Wrong password"
            )
            .replace("o\"brien", "o?brien"),
            format!("{head} VERBOSE[1638][C-0000001a] formats.rs:  level 1"),
            format!("{head} VERBOSE[1638][C-0000001a] formats.rs:   == level 2"),
            format!("{head} VERBOSE[1638][C-0000001a] formats.rs:     -- level 3"),
            format!("{head} VERBOSE[1638][C-0000001a] formats.rs:        > level 4"),
            format!("{head} VERBOSE[1638][C-0000001a] formats.rs:        > level 5"),
        ]
    );
}

#[test]
fn the_plain_format_names_the_place() {
    let got = lines(Format::Plain, "%b %e %T.%3q");
    assert_eq!(
        got[0],
        format!(
            "[Nov 30 20:15:01.123] NOTICE[1638]: formats.rs:{LINE} formats: Registration from \
             '<sip:o?brien>' failed for '7' - Wrong password"
        )
    );
    assert!(got[3].starts_with("[Nov 30 20:15:01.123] VERBOSE[1638][C-0000001a]: formats.rs:"));
    assert!(got[3].ends_with(" formats:     -- level 3"), "{}", got[3]);
}

#[test]
fn json_has_asterisk_s_keys() {
    let got = lines(Format::Json, "%FT%T.%3q%z");
    let value: serde_json::Value = serde_json::from_str(&got[0]).expect("an object");
    assert_eq!(value["timestamp"], "2026-11-30T20:15:01.123+0000");
    assert_eq!(value["identifiers"], serde_json::json!({ "lwp": 1638 }));
    assert_eq!(
        value["logmsg"],
        serde_json::json!({
            "location": { "filename": "formats.rs", "function": "formats", "line": LINE },
            "level": "NOTICE",
            "message": "Registration from '<sip:o?brien>' failed for '7' - Wrong password",
        })
    );
    assert!(!value["hostname"].as_str().expect("a text").is_empty());
    let value: serde_json::Value = serde_json::from_str(&got[3]).expect("an object");
    assert_eq!(value["identifiers"]["callid"], "C-0000001a");
    assert_eq!(value["logmsg"]["message"], "level 3");
}

#[test]
fn a_console_is_coloured_when_it_wants_to_be_and_shows_progress_bare() {
    let got = lines(Format::Console { colour: false }, "%F %T");
    assert!(got[0].starts_with("[2026-11-30 20:15:01] NOTICE[1638]: formats.rs:"), "{}", got[0]);
    assert_eq!(got[1..4], [" level 1", "  == level 2", "    -- level 3"]);
    assert!(got.iter().all(|line| !line.contains('\x1b')));
    let got = lines(Format::Console { colour: true }, "%F %T");
    assert!(got[0].contains("\x1b[33mNOTICE\x1b[0m[1638]"), "{}", got[0]);
}

#[test]
fn syslog_has_its_head_in_front() {
    let process = std::process::id();
    let facility = Facility::LOCAL0;
    let got = lines(Format::Syslog { facility, shape: SyslogShape::Bsd }, "%F");
    assert_eq!(
        got[0],
        format!(
            "<133>Nov 30 20:15:01 asterisk[{process}]: NOTICE[1638]: formats.rs:{LINE} in formats: \
             Registration from '<sip:o?brien>' failed for '7' - Wrong password"
        )
    );
    assert!(got[1].starts_with("<134>"), "{}", got[1]);
    let got = lines(Format::Syslog { facility, shape: SyslogShape::Rfc5424 }, "%F");
    let head = got[0].split(' ').collect::<Vec<_>>();
    assert_eq!((head[0], head[1]), ("<133>1", "2026-11-30T20:15:01.123456Z"));
    let pid = process.to_string();
    assert_eq!(head[3..8], ["asterisk", pid.as_str(), "-", "-", "NOTICE[1638]:"], "{}", got[0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_comes_in_one_line_comes_out(
        text in proptest::collection::vec(any::<u8>(), 0..300),
        shown in ".{0,80}",
    ) {
        let formats = [
            Format::Default,
            Format::Plain,
            Format::Json,
            Format::Console { colour: false },
            Format::Syslog { facility: Facility::LOCAL0, shape: SyslogShape::Bsd },
            Format::Syslog { facility: Facility::LOCAL0, shape: SyslogShape::Rfc5424 },
        ];
        let hub = hub();
        let papers: Vec<Paper> = formats.iter().map(|_| Paper::default()).collect();
        let specs = papers.iter().zip(formats).enumerate();
        let specs = specs.map(|(at, (paper, format))| paper.spec(&format!("paper-{at}"), format));
        let logger = Logger::start(&hub, specs.collect()).expect("nothing to open");
        let mut lane = hub.turn_lane("shard-0", 1, LaneSize::THREAD).expect("few lanes");
        lane.set_now(AT);
        security!(lane, "a '{}' b \"{}\"", text.as_slice(), logging::Shown(&shown));
        warning!(lane, "a {} b", logging::Quoted(&shown));
        logger.flush();
        for (paper, format) in papers.iter().zip(formats) {
            let lines = paper.lines();
            prop_assert_eq!(lines.len(), 2, "{:?}: {:?}", format, lines);
            prop_assert!(lines.iter().all(|line| !line.chars().any(char::is_control)));
            if format == Format::Json {
                let read = |line: &String| serde_json::from_str::<serde_json::Value>(line);
                prop_assert!(lines.iter().all(|line| read(line).is_ok()), "{:?}", lines);
            }
        }
    }
}
