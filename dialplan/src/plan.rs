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
use crate::template::{Template, Variables};
use crate::time::{Moment, Times};

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
    /// Whether anything is included at times only.
    pub(crate) has_times: bool,
    pub(crate) has_last_steps: bool,
    pub(crate) reads_headers: bool,
}

/// One context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) name: Box<str>,
    /// The contexts that it includes itself.
    pub(crate) includes: Vec<Include>,
    /// Its extensions in the order in which they are tried.
    pub(crate) order: Vec<ExtensionId>,
    pub(crate) matcher: Matcher,
    /// All contexts in the order of a search, itself first.
    pub(crate) search: Vec<Reach>,
    /// In the order in which they are tried.
    pub(crate) hints: Vec<Hint>,
}

/// A context that another one includes.
#[derive(Debug)]
pub(crate) struct Include {
    pub(crate) context: u32,
    /// When it is included; `None` is always.
    pub(crate) times: Option<Times>,
    /// The times as a listing shows them, or nothing.
    pub(crate) text: Box<str>,
}

/// A context that a search reaches.
#[derive(Debug)]
pub(crate) struct Reach {
    pub(crate) context: u32,
    /// The times of all includes on the way there.
    pub(crate) when: Vec<Times>,
}

/// The devices behind an extension.
#[derive(Debug)]
pub(crate) struct Hint {
    pub(crate) key: Key,
    /// As written.
    pub(crate) name: Box<str>,
    /// Devices with `&` between.
    pub(crate) devices: Template,
    /// As written.
    pub(crate) text: Box<str>,
}

/// Who looks for an extension, and when.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seeker<'s> {
    /// The caller's number; empty when unknown.
    pub caller: &'s str,
    /// The local time; `None` leaves out what is included at times only.
    pub at: Option<Moment>,
}

impl<'s> From<&'s str> for Seeker<'s> {
    fn from(caller: &'s str) -> Self {
        Self { caller, at: None }
    }
}

