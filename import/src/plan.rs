//! Writes a dialplan. What the dialplan's own reader finds wrong in the output becomes a comment,
//! until it finds nothing.

use crate::extensions::{Context, Draft, Extension, Hint, Include};
use crate::limits::GAP_MAX;
use crate::macros::{self, is_macro};
use crate::names;
use crate::report::{Place, Report, said};
use crate::steps::{Outcome, convert, failed};
use crate::write::{comment, key, quoted};
use std::collections::BTreeMap;

/// What a line of the output is of: a fault there is its fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Global(usize),
    Context(usize),
    Include(usize, usize),
    Hint(usize, usize),
    Extension(usize, usize),
    Step(usize, usize, u32),
}

impl Item {
    /// What it is part of.
    fn whole(self) -> Option<Self> {
        match self {
            Self::Global(_) | Self::Context(_) => None,
            Self::Include(context, _) | Self::Hint(context, _) | Self::Extension(context, _) => {
                Some(Self::Context(context))
            }
            Self::Step(context, extension, _) => Some(Self::Extension(context, extension)),
        }
    }
}

/// Writes the draft as TOML that the dialplan reads without a fault.
pub(crate) fn write(mut draft: Draft, report: &mut Report) -> String {
    // What is wrong with the file as such stands at the head.
    draft.refused.splice(0..0, report.all_left());
    let mut writer = Writer {
        outcomes: outcomes(&draft),
        draft,
        wrong: BTreeMap::new(),
        lines: Vec::new(),
        report,
    };
    loop {
        writer.write_all();
        let text = writer.text();
        let Err(faults) = dialplan::parse(&[("", &text)]) else { break };
        let found: Vec<(u32, String)> =
            faults.iter().map(|fault| (fault.line(), fault.message().to_owned())).collect();
        let mut is_new = false;
        for (line, message) in found {
            is_new |= writer.blame(line, message);
        }
        if !is_new {
            // Not known to happen: every line that can be wrong is of an item.
            for fault in faults.iter() {
                let message = format!("the output has a fault: {}", fault.message());
                writer.report.left(Place { file: 0, line: 1 }, message);
            }
            break;
        }
    }
    writer.tell();
    writer.text()
}

type Outcomes = BTreeMap<Item, Outcome>;

fn outcomes(draft: &Draft) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for (c, context) in draft.contexts.iter().enumerate() {
        for (e, extension) in context.extensions.iter().enumerate() {
            for (priority, step) in &extension.steps {
                let mut outcome = convert(&step.text, step.label.as_deref(), &draft.constants);
                outcome.left.extend(names::of_macros(&step.text));
                outcomes.insert(Item::Step(c, e, *priority), outcome);
            }
        }
    }
    outcomes
}

struct Writer<'r> {
    draft: Draft,
    /// What became of each step.
    outcomes: Outcomes,
    /// What cannot stand in the output, and why.
    wrong: BTreeMap<Item, String>,
    lines: Vec<(String, Option<Item>)>,
    report: &'r mut Report,
}

