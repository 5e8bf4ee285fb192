//! Lanes: the way of records from one thread to the writer.
//!
//! A lane has two rings, each for one producer and one consumer:
//!
//! ```text
//!             ERROR SECURITY ---+
//!             NOTICE WARNING ---+--> keep ----+   full: folded per site and source, counted
//!  record --->                                +--> writer, by (now, seq)
//!             VERBOSE DTMF DEBUG -> verbose --+   full: dropped, counted
//! ```
//!
//! The producer neither waits nor allocates (but for folding, when the writer stands still), and
//! never wakes the writer. At any moment between two records, and exactly:
//! `offered = taken + folded + dropped`.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use turn::Now;

use crate::field::Fields;
use crate::fold::{Fold, Folds};
use crate::record::{HEAD_BYTES, Head, RECORD_UNITS_MAX, Record, UNIT_BYTES, Unit};
use crate::site::Site;

/// Units that the reader copies out of a ring at once: 256 KiB.
const FEED_UNITS_MAX: usize = 4096;

/// How much a lane holds while the writer is busy, in units of 64 bytes. A record of a call takes
/// about two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSize {
    /// Room for ERROR, WARNING, NOTICE and SECURITY. Its last quarter is kept for ERROR and
    /// SECURITY.
    pub keep_units: usize,
    /// Room for VERBOSE, DTMF and DEBUG.
    pub verbose_units: usize,
}

impl LaneSize {
    /// For a shard: 1 MiB and 4 MiB. At 8,000 calls a second with ten lines each the verbose ring
    /// holds 400 ms.
    pub const SHARD: Self = Self { keep_units: 16 * 1024, verbose_units: 64 * 1024 };

    /// For a thread that logs now and then: 64 KiB and 128 KiB.
    pub const THREAD: Self = Self { keep_units: 1024, verbose_units: 2048 };
}

/// What a record belongs to, beside its site.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// 1 to 10 for VERBOSE and DEBUG, 1 otherwise.
    pub verbosity: u8,
    /// The number of the call, printed as `[C-0000001a]`; 0 for none.
    pub call: u32,
    /// Who caused it: records that find no room are counted per source.
    pub from: Option<IpAddr>,
}

/// The counts of one lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// The lane's name.
    pub name: String,
    /// Records for the keep ring.
    pub keep_offered: u64,
    /// Records that went into the keep ring.
    pub keep_taken: u64,
    /// Records that found no room in the keep ring and were counted per site and source instead;
    /// the writer reports each count in a line.
    pub keep_folded: u64,
    /// Records for the verbose ring.
    pub verbose_offered: u64,
    /// Records that went into the verbose ring.
    pub verbose_taken: u64,
    /// Records that found no room in the verbose ring.
    pub verbose_dropped: u64,
    /// Strings that were cut at their limit.
    pub cuts: u64,
}

impl LaneCounts {
    /// Adds the counts of another lane.
    pub fn add(&mut self, other: &Self) {
        self.keep_offered += other.keep_offered;
        self.keep_taken += other.keep_taken;
        self.keep_folded += other.keep_folded;
        self.verbose_offered += other.verbose_offered;
        self.verbose_taken += other.verbose_taken;
        self.verbose_dropped += other.verbose_dropped;
        self.cuts += other.cuts;
    }

    /// Whether every offered record is accounted for.
    pub fn is_balanced(&self) -> bool {
        self.keep_offered == self.keep_taken + self.keep_folded
            && self.verbose_offered == self.verbose_taken + self.verbose_dropped
    }
}

/// A counter with one writing thread: a plain store, no locked instruction.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    #[inline]
    fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What producer, reader and the counters' readers share.
#[derive(Debug)]
pub(crate) struct LaneShared {
    name: String,
    /// The `seq` of the last record that is in its ring or counted as lost. Everything up to it
    /// can be read in order, although it lies in two rings.
    published: AtomicU64,
    keep_offered: Count,
    keep_taken: Count,
    keep_folded: Count,
    verbose_offered: Count,
    verbose_taken: Count,
    verbose_dropped: Count,
    cuts: Count,
    folds: Folds,
}

impl LaneShared {
    pub(crate) fn counts(&self) -> LaneCounts {
        LaneCounts {
            name: self.name.clone(),
            keep_offered: self.keep_offered.value(),
            keep_taken: self.keep_taken.value(),
            keep_folded: self.keep_folded.value(),
            verbose_offered: self.verbose_offered.value(),
            verbose_taken: self.verbose_taken.value(),
            verbose_dropped: self.verbose_dropped.value(),
            cuts: self.cuts.value(),
        }
    }
}

