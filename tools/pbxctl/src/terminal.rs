//! The console on a terminal: line editing, history, and TAB for words and for the names that the
//! running PBX knows.
//!
//! A PBX that is started anew while the console is open is found again at the next command. The
//! history lies in the user's state folder, is readable by him alone and has a limit; passwords
//! are never typed here.

use crate::{NO_SERVER, Options, Talk, attached, connect, obey};
use pbx_control::wire::View;
use pbx_control::words::{Names, completions, names_at};
use pbx_control::{Command, Console, Reply, places};
use rustyline::completion::Completer;
use rustyline::config::Configurer as _;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Lines that are remembered.
const HISTORY_MAX: usize = 1_000;

/// Names that one TAB offers: more fit on no screen.
const NAMES_MAX: usize = 200;

/// Reads commands from the terminal until somebody leaves.
pub(crate) fn converse(options: &Options) -> u8 {
    let mut talk = match connect(options) {
        Ok(console) => Some(Talk { console, attached: None }),
        Err(status) => return status,
    };
    let mut editor = match Editor::<Words, FileHistory>::new() {
        Ok(editor) => editor,
        Err(error) => {
            eprintln!("pbxctl: this terminal cannot be used: {error}");
            return crate::USAGE;
        }
    };
    // A limit that cannot be set is no reason not to start.
    let _ = editor.set_max_history_size(HISTORY_MAX);
    editor.set_helper(Some(Words { socket: options.socket.clone() }));
    let history = history_file();
    if let Some(file) = &history {
        let _ = editor.load_history(file);
    }
    if let Err(status) = attach(options, &mut editor, talk.as_mut()) {
        return status;
    }
    let prompt = format!("{}*CLI> ", host());
    let status = loop {
        match editor.readline(&prompt) {
            Ok(line) => {
                let line = line.trim();
                let _ = editor.add_history_entry(line);
                // Whoever was there may have gone; another one may be there now.
                if talk.is_none() && !line.is_empty() {
                    talk = connect(options).ok().map(|console| Talk { console, attached: None });
                    // Its log is worth as much as the other one's.
                    let _ = attach(options, &mut editor, talk.as_mut());
                }
                let Some(open) = talk.as_mut() else { continue };
                match obey(options, open, line) {
                    None => break 0,
                    Some(NO_SERVER) => talk = None,
                    Some(_) => {}
                }
            }
            // Ctrl-C clears the line, Ctrl-D ends.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break 0,
            Err(error) => {
                eprintln!("pbxctl: the terminal: {error}");
                break crate::USAGE;
            }
        }
    };
    if let Some(file) = &history {
        save(&mut editor, file);
    }
    status
}

/// Attaches the log, if the options want it; its lines come above the prompt.
fn attach(
    options: &Options,
    editor: &mut Editor<Words, FileHistory>,
    talk: Option<&mut Talk>,
) -> Result<(), u8> {
    let Some(talk) = talk else { return Ok(()) };
    let Some(attached) = attached::attach(options)? else { return Ok(()) };
    match editor.create_external_printer() {
        Ok(printer) => {
            talk.attached = Some(attached.name.clone());
            attached.print_above(printer);
            Ok(())
        }
        Err(error) => {
            eprintln!("pbxctl: this terminal cannot be used: {error}");
            Err(crate::USAGE)
        }
    }
}

fn save(editor: &mut Editor<Words, FileHistory>, file: &Path) {
    if let Some(folder) = file.parent() {
        let _ = fs::create_dir_all(folder);
    }
    // Without a place for it the history is forgotten.
    if editor.save_history(file).is_ok() {
        let _ = fs::set_permissions(file, fs::Permissions::from_mode(0o600));
    }
}

fn history_file() -> Option<PathBuf> {
    let folder = match std::env::var_os("XDG_STATE_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    Some(folder.join("pbxctl/history"))
}

fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "pbx".to_owned() } else { name.to_owned() }
}

/// What TAB knows.
struct Words {
    socket: Option<PathBuf>,
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..at).unwrap_or(line);
        let start = typed.rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
        let (before, half) = typed.split_at(start);
        let before: Vec<&str> = before.split_whitespace().collect();
        let mut found: Vec<String> =
            completions(&before, half).into_iter().map(|word| format!("{word} ")).collect();
        if let Some(names) = names_at(&before) {
            found.extend(self.names(names, half).into_iter().map(|name| format!("{name} ")));
        }
        Ok((start, found))
    }
}

impl Words {
    /// Names that begin so; none when the server does not say.
    fn names(&self, names: Names, half: &str) -> Vec<String> {
        let path = self.socket.clone().unwrap_or_else(places::socket);
        let Ok(mut console) = Console::connect(&path) else { return Vec::new() };
        let command = match names {
            Names::Endpoints => Command::EndpointShow { name: None },
            Names::Trunks => Command::TrunkShow { name: None },
            Names::Channels => Command::ShowChannels { view: View::Table },
            Names::Families => Command::DatabaseShow { family: None },
            Names::Contexts => Command::DialplanShow { extension: None, context: None },
        };
        let mut found = Vec::new();
        let mut take = |name: &str| {
            let is_it = name.starts_with(half) && !found.iter().any(|known| known == name);
            if is_it && found.len() < NAMES_MAX {
                found.push(name.to_owned());
            }
        };
        let asked = console.ask(command, |reply| names_of(reply, &mut take));
        if asked.is_ok() { found } else { Vec::new() }
    }
}

fn names_of(reply: &Reply, take: &mut dyn FnMut(&str)) {
    if let Reply::Endpoints { endpoints } = reply {
        endpoints.iter().for_each(|it| take(&it.name));
    } else if let Reply::Trunks { trunks } = reply {
        trunks.iter().for_each(|it| take(&it.name));
    } else if let Reply::Channels { channels } = reply {
        channels.iter().for_each(|it| take(&it.name));
    } else if let Reply::Entries { entries } = reply {
        entries.iter().for_each(|it| take(&it.family));
    } else if let Reply::Context(context) = reply {
        take(&context.name);
    }
}

impl Helper for Words {}
impl Hinter for Words {
    type Hint = String;
}
impl Highlighter for Words {}
impl Validator for Words {}
