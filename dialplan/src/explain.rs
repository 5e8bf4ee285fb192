//! Why a number finds what it finds: each candidate in the order in which it is tried, why it lost
//! or won, and the steps of the one that won. For `dialplan test`.

use std::fmt::Write;

use crate::app::{Address, App, Dial};
use crate::limits::NUMBER_MAX;
use crate::pattern::bare;
use crate::plan::{Context, ExtensionId, Key, MatchResult, Plan, Seeker};
use crate::template::Variables;
use crate::time::Moment;

/// Candidates of one context that are listed in full.
const CANDIDATES_MAX: usize = 100;

impl Plan {
    /// The account of a search, as lines of text.
    pub fn explain<'s>(&self, context: &str, number: &str, who: impl Into<Seeker<'s>>) -> String {
        let mut out = String::new();
        self.explain_to(context, number, who.into(), &mut out);
        out
    }

    fn explain_to(&self, context: &str, number: &str, who: Seeker<'_>, out: &mut String) {
        let caller = who.caller;
        let from = if caller.is_empty() { "an unknown caller" } else { caller };
        line(out, format_args!("'{}' from {} in context '{context}'", safe(number), safe(from)));
        let Some(start) = self.context_named(context) else {
            line(out, format_args!("there is no such context"));
            return;
        };
        if number.len() > NUMBER_MAX {
            line(out, format_args!("a number longer than {NUMBER_MAX} bytes matches nothing"));
            return;
        }
        let bare = bare(number);
        if bare.len() != number.len() {
            let shown = String::from_utf8_lossy(&bare);
            line(out, format_args!("compared as '{}': each `-` is for the eye", safe(&shown)));
        }
        let mut won = None;
        for reach in &start.search {
            let context = &self.contexts[reach.context as usize];
            let is_open = reach.is_open(who);
            let note = match won {
                Some(_) => " (not searched: there is a match already)",
                None if !is_open => " (not searched: it is included at other times)",
                None => "",
            };
            line(out, format_args!("context '{}'{note}", context.name));
            if won.is_none() && is_open {
                won = self.explain_context(context, &bare, caller, out);
            }
        }
        let found = self.find(context, number, who);
        line(out, format_args!("result: {}", in_words(found.result)));
        if let Some(id) = found.extension {
            let facts = Facts { plan: self, context, number, caller, at: who.at };
            self.explain_steps(id, &facts, out);
        }
    }

    fn explain_context(
        &self,
        context: &Context,
        number: &[u8],
        caller: &str,
        out: &mut String,
    ) -> Option<ExtensionId> {
        let mut won = None;
        let (mut exact, mut listed, mut unlisted) = (0_usize, 0, 0_usize);
        for id in &context.order {
            let extension = self.extension(*id);
            let matches = extension.key.matches(number);
            let is_pattern = matches!(extension.key, Key::Pattern(_));
            let wins = won.is_none() && matches && self.takes_caller(*id, caller);
            if !is_pattern && !matches {
                exact += 1;
                continue;
            }
            if exact > 0 && is_pattern {
                line(out, format_args!("  exact names that are others: {exact}"));
                exact = 0;
            }
            if wins {
                won = Some(*id);
            } else if listed >= CANDIDATES_MAX {
                unlisted += 1;
                continue;
            }
            listed += 1;
            let verdict = self.verdict(*id, number, wins, won.is_some());
            let (file, at) = self.place(*id);
            let shown = match &extension.caller {
                Some(caller) => format!("'{}' for '{}'", extension.name, caller.text),
                None => format!("'{}'", extension.name),
            };
            line(out, format_args!("  {shown:<20} {verdict}  [{file}:{at}]"));
        }
        if exact > 0 {
            line(out, format_args!("  exact names that are others: {exact}"));
        }
        if unlisted > 0 {
            line(out, format_args!("  candidates that lost and are not listed: {unlisted}"));
        }
        won
    }

    fn verdict(&self, id: ExtensionId, number: &[u8], wins: bool, decided: bool) -> String {
        let refusal = match &self.extension(id).key {
            Key::Exact(_) => None,
            Key::Pattern(pattern) => pattern.refusal(number),
        };
        match refusal {
            Some(why) => format!("no: {why}"),
            None if wins => "yes: this one".to_owned(),
            None if decided => "matches too, but comes later".to_owned(),
            None => "no: it is for another caller".to_owned(),
        }
    }

    fn explain_steps(&self, id: ExtensionId, facts: &Facts<'_>, out: &mut String) {
        let context = self.context_of(id);
        line(out, format_args!("steps of '{}' in context '{context}':", self.name(id)));
        for (at, step) in self.steps(id).iter().enumerate() {
            let number = at + 1;
            let label = step.label.as_ref().map(|label| format!("({label}) ")).unwrap_or_default();
            line(out, format_args!("  {number:>3}. {label}{step}"));
            if let App::Dial(dial) = &step.app {
                explain_targets(dial, facts, out);
            }
        }
    }
}

/// The targets with the variables that are known before the call.
fn explain_targets(dial: &Dial, facts: &Facts<'_>, out: &mut String) {
    for target in &dial.targets {
        let shown = match target.address.rendered(facts) {
            Ok(Address::Trunk { name, number: Some(number) }) => {
                format!("number '{number}' through trunk '{name}'")
            }
            Ok(Address::Trunk { name, number: None }) => format!("trunk '{name}'"),
            Ok(Address::Uri(uri)) => uri.into(),
            Ok(Address::Local { number, context }) => format!("'{number}' in context '{context}'"),
            Err(fault) => fault.to_string(),
        };
        line(out, format_args!("       calls {}", safe(&shown)));
    }
}

fn in_words(result: MatchResult) -> &'static str {
    match result {
        MatchResult::None => "no match, and more digits cannot change that",
        MatchResult::More => "no match yet, more digits may find one",
        MatchResult::Complete => "a match, and more digits find nothing else",
        MatchResult::CompleteOrMore => "a match, but more digits may find another",
    }
}

/// What is known of a call before it is one.
struct Facts<'f> {
    plan: &'f Plan,
    context: &'f str,
    number: &'f str,
    caller: &'f str,
    at: Option<Moment>,
}

impl Variables for Facts<'_> {
    fn value(&self, name: &str, out: &mut String) -> bool {
        let value = match name {
            "EXTEN" => Some(self.number),
            "CONTEXT" => Some(self.context),
            "CALLERID(num)" => Some(self.caller),
            _ => self.plan.global(name),
        };
        out.push_str(value.unwrap_or_default());
        value.is_some()
    }

    fn moment(&self, _: Option<i64>) -> Moment {
        self.at.unwrap_or_default()
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(text);
    out.push('\n');
}

/// Dialled text, fit for a terminal.
fn safe(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
