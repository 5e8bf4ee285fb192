//! How long one search takes, with 10 and with 10,000 extensions.
//!
//! `exact`: the number is an exact name. `pattern`: it matches the last of as many patterns.
//! `included`: the name stands in the eighth of a row of included contexts.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use dialplan::{MatchResult, Plan, parse};

fn plan(text: &str) -> Plan {
    parse(&[("bench", text)]).unwrap_or_else(|faults| panic!("{faults}"))
}

fn extension(context: &str, name: &str, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(out, "[[context.{context}.exten]]\nmatch = '{name}'\nsteps = ['Answer']\n");
}

fn find(criterion: &mut Criterion, name: &str, plan: &Plan, number: &str) {
    assert_ne!(plan.find("default", number, "").result, MatchResult::None);
    criterion.bench_function(&format!("find/{name}"), |bencher| {
        bencher.iter(|| plan.find(black_box("default"), black_box(number), black_box("4930")));
    });
    criterion.bench_function(&format!("find_complete/{name}"), |bencher| {
        bencher.iter(|| {
            plan.find_complete(black_box("default"), black_box(number), black_box("4930"))
        });
    });
}

fn all(criterion: &mut Criterion) {
    for count in [10, 10_000] {
        let (mut exact, mut patterns) = (String::new(), String::new());
        for n in 0..count {
            extension("default", &format!("{}", 4_930_000_000_u64 + n * 7), &mut exact);
            extension("default", &format!("_{:05}XXN.", n), &mut patterns);
        }
        find(criterion, &format!("exact/{count}"), &plan(&exact), "4930000035");
        let number = format!("{:05}0029", count - 1);
        find(criterion, &format!("pattern/{count}"), &plan(&patterns), &number);
    }
    let mut included = String::new();
    for n in 0..8 {
        let name = if n == 0 { "default".to_owned() } else { format!("c{n}") };
        let next = if n < 7 { format!("'c{}'", n + 1) } else { String::new() };
        let _ = writeln!(included, "[context.{name}]\ninclude = [{next}]");
        for m in 0..100 {
            extension(&name, &format!("{n}{m:03}"), &mut included);
            extension(&name, &format!("_{n}{m:03}XX."), &mut included);
        }
    }
    find(criterion, "included/8", &plan(&included), "7042");
}

criterion_group!(benches, all);
criterion_main!(benches);
