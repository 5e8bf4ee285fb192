//! The one place that reads clocks.

use std::cell::Cell;
use std::time::Duration;
use turn::{Mono, Now, Wall};

/// Zones change their offset at quarter hours only.
const ZONE_STEP_S: i64 = 900;

/// Samples both clocks and the zone, once a turn. Each thread has its own.
#[derive(Debug)]
pub struct Clock {
    utc_offset_s: Cell<i32>,
    /// The quarter hour in which the zone was read.
    zone_step: Cell<i64>,
    /// Realtime minus monotonic at the last sample, in nanoseconds.
    ahead: Cell<i64>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A clock that has read the zone once.
    pub fn new() -> Self {
        let clock = Self {
            utc_offset_s: Cell::new(0),
            zone_step: Cell::new(i64::MIN),
            ahead: Cell::new(0),
        };
        clock.sample();
        clock
    }

    /// What time it is.
    pub fn sample(&self) -> Now {
        let mono = read(libc::CLOCK_MONOTONIC);
        let wall = read(libc::CLOCK_REALTIME);
        self.ahead.set(wall - mono);
        let step = wall / 1_000_000_000 / ZONE_STEP_S;
        if step != self.zone_step.get() {
            self.zone_step.set(step);
            self.utc_offset_s.set(utc_offset_s(wall / 1_000_000_000));
        }
        Now {
            mono: Mono::from_nanos(mono.unsigned_abs()),
            wall: Wall::from_micros(wall / 1_000),
            utc_offset_s: self.utc_offset_s.get(),
        }
    }

    /// The monotonic clock alone, for loops that do not need the rest.
    pub fn mono(&self) -> Mono {
        Mono::from_nanos(read(libc::CLOCK_MONOTONIC).unsigned_abs())
    }

    /// Reads the zone again at the next sample: after a reload the operator may have changed it.
    pub fn refresh_zone(&self) {
        self.zone_step.set(i64::MIN);
    }

    /// The monotonic time of a kernel's receive timestamp, by the clocks' distance at the last
    /// sample. A step of the realtime clock in between shows up in the result: compare it with
    /// `now` and do not trust differences that cannot be.
    pub fn realtime_to_mono(&self, nanos: u64) -> Mono {
        let nanos = i64::try_from(nanos).unwrap_or(i64::MAX);
        Mono::from_nanos(nanos.saturating_sub(self.ahead.get()).max(0).unsigned_abs())
    }

    /// CPU time that the calling thread has used.
    pub fn thread_cpu(&self) -> Duration {
        Duration::from_nanos(read(libc::CLOCK_THREAD_CPUTIME_ID).unsigned_abs())
    }
}

/// Nanoseconds of a clock of the kernel; these three cannot fail.
fn read(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec to a live one.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn utc_offset_s(seconds: i64) -> i32 {
    // SAFETY: all-zero is a valid tm: numbers and a null pointer.
    let mut broken_down: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: tzset reads the environment; nothing of ours changes it while threads run.
    // localtime_r reads one live time_t and writes one live tm.
    let done = unsafe {
        tzset();
        libc::localtime_r(&raw const seconds, &raw mut broken_down)
    };
    if done.is_null() { 0 } else { i32::try_from(broken_down.tm_gmtoff).unwrap_or(0) }
}

unsafe extern "C" {
    /// Reads the zone anew; `localtime_r` need not.
    fn tzset();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_advance_together() {
        let clock = Clock::new();
        let first = clock.sample();
        let second = clock.sample();
        assert!(second.mono >= first.mono);
        assert!(second.wall.as_micros() > 1_600_000_000_000_000);
        assert!(second.utc_offset_s.abs() <= 15 * 3600);
    }

    #[test]
    fn a_realtime_stamp_maps_to_the_sample_it_was_taken_at() {
        let clock = Clock::new();
        let now = clock.sample();
        let stamp = now.wall.as_micros().unsigned_abs() * 1_000;
        let mapped = clock.realtime_to_mono(stamp);
        assert!(now.mono - mapped < Duration::from_micros(1));
        assert!(mapped - now.mono < Duration::from_micros(1));
    }
}
