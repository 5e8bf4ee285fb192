//! The lanes' equation, tested by counting: every offered record is read, folded or dropped.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use logging::{
    Demand, FOLDS_MAX, Hub, LaneReader, LaneSize, Level, Levels, Value, debug, error, notice,
    security, verbose,
};
use turn::{Now, Wall};

const SMALL: LaneSize = LaneSize { keep_units: 256, verbose_units: 256 };

fn all() -> Demand {
    Demand::new("test", Levels::ALL.with_verbose(logging::Verbosity::Fixed(10)))
}

/// Reads what is there and checks that the order is that of the making.
#[derive(Default)]
struct Tally {
    kept: u64,
    verbose: u64,
    folded: u64,
    last_seq: u64,
    last_number: u64,
}

impl Tally {
    fn read(&mut self, lane: &mut LaneReader) {
        lane.refresh();
        while let Some(record) = lane.peek() {
            assert!(record.seq() > self.last_seq, "records are read in order");
            self.last_seq = record.seq();
            let Some(Value::Unsigned(number)) = record.values().next() else {
                panic!("the first field is a number")
            };
            assert!(number > self.last_number, "and so are their fields");
            self.last_number = number;
            let site = logging::sites_from(record.site())[0];
            *(if site.level.is_kept() { &mut self.kept } else { &mut self.verbose }) += 1;
            lane.advance();
        }
        self.folded += lane.take_folds().iter().map(|fold| fold.count).sum::<u64>();
    }
}

#[test]
fn a_stalled_writer_costs_counted_records_and_no_others() {
    let _demand = all();
    let hub = Hub::new(1, Now::default);
    let mut lane = hub.turn_lane("test", 1, SMALL).unwrap();
    let mut reader = hub.take_readers().pop().unwrap();
    let (mut kept, mut verbose) = (0, 0);
    for number in 1..=3000_u64 {
        if number % 3 == 0 {
            notice!(lane, "{} {}", number, "x".repeat(100));
            kept += 1;
        } else {
            verbose!(3, lane, "{} {}", number, "y".repeat(number as usize % 300));
            verbose += 1;
        }
    }
    let counts = lane.counts();
    assert!(counts.is_balanced(), "{counts:?}");
    assert_eq!((counts.keep_offered, counts.verbose_offered), (kept, verbose));
    assert!(counts.keep_folded > 0 && counts.verbose_dropped > 0, "the rings were full");
    assert!(counts.cuts > 0, "strings over the limit are counted");

    let mut tally = Tally::default();
    tally.read(&mut reader);
    assert_eq!(tally.kept, counts.keep_taken);
    assert_eq!(tally.verbose, counts.verbose_taken);
    assert_eq!(tally.folded, counts.keep_folded);
}

#[test]
fn two_threads_lose_nothing_that_is_not_counted() {
    let _demand = all();
    logging::set_debug(1);
    let hub = Hub::new(1, Now::default);
    let mut lane = hub.turn_lane("test", 1, SMALL).unwrap();
    let mut reader = hub.take_readers().pop().unwrap();
    let is_done = AtomicBool::new(false);
    let (counts, tally) = thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut tally = Tally::default();
            while !is_done.load(Ordering::Acquire) {
                tally.read(&mut reader);
                thread::sleep(Duration::from_micros(u64::from(tally.last_seq as u8)));
            }
            tally.read(&mut reader);
            tally
        });
        for number in 1..=300_000_u64 {
            match number % 4 {
                0 => error!(lane, "{}", number),
                1 => notice!(lane, "{} {}", number, "some text of a call"),
                2 => debug!(1, lane, "{} {}", number, "z".repeat(number as usize % 200)),
                _ => verbose!(7, lane, "{}", number),
            }
        }
        is_done.store(true, Ordering::Release);
        (lane.counts(), reading.join().unwrap())
    });
    assert!(counts.is_balanced(), "{counts:?}");
    assert_eq!(counts.keep_offered + counts.verbose_offered, 300_000);
    assert_eq!(tally.kept, counts.keep_taken);
    assert_eq!(tally.verbose, counts.verbose_taken);
    assert_eq!(tally.folded, counts.keep_folded);
    drop(lane);
    assert!(reader.is_finished(), "a lane whose thread has gone ends");
}

