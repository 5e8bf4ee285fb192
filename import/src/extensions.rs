//! What an `extensions.conf` says: globals, contexts, extensions with their priorities, includes,
//! hints. `plan` writes it.

use crate::ini::{Entry, Section};
use crate::names;
use crate::report::{Place, Report};
use crate::steps::{Constants, split, top_level};
use std::collections::{BTreeMap, BTreeSet};

/// What was said.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) globals: Vec<Global>,
    pub(crate) contexts: Vec<Context>,
    /// Lines that are told and stand as a comment at the head.
    pub(crate) refused: Vec<(Place, String)>,
    /// Globals whose value nothing in the plan changes.
    pub(crate) constants: Constants,
}

#[derive(Debug)]
pub(crate) struct Global {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) place: Place,
}

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) includes: Vec<Include>,
    pub(crate) hints: Vec<Hint>,
    pub(crate) extensions: Vec<Extension>,
    pub(crate) refused: Vec<(Place, String)>,
    /// Where an extension is, by its name and its caller.
    known: BTreeMap<(String, Option<String>), usize>,
}

impl Context {
    fn new(section: &Section) -> Self {
        Self {
            name: section.name.clone(),
            place: section.place,
            includes: Vec::new(),
            hints: Vec::new(),
            extensions: Vec::new(),
            refused: Vec::new(),
            known: BTreeMap::new(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Include {
    pub(crate) context: String,
    /// Hours, days, days of the month, months and what else stands there.
    pub(crate) times: Vec<String>,
    pub(crate) place: Place,
}

#[derive(Debug)]
pub(crate) struct Hint {
    pub(crate) exten: String,
    pub(crate) device: String,
    pub(crate) place: Place,
}

#[derive(Debug)]
pub(crate) struct Extension {
    pub(crate) name: String,
    pub(crate) caller: Option<String>,
    /// By priority.
    pub(crate) steps: BTreeMap<u32, Step>,
    pub(crate) refused: Vec<(Place, String)>,
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) label: Option<String>,
    pub(crate) text: String,
    pub(crate) place: Place,
}

/// Settings of `[general]` that say what is the way here anyhow, or are about Asterisk's own
/// console.
const NEEDLESS: &[(&str, &str, &str)] = &[
    ("static", "", "it is about saving the plan from Asterisk's console"),
    ("writeprotect", "", "it is about saving the plan from Asterisk's console"),
    ("autofallthrough", "yes", "so it is here anyhow"),
    ("clearglobalvars", "yes", "so it is here anyhow"),
    ("extenpatternmatchnew", "", "patterns are compiled here anyhow"),
    ("priorityjumping", "no", "so it is here anyhow"),
];

/// Reads the sections.
pub(crate) fn read(sections: &[Section], report: &mut Report) -> Draft {
    let mut draft = Draft::default();
    let is = |section: &Section, name: &str| section.name.eq_ignore_ascii_case(name);
    let (settings, contexts): (Vec<_>, Vec<_>) = sections
        .iter()
        .filter(|section| !section.is_template)
        .partition(|section| is(section, "general") || is(section, "globals"));
    // Wherever they stand, Asterisk reads them first.
    for section in settings {
        for entry in &section.entries {
            if is(section, "general") {
                general(entry, &mut draft, report);
            } else {
                global(entry, &mut draft, report);
            }
        }
    }
    let values =
        draft.globals.iter().map(|global| (global.name.clone(), global.value.clone())).collect();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for section in contexts {
        let at = *known.entry(&section.name).or_insert_with(|| {
            draft.contexts.push(Context::new(section));
            draft.contexts.len() - 1
        });
        if let Some(context) = draft.contexts.get_mut(at) {
            Reader { context, values: &values, last: None, priority: None, report }.read(section);
        }
    }
    draft.constants = constants(&draft);
    draft
}

fn general(entry: &Entry, draft: &mut Draft, report: &mut Report) {
    let is_yes = ["yes", "true", "on", "1"].contains(&entry.value.to_ascii_lowercase().as_str());
    let found = NEEDLESS.iter().find(|(key, value, _)| {
        *key == entry.key && (value.is_empty() || (*value == "yes") == is_yes)
    });
    match found {
        Some((_, _, why)) => report.note(entry.place, format!("no counterpart is needed: {why}")),
        None => draft.refused.push((entry.place, "there is no such setting here".to_owned())),
    }
}

/// A later value takes the place of an earlier one; those above can be used in it.
fn global(entry: &Entry, draft: &mut Draft, report: &mut Report) {
    let name = entry.name.clone();
    let value = if entry.value.contains("${") {
        let known = draft.globals.iter().map(|it| (it.name.clone(), it.value.clone())).collect();
        expanded(&entry.value, &known)
    } else {
        entry.value.clone()
    };
    draft.globals.retain(|global| {
        let is_same = global.name == name;
        if is_same {
            report.note(global.place, "another value is given below, which is taken");
        }
        !is_same
    });
    draft.globals.push(Global { name, value, place: entry.place });
}

/// The text with all variables that are known filled in, as Asterisk does when it reads the file.
fn expanded(text: &str, known: &Constants) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, behind) = rest.split_at(at);
        out.push_str(before);
        let inside = behind.get(2..).unwrap_or_default();
        match inside.split_once('}').and_then(|(name, rest)| Some((known.get(name)?, rest))) {
            Some((value, behind)) => {
                out.push_str(value);
                rest = behind;
            }
            None => {
                out.push_str("${");
                rest = inside;
            }
        }
    }
    out + rest
}

