//! The operator's console: asks a running PBX over its control socket.
//!
//! ```text
//! pbxctl core show channels concise        one command
//! pbxctl -rx 'core show channels concise'  the same, typed as for Asterisk
//! pbxctl                                   commands from the terminal, with history and TAB,
//!                                          or from a pipe, one a line
//! pbxctl -vvv                              the same, with lines of the log at verbosity 3
//! pbxctl --follow -vvv                     lines alone, until it is stopped
//! pbxctl top                               calls, CPU, lost lines, once a second
//! pbxctl dialplan import extensions.conf   converts a file of Asterisk, without a server
//! ```
//!
//! Exit status: 0 done, 1 refused by the server, 2 not a command, 3 no server.

mod attached;
mod import;
mod terminal;
mod top;

use clap::Parser;
use pbx_control::words::{Said, parse};
use pbx_control::{Command, Console, Problem, Reply, places, print};
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

const REFUSED: u8 = 1;
const USAGE: u8 = 2;
const NO_SERVER: u8 = 3;

/// Asks a running PBX. Without a command, reads commands from standard input.
#[derive(Parser)]
#[command(
    version,
    after_help = "`pbxctl help` lists the commands.\n\
    `pbxctl dialplan import FILE` and `pbxctl endpoint import FILE` convert Asterisk's files.\n\
    Exit status: 0 done, 1 refused, 2 not a command, 3 no server."
)]
struct Options {
    /// The PBX's control socket [default: $PBX_SOCKET, /run/pbx/control.sock or the user's].
    #[arg(long, short = 's', value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Answer in JSON: one value a line, the last one is {"reply":"end"} or "refused".
    #[arg(long)]
    json: bool,
    /// Accepted for those who type `asterisk -rx`: pbxctl always connects to a running PBX.
    #[arg(short = 'r', hide_short_help = true)]
    remote: bool,
    /// Show the log while commands are typed: its own verbosity, once for each v.
    #[arg(short = 'v', action = clap::ArgAction::Count)]
    louder: u8,
    /// The same as a number: 0 to 10.
    #[arg(long, value_name = "N", conflicts_with = "louder",
        value_parser = clap::value_parser!(u8).range(0..=10))]
    verbose: Option<u8>,
    /// Show the log alone, and read no commands.
    #[arg(long, conflicts_with_all = ["words", "execute"])]
    follow: bool,
    /// A command as one argument, as in `asterisk -rx`; may be given several times.
    #[arg(short = 'x', value_name = "COMMAND", conflicts_with = "words")]
    execute: Vec<String>,
    /// A command, word by word.
    #[arg(trailing_var_arg = true)]
    words: Vec<String>,
}

impl Options {
    /// The verbosity of the attached console; `None`: none is wanted.
    fn verbosity(&self) -> Option<u8> {
        let louder = (self.louder > 0).then_some(self.louder);
        self.verbose.or(louder).or(self.follow.then_some(0))
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let words: Vec<&str> = options.words.iter().map(String::as_str).collect();
    let mut lines = options.execute.iter();
    let status = if let Some(first) = lines.next() {
        // The first that fails is the last.
        let mut status = once(&options, &[first]);
        for line in lines {
            if status == 0 {
                status = once(&options, &[line]);
            }
        }
        status
    } else if options.follow {
        match attached::attach(&options) {
            Ok(Some(attached)) => attached.copy(),
            Ok(None) => 0,
            Err(status) => status,
        }
    } else if words == ["top"] {
        top::top(&options)
    } else if words.is_empty() {
        converse(&options)
    } else {
        once(&options, &words)
    };
    ExitCode::from(status)
}

fn connect(options: &Options) -> Result<Console, u8> {
    let path = options.socket.clone().unwrap_or_else(places::socket);
    Console::connect(&path).map_err(|problem| complain(&problem, Some(&path)))
}

fn complain(problem: &Problem, path: Option<&PathBuf>) -> u8 {
    match path {
        Some(path) => eprintln!("pbxctl: {}: {problem}", path.display()),
        None => eprintln!("pbxctl: {problem}"),
    }
    NO_SERVER
}

fn once(options: &Options, words: &[&str]) -> u8 {
    match parse(words.iter().copied()) {
        Ok(Said::Import(what)) => import::run(what, words),
        Ok(Said::Help(words)) => show(&print::help(&words)),
        Ok(Said::Ask(command)) => match connect(options) {
            Ok(mut console) => ask(&mut console, command, options.json),
            Err(status) => status,
        },
        Err(usage) => {
            eprintln!("{usage}");
            USAGE
        }
    }
}

/// Reads commands until the input ends or someone types `exit`. From a terminal a failing command
/// is no reason to leave; from a pipe the first failure ends it, so that a script notices.
fn converse(options: &Options) -> u8 {
    if std::io::stdin().is_terminal() {
        return terminal::converse(options);
    }
    let mut console = match connect(options) {
        Ok(console) => Talk { console, attached: None },
        Err(status) => return status,
    };
    match attached::attach(options) {
        Ok(Some(attached)) => {
            console.attached = Some(attached.name.clone());
            attached.copy_beside();
        }
        Ok(None) => {}
        Err(status) => return status,
    }
    for line in std::io::stdin().lock().lines() {
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                eprintln!("pbxctl: standard input: {error}");
                return USAGE;
            }
        };
        match obey(options, &mut console, line.trim()) {
            Some(0) => {}
            Some(status) => return status,
            None => return 0,
        }
    }
    0
}

/// A connection for commands, and the console that is attached beside it.
struct Talk {
    console: Console,
    attached: Option<String>,
}

/// Does what a line says; `None`: it says that this is enough.
fn obey(options: &Options, talk: &mut Talk, line: &str) -> Option<u8> {
    match line {
        "" => Some(0),
        "exit" | "quit" => None,
        text => Some(match parse([text]) {
            Ok(Said::Help(words)) => show(&print::help(&words)),
            Ok(Said::Import(what)) => import::run(what, &[text]),
            Ok(Said::Ask(mut command)) => {
                if let Some(name) = &talk.attached {
                    command.typed_in(name);
                }
                ask(&mut talk.console, command, options.json)
            }
            Err(usage) => {
                eprintln!("{usage}");
                USAGE
            }
        }),
    }
}

fn ask(console: &mut Console, command: Command, json: bool) -> u8 {
    let mut printer = print::Printer::new(&command);
    let mut refused = false;
    let mut text = String::new();
    let mut status = 0;
    let asked = console.ask(command, |reply| {
        text.clear();
        refused |= matches!(reply, Reply::Refused { .. });
        if json {
            match serde_json::to_string(reply) {
                Ok(line) => text.extend([line.as_str(), "\n"]),
                Err(error) => eprintln!("pbxctl: {error}"),
            }
        } else if let Reply::Refused { reason } = reply {
            eprintln!("{reason}");
        } else {
            printer.print(reply, &mut text);
        }
        status = status.max(show(&text));
    });
    match asked {
        Err(problem) => complain(&problem, None),
        Ok(()) if refused => REFUSED,
        Ok(()) => status,
    }
}

/// A reader that has gone away (`pbxctl ... | head`) is no fault.
fn show(text: &str) -> u8 {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("pbxctl: standard output: {error}");
            REFUSED
        }
        Ok(()) | Err(_) => 0,
    }
}
