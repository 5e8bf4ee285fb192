//! What was said becomes a plan: contexts find their includes, extensions their order, and every
//! Goto that is plain text must lead somewhere.

use std::collections::BTreeMap;

use crate::app::Step;
use crate::fault::Gathered;
use crate::limits::{INCLUDES_MAX, PATTERN_POSITIONS_MAX};
use crate::matcher;
use crate::plan::{
    Context, Extension, ExtensionId, Include, Key, Plan, Reach, TrunkReference, step_at,
};
use crate::read::file::{
    Draft, DraftContext, DraftExtension, DraftGoto, DraftInclude, Location, first_places,
};
use crate::read::known::{shown, suggestion};
use crate::time::Times;

/// Builds the plan; what is wrong goes to `gathered`, and then the plan is of no use.
pub(crate) fn link(draft: Draft, gathered: &mut Gathered<'_>) -> Plan {
    let mut linker = Linker {
        plan: Plan {
            files: gathered.sources.iter().map(|source| source.name.into()).collect(),
            trunks: trunks(&draft, gathered),
            ..Plan::default()
        },
        gathered,
        gotos: Vec::new(),
        positions: 0,
        // What refers to something that was left out for its own faults is not a fault itself.
        whole: !draft.broken && !draft.incomplete,
    };
    let Draft { globals, contexts, broken, .. } = draft;
    linker.plan.globals = globals.into_iter().collect();
    linker.plan.by_name = (0..contexts.len()).map(index).collect();
    linker.plan.by_name.sort_by(|a, b| name(&contexts, *a).cmp(name(&contexts, *b)));
    let mut contexts = contexts;
    let drafts: Vec<_> = contexts.iter_mut().map(|it| std::mem::take(&mut it.includes)).collect();
    let includes = linker.resolve_includes(&contexts, &drafts, broken);
    for context in contexts {
        linker.add_context(context);
    }
    if linker.find_circle(&includes) {
        linker.whole = false;
    } else {
        linker.set_searches(&includes);
    }
    linker.check_gotos();
    linker.plan
}

struct Linker<'g, 'a> {
    plan: Plan,
    gathered: &'g mut Gathered<'a>,
    /// With the extension that each stands in.
    gotos: Vec<(ExtensionId, DraftGoto)>,
    positions: usize,
    whole: bool,
}

type Includes<'d> = Vec<Vec<(u32, &'d DraftInclude)>>;

/// `CONTEXTS_MAX` and `EXTENSIONS_MAX` keep every index far below 2^32.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn name(contexts: &[DraftContext], at: u32) -> &str {
    &contexts[at as usize].name
}

fn trunks(draft: &Draft, gathered: &Gathered<'_>) -> Vec<TrunkReference> {
    first_places(draft)
        .into_iter()
        .map(|(name, at)| TrunkReference { name, line: gathered.sources[at.file].line(at.range) })
        .collect()
}

impl Linker<'_, '_> {
    fn wrong(&mut self, at: &Location, message: impl Into<String>) {
        self.gathered.add(at.file, at.range.clone(), message);
    }