impl Writer<'_> {
    fn text(&self) -> String {
        let mut text = String::new();
        for (line, _) in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// Notes what a fault is about; false when that is known to be wrong already.
    fn blame(&mut self, line: u32, message: String) -> bool {
        let at = usize::try_from(line).unwrap_or_default().wrapping_sub(1);
        let mut item = self.lines.get(at).and_then(|(_, item)| *item);
        while let Some(blamed) = item {
            if let Item::Step(c, e, priority) = blamed
                && !self.wrong.contains_key(&blamed)
                && let Some(step) = self.step(c, e, priority)
            {
                let label = step.label.as_deref();
                let stand_in = failed(&step.text, label, &message);
                self.outcomes.insert(blamed, stand_in);
                self.wrong.insert(blamed, message);
                return true;
            }
            if !matches!(blamed, Item::Step(..)) && !self.wrong.contains_key(&blamed) {
                self.wrong.insert(blamed, message);
                return true;
            }
            item = blamed.whole();
        }
        false
    }

    fn step(&self, c: usize, e: usize, priority: u32) -> Option<&crate::extensions::Step> {
        self.draft.contexts.get(c)?.extensions.get(e)?.steps.get(&priority)
    }

    /// Tells what the output has as comments.
    fn tell(&mut self) {
        let draft = std::mem::take(&mut self.draft);
        let contexts = draft.contexts.iter().flat_map(|it| {
            it.refused.iter().chain(it.extensions.iter().flat_map(|it| &it.refused))
        });
        for (place, reason) in draft.refused.iter().chain(contexts) {
            self.report.left(*place, reason);
        }
        for (item, outcome) in &self.outcomes {
            let Item::Step(c, e, priority) = *item else { continue };
            let extension = draft.contexts.get(c).and_then(|it| it.extensions.get(e));
            let Some(step) = extension.and_then(|it| it.steps.get(&priority)) else { continue };
            for reason in &outcome.left {
                self.report.left(step.place, reason);
            }
            for note in &outcome.notes {
                self.report.note(step.place, note);
            }
        }
        for (item, reason) in &self.wrong {
            for place in places(&draft, *item) {
                self.report.left(place, reason);
            }
        }
        for extension in draft.contexts.iter().flat_map(|it| &it.extensions) {
            for (gap, last) in gaps(extension) {
                if let Some(step) = extension.steps.get(&(last + 1)) {
                    let mut text = format!("the priorities from {gap} to {last} are missing above");
                    if last - gap >= GAP_MAX {
                        text.push_str(", and jumps by number do not lead here: labels do");
                    }
                    self.report.note(step.place, text);
                }
            }
        }
        for (name, place) in names::unset(&draft) {
            let text = format!("nothing in the plan sets `{name}`: if Asterisk did, it is empty");
            self.report.note(place, text);
        }
        self.draft = draft;
    }

    fn push(&mut self, line: impl Into<String>, item: Option<Item>) {
        self.lines.push((line.into(), item));
    }

    /// A comment for a line of the source.
    fn refused(&mut self, indent: &str, place: Place, reason: &str) {
        self.refused_for(indent, place, &[reason.to_owned()]);
    }

    fn refused_for(&mut self, indent: &str, place: Place, reasons: &[String]) {
        let (position, text) = (self.report.position(place), self.report.text(place));
        self.push(comment(indent, &format!("not converted: {position}: {text}")), None);
        for reason in reasons {
            self.push(comment(indent, &format!("  {}", said(reason))), None);
        }
    }

    fn write_all(&mut self) {
        self.lines.clear();
        let draft = std::mem::take(&mut self.draft);
        for (place, reason) in &draft.refused {
            self.refused("", *place, reason);
        }
        if !draft.globals.is_empty() {
            self.push("[globals]", None);
        }
        for (at, global) in draft.globals.iter().enumerate() {
            let item = Item::Global(at);
            match self.wrong.get(&item).cloned() {
                Some(reason) => self.refused("", global.place, &reason),
                None => {
                    let line = format!("{} = {}", key(&global.name), quoted(&global.value));
                    self.push(line, Some(item));
                }
            }
        }
        for (at, context) in draft.contexts.iter().enumerate() {
            if !self.lines.is_empty() {
                self.push("", None);
            }
            let item = Item::Context(at);
            match self.wrong.get(&item).cloned() {
                Some(reason) => {
                    for place in places(&draft, item) {
                        self.refused("", place, &reason);
                    }
                    let inner = context.extensions.iter().flat_map(|it| &it.refused);
                    for (place, reason) in context.refused.iter().chain(inner) {
                        self.refused("", *place, reason);
                    }
                }
                None => self.context(at, context),
            }
        }
        self.draft = draft;
    }

    fn context(&mut self, at: usize, context: &Context) {
        let name = key(&context.name);
        self.push(format!("[context.{name}]"), Some(Item::Context(at)));
        for (place, reason) in &context.refused {
            self.refused("", *place, reason);
        }
        if !context.includes.is_empty() {
            self.push("include = [", Some(Item::Context(at)));
            for (nth, include) in context.includes.iter().enumerate() {
                self.include(Item::Include(at, nth), include);
            }
            self.push("]", Some(Item::Context(at)));
        }
        for (nth, hint) in context.hints.iter().enumerate() {
            self.hint(&name, Item::Hint(at, nth), hint);
        }
        for (nth, extension) in context.extensions.iter().enumerate() {
            self.push("", None);
            self.extension(&name, (at, nth), extension);
        }
    }

    fn include(&mut self, item: Item, include: &Include) {
        if let Some(reason) = self.wrong.get(&item).cloned() {
            return self.refused("    ", include.place, &reason);
        }
        let context = quoted(&include.context);
        if include.times.iter().all(|field| field.is_empty() || field == "*") {
            return self.push(format!("    {context},"), Some(item));
        }
        let mut line = format!("    {{ context = {context}");
        let keys = ["hours", "days", "mdays", "months", "timezone"].map(str::to_owned);
        // One field more than there are is refused by the dialplan, too.
        let more = (keys.len()..include.times.len()).map(|nth| format!("field{nth}"));
        for (key, field) in keys.iter().cloned().chain(more).zip(&include.times) {
            if !field.is_empty() && field != "*" {
                line.push_str(&format!(", {key} = {}", quoted(field)));
            }
        }
        self.push(format!("{line} }},"), Some(item));
    }

    fn hint(&mut self, context: &str, item: Item, hint: &Hint) {
        self.push("", None);
        if let Some(reason) = self.wrong.get(&item).cloned() {
            return self.refused("", hint.place, &reason);
        }
        self.push(format!("[[context.{context}.hint]]"), Some(item));
        self.push(format!("exten = {}", quoted(&hint.exten)), Some(item));
        self.push(format!("device = {}", quoted(&hint.device)), Some(item));
    }

    fn extension(&mut self, context: &str, (c, e): (usize, usize), extension: &Extension) {
        let item = Item::Extension(c, e);
        for (place, reason) in &extension.refused {
            self.refused("", *place, reason);
        }
        if !extension.steps.contains_key(&1) && !self.wrong.contains_key(&item) {
            let reason =
                "without priority 1 no call finds it, and jumps into it are not known here"
                    .to_owned();
            self.wrong.insert(item, reason);
        }
        if let Some(reason) = self.wrong.get(&item).cloned() {
            for step in extension.steps.values() {
                self.refused("", step.place, &reason);
            }
            return;
        }
        self.push(format!("[[context.{context}.exten]]"), Some(item));
        self.push(format!("match = {}", quoted(&extension.name)), Some(item));
        if let Some(caller) = &extension.caller {
            self.push(format!("caller = {}", quoted(caller)), Some(item));
        }
        self.push("steps = [", Some(item));
        let is_macro = is_macro(context.trim_start_matches(['"', '\'']));
        let mut leads_away = false;
        let mut gaps = gaps(extension).into_iter().peekable();
        for (priority, step) in &extension.steps {
            if let Some((gap, last)) = gaps.next_if(|(_, last)| last < priority) {
                self.fill(item, is_macro, (gap, last));
            }
            let item = Item::Step(c, e, *priority);
            let Some(outcome) = self.outcomes.get(&item).cloned() else { continue };
            if !outcome.left.is_empty() {
                self.refused_for("    ", step.place, &outcome.left);
            }
            self.push(format!("    {},", outcome.toml), Some(item));
            leads_away = macros::leads_away(&outcome.toml);
        }
        if is_macro && !leads_away {
            self.push(comment("    ", "the end of the macro"), None);
            self.push("    \"Return()\",", Some(item));
        }
        self.push("]", Some(item));
    }

    /// Where priorities are missing Asterisk ends the call; steps behind can be jumped to by their
    /// numbers, which must hold.
    fn fill(&mut self, item: Item, is_macro: bool, (from, last): (u32, u32)) {
        let (what, step) = match is_macro {
            true => ("the macro ends", "Return()"),
            false => ("the call ends", "Hangup()"),
        };
        let text = format!("the priorities from {from} to {last} are missing: {what} here");
        self.push(comment("    ", &text), None);
        self.push(format!("    {},", quoted(step)), Some(item));
        if last - from >= GAP_MAX {
            let text = "jumps by number do not lead behind it: labels do";
            return self.push(comment("    ", text), None);
        }
        let mut rest = usize::try_from(last.saturating_sub(from)).unwrap_or_default();
        while rest > 0 {
            let some = rest.min(9);
            self.push(format!("    {}", vec!["\"NoOp()\","; some].join(" ")), Some(item));
            rest -= some;
        }
    }
}