/// The globals that no step sets, be it for one call.
fn constants(draft: &Draft) -> Constants {
    let steps = draft.contexts.iter().flat_map(|context| &context.extensions);
    let steps = steps.flat_map(|extension| extension.steps.values());
    let set: BTreeSet<&str> = steps.flat_map(|step| names::assigned(&step.text)).collect();
    let is_constant = |it: &&Global| !it.value.contains("${") && !set.contains(it.name.as_str());
    let known = draft.globals.iter().filter(is_constant);
    known.map(|global| (global.name.clone(), global.value.clone())).collect()
}

struct Reader<'d, 'r> {
    context: &'d mut Context,
    values: &'d Constants,
    /// The extension of the line above, for `same`: what stands there, and which it is.
    last: Option<String>,
    /// The priority of the line above, for `n`.
    priority: Option<u32>,
    report: &'r mut Report,
}

impl Reader<'_, '_> {
    fn read(mut self, section: &Section) {
        for entry in &section.entries {
            match entry.key.as_str() {
                "exten" | "extension" => self.exten(entry),
                "same" => match self.last.clone() {
                    Some(name) => self.priority_and_step(&name, &entry.value, entry.place),
                    None => self.refuse(entry.place, "no extension stands above it"),
                },
                "include" => self.include(entry),
                "switch" | "lswitch" | "eswitch" => {
                    self.refuse(
                        entry.place,
                        "a switch to another source of plans is not built yet",
                    );
                }
                "ignorepat" => {
                    self.refuse(entry.place, "a dial tone that goes on is not built yet");
                }
                _ => self.refuse(entry.place, "unknown key in a context"),
            }
        }
    }

    fn refuse(&mut self, place: Place, reason: impl Into<String>) {
        self.context.refused.push((place, reason.into()));
    }

    fn exten(&mut self, entry: &Entry) {
        let Some(comma) = name_end(&entry.value) else {
            return self.refuse(entry.place, "the priority is missing");
        };
        let (name, rest) = entry.value.split_at(comma);
        let name = expanded(name.trim(), self.values);
        if name.is_empty() {
            return self.refuse(entry.place, "the extension's name is missing");
        }
        self.last = Some(name.clone());
        self.priority_and_step(&name, rest.get(1..).unwrap_or_default(), entry.place);
    }

