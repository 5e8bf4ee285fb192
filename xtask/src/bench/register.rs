//! Registrations with a digest, and what a digest adds to a call.

use anyhow::Result;

use super::load::{Outcome, sipp_scenario, sweep_registrations};
use super::report::{Bound, Report};
use super::sections::Bench;
use super::server::Variant;

/// What Asterisk 22 does on one core: 1,200 to 1,800 a second.
const REGISTERS_MIN: f64 = 20_000.0;

/// Where SIPp's phones come from: no trunk has this address, so they are challenged.
const PHONES: &str = "127.0.0.2";

pub(super) fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let (best, verdict) = {
        let server = bench.server(Variant::default())?;
        sweep_registrations(bench.programs, &server, (8_000, 60_000), bench.seconds(6))?
    };
    let bound = Bound::AtLeast(REGISTERS_MIN);
    report.row("REGISTER with digest: maximum", bound, best, "a second", verdict);

    let (cost, outcome) = cost(bench, "register.xml", 6_000)?;
    let remark = outcome.causes.as_str();
    let name = "REGISTER with digest by SIPp at 6,000 a second";
    report.row(&format!("{name}: CPU"), Bound::AtMost(50.0), cost, "us each", remark);
    let failed = outcome.failed as f64;
    report.row(&format!("{name}: failed"), Bound::AtMost(0.0), failed, "registrations", "");

    // The same caller twice; without a proof it comes from the trunk's address.
    let rate = 4_000;
    let (plain, _) = cost_from(bench, "call_plain.xml", "127.0.0.1", rate)?;
    let (proved, outcome) = cost_from(bench, "call_digest.xml", PHONES, rate)?;
    let remark = format!("{proved:.1} against {plain:.1} us/call by SIPp at {rate} cps");
    let more = proved - plain;
    report.row("a digest in a call: CPU", Bound::AtMost(25.0), more, "us/call", remark);
    let failed = outcome.failed as f64;
    report.row("a digest in a call: failed", Bound::AtMost(0.0), failed, "calls", "");
    Ok(())
}

fn cost(bench: &Bench<'_>, scenario: &str, rate: u32) -> Result<(f64, Outcome)> {
    cost_from(bench, scenario, PHONES, rate)
}

fn cost_from(bench: &Bench<'_>, scenario: &str, from: &str, rate: u32) -> Result<(f64, Outcome)> {
    let server = bench.server(Variant::default())?;
    let before = server.usage()?;
    let seconds = bench.seconds(30);
    let outcome = sipp_scenario(bench.programs, &server, (scenario, from), (rate, seconds))?;
    let usage = server.usage()?.since(&before);
    Ok((usage.per_call_us(outcome.completed), outcome))
}
