//! The target set of an outbound leg: the places where one callee may be reached, tried in groups
//! (RFC 3261 §16.6, §16.7; for alternatives of one place RFC 3263 §4.3).
//!
//! ```text
//! next group ─► all branches of it are called ─┬─ one answers ──► the others are cancelled
//!      ▲                                       ├─ 6xx ──────────► the others are cancelled, over
//!      └── each has failed ────────────────────┘   none is left ► over, the most telling cause
//! ```
//!
//! A value without I/O: it says what to call and what a failure means; [`super::fork`] does it.
//! Early dialogs of all branches get numbers of their own for the layer above.

use std::collections::VecDeque;

use ::sip::path::Path;
use ::sip::usage::UsageId;
use call::{Cause, EARLY_MAX, Early};
use smallvec::SmallVec;

/// Places of one leg; more are not tried.
pub(super) const TARGETS_MAX: usize = 32;

/// A place where the callee may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The Request-URI.
    pub(super) uri: Box<[u8]>,
    /// The way to the first hop.
    pub(super) path: Path,
    /// Further header lines: Route.
    pub(super) lines: Box<[u8]>,
    /// Targets with the same number are called at once, the lowest number first.
    pub(super) group: u16,
    /// Called only if the group before gave no answer at all (a peer that is down), not if it
    /// refused.
    pub(super) is_spare: bool,
}

impl Target {
    /// A target that stands alone.
    pub(super) fn new(uri: Box<[u8]>, path: Path) -> Self {
        Self { uri, path, lines: Box::default(), group: 0, is_spare: false }
    }
}

/// What a failure of a branch means for its leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// Others may still answer.
    Wait,
    /// The next group is to be called.
    Next,
    /// Nobody is left, or nobody may be called any more.
    Over(Cause),
}

/// See the module.
#[derive(Debug)]
pub(super) struct TargetSet {
    /// In the order of their groups.
    waiting: VecDeque<Target>,
    open: SmallVec<[UsageId; 4]>,
    /// The early dialogs of the branches, by the numbers that the layer above knows.
    earlies: SmallVec<[(UsageId, u8); 4]>,
    best: Option<Cause>,
    /// Whether every failure so far was a peer that did not answer.
    is_dead: bool,
    is_proceeding: bool,
}

impl TargetSet {
    /// A set of which nothing has been called.
    pub(super) fn new(mut targets: Vec<Target>) -> Self {
        targets.sort_by_key(|target| target.group);
        targets.truncate(TARGETS_MAX);
        Self {
            waiting: targets.into(),
            open: SmallVec::new(),
            earlies: SmallVec::new(),
            best: None,
            is_dead: true,
            is_proceeding: false,
        }
    }

    /// The next target of the group at hand; with `None` the group has been called.
    pub(super) fn next(&mut self, group: Option<u16>) -> Option<Target> {
        let first = self.waiting.front()?;
        if group.is_some_and(|group| group != first.group) {
            return None;
        }
        self.waiting.pop_front()
    }

    /// A branch has been called.
    pub(super) fn opened(&mut self, usage: UsageId) {
        self.open.push(usage);
    }

    /// A target could not even be called.
    pub(super) fn not_opened(&mut self, cause: Cause) {
        self.note(cause);
    }

    /// The branches that have no final response.
    pub(super) fn open(&self) -> &[UsageId] {
        &self.open
    }

    /// Whether nobody is called and nobody will be.
    pub(super) fn is_over(&self) -> bool {
        self.open.is_empty() && self.waiting.is_empty()
    }

    /// The number of a branch's early dialog for the layer above.
    pub(super) fn early(&mut self, usage: UsageId, early: u8) -> Early {
        let known = self.earlies.iter().position(|it| *it == (usage, early));
        let number = known.unwrap_or_else(|| {
            if self.earlies.len() < usize::from(EARLY_MAX) {
                self.earlies.push((usage, early));
            }
            self.earlies.len() - 1
        });
        Early(number as u8)
    }

    /// Whether this is the first sign of life of any branch.
    pub(super) fn proceeds(&mut self) -> bool {
        !std::mem::replace(&mut self.is_proceeding, true)
    }