#[test]
fn records_beyond_the_last_refresh_are_not_shown() {
    let _demand = all();
    let hub = Hub::new(1, Now::default);
    let mut lane = hub.turn_lane("test", 1, SMALL).unwrap();
    let mut reader = hub.take_readers().pop().unwrap();
    notice!(lane, "{}", 1_u8);
    assert!(reader.peek().is_none());
    reader.refresh();
    verbose!(1, lane, "{}", 2_u8);
    notice!(lane, "{}", 3_u8);
    for seq in 1..=3 {
        assert_eq!(reader.peek().unwrap().seq(), seq);
        reader.advance();
        if seq == 1 {
            assert!(reader.peek().is_none(), "or a ring read earlier could be overtaken");
            reader.refresh();
        }
    }
    assert!(reader.peek().is_none());
}

#[test]
fn the_last_quarter_of_keep_is_for_errors_and_security() {
    let _demand = all();
    let hub = Hub::new(1, Now::default);
    let mut lane = hub.turn_lane("test", 1, SMALL).unwrap();
    for _ in 0..1000 {
        notice!(lane, "n");
    }
    assert_eq!(lane.counts().keep_taken, 192);
    for _ in 0..1000 {
        security!(lane, "s");
    }
    assert_eq!(lane.counts().keep_taken, 256);
}

#[test]
fn counts_of_a_flood_from_many_sources_add_up() {
    let _demand = all();
    let hub = Hub::new(1, Now::default);
    let mut lane = hub.turn_lane("test", 1, SMALL).unwrap();
    let mut reader = hub.take_readers().pop().unwrap();
    let first = Wall::from_micros(7);
    lane.set_now(Now { wall: first, ..Now::default() });
    for source in 0..50_000_u32 {
        let source = IpAddr::from(Ipv4Addr::from(0x0a00_0000 + source));
        security!(lane, from = source, "{} is no endpoint here", source);
        lane.set_now(Now { wall: Wall::from_micros(9), ..Now::default() });
    }
    let mut read = 0;
    reader.refresh();
    while reader.peek().is_some() {
        reader.advance();
        read += 1;
    }
    let folds = reader.take_folds();
    assert_eq!(folds.len(), FOLDS_MAX + 1);
    assert!(folds.iter().all(|fold| fold.site.level == Level::Security));
    assert_eq!(read + folds.iter().map(|fold| fold.count).sum::<u64>(), 50_000);
}

#[test]
fn a_record_as_long_as_can_be_is_read_whole() {
    let _demand = all();
    let hub = Hub::new(1, Now::default);
    let mut lane = hub.turn_lane("test", 1, SMALL).unwrap();
    let mut reader = hub.take_readers().pop().unwrap();
    let s = "a".repeat(300);
    let s = s.as_str();
    // Enough of them for records to lie across the ring's end.
    for _ in 0..20 {
        error!(lane, "{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}", s, s, s, s, s, s, s, s, s, s, s, s, s, s, s);
        error!(lane, "short {}", 1_u8);
        reader.refresh();
        let record = reader.peek().unwrap();
        assert_eq!(record.values().count(), 15);
        let is_cut =
            |value| matches!(value, Value::Text { bytes, cut: true } if bytes.len() == 255);
        assert!(record.values().all(is_cut));
        reader.advance();
        assert_eq!(reader.peek().unwrap().values().next(), Some(Value::Unsigned(1)));
        reader.advance();
        assert!(reader.peek().is_none());
    }
    assert_eq!(lane.counts().cuts, 20 * 15);
}
