//! A timer wheel with lazy cancellation.
//!
//! Three levels of 256 places (4 ms, 1.024 s, 262 s a place) and a list for what lies further. An
//! entry is never searched for: whoever is told of a due key checks with its slot's generation and
//! state whether it still matters. A late timer is normal, an early one never happens.
//!
//! ```text
//! arm ──► level 0 (1 s ahead) ──► due
//!         level 1 (4 min)  ──cascade──► level 0
//!         level 2 (19 h)   ──cascade──► level 1
//!         far              ──cascade──► level 2
//! ```

use crate::Mono;
use std::time::Duration;

/// Width of a place of level 0.
const TICK_NANOS: u64 = 4_000_000;
const PLACES: usize = 256;
const LEVELS: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Entry<K> {
    tick: u64,
    key: K,
}

/// Due times for keys of type `K`. Entries of one tick come out in the order in which they were
/// armed, so a run is a function of its inputs.
#[derive(Debug)]
pub struct Wheel<K> {
    levels: [Vec<Vec<Entry<K>>>; LEVELS],
    far: Vec<Entry<K>>,
    /// The next tick that has not been fired.
    cursor: u64,
    len: usize,
    scratch: Vec<Entry<K>>,
}

impl<K: Copy> Wheel<K> {
    /// An empty wheel whose first tick is at `start`.
    pub fn new(start: Mono) -> Self {
        let level = || (0..PLACES).map(|_| Vec::new()).collect();
        Self {
            levels: [level(), level(), level()],
            far: Vec::new(),
            cursor: start.as_nanos() / TICK_NANOS,
            len: 0,
            scratch: Vec::new(),
        }
    }

    /// Lets `key` become due at `at` (rounded up to the next tick of 4 ms). A time already past
    /// becomes due at the next [`Wheel::fire`].
    pub fn arm(&mut self, at: Mono, key: K) {
        let tick = at.as_nanos().div_ceil(TICK_NANOS).max(self.cursor);
        self.len += 1;
        self.place(Entry { tick, key });
    }

    /// How many entries wait, those that no longer matter to their owner included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no entry waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Moves every key that is due at `now` into `due`, oldest first.
    pub fn fire(&mut self, now: Mono, due: &mut Vec<K>) {
        let last = now.as_nanos() / TICK_NANOS;
        if self.len == 0 {
            // Nothing can be skipped over: jump instead of walking the empty places.
            self.cursor = self.cursor.max(last + 1);
            return;
        }
        while self.cursor <= last {
            self.cascade();
            let place = self.cursor as usize % PLACES;
            let entries = &mut self.levels[0][place];
            self.len -= entries.len();
            due.extend(entries.drain(..).map(|entry| entry.key));
            self.cursor += 1;
            if self.len == 0 {
                self.cursor = self.cursor.max(last + 1);
            }
        }
    }

    /// When [`Wheel::fire`] should next be called: never later than the first due time; it may be
    /// earlier (when far entries must move closer). `None` when nothing waits.
    pub fn next_timeout(&self) -> Option<Mono> {
        if self.len == 0 {
            return None;
        }
        for ahead in 0..PLACES as u64 {
            let tick = self.cursor + ahead;
            if ahead > 0 && tick.is_multiple_of(PLACES as u64) {
                return Some(Mono::from_nanos(tick * TICK_NANOS)); // a cascade is due
            }
            if !self.levels[0][tick as usize % PLACES].is_empty() {
                return Some(Mono::from_nanos(tick * TICK_NANOS));
            }
        }
        Some(Mono::from_nanos((self.cursor + PLACES as u64) * TICK_NANOS))
    }

    /// Upper bound of how late a key is told, when `fire` is called at each `next_timeout`.
    pub const fn resolution() -> Duration {
        Duration::from_nanos(TICK_NANOS)
    }

    fn place(&mut self, entry: Entry<K>) {
        let mut width = 1;
        for level in &mut self.levels {
            // A place of this level belongs to the cursor's turn of the wheel when both lie in
            // the same block of the next level.
            if entry.tick / width / PLACES as u64 == self.cursor / width / PLACES as u64 {
                level[(entry.tick / width) as usize % PLACES].push(entry);
                return;
            }
            width *= PLACES as u64;
        }
        self.far.push(entry);
    }

    /// At the start of a block, moves that block's entries one level down.
    fn cascade(&mut self) {
        let places = PLACES as u64;
        if !self.cursor.is_multiple_of(places) {
            return;
        }
        if self.cursor.is_multiple_of(places * places) {
            if self.cursor.is_multiple_of(places * places * places) {
                let far = std::mem::take(&mut self.far);
                far.into_iter().for_each(|entry| self.place(entry));
            }
            self.spill(2, self.cursor / places / places);
        }
        self.spill(1, self.cursor / places);
    }

    fn spill(&mut self, level: usize, tick: u64) {
        let mut moving = std::mem::take(&mut self.scratch);
        std::mem::swap(&mut moving, &mut self.levels[level][tick as usize % PLACES]);
        for entry in moving.drain(..) {
            self.place(entry);
        }
        self.scratch = moving;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Mono {
        Mono::from_nanos(n * 1_000_000)
    }

    /// Walks the wheel by its own timeouts and notes when each key came out.
    fn run(wheel: &mut Wheel<u32>, end: Mono) -> Vec<(u64, u32)> {
        let mut seen = Vec::new();
        while let Some(at) = wheel.next_timeout().filter(|at| *at <= end) {
            let mut due = Vec::new();
            wheel.fire(at, &mut due);
            seen.extend(due.into_iter().map(|key| (at.as_millis(), key)));
        }
        seen
    }

    #[test]
    fn keys_come_due_in_order_and_never_early() {
        let mut wheel = Wheel::new(ms(17));
        let delays = [0, 1, 3, 4, 500, 1023, 1024, 1025, 32_000, 262_143, 262_144, 90_000_000];
        for (key, delay) in delays.iter().enumerate() {
            wheel.arm(ms(17 + delay), key as u32);
        }
        let seen = run(&mut wheel, ms(200_000_000));
        assert_eq!(seen.len(), delays.len());
        for (at, key) in seen {
            let wanted = 17 + delays[key as usize];
            assert!(at >= wanted && at <= wanted + 4, "key {key} at {at}, wanted {wanted}");
        }
        assert!(wheel.is_empty());
        assert_eq!(wheel.next_timeout(), None);
    }

    #[test]
    fn a_past_time_is_due_at_once_even_after_idling() {
        let mut wheel = Wheel::new(ms(0));
        let mut due = Vec::new();
        wheel.fire(ms(10_000_000), &mut due);
        wheel.arm(ms(3), 7);
        wheel.fire(ms(10_000_004), &mut due);
        assert_eq!(due, [7]);
    }

    #[test]
    fn a_long_jump_fires_all_that_lies_between() {
        let mut wheel = Wheel::new(ms(0));
        for n in 0..5_000_u32 {
            wheel.arm(ms(u64::from(n) * 37), n);
        }
        let mut due = Vec::new();
        wheel.fire(ms(5_000 * 37), &mut due);
        assert_eq!(due, (0..5_000).collect::<Vec<_>>());
    }
}
