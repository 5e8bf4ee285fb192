//! Which Call-ID a usage has, for whoever traces its messages.

use super::{Endpoint, UsageId};
use crate::mint::Minted;

impl Endpoint {
    /// Appends the Call-ID of a usage; nothing when there is none. A client's was minted for its
    /// slot before there was a dialog.
    pub fn write_call_id(&self, id: UsageId, out: &mut Vec<u8>) {
        let Some(usage) = self.usages.view(id.0) else { return };
        match &usage.dialog {
            Some(dialog) => out.extend_from_slice(dialog.call_id()),
            None => self.stack.minter.write(Minted::CallId, id.0, out),
        }
    }
}
