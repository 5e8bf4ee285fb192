//! The calls that took longest to set up, for `top`.

use call::Record;

/// Calls that are told.
const CALLS_MAX: usize = 5;

/// The slowest since somebody asked, the slowest first. A call that is not slow costs one
/// comparison.
#[derive(Debug, Default)]
pub(super) struct Slowest(Vec<(u64, String)>);

impl Slowest {
    /// Looks at a call that has ended: from its beginning to its answer, in microseconds.
    pub(super) fn take(&mut self, record: &Record) {
        let Some(answer) = record.answer else { return };
        let took = answer.as_micros().saturating_sub(record.start.as_micros());
        let took = u64::try_from(took).unwrap_or(0);
        if self.0.len() == CALLS_MAX && self.0.last().is_some_and(|least| least.0 >= took) {
            return;
        }
        let at = self.0.partition_point(|slower| slower.0 >= took);
        self.0.insert(at, (took, record.channel.to_string()));
        self.0.truncate(CALLS_MAX);
    }

    /// Tells them, and begins anew.
    pub(super) fn tell(&mut self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.0)
    }
}
