//! The runs. `SIM_SEED=n` with the test `one_office` runs one seed again, with `SIM_TRACE=1` and
//! `--nocapture` message by message; `SIM_SEEDS=from..to` runs more of them (`cargo xtask soak`).

use std::collections::BTreeMap;
use std::time::Duration;

use super::mutant::Mutant;
use super::{Met, Office, Setting, checks};
use crate::commit;
use crate::net::Weather;

/// The last phone is switched off after 240 s, its binding lasts 120 s.
const LENGTH: Duration = Duration::from_secs(395);
const SEEDS: std::ops::RangeInclusive<u64> = 1..=12;

fn run(seed: u64, shards: u8, mutant: Option<Mutant>) -> Office {
    let mut office = Office::new(Setting { seed, shards, weather: Weather::BAD, mutant });
    office.run(LENGTH);
    office
}

fn faults(seed: u64, shards: u8, mutant: Option<Mutant>) -> Vec<String> {
    checks::check(&run(seed, shards, mutant))
}

fn bad(seeds: impl Iterator<Item = u64>) -> Vec<String> {
    seeds
        .flat_map(|seed| [1, 3].map(|shards| (seed, shards)))
        .filter_map(|(seed, shards)| {
            let text = faults(seed, shards, None).join("\n  ");
            (!text.is_empty()).then(|| format!("seed {seed} with {shards} shards:\n  {text}"))
        })
        .collect()
}

fn assert_good(seeds: impl Iterator<Item = u64>) {
    let bad = bad(seeds);
    let again =
        "SIM_SEED=<seed> SIM_TRACE=1 cargo test -p tests --test sim one_office -- --nocapture";
    assert!(bad.is_empty(), "commit {}; again: {again}\n{}", commit(), bad.join("\n"));
}

#[test]
fn offices_survive_kills_reloads_and_broken_connections() {
    assert_good(SEEDS);
}

#[test]
fn one_office() {
    if let Some(seed) = std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        assert_good(std::iter::once(seed));
    }
}

#[test]
fn more_offices() {
    let Ok(range) = std::env::var("SIM_SEEDS") else { return };
    let (from, to) = range.split_once("..").expect("SIM_SEEDS is from..to");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    assert_good(number(from)..number(to));
}

/// How many calls rang at two phones of one account.
fn forks(office: &Office) -> usize {
    let mut rung = BTreeMap::<(&str, &str), usize>::new();
    for phone in &office.phones {
        for talk in phone.talks.iter().filter(|talk| !talk.is_caller) {
            let call = talk.called_by().unwrap_or_default();
            *rung.entry((call, &phone.desk.name)).or_default() += 1;
        }
    }
    rung.values().filter(|phones| **phones > 1).count()
}

/// The seeds must reach what they are there for.
#[test]
fn the_offices_cover_kills_in_calls_reloads_refreshes_and_broken_connections() {
    let mut met = Met::default();
    let mut seen = super::registration::Counts::default();
    let mut finals = BTreeMap::<u16, u32>::new();
    let mut told = BTreeMap::<u16, u32>::new();
    let (mut forwarded, mut forked) = (0, 0);
    for seed in SEEDS {
        let office = run(seed, 3, None);
        met.add(office.met);
        forwarded += office.forwards.values().sum::<usize>();
        forked += forks(&office);
        for phone in &office.phones {
            seen.add(phone.registration.seen);
            for talk in &phone.talks {
                talk.finals.iter().for_each(|status| *finals.entry(*status).or_default() += 1);
                talk.was_told.iter().for_each(|status| *told.entry(*status).or_default() += 1);
            }
        }
    }
    println!("{met:?}\n{seen:?}\nfinals {finals:?}, answers to BYE {told:?}");
    println!("{forwarded} calls went on, {forked} rang at two phones");
    assert!(forwarded >= 30 && forked >= 15, "{forwarded} {forked}");
    assert!(met.kills >= 12 && met.kills_in_turn >= 5 && met.calls_killed >= 10, "{met:?}");
    assert!(met.reloads >= 10 && met.calls_reloaded >= 5 && met.bindings_restored >= 60);
    assert!(met.broken >= 20 && met.unsent >= 10, "{met:?}");
    assert!(seen.refreshed >= 100 && seen.removed >= 20 && seen.too_brief >= 5, "{seen:?}");
    assert!(seen.challenged >= 100 && seen.refused >= 5, "{seen:?}");
    for status in [200, 404, 480, 486, 487, 603] {
        assert!(finals.get(&status).is_some_and(|count| *count >= 3), "{status}: {finals:?}");
    }
    assert!(told.get(&481).is_some_and(|count| *count >= 5), "{told:?}");
}

#[test]
fn an_office_is_a_function_of_its_seed() {
    let lines = |seed| {
        let mut bytes = Vec::new();
        let office = run(seed, 3, None);
        office.journal.records.iter().for_each(|(_, record)| record.to_json_line(&mut bytes));
        bytes
    };
    assert!(!lines(7).is_empty());
    assert_eq!(lines(7), lines(7));
    assert_ne!(lines(7), lines(8));
}

#[test]
fn every_fault_that_is_planted_in_an_office_makes_a_seed_fail() {
    for mutant in Mutant::ALL {
        let caught = SEEDS.into_iter().find(|seed| !faults(*seed, 1, Some(mutant)).is_empty());
        assert!(caught.is_some(), "{mutant:?} goes unnoticed");
    }
}
