//! What happened on a shard, typed. One place of the program turns facts into log lines, metrics
//! and events; a shard itself writes nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use call::{CallFact, Endpoint};
use sip::path::Path;
use sip::wire::Fault;

use crate::{Hop, Registered};

/// Why a request was refused before it became anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refused {
    /// It comes from an address that no trunk has, and there is no endpoint (403).
    Stranger,
    /// It brings no credentials and no trunk has its address (401): what every phone does first.
    Challenged,
    /// Its password is right, its nonce is not, or no longer (401).
    Stale,
    /// Its password is wrong (401).
    WrongPassword,
    /// No endpoint calls itself so (401, as for a wrong password).
    UnknownUser,
    /// Its credentials cannot be read (401).
    Credentials,
    /// The endpoint may not come from there (401, as for a wrong password).
    Acl,
    /// It speaks for an address that is not the endpoint's own (403).
    NotHis,
    /// It waited too long in the socket (503).
    Sojourn,
    /// There are as many calls as are allowed (503).
    CallsMax,
    /// The trunk has as many calls as it may (503).
    TrunkMax,
    /// The endpoint has as many calls as it may (503).
    PhoneMax,
    /// What must survive the program cannot be written at the moment (503).
    StoreFull,
    /// The program is on its way down (503).
    Draining,
}

impl Refused {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// All, for tables of counters.
    pub const ALL: [Self; 14] = [
        Self::Stranger,
        Self::Challenged,
        Self::Stale,
        Self::WrongPassword,
        Self::UnknownUser,
        Self::Credentials,
        Self::Acl,
        Self::NotHis,
        Self::Sojourn,
        Self::CallsMax,
        Self::TrunkMax,
        Self::PhoneMax,
        Self::StoreFull,
        Self::Draining,
    ];

    /// A word for metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stranger => "stranger",
            Self::Challenged => "challenged",
            Self::Stale => "stale",
            Self::WrongPassword => "wrong_password",
            Self::UnknownUser => "unknown_user",
            Self::Credentials => "credentials",
            Self::Acl => "acl",
            Self::NotHis => "not_his",
            Self::Sojourn => "sojourn",
            Self::CallsMax => "calls_max",
            Self::TrunkMax => "trunk_max",
            Self::PhoneMax => "endpoint_max",
            Self::StoreFull => "store_full",
            Self::Draining => "draining",
        }
    }

    /// Its place in [`Refused::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether it is an attempt that a security log must show: a phone's first request and a stale
    /// nonce are none.
    pub const fn is_failure(self) -> bool {
        match self {
            Self::WrongPassword
            | Self::UnknownUser
            | Self::Credentials
            | Self::Acl
            | Self::NotHis => true,
            Self::Stranger
            | Self::Challenged
            | Self::Stale
            | Self::Sojourn
            | Self::CallsMax
            | Self::TrunkMax
            | Self::PhoneMax
            | Self::StoreFull
            | Self::Draining => false,
        }
    }
}

/// Why an endpoint can no longer be reached at a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unregistered {
    /// The endpoint said so.
    Asked,
    /// Its time is over.
    Expired,
    /// A newer one took its place.
    Replaced,
    /// An operator said so.
    Operator,
}

/// Why a call goes on elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onto {
    /// Every call of the endpoint does.
    Always,
    /// It is busy, or not to be disturbed.
    Busy,
    /// It did not answer in time, or is not registered.
    NoAnswer,
    /// It said so itself (a 3xx).
    Redirected,
}

