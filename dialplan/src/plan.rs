//! The compiled plan: contexts, extensions and how a number finds its extension.
//!
//! The order of a search: in the context itself the exact name, then the patterns in Asterisk's
//! order (see `pattern`); then the included contexts, depth first, in the order of `include`, each
//! once. So a pattern of the context beats an exact name of an included one.

use crate::app::Step;
use crate::fault::{Fault, Line};
use crate::limits::NUMBER_MAX;
use crate::matcher::{Matcher, More};
use crate::pattern::{Pattern, bare};

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
    pub(crate) trunks: Vec<TrunkReference>,
}

/// One context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) name: Box<str>,
    /// The contexts that it includes itself.
    pub(crate) includes: Vec<u32>,
    /// Its extensions in the order in which they are tried.
    pub(crate) order: Vec<ExtensionId>,
    pub(crate) matcher: Matcher,
    /// All contexts in the order of a search, itself first.
    pub(crate) search: Vec<u32>,
}

/// One extension: what is matched, and its steps.
#[derive(Debug)]
pub(crate) struct Extension {
    pub(crate) context: u32,
    pub(crate) file: u32,
    pub(crate) line: u32,
    /// As written.
    pub(crate) name: Box<str>,
    pub(crate) key: Key,
    pub(crate) caller: Option<Caller>,
    pub(crate) steps: Box<[Step]>,
}

/// What an extension matches. Comparing two is the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// Without `-`.
    Exact(Box<[u8]>),
    Pattern(Pattern),
}

impl Key {
    pub(crate) fn matches(&self, number: &[u8]) -> bool {
        match self {
            Self::Exact(name) => **name == *number,
            Self::Pattern(pattern) => pattern.matches(number),
        }
    }
}

/// The caller that an extension is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Caller {
    pub(crate) key: Key,
    /// As written.
    pub(crate) text: Box<str>,
}

/// A trunk that a Dial names, and where.
#[derive(Clone, Debug)]
pub struct TrunkReference {
    pub(crate) name: Box<str>,
    pub(crate) line: Line,
}

impl TrunkReference {
    /// The trunk's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A fault at this place, for a trunk that does not exist.
    pub fn fault(&self, message: impl Into<String>) -> Fault {
        Fault { line: self.line.clone(), message: message.into() }
    }
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

/// Why a Goto leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoWay {
    /// There is no such context.
    Context,
    /// The context has no extension for the number.
    Number,
    /// The extension has no such label or step.
    Step,
}

impl std::fmt::Display for NoWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Context => "no such context",
            Self::Number => "no such extension in the context",
            Self::Step => "no such label or step in the extension",
        })
    }
}

impl std::error::Error for NoWay {}

impl Plan {
    /// What a number finds from a context. `caller` is the caller's number, empty when unknown.
    /// An unknown context, or a number longer than [`NUMBER_MAX`], finds nothing.
    pub fn find(&self, context: &str, number: &str, caller: &str) -> Match {
        let extension = self.find_complete(context, number, caller);
        let result = match (extension.is_some(), self.may_grow(context, number, caller)) {
            (false, false) => MatchResult::None,
            (false, true) => MatchResult::More,
            (true, false) => MatchResult::Complete,
            (true, true) => MatchResult::CompleteOrMore,
        };
        Match { result, extension }
    }

    /// The extension of a number that is known to be whole; the first half of [`Plan::find`].
    pub fn find_complete(&self, context: &str, number: &str, caller: &str) -> Option<ExtensionId> {
        let start = self.context_named(context)?;
        if number.len() > NUMBER_MAX {
            return None;
        }
        let number = Bare::new(number);
        let takes = |id: ExtensionId| self.takes_caller(id, caller);
        start
            .search
            .iter()
            .find_map(|at| self.contexts[*at as usize].matcher.complete(number.bytes(), &takes))
    }

    /// Whether more digits behind the number could find an extension; the second half of
    /// [`Plan::find`]. Once a `!` matches, its context and what that includes wait for no more.
    pub fn may_grow(&self, context: &str, number: &str, caller: &str) -> bool {
        let Some(start) = self.context_index(context) else { return false };
        if number.len() >= NUMBER_MAX {
            return false;
        }
        let number = Bare::new(number);
        let takes = |id: ExtensionId| self.takes_caller(id, caller);
        for at in &self.contexts[start as usize].search {
            match self.contexts[*at as usize].matcher.more(number.bytes(), &takes) {
                More::Yes => return true,
                More::Silent => {}
                // What this one includes is left out, unless it is included elsewhere, too.
                More::No => return self.grows(start, number.bytes(), &takes, &mut Vec::new()),
            }
        }
        false
    }

