//! The table for people, and the CSV for spreadsheets.

use crate::report::StepReport;
use crate::tally::Cause;

/// The two lines above the first step.
pub const HEADING: &str = concat!(
    " offered     sent answered  failed  retr     p50     p95     p99     max",
    "  late99 latemax  gen  srv  us/  100/  18x/\n",
    "     cps                                  ------- set-up ms -------",
    "  ----- ms -----  CPU% CPU% call  call  call",
);

/// One line for one step; the verdict's word and the causes at the end.
pub fn line(step: &StepReport) -> String {
    let (setup, lag) = (&step.setup_ms, &step.generator.send_lag_ms);
    let (server_cpu, per_call) = match &step.server {
        Some(server) => (
            format!("{:.0}", server.spent.cpu_percent),
            format!("{:.0}", server.cpu_micros_per_call),
        ),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let mut line = format!(
        "{:>8.0} {:>8} {:>8} {:>7} {:>5}",
        step.offered_cps, step.sent, step.answered, step.failed, step.retransmissions
    );
    line.push_str(&format!(
        " {:>7.2} {:>7.2} {:>7.2} {:>7.1} {:>7.2} {:>7.1}",
        setup.p50, setup.p95, setup.p99, setup.max, lag.p99, lag.max
    ));
    line.push_str(&format!(
        " {:>4.0} {server_cpu:>4} {per_call:>4} {:>5.2} {:>5.2}  {}",
        step.generator.cpu_percent,
        step.trying_per_call,
        step.ringing_per_call,
        step.verdict.word(),
    ));
    if step.failed > 0 {
        line.push_str(&format!(" ({})", step.failures_text()));
    }
    if step.unfinished > 0 {
        line.push_str(&format!(" ({} unfinished)", step.unfinished));
    }
    line
}

/// Share of each of the server's threads, or nothing.
pub fn threads(step: &StepReport) -> Option<String> {
    let server = step.server.as_ref().filter(|server| !server.spent.threads.is_empty())?;
    let shares = server.spent.threads.iter().take(8);
    let shares: Vec<String> =
        shares.map(|thread| format!("{} {:.0} %", thread.name, thread.cpu_percent)).collect();
    Some(format!(
        "server pid {}: RSS {:.1} MiB; receive buffer overflowed by {}; threads: {}",
        server.pid,
        server.spent.rss_bytes as f64 / 1_048_576.0,
        server.overflow,
        shares.join(", ")
    ))
}

/// The names of the columns of [`csv`].
pub fn csv_heading() -> String {
    let causes: Vec<String> =
        Cause::ALL.iter().map(|cause| format!("failed_{}", cause.as_str())).collect();
    format!(
        "offered_cps,seconds,scheduled,sent,answered,answered_cps,completed,failed,{},\
         retransmissions,p50_ms,p95_ms,p99_ms,max_ms,send_lag_p99_ms,send_lag_max_ms,\
         read_lag_p99_ms,read_lag_max_ms,not_made,overflow,generator_cpu_percent,\
         server_cpu_percent,server_cpu_us_per_call,server_rss_bytes,trying_per_call,\
         ringing_per_call,verdict\n",
        causes.join(",")
    )
}

/// One step as a line of CSV.
pub fn csv(step: &StepReport) -> String {
    let own = &step.generator;
    let mut fields = vec![
        step.offered_cps.to_string(),
        step.seconds.to_string(),
        step.scheduled.to_string(),
        step.sent.to_string(),
        step.answered.to_string(),
        format!("{:.1}", step.answered_cps),
        step.completed.to_string(),
        step.failed.to_string(),
    ];
    let count = |cause| step.failures.get(cause).copied().unwrap_or(0).to_string();
    fields.extend(Cause::ALL.iter().map(count));
    fields.push(step.retransmissions.to_string());
    let setup = &step.setup_ms;
    fields.extend([setup.p50, setup.p95, setup.p99, setup.max].map(|span| span.to_string()));
    let lags = [own.send_lag_ms.p99, own.send_lag_ms.max, own.read_lag_ms.p99, own.read_lag_ms.max];
    fields.extend(lags.map(|span| span.to_string()));
    fields.extend([own.not_made.to_string(), own.overflow.to_string()]);
    fields.push(format!("{:.1}", own.cpu_percent));
    match &step.server {
        Some(server) => fields.extend([
            format!("{:.1}", server.spent.cpu_percent),
            format!("{:.1}", server.cpu_micros_per_call),
            server.spent.rss_bytes.to_string(),
        ]),
        None => fields.extend(std::iter::repeat_n(String::new(), 3)),
    }
    fields.push(format!("{:.3}", step.trying_per_call));
    fields.push(format!("{:.3}", step.ringing_per_call));
    fields.push(step.verdict.word().to_owned());
    format!("{}\n", fields.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Spent, ThreadSpent};
    use crate::report::ServerReport;
    use crate::tally::Quantiles;
    use crate::verdict::{Limits, judge};

    fn steps() -> Vec<StepReport> {
        let clean = StepReport {
            offered_cps: 20_000.0,
            seconds: 5.0,
            scheduled: 100_000,
            sent: 100_000,
            answered: 100_000,
            answered_cps: 20_000.0,
            completed: 100_000,
            retransmissions: 12,
            trying_per_call: 1.0,
            ringing_per_call: 1.0,
            setup_ms: Quantiles { count: 100_000, p50: 0.21, p95: 0.4, p99: 1.26, max: 31.7 },
            server: Some(ServerReport {
                pid: 4711,
                spent: Spent {
                    cpu_seconds: 3.1,
                    cpu_percent: 62.0,
                    rss_bytes: 73_400_320,
                    threads: vec![ThreadSpent { name: "shard-0".into(), cpu_percent: 61.2 }],
                },
                overflow: 0,
                cpu_micros_per_call: 31.0,
            }),
            ..StepReport::default()
        };
        let mut failed = StepReport { offered_cps: 25_000.0, server: None, ..clean.clone() };
        failed.failures.extend([(Cause::Timeout, 1_200), (Cause::Unavailable, 34)]);
        failed.failed = 1_234;
        failed.answered -= 1_234;
        failed.verdict = judge(&failed, &Limits::default());
        let mut limited = StepReport { offered_cps: 30_000.0, ..clean.clone() };
        limited.generator.send_lag_ms =
            Quantiles { count: 1, p50: 1.0, p95: 9.0, p99: 44.25, max: 130.0 };
        limited.generator.cpu_percent = 99.6;
        limited.verdict = judge(&limited, &Limits::default());
        vec![clean, failed, limited]
    }

    #[test]
    fn the_table_looks_like_this() {
        let lines: Vec<String> = steps().iter().map(line).collect();
        insta::assert_snapshot!(format!("{HEADING}\n{}", lines.join("\n")));
    }

    #[test]
    fn the_threads_look_like_this() {
        let text = threads(&steps()[0]).unwrap();
        let wanted = "server pid 4711: RSS 70.0 MiB; receive buffer overflowed by 0; threads: \
                      shard-0 61 %";
        assert_eq!(text, wanted);
        assert_eq!(threads(&steps()[1]), None);
    }

    #[test]
    fn each_csv_line_has_the_heading_s_columns() {
        let columns = csv_heading().split(',').count();
        for step in steps() {
            assert_eq!(csv(&step).split(',').count(), columns);
        }
    }

    #[test]
    fn the_json_has_every_number() {
        let json = serde_json::to_value(&steps()[1]).unwrap();
        assert_eq!(json["failures"]["timeout"], 1_200);
        assert_eq!(json["verdict"]["what"], "server_failed");
        assert_eq!(json["setup_ms"]["p99"], 1.26);
        let json = serde_json::to_value(&steps()[0]).unwrap();
        assert_eq!(json["server"]["threads"][0]["name"], "shard-0");
    }
}
