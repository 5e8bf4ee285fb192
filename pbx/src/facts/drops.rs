//! What is refused or dropped too often for a line each: one line for each reason and second, with
//! the count. Under overload a line for each refusal would cost as much as the call.

use super::Facts;
use crate::metrics::Snapshot;
use logging::warning;
use pbx_core::Refused;

/// What of a drop the log tells, and where it is counted.
type Drop = (&'static str, fn(&Snapshot) -> u64);

/// Beside the requests that are refused with 503.
const DROPS: [Drop; 9] = [
    ("requests of strangers got no answer: their source had used up its budget", |s| {
        s.shard.strangers.silenced
    }),
    ("requests of strangers got no answer: all together had used up their budget", |s| {
        s.shard.strangers.silenced_all
    }),
    ("messages were not read: their source is closed", |s| s.shard.strangers.closed_drops),
    ("requests were refused: a table is full", |s| s.shard.full + s.shard.endpoint.full),
    ("datagrams were lost: the kernel's buffer of the socket was full", |s| s.driver.kernel_drops),
    ("messages were dropped: the mailbox of another shard was full", |s| s.driver.hops_dropped),
    ("calls were refused with 503: the mailbox of another shard was nearly full", |s| {
        s.driver.hops_refused
    }),
    ("datagrams were not sent: the socket took none", |s| s.driver.send_drops),
    ("datagrams were not sent: the kernel refused them", |s| s.driver.send_failures),
];

/// What was dropped and is not told of, or has been.
#[derive(Debug, Default)]
pub(super) struct Drops {
    /// Requests refused since the last report, by [`Refused::index`].
    refused: [u64; Refused::COUNT],
    /// The totals of [`DROPS`] at the last report.
    told: [u64; DROPS.len()],
}

impl Drops {
    /// A request was refused, for a reason that is nobody's fault.
    pub(super) fn refused(&mut self, why: Refused) {
        self.refused[why.index()] += 1;
    }
}

impl Facts {
    /// Reports what was dropped since the last time. Once a second.
    pub(crate) fn report(&mut self, snapshot: &Snapshot) {
        let Self { lane, drops, .. } = self;
        for why in Refused::ALL {
            let count = std::mem::take(&mut drops.refused[why.index()]);
            if count > 0 {
                warning!(lane, "Refused {} requests with 503: {}", count, why.as_str());
            }
        }
        for ((what, total), told) in DROPS.iter().zip(&mut drops.told) {
            let total = total(snapshot);
            let count = total.saturating_sub(std::mem::replace(told, total));
            if count > 0 {
                warning!(lane, "Within a second, {} {}", count, *what);
            }
        }
    }
}
