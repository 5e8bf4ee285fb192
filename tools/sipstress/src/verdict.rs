//! What broke, and whose fault it was. Pure: numbers in, words out.
//!
//! The server is never blamed while the generator itself was in trouble: what it did not send in
//! time, did not read in time or let overflow would look like the server's failure.

use crate::report::StepReport;
use crate::tally::Cause;
use serde::Serialize;
use std::fmt;

/// What counts as trouble.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limits {
    /// The generator is late when 1 % of its INVITEs leave later than this, or 1 % of the answers
    /// lie in its socket longer (ms).
    pub lag_p99_ms: f64,
    /// The server is late when 1 % of the calls take longer to set up (ms).
    pub setup_p99_ms: f64,
    /// The server is late when more than this share of the calls needs a repeat (percent).
    pub retransmissions_percent: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { lag_p99_ms: 10.0, setup_p99_ms: 500.0, retransmissions_percent: 1.0 }
    }
}

/// What a step means.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "what", content = "why", rename_all = "snake_case")]
pub enum Verdict {
    /// Every call was made in time and answered in time.
    #[default]
    Clean,
    /// Calls failed.
    ServerFailed(String),
    /// All calls went through, but slowly.
    ServerLate(String),
    /// The tool was the limit: the step says nothing about the server.
    GeneratorLimit(String),
    /// Stopped by hand before the end.
    Interrupted,
}

impl Verdict {
    /// The short form for the table.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::ServerFailed(_) => "FAILED",
            Self::ServerLate(_) => "late",
            Self::GeneratorLimit(_) => "generator limit",
            Self::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clean => f.write_str("clean"),
            Self::ServerFailed(why) => write!(f, "the server failed: {why}"),
            Self::ServerLate(why) => write!(f, "the server was late: {why}"),
            Self::GeneratorLimit(why) => write!(f, "the generator itself was the limit: {why}"),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// What `step` means.
pub fn judge(step: &StepReport, limits: &Limits) -> Verdict {
    if step.unreachable > 0 && step.packets_in == 0 {
        let why = "nothing listens at the target (ICMP port unreachable)";
        return Verdict::ServerFailed(why.to_owned());
    }
    let troubles = generator_troubles(step, limits);
    if !troubles.is_empty() {
        let mut why = troubles.join(", ");
        if step.failed > 0 {
            why.push_str(&format!(
                " (so nothing is said about the {} failed calls: {})",
                step.failed,
                step.failures_text()
            ));
        }
        return Verdict::GeneratorLimit(why);
    }
    if step.failed > 0 {
        let mut why =
            format!("{} of {} calls: {}", step.failed, step.scheduled, step.failures_text());
        if step.unreachable > 0 {
            why.push_str("; its port was closed at times (ICMP port unreachable)");
        }
        if step.retry_after > 0 {
            why.push_str(&format!("; {} with Retry-After", step.retry_after));
        }
        why.push_str(&server_overflow(step));
        return Verdict::ServerFailed(why);
    }
    match server_delays(step, limits) {
        delays if delays.is_empty() => Verdict::Clean,
        delays => Verdict::ServerLate(delays.join(", ") + &server_overflow(step)),
    }
}

/// Where repeats and time-outs come from, if that is known.
fn server_overflow(step: &StepReport) -> String {
    match step.server.as_ref().map_or(0, |server| server.overflow) {
        0 => String::new(),
        count => format!("; its receive buffer overflowed by {count} datagrams"),
    }
}

fn generator_troubles(step: &StepReport, limits: &Limits) -> Vec<String> {
    let own = &step.generator;
    let mut troubles = Vec::new();
    if own.not_made > 0 {
        troubles.push(format!("{} due calls were not made in time", own.not_made));
    }
    if own.table_full > 0 {
        troubles.push(format!("{} due calls did not fit into --calls-max", own.table_full));
    }
    if own.overflow > 0 {
        troubles.push(format!("its receive buffer overflowed by {} datagrams", own.overflow));
    }
    let unsent = step.failures.get(&Cause::Unsent).copied().unwrap_or(0);
    if unsent > 0 {
        troubles.push(format!("{unsent} INVITEs could not be sent"));
    }
    if own.send_lag_ms.p99 > limits.lag_p99_ms {
        troubles.push(format!("INVITEs left {:.1} ms late at p99", own.send_lag_ms.p99));
    }
    if own.read_lag_ms.p99 > limits.lag_p99_ms {
        troubles.push(format!("answers lay unread for {:.1} ms at p99", own.read_lag_ms.p99));
    }
    troubles
}

fn server_delays(step: &StepReport, limits: &Limits) -> Vec<String> {
    let mut delays = Vec::new();
    let share = step.retransmissions as f64 * 100.0 / step.sent.max(1) as f64;
    if share > limits.retransmissions_percent {
        delays.push(format!("{} retransmissions ({share:.1} %)", step.retransmissions));
    }
    if step.setup_ms.p99 > limits.setup_p99_ms {
        delays.push(format!("set-up took {:.0} ms at p99", step.setup_ms.p99));
    }
    delays
}

/// What a whole run means.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conclusion {
    /// The highest rate below which every step was clean, and its calls per second answered.
    pub highest_clean_cps: Option<f64>,
    /// The rate of the first step that was not clean.
    pub broke_at_cps: Option<f64>,
    /// What that step was.
    pub verdict: Verdict,
}

