//! Points in time as plain values. No function here reads a clock.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point on the monotonic clock: nanoseconds since an arbitrary start (the kernel's
/// `CLOCK_MONOTONIC` in the binary, zero in a simulation). Good for 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(u64);

impl Mono {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);

    /// A point `nanos` nanoseconds after the clock's start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the clock's start.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Time from `earlier` to `self`; zero when `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Mono {
    type Output = Self;

    /// Saturates at the end of the clock.
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Mono {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

/// A point in civil time: microseconds since 1970-01-01T00:00:00Z. For records and log lines only;
/// it may jump, so no deadline is ever computed from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(i64);

impl Wall {
    /// From microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }
}

/// What time it is, sampled once a turn: both clocks and the zone together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For deadlines and durations.
    pub mono: Mono,
    /// For records and log lines.
    pub wall: Wall,
    /// Local time minus UTC, in seconds.
    pub utc_offset_s: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_never_go_negative() {
        let early = Mono::from_nanos(5);
        let late = early + Duration::from_nanos(7);
        assert_eq!(late - early, Duration::from_nanos(7));
        assert_eq!(early - late, Duration::ZERO);
        assert_eq!((late + Duration::MAX).as_nanos(), u64::MAX);
    }
}
