//! What `top` shows: counts since the start, from which a console makes rates.

use serde::{Deserialize, Serialize};

/// A thread of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopThread {
    /// Its name.
    pub name: String,
    /// Processor time that it has used, in microseconds.
    pub cpu_us: u64,
}

/// A call that is worth a look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopCall {
    /// Its channel.
    pub channel: String,
    /// How long it took, in microseconds.
    pub took_us: u64,
}

/// One look at the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Top {
    /// When: microseconds since the start.
    pub at_us: u64,
    /// Calls now.
    pub calls: u64,
    /// Legs now.
    pub channels: u64,
    /// Calls since the start.
    pub processed: u64,
    /// Of them answered.
    pub answered: u64,
    /// Requests refused, for whatever reason.
    pub refused: u64,
    /// REGISTERs.
    pub registers: u64,
    /// Datagrams that the kernel dropped at our sockets.
    pub kernel_drops: u64,
    /// VERBOSE, DEBUG and DTMF lines lost, in lanes and channels of the log.
    pub lost_verbose: u64,
    /// Other lines that could not be written; those that were only summed up are not among them.
    pub lost_keep: u64,
    /// The log's channels that cannot be written at the moment.
    pub failing: Vec<String>,
    /// The verbosity in effect.
    pub verbose: u8,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Threads that have used anything.
    pub threads: Vec<TopThread>,
    /// The slowest set-ups among the calls that have ended since the last look.
    pub slowest: Vec<TopCall>,
}
