//! What an operator types, to a [`Command`]: Asterisk's nouns, in any case.

use crate::wire::{Command, Stop, View};
use list::ALIASES;

mod list;
mod logger;
mod tab;
mod trace;

pub use list::COMMANDS;
pub use tab::{Names, completions, names_at};

/// What the typed words mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// To be asked of the server.
    Ask(Command),
    /// `help`, with the words behind it: answered here.
    Help(String),
    /// Files to be converted: done here, without a server.
    Import(Import),
}

/// What is converted from Asterisk's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Import {
    /// extensions.conf
    Dialplan,
    /// pjsip.conf or sip.conf
    Endpoints,
}

/// The words are no command. Display tells what would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    message: String,
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Usage {}

/// One command for the list that `help` prints.
pub struct Entry {
    /// How it is typed.
    pub usage: &'static str,
    /// What it does.
    pub summary: &'static str,
    parse: fn(&[&str]) -> Option<Said>,
    head: &'static [&'static str],
}

/// Reads what was typed; `words` may hold blanks inside (one quoted argument of a shell).
pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Said, Usage> {
    let words: Vec<&str> = words.into_iter().flat_map(str::split_whitespace).collect();
    if words.is_empty() {
        return Err(Usage { message: "no command; `help` lists them".to_owned() });
    }
    let words = ours(words);
    for entry in COMMANDS {
        if let Some(rest) = after(entry.head, &words) {
            let wrong = || Usage { message: format!("Usage: {}", entry.usage) };
            return (entry.parse)(rest).ok_or_else(wrong);
        }
    }
    Err(unknown(&words))
}

/// Replaces an Asterisk user's words by ours.
fn ours(words: Vec<&str>) -> Vec<&str> {
    for (theirs, ours) in ALIASES {
        if let Some(rest) = after(theirs, &words) {
            return ours.iter().chain(rest).copied().collect();
        }
    }
    words
}

/// One word, or none.
fn optional(rest: &[&str]) -> Option<Option<String>> {
    match *rest {
        [] => Some(None),
        [word] => Some(Some(word.to_owned())),
        _ => None,
    }
}

fn unregister(rest: &[&str]) -> Option<Said> {
    let (aor, contact) = match *rest {
        [aor] => (aor, None),
        [aor, contact] => (aor, Some(contact.to_owned())),
        _ => return None,
    };
    Some(Said::Ask(Command::Unregister { aor: aor.to_owned(), contact }))
}

fn database_get(rest: &[&str]) -> Option<Said> {
    let [family, key] = *rest else { return None };
    let (family, key) = (family.to_owned(), key.to_owned());
    Some(Said::Ask(Command::DatabaseGet { family, key }))
}

/// The value may hold blanks; several in a row count as one.
fn database_put(rest: &[&str]) -> Option<Said> {
    let [family, key, value @ ..] = rest else { return None };
    if value.is_empty() {
        return None;
    }
    let (family, key) = ((*family).to_owned(), (*key).to_owned());
    Some(Said::Ask(Command::DatabasePut { family, key, value: value.join(" ") }))
}

fn database_delete(rest: &[&str], tree: bool) -> Option<Said> {
    let (family, key) = match *rest {
        [family, key] => (family, Some(key.to_owned())),
        [family] if tree => (family, None),
        _ => return None,
    };
    Some(Said::Ask(Command::DatabaseDelete { family: family.to_owned(), key, tree }))
}

fn after<'w, 'a>(head: &[&str], words: &'w [&'a str]) -> Option<&'w [&'a str]> {
    let (start, rest) = words.split_at_checked(head.len())?;
    head.iter().zip(start).all(|(a, b)| a.eq_ignore_ascii_case(b)).then_some(rest)
}

fn originate(rest: &[&str]) -> Option<Said> {
    let (target, at, caller) = match *rest {
        [target, word, at] if word.eq_ignore_ascii_case("extension") => (target, at, ""),
        [target, word, at, caller] if word.eq_ignore_ascii_case("extension") => {
            (target, at, caller)
        }
        _ => return None,
    };
    let (extension, context) = at.rsplit_once('@')?;
    if extension.is_empty() || context.is_empty() {
        return None;
    }
    Some(Said::Ask(Command::Originate {
        target: target.to_owned(),
        extension: extension.to_owned(),
        context: context.to_owned(),
        caller: caller.to_owned(),
    }))
}

