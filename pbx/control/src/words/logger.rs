//! The words about the log: `logger ...` and `core set verbose`.

use super::Said;
use crate::wire::{Command, LogFilter, LoggerAsk};

/// `logger show ...` and the like, without anything behind.
pub(super) fn plain(rest: &[&str], ask: LoggerAsk) -> Option<Said> {
    rest.is_empty().then(|| said(ask))
}

pub(super) fn add(rest: &[&str]) -> Option<Said> {
    let [name, levels @ ..] = rest else { return None };
    // Blanks between the levels are as good as commas.
    let levels = levels.join(",");
    (!levels.is_empty()).then(|| said(LoggerAsk::Add { name: (*name).to_owned(), levels }))
}

pub(super) fn remove(rest: &[&str]) -> Option<Said> {
    let [name] = *rest else { return None };
    Some(said(LoggerAsk::Remove { name: name.to_owned() }))
}

pub(super) fn rotate(rest: &[&str]) -> Option<Said> {
    super::optional(rest).map(|name| said(LoggerAsk::Rotate { name }))
}

pub(super) fn set_level(rest: &[&str]) -> Option<Said> {
    let [level, word] = *rest else { return None };
    Some(said(LoggerAsk::SetLevel { level: level.to_owned(), is_on: on_off(word)? }))
}

pub(super) fn filter(rest: &[&str]) -> Option<Said> {
    let filter = match *rest {
        [word] if word.eq_ignore_ascii_case("off") => LogFilter::Off,
        [word, id] if word.eq_ignore_ascii_case("call") => LogFilter::Call { call: id.to_owned() },
        [word, text] if word.eq_ignore_ascii_case("endpoint") => {
            LogFilter::Text { text: text.to_owned() }
        }
        [word, ref levels @ ..] if word.eq_ignore_ascii_case("level") && !levels.is_empty() => {
            LogFilter::Levels { levels: levels.join(",") }
        }
        _ => return None,
    };
    Some(said(LoggerAsk::Filter(filter)))
}

pub(super) fn follow(rest: &[&str]) -> Option<Said> {
    let call = match *rest {
        [word] if word.eq_ignore_ascii_case("off") => None,
        [word, id] if word.eq_ignore_ascii_case("call") => Some(id.to_owned()),
        _ => return None,
    };
    Some(said(LoggerAsk::Follow { call }))
}

pub(super) fn set_verbose(rest: &[&str]) -> Option<Said> {
    let (silent, rest) = match rest {
        [rest @ .., last] if last.eq_ignore_ascii_case("silent") => (true, rest),
        _ => (false, rest),
    };
    let (at_least, level) = match *rest {
        [level] => (false, level),
        [word, level] if word.eq_ignore_ascii_case("atleast") => (true, level),
        _ => return None,
    };
    let level = level_of(level)?;
    Some(Said::Ask(Command::SetVerbose { level, at_least, silent, console: None }))
}

pub(super) fn set_debug(rest: &[&str]) -> Option<Said> {
    let (at_least, rest) = match rest {
        [word, rest @ ..] if word.eq_ignore_ascii_case("atleast") => (true, rest),
        _ => (false, rest),
    };
    let (level, module) = match *rest {
        [level] => (level, None),
        [level, module] => (level, Some(module.to_owned())),
        _ => return None,
    };
    Some(Said::Ask(Command::SetDebug { level: level_of(level)?, at_least, module }))
}

fn said(ask: LoggerAsk) -> Said {
    Said::Ask(Command::Logger { console: None, ask })
}

fn level_of(word: &str) -> Option<u8> {
    if word.eq_ignore_ascii_case("off") { Some(0) } else { word.parse().ok() }
}

fn on_off(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::parse;

    fn ask(line: &str) -> Result<LoggerAsk, String> {
        match parse([line]) {
            Ok(Said::Ask(Command::Logger { console: None, ask })) => Ok(ask),
            Ok(other) => panic!("{line}: {other:?}"),
            Err(usage) => Err(usage.to_string()),
        }
    }

    #[test]
    fn asterisk_s_words_about_the_log_are_known() {
        assert_eq!(ask("logger show channels"), Ok(LoggerAsk::ShowChannels));
        assert_eq!(ask("Logger Rotate"), Ok(LoggerAsk::Rotate { name: None }));
        let name = || "debug.log".to_owned();
        let add = LoggerAsk::Add { name: name(), levels: "notice,verbose(5)".into() };
        assert_eq!(ask("logger add channel debug.log notice verbose(5)"), Ok(add.clone()));
        assert_eq!(ask("logger add channel debug.log notice,verbose(5)"), Ok(add));
        assert_eq!(ask("logger remove channel debug.log"), Ok(LoggerAsk::Remove { name: name() }));
        let level = LoggerAsk::SetLevel { level: "DTMF".into(), is_on: true };
        assert_eq!(ask("logger set level DTMF on"), Ok(level));
        assert!(ask("logger add channel x").unwrap_err().starts_with("Usage: logger add"));
        assert!(ask("logger set level DTMF maybe").is_err());
    }

    #[test]
    fn a_call_is_named_as_lines_and_channels_name_it() {
        let follow = |call: &str| Ok(LoggerAsk::Follow { call: Some(call.to_owned()) });
        for id in ["C-0000001a", "[C-0000001a]", "SIP/alice-0000001a"] {
            assert_eq!(ask(&format!("logger follow call {id}")), follow(id), "{id}");
        }
        assert_eq!(ask("logger follow off"), Ok(LoggerAsk::Follow { call: None }));
        assert!(ask("logger follow call").is_err());
        let filter = LoggerAsk::Filter(LogFilter::Call { call: "C-0000001a".into() });
        assert_eq!(ask("logger filter call C-0000001a"), Ok(filter));
        let filter = LoggerAsk::Filter(LogFilter::Levels { levels: "notice,warning".into() });
        assert_eq!(ask("logger filter level notice warning"), Ok(filter));
    }

    #[test]
    fn levels_are_numbers_or_off() {
        let set = |line: &str| parse([line]).map_err(|usage| usage.to_string());
        let verbose = |level, at_least, silent| {
            Ok(Said::Ask(Command::SetVerbose { level, at_least, silent, console: None }))
        };
        assert_eq!(set("core set verbose 3"), verbose(3, false, false));
        assert_eq!(set("core set verbose off"), verbose(0, false, false));
        assert_eq!(set("core set verbose atleast 5 silent"), verbose(5, true, true));
        let usage = set("core set verbose loud").unwrap_err();
        assert!(usage.starts_with("Usage: core set verbose"), "{usage}");
        assert!(set("core set verbose 300").is_err());
        let debug = |level, at_least, module: Option<&str>| {
            let module = module.map(str::to_owned);
            Ok(Said::Ask(Command::SetDebug { level, at_least, module }))
        };
        assert_eq!(set("core set debug 3"), debug(3, false, None));
        assert_eq!(set("core set debug atleast 3 sip"), debug(3, true, Some("sip")));
        assert_eq!(set("core set debug off"), debug(0, false, None));
    }
}
