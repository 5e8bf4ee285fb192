//! `sipstress sweep`.

use super::{announce, conclude, set_up};
use crate::cli::Sweep;
use crate::drive::Plan;
use crate::table;
use crate::verdict::{self, Verdict};
use anyhow::bail;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Steps of one sweep.
const STEPS_MAX: usize = 10_000;
/// What a settling step may need beyond the time-out: repeats of BYE and CANCEL.
pub(super) const SETTLE_EXTRA: Duration = Duration::from_secs(35);
/// Calls per second at which held calls are hung up at the end.
const HANG_UP_RATE: f64 = 2_000.0;
const HANG_UP_MAX: Duration = Duration::from_secs(120);

/// The rates of a sweep.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// The first.
    pub start: f64,
    /// What is added each time.
    pub step: f64,
    /// What it is multiplied by instead.
    pub growth: Option<f64>,
    /// The last.
    pub max: Option<f64>,
}

impl Rates {
    /// All of them, in order.
    pub fn iter(self) -> impl Iterator<Item = f64> {
        let next = move |rate: &f64| match self.growth {
            Some(growth) => Some(rate * growth),
            None => Some(rate + self.step),
        };
        std::iter::successors(Some(self.start), next)
            .take(STEPS_MAX)
            .take_while(move |rate| self.max.is_none_or(|max| *rate <= max * (1.0 + 1e-9)))
    }
}

/// Raises the rate until something breaks; the exit code.
pub fn sweep(command: &Sweep, stop: &AtomicBool) -> anyhow::Result<u8> {
    let common = &command.common;
    if command.growth.is_some_and(|growth| !(1.001..=10.0).contains(&growth)) {
        bail!("--growth must lie between 1.001 and 10");
    }
    if command.max_rate.is_some_and(|max| max < command.start) {
        bail!("--max-rate is below --start");
    }
    if command.dwell < Duration::from_millis(100) {
        bail!("--dwell must be at least 100ms");
    }
    let mut setup = set_up(common, Some(command.hold), stop)?;
    announce(common, &setup, "sweep");
    println!("{}", table::HEADING);
    let mut steps = Vec::new();
    for rate in rates(command).iter() {
        let generator = &mut setup.generator;
        let seed = setup.seed;
        let plan =
            Plan { rate, span: command.dwell, arrivals: common.arrivals, seed, tick: common.tick };
        generator.begin(plan, setup.watch.as_mut());
        while generator.advance(generator.step_end()) {}
        generator.settle(generator.step_end() + common.timeout + SETTLE_EXTRA);
        let step = generator.finish(setup.watch.as_mut(), &setup.limits);
        println!("{}", table::line(&step));
        let goes_on = step.verdict == Verdict::Clean || command.keep_going;
        let is_over = generator.is_stopped() || generator.is_target_dead();
        steps.push(step);
        if !goes_on || is_over {
            break;
        }
    }
    setup.generator.hang_up_all(HANG_UP_RATE, HANG_UP_MAX);
    if let Some(text) = steps.last().and_then(table::threads) {
        println!("{text}");
    }
    let conclusion = verdict::conclude(&steps);
    if command.keep_going {
        print_overload(&steps);
    }
    conclude(common, &setup, "sweep", (&steps, serde_json::json!({})), &conclusion)
}

/// How much of the best rate the last step still completed.
fn print_overload(steps: &[crate::report::StepReport]) {
    let best = steps.iter().map(|step| step.answered_cps).fold(0.0, f64::max);
    if let Some(last) = steps.last().filter(|_| best > 0.0) {
        println!(
            "answered at {:.0} cps offered: {:.0} cps, {:.0} % of the best ({best:.0} cps)",
            last.offered_cps,
            last.answered_cps,
            last.answered_cps * 100.0 / best
        );
    }
}

fn rates(command: &Sweep) -> Rates {
    Rates {
        start: command.start,
        step: command.step,
        growth: command.growth,
        max: command.max_rate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_grow_by_steps_or_by_a_factor_and_end() {
        let linear = Rates { start: 10.0, step: 10.0, growth: None, max: Some(40.0) };
        assert_eq!(linear.iter().collect::<Vec<_>>(), [10.0, 20.0, 30.0, 40.0]);
        let geometric = Rates { growth: Some(2.0), max: Some(100.0), ..linear };
        assert_eq!(geometric.iter().collect::<Vec<_>>(), [10.0, 20.0, 40.0, 80.0]);
        let endless = Rates { max: None, ..linear };
        assert_eq!(endless.iter().count(), STEPS_MAX);
    }
}
