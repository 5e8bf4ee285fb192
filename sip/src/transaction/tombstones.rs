//! Finished server transactions that must still know their request: the states Accepted and
//! Confirmed of an INVITE (RFC 6026 §7.1, RFC 3261 §17.2.1) and Completed of a non-INVITE
//! (§17.2.2).
//!
//! At 20,000 calls per second there are 1.3 million of them, so each is only 32 bytes: the key,
//! what it is there for, until when, the status of the answer, and as much of the answer as cannot
//! be written again from the request: nothing, our To tag, or all of it. They lie in a ring for
//! each timer, so that the oldest is always the first to expire, and one timer per ring sweeps it.
//! When a ring is full the oldest goes early: its repeats are taken for new requests, so it is
//! counted. A flood of OPTIONS fills only the ring of Timer J, never that of the accepted calls.

use super::timing::Linger;
use std::time::Duration;
use turn::Mono;

/// How many a sweep takes at most, so that a turn stays short; the rest goes a tick later.
pub(super) const SWEEP_MAX: usize = 256;

/// How many bytes of answers are kept for each place. The answers of a call need none; this lets
/// one in six be a whole one of 400 bytes (OPTIONS, a challenge).
const KEPT_SHARE: usize = 64;

/// Of all places, one in this many is for Timer I, which is short and only for failed calls. The
/// rest is halved: a call that we serve has one INVITE and one BYE.
const SHARE_OF_I: u32 = 8;

/// What is left of a server transaction.
#[derive(Debug)]
pub(super) struct Tombstone {
    pub(super) key: u64,
    /// See [`Kept`].
    kept: Box<[u8]>,
    expiry: Tick,
    pub(super) status: u16,
    is_whole: bool,
}

const _: () = assert!(size_of::<Tombstone>() <= 32);

/// What is kept of the answer for repeats of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept<'a> {
    /// Repeats get no answer: it was an INVITE, or there was no room for the answer.
    NoAnswer,
    /// Nothing: it is the status and what is copied from the request.
    Nothing,
    /// As before, but our tag goes into To.
    ToTag(&'a [u8]),
    /// All of it.
    Whole(&'a [u8]),
}

impl Tombstone {
    pub(super) fn kept(&self) -> Kept<'_> {
        match &*self.kept {
            _ if self.status == 0 => Kept::NoAnswer,
            bytes if self.is_whole => Kept::Whole(bytes),
            [] => Kept::Nothing,
            tag => Kept::ToTag(tag),
        }
    }

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
    pub(super) ring: Linger,
    pub(super) index: u32,
}

/// The three rings.
#[derive(Debug)]
pub(super) struct Tombstones {
    confirmed: Circle,
    completed: Circle,
    accepted: Circle,
    kept_bytes: usize,
    kept_bytes_max: usize,
}

impl Tombstones {
    /// Room for `max` in all, at least one in each ring.
    pub(super) fn new(max: u32) -> Self {
        let confirmed = (max / SHARE_OF_I).max(1);
        let half = (max.saturating_sub(confirmed) / 2).max(1);
        Self {
            confirmed: Circle::new(confirmed),
            completed: Circle::new(half),
            accepted: Circle::new(half),
            kept_bytes: 0,
            kept_bytes_max: max as usize * KEPT_SHARE,
        }
    }

    /// How many can lie in both rings.
    pub(super) fn capacity(&self) -> u32 {
        self.confirmed.capacity + self.completed.capacity + self.accepted.capacity
    }

    pub(super) fn len(&self) -> u32 {
        self.confirmed.len + self.completed.len + self.accepted.len
    }

    pub(super) fn view(&self, place: Place) -> Option<&Tombstone> {
        self.circle(place.ring).graves.get(place.index as usize)
    }

    /// Puts one in. When its ring is full, [`Tombstones::pop`] must be called first.
    pub(super) fn push(&mut self, key: u64, ring: Linger, after: (Mono, Duration)) -> Place {
        let expiry = Tick::at(after.0 + after.1);
        let stone = Tombstone { key, kept: Box::default(), expiry, status: 0, is_whole: false };
        Place { ring, index: self.circle_mut(ring).push(stone) }
    }

    /// Lets a repeat be answered; once for each tombstone. False if so much is kept already that
    /// there is no room for it.
    pub(super) fn engrave(&mut self, place: Place, status: u16, kept: Kept<'_>) -> bool {
        let (bytes, is_whole) = match kept {
            Kept::NoAnswer => return true,
            Kept::Nothing => (&[][..], false),
            Kept::ToTag(tag) => (tag, false),
            Kept::Whole(bytes) => (bytes, true),
        };
        if self.kept_bytes + bytes.len() > self.kept_bytes_max {
            return false;
        }
        let Some(stone) = self.circle_mut(place.ring).graves.get_mut(place.index as usize) else {
            return false;
        };
        stone.status = status;
        stone.is_whole = is_whole;
        stone.kept = Box::from(bytes);
        self.kept_bytes += bytes.len();
        true
    }