fn set_dnd(rest: &[&str]) -> Option<Said> {
    let [name, word] = *rest else { return None };
    let dnd = match word.to_ascii_lowercase().as_str() {
        "on" => Some(true),
        "off" => Some(false),
        "default" => None,
        _ => return None,
    };
    Some(Said::Ask(Command::SetDnd { name: name.to_owned(), dnd }))
}

/// Lists the commands that share the longest beginning with what was typed.
fn unknown(words: &[&str]) -> Usage {
    let shared = |entry: &&Entry| {
        entry.head.iter().zip(words).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
    };
    let best = COMMANDS.iter().map(|entry| shared(&entry)).max().unwrap_or(0);
    let mut message = format!("No such command '{}'", words.join(" ").escape_debug());
    if best > 0 {
        message.push_str("; there are:");
        for entry in COMMANDS.iter().filter(|entry| shared(entry) == best) {
            message.push_str("\n  ");
            message.push_str(entry.usage);
        }
    } else {
        message.push_str(&nearest(words));
        message.push_str("; `help` lists them");
    }
    Usage { message }
}

/// ` (did you mean 'core'?)`, when a command begins with a word that is nearly the first one.
fn nearest(words: &[&str]) -> String {
    let Some(first) = words.first() else { return String::new() };
    let is_near = |known: &str| {
        let (a, b) = (first.to_ascii_lowercase(), known.as_bytes());
        let a = a.as_bytes();
        let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let rest = |from: &[u8], skip: usize| from.get(same + skip..).unwrap_or_default().to_vec();
        // One letter wrong, missing, too many, or two in the wrong order.
        let swapped = rest(a, 2) == rest(b, 2) && a.get(same) == b.get(same + 1);
        rest(a, 1) == rest(b, 1) || rest(a, 0) == rest(b, 1) || rest(a, 1) == rest(b, 0) || swapped
    };
    let mut heads = COMMANDS.iter().filter_map(|entry| entry.head.first());
    let found = heads.find(|head| is_near(head) && first.len() > 2);
    found.map_or_else(String::new, |head| format!(" (did you mean '{head}'?)"))
}

fn show_channels(rest: &[&str]) -> Option<Said> {
    let view = match *rest {
        [] => View::Table,
        [word] if word.eq_ignore_ascii_case("concise") => View::Concise,
        [word] if word.eq_ignore_ascii_case("verbose") => View::Verbose,
        [word] if word.eq_ignore_ascii_case("count") => View::Count,
        _ => return None,
    };
    Some(Said::Ask(Command::ShowChannels { view }))
}

/// `Some(false)` for nothing, `Some(true)` for the word `seconds`.
fn seconds(rest: &[&str]) -> Option<bool> {
    match *rest {
        [] => Some(false),
        [word] if word.eq_ignore_ascii_case("seconds") => Some(true),
        _ => None,
    }
}

fn show_calls(rest: &[&str]) -> Option<Said> {
    let (uptime, seconds) = match rest {
        [] => (false, false),
        [word, rest @ ..] if word.eq_ignore_ascii_case("uptime") => (true, seconds(rest)?),
        _ => return None,
    };
    Some(Said::Ask(Command::ShowCalls { uptime, seconds }))
}

fn show_uptime(rest: &[&str]) -> Option<Said> {
    Some(Said::Ask(Command::ShowUptime { seconds: seconds(rest)? }))
}

fn stop(rest: &[&str]) -> Option<Said> {
    let how = match *rest {
        [word] if word.eq_ignore_ascii_case("now") => Stop::Now,
        [word] if word.eq_ignore_ascii_case("gracefully") => Stop::Gracefully,
        _ => return None,
    };
    Some(Said::Ask(Command::Stop { how }))
}

fn dialplan_show(rest: &[&str]) -> Option<Said> {
    let (extension, context) = match *rest {
        [] => (None, None),
        [word] => match word.rsplit_once('@') {
            Some((extension, context)) => {
                let named = |text: &str| (!text.is_empty()).then(|| text.to_owned());
                (named(extension), named(context))
            }
            None => (None, Some(word.to_owned())),
        },
        _ => return None,
    };
    Some(Said::Ask(Command::DialplanShow { extension, context }))
}

