//! A plan as data for `dialplan show`, in the order in which extensions are tried.

use crate::app::Step;
use crate::plan::{Context, Extension, Plan};

/// One context.
#[derive(Clone, Copy, Debug)]
pub struct ContextView<'p> {
    plan: &'p Plan,
    context: &'p Context,
}

/// One extension.
#[derive(Clone, Copy, Debug)]
pub struct ExtensionView<'p> {
    plan: &'p Plan,
    extension: &'p Extension,
}

impl Plan {
    /// All contexts in the order of the files, or the one of this name.
    pub fn listing<'p>(&'p self, only: Option<&'p str>) -> impl Iterator<Item = ContextView<'p>> {
        self.contexts
            .iter()
            .filter(move |context| only.is_none_or(|only| *context.name == *only))
            .map(|context| ContextView { plan: self, context })
    }
}

impl<'p> ContextView<'p> {
    /// Its name.
    pub fn name(self) -> &'p str {
        &self.context.name
    }

    /// The file that its first extension stands in; the plan's first file when it has none.
    pub fn file(self) -> &'p str {
        let first = self.context.order.iter().map(|id| self.plan.extension(*id).file).min();
        self.plan.files.get(first.unwrap_or(0) as usize).map_or("", |name| name)
    }

    /// The contexts that it includes itself, in order, each with its times or nothing.
    pub fn includes(self) -> impl Iterator<Item = (&'p str, &'p str)> {
        self.context.includes.iter().map(move |include| {
            (&*self.plan.contexts[include.context as usize].name, &*include.text)
        })
    }

    /// Its hints as written: what is matched, and the devices.
    pub fn hints(self) -> impl Iterator<Item = (&'p str, &'p str)> {
        self.context.hints.iter().map(|hint| (&*hint.name, &*hint.text))
    }

    /// Its extensions in the order in which they are tried.
    pub fn extensions(self) -> impl Iterator<Item = ExtensionView<'p>> {
        let plan = self.plan;
        let view = move |id: &_| ExtensionView { plan, extension: plan.extension(*id) };
        self.context.order.iter().map(view)
    }
}

impl<'p> ExtensionView<'p> {
    /// Its name or pattern as written.
    pub fn name(self) -> &'p str {
        &self.extension.name
    }

    /// The name or pattern of the caller that it is for.
    pub fn caller(self) -> Option<&'p str> {
        self.extension.caller.as_ref().map(|caller| &*caller.text)
    }

    /// The file that it stands in.
    pub fn file(self) -> &'p str {
        &self.plan.files[self.extension.file as usize]
    }

    /// The line of its file.
    pub fn line(self) -> u32 {
        self.extension.line
    }

    /// Its steps. One shows as `Dial(SIP/trunk-a/100,30)`.
    pub fn steps(self) -> &'p [Step] {
        &self.extension.steps
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.app.name(), self.data)
    }
}
