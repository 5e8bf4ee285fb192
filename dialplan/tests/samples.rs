//! The samples in `etc/` are read as they are.

use dialplan::{MatchResult, Plan, parse};

fn sample(name: &str, text: &str) -> Plan {
    parse(&[(name, text)]).unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn the_sample_is_read_and_finds_what_it_says() {
    let plan = sample("etc/dialplan.toml", include_str!("../../etc/dialplan.toml"));
    let name = |number: &str, caller: &str| {
        plan.find_complete("default", number, caller)
            .map(|id| (plan.name(id), plan.steps(id).len()))
    };
    assert_eq!(name("95551234", ""), Some(("_9NXX-XXXX", 4)));
    assert_eq!(name("sales", "493012345"), Some(("sales", 4)));
    assert_eq!(name("sales", "12345"), Some(("sales", 1)));
    assert_eq!(name("*80", ""), Some(("*80", 3)));
    assert_eq!(name("*81", ""), Some(("_*8X", 2)));
    assert_eq!(name("911", ""), None);
    let trunks: Vec<&str> =
        plan.trunks_referenced().iter().map(dialplan::TrunkReference::name).collect();
    assert_eq!(trunks, ["carrier"]);
}

#[test]
fn the_bench_has_its_extensions_and_no_others() {
    let plan = sample("dialplan.toml", include_str!("../../etc/bench/dialplan.toml"));
    for (number, steps) in [("answer", 3), ("answer-now", 2), ("bridge", 1), ("busy", 1)] {
        let id = plan.find_complete("bench", number, "").unwrap();
        assert_eq!((plan.name(id), plan.steps(id).len()), (number, steps));
    }
    assert_eq!(plan.find("bench", "nobody", "").result, MatchResult::None);
}
