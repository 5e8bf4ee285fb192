//! The compiled matcher against a slow reference, written straight from the rule: a list of
//! patterns as text, sorted position by position and walked from its start for every question.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cmp::Ordering;
use std::fmt::Write as _;

use dialplan::{MatchResult, parse};

mod common;
use common::Dice;

/// What one position of a pattern is: its characters, sorted; or `.`, `!`, or the end.
#[derive(Clone, Debug, PartialEq)]
enum Position {
    Set(Vec<u8>),
    Rest(u8),
}

fn positions(pattern: &str) -> Vec<Position> {
    let bytes = pattern.as_bytes();
    let mut all = Vec::new();
    let mut at = 1;
    while at < bytes.len() {
        let set = match bytes[at] {
            b'-' => {
                at += 1;
                continue;
            }
            b'X' | b'x' => (b'0'..=b'9').collect(),
            b'Z' | b'z' => (b'1'..=b'9').collect(),
            b'N' | b'n' => (b'2'..=b'9').collect(),
            b'.' | b'!' => {
                all.push(Position::Rest(bytes[at]));
                return all;
            }
            b'[' => {
                let mut set = Vec::new();
                at += 1;
                while bytes[at] != b']' {
                    if bytes[at + 1] == b'-' && bytes[at + 2] != b']' {
                        set.extend(bytes[at]..=bytes[at + 2]);
                        at += 3;
                    } else {
                        set.push(bytes[at]);
                        at += 1;
                    }
                }
                set.sort_unstable();
                set.dedup();
                set
            }
            other => vec![other],
        };
        all.push(Position::Set(set));
        at += 1;
    }
    all
}

/// Asterisk's score of a position: size, lowest character; then `.`, `!` and the end.
fn score(position: Option<&Position>) -> (usize, u8) {
    match position {
        Some(Position::Set(set)) => (set.len(), set[0]),
        Some(Position::Rest(b'.')) => (0x180, 0),
        Some(Position::Rest(_)) => (0x280, 0),
        None => (0x300, 0),
    }
}

/// 32 bytes, the lowest character the highest bit of its byte; the greater one comes first.
fn bitmap(position: Option<&Position>) -> [u8; 32] {
    let mut map = [0; 32];
    if let Some(Position::Set(set)) = position {
        for byte in set {
            map[usize::from(byte / 8)] |= 0x80 >> (byte % 8);
        }
    }
    map
}

fn compare(a: &str, b: &str) -> Ordering {
    match (a.starts_with('_'), b.starts_with('_')) {
        (false, false) => a.replace('-', "").cmp(&b.replace('-', "")),
        (false, true) => Ordering::Less,
        (true, false) => Ordering::Greater,
        (true, true) => {
            let (a, b) = (positions(a), positions(b));
            for at in 0..=a.len().max(b.len()) {
                let (a, b) = (a.get(at), b.get(at));
                let order = score(a).cmp(&score(b)).then(bitmap(b).cmp(&bitmap(a)));
                if order != Ordering::Equal {
                    return order;
                }
            }
            Ordering::Equal
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Match,
    MatchMore,
}

/// 0: no, 1: yes, 2: yes and early (`!`).
fn matches(pattern: &str, number: &str, mode: Mode) -> u8 {
    let number: Vec<u8> = number.bytes().filter(|byte| *byte != b'-').collect();
    if !pattern.starts_with('_') {
        let name: Vec<u8> = pattern.bytes().filter(|byte| *byte != b'-').collect();
        return u8::from(match mode {
            Mode::Match => name == number,
            Mode::MatchMore => name.len() > number.len() && name.starts_with(&number),
        });
    }
    let positions = positions(pattern);
    let mut at = 0;
    for byte in &number {
        match positions.get(at) {
            Some(Position::Set(set)) if set.contains(byte) => at += 1,
            Some(Position::Rest(b'.')) => return 1,
            Some(Position::Rest(_)) => return 2,
            Some(Position::Set(_)) | None => return 0,
        }
    }
    match positions.get(at) {
        None => u8::from(mode == Mode::Match),
        Some(Position::Rest(b'!')) => 2,
        Some(_) => u8::from(mode == Mode::MatchMore),
    }
}

#[derive(Debug, Default)]
struct Context {
    includes: Vec<usize>,
    /// Pattern and caller.
    extensions: Vec<(String, Option<String>)>,
}

fn takes(wanted: Option<&String>, caller: &str) -> bool {
    match wanted {
        None => true,
        Some(wanted) if caller.is_empty() => wanted.is_empty(),
        Some(wanted) => matches(wanted, caller, Mode::Match) > 0,
    }
}

/// What is found from a context on, and whether the search is over.
fn search(
    contexts: &[Context],
    at: usize,
    asked: (&str, &str),
    mode: Mode,
    seen: &mut Vec<usize>,
) -> Option<(usize, usize)> {
    if seen.contains(&at) {
        return None;
    }
    seen.push(at);
    let context = &contexts[at];
    let mut order: Vec<usize> = (0..context.extensions.len()).collect();
    order.sort_by(|a, b| {
        let ((a, a_caller), (b, b_caller)) = (&context.extensions[*a], &context.extensions[*b]);
        compare(a, b).then_with(|| match (a_caller, b_caller) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(a), Some(b)) => compare(a, b),
        })
    });
    for extension in order {
        let (pattern, caller) = &context.extensions[extension];
        let found = matches(pattern, asked.0, mode);
        if found == 0 || !takes(caller.as_ref(), asked.1) {
            continue;
        }
        // An early match waits for nothing more.
        return if found == 2 && mode == Mode::MatchMore { None } else { Some((at, extension)) };
    }
    context.includes.iter().find_map(|include| search(contexts, *include, asked, mode, seen))
}

