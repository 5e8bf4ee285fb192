//! `sipstress hold`: what a held call costs the server.

use super::{Setup, announce, conclude, set_up};
use crate::cli::{Common, Hold};
use crate::drive::Plan;
use crate::report::StepReport;
use crate::{table, verdict};
use anyhow::bail;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const SETTLE_EXTRA: Duration = Duration::from_secs(35);
const HANG_UP_MAX: Duration = Duration::from_secs(300);

/// Resident memory of the server at a moment.
#[derive(Clone, Debug, serde::Serialize)]
struct Sample {
    when: &'static str,
    calls: u64,
    server_rss_bytes: Option<u64>,
}

/// Sets up, holds, hangs up; the exit code.
pub fn hold(command: &Hold, stop: &AtomicBool) -> anyhow::Result<u8> {
    let common = &command.common;
    if command.calls == 0 || command.base >= command.calls || command.calls > common.calls_max {
        bail!("wanted: --base < --calls <= --calls-max");
    }
    if common.register {
        bail!("a registration is not held: use `sweep --register` or `run --register`");
    }
    let mut setup = set_up(common, None, stop)?;
    announce(common, &setup, "hold");
    println!("{}", table::HEADING);
    let mut samples = vec![sample(&setup, "before")];
    let mut steps = Vec::new();
    let mut held_s = 0.0;
    if command.base > 0 {
        steps.push(set_up_calls(&mut setup, common, command.base, command.rate));
        samples.push(sample(&setup, "base"));
    }
    if steps.iter().all(is_clean) {
        let more = command.calls - command.base;
        steps.push(set_up_calls(&mut setup, common, more, command.rate));
        samples.push(sample(&setup, "up"));
        let up = setup.generator.link.clock.mono();
        setup.generator.idle(up + command.span);
        held_s = (setup.generator.link.clock.mono() - up).as_secs_f64();
        samples.push(sample(&setup, "held"));
    }
    println!("\n  moment    calls  server RSS MiB");
    for sample in &samples {
        let rss = sample
            .server_rss_bytes
            .map_or("-".to_owned(), |bytes| format!("{:.1}", bytes as f64 / 1_048_576.0));
        println!("{:>8} {:>8} {rss:>15}", sample.when, sample.calls);
    }
    let from = if command.base > 0 { "base" } else { "before" };
    let (young, old) = (per_call(&samples, from, "up"), per_call(&samples, from, "held"));
    print_per_call("all up", young);
    print_per_call(&format!("after {held_s:.0} s more"), old);
    setup.generator.hang_up_all(command.rate, HANG_UP_MAX);
    samples.push(sample(&setup, "after"));
    let more = serde_json::json!({
        "samples": samples,
        "held_seconds": held_s,
        "rss_bytes_per_call_up": young,
        "rss_bytes_per_call_held": old,
    });
    conclude(common, &setup, "hold", (&steps, more), &verdict::conclude(&steps))
}

fn is_clean(step: &StepReport) -> bool {
    step.verdict == verdict::Verdict::Clean
}

fn set_up_calls(setup: &mut Setup<'_>, common: &Common, calls: u32, rate: f64) -> StepReport {
    let span = Duration::from_secs_f64(f64::from(calls) / rate);
    let plan = Plan { rate, span, arrivals: common.arrivals, seed: setup.seed, tick: common.tick };
    let generator = &mut setup.generator;
    generator.begin(plan, setup.watch.as_mut());
    while generator.advance(generator.step_end()) {}
    generator.settle(generator.step_end() + common.timeout + SETTLE_EXTRA);
    let step = generator.finish(setup.watch.as_mut(), &setup.limits);
    println!("{}", table::line(&step));
    step
}

fn sample(setup: &Setup<'_>, when: &'static str) -> Sample {
    let rss = setup.watch.as_ref().and_then(crate::drive::ServerWatch::rss_bytes);
    Sample { when, calls: setup.generator.work.held() as u64, server_rss_bytes: rss }
}

/// Memory per call between two moments.
fn per_call(samples: &[Sample], from: &str, to: &str) -> Option<f64> {
    let find = |when: &str| samples.iter().find(|sample| sample.when == when);
    let (from, to) = (find(from)?, find(to)?);
    let calls = to.calls.checked_sub(from.calls).filter(|calls| *calls > 0)?;
    Some((to.server_rss_bytes? as f64 - from.server_rss_bytes? as f64) / calls as f64)
}

fn print_per_call(when: &str, bytes: Option<f64>) {
    match bytes {
        Some(bytes) => println!("per held call, {when}: {:.2} KiB", bytes / 1024.0),
        None => println!("per held call, {when}: unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_per_call_is_a_difference() {
        let sample = |when, calls, rss| Sample { when, calls, server_rss_bytes: rss };
        let samples = [
            sample("base", 100, Some(1_000_000)),
            sample("up", 300, Some(1_400_000)),
            sample("held", 100, None),
        ];
        assert_eq!(per_call(&samples, "base", "up"), Some(2_000.0));
        assert_eq!(per_call(&samples, "base", "held"), None);
        assert_eq!(per_call(&samples, "base", "nowhere"), None);
    }
}