    fn resolve_includes<'d>(
        &mut self,
        contexts: &[DraftContext],
        drafts: &'d [Vec<DraftInclude>],
        broken: bool,
    ) -> Includes<'d> {
        let by_name: BTreeMap<&str, u32> =
            contexts.iter().enumerate().map(|(at, context)| (&*context.name, index(at))).collect();
        let mut all = Vec::with_capacity(contexts.len());
        for drafts in drafts {
            let mut includes: Vec<(u32, &DraftInclude)> = Vec::new();
            for draft in drafts {
                let (name, at) = (&draft.name, &draft.at);
                match by_name.get(&**name) {
                    Some(known)
                        if includes.iter().any(|(other, before)| {
                            other == known && before.times == draft.times
                        }) =>
                    {
                        let message = format!("the context '{}' is included twice", shown(name));
                        self.wrong(at, message);
                    }
                    Some(known) => includes.push((*known, draft)),
                    None if broken => {}
                    None if self.gathered.is_full() => self.wrong(at, String::new()),
                    None => {
                        let guess = suggestion(name, by_name.keys().copied());
                        let message = format!("there is no context '{}'{guess}", shown(name));
                        self.wrong(at, message);
                        self.whole = false;
                    }
                }
            }
            all.push(includes);
        }
        all
    }

    fn add_context(&mut self, draft: DraftContext) {
        let at = index(self.plan.contexts.len());
        let mut extensions = draft.extensions;
        // Stable: of two that are the same, the first in the file comes first. Those for a caller
        // come before the one for all others.
        extensions.sort_by(|a, b| {
            (&a.key, a.caller.is_none(), &a.caller).cmp(&(&b.key, b.caller.is_none(), &b.caller))
        });
        for pair in extensions.windows(2) {
            if pair[0].key == pair[1].key
                && pair[0].caller.as_ref().map(|caller| &caller.key)
                    == pair[1].caller.as_ref().map(|caller| &caller.key)
            {
                self.twice(&pair[0], &pair[1]);
            }
        }
        let first = self.plan.extensions.len();
        for extension in extensions {
            self.add_extension(at, extension);
        }
        let order: Vec<ExtensionId> =
            (first..self.plan.extensions.len()).map(|at| ExtensionId(index(at))).collect();
        let keys: Vec<(&Key, ExtensionId)> =
            order.iter().map(|id| (&self.plan.extension(*id).key, *id)).collect();
        let matcher = matcher::build(&keys);
        let mut hints = draft.hints;
        hints.sort_by(|a, b| a.key.cmp(&b.key));
        self.plan.contexts.push(Context {
            name: draft.name,
            includes: Vec::new(),
            order,
            matcher,
            search: Vec::new(),
            hints,
        });
    }

    fn twice(&mut self, first: &DraftExtension, second: &DraftExtension) {
        let source = &self.gathered.sources[first.at.file];
        let line = source.line_number(first.at.range.start);
        let mut message = format!(
            "the extension '{}' is in this context already: {}:{line}",
            shown(&second.name),
            source.name
        );
        if first.name != second.name {
            message.push_str(&format!(" '{}' matches the same numbers", shown(&first.name)));
        }
        self.wrong(&second.at, message);
    }

    fn add_extension(&mut self, context: u32, draft: DraftExtension) {
        let id = ExtensionId(index(self.plan.extensions.len()));
        if let Key::Pattern(pattern) = &draft.key {
            let before = self.positions;
            self.positions += pattern.positions.len();
            if before <= PATTERN_POSITIONS_MAX && self.positions > PATTERN_POSITIONS_MAX {
                let message = format!(
                    "the patterns of a plan have at most {PATTERN_POSITIONS_MAX} positions"
                );
                self.wrong(&draft.at, message);
            }
        }
        if !draft.broken {
            self.gotos.extend(draft.gotos.into_iter().map(|goto| (id, goto)));
        }
        self.whole &= !draft.broken;
        self.plan.has_last_steps |= matches!(&draft.key, Key::Exact(name) if **name == *b"h");
        // As text: one that only looks so costs a copy of the header lines and no more.
        let reads = |step: &Step| step.data.to_ascii_uppercase().contains("SIP_HEADER(");
        self.plan.reads_headers |= draft.steps.iter().any(reads);
        let source = &self.gathered.sources[draft.at.file];
        self.plan.extensions.push(Extension {
            context,
            file: index(draft.at.file),
            line: source.line_number(draft.at.range.start),
            name: draft.name,
            key: draft.key,
            caller: draft.caller,
            steps: draft.steps.into(),
        });
    }

    /// Reports contexts that include themselves; true when there is one.
    fn find_circle(&mut self, includes: &Includes<'_>) -> bool {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; includes.len()];
        let mut found = false;
        for start in 0..includes.len() {
            if marks[start] != Mark::New {
                continue;
            }
            // A way of contexts, each with the number of its next include.
            let mut way = vec![(start, 0)];
            marks[start] = Mark::Open;
            while let Some((at, next)) = way.last_mut() {
                let Some((to, draft)) = includes[*at].get(*next) else {
                    marks[*at] = Mark::Done;
                    way.pop();
                    continue;
                };
                *next += 1;
                let to = *to as usize;
                match marks[to] {
                    Mark::Done => {}
                    Mark::New => {
                        marks[to] = Mark::Open;
                        way.push((to, 0));
                    }
                    Mark::Open => {
                        found = true;
                        let message = self.circle(&way, to);
                        self.wrong(&draft.at, message);
                    }
                }
            }
        }
        found
    }

    fn circle(&self, way: &[(usize, usize)], to: usize) -> String {
        let from = way.iter().position(|(at, _)| *at == to).unwrap_or(0);
        let shown: Vec<&str> = way[from..]
            .iter()
            .map(|(at, _)| *at)
            .chain([to])
            .map(|at| &*self.plan.contexts[at].name)
            .collect();
        if shown.len() > 12 {
            return format!("the context '{}' includes itself", shown[0]);
        }
        format!("the context '{}' includes itself: {}", shown[0], shown.join(" > "))
    }

    fn set_searches(&mut self, includes: &Includes<'_>) {
        for (at, own) in includes.iter().enumerate() {
            let mut search = Vec::new();
            if !reach(includes, index(at), &mut Vec::new(), &mut search) {
                self.whole = false;
                if let Some((_, first)) = own.first() {
                    let message = format!(
                        "the context '{}' reaches more than {INCLUDES_MAX} contexts",
                        shown(&self.plan.contexts[at].name)
                    );
                    self.wrong(&first.at, message);
                }
            }
            self.plan.has_times |= own.iter().any(|(_, draft)| draft.times.is_some());
            let context = &mut self.plan.contexts[at];
            context.search = search;
            context.includes = own
                .iter()
                .map(|(to, draft)| Include {
                    context: *to,
                    times: draft.times.clone(),
                    text: draft.text.clone(),
                })
                .collect();
        }
    }

    fn check_gotos(&mut self) {
        let mut reached_from = vec![Vec::new(); self.plan.contexts.len()];
        for (at, context) in self.plan.contexts.iter().enumerate() {
            for reached in &context.search {
                reached_from[reached.context as usize].push(index(at));
            }
        }
        for (id, goto) in std::mem::take(&mut self.gotos) {
            let checked = match goto.number {
                None => self.check_step(id, &goto),
                Some(_) if self.whole => self.check_number(id, &goto, &reached_from),
                Some(_) => Ok(()),
            };
            if let Err((place, message)) = checked {
                self.wrong(&place, message);
            }
        }
    }

    /// A label or number in the extension.
    fn check_step(&self, id: ExtensionId, goto: &DraftGoto) -> Result<(), (Location, String)> {
        let Some(step) = goto.target.step.as_fixed() else { return Ok(()) };
        let steps = self.plan.steps(id);
        if step_at(steps, step).is_some() {
            return Ok(());
        }
        let extension = shown(self.plan.name(id));
        let message = if step.parse::<usize>().is_ok() {
            format!(
                "the extension '{extension}' has no step {step}; its steps are 1 to {}",
                steps.len()
            )
        } else {
            let labels = steps.iter().filter_map(|step| step.label.as_deref());
            let guess = suggestion(step, labels);
            format!("the extension '{extension}' has no label '{}'{guess}", shown(step))
        };
        Err((goto.step.clone(), message))
    }

    /// Another extension. Without a context it may be in any context that this step can run in.
    fn check_number(
        &self,
        id: ExtensionId,
        goto: &DraftGoto,
        reached_from: &[Vec<u32>],
    ) -> Result<(), (Location, String)> {
        let own = self.plan.extension(id).context;
        let (starts, context) = match &goto.target.context {
            None => (reached_from[own as usize].clone(), &*self.plan.contexts[own as usize].name),
            Some(context) => {
                let Some(context) = context.as_fixed() else { return Ok(()) };
                let Some(at) = self.plan.context_index(context) else {
                    let guess = suggestion(context, self.plan.contexts());
                    let place = goto.context.clone().unwrap_or_else(|| goto.step.clone());
                    return Err((
                        place,
                        format!("there is no context '{}'{guess}", shown(context)),
                    ));
                };
                (vec![at], context)
            }
        };
        let Some(number) = goto.target.number.as_ref().and_then(|number| number.as_fixed()) else {
            return Ok(());
        };
        let mut found = starts.iter().filter_map(|start| self.plan.find_any(*start, number));
        let Some(first) = found.next() else {
            let place = goto.number.clone().unwrap_or_else(|| goto.step.clone());
            let message = format!(
                "there is no extension '{}' in context '{}'",
                shown(number),
                shown(context)
            );
            return Err((place, message));
        };
        // With a match on the caller the extension is decided in the call.
        let fits = |id: ExtensionId| {
            self.plan.extension(id).caller.is_some() || self.check_step(id, goto).is_ok()
        };
        if fits(first) || found.any(fits) { Ok(()) } else { self.check_step(first, goto) }
    }
}

/// Lists all contexts that `from` reaches, depth first; false when they are too many. A context is
/// listed once, and once more for each way to it that is open at other times only.
fn reach(
    includes: &Includes<'_>,
    from: u32,
    when: &mut Vec<Times>,
    search: &mut Vec<Reach>,
) -> bool {
    let is_known =
        |known: &Reach| known.context == from && known.when.iter().all(|it| when.contains(it));
    if search.iter().any(is_known) {
        return true;
    }
    if search.len() == INCLUDES_MAX {
        return false;
    }
    search.push(Reach { context: from, when: when.clone() });
    includes[from as usize].iter().all(|(to, draft)| {
        when.extend(draft.times.clone());
        let is_room = reach(includes, *to, when, search);
        if draft.times.is_some() {
            when.pop();
        }
        is_room
    })
}
