//! Who may come in: asked about each request that would begin something, before it costs anything.
//!
//! Trunks are known by their address; a stranger gets 403. New calls are refused first when
//! something is short (503 with Retry-After), running calls last.

use sip::endpoint::{Admission, Reply};
use sip::path::Path;
use sip::wire::{Message, Method};
use turn::Mono;

use crate::shard::Limits;
use crate::{Refused, Trunks};

/// Seconds after which a refused caller may try again: long enough for a burst to pass.
const RETRY_AFTER_S: u32 = 2;

/// The gate for one message.
pub(crate) struct Gate<'g> {
    pub(crate) trunks: &'g Trunks,
    pub(crate) trunk_calls: &'g [u32],
    pub(crate) limits: &'g Limits,
    pub(crate) calls: usize,
    pub(crate) is_draining: bool,
    pub(crate) now: Mono,
    pub(crate) received_at: Mono,
    /// What it said.
    pub(crate) refused: Option<Refused>,
}

impl Gate<'_> {
    fn judge(&self, message: &Message<'_>, path: &Path) -> Option<Refused> {
        let Some(id) = self.trunks.of_source(path.remote.ip()) else {
            return Some(Refused::Stranger);
        };
        if self.is_draining {
            return Some(Refused::Draining);
        }
        if message.method() != Method::Invite {
            return None;
        }
        if self.now - self.received_at > self.limits.sojourn_max {
            return Some(Refused::Sojourn);
        }
        if self.calls >= self.limits.calls_soft_max as usize {
            return Some(Refused::CallsMax);
        }
        let most = self.trunks.view(id).and_then(|trunk| trunk.calls_max);
        let has = self.trunk_calls.get(usize::from(id.0)).copied().unwrap_or(0);
        most.is_some_and(|most| has >= most).then_some(Refused::TrunkMax)
    }
}

impl Admission for Gate<'_> {
    fn refuse(&mut self, message: &Message<'_>, path: &Path) -> Option<Reply<'static>> {
        self.refused = self.judge(message, path);
        match self.refused? {
            Refused::Stranger => Some(Reply::status(403)),
            Refused::Sojourn | Refused::CallsMax | Refused::TrunkMax | Refused::Draining => {
                Some(Reply::retry_after(503, RETRY_AFTER_S))
            }
        }
    }
}