    fn grows(
        &self,
        at: u32,
        number: &[u8],
        takes: &dyn Fn(ExtensionId) -> bool,
        seen: &mut Vec<u32>,
    ) -> bool {
        if seen.contains(&at) {
            return false;
        }
        seen.push(at);
        let context = &self.contexts[at as usize];
        match context.matcher.more(number, takes) {
            More::Yes => true,
            More::No => false,
            More::Silent => context.includes.iter().any(|at| self.grows(*at, number, takes, seen)),
        }
    }

    /// The steps of an extension.
    ///
    /// # Panics
    ///
    /// When the id is of another plan, at worst; an id goes with the plan that gave it.
    pub fn steps(&self, id: ExtensionId) -> &[Step] {
        &self.extension(id).steps
    }

    /// The name or pattern of an extension, as written.
    pub fn name(&self, id: ExtensionId) -> &str {
        &self.extension(id).name
    }

    /// The context that an extension stands in; not always the one where its search began.
    pub fn context_of(&self, id: ExtensionId) -> &str {
        &self.contexts[self.extension(id).context as usize].name
    }

    /// The file and line where an extension stands.
    pub fn place(&self, id: ExtensionId) -> (&str, u32) {
        let extension = self.extension(id);
        (&self.files[extension.file as usize], extension.line)
    }

    /// The index of a step of an extension by its label, or by its number counted from 1.
    pub fn step_at(&self, id: ExtensionId, step: &str) -> Option<usize> {
        step_at(self.steps(id), step)
    }

    /// Where a Goto to another extension leads. `step` is a label or a number from 1.
    pub fn enter(
        &self,
        context: &str,
        number: &str,
        caller: &str,
        step: &str,
    ) -> Result<(ExtensionId, usize), NoWay> {
        if !self.has_context(context) {
            return Err(NoWay::Context);
        }
        let id = self.find_complete(context, number, caller).ok_or(NoWay::Number)?;
        Ok((id, self.step_at(id, step).ok_or(NoWay::Step)?))
    }

    /// Whether there is a context of this name.
    pub fn has_context(&self, name: &str) -> bool {
        self.context_named(name).is_some()
    }

    /// The names of all contexts, in the order of the files.
    pub fn contexts(&self) -> impl Iterator<Item = &str> {
        self.contexts.iter().map(|context| &*context.name)
    }

    /// The value of a global variable.
    pub fn global(&self, name: &str) -> Option<&str> {
        let at = self.globals.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(&self.globals[at].1)
    }

    /// All global variables, sorted by name.
    pub fn globals(&self) -> impl Iterator<Item = (&str, &str)> {
        self.globals.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The trunks that targets name in plain text, with their places, so that whoever knows the
    /// trunks can refuse a plan at load.
    pub fn trunks_referenced(&self) -> &[TrunkReference] {
        &self.trunks
    }

    /// How many extensions there are.
    pub fn len(&self) -> usize {
        self.extensions.len()
    }

    /// Whether there are no extensions at all.
    pub fn is_empty(&self) -> bool {
        self.extensions.is_empty()
    }

    pub(crate) fn extension(&self, id: ExtensionId) -> &Extension {
        &self.extensions[id.0 as usize]
    }

    /// What a number finds, whoever calls.
    pub(crate) fn find_any(&self, start: u32, number: &str) -> Option<ExtensionId> {
        let number = Bare::new(number);
        self.contexts[start as usize]
            .search
            .iter()
            .find_map(|at| self.contexts[*at as usize].matcher.complete(number.bytes(), &|_| true))
    }

    pub(crate) fn context_index(&self, name: &str) -> Option<u32> {
        let named = |at: &u32| (*self.contexts[*at as usize].name).cmp(name);
        let at = self.by_name.binary_search_by(named).ok()?;
        Some(self.by_name[at])
    }

    pub(crate) fn context_named(&self, name: &str) -> Option<&Context> {
        self.context_index(name).map(|at| &self.contexts[at as usize])
    }

    /// Asterisk: without a caller's number only an empty match takes it.
    pub(crate) fn takes_caller(&self, id: ExtensionId, caller: &str) -> bool {
        match &self.extension(id).caller {
            None => true,
            Some(wanted) if caller.is_empty() => wanted.text.is_empty(),
            Some(wanted) => wanted.key.matches(Bare::new(caller).bytes()),
        }
    }
}

pub(crate) fn step_at(steps: &[Step], step: &str) -> Option<usize> {
    if let Ok(number) = step.parse::<usize>() {
        return number.checked_sub(1).filter(|at| *at < steps.len());
    }
    steps.iter().position(|known| known.label.as_deref() == Some(step))
}

/// A number without its `-`; copied only when it has some.
enum Bare<'n> {
    AsIs(&'n [u8]),
    Copied(smallvec::SmallVec<[u8; 64]>),
}

impl<'n> Bare<'n> {
    fn new(number: &'n str) -> Self {
        if number.contains('-') {
            Self::Copied(bare(number))
        } else {
            Self::AsIs(number.as_bytes())
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::AsIs(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}
