//! How a number finds its extension in one context.
//!
//! Exact names are a sorted list: one binary search finds the name and, behind it, whether a longer
//! one starts the same. Patterns are a tree with a node per position; the branches of a node stand
//! in Asterisk's order, so the first pattern that a walk meets is the one that comes first of all.
//! A walk visits a node at most once, and allocates nothing.

use smallvec::SmallVec;

use crate::pattern::{Pattern, Position, Set};
use crate::plan::{ExtensionId, Key};

/// The extensions of one name or pattern: those for a caller first.
type Ids = SmallVec<[ExtensionId; 2]>;

const NOTHING: u32 = u32::MAX;

/// Finds extensions of one context.
#[derive(Debug, Default)]
pub(crate) struct Matcher {
    /// Sorted by name (without `-`). Those for one name and different callers stand together.
    exact: Vec<(Box<[u8]>, Ids)>,
    nodes: Vec<Node>,
    branches: Vec<(Set, u32)>,
    ends: Vec<Ids>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Its branches in `branches`.
    first: u32,
    count: u32,
    /// So many of the branches are a single character; they come first, ascending.
    singles: u32,
    /// Indexes into `ends`, or `NOTHING`.
    dot: u32,
    bang: u32,
    end: u32,
}

/// What one context says to the question whether more digits could find more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    Yes,
    /// Nothing here; ask the included contexts.
    Silent,
    /// `!` matched: no more digits are waited for, whatever the included contexts say.
    No,
}

/// Builds from the extensions of a context in the order in which they are tried.
pub(crate) fn build(extensions: &[(&Key, ExtensionId)]) -> Matcher {
    let mut matcher = Matcher::default();
    let mut patterns = Vec::new();
    for (key, id) in extensions {
        match key {
            Key::Exact(name) => match matcher.exact.last_mut() {
                Some((last, ids)) if last == name => ids.push(*id),
                _ => matcher.exact.push((name.clone(), Ids::from_slice(&[*id]))),
            },
            Key::Pattern(pattern) => patterns.push((pattern, *id)),
        }
    }
    if !patterns.is_empty() {
        matcher.add_node(&patterns, 0);
    }
    matcher
}

/// Limits keep every table of a matcher far below 2^32 (`PATTERN_POSITIONS_MAX`).
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NOTHING)
}

impl Matcher {
    /// Adds the node that patterns share which are the same up to `depth`; gives its index.
    fn add_node(&mut self, patterns: &[(&Pattern, ExtensionId)], depth: usize) -> u32 {
        let at = self.nodes.len();
        let first = self.branches.len();
        let mut node = Node {
            first: index(first),
            count: 0,
            singles: 0,
            dot: NOTHING,
            bang: NOTHING,
            end: NOTHING,
        };
        // The patterns are sorted, so those that go on alike stand together.
        let groups = patterns.chunk_by(|a, b| a.0.positions.get(depth) == b.0.positions.get(depth));
        let mut onwards = Vec::new();
        for group in groups {
            let end = index(self.ends.len());
            match group[0].0.positions.get(depth) {
                Some(Position::Set(set)) => {
                    self.branches.push((*set, NOTHING));
                    onwards.push(group);
                    node.count += 1;
                    node.singles += u32::from(set.len() == 1);
                    continue;
                }
                Some(Position::Dot) => node.dot = end,
                Some(Position::Bang) => node.bang = end,
                Some(Position::End) | None => node.end = end,
            }
            self.ends.push(group.iter().map(|(_, id)| *id).collect());
        }
        self.nodes.push(node);
        for (branch, group) in onwards.into_iter().enumerate() {
            self.branches[first + branch].1 = self.add_node(group, depth + 1);
        }
        index(at)
    }

    /// The first extension that the whole number matches and that `takes` its caller.
    pub(crate) fn complete(
        &self,
        number: &[u8],
        takes: &dyn Fn(ExtensionId) -> bool,
    ) -> Option<ExtensionId> {
        if let Ok(at) = self.exact.binary_search_by(|(name, _)| (**name).cmp(number))
            && let Some(id) = self.exact[at].1.iter().find(|id| takes(**id))
        {
            return Some(*id);
        }
        let root = self.nodes.first()?;
        self.walk(root, number, takes)
    }

    fn walk(
        &self,
        node: &Node,
        rest: &[u8],
        takes: &dyn Fn(ExtensionId) -> bool,
    ) -> Option<ExtensionId> {
        let Some((byte, tail)) = rest.split_first() else {
            return self.taken(node.bang, takes).or_else(|| self.taken(node.end, takes));
        };
        self.following(node, *byte)
            .find_map(|next| self.walk(next, tail, takes))
            .or_else(|| self.taken(node.dot, takes))
            .or_else(|| self.taken(node.bang, takes))
    }

    /// The nodes behind one character, in order.
    fn following(&self, node: &Node, byte: u8) -> impl Iterator<Item = &Node> {
        let branches = &self.branches[node.first as usize..(node.first + node.count) as usize];
        let (singles, sets) = branches.split_at(node.singles as usize);
        let single = Set::of(byte);
        let single = singles.binary_search_by(|(set, _)| set.cmp(&single)).map(|at| singles[at].1);
        let sets = sets.iter().filter(move |(set, _)| set.contains(byte)).map(|(_, next)| *next);
        single.into_iter().chain(sets).map(|next| &self.nodes[next as usize])
    }

    fn taken(&self, end: u32, takes: &dyn Fn(ExtensionId) -> bool) -> Option<ExtensionId> {
        self.ends.get(end as usize)?.iter().copied().find(|id| takes(*id))
    }

    /// Whether more digits behind the number could match (more), as Asterisk's MATCHMORE says it.
    pub(crate) fn more(&self, number: &[u8], takes: &dyn Fn(ExtensionId) -> bool) -> More {
        let from = self.exact.partition_point(|(name, _)| **name <= *number);
        let longer = self.exact[from..].iter().take_while(|(name, _)| name.starts_with(number));
        if longer.flat_map(|(_, ids)| ids).any(|id| takes(*id)) {
            return More::Yes;
        }
        self.nodes.first().map_or(More::Silent, |root| self.walk_more(root, number, takes))
    }

    fn walk_more(&self, node: &Node, rest: &[u8], takes: &dyn Fn(ExtensionId) -> bool) -> More {
        let said = match rest.split_first() {
            Some((byte, tail)) => self
                .following(node, *byte)
                .map(|next| self.walk_more(next, tail, takes))
                .find(|said| *said != More::Silent),
            None if self.leads_on(node, takes) => Some(More::Yes),
            None => None,
        };
        if let Some(said) = said {
            return said;
        }
        if self.taken(node.dot, takes).is_some() {
            return More::Yes;
        }
        if self.taken(node.bang, takes).is_some() { More::No } else { More::Silent }
    }

    /// Whether any extension stands behind the branches of a node.
    fn leads_on(&self, node: &Node, takes: &dyn Fn(ExtensionId) -> bool) -> bool {
        let branches = &self.branches[node.first as usize..(node.first + node.count) as usize];
        branches.iter().any(|(_, next)| {
            let next = &self.nodes[*next as usize];
            [next.dot, next.bang, next.end].iter().any(|end| self.taken(*end, takes).is_some())
                || self.leads_on(next, takes)
        })
    }
}
