//! A table of fixed capacity whose keys carry a generation.

/// A key into [`Slots`]: the place and the generation that it had when the value was put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The place in the table.
    pub index: u32,
    /// How often that place had been used; odd while it is occupied.
    pub generation: u32,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

/// A table with a hard capacity. The list of free places is last-in first-out, so a small load
/// touches a small part of the memory. A stale key finds nothing: generations only grow (a place
/// would have to be used two thousand million times before one returns).
#[derive(Debug)]
pub struct Slots<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    capacity: u32,
}

impl<T> Slots<T> {
    /// An empty table that holds at most `capacity` values. Address space is reserved at once, so
    /// no insert ever moves the table; memory is touched as it is used.
    pub fn with_capacity(capacity: u32) -> Self {
        Self {
            entries: Vec::with_capacity(capacity as usize),
            free: Vec::with_capacity(capacity as usize),
            capacity,
        }
    }

    /// Puts `value` in, or gives it back when the table is full.
    pub fn insert(&mut self, value: T) -> Result<Slot, T> {
        if let Some(index) = self.free.pop() {
            let entry = &mut self.entries[index as usize];
            entry.generation = entry.generation.wrapping_add(1);
            entry.value = Some(value);
            return Ok(Slot { index, generation: entry.generation });
        }
        if self.entries.len() >= self.capacity as usize {
            return Err(value);
        }
        let index = u32::try_from(self.entries.len()).expect("capacity is a u32");
        self.entries.push(Entry { generation: 1, value: Some(value) });
        Ok(Slot { index, generation: 1 })
    }

    /// The key that the next [`Slots::insert`] will return; `None` when the table is full. Lets a
    /// value know its own key (to mint an identifier from it) before it is put in.
    pub fn next_slot(&self) -> Option<Slot> {
        if let Some(&index) = self.free.last() {
            let generation = self.entries[index as usize].generation.wrapping_add(1);
            return Some(Slot { index, generation });
        }
        (self.entries.len() < self.capacity as usize).then(|| Slot {
            index: u32::try_from(self.entries.len()).expect("capacity is a u32"),
            generation: 1,
        })
    }

    /// The value behind `slot`, unless it has been removed since.
    pub fn view(&self, slot: Slot) -> Option<&T> {
        let entry = self.entries.get(slot.index as usize)?;
        if entry.generation == slot.generation { entry.value.as_ref() } else { None }
    }

    /// The value behind `slot`, to change, unless it has been removed since.
    pub fn view_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let entry = self.entries.get_mut(slot.index as usize)?;
        if entry.generation == slot.generation { entry.value.as_mut() } else { None }
    }

    /// Takes the value behind `slot` out; the key is stale from then on.
    pub fn remove(&mut self, slot: Slot) -> Option<T> {
        let entry = self.entries.get_mut(slot.index as usize)?;
        if entry.generation != slot.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(slot.index);
        Some(value)
    }

    /// How many values are in.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether nothing is in.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many values fit.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// All values in the order of their places, which is a function of the calls made, so a
    /// simulation replays it exactly.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        self.from_index(0)
    }

    /// As [`Slots::iter`], from place `start` on: for lists that are given out in pages.
    pub fn from_index(&self, start: u32) -> impl Iterator<Item = (Slot, &T)> {
        let start = (start as usize).min(self.entries.len());
        self.entries[start..].iter().enumerate().filter_map(move |(offset, entry)| {
            let index = u32::try_from(start + offset).expect("capacity is a u32");
            let slot = Slot { index, generation: entry.generation };
            entry.value.as_ref().map(|value| (slot, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut slots = Slots::with_capacity(2);
        let first = slots.insert('a').unwrap();
        assert_eq!(slots.remove(first), Some('a'));
        let promised = slots.next_slot().unwrap();
        let second = slots.insert('b').unwrap();
        assert_eq!(promised, second);
        assert_eq!(first.index, second.index);
        assert_eq!(slots.view(first), None);
        assert_eq!(slots.view_mut(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.view(second), Some(&'b'));
    }

    #[test]
    fn a_full_table_gives_the_value_back() {
        let mut slots = Slots::with_capacity(1);
        let only = slots.insert(1).unwrap();
        assert_eq!(slots.next_slot(), None);
        assert_eq!(slots.insert(2), Err(2));
        assert_eq!(slots.len(), 1);
        slots.remove(only);
        assert!(slots.is_empty());
        assert!(slots.insert(3).is_ok());
    }

    #[test]
    fn pages_go_on_where_the_last_one_ended() {
        let mut slots = Slots::with_capacity(8);
        let keys: Vec<_> = (0..5).map(|n| slots.insert(n).unwrap()).collect();
        slots.remove(keys[3]);
        let rest: Vec<_> = slots.from_index(2).map(|(_, n)| *n).collect();
        assert_eq!(rest, [2, 4]);
        assert_eq!(slots.from_index(99).count(), 0);
    }
}
