//! The variables that a dialplan sets on its call: a handful of short texts, packed in one buffer.
//!
//! Names and values stand one behind the other, lengths in front; a look-up walks them. That beats
//! a map for the few that a call has, and a call that sets none costs no allocation.

use dialplan::limits::{NAME_MAX, VALUE_MAX};

/// Room for all variables of one call, in bytes: far beyond a sane plan, and small enough that a
/// plan that loops over `Set` cannot take the memory away. A `Set` beyond it is refused, said in a
/// fact and counted.
pub const VARIABLES_MAX: usize = 8192;

const HEAD: usize = 3;

/// Why a variable was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

#[derive(Debug, Default)]
pub(crate) struct Vars {
    packed: Vec<u8>,
}

impl Vars {
    /// Sets `name` to `value`; an empty value unsets it, as in Asterisk. The value is data: nothing
    /// in it is looked at.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), NoRoom> {
        let name_len = u8::try_from(name.len()).map_err(|_| NoRoom)?;
        if name.is_empty() || name.len() > NAME_MAX || value.len() > VALUE_MAX {
            return Err(NoRoom);
        }
        self.unset(name);
        if value.is_empty() {
            return Ok(());
        }
        if self.packed.len() + HEAD + name.len() + value.len() > VARIABLES_MAX {
            return Err(NoRoom);
        }
        let value_len = u16::try_from(value.len()).map_err(|_| NoRoom)?;
        self.packed.reserve_exact(HEAD + name.len() + value.len());
        self.packed.push(name_len);
        self.packed.extend_from_slice(&value_len.to_le_bytes());
        self.packed.extend_from_slice(name.as_bytes());
        self.packed.extend_from_slice(value.as_bytes());
        Ok(())
    }

    /// Forgets `name`.
    pub(crate) fn unset(&mut self, name: &str) {
        if let Some((start, end)) = self.find(name) {
            self.packed.drain(start..end);
        }
    }

    /// The value of `name`.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let (start, end) = self.find(name)?;
        std::str::from_utf8(&self.packed[start + HEAD + name.len()..end]).ok()
    }

    fn find(&self, name: &str) -> Option<(usize, usize)> {
        let mut at = 0;
        while let Some(&[name_len, low, high]) = self.packed.get(at..at + HEAD) {
            let name_end = at + HEAD + usize::from(name_len);
            let end = name_end + usize::from(u16::from_le_bytes([low, high]));
            if &self.packed[at + HEAD..name_end] == name.as_bytes() {
                return Some((at, end));
            }
            at = end;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_set_replaced_and_unset() {
        let mut vars = Vars::default();
        vars.set("A", "1").unwrap();
        vars.set("AB", "2").unwrap();
        vars.set("A", "${B} longer").unwrap();
        assert_eq!(vars.value("A"), Some("${B} longer"));
        assert_eq!(vars.value("AB"), Some("2"));
        assert_eq!(vars.value("a"), None);
        vars.set("A", "").unwrap();
        assert_eq!(vars.value("A"), None);
        assert_eq!(vars.value("AB"), Some("2"));
    }

    #[test]
    fn the_store_is_bounded_and_stays_whole_when_it_is_full() {
        let mut vars = Vars::default();
        let long = "x".repeat(2000);
        let refused = (0..10).filter(|n| vars.set(&format!("V{n}"), &long).is_err()).count();
        assert_eq!(refused, 6);
        assert!(vars.packed.len() <= VARIABLES_MAX);
        assert_eq!(vars.set(&"n".repeat(NAME_MAX + 1), "v"), Err(NoRoom));
        assert_eq!(vars.set("V2", &"x".repeat(VALUE_MAX + 1)), Err(NoRoom));
        assert_eq!(vars.value("V2").unwrap().len(), 2000);
    }
}
