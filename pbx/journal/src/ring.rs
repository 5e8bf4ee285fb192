//! A ring of records between one writer and one reader, in a mapped file.
//!
//! ```text
//! file:   | page 0: magic, capacity | head, base | tail | intent | data: `capacity` bytes |
//! record: | len u32 | check u32 | len bytes | padding to 8 |
//! ```
//!
//! Positions only grow; a position less `base`, modulo the capacity, is the place in the data.
//! `head` belongs to the appender, `tail` and the intent to the drain, each on a cache line of its
//! own. The appender copies the bytes first and moves `head` afterwards (release), so a process
//! that dies in between leaves an invisible half record. `check` is a function of the position: it
//! shows a reader that it has lost its way, and is no protection against a broken memory.
//!
//! A record never wraps around: when it does not fit before the end, a skip mark leads to the next
//! lap. When the ring is empty and well advanced, the appender moves `base` to the head: the next
//! record lies on the first page again, so that a ring which is drained in time touches little
//! memory.

use memmap2::MmapRaw;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The smallest ring: 1 MiB, some 1,500 call records.
pub const RING_MIN: u64 = 1 << 20;

/// The largest ring: 1 GiB, since tmpfs is memory.
pub const RING_MAX: u64 = 1 << 30;

/// The longest record: a sixteenth of the smallest ring, so that a record always fits in an empty
/// ring, whatever the lap's end cuts off.
pub const RECORD_MAX: usize = 1 << 16;

const MAGIC: u64 = u64::from_le_bytes(*b"PBXRING1");
const DATA: usize = 4096;
const MAGIC_AT: usize = 0;
const CAPACITY_AT: usize = 8;
const HEAD_AT: usize = 64;
const BASE_AT: usize = 72;
const TAIL_AT: usize = 128;
const UPTO_AT: usize = 192;
const SEGMENT_AT: usize = 200;
const START_AT: usize = 208;

const HEAD_BYTES: u64 = 8;
const SKIP: u32 = u32::MAX;
/// An empty ring begins at its first page again once it has come so far.
const LAP_EARLY: u64 = RING_MIN / 4;

/// The ring had no room for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFull;

/// The mapped file; both sides hold it.
struct Map {
    raw: MmapRaw,
    capacity: u64,
    path: PathBuf,
}

// SAFETY: the mapping is plain memory that lives as long as the Map. Its bytes are only touched
// through `word` (atomics) and through `read`/`write`, whose callers keep to the ring's protocol:
// the appender writes only between head and tail + capacity, the drain reads only between tail and
// head.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= DATA);
        // SAFETY: the mapping is page-aligned and at least DATA bytes long, `at` is a multiple of 8
        // within it, and these words are only ever accessed as atomics.
        unsafe { AtomicU64::from_ptr(self.raw.as_mut_ptr().add(at).cast::<u64>()) }
    }

    /// Where `at` (a position less the base) lies in the mapping; `len` bytes from there stay
    /// within it.
    fn place(&self, at: u64, len: usize) -> *mut u8 {
        let offset = at % self.capacity;
        assert!(offset + len as u64 <= self.capacity, "a record never wraps around");
        // SAFETY: the mapping is DATA + capacity bytes long and offset < capacity.
        unsafe { self.raw.as_mut_ptr().add(DATA + offset as usize) }
    }

    /// Copies `bytes` to `at`. Only the appender, and only into free space.
    fn write(&self, at: u64, bytes: &[u8]) {
        let to = self.place(at, bytes.len());
        // SAFETY: `place` has checked the range; the drain does not read it before `head` moves.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// The bytes at `at`. Only the drain, and only between tail and head.
    fn read(&self, at: u64, len: usize) -> &[u8] {
        let from = self.place(at, len);
        // SAFETY: `place` has checked the range; the appender does not write it before `tail`
        // moves, which needs `&mut Drain`, while the slice borrows the drain.
        unsafe { std::slice::from_raw_parts(from, len) }
    }

    fn record_head(&self, at: u64) -> (u32, u32) {
        let bytes = self.read(at, HEAD_BYTES as usize);
        let word = |at: usize| {
            u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes make a word"))
        };
        (word(0), word(4))
    }
}

