//! Replays the fuzzer's corpus, and a bounded run of random changes to it: no nightly compiler is
//! needed.
//!
//! A longer run: `WIRE_MUTATIONS=100000000 cargo test -p sip --release --test wire_fuzz --
//! --nocapture`; another seed: `WIRE_SEED=7`. A crash prints its input.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and reads its material from files"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

#[path = "../../fuzz/entries/wire.rs"]
mod entry;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn files(name: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .iter()
        .filter(|path| path.extension().is_none_or(|e| e == "dat" || e == "sip"))
        .filter(|path| !path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b".")))
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

fn corpus() -> Vec<Vec<u8>> {
    ["fuzz/corpus/wire", "tests/conformance/rfc4475", "tests/conformance/rfc5118"]
        .into_iter()
        .chain(["sip/tests/wire_samples"])
        .flat_map(files)
        .collect()
}

fn run(bytes: &[u8], origin: &str) {
    if catch_unwind(AssertUnwindSafe(|| entry::run(bytes))).is_err() {
        panic!("{origin}: b\"{}\"", bytes.escape_ascii());
    }
}

#[test]
fn the_corpus_is_read_without_a_fault_of_ours() {
    let corpus = corpus();
    assert!(corpus.len() > 65, "the folders are there");
    for (i, bytes) in corpus.iter().enumerate() {
        run(bytes, &format!("file {i}"));
    }
}

/// Every prefix of every message: what a cut datagram looks like.
#[test]
fn every_prefix_is_read_without_a_fault_of_ours() {
    for bytes in corpus().iter().filter(|bytes| bytes.len() < 600) {
        for end in 0..bytes.len() {
            run(&bytes[..end], "prefix");
        }
    }
}

#[test]
fn random_changes_are_read_without_a_fault_of_ours() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let (count, seed) = (number("WIRE_MUTATIONS", 20_000), number("WIRE_SEED", 1));
    let corpus = corpus();
    let mut rng = SplitMix(seed);
    for i in 0..count {
        let bytes = mutate(&corpus, &mut rng);
        run(&bytes, &format!("seed {seed}, change {i}"));
    }
}

/// Pieces that mean something to the parser.
const WORDS: [&[u8]; 40] = [
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b"\r\n ",
    b"\n\t",
    b"\0",
    b"\"",
    b"\\",
    b"<",
    b">",
    b";",
    b",",
    b":",
    b"=",
    b"?",
    b"&",
    b"%",
    b"%0d%0a",
    b"@",
    b"[",
    b"]",
    b"::",
    b"[2001:db8::1]",
    b";tag=x",
    b";branch=z9hG4bK",
    b";rport",
    b";received=1.2.3.4",
    b"Via: SIP/2.0/UDP a\r\n",
    b"v:",
    b"l: 5\r\n",
    b"CSeq: 1 A\r\n",
    b"*",
    b"SIP/2.0",
    b"4294967296",
    b"-1",
    b"--",
    b"\xff",
    b"\r\n\r\n",
];

fn mutate(corpus: &[Vec<u8>], rng: &mut SplitMix) -> Vec<u8> {
    let mut bytes = corpus[rng.below(corpus.len())].clone();
    for _ in 0..=rng.below(6) {
        let at = rng.below(bytes.len() + 1);
        let end = (at + rng.below(12)).min(bytes.len());
        match rng.below(7) {
            0 => drop(bytes.drain(at..end)),
            1 => drop(bytes.splice(at..at, WORDS[rng.below(WORDS.len())].iter().copied())),
            2 => drop(bytes.splice(at..end, WORDS[rng.below(WORDS.len())].iter().copied())),
            3 => bytes.truncate(at.max(1)),
            4 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            5 => {
                let other = &corpus[rng.below(corpus.len())];
                let from = rng.below(other.len() + 1);
                let to = (from + rng.below(80)).min(other.len());
                drop(bytes.splice(at..end, other[from..to].iter().copied()));
            }
            _ => bytes.extend_from_within(at..end),
        }
    }
    bytes
}

struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit.max(1) as u64) as usize
    }
}
