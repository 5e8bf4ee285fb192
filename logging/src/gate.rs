//! The gate: which records any sink wants at all.
//!
//! Each sink states its levels in a [`Demand`]. A call site is open up to the highest level that
//! any demand asks for; the answer is kept in the site itself and renewed when a demand, the root
//! verbosity or a debug level changes. `verbose = 0` silences VERBOSE only.
//!
//! The gate is one per process, because call sites are statics.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::foreign;
use crate::level::{Level, Levels, VERBOSITY_MAX};
use crate::site::Site;

static GATE: Mutex<Gate> = Mutex::new(Gate {
    sites: Vec::new(),
    demands: Vec::new(),
    next_demand: 0,
    root: 0,
    debug: 0,
    debug_modules: Vec::new(),
});

struct Gate {
    sites: Vec<&'static Site>,
    demands: Vec<(u64, String, Levels)>,
    next_demand: u64,
    root: u8,
    debug: u8,
    debug_modules: Vec<(String, u8)>,
}

/// One sink's wish, effective as long as it lives.
#[derive(Debug)]
pub struct Demand(u64);

impl Demand {
    /// Opens the gate for `levels` on behalf of the sink `name`.
    pub fn new(name: &str, levels: Levels) -> Self {
        let mut gate = lock();
        gate.next_demand += 1;
        let id = gate.next_demand;
        gate.demands.push((id, name.to_owned(), levels));
        gate.renew();
        Self(id)
    }

    /// Replaces the levels of this sink.
    pub fn change(&self, levels: Levels) {
        let mut gate = lock();
        for demand in gate.demands.iter_mut().filter(|demand| demand.0 == self.0) {
            demand.2 = levels;
        }
        gate.renew();
    }
}

impl Drop for Demand {
    fn drop(&mut self) {
        let mut gate = lock();
        gate.demands.retain(|demand| demand.0 != self.0);
        gate.renew();
    }
}

/// How far the gate is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateView {
    /// The highest verbosity that any sink wants.
    pub verbose: u8,
    /// The root verbosity (`core set verbose N`).
    pub root: u8,
    /// The debug level of modules that have none of their own.
    pub debug: u8,
    /// Debug levels by module.
    pub debug_modules: Vec<(String, u8)>,
    /// Who holds the level up: each sink with its levels.
    pub sinks: Vec<(String, Levels)>,
}

/// Sets the root verbosity, which sinks with a bare `verbose` follow, and returns the former one.
pub fn set_verbose(verbosity: u8) -> u8 {
    let mut gate = lock();
    let before = std::mem::replace(&mut gate.root, verbosity.min(VERBOSITY_MAX));
    gate.renew();
    before
}

/// The root verbosity.
pub fn verbose() -> u8 {
    lock().root
}

/// Sets the debug level of every module without its own, and returns the former one.
pub fn set_debug(level: u8) -> u8 {
    let mut gate = lock();
    let before = std::mem::replace(&mut gate.debug, level.min(VERBOSITY_MAX));
    gate.renew();
    before
}

/// Sets the debug level of a module and those inside it (`pbx_core::endpoint`, or a foreign crate
/// such as `hyper`); `None` takes the setting away. Returns the former setting.
pub fn set_debug_module(module: &str, level: Option<u8>) -> Option<u8> {
    let mut gate = lock();
    let at = gate.debug_modules.iter().position(|(name, _)| name == module);
    let before = at.map(|at| gate.debug_modules.remove(at).1);
    if let Some(level) = level {
        gate.debug_modules.push((module.to_owned(), level.min(VERBOSITY_MAX)));
    }
    gate.renew();
    let modules = gate.debug_modules.clone();
    drop(gate);
    foreign::set_debug_modules(&modules);
    before
}

/// How far the gate is open, and for whom.
pub fn view() -> GateView {
    let gate = lock();
    GateView {
        verbose: gate.verbose(),
        root: gate.root,
        debug: gate.debug,
        debug_modules: gate.debug_modules.clone(),
        sinks: gate.demands.iter().map(|(_, name, levels)| (name.clone(), *levels)).collect(),
    }
}

/// The sites known so far, from number `first` on; number n is the n-th of all.
pub fn sites_from(first: usize) -> Vec<&'static Site> {
    lock().sites.get(first..).unwrap_or_default().to_vec()
}

pub(crate) fn join(site: &'static Site) {
    let mut gate = lock();
    if site.is_unknown() {
        site.set_id(u32::try_from(gate.sites.len()).expect("fewer sites than source lines"));
        gate.sites.push(site);
        site.set_wanted(gate.wanted(site));
    }
}

fn lock() -> MutexGuard<'static, Gate> {
    GATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    fn renew(&self) {
        for site in &self.sites {
            site.set_wanted(self.wanted(site));
        }
    }

    /// The highest verbosity that is wanted from a site.
    fn wanted(&self, site: &Site) -> u8 {
        let asked = self.demands.iter().any(|(_, _, levels)| levels.contains(site.level));
        match site.level {
            Level::Verbose => self.verbose(),
            Level::Debug if asked => self.debug_level(site.module),
            Level::Debug => 0,
            Level::Error | Level::Warning | Level::Notice | Level::Security | Level::Dtmf => {
                u8::from(asked)
            }
        }
    }

    fn verbose(&self) -> u8 {
        self.demands.iter().map(|(_, _, levels)| levels.verbosity(self.root)).max().unwrap_or(0)
    }

    /// The longest module name that `module` lies in decides.
    fn debug_level(&self, module: &str) -> u8 {
        self.debug_modules
            .iter()
            .filter(|(name, _)| {
                module
                    .strip_prefix(name.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
            })
            .max_by_key(|(name, _)| name.len())
            .map_or(self.debug, |(_, level)| *level)
    }
}
