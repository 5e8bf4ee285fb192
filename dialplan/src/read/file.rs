//! Walks the TOML of all files and gathers what was said, with its places, and all that is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::app::{GotoTarget, Step};
use crate::fault::{Faults, Gathered, Source};
use crate::limits::{
    CONTEXTS_MAX, EXTENSIONS_MAX, FILE_BYTES_MAX, FILES_MAX, GLOBALS_MAX, NAME_MAX, PATTERN_MAX,
    VALUE_MAX,
};
use crate::pattern::{Pattern, SLASH, Wrong, bare};
use crate::plan::{Caller, Hint, Key, Plan};
use crate::read::known::{shown, suggestion};
use crate::read::{link, steps, strings};
use crate::time::Times;

/// Reads, checks and compiles a plan of one or more files, each a name and a text. The names are
/// for faults and listings only. All that is wrong is reported at once.
pub fn parse(files: &[(&str, &str)]) -> Result<Plan, Faults> {
    let sources = files.iter().map(|(name, text)| Source::new(name, text)).collect();
    let mut reader = Reader {
        gathered: Gathered::new(sources),
        draft: Draft::default(),
        file: 0,
        names: BTreeMap::new(),
    };
    for (file, (_, text)) in files.iter().enumerate() {
        reader.file = file;
        if file == FILES_MAX {
            reader.wrong(0..0, format!("a plan has at most {FILES_MAX} files"));
            break;
        }
        reader.read_file(text);
    }
    let Reader { mut gathered, draft, .. } = reader;
    let plan = link::link(draft, &mut gathered);
    if gathered.is_empty() { Ok(plan) } else { Err(gathered.finish()) }
}

/// What was said.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) globals: BTreeMap<Box<str>, Box<str>>,
    pub(crate) contexts: Vec<DraftContext>,
    pub(crate) extensions: usize,
    /// Whether a file is no TOML, so that what refers to a context may miss it for that reason.
    pub(crate) broken: bool,
    /// Whether an extension was left out for its faults.
    pub(crate) incomplete: bool,
}

/// A place: file and bytes.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub(crate) file: usize,
    pub(crate) range: Range<usize>,
}

#[derive(Debug)]
pub(crate) struct DraftContext {
    pub(crate) name: Box<str>,
    pub(crate) includes: Vec<DraftInclude>,
    pub(crate) extensions: Vec<DraftExtension>,
    pub(crate) hints: Vec<Hint>,
}

#[derive(Debug)]
pub(crate) struct DraftInclude {
    pub(crate) name: Box<str>,
    pub(crate) times: Option<Times>,
    /// The times as a listing shows them.
    pub(crate) text: Box<str>,
    pub(crate) at: Location,
}

#[derive(Debug)]
pub(crate) struct DraftExtension {
    pub(crate) name: Box<str>,
    pub(crate) at: Location,
    pub(crate) key: Key,
    pub(crate) caller: Option<Caller>,
    pub(crate) steps: Vec<Step>,
    pub(crate) gotos: Vec<DraftGoto>,
    pub(crate) trunks: Vec<(Box<str>, Location)>,
    /// Whether a step of it is wrong, so that its numbers and labels are not to be relied on.
    pub(crate) broken: bool,
}

#[derive(Debug)]
pub(crate) struct DraftGoto {
    pub(crate) target: GotoTarget,
    pub(crate) context: Option<Location>,
    pub(crate) number: Option<Location>,
    pub(crate) step: Location,
}

pub(crate) struct Reader<'a> {
    pub(crate) gathered: Gathered<'a>,
    draft: Draft,
    file: usize,
    /// Where in the draft a context is.
    names: BTreeMap<Box<str>, usize>,
}

pub(crate) type Value<'t> = Spanned<DeValue<'t>>;

/// Extensions that Asterisk runs by itself, on events that are not built.
const EVENTS: &[(&str, &str)] = &[
    ("e", "on any event without its own extension"),
    ("o", "for the operator of voice mail"),
    ("a", "for the assistant of voice mail"),
];