    /// `priority[(label)],App(arguments)`.
    fn priority_and_step(&mut self, name: &str, text: &str, place: Place) {
        let (said, app) = match top_level(text, b',').next() {
            Some(comma) => text.split_at(comma),
            None => (text, ""),
        };
        let app = app.strip_prefix(',').unwrap_or(app).trim();
        let (said, label) = match said.split_once('(') {
            Some((number, label)) => match label.split_once(')') {
                Some((label, behind)) => (format!("{number}{behind}"), Some(label.trim())),
                None => return self.refuse(place, "the label is not closed: `)` is missing"),
            },
            None => (said.to_owned(), None),
        };
        if said.trim().eq_ignore_ascii_case("hint") {
            let hint = Hint { exten: name.to_owned(), device: app.to_owned(), place };
            return self.context.hints.push(hint);
        }
        let priority = match self.number(said.trim()) {
            Ok(priority) => priority,
            Err(why) => return self.refuse(place, why),
        };
        self.priority = Some(priority);
        if app.is_empty() {
            return self.refuse(place, "the application is missing");
        }
        let label = label.filter(|label| !label.is_empty()).map(str::to_owned);
        let step = Step { label, text: app.to_owned(), place };
        self.add(name, priority, step);
    }

    /// `3`, `n`, `s`, each with `+2`.
    fn number(&self, text: &str) -> Result<u32, String> {
        let (base, plus) = match text.split_once('+') {
            Some((base, plus)) => (base.trim(), plus.trim().parse::<u32>().ok()),
            None => (text, Some(0)),
        };
        let base = match base.to_ascii_lowercase().as_str() {
            "" => return Err("the priority is missing".to_owned()),
            "n" | "next" => match self.priority {
                Some(last) => last.checked_add(1),
                None => return Err("no priority stands above it".to_owned()),
            },
            "s" | "same" => match self.priority {
                Some(last) => Some(last),
                None => return Err("no priority stands above it".to_owned()),
            },
            number => number.parse().ok(),
        };
        match base.zip(plus).and_then(|(base, plus)| base.checked_add(plus)) {
            Some(0 | u32::MAX) | None => Err("this is no priority".to_owned()),
            Some(priority) => Ok(priority),
        }
    }

    fn add(&mut self, name: &str, priority: u32, mut step: Step) {
        let (name, caller) = match caller_at(name) {
            Some(at) => {
                let (name, caller) = name.split_at(at);
                (name, Some(caller.get(1..).unwrap_or_default().to_owned()))
            }
            None => (name, None),
        };
        let Context { extensions, known, .. } = &mut *self.context;
        let at = *known.entry((name.to_owned(), caller.clone())).or_insert_with(|| {
            let (steps, refused) = (BTreeMap::new(), Vec::new());
            let name = name.to_owned();
            extensions.push(Extension { name, caller, steps, refused });
            extensions.len() - 1
        });
        let Some(extension) = self.context.extensions.get_mut(at) else { return };
        if let Some(before) = extension.steps.get(&priority) {
            let position = self.report.position(before.place);
            let reason = format!("the priority {priority} is given already: {position}");
            return extension.refused.push((step.place, reason));
        }
        let is_twice = |it: &Step| it.label.is_some() && it.label == step.label;
        if extension.steps.values().any(is_twice) {
            let label = step.label.take().unwrap_or_default();
            let reason = format!("the label '{label}' stands twice in this extension");
            extension.refused.push((step.place, reason));
        }
        extension.steps.insert(priority, step);
    }

    /// `context[,times,days,days of the month,months]`, in older files with `|` between.
    fn include(&mut self, entry: &Entry) {
        let value = expanded(&entry.value, self.values);
        let separator = if value.contains('|') { b'|' } else { b',' };
        let mut fields = split(&value, separator).into_iter().map(str::to_owned);
        let context = fields.next().unwrap_or_default();
        if context.is_empty() {
            return self.refuse(entry.place, "the context to include is missing");
        }
        let times = fields.collect();
        self.context.includes.push(Include { context, times, place: entry.place });
    }
}

/// Where the name of an extension ends: at a comma outside of `[...]`.
fn name_end(text: &str) -> Option<usize> {
    let mut is_in_set = false;
    let mut commas = top_level(text, b',');
    let first = commas.next()?;
    // A set may hold a comma, if nothing else.
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => is_in_set = true,
            b']' => is_in_set = false,
            b',' if !is_in_set && at >= first => return Some(at),
            _ => {}
        }
    }
    None
}

/// Where the caller's number is joined to a name.
fn caller_at(name: &str) -> Option<usize> {
    let mut is_in_set = false;
    name.bytes().position(|byte| {
        match byte {
            b'[' => is_in_set = true,
            b']' => is_in_set = false,
            _ => {}
        }
        byte == b'/' && !is_in_set
    })
}
