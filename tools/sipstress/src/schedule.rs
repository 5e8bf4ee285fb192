//! When calls are due: a function of the rate alone, never of the answers (open loop).

use std::time::Duration;
use turn::{Mono, Rng, Seed};

/// How arrivals are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Arrivals {
    /// Evenly.
    Uniform,
    /// As independent callers do (exponential gaps).
    Poisson,
}

/// The due times of one step.
#[derive(Debug)]
pub struct Schedule {
    start: Mono,
    end: Mono,
    rate: f64,
    random: Option<Rng>,
    /// Due times given out so far.
    count: u64,
    next: Mono,
}

impl Schedule {
    /// `rate` calls per second from `start` on, for `span`.
    pub fn new(start: Mono, rate: f64, span: Duration, arrivals: Arrivals, seed: Seed) -> Self {
        let random = match arrivals {
            Arrivals::Uniform => None,
            Arrivals::Poisson => Some(Rng::new(seed)),
        };
        let mut this = Self { start, end: start + span, rate, random, count: 0, next: start };
        if this.random.is_some() {
            this.next = start + this.gap();
        }
        this
    }

    /// When the next call is due; `None` after the last of the step.
    pub fn peek(&self) -> Option<Mono> {
        (self.next < self.end).then_some(self.next)
    }

    /// Takes the next due time if it is not after `now`.
    pub fn take(&mut self, now: Mono) -> Option<Mono> {
        let due = self.peek().filter(|due| *due <= now)?;
        self.count += 1;
        self.next = if self.random.is_some() {
            due + self.gap()
        } else {
            // From the start, not from the last one: rounding must not add up.
            self.start + Duration::from_secs_f64(self.count as f64 / self.rate)
        };
        Some(due)
    }

    /// Due times taken so far.
    pub fn taken(&self) -> u64 {
        self.count
    }

    /// When the step's arrivals end.
    pub fn end(&self) -> Mono {
        self.end
    }

    /// Ends the step with the last call taken.
    pub fn cut(&mut self) {
        self.end = self.end.min(self.next);
    }

    /// Takes all that is left and tells how many that were.
    pub fn abandon(&mut self) -> u64 {
        let before = self.count;
        while self.take(self.end).is_some() {}
        self.count - before
    }

    fn gap(&mut self) -> Duration {
        let Some(random) = &mut self.random else { return Duration::ZERO };
        // 53 random bits make a number in (0, 1].
        let unit = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        Duration::from_secs_f64(-unit.ln() / self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn uniform_arrivals_match_the_rate_at_every_moment(
            rate in 0.5_f64..100_000.0,
            millis in 1_u64..2_000,
            start in 0_u64..1 << 60,
        ) {
            let (start, span) = (Mono::from_nanos(start), Duration::from_millis(millis));
            let mut schedule = Schedule::new(start, rate, span, Arrivals::Uniform, [0; 32]);
            let mut count = 0_u64;
            while let Some(due) = schedule.take(start + span) {
                let wanted = count as f64 / rate;
                prop_assert!(((due - start).as_secs_f64() - wanted).abs() < 1e-6);
                count += 1;
            }
            prop_assert_eq!(count, schedule.taken());
            let wanted = rate * span.as_secs_f64();
            prop_assert!((count as f64 - wanted).abs() <= 1.001, "{} of {}", count, wanted);
        }

        #[test]
        fn looking_more_often_changes_nothing(rate in 1.0_f64..5_000.0, steps in 1_u64..200) {
            let span = Duration::from_secs(1);
            for arrivals in [Arrivals::Uniform, Arrivals::Poisson] {
                let new = || Schedule::new(Mono::ZERO, rate, span, arrivals, [7; 32]);
                let (mut once, mut often) = (new(), new());
                let mut all = Vec::new();
                while let Some(due) = once.take(Mono::ZERO + span) {
                    all.push(due);
                }
                let mut bits = Vec::new();
                for step in 1..=steps {
                    let now = Mono::from_nanos(1_000_000_000 * step / steps);
                    while let Some(due) = often.take(now) {
                        prop_assert!(due <= now);
                        bits.push(due);
                    }
                }
                prop_assert_eq!(&all, &bits);
            }
        }
    }

    #[test]
    fn a_step_that_is_cut_has_no_more_calls() {
        let new = || {
            let span = Duration::from_secs(1);
            let mut schedule = Schedule::new(Mono::ZERO, 10.0, span, Arrivals::Uniform, [0; 32]);
            assert!(schedule.take(Mono::ZERO).is_some());
            schedule
        };
        let mut cut = new();
        cut.cut();
        assert_eq!((cut.peek(), cut.taken(), cut.abandon()), (None, 1, 0));
        let mut abandoned = new();
        assert_eq!((abandoned.abandon(), abandoned.taken()), (9, 10));
    }

    #[test]
    fn poisson_arrivals_match_the_rate_on_average() {
        let mut counts = 0;
        for seed in 0..20 {
            let mut schedule = Schedule::new(
                Mono::ZERO,
                1_000.0,
                Duration::from_secs(1),
                Arrivals::Poisson,
                [seed; 32],
            );
            counts += schedule.abandon();
        }
        // 20,000 wanted; the standard deviation is 141.
        assert!((19_000..21_000).contains(&counts), "{counts}");
    }
}
