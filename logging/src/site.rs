//! Call sites: where in the source a record comes from, and whether anybody wants it.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::gate;
use crate::level::Level;

/// Marks a site that has not yet been reached.
const UNKNOWN: u8 = u8::MAX;

/// One place in the source that makes records. The macros make a static one per use.
///
/// It holds its own answer of the gate: the highest verbosity that any sink wants from here (0 or
/// 1 for levels without verbosity). So a record that nobody wants costs one load and one
/// comparison, and levels per module cost nothing at run time.
#[derive(Debug)]
pub struct Site {
    /// The module path, by which DEBUG is switched on.
    pub module: &'static str,
    /// The source file as the compiler names it.
    pub file: &'static str,
    /// The line in the file.
    pub line: u32,
    /// The level of every record from here.
    pub level: Level,
    /// The message, with `{}` for each field.
    pub text: &'static str,
    wanted: AtomicU8,
    id: AtomicU32,
}

impl Site {
    /// A site that has not been reached yet.
    pub const fn new(
        level: Level,
        module: &'static str,
        file: &'static str,
        line: u32,
        text: &'static str,
    ) -> Self {
        let (wanted, id) = (AtomicU8::new(UNKNOWN), AtomicU32::new(0));
        Self { module, file, line, level, text, wanted, id }
    }

    /// Whether any sink wants a record of this `verbosity` (1 for levels that have none) from here.
    #[inline]
    pub fn is_wanted(&'static self, verbosity: u8) -> bool {
        let wanted = self.wanted.load(Ordering::Relaxed);
        verbosity <= wanted && (wanted != UNKNOWN || self.join(verbosity))
    }

    /// The number under which [`crate::sites_from`] lists the site.
    #[inline]
    pub(crate) fn id(&self) -> u32 {
        self.id.load(Ordering::Relaxed)
    }

    /// First time here: the site gets its number and its answer of the gate.
    #[cold]
    fn join(&'static self, verbosity: u8) -> bool {
        gate::join(self);
        verbosity <= self.wanted.load(Ordering::Relaxed)
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) == UNKNOWN
    }

    pub(crate) fn set_id(&self, id: u32) {
        self.id.store(id, Ordering::Relaxed);
    }

    pub(crate) fn set_wanted(&self, verbosity: u8) {
        self.wanted.store(verbosity.min(UNKNOWN - 1), Ordering::Relaxed);
    }
}

/// How many fields a message text has room for; the macros compare it with the fields given.
pub const fn places(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut found) = (0, 0);
    while at + 1 < bytes.len() {
        if bytes[at] == b'{' && bytes[at + 1] == b'}' {
            found += 1;
            at += 1;
        }
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_pairs_of_braces() {
        assert_eq!(places(""), 0);
        assert_eq!(places("{}"), 1);
        assert_eq!(places("a {} b {}{}"), 3);
        assert_eq!(places("{ }{"), 0);
    }
}