const fn check_of(position: u64) -> u32 {
    ((position / 8) as u32) ^ 0x5bd1_e995
}

const fn padded(len: usize) -> u64 {
    (len as u64).next_multiple_of(8)
}

/// The shard's side: appends records.
pub struct Appender {
    map: Arc<Map>,
    head: u64,
    /// The tail as last seen; it may have moved on.
    tail: u64,
    /// The position that lies at the start of the data.
    base: u64,
}

impl Appender {
    /// Copies `record` into the ring.
    ///
    /// # Panics
    /// When the record is longer than [`RECORD_MAX`].
    pub fn append(&mut self, record: &[u8]) -> Result<(), RingFull> {
        assert!(record.len() <= RECORD_MAX, "a record has at most RECORD_MAX bytes");
        let need = HEAD_BYTES + padded(record.len());
        let capacity = self.map.capacity;
        let mut offset = (self.head - self.base) % capacity;
        if offset >= LAP_EARLY && self.is_empty() {
            // The drain reads the base after it has seen a head beyond its tail, so it never goes
            // by the old one.
            self.base = self.head;
            self.map.word(BASE_AT).store(self.base, Ordering::Release);
            offset = 0;
        }
        let left = capacity - offset;
        let skip = if left < need { left } else { 0 };
        if !self.has_free(skip + need) {
            return Err(RingFull);
        }
        if skip > 0 {
            self.put_head(SKIP);
            self.head += skip;
        }
        self.put_head(u32::try_from(record.len()).expect("RECORD_MAX fits in a u32"));
        self.map.write(self.head - self.base + HEAD_BYTES, record);
        self.head += need;
        self.map.word(HEAD_AT).store(self.head, Ordering::Release);
        Ok(())
    }

    /// Bytes that are free for sure.
    pub fn free(&mut self) -> u64 {
        self.tail = self.map.word(TAIL_AT).load(Ordering::Acquire);
        self.map.capacity - (self.head - self.tail)
    }

    /// The ring's size in bytes.
    pub fn capacity(&self) -> u64 {
        self.map.capacity
    }

    fn has_free(&mut self, need: u64) -> bool {
        // The tail as last seen is a safe lower bound: look at the real one only when it matters.
        self.map.capacity - (self.head - self.tail) >= need || self.free() >= need
    }

    fn is_empty(&self) -> bool {
        self.map.word(TAIL_AT).load(Ordering::Acquire) == self.head
    }

    fn put_head(&self, len: u32) {
        let mut head = [0; HEAD_BYTES as usize];
        head[..4].copy_from_slice(&len.to_ne_bytes());
        head[4..].copy_from_slice(&check_of(self.head).to_ne_bytes());
        self.map.write(self.head - self.base, &head);
    }
}

/// Where a batch is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    /// The batch reaches to this position.
    pub(crate) upto: u64,
    /// The number of the file.
    pub(crate) segment: u64,
    /// The place in the file.
    pub(crate) start: u64,
}

/// The ring does not hold what a ring holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbled {
    pub(crate) position: u64,
}

/// The writer's side: takes records out.
pub(crate) struct Drain {
    map: Arc<Map>,
    tail: u64,
}

impl Drain {
    /// Appends to `batch` the records from the tail up to `limit` (a position between two records)
    /// or up to the head, but stops once `batch` holds `batch_max` bytes. Returns the position
    /// reached and the number of records. Nothing is taken out yet.
    pub(crate) fn copy(
        &self,
        limit: Option<u64>,
        batch_max: usize,
        batch: &mut Vec<u8>,
    ) -> Result<(u64, u64), Garbled> {
        let head = self.map.word(HEAD_AT).load(Ordering::Acquire);
        let base = self.map.word(BASE_AT).load(Ordering::Acquire);
        let end = limit.unwrap_or(head).min(head);
        let (mut position, mut records) = (self.tail, 0);
        if position == end {
            return Ok((position, 0)); // the base may be ahead of an empty ring
        }
        if head - self.tail > self.map.capacity || base > self.tail {
            return Err(Garbled { position });
        }
        while position < end && batch.len() < batch_max {
            let (len, check) = self.map.record_head(position - base);
            if check != check_of(position) {
                return Err(Garbled { position });
            }
            let left = self.map.capacity - (position - base) % self.map.capacity;
            if len == SKIP {
                position += left;
                continue;
            }
            let need = HEAD_BYTES + padded(len as usize);
            if len as usize > RECORD_MAX || need > left || position + need > end {
                return Err(Garbled { position });
            }
            batch.extend_from_slice(self.map.read(position - base + HEAD_BYTES, len as usize));
            position += need;
            records += 1;
        }
        Ok((position, records))
    }