/// Reads the time for lanes without turns.
pub(crate) type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// The producing end of a lane; one thread owns it.
pub struct Lane {
    keep: Producer<Unit>,
    verbose: Producer<Unit>,
    shared: Arc<LaneShared>,
    scratch: Box<[Unit; RECORD_UNITS_MAX]>,
    reserve: usize,
    now: Now,
    clock: Option<Clock>,
    seq: u64,
    lwp: u32,
}

impl Lane {
    /// `clock` is for threads that have no turns; `None` where [`Lane::set_now`] is called.
    pub(crate) fn new(
        name: &str,
        lwp: u32,
        size: LaneSize,
        clock: Option<Clock>,
    ) -> (Self, LaneReader) {
        let (keep, keep_out) = RingBuffer::new(size.keep_units.max(2 * RECORD_UNITS_MAX));
        let (verbose, verbose_out) = RingBuffer::new(size.verbose_units.max(RECORD_UNITS_MAX));
        let shared = Arc::new(LaneShared {
            name: name.to_owned(),
            published: AtomicU64::new(0),
            keep_offered: Count::default(),
            keep_taken: Count::default(),
            keep_folded: Count::default(),
            verbose_offered: Count::default(),
            verbose_taken: Count::default(),
            verbose_dropped: Count::default(),
            cuts: Count::default(),
            folds: Folds::default(),
        });
        let reader = LaneReader {
            keep: Feed::new(keep_out),
            verbose: Feed::new(verbose_out),
            shared: Arc::clone(&shared),
            published: 0,
        };
        let lane = Self {
            reserve: keep.buffer().capacity() / 4,
            keep,
            verbose,
            shared,
            scratch: Box::new([[0; UNIT_BYTES]; RECORD_UNITS_MAX]),
            now: Now::default(),
            clock,
            seq: 0,
            lwp,
        };
        (lane, reader)
    }

    /// Says what time it is: once a turn, so that a record reads no clock.
    #[inline]
    pub fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    /// The counts up to here.
    pub fn counts(&self) -> LaneCounts {
        self.shared.counts()
    }

    /// Whether ERROR and SECURITY find room, even a burst of them. Who can wait with a record that
    /// must not be folded asks first.
    pub fn has_room_to_keep(&self) -> bool {
        self.keep.slots() >= self.reserve
    }

    /// Puts a record in: what the macros do once the gate is open.
    #[inline]
    pub fn record(&mut self, site: &'static Site, mark: Mark, put: impl FnOnce(&mut Fields<'_>)) {
        let mut fields = Fields::new(&mut self.scratch.as_flattened_mut()[HEAD_BYTES..]);
        put(&mut fields);
        let written = (fields.len(), fields.count(), fields.cuts());
        self.finish(site, mark, written);
    }

    fn finish(&mut self, site: &'static Site, mark: Mark, written: (usize, u8, u8)) {
        let (len, fields, cuts) = written;
        if let Some(clock) = &self.clock {
            self.now = clock();
        }
        self.seq += 1;
        let head = Head {
            len: (HEAD_BYTES + len) as u16, // at most RECORD_UNITS_MAX * UNIT_BYTES = 4,096
            verbosity: mark.verbosity,
            fields,
            site: site.id(),
            seq: self.seq,
            wall: self.now.wall.as_micros(),
            utc_offset_s: self.now.utc_offset_s,
            call: mark.call,
            lwp: self.lwp,
        };
        if let Some(place) = self.scratch[0].first_chunk_mut() {
            head.write(place);
        }
        let units = head.units();
        if site.level.is_kept() {
            self.push_kept(site, mark.from, units);
        } else {
            self.push_verbose(units);
        }
        if cuts > 0 {
            self.shared.cuts.add(u64::from(cuts));
        }
        self.shared.published.store(self.seq, Ordering::Release);
    }

    #[inline]
    fn push_kept(&mut self, site: &'static Site, from: Option<IpAddr>, units: usize) {
        let shared = &*self.shared;
        shared.keep_offered.add(1);
        let need = units + if site.level.may_use_reserve() { 0 } else { self.reserve };
        // `slots` looks at the reader's cache line, so it is asked only when the last answer of it
        // is used up.
        let has_room = self.keep.cached_slots() >= need || self.keep.slots() >= need;
        if has_room && self.keep.push_entire_slice(&self.scratch[..units]).is_ok() {
            shared.keep_taken.add(1);
        } else {
            shared.folds.add(site, from, self.now);
            shared.keep_folded.add(1);
        }
    }

    #[inline]
    fn push_verbose(&mut self, units: usize) {
        let shared = &*self.shared;
        shared.verbose_offered.add(1);
        if self.verbose.push_entire_slice(&self.scratch[..units]).is_ok() {
            shared.verbose_taken.add(1);
        } else {
            shared.verbose_dropped.add(1);
        }
    }
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

