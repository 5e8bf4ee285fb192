//! What a shard has counted.

use call::CallCounts;
use sip::endpoint::Counts;
use sip::transaction::TransactionCounts;

use crate::Refused;
use crate::strangers::StrangerCounts;

/// Totals since the start, and what there is right now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardCounts {
    /// Datagrams taken in.
    pub datagrams: u64,
    /// Datagrams that were only a keep-alive.
    pub keep_alives: u64,
    /// Messages that broke a rule.
    pub malformed: u64,
    /// Requests refused at the gate, by [`crate::Refused::index`].
    pub refused: [u64; Refused::COUNT],
    /// What strangers were refused.
    pub strangers: StrangerCounts,
    /// REGISTER requests that were accepted.
    pub registers: u64,
    /// REGISTER requests that the registrar refused.
    pub registers_refused: u64,
    /// Bindings that expired here.
    pub expired: u64,
    /// Calls to endpoints that went on elsewhere.
    pub forwarded: u64,
    /// Host names that were looked up.
    pub lookups: u64,
    /// Host names that the DNS does not know, or that lead nowhere.
    pub lookups_unknown: u64,
    /// Host names for which no server of names answered in time.
    pub lookups_silent: u64,
    /// Look-ups that were not begun because too many waited.
    pub lookups_full: u64,
    /// Look-ups that wait for their answer.
    pub lookups_waiting: usize,
    /// Set-ups refused because the table of calls or legs was full.
    pub full: u64,
    /// Messages to other shards.
    pub hops: u64,
    /// Commands for legs that were gone.
    pub stale_commands: u64,
    /// Calls that there are.
    pub calls: usize,
    /// SIP legs that there are.
    pub legs: usize,
    /// Addresses of record that this shard keeps.
    pub kept: usize,
    /// Contacts that this shard asks whether they are there.
    pub pinged: usize,
    /// Of the endpoint.
    pub endpoint: Counts,
    /// Of the transactions.
    pub transactions: TransactionCounts,
    /// Of the calls.
    pub call: CallCounts,
}
