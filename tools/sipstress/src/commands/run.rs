//! `sipstress run`: one rate, held.

use super::{Setup, announce, conclude, set_up};
use crate::cli::Run;
use crate::drive::{Plan, ServerWatch};
use crate::tally::{Quantiles, Spans};
use crate::{table, verdict};
use anyhow::bail;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use turn::Mono;

/// The end of the run whose figures are told apart.
const TAIL: Duration = Duration::from_secs(20);
const SETTLE_EXTRA: Duration = Duration::from_secs(35);
const HANG_UP_MAX: Duration = Duration::from_secs(120);
/// Intervals of a run.
const INTERVALS_MAX: u128 = 100_000;

/// The last intervals' set-up times.
#[derive(Debug, Default)]
struct Tail(VecDeque<(Mono, Spans)>);

impl Tail {
    fn push(&mut self, begun: Mono, spans: Spans) {
        self.0.push_back((begun, spans));
        let newest = begun;
        while self.0.front().is_some_and(|(begun, _)| newest - *begun > TAIL) {
            self.0.pop_front();
        }
    }

    /// Of the intervals that began at most [`TAIL`] before `end`.
    fn quantiles(&self, end: Mono) -> Quantiles {
        let mut all = Spans::new();
        let young = self.0.iter().filter(|(begun, _)| end - *begun <= TAIL);
        young.for_each(|(_, spans)| all.add(spans));
        all.quantiles()
    }
}

/// Holds one rate; the exit code.
pub fn run(command: &Run, stop: &AtomicBool) -> anyhow::Result<u8> {
    let common = &command.common;
    if command.interval < Duration::from_millis(100)
        || command.duration.as_nanos() / command.interval.as_nanos() > INTERVALS_MAX
    {
        bail!("--interval must be at least 100ms and not too short for --duration");
    }
    let mut setup = set_up(common, Some(command.hold), stop)?;
    announce(common, &setup, "run");
    println!(
        "    time     sent answered   failed  retr  in flight     p50     p99     max  server RSS"
    );
    println!("       s      during the interval                   set-up ms               MiB");
    let plan = Plan {
        rate: command.rate,
        span: command.duration,
        arrivals: common.arrivals,
        seed: setup.seed,
        tick: common.tick,
    };
    setup.generator.begin(plan, setup.watch.as_mut());
    let (tail, intervals) = watch_intervals(&mut setup, command.interval);
    let generator = &mut setup.generator;
    let end = generator.link.clock.mono();
    generator.settle(generator.step_end() + common.timeout + SETTLE_EXTRA);
    let step = generator.finish(setup.watch.as_mut(), &setup.limits);
    println!("\n{}\n{}", table::HEADING, table::line(&step));
    if let Some(text) = table::threads(&step) {
        println!("{text}");
    }
    let last = tail.quantiles(end);
    let rss = intervals.last().and_then(|interval| interval.server_rss_bytes);
    println!(
        "last 20 s: p50 {:.2} ms, p99 {:.2} ms, max {:.1} ms; server RSS {}",
        last.p50,
        last.p99,
        last.max,
        rss.map_or("unknown".to_owned(), |bytes| format!("{:.1} MiB", mib(bytes)))
    );
    generator.hang_up_all(command.rate, HANG_UP_MAX);
    let steps = [step];
    let more = serde_json::json!({
        "last_20_s": { "setup_ms": last, "server_rss_bytes": rss },
        "intervals": intervals,
    });
    conclude(common, &setup, "run", (&steps, more), &verdict::conclude(&steps))
}

/// Makes the step's calls and prints a line per interval.
fn watch_intervals(setup: &mut Setup<'_>, length: Duration) -> (Tail, Vec<Interval>) {
    let (mut tail, mut intervals) = (Tail::default(), Vec::new());
    let generator = &mut setup.generator;
    let start = generator.link.clock.mono();
    let (mut begun, mut before) = (start, Counts::default());
    loop {
        let goes_on = generator.advance((begun + length).min(generator.step_end()));
        let now = generator.link.clock.mono();
        let open = generator.work.open() as u64;
        let tally = generator.work.tally();
        let counts = Counts {
            sent: tally.sent,
            answered: tally.answered,
            failed: tally.failed(),
            retransmissions: tally.retransmissions,
        };
        let interval = Interval {
            until_s: (now - start).as_secs_f64(),
            counts: counts.since(before),
            open,
            setup_ms: tally.recent.quantiles(),
            server_rss_bytes: setup.watch.as_ref().and_then(ServerWatch::rss_bytes),
        };
        println!("{interval}");
        intervals.push(interval);
        tail.push(begun, tally.recent.clone());
        tally.recent.clear();
        (begun, before) = (now, counts);
        if !goes_on {
            return (tail, intervals);
        }
    }
}

#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
struct Counts {
    sent: u64,
    answered: u64,
    failed: u64,
    retransmissions: u64,
}

impl Counts {
    fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent - before.sent,
            answered: self.answered - before.answered,
            failed: self.failed - before.failed,
            retransmissions: self.retransmissions - before.retransmissions,
        }
    }
}

#[derive(Debug, serde::Serialize)]
struct Interval {
    until_s: f64,
    #[serde(flatten)]
    counts: Counts,
    open: u64,
    setup_ms: Quantiles,
    server_rss_bytes: Option<u64>,
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:>8.1} {:>8} {:>8} {:>8} {:>5} {:>10} {:>7.2} {:>7.2} {:>7.1}  {:>10}",
            self.until_s,
            self.counts.sent,
            self.counts.answered,
            self.counts.failed,
            self.counts.retransmissions,
            self.open,
            self.setup_ms.p50,
            self.setup_ms.p99,
            self.setup_ms.max,
            self.server_rss_bytes.map_or("-".to_owned(), |bytes| format!("{:.1}", mib(bytes)))
        )
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_forgets_what_is_older_than_20_s() {
        let at = |seconds: u64| Mono::from_nanos(seconds * 1_000_000_000);
        let mut tail = Tail::default();
        for second in (0..60).step_by(5) {
            let mut spans = Spans::new();
            spans.note(Duration::from_millis(second + 1));
            tail.push(at(second), spans);
        }
        let figures = tail.quantiles(at(60));
        assert_eq!(figures.count, 4); // those that began at 40, 45, 50 and 55 s
        assert!((figures.max - 56.0).abs() < 0.1);
        assert!(tail.0.len() <= 5);
    }
}
