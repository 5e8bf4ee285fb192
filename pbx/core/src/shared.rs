//! What the shards of one program share: where endpoints are, which nonces have been used, the
//! plan's database.
//!
//! A shard is pure, so it sees these tables through traits. The program's tables are concurrent
//! maps (crate `pbx-shared`); each piece of work holds one entry and must not call back into the
//! table.

use std::fmt::Debug;
use std::sync::Arc;

use sip::digest::NonceCounts;
use sip::registrar::Aor;

/// The locations of all endpoints: an [`Aor`] for each name that has a binding.
pub trait Locations: Send + Sync + Debug {
    /// Works on the bindings of `aor`, which are made when there are none and forgotten when none
    /// is left. `false`: the table is full and nothing was done.
    fn change(&self, aor: &str, work: &mut dyn FnMut(&mut Aor)) -> bool;

    /// Looks at the bindings of `aor`. `false`: there are none.
    fn view(&self, aor: &str, work: &mut dyn FnMut(&Aor)) -> bool;

    /// How many names have bindings.
    fn len(&self) -> usize;

    /// All names that have bindings, in no order: to write everything down, and after a start.
    fn names(&self) -> Vec<Box<str>>;

    /// Whether nobody is registered.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The plan's database: values by family and key, as Asterisk's `DB(family/key)`.
///
/// Changes are numbered in the order in which they were done: shards write them down side by side,
/// and the order must be known again when they are read back.
pub trait Database: Send + Sync + Debug {
    /// Appends the value to `out`; `false` when there is none.
    fn view(&self, family: &str, key: &str, out: &mut String) -> bool;

    /// Keeps a value; gives the number of the change. `None`: the table is full, or the texts are
    /// too long.
    fn put(&self, family: &str, key: &str, value: &str) -> Option<u64>;

    /// Forgets a value; gives the number of the change. `None`: there was none.
    fn delete(&self, family: &str, key: &str) -> Option<u64>;

    /// Forgets all keys of a family that begin with `prefix`; gives how many there were, and the
    /// number of the change.
    fn delete_tree(&self, family: &str, prefix: &str) -> (usize, u64);

    /// The number of the last change.
    fn number(&self) -> u64;

    /// The next change has a higher number than `number`.
    fn go_on_after(&self, number: u64);

    /// All entries of a family (of all, when it is empty) in order, at most `limit`, beginning
    /// after `after`.
    fn page(
        &self,
        family: &str,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Vec<(Box<str>, Box<str>, Box<str>)>;
}

/// The tables.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Where endpoints are.
    pub locations: Arc<dyn Locations>,
    /// Which nonces have been used.
    pub nonces: Arc<dyn NonceCounts>,
    /// The plan's database.
    pub database: Arc<dyn Database>,
    /// The global variables that plans have set: they live as long as the program.
    pub globals: Arc<dyn Database>,
}

/// Something that must survive the program, to be written before anything that says so is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A line about a binding: a JSON object, without its line feed.
    Binding(Box<str>),
    /// A line about an entry of the plan's database: likewise.
    Database(Box<str>),
}
