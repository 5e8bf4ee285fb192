//! Where endpoints are.

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use foldhash::quality::RandomState;
use pbx_core::Locations;
use sip::registrar::Aor;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A concurrent map from an endpoint's name to its bindings.
pub struct LocationTable {
    aors: DashMap<Box<str>, Aor, RandomState>,
    count: AtomicUsize,
    most: usize,
}

impl std::fmt::Debug for LocationTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocationTable").field("len", &self.aors.len()).finish_non_exhaustive()
    }
}

impl LocationTable {
    /// A table for up to `most` names. It gets its size here: a map that grows would stall a call.
    pub fn new(most: usize) -> Self {
        let aors = DashMap::with_capacity_and_hasher(most, RandomState::default());
        Self { aors, count: AtomicUsize::new(0), most }
    }
}

impl Locations for LocationTable {
    fn change(&self, aor: &str, work: &mut dyn FnMut(&mut Aor)) -> bool {
        if let Some(mut found) = self.aors.get_mut(aor) {
            work(&mut found);
            if !found.is_empty() {
                return true;
            }
            drop(found);
            // Somebody may have registered in between.
            if self.aors.remove_if(aor, |_, aor| aor.is_empty()).is_some() {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
            return true;
        }
        if self.count.load(Ordering::Relaxed) >= self.most {
            return false;
        }
        match self.aors.entry(aor.into()) {
            Entry::Occupied(mut found) => work(found.get_mut()),
            Entry::Vacant(place) => {
                let mut fresh = Aor::default();
                work(&mut fresh);
                if !fresh.is_empty() {
                    place.insert(fresh);
                    self.count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        true
    }

    fn view(&self, aor: &str, work: &mut dyn FnMut(&Aor)) -> bool {
        self.aors.get(aor).map(|found| work(&found)).is_some()
    }

    fn names(&self) -> Vec<Box<str>> {
        self.aors.iter().map(|entry| entry.key().clone()).collect()
    }

    fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::registrar::Line;

    const LINE: &str = r#"{"aor":"x","contact":"sip:x@h","call_id":"1","cseq":1,"q":1000,
        "expires_at":2,"registered_at":1,"transport":"UDP","local":"127.0.0.1:5060",
        "remote":"127.0.0.1:5061"}"#;

    fn bind(table: &LocationTable, name: &str) -> bool {
        table.change(name, &mut |aor| Line::parse(LINE).unwrap().apply(aor))
    }

    #[test]
    fn a_name_is_there_as_long_as_it_has_a_binding() {
        let table = LocationTable::new(2);
        assert!(table.change("a", &mut |_| {}));
        assert_eq!(table.len(), 0, "nobody was added");
        assert!(bind(&table, "a") && bind(&table, "a"));
        assert_eq!((table.len(), table.names()), (1, vec!["a".into()]));
        assert!(table.view("a", &mut |aor| assert_eq!(aor.bindings().len(), 1)));
        assert!(table.change("a", &mut |aor| drop(aor.remove(|_| true))));
        assert!(table.is_empty() && !table.view("a", &mut |_| {}));
    }

    #[test]
    fn a_full_table_takes_nobody_new() {
        let table = LocationTable::new(2);
        assert!(bind(&table, "a") && bind(&table, "b"));
        assert!(!bind(&table, "c"));
        assert!(bind(&table, "a"), "who is there may go on");
    }
}
