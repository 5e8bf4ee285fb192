//! Loads the dialplan that a configuration names and checks what the two must agree on.

use super::{Config, PlanSource};
use dialplan::{Fault, Faults, Plan, suggestion};
use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// The dialplan of a program without a configuration.
pub const DEFAULT_DIALPLAN: &str = include_str!("default_dialplan.toml");

/// Why there is no plan.
#[derive(Debug)]
pub enum PlanFault {
    /// Files that cannot be read.
    Unreadable(Vec<(PathBuf, io::Error)>),
    /// What is wrong in the files, or between them and the configuration.
    Faulty(Faults),
}

impl fmt::Display for PlanFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(files) => {
                for (path, error) in files {
                    writeln!(f, "{}: cannot be read: {error}", path.display())?;
                }
                Ok(())
            }
            Self::Faulty(faults) => faults.fmt(f),
        }
    }
}

impl std::error::Error for PlanFault {}

/// Reads and compiles the plan of `config`.
pub fn load_plan(config: &Config) -> Result<Plan, PlanFault> {
    let plan = match &config.plan {
        PlanSource::Embedded => dialplan::parse(&[("embedded-dialplan.toml", DEFAULT_DIALPLAN)]),
        PlanSource::Files(paths) => {
            let texts = read_all(paths).map_err(PlanFault::Unreadable)?;
            let named: Vec<(String, String)> =
                paths.iter().map(|path| path.display().to_string()).zip(texts).collect();
            let files: Vec<(&str, &str)> =
                named.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            dialplan::parse(&files)
        }
    };
    let plan = plan.map_err(PlanFault::Faulty)?;
    let faults: Faults = disagreements(&plan, config);
    if faults.is_empty() { Ok(plan) } else { Err(PlanFault::Faulty(faults)) }
}

/// Names that the plan dials and nobody has, and contexts that trunks and endpoints enter and the
/// plan does not have.
fn disagreements(plan: &Plan, config: &Config) -> Faults {
    let trunks: HashMap<&str, bool> = config
        .trunks
        .iter()
        .map(|trunk| (trunk.name.as_str(), !trunk.peers.is_empty()))
        .chain(config.endpoints.iter().map(|endpoint| (endpoint.name.as_str(), true)))
        .chain(config.groups.iter().map(|group| (group.name.as_str(), true)))
        .collect();
    let dialled = plan.trunks_referenced().iter().filter_map(|reference| {
        match trunks.get(reference.name()) {
            Some(true) => None,
            Some(false) => {
                Some(reference.fault("this trunk has no `peer`, so it cannot be called"))
            }
            None => {
                let names = config.trunks.iter().map(|trunk| trunk.name.as_str());
                let names = names.chain(config.endpoints.iter().map(|it| it.name.as_str()));
                let guess = suggestion(reference.name(), names);
                let text = format!("there is no trunk, endpoint or group of this name{guess}");
                Some(reference.fault(text))
            }
        }
    });
    let entered = config.trunks.iter().filter(|trunk| !plan.has_context(&trunk.context));
    let entered = entered.filter_map(|trunk| trunk.missing_context.clone());
    let mut told: HashSet<&str> = HashSet::new();
    let homeless = config.endpoints.iter().filter(|it| !plan.has_context(&it.context));
    let homeless = homeless
        .filter(|endpoint| told.insert(&endpoint.context))
        .map(|endpoint| Fault::clone(&endpoint.missing_context));
    dialled.chain(entered).chain(homeless).collect()
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<String>, Vec<(PathBuf, io::Error)>> {
    let (mut texts, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        match read_bounded(path) {
            Ok(text) => texts.push(text),
            Err(error) => errors.push((path.clone(), error)),
        }
    }
    if errors.is_empty() { Ok(texts) } else { Err(errors) }
}

/// Reads one byte more than the parser takes, so that it can refuse the file by its own rule.
fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let most = dialplan::limits::FILE_BYTES_MAX as u64 + 1;
    fs::File::open(path)?.take(most).read_to_string(&mut text)?;
    Ok(text)
}
