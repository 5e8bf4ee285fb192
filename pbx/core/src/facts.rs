//! What happened on a shard, typed. One place of the program turns facts into log lines, metrics
//! and events; a shard itself writes nothing.

use std::net::SocketAddr;

use call::CallFact;
use sip::wire::Fault;

/// Why a request was refused before it became anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refused {
    /// It comes from an address that no trunk has (403).
    Stranger,
    /// It waited too long in the socket (503).
    Sojourn,
    /// There are as many calls as are allowed (503).
    CallsMax,
    /// The trunk has as many calls as it may (503).
    TrunkMax,
    /// The program is on its way down (503).
    Draining,
}

impl Refused {
    /// All, for tables of counters.
    pub const ALL: [Self; 5] =
        [Self::Stranger, Self::Sojourn, Self::CallsMax, Self::TrunkMax, Self::Draining];

    /// A word for metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stranger => "stranger",
            Self::Sojourn => "sojourn",
            Self::CallsMax => "calls_max",
            Self::TrunkMax => "trunk_max",
            Self::Draining => "draining",
        }
    }

    /// Its place in [`Refused::ALL`].
    pub const fn index(self) -> usize {
        match self {
            Self::Stranger => 0,
            Self::Sojourn => 1,
            Self::CallsMax => 2,
            Self::TrunkMax => 3,
            Self::Draining => 4,
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// In a call.
    Call(CallFact),
    /// A request was refused before it became anything.
    Refused {
        /// Why.
        why: Refused,
        /// Who sent it.
        source: SocketAddr,
        /// Its method as it stood, for the security log; at most 32 bytes.
        method: Box<[u8]>,
        /// Its From user and Call-ID, raw, for the security log. Empty unless it is a stranger's.
        from: Box<[u8]>,
        /// The Call-ID, raw. Empty unless it is a stranger's.
        call_id: Box<[u8]>,
    },
    /// A message broke a rule. `answered` says whether it could be told so.
    Malformed {
        /// Which rule, at which byte.
        fault: Fault,
        /// Who sent it.
        source: SocketAddr,
        /// The status that was sent, 0 when it was dropped in silence.
        answered: u16,
    },
    /// A target of Dial cannot be called: a name instead of an address, no such trunk, a trunk
    /// without a peer address, or no local address of its family.
    Unroutable {
        /// What was to be called.
        target: Box<str>,
    },
}
