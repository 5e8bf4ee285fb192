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
    values: RwLock<BTreeMap<Name, Box<str>>>,
}

impl DatabaseTable {
    // The map is whole after each step, so a panic elsewhere does not matter.
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Name, Box<str>>> {
        self.values.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Name, Box<str>>> {
        self.values.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Database for DatabaseTable {
    fn view(&self, family: &str, key: &str, out: &mut String) -> bool {
        let values = self.read();
        let found = values.get(&(family.into(), key.into()));
        found.map(|value| out.push_str(value)).is_some()
    }

    fn put(&self, family: &str, key: &str, value: &str) -> bool {
        let fits = |name: &str| (1..=NAME_MAX).contains(&name.len());
        if !fits(family) || !fits(key) || value.len() > VALUE_MAX {
            return false;
        }
        let mut values = self.write();
        let name = (family.into(), key.into());
        if values.len() >= DATABASE_MAX && !values.contains_key(&name) {
            return false;
        }
        values.insert(name, value.into());
        true
    }

    fn delete(&self, family: &str, key: &str) -> bool {
        self.write().remove(&(family.into(), key.into())).is_some()
    }

    fn delete_tree(&self, family: &str, prefix: &str) -> usize {
        let mut values = self.write();
        let before = values.len();
        values.retain(|(of, key), _| &**of != family || !key.starts_with(prefix));
        before - values.len()
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
        let values = self.read();
        let entries = values.range((from, Bound::Unbounded));
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
        assert!(table.put("cf", "1001", "2001") && table.put("cf", "1000", "2000"));
        assert!(table.put("dnd", "1000", "yes"));
        assert!(table.view("cf", "1000", &mut out));
        assert_eq!(out, "2000");
        let keys = |page: Vec<(Box<str>, Box<str>, Box<str>)>| -> Vec<String> {
            page.into_iter().map(|(family, key, value)| format!("{family}/{key}={value}")).collect()
        };
        assert_eq!(keys(table.page("cf", None, 10)), ["cf/1000=2000", "cf/1001=2001"]);
        assert_eq!(keys(table.page("cf", Some(("cf", "1000")), 10)), ["cf/1001=2001"]);
        assert_eq!(keys(table.page("", Some(("cf", "1000")), 10)).len(), 2);
        assert!(table.delete("cf", "1000") && !table.delete("cf", "1000"));
        assert_eq!(table.delete_tree("dnd", "1"), 1);
        assert_eq!(keys(table.page("", None, 10)), ["cf/1001=2001"]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let table = DatabaseTable::default();
        assert!(!table.put("", "key", "value"));
        assert!(!table.put("family", &"k".repeat(NAME_MAX + 1), "value"));
        assert!(!table.put("family", "key", &"v".repeat(VALUE_MAX + 1)));
        assert_eq!(table.page("", None, 10), []);
    }
}
