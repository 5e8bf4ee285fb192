//! The first start without a configuration: a folder with a configuration, a dialplan and two
//! phones whose passwords nobody else knows, ready to be changed.
//!
//! What is there already is never touched. The passwords are printed once, on the terminal, and
//! stand in the configuration, which only its owner can read; they are never logged.

use crate::config::{DEFAULT_CONFIG, DEFAULT_DIALPLAN};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The phones.
const PHONES: [&str; 2] = ["1000", "1001"];

/// Letters and digits that nobody confuses on a phone's display.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Characters of a password: 5 bits each.
const PASSWORD_LENGTH: usize = 16;

/// What was found or made.
#[derive(Debug)]
pub struct FirstStart {
    /// The configuration.
    pub config: PathBuf,
    /// What to type into the phones; `None` when the configuration was there before.
    pub phones: Option<Vec<(&'static str, String)>>,
}

impl FirstStart {
    /// What to type into a phone, as lines for the terminal.
    pub fn words(&self, server: &str) -> String {
        let mut out = String::new();
        let Some(phones) = &self.phones else { return out };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "This is the first start. Two phones can register:");
        let _ = writeln!(out, "  server (domain, registrar)  {server}, over UDP or TCP");
        for (user, password) in phones {
            let _ = writeln!(out, "  user {user}  password {password}");
        }
        let _ = writeln!(out, "Each reaches the other by its user number, `answer` is a test.");
        let file = self.config.display();
        let _ = writeln!(out, "All of this stands in {file}: change it there, and for phones on");
        let _ = writeln!(out, "other machines set `listen` in it to an address that they reach.");
        out
    }
}

/// Finds the configuration in that folder, or makes one.
pub fn prepare(folder: &Path) -> io::Result<FirstStart> {
    let config = folder.join("pbx.toml");
    if config.exists() {
        return Ok(FirstStart { config, phones: None });
    }
    fs::create_dir_all(folder)?;
    let mut phones = Vec::new();
    for user in PHONES {
        phones.push((user, password()?));
    }
    let dialplan = folder.join("dialplan.toml");
    if !dialplan.exists() {
        write_new(&dialplan, 0o640, &(DEFAULT_DIALPLAN.to_owned() + DIALPLAN))?;
    }
    let mut text = String::from("# Made by the first start of `pbx`; yours to change.\n");
    for line in DEFAULT_CONFIG.lines().skip_while(|line| line.starts_with('#')) {
        text.push_str(line);
        text.push('\n');
    }
    text.push_str("\n[server]\ndata_dir = \".\"\n");
    for (user, password) in &phones {
        let _ = write!(
            text,
            "\n[endpoints.{user}]\npassword = \"{password}\"\ncontext = \"default\"\n"
        );
    }
    write_new(&config, 0o600, &text)?;
    Ok(FirstStart { config, phones: Some(phones) })
}

/// The phones call each other.
const DIALPLAN: &str = r#"
# The phones of pbx.toml call each other by their numbers.
[[context.default.exten]]
match = "_1XXX"
steps = ["Dial(SIP/${EXTEN},30)", "Hangup()"]
"#;

fn write_new(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}

fn password() -> io::Result<String> {
    let mut bytes = [0; PASSWORD_LENGTH];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{load_plan, parse};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_first_start_makes_what_the_next_ones_find() {
        let folder = std::env::temp_dir().join(format!("pbx-first-{}", std::process::id()));
        let first = prepare(&folder).unwrap();
        let phones = first.phones.as_ref().unwrap();
        assert_ne!(phones[0].1, phones[1].1);
        assert!(phones.iter().all(|(_, password)| password.len() == PASSWORD_LENGTH));
        let words = first.words("127.0.0.1:5060");
        assert!(words.contains(&format!("user 1000  password {}", phones[0].1)), "{words}");
        let text = fs::read_to_string(&first.config).unwrap();
        let mode = fs::metadata(&first.config).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let config = parse(&first.config, &text).unwrap_or_else(|faults| panic!("{faults}"));
        assert_eq!(config.endpoints.len(), 2);
        assert!(config.sip.listen.iter().all(|address| address.ip().is_loopback()));
        let plan = load_plan(&config).unwrap_or_else(|fault| panic!("{fault}"));
        assert!(plan.find_complete("default", "1001", "").is_some());
        let again = prepare(&folder).unwrap();
        assert!(again.phones.is_none() && again.words("x").is_empty());
        assert_eq!(fs::read_to_string(&again.config).unwrap(), text);
        fs::remove_dir_all(folder).unwrap();
    }
}