/// The writer's end of a lane.
///
/// [`LaneReader::refresh`], then [`LaneReader::peek`] and [`LaneReader::advance`] until there is
/// nothing more.
#[derive(Debug)]
pub struct LaneReader {
    keep: Feed,
    verbose: Feed,
    shared: Arc<LaneShared>,
    published: u64,
}

#[derive(Clone, Copy)]
enum Which {
    Keep,
    Verbose,
}

impl LaneReader {
    /// Looks how far the producer has come. Records beyond are not shown until the next refresh:
    /// that makes the order exact and the work bounded.
    pub fn refresh(&mut self) {
        self.published = self.shared.published.load(Ordering::Acquire);
    }

    /// The next record, in the order in which they were made.
    pub fn peek(&mut self) -> Option<Record<'_>> {
        let (which, head) = self.front()?;
        let feed = match which {
            Which::Keep => &self.keep,
            Which::Verbose => &self.verbose,
        };
        Some(Record::new(head, &feed.units[feed.at..feed.at + head.units()]))
    }

    /// Leaves the record behind that [`LaneReader::peek`] shows.
    pub fn advance(&mut self) {
        match self.front() {
            Some((Which::Keep, _)) => self.keep.advance(),
            Some((Which::Verbose, _)) => self.verbose.advance(),
            None => {}
        }
    }

    /// The counts of records that found no room since the last call.
    pub fn take_folds(&mut self) -> Vec<Fold> {
        self.shared.folds.take()
    }

    /// Whether the producer is gone and everything was read.
    pub fn is_finished(&mut self) -> bool {
        let is_abandoned = self.keep.ring.is_abandoned();
        self.refresh();
        is_abandoned && self.front().is_none() && self.shared.folds.is_empty()
    }

    /// The counts of the lane.
    pub fn counts(&self) -> LaneCounts {
        self.shared.counts()
    }

    pub(crate) fn shared(&self) -> &Arc<LaneShared> {
        &self.shared
    }

    fn front(&mut self) -> Option<(Which, Head)> {
        let keep = self.keep.front(self.published);
        let verbose = self.verbose.front(self.published);
        match (keep, verbose) {
            (Some(keep), Some(verbose)) if verbose.seq < keep.seq => {
                Some((Which::Verbose, verbose))
            }
            (Some(keep), _) => Some((Which::Keep, keep)),
            (None, Some(verbose)) => Some((Which::Verbose, verbose)),
            (None, None) => None,
        }
    }
}

/// Units copied out of a ring. Whole records start at `at`.
#[derive(Debug)]
struct Feed {
    ring: Consumer<Unit>,
    units: Vec<Unit>,
    at: usize,
    /// The head of the record at `at`, once that is here whole.
    head: Option<Head>,
}

impl Feed {
    fn new(ring: Consumer<Unit>) -> Self {
        Self { ring, units: Vec::new(), at: 0, head: None }
    }

    /// The first record's head, if the record is here whole and not beyond `published`.
    fn front(&mut self, published: u64) -> Option<Head> {
        if self.head.is_none() {
            self.head = self.whole();
            if self.head.is_none() && self.fill() {
                self.head = self.whole();
            }
        }
        self.head.filter(|head| head.seq <= published)
    }

    fn advance(&mut self) {
        if let Some(head) = self.head.take() {
            self.at += head.units();
        }
    }

    fn whole(&self) -> Option<Head> {
        let head = Head::read(self.units.get(self.at)?);
        (self.at + head.units() <= self.units.len()).then_some(head)
    }

    /// Copies what waits in the ring, if anything does.
    fn fill(&mut self) -> bool {
        let waiting = self.ring.slots().min(FEED_UNITS_MAX);
        if waiting == 0 {
            return false;
        }
        self.units.drain(..self.at);
        self.at = 0;
        let whole = self.units.len();
        self.units.resize(whole + waiting, [0; UNIT_BYTES]);
        let (copied, _) = self.ring.pop_partial_slice(&mut self.units[whole..]);
        let copied = copied.len();
        self.units.truncate(whole + copied);
        copied > 0
    }
}
