//! What ordinary tests replay: a target's corpus, and inputs that are made from it by chance.
//! Without a nightly compiler, and the same each time.
//!
//! A longer run: `FUZZ_CHANGES=10000000 FUZZ_SEED=7 cargo test -p sip --release --test
//! digest_fuzz`. A failure prints its input: put it into the corpus.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The files of a corpus, in the order of their names.
pub(crate) fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut roots = folder.ancestors().map(|root| root.join("fuzz/corpus").join(target));
    let folder = roots.find(|path| path.is_dir()).expect("the corpus is part of the sources");
    let entries = std::fs::read_dir(folder).expect("a folder can be listed");
    let mut paths: Vec<_> =
        entries.map(|entry| entry.expect("a folder can be listed").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("the corpus can be read")).collect()
}

/// Runs an input; a failure says which, so that it can be kept.
pub(crate) fn run<T>(entry: impl Fn(&[u8]) -> T, bytes: &[u8], origin: &str) -> T {
    catch_unwind(AssertUnwindSafe(|| entry(bytes)))
        .unwrap_or_else(|_| panic!("{origin}: b\"{}\"", bytes.escape_ascii()))
}

/// How many changes to try.
pub(crate) fn changes(default: u64) -> u64 {
    number("FUZZ_CHANGES", default)
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Changes inputs by chance.
pub(crate) struct Mutation<'w> {
    state: u64,
    corpus: Vec<Vec<u8>>,
    /// Pieces that mean something to the parser.
    words: &'w [&'w [u8]],
}

impl<'w> Mutation<'w> {
    pub(crate) fn new(corpus: Vec<Vec<u8>>, words: &'w [&'w [u8]]) -> Self {
        Self { state: number("FUZZ_SEED", 1), corpus, words }
    }

    /// Another input.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let mut bytes = self.taken().clone();
        for _ in 0..=self.below(5) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(12)).min(bytes.len());
            match self.below(6) {
                0 => drop(bytes.drain(at..end)),
                1 => drop(bytes.splice(at..at, self.word().iter().copied())),
                2 => drop(bytes.splice(at..end, self.word().iter().copied())),
                3 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                4 => {
                    let (from, length) = (self.below(1 << 16), self.below(80));
                    let other = self.taken();
                    let from = from % (other.len() + 1);
                    let piece = other[from..(from + length).min(other.len())].to_vec();
                    drop(bytes.splice(at..end, piece));
                }
                _ => bytes.extend_from_within(at..end),
            }
        }
        bytes
    }

    fn taken(&mut self) -> &Vec<u8> {
        let at = self.below(self.corpus.len());
        &self.corpus[at]
    }

    fn word(&mut self) -> &'w [u8] {
        let at = self.below(self.words.len());
        self.words[at]
    }

    /// SplitMix64.
    fn below(&mut self, limit: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit.max(1) as u64) as usize
    }
}
