//! What a reload changes.

use std::cmp::Ordering;
use std::fmt;

use crate::plan::{Context, Extension, ExtensionId, Plan};

/// The difference of two plans, one line each, in the order of the new plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// What changed.
    pub changes: Vec<Change>,
}

/// One thing that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A context is new; with the number of its extensions.
    ContextAdded(Box<str>, usize),
    /// A context is gone.
    ContextRemoved(Box<str>, usize),
    /// A context includes other contexts, or in another order.
    IncludesChanged(Box<str>),
    /// A context has other hints.
    HintsChanged(Box<str>),
    /// An extension is new: context and name.
    ExtensionAdded(Box<str>, Box<str>),
    /// An extension is gone.
    ExtensionRemoved(Box<str>, Box<str>),
    /// The steps of an extension are others.
    ExtensionChanged(Box<str>, Box<str>),
    /// A global variable is new, gone, or has another value.
    GlobalChanged(Box<str>),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ContextAdded(name, count) => {
                write!(f, "context '{name}' added, extensions: {count}")
            }
            Self::ContextRemoved(name, count) => {
                write!(f, "context '{name}' removed, extensions: {count}")
            }
            Self::IncludesChanged(name) => write!(f, "context '{name}': includes changed"),
            Self::HintsChanged(name) => write!(f, "context '{name}': hints changed"),
            Self::ExtensionAdded(context, name) => {
                write!(f, "extension '{name}' added to context '{context}'")
            }
            Self::ExtensionRemoved(context, name) => {
                write!(f, "extension '{name}' removed from context '{context}'")
            }
            Self::ExtensionChanged(context, name) => {
                write!(f, "extension '{name}' changed in context '{context}'")
            }
            Self::GlobalChanged(name) => write!(f, "global variable '{name}' changed"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.changes.is_empty() {
            return f.write_str("nothing changed");
        }
        for (at, change) in self.changes.iter().enumerate() {
            let end = if at + 1 < self.changes.len() { "\n" } else { "" };
            write!(f, "{change}{end}")?;
        }
        Ok(())
    }
}

impl Difference {
    /// Whether the plans do the same.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

impl Plan {
    /// What this plan does otherwise than `old`. Moved lines and comments are no change.
    pub fn diff(&self, old: &Self) -> Difference {
        let mut changes = Vec::new();
        diff_globals(old, self, &mut changes);
        for context in &self.contexts {
            match old.context_named(&context.name) {
                None => {
                    let count = context.order.len();
                    changes.push(Change::ContextAdded(context.name.clone(), count));
                }
                Some(before) => diff_context((old, before), (self, context), &mut changes),
            }
        }
        let gone = old.contexts.iter().filter(|context| !self.has_context(&context.name));
        changes.extend(
            gone.map(|context| Change::ContextRemoved(context.name.clone(), context.order.len())),
        );
        Difference { changes }
    }
}

fn diff_globals(old: &Plan, new: &Plan, changes: &mut Vec<Change>) {
    let changed = new.globals().filter(|(name, value)| old.global(name) != Some(value));
    let gone = old.globals().filter(|(name, _)| new.global(name).is_none());
    changes.extend(changed.chain(gone).map(|(name, _)| Change::GlobalChanged(name.into())));
}

fn diff_context(old: (&Plan, &Context), new: (&Plan, &Context), changes: &mut Vec<Change>) {
    let context = &new.1.name;
    let includes = |(plan, context): (&Plan, &Context)| -> Vec<(Box<str>, Box<str>)> {
        let name = |at: u32| plan.contexts[at as usize].name.clone();
        context.includes.iter().map(|it| (name(it.context), it.text.clone())).collect()
    };
    if includes(old) != includes(new) {
        changes.push(Change::IncludesChanged(context.clone()));
    }
    let hints = |context: &Context| -> Vec<(Box<str>, Box<str>)> {
        context.hints.iter().map(|hint| (hint.name.clone(), hint.text.clone())).collect()
    };
    if hints(old.1) != hints(new.1) {
        changes.push(Change::HintsChanged(context.clone()));
    }
    // Both are sorted by what they match.
    let (mut olds, mut news) = (old.1.order.iter().peekable(), new.1.order.iter().peekable());
    let extension = |plan, id: Option<&&ExtensionId>| id.map(|id| Plan::extension(plan, **id));
    loop {
        let (before, after) = (extension(old.0, olds.peek()), extension(new.0, news.peek()));
        let order = match (before, after) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(after)) => rank(before).cmp(&rank(after)),
        };
        let change = match (order, before, after) {
            (Ordering::Less, Some(before), _) => {
                Some(Change::ExtensionRemoved(context.clone(), before.name.clone()))
            }
            (Ordering::Greater, _, Some(after)) => {
                Some(Change::ExtensionAdded(context.clone(), after.name.clone()))
            }
            (_, Some(before), Some(after)) if !same_steps(before, after) => {
                Some(Change::ExtensionChanged(context.clone(), after.name.clone()))
            }
            _ => None,
        };
        changes.extend(change);
        if order != Ordering::Greater {
            olds.next();
        }
        if order != Ordering::Less {
            news.next();
        }
    }
}

/// The order in which `link` sorts a context.
fn rank(extension: &Extension) -> impl Ord {
    let caller = extension.caller.as_ref().map(|caller| caller.key.clone());
    (extension.key.clone(), caller.is_none(), caller)
}

fn same_steps(before: &Extension, after: &Extension) -> bool {
    before.steps.len() == after.steps.len()
        && before.steps.iter().zip(&after.steps).all(|(a, b)| a.app == b.app && a.label == b.label)
}
