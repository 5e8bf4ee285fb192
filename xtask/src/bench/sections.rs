//! The runs of the bench, one function for each section.

use std::time::Duration;

use anyhow::{Result, bail};

use super::load::{Called, Outcome, Run, hold, sipp, sipstress, sweep};
use super::process::resident_bytes;
use super::report::{Bound, Report};
use super::server::{Programs, Rates, Server, Subject, Variant, has_key};
use super::{Section, metrics, micro};

/// Transactions linger 32 s (64 x T1); a call is old when all of its own are gone.
const LINGER: Duration = Duration::from_secs(36);

/// How long and how fast.
pub(super) struct Pace {
    pub(super) quick: bool,
    pub(super) rates: Rates,
}

/// One bench over one subject.
pub(super) struct Bench<'a> {
    pub(super) subject: Subject,
    pub(super) programs: &'a Programs,
    pub(super) pace: &'a Pace,
}

/// The targets of a kind of call.
struct Kind {
    extension: &'static str,
    rate: u32,
    rate_sipp: u32,
    cpu_us_max: f64,
    held_kib_max: f64,
    is_bridged: bool,
}

impl Bench<'_> {
    pub(super) fn run(&self, section: Section, report: &mut Report) -> Result<()> {
        match section {
            Section::Answer => self.rates(&self.answered(), report),
            Section::Bridge => self.rates(&self.bridged(), report),
            Section::Maximum => self.maximum(report),
            Section::Memory => {
                self.memory(&self.answered(), report)?;
                self.memory(&self.bridged(), report)
            }
            Section::Register => super::register::run(self, report),
            Section::Flood => super::flood::run(self, report),
            Section::Shards => self.shards(report),
            Section::Micro => micro::run(report),
        }
    }

    fn answered(&self) -> Kind {
        Kind {
            extension: "answer",
            rate: self.pace.rates.answer,
            rate_sipp: self.pace.rates.answer_sipp,
            cpu_us_max: 50.0,
            held_kib_max: 4.0,
            is_bridged: false,
        }
    }

    fn bridged(&self) -> Kind {
        Kind {
            extension: "bridge",
            rate: self.pace.rates.bridge,
            rate_sipp: self.pace.rates.bridge_sipp,
            cpu_us_max: 125.0,
            held_kib_max: 8.0,
            is_bridged: true,
        }
    }

    /// Seconds of a run that takes `full` when one has the time.
    pub(super) fn seconds(&self, full: u64) -> u64 {
        if self.pace.quick { full.div_ceil(6) } else { full }
    }

    /// A peer's figures are for comparison; the targets are ours.
    fn bound(&self, bound: Bound) -> Bound {
        if self.subject == Subject::Pbx { bound } else { Bound::None }
    }

    pub(super) fn server(&self, variant: Variant) -> Result<Server> {
        Server::start(self.subject, self.programs, variant)
    }

    fn called(&self, kind: &Kind, server: &Server) -> Result<Option<Called>> {
        kind.is_bridged.then(|| Called::start(self.programs, server)).transpose()
    }

    // --- rate and cost ---------------------------------------------------------------------------

    fn rates(&self, kind: &Kind, report: &mut Report) -> Result<()> {
        self.held_rate(kind, report)?;
        let name = format!("{} by SIPp", kind.extension);
        self.cost(
            kind,
            &name,
            Variant::default(),
            self.bound(Bound::AtMost(kind.cpu_us_max)),
            report,
        )?;
        if self.subject == Subject::Pbx && has_key("trying")? {
            let name = format!("{} by SIPp, always 100 Trying", kind.extension);
            let variant = Variant { always_trying: true, ..Variant::default() };
            self.cost(kind, &name, variant, Bound::None, report)?;
        }
        Ok(())
    }

    /// The target rate, held: nothing fails, next to nothing is sent twice.
    fn held_rate(&self, kind: &Kind, report: &mut Report) -> Result<()> {
        let server = self.server(Variant::default())?;
        let _called = self.called(kind, &server)?;
        let seconds = self.seconds(60);
        let before = server.usage()?;
        let run = Run { extension: kind.extension, rate: kind.rate, seconds };
        let outcome = sipstress(self.programs, &server, &run)?;
        let usage = server.usage()?.since(&before);
        let resident = resident_bytes(server.pid)? as f64 / f64::from(1 << 20);

        let name = |what: &str| format!("{} at {} cps: {what}", kind.extension, kind.rate);
        let remark = format!("{seconds} s; {}", outcome.generator);
        // The last call of a run may end after its last second: one per mille is the clock's.
        let target = f64::from(kind.rate) * 0.999;
        report.row(
            &name("completed"),
            self.bound(Bound::AtLeast(target)),
            outcome.rate(),
            "cps",
            remark,
        );
        self.cleanliness(&name(""), &outcome, report);
        let last = outcome.last_ms;
        let remark = format!("p50 {:.2} ms, max {:.2} ms, of the last 20 s", last.p50, last.max);
        report.row(&name("set-up p99"), Bound::None, last.p99, "ms", remark);
        report.row(&name("RSS"), Bound::None, resident, "MiB", "");
        let cost = usage.per_call_us(outcome.completed);
        report.row(&name("CPU"), Bound::None, cost, "us/call", usage.shares());
        Ok(())
    }

    fn cleanliness(&self, name: &str, outcome: &Outcome, report: &mut Report) {
        let none = self.bound(Bound::AtMost(0.0));
        let causes = outcome.causes.as_str();
        report.row(&format!("{name}failed"), none, outcome.failed as f64, "calls", causes);
        let share = outcome.retransmission_share();
        let bound = self.bound(Bound::AtMost(1.0));
        report.row(&format!("{name}retransmissions"), bound, share, "%", "");
    }

    /// Processor time per call at a load that SIPp can offer.
    fn cost(
        &self,
        kind: &Kind,
        name: &str,
        variant: Variant,
        bound: Bound,
        report: &mut Report,
    ) -> Result<()> {
        let server = self.server(variant)?;
        let _called =
            kind.is_bridged.then(|| Called::start_sipp(self.programs, &server)).transpose()?;
        let before = server.usage()?;
        let run =
            Run { extension: kind.extension, rate: kind.rate_sipp, seconds: self.seconds(30) };
        let outcome = sipp(self.programs, &server, &run)?;
        let usage = server.usage()?.since(&before);
        let remark = format!(
            "{} cps offered, {:.0} completed; {}",
            kind.rate_sipp,
            outcome.rate(),
            usage.shares()
        );
        report.row(
            &format!("{name}: CPU"),
            bound,
            usage.per_call_us(outcome.completed),
            "us/call",
            remark,
        );
        self.cleanliness(&format!("{name}: "), &outcome, report);
        Ok(())
    }

    // --- the maximum -----------------------------------------------------------------------------

    fn maximum(&self, report: &mut Report) -> Result<()> {
        for kind in [self.answered(), self.bridged()] {
            self.maximum_of(&kind, report)?;
        }
        Ok(())
    }

    fn maximum_of(&self, kind: &Kind, report: &mut Report) -> Result<()> {
        let name = |what: &str| format!("{}: {what}", kind.extension);
        let (best, verdict) = {
            let server = self.server(Variant::default())?;
            let _called = self.called(kind, &server)?;
            let start = self.pace.rates.sweep_start;
            sweep(self.programs, &server, kind.extension, start, self.seconds(6))?
        };
        report.row(&name("maximum"), Bound::None, best, "cps", verdict);

        let at = |rate: f64, seconds: u64| -> Result<Outcome> {
            let server = self.server(Variant::default())?;
            let _called = self.called(kind, &server)?;
            let run = Run { extension: kind.extension, rate: rate as u32, seconds };
            sipstress(self.programs, &server, &run)
        };
        let half = at(best / 2.0, self.seconds(20))?;
        let bound = self.bound(Bound::AtMost(10.0));
        let remark = format!("p50 {:.2} ms, max {:.2} ms", half.setup_ms.p50, half.setup_ms.max);
        report.row(&name("set-up p99 at half of it"), bound, half.setup_ms.p99, "ms", remark);

        let twice = at(best * 2.0, self.seconds(20))?;
        let remark = format!(
            "{:.0} cps completed of {:.0} offered; {}; {}",
            twice.rate(),
            twice.offered as f64 / twice.seconds,
            twice.causes,
            twice.generator
        );
        let share = 100.0 * twice.rate() / best;
        let bound = self.bound(Bound::AtLeast(90.0));
        report.row(&name("completed at twice of it"), bound, share, "% of it", remark);
        Ok(())
    }

    // --- memory ----------------------------------------------------------------------------------

    /// The growth between 10,000 and 60,000 held calls, divided by their difference.
    fn memory(&self, kind: &Kind, report: &mut Report) -> Result<()> {
        if kind.rate == 0 {
            return Ok(());
        }
        let (few, more) = if self.pace.quick { (2_000, 10_000) } else { (10_000, 50_000) };
        let server = self.server(Variant::default())?;
        let _called = self.called(kind, &server)?;
        let rate = self.pace.rates.hold;
        let place = |calls| hold(self.programs, &server, kind.extension, rate, calls);
        let _few = place(few)?;
        self.holds(kind, few)?;
        let few_young = resident_bytes(server.pid)?;
        std::thread::sleep(LINGER);
        let few_old = resident_bytes(server.pid)?;
        let _more = place(more)?;
        self.holds(kind, few + more)?;
        let all_young = resident_bytes(server.pid)?;
        std::thread::sleep(LINGER);
        let all_old = resident_bytes(server.pid)?;

        let kib = |less: u64, all: u64| (all as f64 - less as f64) / more as f64 / 1024.0;
        let remark = format!("{few} to {} calls", few + more);
        for (age, growth) in [
            ("younger than 32 s", kib(few_young, all_young)),
            ("older than 32 s", kib(few_old, all_old)),
        ] {
            let name = format!("{} held, {age}: RSS", kind.extension);
            let bound = self.bound(Bound::AtMost(kind.held_kib_max));
            report.row(&name, bound, growth, "KiB/call", remark.as_str());
        }
        Ok(())
    }

    /// That the server holds these calls, by its own count: memory of refused calls is cheap.
    fn holds(&self, kind: &Kind, calls: u64) -> Result<()> {
        if self.subject != Subject::Pbx {
            return Ok(());
        }
        let legs = if kind.is_bridged { 2 * calls } else { calls };
        let held = (metrics::sum("pbx_calls")?, metrics::sum("pbx_legs")?);
        if held != (calls as f64, legs as f64) {
            bail!("{} calls with {} legs are held instead of {calls} with {legs}", held.0, held.1);
        }
        Ok(())
    }

    // --- shards ----------------------------------------------------------------------------------

    /// One source address lands on one socket: half of its calls hop to the other shard.
    fn shards(&self, report: &mut Report) -> Result<()> {
        let kind = self.answered();
        let mut costs = Vec::new();
        for shards in [1, 2] {
            let server = self.server(Variant { shards: Some(shards), ..Variant::default() })?;
            let before = server.usage()?;
            let rate = kind.rate_sipp;
            let run = Run { extension: kind.extension, rate, seconds: self.seconds(30) };
            let outcome = sipp(self.programs, &server, &run)?;
            let usage = server.usage()?.since(&before);
            let hops = metrics::lines_with("hop")?;
            let cost = usage.per_call_us(outcome.completed);
            let remark = format!("{}; {hops}", usage.shares());
            report.row(&format!("{shards} shards: CPU"), Bound::None, cost, "us/call", remark);
            costs.push(cost);
        }
        let ratio = costs[1] / costs[0];
        report.row(
            "2 shards against 1: CPU",
            Bound::AtMost(1.18),
            ratio,
            "times",
            "one source address",
        );
        Ok(())
    }
}
