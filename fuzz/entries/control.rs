//! What the fuzzer and the replay of its corpus do with lines of the control socket and with what
//! an operator types, and what must hold always.
//!
//! * Nothing panics.
//! * A request that can be read survives being written: one line, and the same request.
//! * What is typed is a request that the server reads as it was meant, or gets a usage.
//! * TAB offers whole words that begin with what was typed, each once.
//! * A reply can be printed, without control characters of the server's.

use pbx_control::print::{Printer, help};
use pbx_control::wire::{RequestFault, read_request, write_line};
use pbx_control::words::{Said, completions, names_at, parse};
use pbx_control::{Command, Reply, Request};

/// More words than any command has before its names.
const WORDS_MAX: usize = 6;
/// Longer than any word of a command.
const HALF_MAX: usize = 16;

/// What an input was good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// It is a request.
    pub(crate) request: bool,
    /// It is what an operator may type.
    pub(crate) typed: bool,
    /// It is a reply.
    pub(crate) reply: bool,
}

/// Runs one input.
pub(crate) fn run(bytes: &[u8]) -> Seen {
    let text = String::from_utf8_lossy(bytes);
    check_tab(&text);
    Seen { request: request(bytes), typed: typed(&text), reply: reply(bytes) }
}

fn request(bytes: &[u8]) -> bool {
    match read_request(bytes) {
        Ok(request) => {
            check_line(&request);
            true
        }
        Err(fault) => {
            assert!(!fault.to_string().is_empty());
            assert!(fault != RequestFault::Protocol(pbx_control::PROTOCOL), "it is ours");
            false
        }
    }
}

fn check_line(request: &Request) {
    let mut line = Vec::new();
    write_line(request, &mut line).expect("a request can be written");
    let line_feeds = line.iter().filter(|byte| **byte == b'\n').count();
    assert!(line_feeds == 1 && line.ends_with(b"\n"), "{}", line.escape_ascii());
    assert_eq!(read_request(&line).as_ref(), Ok(request));
}

fn typed(text: &str) -> bool {
    match parse([text]) {
        Ok(Said::Ask(command)) => {
            check_line(&Request::new(command));
            // As a shell hands them over.
            assert_eq!(parse(text.split_whitespace()), parse([text]));
            true
        }
        Ok(Said::Import(_)) => true,
        Ok(Said::Help(words)) => {
            let _ = help(&words);
            true
        }
        Err(usage) => {
            assert!(!usage.to_string().is_empty());
            false
        }
    }
}

fn check_tab(text: &str) {
    let words: Vec<&str> = text.split_whitespace().take(WORDS_MAX).collect();
    for count in 0..=words.len() {
        let before = &words[..count];
        let _ = names_at(before);
        let half = words.get(count).copied().unwrap_or_default();
        for end in (0..=half.len().min(HALF_MAX)).filter(|end| half.is_char_boundary(*end)) {
            check_offers(before, &half[..end]);
        }
    }
}

fn check_offers(before: &[&str], half: &str) {
    let offers = completions(before, half);
    assert!(offers.is_sorted_by(|a, b| a < b), "{offers:?}");
    for offer in offers {
        let begins = offer.get(..half.len()).is_some_and(|it| it.eq_ignore_ascii_case(half));
        assert!(begins && !offer.contains(char::is_whitespace), "{before:?} {half:?}: {offer:?}");
    }
}

fn reply(bytes: &[u8]) -> bool {
    let Ok(reply) = serde_json::from_slice::<Reply>(bytes) else { return false };
    for command in [Command::ShowVersion, Command::DialplanReload] {
        let (mut printer, mut out) = (Printer::new(&command), String::new());
        printer.print(&reply, &mut out);
        printer.print(&Reply::End, &mut out);
        let odd = out.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(odd, None, "{out:?}");
    }
    true
}
