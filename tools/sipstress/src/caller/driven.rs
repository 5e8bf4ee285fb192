//! The calls as the generator sees them.

use super::Caller;
use crate::tally::Tally;
use crate::workload::Workload;
use sip::path::Outbox;
use turn::Mono;

impl Workload for Caller {
    fn place(&mut self, scheduled: Mono, now: Mono) -> bool {
        Self::place(self, scheduled, now)
    }

    fn receive(&mut self, bytes: &[u8], at: Mono, now: Mono) {
        Self::receive(self, bytes, at, now);
    }

    fn fire(&mut self, now: Mono) {
        Self::fire(self, now);
    }

    fn next_timeout(&self) -> Option<Mono> {
        Self::next_timeout(self)
    }

    fn outbox(&self) -> &Outbox {
        Self::outbox(self)
    }

    fn on_sent(&mut self, index: usize, now: Mono) {
        Self::on_sent(self, index, now);
    }

    fn on_unsent(&mut self, index: usize) {
        Self::on_unsent(self, index);
    }

    fn clear_sends(&mut self) {
        Self::clear_sends(self);
    }

    fn open(&self) -> usize {
        Self::open(self)
    }

    fn held(&self) -> usize {
        Self::held(self)
    }

    fn hang_up(&mut self, count: usize, now: Mono) -> usize {
        Self::hang_up(self, count, now)
    }

    fn give_up_all(&mut self) {
        Self::give_up_all(self);
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}
