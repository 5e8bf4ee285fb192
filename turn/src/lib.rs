//! What one turn of a shard works with: time as a value, a timer wheel, generational slots, keyed
//! hashes and seeded randomness.
//!
//! A *turn* is one input (a datagram, a due timer, a command) and everything that follows from it.
//! Nothing here reads a clock, opens a file or asks the system for random bytes: the caller passes
//! `now` and the seed in. That is what lets a whole PBX run in a test on virtual time.
//!
//! - [`Mono`], [`Wall`], [`Now`]: points in time.
//! - [`Wheel`]: due times with lazy cancellation.
//! - [`Slots`]: a table whose keys carry a generation, so that a stale key finds nothing.
//! - [`NumberMap`]: a map from numbers of our own making.
//! - [`Rng`], [`HashKey`]: randomness and keyed hashing from one seed.

mod number_map;
mod rng;
mod slots;
mod time;
mod wheel;

pub use number_map::{NumberHasher, NumberMap, number_map};
pub use rng::{HashKey, Rng, Seed};
pub use slots::{Slot, Slots};
pub use time::{Mono, Now, Wall};
pub use wheel::Wheel;
