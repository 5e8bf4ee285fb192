//! Which messages belong to a call: for an operator who traces one.

use crate::Shard;

impl Shard {
    /// The Call-IDs of all legs that the call `number` of this shard has now, branches that ring
    /// included. Walks the table of legs: for operators. A leg on another shard is not found.
    pub fn call_ids(&self, number: u32) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        for leg in self.legs.iter().map(|(_, leg)| leg) {
            let owner = leg.owner();
            let is_ours = owner.shard == self.shard;
            if !is_ours || self.calls.number(owner.leg.call).is_none_or(|it| it.0 != number) {
                continue;
            }
            for usage in leg.usages() {
                let mut call_id = Vec::new();
                self.endpoint.write_call_id(usage, &mut call_id);
                if !call_id.is_empty() && !found.contains(&call_id) {
                    found.push(call_id);
                }
            }
        }
        found
    }
}
