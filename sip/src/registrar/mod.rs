//! A registrar's rules for one address of record (RFC 3261 §10.3, with Path of RFC 3327 and the
//! instance of RFC 5626).
//!
//! [`register()`] changes the bindings of an [`Aor`] as a REGISTER asks, or not at all: a request
//! with several contacts takes effect as a whole. Who may register, and where the bindings lie, is
//! the business of the layer above.
//!
//! What holds where the RFCs leave it open: a contact must be a SIP URI; a binding replaces the one
//! of the same `+sip.instance` (and `reg-id`), whatever their URIs; when there is no room, the
//! binding of the same Call-ID goes first (a phone whose address has changed), then one that does
//! not answer, then, if the policy wants that, the oldest. GRUU and outbound's `ob` are not built.

mod binding;
mod line;
mod register;

pub use binding::{Aor, Binding, Reach};
pub use line::{BadLine, Line, removed_to_line};
pub use register::{Change, Registered, register};

use std::time::Duration;

/// Contacts of one REGISTER; more are refused.
pub const CONTACTS_MAX: usize = 10;

/// The longest contact URI, and the longest of each other text of a binding. Longer contacts are
/// refused, longer texts refused with them, so that a binding stays small.
pub const TEXT_MAX: usize = 512;

/// What to do when an address has as many bindings as it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Refuse the new one (403).
    Refuse,
    /// Take the place of the oldest one.
    #[default]
    ReplaceOldest,
}

/// How an endpoint may register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Shorter is refused with 423.
    pub expires_min: Duration,
    /// Longer is cut.
    pub expires_max: Duration,
    /// For who does not say.
    pub expires_default: Duration,
    /// Bindings at a time.
    pub contacts_max: u8,
    /// What happens beyond.
    pub when_full: WhenFull,
}

impl Default for Policy {
    /// Between a minute and an hour, five at a time.
    fn default() -> Self {
        Self {
            expires_min: Duration::from_secs(60),
            expires_max: Duration::from_secs(3600),
            expires_default: Duration::from_secs(3600),
            contacts_max: 5,
            when_full: WhenFull::ReplaceOldest,
        }
    }
}
