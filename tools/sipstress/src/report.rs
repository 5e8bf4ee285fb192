//! What a step says about itself: the numbers behind the table, the CSV and the JSON.

use crate::process::Spent;
use crate::tally::{Cause, Quantiles, Tally};
use crate::verdict::Verdict;
use serde::Serialize;
use std::collections::BTreeMap;

/// One step of constant rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepReport {
    /// Calls per second by the schedule.
    pub offered_cps: f64,
    /// Seconds during which calls were due.
    pub seconds: f64,
    /// Calls that were due.
    pub scheduled: u64,
    /// INVITEs that the kernel took (first ones).
    pub sent: u64,
    /// Calls answered.
    pub answered: u64,
    /// Answered per second while calls were being made; what was answered after that is in
    /// `answered` alone.
    pub answered_cps: f64,
    /// Calls hung up and confirmed.
    pub completed: u64,
    /// Calls without end when the run was stopped by hand.
    pub unfinished: u64,
    /// Failed calls, all causes.
    pub failed: u64,
    /// Failed calls by cause.
    pub failures: BTreeMap<Cause, u64>,
    /// Final responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// 503s that had a Retry-After.
    pub retry_after: u64,
    /// Requests sent again by timer.
    pub retransmissions: u64,
    /// 2xx that the server sent again although acknowledged.
    pub repeated_answers: u64,
    /// Answers of calls that had been given up.
    pub late_answers: u64,
    /// 100 Trying received per call sent.
    pub trying_per_call: f64,
    /// 18x received per call sent.
    pub ringing_per_call: f64,
    /// Messages of no call of this run.
    pub strays: u64,
    /// Datagrams that are no SIP message.
    pub garbage: u64,
    /// Requests that the server sent.
    pub requests: u64,
    /// Datagrams sent.
    pub packets_out: u64,
    /// Datagrams received.
    pub packets_in: u64,
    /// Set-up time in ms, from due time to the arrival of the 2xx.
    pub setup_ms: Quantiles,
    /// This tool's own trouble.
    pub generator: GeneratorReport,
    /// The server's process, when it is on this machine.
    pub server: Option<ServerReport>,
    /// Errors that the network sent back.
    pub unreachable: u64,
    /// What the step means.
    pub verdict: Verdict,
}

/// What limited the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GeneratorReport {
    /// How late INVITEs left, in ms.
    pub send_lag_ms: Quantiles,
    /// How long messages lay in our socket, in ms.
    pub read_lag_ms: Quantiles,
    /// Due calls that were not made because the generator came too late.
    pub not_made: u64,
    /// Due calls that were not made because its table was full.
    pub table_full: u64,
    /// Datagrams that the kernel dropped at our full receive buffer.
    pub overflow: u64,
    /// How often our socket was full when something was to be sent.
    pub socket_full: u64,
    /// Share of one core that this process used, in percent.
    pub cpu_percent: f64,
}

/// What the server used.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServerReport {
    /// Its process.
    pub pid: u32,
    /// CPU, threads and memory.
    #[serde(flatten)]
    pub spent: Spent,
    /// Datagrams that the kernel dropped at its full receive buffer.
    pub overflow: u64,
    /// CPU microseconds for each call sent.
    pub cpu_micros_per_call: f64,
}

impl StepReport {
    /// The counts of `tally` in a step of `scheduled` calls due during `seconds`.
    pub fn new(offered_cps: f64, seconds: f64, scheduled: u64, tally: &Tally) -> Self {
        let per_call = |count: u64| count as f64 / tally.sent.max(1) as f64;
        Self {
            offered_cps,
            seconds,
            scheduled,
            sent: tally.sent,
            answered: tally.answered,
            answered_cps: tally.answered as f64 / seconds.max(1e-9),
            completed: tally.completed,
            unfinished: 0,
            failed: tally.failed(),
            failures: tally.failures.clone(),
            statuses: tally.statuses.clone(),
            retry_after: tally.retry_after,
            retransmissions: tally.retransmissions,
            repeated_answers: tally.repeated_answers,
            late_answers: tally.late_answers,
            trying_per_call: per_call(tally.trying),
            ringing_per_call: per_call(tally.ringing),
            strays: tally.strays,
            garbage: tally.garbage,
            requests: tally.requests,
            packets_out: tally.packets_out,
            packets_in: tally.packets_in,
            setup_ms: tally.setup.quantiles(),
            generator: GeneratorReport {
                send_lag_ms: tally.send_lag.quantiles(),
                read_lag_ms: tally.read_lag.quantiles(),
                ..GeneratorReport::default()
            },
            server: None,
            unreachable: tally.unreachable,
            verdict: Verdict::Clean,
        }
    }

    /// Failed calls in words: `31 timeout, 6 503`.
    pub fn failures_text(&self) -> String {
        let known = Cause::ALL.iter().filter_map(|cause| {
            let count = self.failures.get(cause)?;
            Some(format!("{count} {}", cause.as_str()))
        });
        known.collect::<Vec<_>>().join(", ")
    }
}
