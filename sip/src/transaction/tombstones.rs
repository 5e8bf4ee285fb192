//! Finished server transactions that must still know their request: the states Accepted and
//! Confirmed of an INVITE (RFC 6026 §7.1, RFC 3261 §17.2.1) and Completed of a non-INVITE
//! (§17.2.2).
//!
//! At 20,000 calls per second there are 1.3 million of them, so each is only 32 bytes: the key,
//! what it is there for, until when, the status of the answer, and the answer itself only when it
//! cannot be written again from the request. They lie in two rings by length of life, so that the
//! oldest is always the first to expire, and one timer per ring sweeps it. When a ring is full the
//! oldest goes early: its repeats would be taken for new requests, so it is counted.

use super::timing::Linger;
use std::time::Duration;
use turn::Mono;

/// How many a sweep takes at most, so that a turn stays short; the rest goes a tick later.
pub(super) const SWEEP_MAX: usize = 256;

/// One ring in this many places is for the short-lived.
const SHORT_SHARE: u32 = 8;

/// The rings by length of life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Ring {
    /// T4: Timer I.
    Short,
    /// 64 T1: timers J and L.
    Long,
}

impl Ring {
    pub(super) const fn of(linger: Linger) -> Self {
        match linger {
            Linger::I => Self::Short,
            Linger::J | Linger::L => Self::Long,
        }
    }
}

/// What is left of a server transaction.
#[derive(Debug)]
pub(super) struct Tombstone {
    pub(super) key: u64,
    /// The answer, when a repeat must get it and it cannot be written from the request.
    pub(super) answer: Option<Box<[u8]>>,
    expiry: Tick,
    pub(super) status: u16,
    pub(super) linger: Linger,
}

const _: () = assert!(size_of::<Tombstone>() <= 32);

impl Tombstone {
    pub(super) fn is_over(&self, now: Mono) -> bool {
        self.expiry.has_come(now)
    }
}

/// Milliseconds on a clock of 32 bits. Twenty-four days either side can be told apart.
#[derive(Clone, Copy, Debug)]
struct Tick(u32);

impl Tick {
    /// Rounded up: nothing expires early.
    fn at(time: Mono) -> Self {
        Self(time.as_nanos().div_ceil(1_000_000) as u32)
    }

    fn has_come(self, now: Mono) -> bool {
        self.ahead_of(now) <= 0
    }

    fn ahead_of(self, now: Mono) -> i32 {
        self.0.wrapping_sub(now.as_millis() as u32) as i32
    }
}

/// Where a tombstone lies for as long as it lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) ring: Ring,
    pub(super) index: u32,
}

/// The two rings.
#[derive(Debug)]
pub(super) struct Tombstones {
    short: Circle,
    long: Circle,
}

impl Tombstones {
    /// Room for `max` in all, at least one in each ring.
    pub(super) fn new(max: u32) -> Self {
        let short = (max / SHORT_SHARE).max(1);
        Self { short: Circle::new(short), long: Circle::new(max.saturating_sub(short).max(1)) }
    }

    /// How many can lie in both rings.
    pub(super) fn capacity(&self) -> u32 {
        self.short.capacity + self.long.capacity
    }

    pub(super) fn len(&self) -> u32 {
        self.short.len + self.long.len
    }

    pub(super) fn view(&self, place: Place) -> Option<&Tombstone> {
        self.circle(place.ring).graves.get(place.index as usize)
    }

    /// Puts one in. When its ring is full, [`Tombstones::pop`] must be called first.
    pub(super) fn push(&mut self, key: u64, linger: Linger, after: (Mono, Duration)) -> Place {
        let ring = Ring::of(linger);
        let expiry = Tick::at(after.0 + after.1);
        let stone = Tombstone { key, answer: None, expiry, status: 0, linger };
        Place { ring, index: self.circle_mut(ring).push(stone) }
    }

    /// Lets a repeat be answered with `status`: by `answer`, or written from the request.
    pub(super) fn engrave(&mut self, place: Place, status: u16, answer: Option<Box<[u8]>>) {
        if let Some(stone) = self.circle_mut(place.ring).graves.get_mut(place.index as usize) {
            stone.status = status;
            stone.answer = answer;
        }
    }

    pub(super) fn is_full(&self, ring: Ring) -> bool {
        let circle = self.circle(ring);
        circle.len == circle.capacity
    }

    /// The oldest one of a ring.
    pub(super) fn oldest(&self, ring: Ring) -> Option<&Tombstone> {
        self.circle(ring).oldest()
    }