impl Reader<'_> {
    pub(crate) fn wrong(&mut self, range: Range<usize>, message: impl Into<String>) {
        self.gathered.add(self.file, range, message);
    }

    /// A fault inside of a string.
    pub(crate) fn wrong_inside(&mut self, span: Range<usize>, wrong: Wrong) {
        let place = self.inside(span, wrong.at);
        self.wrong(place, wrong.message);
    }

    pub(crate) fn inside(&self, span: Range<usize>, within: Range<usize>) -> Range<usize> {
        strings::place(self.gathered.sources[self.file].text, span, within)
    }

    pub(crate) fn location(&self, range: Range<usize>) -> Location {
        Location { file: self.file, range }
    }

    pub(crate) fn line_number(&self, at: usize) -> u32 {
        self.gathered.sources[self.file].line_number(at)
    }

    fn read_file(&mut self, text: &str) {
        if text.len() > FILE_BYTES_MAX {
            self.wrong(0..0, format!("a file has at most {FILE_BYTES_MAX} bytes"));
            return;
        }
        let (table, errors) = DeTable::parse_recoverable(text);
        let is_toml = errors.is_empty();
        for error in errors {
            let said = error.message().lines().collect::<Vec<_>>().join("; ");
            self.wrong(error.span().unwrap_or(0..0), format!("not TOML: {said}"));
            self.draft.broken = true;
        }
        let table = table.get_ref();
        if is_toml {
            // Else a key may stand here only because the header above it was lost.
            self.check_keys(table, "a plan", &["globals", "context"], &[]);
        }
        if let Some(globals) = table.get("globals") {
            self.read_globals(globals);
        }
        if let Some(contexts) = table.get("context") {
            self.read_contexts(contexts);
        }
    }

    /// Reports every key that is not allowed.
    pub(crate) fn check_keys(
        &mut self,
        table: &DeTable<'_>,
        place: &str,
        allowed: &[&str],
        unbuilt: &[&str],
    ) {
        for (key, _) in table.iter() {
            let name = key.get_ref().as_ref();
            if allowed.contains(&name) {
                continue;
            }
            let message = if unbuilt.contains(&name) {
                format!("`{name}` is not built yet")
            } else {
                let guess = suggestion(name, allowed.iter().chain(unbuilt).copied());
                format!("unknown key '{}' in {place}{guess}", shown(name))
            };
            self.wrong(key.span(), message);
        }
    }

    /// The table, or a fault.
    pub(crate) fn table<'v, 't>(
        &mut self,
        value: &'v Value<'t>,
        what: &str,
    ) -> Option<&'v DeTable<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let kind = value.get_ref().type_str();
            self.wrong(value.span(), format!("{what} is a table, not {}", article(kind)));
        }
        table
    }

    /// The text, or a fault.
    pub(crate) fn text<'v>(&mut self, value: &'v Value<'_>, what: &str) -> Option<&'v str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            let kind = value.get_ref().type_str();
            let hint = match value.get_ref().as_integer() {
                Some(number) => format!("; write \"{}\"", number.as_str()),
                None => String::new(),
            };
            let message = format!("{what} is a text in quotes, not {}{hint}", article(kind));
            self.wrong(value.span(), message);
        }
        text
    }

    /// The elements of a list, or a fault.
    pub(crate) fn list<'v, 't>(&mut self, value: &'v Value<'t>, what: &str) -> &'v [Value<'t>] {
        if let Some(list) = value.get_ref().as_array() {
            return list;
        }
        let kind = value.get_ref().type_str();
        self.wrong(value.span(), format!("{what} is a list in brackets, not {}", article(kind)));
        &[]
    }

    fn read_globals(&mut self, value: &Value<'_>) {
        let Some(table) = self.table(value, "`globals`") else { return };
        for (key, value) in table.iter() {
            let name = key.get_ref().as_ref();
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(allowed) {
                let message = "a variable's name has letters, digits and `_` only, at most 80";
                self.wrong(key.span(), message);
            }
            let Some(text) = self.text(value, "a global variable") else { continue };
            if text.len() > VALUE_MAX {
                self.wrong(value.span(), format!("a value has at most {VALUE_MAX} bytes"));
            }
            if text.contains("${") {
                let message = "a variable in the value of a global variable is not built yet";
                self.wrong(value.span(), message);
            }
            if self.draft.globals.insert(name.into(), text.into()).is_some() {
                let message = format!("the global variable '{}' is set twice", shown(name));
                self.wrong(key.span(), message);
            }
        }
        if self.draft.globals.len() > GLOBALS_MAX {
            self.wrong(value.span(), format!("a plan has at most {GLOBALS_MAX} global variables"));
        }
    }

    fn read_contexts(&mut self, value: &Value<'_>) {
        let Some(table) = self.table(value, "`context`") else { return };
        // The table is sorted by name; listings go by the file.
        let mut contexts: Vec<_> = table.iter().collect();
        contexts.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in contexts {
            let name = key.get_ref().as_ref();
            let graphic = |c: char| c.is_ascii_graphic() && !"[],@\"".contains(c);
            if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(graphic) {
                self.wrong(
                    key.span(),
                    format!(
                        "a context's name has no blanks and none of `[ ] , @ \"`, at most \
                         {NAME_MAX} bytes"
                    ),
                );
            }
            let Some(table) = self.table(value, "a context") else { continue };
            let at = *self.names.entry(name.into()).or_insert_with(|| {
                let context = DraftContext {
                    name: name.into(),
                    includes: vec![],
                    extensions: vec![],
                    hints: vec![],
                };
                self.draft.contexts.push(context);
                self.draft.contexts.len() - 1
            });
            if self.draft.contexts.len() > CONTEXTS_MAX {
                self.wrong(key.span(), format!("a plan has at most {CONTEXTS_MAX} contexts"));
                return;
            }
            self.read_context(at, table);
        }
    }

    fn read_context(&mut self, at: usize, table: &DeTable<'_>) {
        let unbuilt = ["switch", "ignorepat"];
        self.check_keys(table, "a context", &["include", "exten", "hint"], &unbuilt);
        if let Some(value) = table.get("include") {
            for include in self.list(value, "`include`") {
                if let Some(include) = self.read_include(include) {
                    self.draft.contexts[at].includes.push(include);
                }
            }
        }
        if let Some(value) = table.get("hint") {
            for hint in self.list(value, "`hint`") {
                if let Some(hint) = self.read_hint(hint) {
                    self.draft.contexts[at].hints.push(hint);
                }
            }
        }
        let Some(value) = table.get("exten") else { return };
        if value.get_ref().is_table() {
            let message = "an extension is written with two brackets: [[context.NAME.exten]]";
            self.wrong(value.span(), message);
            return;
        }
        for exten in self.list(value, "`exten`") {
            if self.draft.extensions == EXTENSIONS_MAX {
                let message = format!("a plan has at most {EXTENSIONS_MAX} extensions");
                self.wrong(exten.span(), message);
                return;
            }
            self.draft.extensions += 1;
            match self.read_extension(exten) {
                Some(extension) => self.draft.contexts[at].extensions.push(extension),
                None => self.draft.incomplete = true,
            }
        }
    }

    fn read_extension(&mut self, value: &Value<'_>) -> Option<DraftExtension> {
        let table = self.table(value, "an extension")?;
        self.check_keys(table, "an extension", &["match", "caller", "steps"], &[]);
        let found = table.get("match");
        if found.is_none() {
            self.wrong(value.span(), "an extension needs `match`: a number, a name or a pattern");
        }
        let (key, name, span) = match found {
            Some(found) => {
                let text = self.text(found, "`match`");
                let key = text.and_then(|text| self.read_key(text, found.span(), false));
                (key, text, found.span())
            }
            None => (None, None, value.span()),
        };
        let caller = table.get("caller").map(|caller| self.read_caller(caller));
        let mut extension = DraftExtension {
            name: name.unwrap_or_default().into(),
            at: self.location(span.clone()),
            key: Key::Exact(Box::new([])),
            caller: None,
            steps: Vec::new(),
            gotos: Vec::new(),
            trunks: Vec::new(),
            broken: false,
        };
        match table.get("steps") {
            Some(list) => steps::read(self, list, &mut extension),
            None => self.wrong(span, "the extension has no `steps`"),
        }
        extension.key = key?;
        if let Some(caller) = caller {
            extension.caller = Some(caller?);
        }
        Some(extension)
    }

    fn read_caller(&mut self, value: &Value<'_>) -> Option<Caller> {
        let text = self.text(value, "`caller`")?;
        let key = self.read_key(text, value.span(), true)?;
        Some(Caller { key, text: text.into() })
    }

    /// Reads what is matched: a pattern behind `_`, or the thing itself.
    pub(crate) fn read_key(&mut self, text: &str, span: Range<usize>, caller: bool) -> Option<Key> {
        if text.len() > PATTERN_MAX {
            self.wrong(span, format!("a name or pattern has at most {PATTERN_MAX} bytes"));
            return None;
        }
        let Some(pattern) = text.strip_prefix('_') else {
            return self.read_exact(text, span, caller);
        };
        match Pattern::parse(pattern) {
            Ok(pattern) => Some(Key::Pattern(pattern)),
            Err(Wrong { at, message }) => {
                self.wrong_inside(span, Wrong::new(at.start + 1..at.end + 1, message));
                None
            }
        }
    }

    fn read_exact(&mut self, text: &str, span: Range<usize>, caller: bool) -> Option<Key> {
        if let Some(at) = text.find('/') {
            self.wrong_inside(span, Wrong::new(at..at + 1, SLASH));
            return None;
        }
        if let Some((at, c)) = text.char_indices().find(|(_, c)| c.is_control()) {
            let message = "a control character cannot be dialled";
            self.wrong_inside(span, Wrong::new(at..at + c.len_utf8(), message));
            return None;
        }
        let event = EVENTS.iter().find(|(name, _)| *name == text);
        if let Some((name, when)) = event.filter(|_| !caller) {
            self.wrong(span, format!("the extension `{name}`, run {when}, is not built yet"));
            return None;
        }
        let bare = bare(text);
        if bare.is_empty() && !caller {
            self.wrong(span, "the name is empty");
            return None;
        }
        Some(Key::Exact(bare.as_slice().into()))
    }
}

/// `an integer`, `a table`.
fn article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}

/// The first place of every trunk's name.
pub(crate) fn first_places(draft: &Draft) -> Vec<(Box<str>, Location)> {
    let mut seen = BTreeSet::new();
    let all = draft.contexts.iter().flat_map(|context| &context.extensions);
    all.flat_map(|extension| &extension.trunks)
        .filter(|(name, _)| seen.insert(name.clone()))
        .cloned()
        .collect()
}
