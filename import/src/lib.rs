//! Asterisk's configuration to this PBX's: `extensions.conf` to a dialplan, `pjsip.conf` and
//! `sip.conf` to endpoints and trunks.
//!
//! ```text
//! text ──► ini (sections, templates, includes) ──► extensions ──► plan  ──► TOML
//!                                              └─► pjsip, sip ──► accounts ─┘  + what is left
//! ```
//!
//! Nothing is dropped in silence: what has no counterpart is listed with its line and the reason,
//! and stands as a comment where it belongs in the output. What the dialplan knows is asked of
//! [`dialplan::parse`], so that no list of applications and functions can go stale here.
//!
//! A step that cannot be converted keeps its place, so that the numbers of the others hold. It ends
//! the call, for what follows may rely on it (`Authenticate`, a condition); only what Asterisk
//! would have gone on from in any case (`Playback`, `MixMonitor`) does nothing.
//!
//! Old forms become those of today: `App,a|b` and `App(a|b)` get parentheses and commas, a macro
//! becomes a subroutine, a global variable that holds a whole target of Dial is written out.
//!
//! Of Asterisk's ways these are not followed: a priority that is missing in an extension is not
//! looked for in a pattern that matches the same number, and a global variable has its value as
//! it is at the end of `[globals]`.

mod accounts;
mod extensions;
mod ini;
pub mod limits;
mod macros;
mod mask;
mod names;
mod options;
mod pjsip;
mod plan;
mod report;
mod sip;
mod steps;
mod uri;
mod values;
mod write;

pub use report::{Converted, Remark};

/// Gives the files that an `#include` names, each a name and a text: `(the file that says so, what
/// it says)`. An error says why there is none.
pub type Include<'a> = dyn FnMut(&str, &str) -> Result<Vec<(String, String)>, String> + 'a;

/// Converts an `extensions.conf`. `name` is for messages only.
pub fn dialplan(name: &str, text: &str, include: &mut Include<'_>) -> Converted {
    let (sections, mut report) = ini::read(name, text, include);
    let draft = extensions::read(&sections, &mut report);
    let toml = plan::write(draft, &mut report);
    report.finish(toml)
}

/// Converts a `pjsip.conf` or a `sip.conf`; its sections tell which of the two it is.
pub fn endpoints(name: &str, text: &str, include: &mut Include<'_>) -> Converted {
    let (sections, mut report) = ini::read(name, text, include);
    let accounts = if pjsip::is(&sections) {
        pjsip::read(&sections, &mut report)
    } else {
        sip::read(&sections, &mut report)
    };
    let toml = accounts::write(accounts, &mut report);
    report.finish(toml)
}

/// The text of a file: UTF-8, or else Latin-1, in which every byte is a character.
pub fn decode(bytes: Vec<u8>) -> String {
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => error.into_bytes().into_iter().map(char::from).collect(),
    };
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}
