//! The plan's database as a shard changes it: each change is told, so that it can be written down.
//!
//! A line is a JSON array: `["family","key","value"]` sets, `["family","key"]` deletes one entry,
//! and `["family","prefix",null]` all whose keys begin so.

use call::World;

use crate::ShardOut;
use crate::shard::Shard;
use crate::shared::Database;

impl Shard {
    /// Sets an entry. `false`: there is no room for it, or it cannot be written down.
    pub fn put(&mut self, family: &str, key: &str, value: &str, out: &mut ShardOut) -> bool {
        let is_put = self.world.set_database(family, key, value);
        self.world.drain(&mut out.stored);
        is_put
    }

    /// Deletes an entry, or all of a family whose keys begin so. Gives how many there were.
    pub fn delete(
        &mut self,
        (family, key): (&str, &str),
        is_tree: bool,
        out: &mut ShardOut,
    ) -> usize {
        let gone = self.world.delete(family, key, is_tree);
        self.world.drain(&mut out.stored);
        gone
    }
}

/// The line that deletes an entry, or all of a family whose keys begin so.
pub(crate) fn deletion_line(family: &str, key: &str, is_tree: bool) -> String {
    let ending = if is_tree { ",null]" } else { "]" };
    format!("[{},{}{ending}", quoted(family), quoted(key))
}

/// Does again what a line says that was written down. `false`: it says nothing that can be done.
pub fn restore_entry(database: &dyn Database, line: &str) -> bool {
    let Ok(parts) = serde_json::from_str::<Vec<Option<String>>>(line) else { return false };
    match &parts[..] {
        [Some(family), Some(key), Some(value)] => database.put(family, key, value),
        [Some(family), Some(prefix), None] => {
            database.delete_tree(family, prefix);
            true
        }
        [Some(family), Some(key)] => {
            database.delete(family, key);
            true
        }
        _ => false,
    }
}

/// The line that sets an entry, for a file that is written anew.
pub fn entry_line(family: &str, key: &str, value: &str) -> String {
    format!("[{},{},{}]", quoted(family), quoted(key), quoted(value))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
