//! Whatever stands in a challenge or in credentials, nobody is let in by it, and what we answer is
//! right: the corpus of the fuzz target, and lines that are made from it by chance.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and reads its material from files"
)]

#[path = "../../fuzz/entries/digest.rs"]
mod entry;
#[path = "../../fuzz/replay.rs"]
mod replay;

use replay::{Mutation, changes, corpus, run};

const WORDS: &[&[u8]] = &[
    b"Digest ",
    b"realm=",
    b"nonce=",
    b"qop=\"auth\"",
    b"qop=auth,",
    b"algorithm=",
    b"MD5-sess",
    b"SHA-256",
    b"stale=true",
    b"opaque=\"\"",
    b"username=\"\"",
    b"uri=",
    b"nc=00000001",
    b"cnonce=\"a\"",
    b"response=",
    b"\"",
    b"\\",
    b"\\\"",
    b",",
    b"=",
    b" ",
    b"\t",
    b"\r\n ",
    b"\n ",
    b"\r\n\t",
    b"\r\nWWW-Authenticate: Digest ",
    b"\r\nProxy-Authenticate: Digest realm=\"p\",",
    b"\r\nAuthorization: Digest ",
    b"\0",
    b"\xff",
    b"\xc3\xa4",
    b"'",
    b"''",
    b";",
    b"<",
    b"pbx",
];

#[test]
fn the_corpus_is_read_and_answered() {
    let seen: Vec<entry::Seen> =
        corpus("digest").iter().map(|bytes| run(entry::run, bytes, "corpus")).collect();
    assert!(seen.len() >= 8);
    assert!(seen.iter().filter(|seen| seen.answered).count() >= 4, "{seen:?}");
    assert!(seen.iter().any(|seen| seen.read), "{seen:?}");
}

#[test]
fn random_lines_are_read_and_what_is_answered_is_right() {
    let mut mutation = Mutation::new(corpus("digest"), WORDS);
    let (mut answered, mut read) = (0, 0);
    for number in 0..changes(10_000) {
        let seen = run(entry::run, &mutation.next(), &format!("change {number}"));
        answered += u32::from(seen.answered);
        read += u32::from(seen.read);
    }
    assert!(answered > 300 && read > 30, "{answered} {read}");
}