fn random_pattern(dice: &mut Dice) -> String {
    let mut text = String::new();
    let pattern = dice.below(4) > 0;
    if pattern {
        text.push('_');
    }
    let length = dice.below(4) + usize::from(!pattern);
    for _ in 0..length {
        let part = if pattern {
            *dice.pick(&[
                "X", "Z", "N", "x", "n", "1", "2", "3", "[12]", "[13]", "[1-3]", "[2-4]", "[23-4]",
                "[2]", "[34]", "[1-9]", "-1", "b", "[b-d]",
            ])
        } else {
            *dice.pick(&["1", "2", "3", "1-", "b", "12"])
        };
        text.push_str(part);
    }
    match dice.below(4) {
        0 if pattern => text.push('.'),
        1 if pattern => text.push('!'),
        _ if text == "_" => text.push('X'),
        _ => {}
    }
    text
}

fn random_plan(dice: &mut Dice) -> Vec<Context> {
    let count = 1 + dice.below(4);
    let mut contexts: Vec<Context> = Vec::new();
    for at in 0..count {
        let mut context = Context::default();
        for include in at + 1..count {
            if dice.below(2) == 0 {
                context.includes.push(include);
            }
        }
        if dice.below(2) == 0 {
            context.includes.reverse();
        }
        for _ in 0..dice.below(12) {
            let pattern = random_pattern(dice);
            let caller = match dice.below(6) {
                0 => Some(random_pattern(dice)),
                1 => Some(String::new()),
                _ => None,
            };
            let same = |(known, known_caller): &(String, Option<String>)| {
                compare(known, &pattern) == Ordering::Equal
                    && match (known_caller, &caller) {
                        (None, None) => true,
                        (Some(a), Some(b)) => compare(a, b) == Ordering::Equal,
                        _ => false,
                    }
            };
            if !context.extensions.iter().any(same) {
                context.extensions.push((pattern, caller));
            }
        }
        contexts.push(context);
    }
    contexts
}

fn toml(contexts: &[Context]) -> String {
    let mut text = String::new();
    for (at, context) in contexts.iter().enumerate() {
        let includes: Vec<String> = context.includes.iter().map(|at| format!("'c{at}'")).collect();
        writeln!(text, "[context.c{at}]\ninclude = [{}]", includes.join(",")).unwrap();
        for (nth, (pattern, caller)) in context.extensions.iter().enumerate() {
            writeln!(text, "[[context.c{at}.exten]]\nmatch = '{pattern}'").unwrap();
            if let Some(caller) = caller {
                writeln!(text, "caller = '{caller}'").unwrap();
            }
            writeln!(text, "steps = ['NoOp({at} {nth})']").unwrap();
        }
    }
    text
}

fn random_number(dice: &mut Dice) -> String {
    (0..dice.below(6)).map(|_| *dice.pick(&['1', '2', '3', '4', '9', '0', 'b', 'c', '-'])).collect()
}

#[test]
fn the_compiled_matcher_agrees_with_the_rule() {
    let mut compared = 0;
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let contexts = random_plan(&mut dice);
        let text = toml(&contexts);
        let plan = parse(&[("random", &text)])
            .unwrap_or_else(|faults| panic!("seed {seed}\n{text}\n{faults}"));
        for _ in 0..60 {
            let (number, caller) = (random_number(&mut dice), random_number(&mut dice));
            let asked = (number.as_str(), caller.as_str());
            let whole = search(&contexts, 0, asked, Mode::Match, &mut Vec::new());
            let more = search(&contexts, 0, asked, Mode::MatchMore, &mut Vec::new());
            let wanted = match (whole, more) {
                (None, None) => MatchResult::None,
                (None, Some(_)) => MatchResult::More,
                (Some(_), None) => MatchResult::Complete,
                (Some(_), Some(_)) => MatchResult::CompleteOrMore,
            };
            let found = plan.find("c0", &number, caller.as_str());
            let step = found.extension.map(|id| plan.steps(id)[0].data.to_string());
            assert_eq!(
                (step, found.result),
                (whole.map(|(context, nth)| format!("{context} {nth}")), wanted),
                "seed {seed}, number '{number}' from '{caller}'\n{text}\n{}",
                plan.explain("c0", &number, caller.as_str())
            );
            compared += usize::from(whole.is_some());
        }
    }
    // A test that never finds anything would prove nothing.
    assert!(compared > 5_000, "{compared}");
}