/// The first and the last of each run of priorities that are missing.
fn gaps(extension: &Extension) -> Vec<(u32, u32)> {
    let mut gaps = Vec::new();
    let mut next = 1;
    for priority in extension.steps.keys() {
        if *priority > next && next > 1 {
            gaps.push((next, priority - 1));
        }
        next = priority + 1;
    }
    gaps
}

/// The lines of the source that an item is made of, apart from those that are told anyhow.
fn places(draft: &Draft, item: Item) -> Vec<Place> {
    let steps = |extension: &Extension| -> Vec<Place> {
        extension.steps.values().map(|step| step.place).collect()
    };
    let context = |c: usize| draft.contexts.get(c);
    let found = match item {
        Item::Global(at) => draft.globals.get(at).map(|global| vec![global.place]),
        Item::Context(c) => context(c).map(|context| {
            let mut places = vec![context.place];
            places.extend(context.includes.iter().map(|include| include.place));
            places.extend(context.hints.iter().map(|hint| hint.place));
            places.extend(context.extensions.iter().flat_map(steps));
            places
        }),
        Item::Include(c, at) => context(c)
            .and_then(|context| context.includes.get(at).map(|include| vec![include.place])),
        Item::Hint(c, at) => {
            context(c).and_then(|context| context.hints.get(at).map(|hint| vec![hint.place]))
        }
        Item::Extension(c, e) => context(c).and_then(|it| it.extensions.get(e)).map(steps),
        // Told by its outcome.
        Item::Step(..) => None,
    };
    found.unwrap_or_default()
}
