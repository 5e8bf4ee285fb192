//! Whatever stands in a file, reading it ends with a plan or with faults, and showing those works.

use dialplan::parse;

mod common;
use common::Dice;

const SAMPLES: &[&str] = &[
    include_str!("../../etc/dialplan.toml"),
    include_str!("../../etc/bench/dialplan.toml"),
    "[[context.a.exten]]\nmatch='_1[2-4]X.'\nsteps=[\"\\u00e4\", '''GotoIf($[!(\"${A${B:1:2}}\" \
     != b|c)]?x,y,1:2)''', \"\"\"\\\n  Dial(sip:a@[::1]:5060;x=y)\"\"\"]\n",
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
    let mut text: Vec<char> = dice.pick(SAMPLES).chars().collect();
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
fn a_mutated_file_is_a_plan_or_has_faults_that_can_be_shown() {
    let (mut plans, mut faulty) = (0, 0);
    for seed in 0..3_000 {
        let text = mutated(&mut Dice(seed));
        let read = std::panic::catch_unwind(|| match parse(&[("mutated", &text)]) {
            Ok(plan) => {
                assert!(plan.diff(&plan).is_empty());
                for context in plan.contexts() {
                    let _ = plan.find(context, "9180", "493011");
                    let _ = plan.explain(context, "9180", "");
                }
                true
            }
            Err(faults) => {
                assert!(!faults.is_empty() && faults.to_string().contains("mutated:"));
                for fault in &faults {
                    assert!(fault.line() >= 1 && fault.column() >= 1);
                }
                false
            }
        });
        match read {
            Ok(true) => plans += 1,
            Ok(false) => faulty += 1,
            Err(_) => panic!("seed {seed}\n{text}"),
        }
    }
    assert!(plans > 100 && faulty > 1_000, "{plans} {faulty}");
}