    /// Remembers, before the batch up to `intent.upto` is written, where it goes.
    pub(crate) fn intend(&mut self, intent: Intent) {
        self.map.word(SEGMENT_AT).store(intent.segment, Ordering::Relaxed);
        self.map.word(START_AT).store(intent.start, Ordering::Relaxed);
        self.map.word(UPTO_AT).store(intent.upto, Ordering::Release);
    }

    /// What a process that died meant to write.
    pub(crate) fn pending(&self) -> Option<Intent> {
        let upto = self.map.word(UPTO_AT).load(Ordering::Acquire);
        (upto > self.tail).then(|| Intent {
            upto,
            segment: self.map.word(SEGMENT_AT).load(Ordering::Relaxed),
            start: self.map.word(START_AT).load(Ordering::Relaxed),
        })
    }

    /// Takes everything before `position` out.
    pub(crate) fn take(&mut self, position: u64) {
        self.tail = position;
        self.map.word(TAIL_AT).store(position, Ordering::Release);
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.map.word(HEAD_AT).load(Ordering::Acquire).saturating_sub(self.tail)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.map.path
    }
}

/// Makes a new ring in place of whatever is at `path`. All its memory is reserved: a tmpfs that is
/// too small says so here and not by a signal later.
pub(crate) fn create(path: &Path, capacity: u64) -> io::Result<(Appender, Drain)> {
    let capacity = capacity.clamp(RING_MIN, RING_MAX).next_power_of_two();
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
    reserve(&file, DATA as u64 + capacity)?;
    let map = Arc::new(Map { raw: MmapRaw::map_raw(&file)?, capacity, path: path.to_owned() });
    map.word(CAPACITY_AT).store(capacity, Ordering::Relaxed);
    map.word(MAGIC_AT).store(MAGIC, Ordering::Release);
    let appender = Appender { map: Arc::clone(&map), head: 0, tail: 0, base: 0 };
    Ok((appender, Drain { map, tail: 0 }))
}