    /// Takes the oldest one of a ring out; its key and the place where it lay.
    pub(super) fn pop(&mut self, ring: Ring) -> Option<(u64, Place)> {
        let (key, index) = self.circle_mut(ring).pop()?;
        Some((key, Place { ring, index }))
    }

    /// When the ring's oldest one expires, if one is in.
    pub(super) fn next_expiry(&self, ring: Ring, now: Mono) -> Option<Mono> {
        let ahead = self.oldest(ring)?.expiry.ahead_of(now);
        Some(now + Duration::from_millis(u64::try_from(ahead).unwrap_or(0)))
    }

    /// Whether the ring's sweep timer runs.
    pub(super) fn armed(&mut self, ring: Ring) -> &mut bool {
        &mut self.circle_mut(ring).armed
    }

    fn circle(&self, ring: Ring) -> &Circle {
        match ring {
            Ring::Short => &self.short,
            Ring::Long => &self.long,
        }
    }

    fn circle_mut(&mut self, ring: Ring) -> &mut Circle {
        match ring {
            Ring::Short => &mut self.short,
            Ring::Long => &mut self.long,
        }
    }
}

/// First in, first out, in places that do not move.
#[derive(Debug)]
struct Circle {
    graves: Vec<Tombstone>,
    head: u32,
    len: u32,
    capacity: u32,
    armed: bool,
}

impl Circle {
    fn new(capacity: u32) -> Self {
        let graves = Vec::with_capacity(capacity as usize);
        Self { graves, head: 0, len: 0, capacity, armed: false }
    }

    fn push(&mut self, stone: Tombstone) -> u32 {
        debug_assert!(self.len < self.capacity, "the oldest goes first");
        if self.len == 0 {
            self.head = 0; // a small load touches little memory
        }
        let index = (self.head + self.len) % self.capacity;
        match self.graves.get_mut(index as usize) {
            Some(grave) => *grave = stone,
            None => self.graves.push(stone),
        }
        self.len += 1;
        index
    }

    fn oldest(&self) -> Option<&Tombstone> {
        (self.len > 0).then(|| &self.graves[self.head as usize])
    }

    fn pop(&mut self) -> Option<(u64, u32)> {
        if self.len == 0 {
            return None;
        }
        let index = self.head;
        let grave = &mut self.graves[index as usize];
        grave.answer = None;
        self.head = (index + 1) % self.capacity;
        self.len -= 1;
        Some((grave.key, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Mono {
        Mono::from_nanos(n * 1_000_000)
    }

    #[test]
    fn the_oldest_of_a_ring_goes_first_and_places_stay() {
        let mut stones = Tombstones::new(16); // 2 short, 14 long
        let life = Duration::from_secs(5);
        let first = stones.push(1, Linger::I, (ms(0), life));
        let second = stones.push(2, Linger::I, (ms(1), life));
        assert!(stones.is_full(Ring::Short));
        assert_eq!(stones.pop(Ring::Short), Some((1, first)));
        let third = stones.push(3, Linger::I, (ms(2), life));
        assert_eq!(third, first);
        assert_eq!(stones.view(second).map(|stone| stone.key), Some(2));
        assert_eq!(stones.view(third).map(|stone| stone.key), Some(3));
        assert_eq!(stones.pop(Ring::Short), Some((2, second)));
        assert_eq!(stones.len(), 1);
        assert_eq!(stones.pop(Ring::Long), None);
    }

    #[test]
    fn none_expires_early_even_when_the_32_bit_clock_wraps() {
        let wrap = 1_u64 << 32;
        for start in [0, wrap - 3, wrap - 1, wrap, 5 * wrap - 2] {
            let mut stones = Tombstones::new(8);
            let now = Mono::from_nanos(start * 1_000_000 + 1);
            let place = stones.push(1, Linger::J, (now, Duration::from_millis(5)));
            let stone = stones.view(place).unwrap();
            assert!(!stone.is_over(now));
            assert!(!stone.is_over(ms(start + 5)));
            assert!(stone.is_over(ms(start + 6)));
            assert_eq!(stones.next_expiry(Ring::Long, ms(start + 2)), Some(ms(start + 6)));
            assert_eq!(stones.next_expiry(Ring::Long, ms(start + 9)), Some(ms(start + 9)));
        }
    }

    #[test]
    fn rings_walk_round_for_ever() {
        let mut stones = Tombstones::new(8);
        for n in 0..100 {
            while stones.is_full(Ring::Long) {
                let (key, _) = stones.pop(Ring::Long).unwrap();
                assert_eq!(key, n - 7);
            }
            stones.push(n, Linger::L, (ms(n), Duration::ZERO));
        }
        assert_eq!(stones.len(), 7);
    }
}