impl Onto {
    /// A word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Busy => "busy",
            Self::NoAnswer => "no answer",
            Self::Redirected => "redirected",
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// In a call.
    Call(CallFact),
    /// A request was refused before it became anything. Not told of [`Refused::Challenged`] and
    /// [`Refused::Stale`]: every phone meets them.
    Refused {
        /// Why.
        why: Refused,
        /// The way that it took.
        path: Path,
        /// Its method as it stood, for the security log; at most 32 bytes.
        method: Box<[u8]>,
        /// Its From user, raw: the caller's word, which no log shows. Empty unless a stranger or a
        /// failure.
        from: Box<[u8]>,
        /// The Call-ID, raw. Empty unless a stranger or a failure.
        call_id: Box<[u8]>,
        /// The endpoint that it claimed to be, if there is one.
        endpoint: Option<Arc<Endpoint>>,
    },
    /// A source has failed so often that nothing of it is read for a while.
    SourceClosed {
        /// The source.
        source: SocketAddr,
        /// For how long.
        penalty: Duration,
    },
    /// A source has left too many challenges without an answer; told with each one beyond.
    Unanswered {
        /// The way of the request that got the last challenge.
        path: Path,
        /// Its Call-ID, raw.
        call_id: Box<[u8]>,
        /// How many so far.
        challenges: u32,
    },
    /// A caller whom nobody knows dialled a number that the plan does not have: see
    /// [`crate::Prefix::is_public`]. The call tells of it, too ([`CallFact::NoExtension`]).
    StrangeNumber {
        /// The way of his INVITE.
        path: Path,
        /// The trunk that lets such callers in.
        endpoint: Arc<Endpoint>,
    },
    /// An endpoint can be reached at a contact, or still can.
    Registered {
        /// The endpoint.
        endpoint: Arc<Endpoint>,
        /// The contact's URI, raw.
        contact: Box<[u8]>,
        /// The way that the REGISTER took.
        path: Path,
        /// For how long.
        expires: Duration,
        /// Whether it could not be reached there before.
        is_new: bool,
    },
    /// An endpoint can no longer be reached at a contact.
    Unregistered {
        /// The endpoint's name.
        aor: Box<str>,
        /// The contact's URI, raw.
        contact: Box<[u8]>,
        /// Why.
        why: Unregistered,
    },
    /// Our registration with a trunk has begun, ended or failed.
    TrunkRegistration {
        /// The trunk.
        endpoint: Arc<Endpoint>,
        /// How it stands now.
        registered: Registered,
        /// The status that said so.
        status: u16,
    },
    /// A peer of a trunk answers again, or no longer.
    PeerReach {
        /// The trunk.
        endpoint: Arc<Endpoint>,
        /// The peer.
        peer: Hop,
        /// Whether it answers.
        is_reachable: bool,
        /// How fast.
        rtt: Option<Duration>,
    },
    /// A REGISTER of an endpoint was refused with this status.
    NotRegistered {
        /// The endpoint.
        endpoint: Arc<Endpoint>,
        /// The way that it took.
        path: Path,
        /// The status.
        status: u16,
    },
    /// A message broke a rule. `answered` says whether it could be told so.
    Malformed {
        /// Which rule, at which byte.
        fault: Fault,
        /// The way that it took.
        path: Path,
        /// Whether it is neither from a trunk nor from where a phone has proved who it is.
        is_strangers: bool,
        /// The status that was sent, 0 when it was dropped in silence.
        answered: u16,
    },
    /// A call to an endpoint goes on to a number in the endpoint's context.
    Forwarded {
        /// The endpoint.
        endpoint: Box<str>,
        /// The number.
        number: Box<str>,
        /// Why.
        onto: Onto,
    },
    /// A device that was called for an operator answered; the plan runs.
    Originated {
        /// The device.
        device: Box<str>,
        /// The extension.
        exten: Box<str>,
    },
    /// A device that was called for an operator did not take the call.
    NotOriginated {
        /// The device.
        device: Box<str>,
        /// Q.850 cause.
        q850: u8,
    },
    /// A host name leads nowhere.
    NotLocated {
        /// The name.
        name: Box<str>,
        /// No server of names could tell; else there is no such name, or no place of it that we
        /// can send to.
        is_silent: bool,
    },
    /// A target of Dial cannot be called: no such trunk, a trunk without a peer, a name that leads
    /// nowhere, or no local address of its family.
    Unroutable {
        /// What was to be called.
        target: Box<str>,
    },
}