fn reserve(file: &File, len: u64) -> io::Result<()> {
    let len = libc::off_t::try_from(len).map_err(io::Error::other)?;
    // SAFETY: a plain call on an open descriptor.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Opens a ring that an earlier process left. `None` when it is no ring (or of another version).
pub(crate) fn reopen(path: &Path) -> io::Result<Option<Drain>> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let len = file.metadata()?.len();
    if len < DATA as u64 + RING_MIN {
        return Ok(None);
    }
    let raw = MmapRaw::map_raw(&file)?;
    let map = Map { raw, capacity: len - DATA as u64, path: path.to_owned() };
    let stated = map.word(CAPACITY_AT).load(Ordering::Relaxed);
    if map.word(MAGIC_AT).load(Ordering::Acquire) != MAGIC || stated != map.capacity {
        return Ok(None);
    }
    let tail = map.word(TAIL_AT).load(Ordering::Acquire);
    let head = map.word(HEAD_AT).load(Ordering::Acquire);
    let base = map.word(BASE_AT).load(Ordering::Acquire);
    let sound = tail <= head && [tail, head, base].iter().all(|at| at.is_multiple_of(8));
    Ok(sound.then(|| Drain { map: Arc::new(map), tail }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        let name = format!("pbx-ring-{}-{name}.ring", std::process::id());
        std::env::temp_dir().join(name)
    }

    fn take_all(drain: &mut Drain) -> Vec<u8> {
        let mut batch = Vec::new();
        let (position, _) = drain.copy(None, usize::MAX, &mut batch).unwrap();
        drain.take(position);
        batch
    }

    #[test]
    fn records_come_out_as_they_went_in_lap_after_lap() {
        let path = path("laps");
        let (mut appender, mut drain) = create(&path, RING_MIN).unwrap();
        let (mut put, mut got) = (Vec::new(), Vec::new());
        for number in 0..40_000_u64 {
            let record = format!("{number}:{}\n", "x".repeat((number * 37 % 300) as usize));
            appender.append(record.as_bytes()).unwrap();
            put.extend_from_slice(record.as_bytes());
            if number % 1000 == 999 {
                got.extend(take_all(&mut drain));
            }
        }
        got.extend(take_all(&mut drain));
        assert!(put == got, "{} bytes in, {} out", put.len(), got.len());
        assert!(appender.head > 3 * RING_MIN, "the test went around several times");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_full_ring_refuses_and_takes_again_after_a_drain() {
        let path = path("full");
        let (mut appender, mut drain) = create(&path, RING_MIN).unwrap();
        let record = [b'a'; 1000];
        let mut fitted = 0;
        while appender.append(&record).is_ok() {
            fitted += 1;
        }
        assert_eq!(fitted, RING_MIN / 1008);
        assert!(appender.free() < 1008);
        assert_eq!(take_all(&mut drain).len() as u64, fitted * 1000);
        assert_eq!(appender.free(), RING_MIN);
        assert_eq!(appender.append(&record), Ok(()));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn an_idle_ring_stays_in_its_first_pages() {
        let path = path("idle");
        let (mut appender, mut drain) = create(&path, 16 * RING_MIN).unwrap();
        let mut farthest = 0;
        for _ in 0..20_000 {
            appender.append(&[b'a'; 1000]).unwrap();
            farthest = farthest.max(appender.head - appender.base);
            assert!(appender.free() > 15 * RING_MIN, "beginning anew takes no room");
            take_all(&mut drain);
        }
        assert!(farthest <= LAP_EARLY + 1008, "{farthest}");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_reopened_ring_gives_what_was_not_taken() {
        let path = path("reopen");
        let (mut appender, mut drain) = create(&path, RING_MIN).unwrap();
        appender.append(b"one\n").unwrap();
        take_all(&mut drain);
        appender.append(b"two\n").unwrap();
        let intent = Intent { upto: appender.head, segment: 3, start: 77 };
        drain.intend(intent);
        drop((appender, drain));
        let mut drain = reopen(&path).unwrap().unwrap();
        assert_eq!(drain.pending(), Some(intent));
        assert_eq!(take_all(&mut drain), b"two\n");
        assert_eq!(drain.pending(), None);
        assert_eq!(drain.waiting(), 0);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn garbage_is_noticed_and_not_followed() {
        let path = path("garbage");
        let (mut appender, drain) = create(&path, RING_MIN).unwrap();
        appender.append(b"one\n").unwrap();
        appender.append(b"two\n").unwrap();
        drain.map.write(16, &[9; 8]);
        let mut batch = Vec::new();
        assert_eq!(drain.copy(None, 100, &mut batch), Err(Garbled { position: 16 }));
        drop((appender, drain));
        std::fs::write(&path, vec![0; 2 * RING_MIN as usize]).unwrap();
        assert!(reopen(&path).unwrap().is_none());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn both_sides_may_run_at_once() {
        let path = path("threads");
        let (mut appender, mut drain) = create(&path, RING_MIN).unwrap();
        const RECORDS: u64 = 200_000;
        let producer = std::thread::spawn(move || {
            for number in 0..RECORDS {
                let record = number.to_ne_bytes();
                while appender.append(&record).is_err() {
                    std::thread::yield_now();
                }
            }
        });
        let mut expected = 0;
        while expected < RECORDS {
            for record in take_all(&mut drain).chunks_exact(8) {
                assert_eq!(u64::from_ne_bytes(record.try_into().unwrap()), expected);
                expected += 1;
            }
            std::thread::yield_now();
        }
        producer.join().unwrap();
        std::fs::remove_file(path).unwrap();
    }
}
