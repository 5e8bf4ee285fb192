//! A whole PBX in a simulation from one seed: the shard that the program runs, with loop, sockets
//! and clock swapped for callers, callees, a network that lies, and virtual time.
//!
//! Two worlds: here, trunks and their calls in bad weather; in `office`, phones that register and
//! call each other while the program is killed and started again.
//!
//! A failing run prints its seed; `SIM_SEED=n cargo test -p tests --test sim one_seed` (or
//! `one_office`) runs it again, with `SIM_TRACE=1` and `--nocapture` message by message.
//! `SIM_SEEDS=from..to` runs more of both (`cargo xtask soak`).

mod callee;
mod caller;
mod checks;
mod mutant;
mod net;
mod office;
mod text;
mod world;

use std::time::Duration;

use mutant::Mutant;
use net::Weather;
use world::{Setting, World};

const CALLS: usize = 40;
/// The last caller starts after 21 s, may wait for an answer 30 s, talk 20 s, and be heard of for
/// 64*T1 twice.
const LENGTH: Duration = Duration::from_secs(300);

fn run(seed: u64, shards: u8, mutant: Option<Mutant>) -> Vec<String> {
    let setting =
        Setting { seed, shards, calls: CALLS, weather: Weather::BAD, mutant, hops_lost: 0 };
    let mut world = World::new(setting);
    world.run(LENGTH);
    checks::check(&world)
}

fn assert_good(seed: u64) {
    for shards in [1, 3] {
        let faults = run(seed, shards, None);
        assert!(
            faults.is_empty(),
            "seed {seed} with {shards} shards, commit {}; again: {AGAIN}\n{}",
            commit(),
            faults.join("\n")
        );
    }
}

const AGAIN: &str =
    "SIM_SEED=<seed> SIM_TRACE=1 cargo test -p tests --test sim one_seed -- --nocapture";

/// The commit that a failing seed belongs to.
fn commit() -> String {
    let said = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    said.map_or_else(
        |_| "unknown".to_owned(),
        |said| String::from_utf8_lossy(&said.stdout).trim().to_owned(),
    )
}

#[test]
fn twenty_seeds_hold_with_one_and_with_three_shards() {
    (1..=20).for_each(assert_good);
}

/// The seeds must reach what they are there for.
#[test]
fn the_seeds_cover_answers_refusals_cancels_and_remote_legs() {
    let mut finals = std::collections::BTreeMap::<u16, usize>::new();
    let mut hops = 0;
    let mut repeats = 0;
    for seed in 1..=20 {
        let mut world = World::new(Setting {
            seed,
            shards: 3,
            calls: CALLS,
            weather: Weather::BAD,
            mutant: None,
            hops_lost: 0,
        });
        world.run(LENGTH);
        let seen = world.callers.iter().filter_map(|caller| caller.seen.finals.first());
        seen.for_each(|status| *finals.entry(*status).or_default() += 1);
        for shard in &world.shards {
            let counts = shard.counts();
            hops += counts.hops;
            repeats += counts.transactions.absorbed + counts.transactions.requests_repeated;
        }
    }
    println!("finals {finals:?}, {hops} messages between shards, {repeats} repeats");
    for status in [200, 404, 480, 486, 487, 603] {
        assert!(finals.get(&status).is_some_and(|count| *count >= 10), "{status}: {finals:?}");
    }
    assert!(hops > 200 && repeats > 500);
}

#[test]
fn one_seed() {
    if let Some(seed) = std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        assert_good(seed);
    }
}

#[test]
fn more_seeds() {
    let Ok(range) = std::env::var("SIM_SEEDS") else { return };
    let (from, to) = range.split_once("..").expect("SIM_SEEDS is from..to");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let bad: Vec<String> = (number(from)..number(to))
        .flat_map(|seed| [1, 3].map(|shards| (seed, shards)))
        .filter_map(|(seed, shards)| {
            let faults = run(seed, shards, None);
            let text = faults.join("\n  ");
            (!faults.is_empty()).then(|| format!("seed {seed} with {shards} shards:\n  {text}"))
        })
        .collect();
    assert!(bad.is_empty(), "commit {}; again: {AGAIN}\n{}", commit(), bad.join("\n"));
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let lines = |seed| {
        let setting = Setting {
            seed,
            shards: 3,
            calls: CALLS,
            weather: Weather::BAD,
            mutant: None,
            hops_lost: 0,
        };
        let mut world = World::new(setting);
        world.run(LENGTH);
        let mut bytes = Vec::new();
        world.records.iter().for_each(|record| record.to_json_line(&mut bytes));
        bytes
    };
    assert!(!lines(7).is_empty());
    assert_eq!(lines(7), lines(7));
    assert_ne!(lines(7), lines(8));
}

/// Queues between shards are bounded: what finds one full breaks its leg and leaves nothing behind.
#[test]
fn full_queues_between_shards_leave_nothing_behind() {
    for seed in 1..=20 {
        let setting = Setting {
            seed,
            shards: 3,
            calls: CALLS,
            weather: Weather::BAD,
            mutant: None,
            hops_lost: 25,
        };
        let mut world = World::new(setting);
        world.run(LENGTH);
        let faults = checks::check_ends(&world);
        assert!(faults.is_empty(), "seed {seed}, commit {}:\n{}", commit(), faults.join("\n"));
    }
}

#[test]
fn every_planted_fault_makes_a_seed_fail() {
    for mutant in Mutant::ALL {
        let caught = (1..=20).find(|seed| !run(*seed, 1, Some(mutant)).is_empty());
        assert!(caught.is_some(), "{mutant:?} goes unnoticed by twenty seeds");
    }
}
