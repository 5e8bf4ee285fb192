//! However a stream is cut, the same messages come out of it: the corpus of the fuzz target, and
//! streams that are made from it by chance.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and reads its material from files"
)]

#[path = "../../fuzz/entries/framing.rs"]
mod entry;
#[path = "../../fuzz/replay.rs"]
mod replay;

use replay::{Mutation, changes, corpus, run};

const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\n\n",
    b"\r\n ",
    b"\n\t",
    b"\r\n\r\n\r\n",
    b":",
    b" ",
    b"l: 0\r\n",
    b"l: 1\r\n",
    b"Content-Length: 4\r\n",
    b"Content-Length",
    b"65535",
    b"-1",
    b"\0",
    b"OPTIONS sip:a SIP/2.0\r\nl: 2\r\n\r\nab",
    b"4294967296",
    b"l:\r\n 3\r\n",
    b"\xff",
];

/// A message whose head or whole has that many bytes more than it may have.
fn long(head: usize, body: usize) -> Vec<u8> {
    let begin = format!("OPTIONS sip:a SIP/2.0\r\nl: {body}\r\nX: ");
    let fill = "x".repeat(head.saturating_sub(begin.len() + 4));
    [begin.as_bytes(), fill.as_bytes(), b"\r\n\r\n", &vec![b'b'; body]].concat()
}

#[test]
fn the_corpus_comes_out_the_same_however_it_is_cut() {
    let counts: Vec<usize> =
        corpus("framing").iter().map(|bytes| run(entry::run, bytes, "corpus")).collect();
    assert!(counts.len() >= 8 && counts.iter().any(|count| *count >= 3), "{counts:?}");
}

#[test]
fn messages_at_the_limits_come_out_the_same_however_they_are_cut() {
    let (head, whole) = (sip::wire::HEAD_BYTES_MAX, sip::wire::MESSAGE_BYTES_MAX);
    for (head, whole, comes) in [
        (head, whole, 1),
        (head, whole + 1, 0),
        (head + 1, whole, 0),
        (head - 1, whole - 1, 1),
        (head + 2, head + 2, 0),
    ] {
        let stream = [long(head, whole - head), long(100, 3)].concat();
        let count = entry::run(&stream);
        assert_eq!(count, 2 * comes, "{head} {whole}");
    }
}

#[test]
fn random_streams_come_out_the_same_however_they_are_cut() {
    let mut mutation = Mutation::new(corpus("framing"), WORDS);
    let (mut none, mut many) = (0, 0);
    for number in 0..changes(3_000) {
        let count = run(entry::run, &mutation.next(), &format!("change {number}"));
        none += u32::from(count == 0);
        many += u32::from(count > 1);
    }
    // A test that sees only one of the two would prove little.
    assert!(none > 100 && many > 500, "{none} {many}");
}
