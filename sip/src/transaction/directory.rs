//! From the key of a request to where its server transaction lies.
//!
//! A table of fixed size with open addressing and linear probing. Removing shifts what follows
//! back, so nothing is left behind that would one day force the table to be rebuilt: no call ever
//! takes long. It is at most half full, and its keys are keyed hashes, so that strangers cannot
//! make clusters.
//!
//! ```text
//! tags   │ 0 │ 7 │ 9 │ 0 │   a byte of the key, never 0 where a cell is in use
//! cells  │   │ ■ │ ■ │   │   half of the key, and the place; its owner knows the whole key
//! ```
//!
//! Most requests are new, and a look-up of what is not there reads the tags only. They are an
//! eighth of the cells, and stay in the processor's cache when those do not.

/// The tag of a cell that is not in use.
const FREE: u8 = 0;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Cell {
    half: u32,
    place: u32,
}

#[derive(Debug)]
pub(super) struct Directory {
    tags: Vec<u8>,
    cells: Vec<Cell>,
    mask: usize,
    len: usize,
}

impl Directory {
    /// Room for `capacity` keys.
    pub(super) fn new(capacity: usize) -> Self {
        let cells = (capacity * 2).next_power_of_two().max(8);
        Self {
            tags: vec![FREE; cells],
            cells: vec![Cell::default(); cells],
            mask: cells - 1,
            len: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The first place under `key` of which `is_it` says that it has the whole key and counts.
    pub(super) fn find(&self, key: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.home(half(key));
        loop {
            match self.tags[at] {
                FREE => return None,
                tag if tag == tag_of(key) => {
                    let cell = self.cells[at];
                    if cell.half == half(key) && is_it(cell.place) {
                        return Some(cell.place);
                    }
                }
                _ => {}
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Puts `place` under `key`. Another place may be there: one that no longer counts.
    pub(super) fn insert(&mut self, key: u64, place: u32) {
        assert!(self.len * 2 < self.tags.len(), "sized for all that it can hold");
        let mut at = self.home(half(key));
        while self.tags[at] != FREE {
            at = (at + 1) & self.mask;
        }
        self.tags[at] = tag_of(key);
        self.cells[at] = Cell { half: half(key), place };
        self.len += 1;
    }

    /// Lets `key` lead to `new` where it led to `old`.
    pub(super) fn replace(&mut self, key: u64, old: u32, new: u32) {
        if let Some(at) = self.position(key, old) {
            self.cells[at].place = new;
        }
    }

    /// Removes `key` if it leads to `place`.
    pub(super) fn remove(&mut self, key: u64, place: u32) {
        let Some(mut gap) = self.position(key, place) else { return };
        // Moves back what the gap would cut off from its home.
        let mut at = gap;
        loop {
            at = (at + 1) & self.mask;
            if self.tags[at] == FREE {
                break;
            }
            let cell = self.cells[at];
            let from_home = at.wrapping_sub(self.home(cell.half)) & self.mask;
            if from_home >= at.wrapping_sub(gap) & self.mask {
                self.cells[gap] = cell;
                self.tags[gap] = self.tags[at];
                gap = at;
            }
        }
        self.tags[gap] = FREE;
        self.len -= 1;
    }

    fn position(&self, key: u64, place: u32) -> Option<usize> {
        let wanted = Cell { half: half(key), place };
        let mut at = self.home(half(key));
        while self.tags[at] != FREE {
            if self.tags[at] == tag_of(key) && self.cells[at] == wanted {
                return Some(at);
            }
            at = (at + 1) & self.mask;
        }
        None
    }

    fn home(&self, half: u32) -> usize {
        half as usize & self.mask
    }
}

fn half(key: u64) -> u32 {
    (key >> 32) as u32
}

/// From the other half of the key than the home.
fn tag_of(key: u64) -> u8 {
    (key as u8).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use turn::Rng;

    /// Few distinct homes, so that runs of cells grow, wrap round and are cut.
    #[test]
    fn it_agrees_with_a_plain_map_under_any_order_of_calls() {
        for seed in 0..50 {
            let mut rng = Rng::new([seed; 32]);
            let mut model: BTreeMap<u64, u32> = BTreeMap::new();
            let mut keys: Vec<u64> = vec![0; 64];
            let mut directory = Directory::new(keys.len());
            for place in 0..2_000 {
                let index = rng.below(64) as usize;
                let old = keys[index];
                if model.contains_key(&old) && rng.below(2) == 0 {
                    directory.remove(old, model.remove(&old).unwrap());
                } else if !model.contains_key(&old) {
                    let key = rng.below(3) << 37 | rng.below(20) << 32 | rng.below(1 << 20);
                    if let std::collections::btree_map::Entry::Vacant(vacant) = model.entry(key) {
                        vacant.insert(place);
                        directory.insert(key, place);
                        keys[index] = key;
                    }
                }
                assert_eq!(directory.len(), model.len(), "seed {seed}");
                for key in &keys {
                    let is_it = |place| model.get(key) == Some(&place);
                    let found = directory.find(*key, is_it);
                    assert_eq!(found, model.get(key).copied(), "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn removing_what_is_not_there_changes_nothing() {
        let mut directory = Directory::new(4);
        directory.insert(7 << 32, 1);
        directory.remove(7 << 32, 2);
        directory.remove(9 << 32, 1);
        assert_eq!(directory.find(7 << 32, |place| place == 1), Some(1));
    }

    #[test]
    fn replacing_keeps_the_key_and_changes_the_place() {
        let mut directory = Directory::new(4);
        directory.insert(7 << 32, 1);
        directory.replace(7 << 32, 2, 3); // it does not lead there
        directory.replace(7 << 32, 1, 4);
        assert_eq!(directory.find(7 << 32, |_| true), Some(4));
        assert_eq!(directory.len(), 1);
    }

    #[test]
    fn equal_halves_are_told_apart_by_the_whole_key() {
        let mut directory = Directory::new(4);
        let keys = [5 << 32 | 1, 5 << 32 | 2_u64];
        directory.insert(keys[0], 10);
        directory.insert(keys[1], 11);
        let of = |place: u32| keys[place as usize - 10];
        assert_eq!(directory.find(keys[1], |place| of(place) == keys[1]), Some(11));
        assert_eq!(directory.find(5 << 32 | 3, |place| of(place) == (5 << 32 | 3)), None);
    }
}