    pub(super) fn is_full(&self, ring: Linger) -> bool {
        let circle = self.circle(ring);
        circle.len == circle.capacity
    }

    /// The oldest one of a ring.
    pub(super) fn oldest(&self, ring: Linger) -> Option<&Tombstone> {
        self.circle(ring).oldest()
    }

    /// Takes the oldest one of a ring out; its key and the place where it lay.
    pub(super) fn pop(&mut self, ring: Linger) -> Option<(u64, Place)> {
        let (key, kept, index) = self.circle_mut(ring).pop()?;
        self.kept_bytes -= kept;
        Some((key, Place { ring, index }))
    }

    /// When the ring's oldest one expires, if one is in.
    pub(super) fn next_expiry(&self, ring: Linger, now: Mono) -> Option<Mono> {
        let ahead = self.oldest(ring)?.expiry.ahead_of(now);
        Some(now + Duration::from_millis(u64::try_from(ahead).unwrap_or(0)))
    }

    /// Whether the ring's sweep timer runs.
    pub(super) fn armed(&mut self, ring: Linger) -> &mut bool {
        &mut self.circle_mut(ring).armed
    }

    fn circle(&self, ring: Linger) -> &Circle {
        match ring {
            Linger::I => &self.confirmed,
            Linger::J => &self.completed,
            Linger::L => &self.accepted,
        }
    }

    fn circle_mut(&mut self, ring: Linger) -> &mut Circle {
        match ring {
            Linger::I => &mut self.confirmed,
            Linger::J => &mut self.completed,
            Linger::L => &mut self.accepted,
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

    /// The key, how many bytes were kept, and the place.
    fn pop(&mut self) -> Option<(u64, usize, u32)> {
        if self.len == 0 {
            return None;
        }
        let index = self.head;
        let grave = &mut self.graves[index as usize];
        let kept = std::mem::take(&mut grave.kept).len();
        self.head = (index + 1) % self.capacity;
        self.len -= 1;
        Some((grave.key, kept, index))
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
        let mut stones = Tombstones::new(16); // 2 for Timer I
        let life = Duration::from_secs(5);
        let first = stones.push(1, Linger::I, (ms(0), life));
        let second = stones.push(2, Linger::I, (ms(1), life));
        assert!(stones.is_full(Linger::I));
        assert_eq!(stones.pop(Linger::I), Some((1, first)));
        let third = stones.push(3, Linger::I, (ms(2), life));
        assert_eq!(third, first);
        assert_eq!(stones.view(second).map(|stone| stone.key), Some(2));
        assert_eq!(stones.view(third).map(|stone| stone.key), Some(3));
        assert_eq!(stones.pop(Linger::I), Some((2, second)));
        assert_eq!(stones.len(), 1);
        assert_eq!(stones.pop(Linger::J), None);
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
            assert_eq!(stones.next_expiry(Linger::J, ms(start + 2)), Some(ms(start + 6)));
            assert_eq!(stones.next_expiry(Linger::J, ms(start + 9)), Some(ms(start + 9)));
        }
    }

    #[test]
    fn rings_walk_round_for_ever() {
        let mut stones = Tombstones::new(8);
        for n in 0..100 {
            while stones.is_full(Linger::J) {
                let (key, _) = stones.pop(Linger::J).unwrap();
                assert_eq!(key, n - 3);
            }
            stones.push(n, Linger::J, (ms(n), Duration::ZERO));
        }
        assert_eq!(stones.len(), 3);
    }

    #[test]
    fn only_so_many_bytes_are_kept() {
        let mut stones = Tombstones::new(8); // 512 bytes
        let mut push = |key, kept| {
            let place = stones.push(key, Linger::J, (ms(0), Duration::ZERO));
            let done = stones.engrave(place, 200, kept);
            assert_eq!(stones.view(place).map(Tombstone::kept) == Some(kept), done);
            done
        };
        assert!(push(1, Kept::Whole(&[7; 500])));
        assert!(!push(2, Kept::Whole(&[7; 13])));
        assert!(push(3, Kept::ToTag(b"tag")));
        assert_eq!(stones.kept_bytes, 503);
        while stones.pop(Linger::J).is_some() {}
        assert_eq!(stones.kept_bytes, 0);
        let place = stones.push(4, Linger::J, (ms(0), Duration::ZERO));
        assert!(stones.engrave(place, 200, Kept::Nothing));
        assert_eq!(stones.view(place).map(Tombstone::kept), Some(Kept::Nothing));
    }
}
