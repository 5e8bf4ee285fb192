//! A network that lies: loses, doubles, delays and overtakes, all from one seed.

use std::time::Duration;

use turn::{Mono, Rng};

/// How bad the network is, in percent of datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    /// Held back for up to 400 ms, so that later ones overtake.
    pub(crate) held: u64,
}

impl Weather {
    /// The weather of the fixed seeds.
    pub(crate) const BAD: Self = Self { lost: 10, doubled: 5, held: 5 };
}

/// When each copy of one datagram arrives; none when it is lost.
pub(crate) fn arrivals(rng: &mut Rng, weather: Weather, now: Mono) -> Vec<Mono> {
    if rng.below(100) < weather.lost {
        return Vec::new();
    }
    let copies = if rng.below(100) < weather.doubled { 2 } else { 1 };
    (0..copies)
        .map(|_| {
            let slow = if rng.below(100) < weather.held { 400_000 } else { 30_000 };
            now + Duration::from_micros(500 + rng.below(slow))
        })
        .collect()
}