impl Reach {
    pub(crate) fn is_open(&self, who: Seeker<'_>) -> bool {
        self.when.iter().all(|times| who.at.is_some_and(|at| times.hold(&at)))
    }
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
    /// What a number finds from a context. An unknown context, or a number longer than
    /// [`NUMBER_MAX`], finds nothing.
    pub fn find<'s>(&self, context: &str, number: &str, who: impl Into<Seeker<'s>>) -> Match {
        let who = who.into();
        let extension = self.find_complete(context, number, who);
        let result = match (extension.is_some(), self.may_grow(context, number, who)) {
            (false, false) => MatchResult::None,
            (false, true) => MatchResult::More,
            (true, false) => MatchResult::Complete,
            (true, true) => MatchResult::CompleteOrMore,
        };
        Match { result, extension }
    }

    /// The extension of a number that is known to be whole; the first half of [`Plan::find`].
    pub fn find_complete<'s>(
        &self,
        context: &str,
        number: &str,
        who: impl Into<Seeker<'s>>,
    ) -> Option<ExtensionId> {
        let who = who.into();
        let start = self.context_named(context)?;
        if number.len() > NUMBER_MAX {
            return None;
        }
        let number = Bare::new(number);
        let takes = |id: ExtensionId| self.takes_caller(id, who.caller);
        start.search.iter().filter(|reach| reach.is_open(who)).find_map(|reach| {
            self.contexts[reach.context as usize].matcher.complete(number.bytes(), &takes)
        })
    }

    /// Whether more digits behind the number could find an extension; the second half of
    /// [`Plan::find`]. Once a `!` matches, its context and what that includes wait for no more.
    pub fn may_grow<'s>(&self, context: &str, number: &str, who: impl Into<Seeker<'s>>) -> bool {
        let who = who.into();
        let Some(start) = self.context_index(context) else { return false };
        if number.len() >= NUMBER_MAX {
            return false;
        }
        let number = Bare::new(number);
        let takes = |id: ExtensionId| self.takes_caller(id, who.caller);
        let search = &self.contexts[start as usize].search;
        for reach in search.iter().filter(|reach| reach.is_open(who)) {
            match self.contexts[reach.context as usize].matcher.more(number.bytes(), &takes) {
                More::Yes => return true,
                More::Silent => {}
                // What this one includes is left out, unless it is included elsewhere, too.
                More::No => {
                    let look = Look { number: number.bytes(), takes: &takes, at: who.at };
                    return self.grows(start, &look, &mut Vec::new());
                }
            }
        }
        false
    }

    fn grows(&self, at: u32, look: &Look<'_>, seen: &mut Vec<u32>) -> bool {
        if seen.contains(&at) {
            return false;
        }
        seen.push(at);
        let context = &self.contexts[at as usize];
        match context.matcher.more(look.number, look.takes) {
            More::Yes => true,
            More::No => false,
            More::Silent => context
                .includes
                .iter()
                .filter(|include| include.holds(look.at))
                .any(|include| self.grows(include.context, look, seen)),
        }
    }

    /// The extension of exactly this name, such as `h` or `i`: a pattern does not stand for it.
    pub fn find_named<'s>(
        &self,
        context: &str,
        name: &str,
        who: impl Into<Seeker<'s>>,
    ) -> Option<ExtensionId> {
        let found = self.find_complete(context, name, who)?;
        matches!(self.extension(found).key, Key::Exact(_)).then_some(found)
    }

    /// The devices behind an extension, such as `SIP/100`, `SIP/101`.
    pub fn hint<'s>(
        &self,
        context: &str,
        number: &str,
        who: impl Into<Seeker<'s>>,
    ) -> Option<Vec<Box<str>>> {
        let who = who.into();
        let bare = Bare::new(number);
        let open = self.context_named(context)?.search.iter().filter(|reach| reach.is_open(who));
        let mut hints = open.flat_map(|reach| &self.contexts[reach.context as usize].hints);
        let hint = hints.find(|hint| hint.key.matches(bare.bytes()))?;
        let devices = hint.devices.rendered(&Dialled(number)).ok()?;
        Some(
            devices.split('&').map(str::trim).filter(|it| !it.is_empty()).map(Into::into).collect(),
        )
    }

    /// Whether a context has the extension `h`, which runs when a call ends.
    pub fn has_last_steps(&self) -> bool {
        self.has_last_steps
    }

    /// Whether a step reads header lines of the request that began the call.
    pub fn reads_headers(&self) -> bool {
        self.reads_headers
    }

    /// Whether a search depends on the time.
    pub fn has_times(&self) -> bool {
        self.has_times
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
    pub fn enter<'s>(
        &self,
        context: &str,
        number: &str,
        who: impl Into<Seeker<'s>>,
        step: &str,
    ) -> Result<(ExtensionId, usize), NoWay> {
        if !self.has_context(context) {
            return Err(NoWay::Context);
        }
        let id = self.find_complete(context, number, who).ok_or(NoWay::Number)?;
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
        self.contexts[start as usize].search.iter().find_map(|reach| {
            let context = &self.contexts[reach.context as usize];
            context.matcher.complete(number.bytes(), &|_| true)
        })
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

impl Include {
    fn holds(&self, at: Option<Moment>) -> bool {
        self.times.as_ref().is_none_or(|times| at.is_some_and(|at| times.hold(&at)))
    }
}

/// What [`Plan::grows`] looks for.
struct Look<'l> {
    number: &'l [u8],
    takes: &'l dyn Fn(ExtensionId) -> bool,
    at: Option<Moment>,
}

/// The one variable that a hint may use.
struct Dialled<'n>(&'n str);

impl Variables for Dialled<'_> {
    fn value(&self, name: &str, out: &mut String) -> bool {
        let is_it = name == "EXTEN";
        out.push_str(if is_it { self.0 } else { "" });
        is_it
    }
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
