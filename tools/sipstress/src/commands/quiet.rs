//! Steps that print nothing, for commands that compare many runs.

use super::sweep::SETTLE_EXTRA;
use super::{Setup, set_up};
use crate::cli::Common;
use crate::drive::Plan;
use crate::report::StepReport;
use crate::schedule::Arrivals;
use crate::verdict::Verdict;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A call that has no answer after this long has failed: the target is on this machine.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Between a rate that is carried and one that is not, at the end of [`Quiet::best`].
const NEAR: f64 = 1.03;
/// What the rate is multiplied by as long as it is carried.
const GROWTH: f64 = 1.3;
/// How often a rate is tried before it counts as too high.
const TRIES_MAX: usize = 3;
/// Steps of one search.
const STEPS_MAX: usize = 40;

/// A generator of calls to one target.
pub struct Quiet<'a> {
    setup: Setup<'a>,
}

/// The highest rate that was carried.
#[derive(Clone, Debug)]
pub struct Best {
    /// The step at that rate; `None` when not even the first one was clean.
    pub step: Option<StepReport>,
    /// Why the next one was not clean.
    pub broke: Option<Verdict>,
}

impl<'a> Quiet<'a> {
    /// Calls `answer` at `target`, whose process is `pid`.
    pub fn new(target: SocketAddr, pid: u32, stop: &'a AtomicBool) -> anyhow::Result<Self> {
        let setup = set_up(&common(target, pid), Some(Duration::ZERO), stop)?;
        Ok(Self { setup })
    }

    /// One step.
    pub fn step(&mut self, rate: f64, span: Duration) -> StepReport {
        let (seed, arrivals) = (self.setup.seed, Arrivals::Uniform);
        let plan = Plan { rate, span, arrivals, seed, tick: Duration::ZERO };
        let generator = &mut self.setup.generator;
        generator.begin(plan, self.setup.watch.as_mut());
        while generator.advance(generator.step_end()) {}
        generator.settle(generator.step_end() + TIMEOUT + SETTLE_EXTRA);
        generator.finish(self.setup.watch.as_mut(), &self.setup.limits)
    }

    /// Whether the run was stopped by hand, or the target is gone.
    pub fn is_over(&mut self) -> bool {
        self.setup.generator.is_stopped() || self.setup.generator.is_target_dead()
    }

    /// Looks for the highest rate that is carried: up from `start` by a factor, then between the
    /// last good and the first bad one. A rate is bad when it was not carried in [`TRIES_MAX`]
    /// steps: a hiccup of the machine, or of the generator, does not end a search.
    pub fn best(&mut self, start: f64, span: Duration) -> Best {
        let mut best = Best { step: None, broke: None };
        let (mut good, mut bad) = (None::<f64>, None::<f64>);
        for _ in 0..STEPS_MAX {
            let rate = match (good, bad) {
                (None, None) => start,
                (Some(good), None) => good * GROWTH,
                (None, Some(bad)) => bad / 2.0,
                (Some(good), Some(bad)) if bad / good <= NEAR => break,
                (Some(good), Some(bad)) => (good * bad).sqrt(),
            };
            let mut step = self.step(rate, span);
            for _ in 1..TRIES_MAX {
                if step.verdict == Verdict::Clean || self.is_over() {
                    break;
                }
                step = self.step(rate, span);
            }
            if step.verdict == Verdict::Clean {
                good = Some(rate);
                best.step = Some(step);
            } else {
                bad = Some(rate);
                best.broke = Some(step.verdict);
            }
            if self.is_over() {
                break;
            }
        }
        best
    }
}

fn common(target: SocketAddr, pid: u32) -> Common {
    Common {
        target: target.to_string(),
        user: "answer".to_owned(),
        local: None,
        timeout: TIMEOUT,
        calls_max: 1_000_000,
        register: false,
        users: String::new(),
        password: String::new(),
        expires: Duration::from_secs(3_600),
        arrivals: Arrivals::Uniform,
        tick: Duration::ZERO,
        seed: None,
        server_pid: Some(pid),
        profile: None,
        json: None,
        csv: None,
        lag_max: Duration::from_millis(10),
        setup_max: Duration::from_millis(500),
        retransmissions_max: 1.0,
        i_own_this_target: false,
    }
}