fn dialplan_test(rest: &[&str]) -> Option<Said> {
    let (at, caller) = match *rest {
        [at] => (at, ""),
        [at, caller] => (at, caller),
        _ => return None,
    };
    let (number, context) = at.rsplit_once('@')?;
    if number.is_empty() || context.is_empty() {
        return None;
    }
    Some(Said::Ask(Command::DialplanTest {
        number: number.to_owned(),
        context: context.to_owned(),
        caller: caller.to_owned(),
    }))
}

fn hangup(rest: &[&str]) -> Option<Said> {
    match *rest {
        [channel] => Some(Said::Ask(Command::Hangup { channel: channel.to_owned() })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Result<Said, String> {
        parse([text]).map_err(|usage| usage.to_string())
    }

    #[test]
    fn words_may_come_in_one_argument_or_many_and_in_any_case() {
        let concise = Said::Ask(Command::ShowChannels { view: View::Concise });
        assert_eq!(said("core show channels concise"), Ok(concise.clone()));
        assert_eq!(parse(["Core", "show", "CHANNELS", "concise"]), Ok(concise));
    }

    #[test]
    fn an_extension_may_hold_an_at_sign() {
        let show = |extension: Option<&str>, context: Option<&str>| {
            Ok(Said::Ask(Command::DialplanShow {
                extension: extension.map(str::to_owned),
                context: context.map(str::to_owned),
            }))
        };
        assert_eq!(said("dialplan show"), show(None, None));
        assert_eq!(said("dialplan show default"), show(None, Some("default")));
        assert_eq!(said("dialplan show 100@default"), show(Some("100"), Some("default")));
        assert_eq!(said("dialplan show a@b@default"), show(Some("a@b"), Some("default")));
        assert_eq!(said("dialplan show 100@"), show(Some("100"), None));
    }

    #[test]
    fn a_half_command_lists_its_completions() {
        let text = said("core show").unwrap_err();
        assert!(text.contains("core show channels [concise|verbose|count]"), "{text}");
        assert!(!text.contains("dialplan"), "{text}");
        assert!(said("frobnicate").unwrap_err().contains("`help`"));
        assert!(said("").is_err());
    }

    #[test]
    fn asterisk_s_words_mean_ours() {
        let show = |name: Option<&str>| {
            Ok(Said::Ask(Command::EndpointShow { name: name.map(str::to_owned) }))
        };
        assert_eq!(said("pjsip show endpoints"), show(None));
        assert_eq!(said("PJSIP show endpoint 1000"), show(Some("1000")));
        assert_eq!(said("sip show peers"), show(None));
        assert_eq!(said("module reload pbx_config"), Ok(Said::Ask(Command::DialplanReload)));
    }

    #[test]
    fn database_commands_take_what_asterisk_s_do() {
        let (family, key) = ("cf".to_owned(), "1000".to_owned());
        let put = Command::DatabasePut { family, key, value: "a b".into() };
        assert_eq!(said("database put cf 1000 a  b"), Ok(Said::Ask(put)));
        assert!(said("database put cf 1000").is_err());
        assert!(said("database del cf").is_err());
        let tree = Command::DatabaseDelete { family: "cf".into(), key: None, tree: true };
        assert_eq!(said("database deltree cf"), Ok(Said::Ask(tree)));
    }

    #[test]
    fn a_word_with_a_slip_is_recognised() {
        assert!(said("cor show calls").unwrap_err().contains("did you mean 'core'?"));
        assert!(said("dailplan show").unwrap_err().contains("did you mean 'dialplan'?"));
        assert!(!said("xyz").unwrap_err().contains("did you mean"));
    }

    #[test]
    fn originate_needs_a_target_and_a_place() {
        let wanted = Command::Originate {
            target: "SIP/1000".into(),
            extension: "100".into(),
            context: "default".into(),
            caller: String::new(),
        };
        assert_eq!(said("channel originate SIP/1000 extension 100@default"), Ok(Said::Ask(wanted)));
        assert!(said("channel originate SIP/1000 100@default").is_err());
        assert!(said("channel originate SIP/1000 extension 100").is_err());
    }

    #[test]
    fn every_command_listed_can_be_reached() {
        for entry in COMMANDS {
            let reached = COMMANDS.iter().find(|other| after(other.head, entry.head).is_some());
            assert_eq!(reached.map(|other| other.usage), Some(entry.usage));
        }
    }
}
