//! `pbx.toml`: what the program is told, and what it means.
//!
//! Two steps. `said` reads the file as it stands: types, units and unknown keys. `mean` fills
//! in what was not said and checks what belongs together. Both go on after a fault, so one run
//! shows them all, each with its place:
//!
//! ```text
//! pbx.toml:3:1: unknown key 'lisen' in [sip] (did you mean 'listen'?)
//!  3 | lisen = ["127.0.0.1:5060"]
//!    | ^^^^^
//! ```
//!
//! Without a file the program runs on loopback with [`DEFAULT_DIALPLAN`].

mod endpoints;
mod logs;
mod mean;
mod plan;
mod said;
mod table;
mod trunks;
mod units;

pub use endpoints::{Endpoint, Group};
pub use logs::{LogFile, LogSyslog, Logs};
pub use mean::{
    Auth, Config, Control, Dns, Limits, PlanSource, Prefix, Records, Sip, Trunk, Trying,
};
pub use plan::{DEFAULT_DIALPLAN, PlanFault, load_plan};
pub use trunks::Peer;

use dialplan::Faults;
use std::path::Path;

/// The configuration that stands in for a missing file.
pub const DEFAULT_CONFIG: &str = include_str!("default.toml");

/// Reads a configuration. `name` is how faults call the file; relative paths in it start at its
/// folder.
pub fn parse(name: &Path, text: &str) -> Result<Config, Faults> {
    let shown = name.display().to_string();
    let mut page = table::Page::new(&shown, text);
    let said = said::read(&mut page);
    let folder = name.parent().unwrap_or_else(|| Path::new(""));
    let config = mean::mean(&said, folder, &mut page);
    page.finish().map(|()| config)
}

/// The configuration that stands in for a missing file: loopback only, files in the user's state
/// folder.
pub fn embedded() -> Result<Config, Faults> {
    let mut config = parse(Path::new("embedded.toml"), DEFAULT_CONFIG)?;
    config.plan = PlanSource::Embedded;
    config.place(pbx_control::places::data_dir());
    Ok(config)
}

#[cfg(test)]
mod tests;
