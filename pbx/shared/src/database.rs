//! The plan's database: small values by family and key.

use pbx_core::Database;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Most entries; more are refused.
pub const DATABASE_MAX: usize = 1_000_000;

/// Longest family or key, in bytes: Asterisk's limit.
pub const NAME_MAX: usize = 255;

/// Longest value, in bytes: a line about it must fit in the journal.
pub const VALUE_MAX: usize = 4_096;

type Name = (Box<str>, Box<str>);

/// See the module.
#[derive(Debug, Default)]
pub struct DatabaseTable {
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    values: BTreeMap<Name, Box<str>>,
    /// Of the last change.
    number: u64,
}

impl Table {
    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

impl DatabaseTable {
    // The map is whole after each step, so a panic elsewhere does not matter.
    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Database for DatabaseTable {
    fn view(&self, family: &str, key: &str, out: &mut String) -> bool {
        let table = self.read();
        let found = table.values.get(&(family.into(), key.into()));
        found.map(|value| out.push_str(value)).is_some()
    }

    fn put(&self, family: &str, key: &str, value: &str) -> Option<u64> {
        let fits = |name: &str| (1..=NAME_MAX).contains(&name.len());
        if !fits(family) || !fits(key) || value.len() > VALUE_MAX {
            return None;
        }
        let mut table = self.write();
        let name = (family.into(), key.into());
        if table.values.len() >= DATABASE_MAX && !table.values.contains_key(&name) {
            return None;
        }
        table.values.insert(name, value.into());
        Some(table.next_number())
    }

    fn delete(&self, family: &str, key: &str) -> Option<u64> {
        let mut table = self.write();
        table.values.remove(&(family.into(), key.into()))?;
        Some(table.next_number())
    }

    fn delete_tree(&self, family: &str, prefix: &str) -> (usize, u64) {
        let mut table = self.write();
        let before = table.values.len();
        table.values.retain(|(of, key), _| &**of != family || !key.starts_with(prefix));
        (before - table.values.len(), table.next_number())
    }

    fn number(&self) -> u64 {
        self.read().number
    }

    fn go_on_after(&self, number: u64) {
        let mut table = self.write();
        table.number = table.number.max(number);
    }

    fn page(
        &self,
        family: &str,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Vec<(Box<str>, Box<str>, Box<str>)> {
        let from = match after {
            Some((of, key)) => Bound::Excluded((Box::from(of), Box::from(key))),
            None => Bound::Included((Box::from(family), Box::default())),
        };
        let table = self.read();
        let entries = table.values.range((from, Bound::Unbounded));
        let of_family = entries.take_while(|((of, _), _)| family.is_empty() || &**of == family);
        of_family
            .take(limit)
            .map(|((family, key), value)| (family.clone(), key.clone(), value.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_family_and_key_and_listed_in_order() {
        let table = DatabaseTable::default();
        let mut out = String::new();
        assert!(!table.view("cf", "1000", &mut out));
        assert_eq!(table.put("cf", "1001", "2001"), Some(1));
        assert_eq!(table.put("cf", "1000", "2000"), Some(2));
        assert_eq!(table.put("dnd", "1000", "yes"), Some(3));
        assert!(table.view("cf", "1000", &mut out));
        assert_eq!(out, "2000");
        let keys = |page: Vec<(Box<str>, Box<str>, Box<str>)>| -> Vec<String> {
            page.into_iter().map(|(family, key, value)| format!("{family}/{key}={value}")).collect()
        };
        assert_eq!(keys(table.page("cf", None, 10)), ["cf/1000=2000", "cf/1001=2001"]);
        assert_eq!(keys(table.page("cf", Some(("cf", "1000")), 10)), ["cf/1001=2001"]);
        assert_eq!(keys(table.page("", Some(("cf", "1000")), 10)).len(), 2);
        assert_eq!((table.delete("cf", "1000"), table.delete("cf", "1000")), (Some(4), None));
        assert_eq!(table.delete_tree("dnd", "1"), (1, 5));
        table.go_on_after(2);
        assert_eq!(table.number(), 5);
        table.go_on_after(9);
        assert_eq!(table.put("cf", "1001", "2001"), Some(10));
        assert_eq!(keys(table.page("", None, 10)), ["cf/1001=2001"]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let table = DatabaseTable::default();
        assert_eq!(table.put("", "key", "value"), None);
        assert_eq!(table.put("family", &"k".repeat(NAME_MAX + 1), "value"), None);
        assert_eq!(table.put("family", "key", &"v".repeat(VALUE_MAX + 1)), None);
        assert_eq!(table.page("", None, 10), []);
    }
}
