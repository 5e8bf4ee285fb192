//! The command line.

use crate::config::{self, Config};
use crate::first_start::{self, FirstStart};
use clap::Parser;
use dialplan::Faults;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// Answers and bridges calls.
///
/// Without --config it can be called from this machine only, on 127.0.0.1:5060, and keeps its files
/// in the user's state folder. The first start makes a configuration there, with two phones, and
/// prints what to type into them; sip:answer@127.0.0.1 is answered.
#[derive(Clone, Debug, Default, Parser)]
#[command(name = "pbx", version)]
pub struct Options {
    /// The configuration.
    #[arg(long, short = 'c', value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Read configuration and dialplan, tell what is wrong, and end.
    #[arg(long)]
    pub check: bool,
    /// Run so many shards, whatever the configuration says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub shards: Option<u8>,
    /// The CPU of each shard's thread, such as 1,2; whatever the configuration says.
    #[arg(long, value_name = "CPUS", value_delimiter = ',')]
    pub pin: Vec<usize>,
    /// Where files lie, whatever the configuration says.
    #[arg(long, value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
}

/// The longest configuration: a thousand trunks fit several times.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// Why there is no configuration.
#[derive(Debug)]
pub enum ConfigFault {
    /// The file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// What is wrong in it.
    Faulty(Faults),
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => {
                write!(f, "{}: cannot be read: {error}", path.display())
            }
            Self::Faulty(faults) => write!(f, "{faults}"),
        }
    }
}

impl std::error::Error for ConfigFault {}

impl Options {
    /// Names the configuration when nobody did: the one in the user's folder, which the first start
    /// makes.
    pub fn or_first_start(&self) -> Result<(Self, Option<FirstStart>), (PathBuf, io::Error)> {
        if self.config.is_some() || self.check {
            return Ok((self.clone(), None));
        }
        let folder = self.data_dir.clone().unwrap_or_else(pbx_control::places::data_dir);
        let first = first_start::prepare(&folder).map_err(|error| (folder, error))?;
        let options = Self { config: Some(first.config.clone()), ..self.clone() };
        Ok((options, Some(first)))
    }

    /// Reads the configuration and applies what the command line says otherwise. Also what a reload
    /// does.
    pub fn configure(&self) -> Result<Config, ConfigFault> {
        let mut config = match &self.config {
            Some(path) => config::parse(path, &read(path)?).map_err(ConfigFault::Faulty)?,
            None => config::embedded().map_err(ConfigFault::Faulty)?,
        };
        if let Some(shards) = self.shards {
            config.shards = shards;
        }
        if !self.pin.is_empty() {
            config.pin.clone_from(&self.pin);
        }
        if let Some(folder) = &self.data_dir {
            config.place(folder.clone());
        }
        Ok(config)
    }
}

fn read(path: &Path) -> Result<String, ConfigFault> {
    let unreadable = |error| ConfigFault::Unreadable(path.to_owned(), error);
    let len = fs::metadata(path).map_err(unreadable)?.len();
    if len > CONFIG_BYTES_MAX {
        let text = format!("a configuration has at most {CONFIG_BYTES_MAX} bytes");
        return Err(unreadable(io::Error::new(io::ErrorKind::FileTooLarge, text)));
    }
    fs::read_to_string(path).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound_and_wins() {
        Options::command().debug_assert();
        let words = ["pbx", "--shards", "2", "--pin", "1,3", "--data-dir", "/d"];
        let config = Options::parse_from(words).configure().unwrap();
        assert_eq!((config.shards, &config.pin[..]), (2, &[1, 3][..]));
        assert_eq!(config.control.socket, PathBuf::from("/d/control.sock"));
        assert!(Options::try_parse_from(["pbx", "--shards", "0"]).is_err());
    }

    #[test]
    fn a_missing_file_is_named() {
        let words = ["pbx", "--config", "/nowhere/pbx.toml"];
        let fault = Options::parse_from(words).configure().unwrap_err().to_string();
        assert!(fault.starts_with("/nowhere/pbx.toml: cannot be read"), "{fault}");
    }
}
