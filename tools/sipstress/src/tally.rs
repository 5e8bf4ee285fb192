//! What is counted during a step.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest time that a histogram tells apart: longer than Timer B.
const LONGEST_MICROS: u64 = 120_000_000;

/// Why a call failed. One cause per call: the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No final response to the INVITE.
    Timeout,
    /// 3xx.
    Redirected,
    /// 4xx.
    Refused,
    /// 503, the word for overload.
    Unavailable,
    /// 5xx except 503.
    ServerError,
    /// 6xx.
    Declined,
    /// The BYE was not answered.
    ByeTimeout,
    /// The BYE was answered by a failure.
    ByeRefused,
    /// The server hung up first.
    HungUp,
    /// An answer that no rule permits.
    Protocol,
    /// The system refused to send.
    Unsent,
}

impl Cause {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 11] = [
        Self::Timeout,
        Self::Redirected,
        Self::Refused,
        Self::Unavailable,
        Self::ServerError,
        Self::Declined,
        Self::ByeTimeout,
        Self::ByeRefused,
        Self::HungUp,
        Self::Protocol,
        Self::Unsent,
    ];

    /// The cause that a final response to the INVITE means.
    pub fn of_status(status: u16) -> Self {
        match status {
            300..=399 => Self::Redirected,
            400..=499 => Self::Refused,
            503 => Self::Unavailable,
            500..=599 => Self::ServerError,
            600..=699 => Self::Declined,
            _ => Self::Protocol,
        }
    }

    /// A word for tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Redirected => "3xx",
            Self::Refused => "4xx",
            Self::Unavailable => "503",
            Self::ServerError => "5xx",
            Self::Declined => "6xx",
            Self::ByeTimeout => "bye-timeout",
            Self::ByeRefused => "bye-refused",
            Self::HungUp => "hung-up",
            Self::Protocol => "protocol",
            Self::Unsent => "unsent",
        }
    }
}

/// A histogram of durations in microseconds.
#[derive(Clone, Debug)]
pub struct Spans(Histogram<u64>);

impl Default for Spans {
    fn default() -> Self {
        Self::new()
    }
}

impl Spans {
    /// An empty histogram with three significant digits.
    pub fn new() -> Self {
        let made = Histogram::new_with_bounds(1, LONGEST_MICROS, 3);
        Self(made.expect("constant bounds that the library accepts"))
    }

    /// Notes one duration.
    pub fn note(&mut self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(micros);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Adds what another histogram holds.
    pub fn add(&mut self, other: &Self) {
        let added = self.0.add(&other.0);
        debug_assert!(added.is_ok(), "all have the same bounds");
    }

    /// The usual figures, in milliseconds.
    pub fn quantiles(&self) -> Quantiles {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / 1_000.0;
        if self.0.is_empty() {
            return Quantiles::default();
        }
        Quantiles {
            count: self.0.len(),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: self.0.max() as f64 / 1_000.0,
        }
    }
}

/// The usual figures of a histogram, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// How many durations were noted.
    pub count: u64,
    /// The median.
    pub p50: f64,
    /// 95 % are not longer.
    pub p95: f64,
    /// 99 % are not longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// Counts of one step. "Sent" means that the kernel took it, nothing else.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// INVITEs sent, repeats not counted.
    pub sent: u64,
    /// Calls answered by 2xx.
    pub answered: u64,
    /// Calls hung up by us and confirmed.
    pub completed: u64,
    /// Failed calls by cause.
    pub failures: BTreeMap<Cause, u64>,
    /// Final responses to INVITEs by status; one of each call.
    pub statuses: BTreeMap<u16, u64>,
    /// 503s that had a Retry-After.
    pub retry_after: u64,
    /// 100 Trying received.
    pub trying: u64,
    /// 180 to 199 received.
    pub ringing: u64,
    /// Requests that our timers sent again.
    pub retransmissions: u64,
    /// 2xx that came again although acknowledged.
    pub repeated_answers: u64,
    /// Answers of calls that had been given up.
    pub late_answers: u64,
    /// Messages of no call of this run.
    pub strays: u64,
    /// Datagrams that are no SIP message.
    pub garbage: u64,
    /// Requests that the server sent (OPTIONS, NOTIFY, ...).
    pub requests: u64,
    /// Datagrams sent, of all kinds.
    pub packets_out: u64,
    /// Datagrams received, of all kinds.
    pub packets_in: u64,
    /// Errors that the network sent back: nobody listens at the target.
    pub unreachable: u64,
    /// Set-up time, from the moment at which the call was due to its 2xx's arrival in the kernel.
    pub setup: Spans,
    /// The same since it was last taken, for intervals.
    pub recent: Spans,
    /// How late INVITEs left.
    pub send_lag: Spans,
    /// How long messages lay in the socket before they were read.
    pub read_lag: Spans,
}

impl Tally {
    /// Notes an answered call.
    pub fn answer(&mut self, setup: Duration) {
        self.answered += 1;
        self.setup.note(setup);
        self.recent.note(setup);
    }

    /// Notes a failed call.
    pub fn fail(&mut self, cause: Cause) {
        *self.failures.entry(cause).or_default() += 1;
    }

    /// All failed calls.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_milliseconds_and_survive_extremes() {
        let mut spans = Spans::new();
        assert_eq!(spans.quantiles(), Quantiles::default());
        (1..=100).for_each(|millis| spans.note(Duration::from_millis(millis)));
        let figures = spans.quantiles();
        assert!((figures.p50 - 50.0).abs() < 0.1 && (figures.p99 - 99.0).abs() < 0.1);
        spans.note(Duration::MAX);
        assert!(spans.quantiles().max >= 120_000.0);
    }

    #[test]
    fn each_status_has_its_cause() {
        for (status, cause) in [
            (302, Cause::Redirected),
            (486, Cause::Refused),
            (500, Cause::ServerError),
            (503, Cause::Unavailable),
            (603, Cause::Declined),
            (199, Cause::Protocol),
        ] {
            assert_eq!(Cause::of_status(status), cause);
        }
    }
}
