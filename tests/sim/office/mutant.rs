//! Planted faults around a kill: what a program would look like that loses something. Planted where
//! a shard meets its journal and its restart, as in `crate::mutant`.

use std::collections::BTreeSet;

use call::Record;
use pbx_core::Stored;

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Each fifth line that must survive is not written.
    LostLine,
    /// No line about a removal is written: who has gone comes back at a restart.
    LostRemoval,
    /// A restart forgets an endpoint.
    ForgottenBinding,
    /// A restart reads all lines and gives the endpoints to no shard: they never expire.
    KeptByNobody,
    /// A restart takes half of what is left of a binding's time.
    ShortBinding,
    /// A message leaves before the lines of its turn are written.
    SentBeforeWritten,
    /// The last records before a kill were still in memory.
    LostRecords,
    /// The records of an earlier life are written again.
    DoubledRecords,
    /// A restarted shard says nothing to requests of calls that it does not know.
    SilentToStrays,
}

impl Mutant {
    pub(crate) const ALL: [Self; 9] = [
        Self::LostLine,
        Self::LostRemoval,
        Self::ForgottenBinding,
        Self::KeptByNobody,
        Self::ShortBinding,
        Self::SentBeforeWritten,
        Self::LostRecords,
        Self::DoubledRecords,
        Self::SilentToStrays,
    ];
}

/// What survives a kill, and the fault at work.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) mutant: Option<Mutant>,
    /// Of each shard the lines since the last restart, with the turn that wrote them.
    lines: Vec<(u64, u8, Box<str>)>,
    /// With the epoch of the shard that wrote them.
    pub(crate) records: Vec<(u16, Record)>,
    seen: u32,
}

impl Journal {
    pub(crate) fn new(mutant: Option<Mutant>) -> Self {
        Self { mutant, ..Self::default() }
    }

    /// Writes what a turn must not lose. `is_last`: the program is killed in this turn, between
    /// writing and sending.
    pub(crate) fn write(
        &mut self,
        (turn, shard, epoch): (u64, u8, u16),
        stored: Vec<Stored>,
        records: Vec<Record>,
        is_last: bool,
    ) {
        if is_last && self.mutant == Some(Mutant::SentBeforeWritten) {
            return;
        }
        for stored in stored {
            let (Stored::Binding(line) | Stored::Database(line)) = stored;
            self.seen += 1;
            let is_lost = match self.mutant {
                Some(Mutant::LostLine) => self.seen.is_multiple_of(5),
                Some(Mutant::LostRemoval) => line.contains("\"removed\":true"),
                _ => false,
            };
            if !is_lost {
                self.lines.push((turn, shard, line));
            }
        }
        self.records.extend(records.into_iter().map(|record| (epoch, record)));
    }

    /// The lines as a start finds them. Each shard has a ring of its own that is emptied now and
    /// then: what was written lately comes ring by ring, and some of it twice.
    pub(crate) fn read(&self, now_written: u64) -> Vec<&str> {
        let is_early = |turn: u64| turn + 20 < now_written;
        let early = self.lines.iter().filter(|(turn, ..)| is_early(*turn));
        let late: Vec<_> = self.lines.iter().filter(|(turn, ..)| !is_early(*turn)).collect();
        let shards: BTreeSet<u8> = late.iter().map(|(_, shard, _)| *shard).collect();
        let rings = shards.into_iter().flat_map(|shard| {
            let of_shard = late.iter().filter(move |(_, of, _)| *of == shard);
            // The file had got the first half of the ring already.
            let twice = of_shard.clone().count() / 2;
            of_shard.clone().take(twice).chain(of_shard)
        });
        early.chain(rings.copied()).map(|(.., line)| &**line).collect()
    }

    /// The program was killed.
    pub(crate) fn on_kill(&mut self, epoch: u16) {
        match self.mutant {
            Some(Mutant::LostRecords) => {
                let left = self.records.len().saturating_sub(3);
                let earlier = self.records.iter().filter(|(of, _)| *of < epoch).count();
                self.records.truncate(left.max(earlier));
            }
            Some(Mutant::DoubledRecords) => self.records.extend_from_within(..),
            _ => {}
        }
    }

    /// What a message of a shard becomes on its way out.
    pub(crate) fn is_sent(&self, epoch: u16, text: &str) -> bool {
        let is_stray = text.starts_with("SIP/2.0 481") && epoch > super::process::FIRST_EPOCH;
        !(self.mutant == Some(Mutant::SilentToStrays) && is_stray)
    }
}
