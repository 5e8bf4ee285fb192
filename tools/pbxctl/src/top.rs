//! `pbxctl top`: the server once a second, until Ctrl-C.
//!
//! On a terminal the screen is drawn anew each time; the terminal's settings stay as they are, so
//! there is nothing to restore however it ends. With `--json` each look is a line. Where standard
//! output is no terminal, one look with rates is printed.

use crate::{Options, complain, connect, show};
use pbx_control::wire::Top;
use pbx_control::{Command, Console, Reply, print};
use std::io::IsTerminal as _;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(1);

/// Home, and everything below cleared.
const CLEAR: &str = "\x1b[H\x1b[J";

/// The exit status.
pub(crate) fn top(options: &Options) -> u8 {
    let mut console = match connect(options) {
        Ok(console) => console,
        Err(status) => return status,
    };
    let goes_on = std::io::stdout().is_terminal() || options.json;
    let mut before: Option<Top> = None;
    loop {
        let now = match look(&mut console) {
            Ok(now) => now,
            Err(status) => return status,
        };
        let mut text = String::new();
        if options.json {
            match serde_json::to_string(&now) {
                Ok(line) => text.extend([line.as_str(), "\n"]),
                Err(error) => eprintln!("pbxctl: {error}"),
            }
        } else if goes_on || before.is_some() {
            if goes_on {
                text.push_str(CLEAR);
            }
            print::top(&now, before.as_ref(), &mut text);
        }
        let status = show(&text);
        if status != 0 || (!goes_on && before.is_some()) {
            return status;
        }
        before = Some(now);
        std::thread::sleep(EVERY);
    }
}

fn look(console: &mut Console) -> Result<Top, u8> {
    let mut found = None;
    let asked = console.ask(Command::Top, |reply| {
        if let Reply::Top(top) = reply {
            found = Some(top.clone());
        } else if let Reply::Refused { reason } = reply {
            eprintln!("{reason}");
        }
    });
    asked.map_err(|problem| complain(&problem, None))?;
    found.ok_or(crate::REFUSED)
}
