//! Prometheus metrics on loopback.
//!
//! Nothing is counted twice: shards, drivers, journal and logger keep plain counts anyway; once a
//! second they are copied into handles that were registered at the start.

use crate::facts::{EventCounts, Reason};
use crate::records::Progress;
use crate::state;
use logging_sinks::Logger;
use metrics::{Counter, Gauge, counter, gauge};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use pbx_core::{Refused, ShardCounts};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a shard's thread counts beside its shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DriverCounts {
    /// Datagrams that went on to the shard that they belong to.
    pub(crate) hopped: u64,
    /// Datagrams and messages dropped because another shard's mailbox was full.
    pub(crate) hops_dropped: u64,
    /// New calls refused because another shard's mailbox was nearly full.
    pub(crate) hops_refused: u64,
    /// Datagrams that the kernel dropped because the socket's buffer was full.
    pub(crate) kernel_drops: u64,
    /// Datagrams sent.
    pub(crate) sent: u64,
    /// Datagrams that the kernel refused to send.
    pub(crate) send_failures: u64,
    /// Datagrams dropped because the socket took none for too long.
    pub(crate) send_drops: u64,
    /// Errors of receiving.
    pub(crate) receive_failures: u64,
    /// Errors that came back from the network for what was sent.
    pub(crate) path_errors: u64,
    /// Records taken.
    pub(crate) records: u64,
    /// Records that had to wait in memory because their ring was full.
    pub(crate) records_overflowed: u64,
    /// The longest turn since the last publication, in microseconds.
    pub(crate) turn_max_us: u64,
    /// CPU time of the thread.
    pub(crate) cpu: Duration,
}

/// All of one shard.
pub(crate) struct Snapshot {
    pub(crate) shard: ShardCounts,
    pub(crate) driver: DriverCounts,
    /// What the security log was offered.
    pub(crate) security: EventCounts,
}

/// Reads one figure.
type Read<T> = fn(&Snapshot) -> T;

const COUNTERS: &[(&str, Read<u64>)] = &[
    ("pbx_datagrams_received_total", |s| s.shard.datagrams),
    ("pbx_datagrams_sent_total", |s| s.driver.sent),
    ("pbx_keep_alives_total", |s| s.shard.keep_alives),
    ("pbx_messages_malformed_total", |s| s.shard.malformed),
    ("pbx_requests_full_total", |s| s.shard.full + s.shard.endpoint.full),
    ("pbx_registers_total", |s| s.shard.registers),
    ("pbx_registers_refused_total", |s| s.shard.registers_refused),
    ("pbx_bindings_expired_total", |s| s.shard.expired),
    ("pbx_strangers_closed_drops_total", |s| s.shard.strangers.closed_drops),
    ("pbx_strangers_silenced_total", |s| {
        s.shard.strangers.silenced + s.shard.strangers.silenced_all
    }),
    ("pbx_strangers_closed_total", |s| s.shard.strangers.closings),
    ("pbx_strangers_evicted_total", |s| s.shard.strangers.evictions),
    ("pbx_calls_total", |s| s.shard.call.calls),
    ("pbx_calls_answered_total", |s| s.shard.call.answered),
    ("pbx_calls_ended_total", |s| s.shard.call.ended),
    ("pbx_legs_placed_total", |s| s.shard.call.legs),
    ("pbx_calls_no_extension_total", |s| s.shard.call.no_extension),
    ("pbx_retransmissions_received_total", |s| s.shard.transactions.absorbed),
    ("pbx_requests_repeated_total", |s| s.shard.transactions.requests_repeated),
    ("pbx_responses_repeated_total", |s| {
        s.shard.transactions.responses_repeated + s.shard.endpoint.successes_repeated
    }),
    ("pbx_tombstones_evicted_total", |s| s.shard.transactions.tombstones_evicted),
    ("pbx_lookups_total", |s| s.shard.lookups),
    ("pbx_lookups_unknown_total", |s| s.shard.lookups_unknown),
    ("pbx_lookups_silent_total", |s| s.shard.lookups_silent),
    ("pbx_lookups_full_total", |s| s.shard.lookups_full),
    ("pbx_leg_messages_hopped_total", |s| s.shard.hops),
    ("pbx_datagrams_hopped_total", |s| s.driver.hopped),
    ("pbx_hops_dropped_total", |s| s.driver.hops_dropped),
    ("pbx_hops_refused_total", |s| s.driver.hops_refused),
    ("pbx_kernel_drops_total", |s| s.driver.kernel_drops),
    ("pbx_send_failures_total", |s| s.driver.send_failures),
    ("pbx_send_drops_total", |s| s.driver.send_drops),
    ("pbx_receive_failures_total", |s| s.driver.receive_failures),
    ("pbx_path_errors_total", |s| s.driver.path_errors),
    ("pbx_records_total", |s| s.driver.records),
    ("pbx_records_overflowed_total", |s| s.driver.records_overflowed),
];

const GAUGES: &[(&str, Read<f64>)] = &[
    ("pbx_calls", |s| s.shard.calls as f64),
    ("pbx_legs", |s| s.shard.legs as f64),
    ("pbx_lookups_waiting", |s| s.shard.lookups_waiting as f64),
    ("pbx_endpoints_kept", |s| s.shard.kept as f64),
    ("pbx_transactions", |s| {
        f64::from(s.shard.transactions.clients) + f64::from(s.shard.transactions.servers)
    }),
    ("pbx_tombstones", |s| f64::from(s.shard.transactions.tombstones)),
    ("pbx_turn_max_seconds", |s| s.driver.turn_max_us as f64 / 1e6),
    ("pbx_thread_cpu_seconds", |s| s.driver.cpu.as_secs_f64()),
];

