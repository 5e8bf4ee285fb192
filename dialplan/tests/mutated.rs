//! Whatever stands in a file, reading it ends with a plan or with faults: the corpus of the fuzz
//! target, and files that are made from it by chance.

#[path = "../../fuzz/entries/dialplan.rs"]
mod entry;

mod common;
use common::Dice;

const CORPUS: &[&str] = &[
    include_str!("../../fuzz/corpus/dialplan/bench"),
    include_str!("../../fuzz/corpus/dialplan/escapes"),
    include_str!("../../fuzz/corpus/dialplan/faults"),
    include_str!("../../fuzz/corpus/dialplan/sample"),
    include_str!("../../fuzz/corpus/dialplan/steps"),
];

const PIECES: &[&str] = &[
    "${",
    "}",
    "$[",
    "]",
    "[",
    "(",
    ")",
    "\"",
    "'",
    "'''",
    "\"\"\"",
    "\\",
    "\\u",
    "&",
    "/",
    "@",
    ":",
    ";",
    ",",
    "?",
    "_",
    ".",
    "!",
    "=",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "ä",
    "\u{1F600}",
    "é",
    "Dial",
    "sip:",
    "GotoIf($[",
    "[[context.a.exten]]\n",
    "include = ['a']\n",
    "-",
    "9",
    "0",
    "99999999999999999999",
    "#",
];

fn mutated(dice: &mut Dice) -> String {
    let mut text: Vec<char> = dice.pick(CORPUS).chars().collect();
    for _ in 0..1 + dice.below(6) {
        let at = dice.below(text.len() + 1);
        match dice.below(3) {
            0 => drop(text.splice(at..at, dice.pick(PIECES).chars())),
            1 => drop(text.drain(at..(at + dice.below(8)).min(text.len()))),
            _ => {
                let end = (at + dice.below(40)).min(text.len());
                let copy: Vec<char> = text[at..end].to_vec();
                let to = dice.below(text.len() + 1);
                text.splice(to..to, copy);
            }
        }
    }
    text.into_iter().collect()
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the corpus is in files; the crate itself reads none")]
fn the_corpus_is_read() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/dialplan");
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("the corpus is part of the sources") {
        let path = file.expect("a folder can be listed").path();
        entry::run(&std::fs::read(&path).expect("a file of the corpus can be read"));
        count += 1;
    }
    assert!(count >= CORPUS.len());
}

#[test]
fn a_mutated_file_is_a_plan_or_has_faults_that_can_be_shown() {
    let (mut plans, mut faulty) = (0, 0);
    for seed in 0..3_000 {
        let text = mutated(&mut Dice(seed));
        match std::panic::catch_unwind(|| entry::run(text.as_bytes())) {
            Ok(true) => plans += 1,
            Ok(false) => faulty += 1,
            Err(_) => panic!("seed {seed}\n{text}"),
        }
    }
    // A test that sees only one of the two would prove little.
    assert!(plans > 100 && faulty > 1_000, "{plans} {faulty}");
}
