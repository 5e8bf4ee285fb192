//! Whatever comes over the control socket or is typed is a request, a reply or a fault that can be
//! shown: the corpus of the fuzz target, and lines that are made from it by chance.

#![allow(clippy::unwrap_used)]

#[path = "../../../fuzz/entries/control.rs"]
mod entry;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use pbx_control::words::COMMANDS;
use replay::{Mutation, changes, corpus, run};

const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\u001b[2J",
    b"\\ud800",
    b":",
    b",",
    b"null",
    b"\"v\":2,",
    b"\"command\":",
    b"\"stop\"",
    b"\"how\":\"now\"",
    b"-1",
    b"4294967296",
    b"1e9",
    b"core",
    b" show ",
    b"channels",
    b"dialplan",
    b"test",
    b"pjsip",
    b"@",
    b"off",
    b"all",
    b"help",
    b"\t",
    b"\n",
    b"\0",
    b"\xff",
    b"\xc3\xa4",
    b"\xe2\x80\xae",
    b"\xe3\x80\x80",
];

#[test]
fn the_corpus_is_read_and_shown() {
    let seen: Vec<entry::Seen> =
        corpus("control").iter().map(|bytes| run(entry::run, bytes, "corpus")).collect();
    assert!(seen.iter().filter(|seen| seen.request).count() >= 3, "{seen:?}");
    assert!(seen.iter().filter(|seen| seen.typed).count() >= 3, "{seen:?}");
    assert!(seen.iter().filter(|seen| seen.reply).count() >= 3, "{seen:?}");
}

#[test]
fn every_usage_may_be_typed() {
    for entry in COMMANDS {
        run(entry::run, entry.usage.as_bytes(), "usage");
    }
}

#[test]
fn random_lines_are_read_and_shown() {
    let mut mutation = Mutation::new(corpus("control"), WORDS);
    let (mut requests, mut typed, mut replies) = (0, 0, 0);
    for number in 0..changes(6_000) {
        let seen = run(entry::run, &mutation.next(), &format!("change {number}"));
        requests += u32::from(seen.request);
        typed += u32::from(seen.typed);
        replies += u32::from(seen.reply);
    }
    assert!(requests > 10 && typed > 200 && replies > 30, "{requests} {typed} {replies}");
}