/// The handles of one shard.
pub(crate) struct ShardMeters {
    counters: Vec<(Counter, Read<u64>)>,
    gauges: Vec<(Gauge, Read<f64>)>,
    refused: Vec<(Counter, Refused)>,
    security: Vec<[Counter; 2]>,
}

impl ShardMeters {
    /// Registers the handles of shard `number`.
    pub(crate) fn new(number: u8) -> Self {
        let shard = number.to_string();
        let counters =
            COUNTERS.iter().map(|(name, read)| (counter!(*name, "shard" => shard.clone()), *read));
        let gauges =
            GAUGES.iter().map(|(name, read)| (gauge!(*name, "shard" => shard.clone()), *read));
        let refused = Refused::ALL.iter().map(|&why| {
            let labels = [("shard", shard.clone()), ("why", why.as_str().to_owned())];
            (counter!("pbx_requests_refused_total", &labels), why)
        });
        let security = Reason::ALL.iter().map(|reason| {
            let labels = [("shard", shard.clone()), ("reason", reason.as_str().to_owned())];
            ["pbx_security_events_total", "pbx_security_events_summed_total"]
                .map(|name| counter!(name, &labels))
        });
        Self {
            counters: counters.collect(),
            gauges: gauges.collect(),
            refused: refused.collect(),
            security: security.collect(),
        }
    }

    /// Copies the counts.
    pub(crate) fn publish(&self, snapshot: &Snapshot) {
        self.counters.iter().for_each(|(counter, read)| counter.absolute(read(snapshot)));
        self.gauges.iter().for_each(|(gauge, read)| gauge.set(read(snapshot)));
        let refused = &snapshot.shard.refused;
        self.refused.iter().for_each(|(counter, why)| counter.absolute(refused[why.index()]));
        for ([offered, summed], events) in self.security.iter().zip(&snapshot.security) {
            offered.absolute(events.offered);
            summed.absolute(events.summed);
        }
    }
}

/// Copies what the journal's threads have done.
pub(crate) fn publish_journal(progress: &Progress) {
    let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    counter!("pbx_records_written_total").absolute(read(&progress.written));
    counter!("pbx_records_write_failures_total").absolute(read(&progress.failures));
    counter!("pbx_records_sync_failures_total").absolute(read(&progress.sync_failures));
    counter!("pbx_records_loaded_total").absolute(read(&progress.loaded));
    gauge!("pbx_records_waiting_bytes").set(read(&progress.waiting) as f64);
    gauge!("pbx_records_not_loaded_bytes").set(read(&progress.behind) as f64);
}

/// Copies what the thread of the state has done.
pub(crate) fn publish_state(progress: &state::Progress) {
    let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    counter!("pbx_state_written_total").absolute(read(&progress.written));
    counter!("pbx_state_write_failures_total").absolute(read(&progress.failures));
    counter!("pbx_state_snapshots_total").absolute(read(&progress.snapshots));
    gauge!("pbx_state_waiting_bytes").set(read(&progress.waiting) as f64);
}

/// Copies the logger's two equations: offered = taken + dropped, taken = written + dropped.
/// Attached consoles are left out: each has a name of its own, and names are never forgotten here.
pub(crate) fn publish_logger(logger: &Logger) {
    let view = logger.view();
    for lane in view.lanes {
        let labels = [("lane", lane.name)];
        counter!("pbx_log_keep_offered_total", &labels).absolute(lane.keep_offered);
        counter!("pbx_log_keep_taken_total", &labels).absolute(lane.keep_taken);
        counter!("pbx_log_keep_folded_total", &labels).absolute(lane.keep_folded);
        counter!("pbx_log_verbose_offered_total", &labels).absolute(lane.verbose_offered);
        counter!("pbx_log_verbose_taken_total", &labels).absolute(lane.verbose_taken);
        counter!("pbx_log_verbose_dropped_total", &labels).absolute(lane.verbose_dropped);
    }
    counter!("pbx_log_rotations_total").absolute(view.disk.rotations);
    counter!("pbx_log_files_removed_total").absolute(view.disk.removed);
    gauge!("pbx_log_disk_bytes").set(view.disk.used as f64);
    for sink in view.sinks.into_iter().filter(|sink| !sink.name.starts_with("console-")) {
        let labels = [("sink", sink.name.clone())];
        counter!("pbx_log_lines_written_total", &labels).absolute(sink.counts.written);
        let verbose = [("sink", sink.name.clone()), ("kind", "verbose".to_owned())];
        let keep = [("sink", sink.name.clone()), ("kind", "keep".to_owned())];
        let counts = sink.counts;
        counter!("pbx_log_lines_dropped_total", &verbose).absolute(counts.dropped_verbose);
        counter!("pbx_log_lines_dropped_total", &keep).absolute(counts.dropped_keep());
        gauge!("pbx_log_waiting_bytes", &labels).set(sink.waiting_bytes as f64);
        gauge!("pbx_log_failing", &labels).set(f64::from(u8::from(sink.failure.is_some())));
    }
}

/// Installs the recorder, before anything registers a handle. Gives what reads it.
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(BuildError::FailedToSetGlobalRecorder)?;
    Ok(handle)
}