/// The meaning of `steps`, in the order in which they ran.
pub fn conclude(steps: &[StepReport]) -> Conclusion {
    let broken = steps.iter().position(|step| step.verdict != Verdict::Clean);
    let clean = &steps[..broken.unwrap_or(steps.len())];
    Conclusion {
        highest_clean_cps: clean.iter().map(|step| step.offered_cps).max_by(f64::total_cmp),
        broke_at_cps: broken.map(|place| steps[place].offered_cps),
        verdict: broken.map_or(Verdict::Clean, |place| steps[place].verdict.clone()),
    }
}

impl Conclusion {
    /// The exit code: 0 clean, 1 failures (or interrupted), 3 generator limit.
    pub fn exit_code(&self) -> u8 {
        match self.verdict {
            Verdict::Clean => 0,
            Verdict::ServerFailed(_) | Verdict::ServerLate(_) | Verdict::Interrupted => 1,
            Verdict::GeneratorLimit(_) => 3,
        }
    }
}

impl fmt::Display for Conclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.highest_clean_cps {
            Some(cps) => write!(f, "highest clean rate: {cps:.0} cps")?,
            None => write!(f, "no clean step")?,
        }
        match self.broke_at_cps {
            Some(cps) => write!(f, "; at {cps:.0} cps {}", self.verdict),
            None => write!(f, "; nothing broke"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(change: impl FnOnce(&mut StepReport)) -> StepReport {
        let mut step = StepReport {
            offered_cps: 100.0,
            seconds: 5.0,
            scheduled: 500,
            sent: 500,
            answered: 500,
            completed: 500,
            ..StepReport::default()
        };
        change(&mut step);
        step.failed = step.failures.values().sum();
        step.verdict = judge(&step, &Limits::default());
        step
    }

    fn failing(step: &mut StepReport) {
        step.failures.insert(Cause::Timeout, 31);
        step.failures.insert(Cause::Unavailable, 6);
        step.retry_after = 6;
    }

    #[test]
    fn failures_are_the_server_s_when_the_generator_was_well() {
        let text = step(failing).verdict.to_string();
        assert_eq!(
            text,
            "the server failed: 37 of 500 calls: 31 timeout, 6 503; 6 with Retry-After"
        );
    }

    #[test]
    fn the_server_is_not_blamed_for_the_generator_s_trouble() {
        let troubles: [fn(&mut StepReport); 6] = [
            |step| step.generator.overflow = 1,
            |step| step.generator.not_made = 1,
            |step| step.generator.table_full = 1,
            |step| step.generator.send_lag_ms.p99 = 11.0,
            |step| step.generator.read_lag_ms.p99 = 11.0,
            |step| *step.failures.entry(Cause::Unsent).or_default() += 1,
        ];
        for trouble in troubles {
            for fails in [true, false] {
                let step = step(|step| {
                    trouble(step);
                    if fails {
                        failing(step);
                    }
                });
                assert!(matches!(step.verdict, Verdict::GeneratorLimit(_)), "{step:?}");
            }
        }
    }

    #[test]
    fn a_closed_port_is_no_question_of_lateness() {
        let closed = |step: &mut StepReport| {
            failing(step);
            step.unreachable = 3;
            step.generator.send_lag_ms.p99 = 11.0;
        };
        let text = step(closed).verdict.to_string();
        assert_eq!(
            text,
            "the server failed: nothing listens at the target (ICMP port unreachable)"
        );
        let crashed = step(|step| {
            closed(step);
            step.generator.send_lag_ms.p99 = 0.0;
            step.packets_in = 5;
        });
        assert!(crashed.verdict.to_string().ends_with("Retry-After"), "{:?}", crashed.verdict);
    }

    #[test]
    fn slow_answers_and_repeats_are_late_but_no_failures() {
        let slow = step(|step| step.setup_ms.p99 = 501.0);
        assert_eq!(slow.verdict.to_string(), "the server was late: set-up took 501 ms at p99");
        let repeats = step(|step| step.retransmissions = 6);
        assert!(matches!(repeats.verdict, Verdict::ServerLate(_)));
        let full = step(|step| {
            step.retransmissions = 6;
            let server = crate::report::ServerReport { overflow: 9, ..Default::default() };
            step.server = Some(server);
        });
        assert_eq!(
            full.verdict.to_string(),
            "the server was late: 6 retransmissions (1.2 %); its receive buffer overflowed by 9 \
             datagrams"
        );
        let few = step(|step| step.retransmissions = 5);
        assert_eq!(few.verdict, Verdict::Clean);
    }

    #[test]
    fn a_conclusion_names_the_last_clean_rate_and_the_first_trouble() {
        let rated = |cps: f64, change: fn(&mut StepReport)| {
            let mut step = step(change);
            step.offered_cps = cps;
            step
        };
        let steps =
            [rated(10.0, |_| {}), rated(20.0, |_| {}), rated(30.0, failing), rated(40.0, |_| {})];
        let conclusion = conclude(&steps);
        assert_eq!(conclusion.exit_code(), 1);
        assert_eq!(
            conclusion.to_string(),
            "highest clean rate: 20 cps; at 30 cps the server failed: 37 of 500 calls: \
             31 timeout, 6 503; 6 with Retry-After"
        );
        assert_eq!(conclude(&steps[..2]).to_string(), "highest clean rate: 20 cps; nothing broke");
        let limited = [rated(10.0, |step| step.generator.overflow = 3)];
        assert_eq!(conclude(&limited).exit_code(), 3);
        assert_eq!(
            conclude(&limited).to_string(),
            "no clean step; at 10 cps the generator itself was the limit: its receive buffer \
             overflowed by 3 datagrams"
        );
    }
}
