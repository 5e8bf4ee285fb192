//! What state a leg is in, as far as `call` must know.
//!
//! ```text
//! inbound    Ring ──Ringing, Alerting──► Ringing ──Answer──► Up ─┐
//! outbound   Dialing ──Alerting──► Ringing ──Answered──► Up ─────┼─Release─► Releasing ─┐
//!              └────────────────────────┴────────────────────────┴──────Released────────┴─► gone
//! ```

use crate::channel::Channel;

/// What state a leg is in; Asterisk's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegState {
    /// Inbound: the caller waits.
    Ring,
    /// Outbound: placed, nothing heard of ringing.
    Dialing,
    /// The called party rings; inbound: the caller was told so.
    Ringing,
    /// Answered.
    Up,
    /// We released it and wait for its end.
    Releasing,
    /// It ended.
    Gone,
}

impl LegState {
    /// Asterisk's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ring => "Ring",
            Self::Dialing => "Dialing",
            Self::Ringing => "Ringing",
            Self::Up => "Up",
            Self::Releasing | Self::Gone => "Down",
        }
    }

    /// Whether the leg can still be told something.
    pub(crate) const fn is_alive(self) -> bool {
        match self {
            Self::Ring | Self::Dialing | Self::Ringing | Self::Up => true,
            Self::Releasing | Self::Gone => false,
        }
    }

    /// Whether the leg is alive and not answered.
    pub(crate) const fn is_waiting(self) -> bool {
        match self {
            Self::Ring | Self::Dialing | Self::Ringing => true,
            Self::Up | Self::Releasing | Self::Gone => false,
        }
    }
}

/// An outbound leg.
#[derive(Debug)]
pub(crate) struct Leg {
    pub(crate) number: u8,
    pub(crate) state: LegState,
    pub(crate) channel: Channel,
    pub(crate) placed: turn::Mono,
}
