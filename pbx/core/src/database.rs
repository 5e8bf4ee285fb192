//! The plan's database as a shard changes it: each change is told, so that it can be written down.
//!
//! A line is a JSON array: `["family","key","value",7]` sets, `["family","key",7]` deletes one
//! entry, and `["family","prefix",null,7]` all whose keys begin so. The number says when it was
//! done: each shard writes into a ring of its own, so that lines of two shards may stand in a file
//! in another order. A whole state has lines without a number, and before them one with nothing
//! else, `[7]`: changes up to that number are part of it.

use call::World;
use serde_json::Value;

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

/// A change that was written down.
#[derive(Debug)]
enum Change {
    Put(String, String, String),
    Delete(String, String),
    DeleteTree(String, String),
}

/// Changes that are read back, to be done again in the order in which they were done first.
#[derive(Debug, Default)]
pub struct Changes {
    /// With their numbers; 0 is part of a whole state.
    read: Vec<(u64, Change)>,
    /// Numbers up to this one are part of the whole state.
    whole: u64,
    highest: u64,
}

impl Changes {
    /// Takes a line in. `false`: it says nothing that can be done.
    pub fn read(&mut self, line: &str) -> bool {
        let Ok(mut parts) = serde_json::from_str::<Vec<Value>>(line) else { return false };
        let number = parts.last().and_then(Value::as_u64);
        let has_number = number.is_some();
        if has_number {
            parts.pop();
        }
        let number = number.unwrap_or(0);
        self.highest = self.highest.max(number);
        let mut parts = parts.into_iter();
        let change = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (None, None, None, None) if has_number => {
                self.whole = self.whole.max(number);
                return true;
            }
            (
                Some(Value::String(family)),
                Some(Value::String(key)),
                Some(Value::String(value)),
                None,
            ) => Change::Put(family, key, value),
            (Some(Value::String(family)), Some(Value::String(prefix)), Some(Value::Null), None) => {
                Change::DeleteTree(family, prefix)
            }
            (Some(Value::String(family)), Some(Value::String(key)), None, None) => {
                Change::Delete(family, key)
            }
            _ => return false,
        };
        if number == 0 || number > self.whole {
            self.read.push((number, change));
        }
        true
    }

    /// Does all of them; gives how many values found no room.
    pub fn apply(mut self, database: &dyn Database) -> usize {
        self.read.sort_by_key(|(number, _)| *number);
        let mut refused = 0;
        for (_, change) in self.read {
            match change {
                Change::Put(family, key, value) => {
                    refused += usize::from(database.put(&family, &key, &value).is_none());
                }
                Change::Delete(family, key) => _ = database.delete(&family, &key),
                Change::DeleteTree(family, prefix) => _ = database.delete_tree(&family, &prefix),
            }
        }
        database.go_on_after(self.highest);
        refused
    }
}

/// The line that sets an entry.
pub(crate) fn change_line(family: &str, key: &str, value: &str, number: u64) -> String {
    format!("[{},{},{},{number}]", quoted(family), quoted(key), quoted(value))
}

/// The line that deletes an entry, or all of a family whose keys begin so.
pub(crate) fn deletion_line(family: &str, key: &str, is_tree: bool, number: u64) -> String {
    let middle = if is_tree { ",null" } else { "" };
    format!("[{},{}{middle},{number}]", quoted(family), quoted(key))
}

/// The line of an entry in a file that is written anew.
pub fn entry_line(family: &str, key: &str, value: &str) -> String {
    format!("[{},{},{}]", quoted(family), quoted(key), quoted(value))
}

/// The line that says which changes are part of a file that is written anew. It stands before the
/// entries, and is asked for before them.
pub fn whole_line(database: &dyn Database) -> String {
    format!("[{}]", database.number())
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
