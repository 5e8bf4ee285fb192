//! What the generator drives: a pure machine that makes things happen by the clock and keeps
//! account of them.

use crate::tally::Tally;
use sip::path::Outbox;
use turn::Mono;

/// Calls, or registrations.
pub trait Workload: std::fmt::Debug {
    /// Makes the one that was due at `scheduled`; false when the table is full.
    fn place(&mut self, scheduled: Mono, now: Mono) -> bool;

    /// A datagram that the kernel took in at `at` (monotonic).
    fn receive(&mut self, bytes: &[u8], at: Mono, now: Mono);

    /// Lets due timers act.
    fn fire(&mut self, now: Mono);

    /// When [`Workload::fire`] has work.
    fn next_timeout(&self) -> Option<Mono>;

    /// The messages that wait.
    fn outbox(&self) -> &Outbox;

    /// The kernel has taken message `index` of the outbox, at `now`.
    fn on_sent(&mut self, index: usize, now: Mono);

    /// The kernel has refused message `index` of the outbox.
    fn on_unsent(&mut self, index: usize);

    /// Forgets the messages: all have been sent or refused.
    fn clear_sends(&mut self);

    /// Those in any phase.
    fn open(&self) -> usize;

    /// Those that stay until they are told to end.
    fn held(&self) -> usize;

    /// Ends at most `count` held ones; the number that were.
    fn hang_up(&mut self, count: usize, now: Mono) -> usize;

    /// Counts every one that has no answer as timed out, at once: nobody is there.
    fn give_up_all(&mut self);

    /// The counts of the current step.
    fn tally(&mut self) -> &mut Tally;
}
