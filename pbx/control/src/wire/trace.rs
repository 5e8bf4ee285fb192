//! What a console may ask about SIP messages.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Whose messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "whose", rename_all = "snake_case")]
pub enum TraceWhose {
    /// Everybody's.
    All,
    /// Those of an address.
    Peer {
        /// The address.
        address: IpAddr,
    },
    /// Those of an endpoint or trunk.
    Endpoint {
        /// Its name.
        name: String,
    },
    /// Those of a call, all legs of it.
    Call {
        /// `C-0000001a`, the name of a channel, or a Call-ID.
        call: String,
    },
}

/// An order or a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum TraceAsk {
    /// Writes messages from now on.
    On {
        /// Which.
        of: TraceWhose,
        /// A pcap file in the log folder; the log when `None`.
        file: Option<String>,
    },
    /// Writes them no longer.
    Off {
        /// Which; all when `None`.
        of: Option<TraceWhose>,
    },
    /// Lists what is written.
    Show,
}