    /// A branch has failed; `is_dead`: it never answered at all.
    pub(super) fn failed(&mut self, usage: UsageId, cause: Cause, is_dead: bool) -> Failed {
        self.open.retain(|it| *it != usage);
        self.is_dead &= is_dead;
        let is_global = matches!(cause.code(), 600..=699);
        self.note(cause);
        if is_global {
            self.waiting.clear();
            return Failed::Over(self.take_best());
        }
        if !self.open.is_empty() {
            return Failed::Wait;
        }
        if !self.is_dead {
            self.waiting.retain(|target| !target.is_spare);
        }
        match self.waiting.is_empty() {
            true => Failed::Over(self.take_best()),
            false => Failed::Next,
        }
    }

    /// The most telling cause.
    pub(super) fn take_best(&mut self) -> Cause {
        self.best.take().unwrap_or(Cause::NO_ROUTE)
    }

    fn note(&mut self, cause: Cause) {
        if self.best.as_ref().is_none_or(|best| cause.rank() < best.rank()) {
            self.best = Some(cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::sip::path::Transport;
    use turn::Slot;

    fn target(name: &str, group: u16, is_spare: bool) -> Target {
        let address = "192.0.2.1:5060".parse().unwrap();
        Target {
            uri: name.as_bytes().into(),
            path: Path { transport: Transport::Udp, local: address, remote: address },
            lines: Box::default(),
            group,
            is_spare,
        }
    }

    fn id(index: u32) -> UsageId {
        UsageId(Slot { index, generation: 1 })
    }

    /// Calls a group; the branches are numbered as they come.
    fn call(set: &mut TargetSet, from: u32) -> Vec<String> {
        let (mut names, mut group) = (Vec::new(), None);
        while let Some(target) = set.next(group) {
            group = Some(target.group);
            set.opened(id(from + names.len() as u32));
            names.push(String::from_utf8(target.uri.into()).unwrap());
        }
        names
    }

    #[test]
    fn groups_are_called_one_after_the_other() {
        let targets = vec![target("c", 2, false), target("a", 1, false), target("b", 1, false)];
        let mut set = TargetSet::new(targets);
        assert_eq!(call(&mut set, 0), ["a", "b"]);
        assert_eq!(set.failed(id(0), Cause::USER_BUSY, false), Failed::Wait);
        assert_eq!(set.failed(id(1), Cause::of(41), false), Failed::Next);
        assert_eq!(call(&mut set, 2), ["c"]);
        let over = set.failed(id(2), Cause::NO_ANSWER, false);
        assert_eq!(over, Failed::Over(Cause::USER_BUSY), "busy tells most");
    }

    #[test]
    fn a_spare_is_called_only_when_nobody_answers() {
        let spares = || vec![target("a", 0, false), target("b", 1, true)];
        let mut set = TargetSet::new(spares());
        call(&mut set, 0);
        assert_eq!(set.failed(id(0), Cause::of(27), true), Failed::Next);
        assert_eq!(call(&mut set, 1), ["b"]);
        let mut set = TargetSet::new(spares());
        call(&mut set, 0);
        let over = set.failed(id(0), Cause::UNALLOCATED, false);
        assert_eq!(over, Failed::Over(Cause::UNALLOCATED));
    }

    #[test]
    fn early_dialogs_of_branches_are_told_apart_up_to_the_limit() {
        let mut set = TargetSet::new(vec![]);
        assert_eq!(set.early(id(1), 0), Early(0));
        assert_eq!(set.early(id(2), 0), Early(1));
        assert_eq!(set.early(id(1), 0), Early(0));
        for early in 1..20 {
            set.early(id(3), early);
        }
        assert_eq!(set.early(id(4), 0), Early(EARLY_MAX - 1));
        assert!(set.proceeds() && !set.proceeds());
    }

    #[test]
    fn the_set_is_bounded() {
        let many = (0..100).map(|_| target("m", 0, false)).collect();
        assert_eq!(call(&mut TargetSet::new(many), 0).len(), TARGETS_MAX);
    }
}
