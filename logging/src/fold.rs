//! Records of the keep lane that found no room: counted per site and source, never lost silently.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use turn::Now;

use crate::site::Site;

/// Sources counted singly between two polls of the writer; the rest of a site shares one count.
/// Bounds the memory under a flood from many addresses.
pub const FOLDS_MAX: usize = 1024;

/// How many records of one site, caused by one source, found no room.
#[derive(Clone, Copy, Debug)]
pub struct Fold {
    /// The call site.
    pub site: &'static Site,
    /// Who caused them; `None` when unknown or when there were too many sources.
    pub from: Option<IpAddr>,
    /// How many.
    pub count: u64,
    /// When the first one was made.
    pub first: Now,
}

/// The counts of one lane. The lock is taken by the producer only when its ring is full, and held
/// by the writer only for a swap.
#[derive(Debug, Default)]
pub(crate) struct Folds(Mutex<BTreeMap<(u32, Option<IpAddr>), Fold>>);

impl Folds {
    #[cold]
    pub(crate) fn add(&self, site: &'static Site, from: Option<IpAddr>, now: Now) {
        let mut folds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (site.id(), from);
        let is_known = folds.contains_key(&key);
        let from = if is_known || folds.len() < FOLDS_MAX { from } else { None };
        folds
            .entry((site.id(), from))
            .or_insert(Fold { site, from, count: 0, first: now })
            .count += 1;
    }

    pub(crate) fn take(&self) -> Vec<Fold> {
        let mut folds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if folds.is_empty() {
            return Vec::new();
        }
        let taken = std::mem::take(&mut *folds);
        drop(folds);
        taken.into_values().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::level::Level;

    static SITE: Site = Site::new(Level::Security, "m", "f.rs", 1, "{}");

    #[test]
    fn counts_add_up_beyond_the_limit_of_sources() {
        let folds = Folds::default();
        let sources = u32::try_from(FOLDS_MAX).unwrap() * 3;
        for source in 0..sources {
            for _ in 0..2 {
                folds.add(&SITE, Some(Ipv4Addr::from(source).into()), Now::default());
            }
        }
        let taken = folds.take();
        assert_eq!(taken.len(), FOLDS_MAX + 1);
        assert_eq!(taken.iter().map(|fold| fold.count).sum::<u64>(), u64::from(sources) * 2);
        let others = taken.iter().find(|fold| fold.from.is_none()).unwrap();
        assert_eq!(others.count, (u64::from(sources) - FOLDS_MAX as u64) * 2);
        assert!(folds.is_empty());
    }
}
