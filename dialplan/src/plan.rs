//! The compiled plan: contexts, extensions and how a number finds its extension.

use crate::app::Step;

/// A checked, compiled dialplan. It never changes; a reload makes another one.
#[derive(Debug, Default)]
pub struct Plan {
    pub(crate) files: Vec<Box<str>>,
    /// Sorted by name.
    pub(crate) globals: Vec<(Box<str>, Box<str>)>,
    /// In the order of the files.
    pub(crate) contexts: Vec<Context>,
    /// Indexes into `contexts`, sorted by name.
    pub(crate) by_name: Vec<u32>,
    pub(crate) extensions: Vec<Extension>,
}

/// One context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) name: Box<str>,
}

/// One extension: what is matched, and its steps.
#[derive(Debug)]
pub(crate) struct Extension {
    pub(crate) context: u32,
    pub(crate) name: Box<str>,
    pub(crate) steps: Box<[Step]>,
}

/// Names an extension of one [`Plan`]; of no use with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtensionId(pub(crate) u32);

/// What a number found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Whether it is complete, and whether more digits could find something else.
    pub result: MatchResult,
    /// The extension, when it is complete.
    pub extension: Option<ExtensionId>,
}

/// How far a number got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchResult {
    /// No extension, and no more digits can help.
    None,
    /// No extension yet, but more digits may find one.
    More,
    /// An extension, and more digits find nothing else.
    Complete,
    /// An extension, but more digits may find another.
    CompleteOrMore,
}
