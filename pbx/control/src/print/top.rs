//! One look at the server, as a screen of text.

use super::line;
use crate::wire::Top;

/// Threads that are shown.
const THREADS_MAX: usize = 12;

/// Appends the screen. With an earlier look there are rates; without one there are totals alone.
pub fn snapshot(now: &Top, before: Option<&Top>, out: &mut String) {
    let span = before.map(|before| now.at_us.saturating_sub(before.at_us) as f64 / 1e6);
    let span = span.filter(|span| *span > 0.0);
    let rate = |count: fn(&Top) -> u64| match (before, span) {
        (Some(before), Some(span)) => {
            format!("{:.0}/s", count(now).saturating_sub(count(before)) as f64 / span)
        }
        _ => "-".to_owned(),
    };
    line(
        out,
        format_args!(
            "calls {}  channels {}  verbosity {}  memory {:.1} MiB",
            now.calls,
            now.channels,
            now.verbose,
            now.rss_bytes as f64 / f64::from(1 << 20)
        ),
    );
    line(out, format_args!("{:<24} {:>14} {:>10}", "", "since start", "rate"));
    let mut row = |name: &str, count: fn(&Top) -> u64| {
        line(out, format_args!("{name:<24} {:>14} {:>10}", count(now), rate(count)));
    };
    row("new calls", |top| top.processed);
    row("answered", |top| top.answered);
    row("requests refused", |top| top.refused);
    row("registrations", |top| top.registers);
    row("datagrams dropped", |top| top.kernel_drops);
    row("verbose lines lost", |top| top.lost_verbose);
    row("other lines lost", |top| top.lost_keep);
    for channel in &now.failing {
        line(out, format_args!("log {channel}"));
    }
    if let (Some(before), Some(span)) = (before, span) {
        threads(now, before, span, out);
    }
    if !now.slowest.is_empty() {
        out.push('\n');
        line(out, format_args!("{:<40} {:>12}", "slowest set-ups", "ms"));
        for call in &now.slowest {
            let ms = call.took_us as f64 / 1e3;
            line(out, format_args!("{:<40} {ms:>12.1}", call.channel));
        }
    }
}

fn threads(now: &Top, before: &Top, span: f64, out: &mut String) {
    let mut used: Vec<(f64, &str)> = now
        .threads
        .iter()
        .map(|thread| {
            let known = before.threads.iter().find(|it| it.name == thread.name);
            let used = thread.cpu_us.saturating_sub(known.map_or(0, |it| it.cpu_us));
            (used as f64 / 1e4 / span, thread.name.as_str())
        })
        .collect();
    used.sort_by(|a, b| b.0.total_cmp(&a.0));
    let all: f64 = used.iter().map(|it| it.0).sum();
    out.push('\n');
    line(out, format_args!("{:<24} {:>9} %", "thread", "CPU"));
    line(out, format_args!("{:<24} {all:>9.1}", "all"));
    for (percent, name) in used.iter().take(THREADS_MAX).filter(|it| it.0 >= 0.05) {
        line(out, format_args!("{name:<24} {percent:>9.1}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{TopCall, TopThread};

    #[test]
    fn rates_come_from_two_looks() {
        let thread = |cpu_us| vec![TopThread { name: "shard-0".into(), cpu_us }];
        let before = Top { at_us: 1_000_000, processed: 10, threads: thread(0), ..Top::default() };
        let slowest = vec![TopCall { channel: "SIP/a-1".into(), took_us: 2_500 }];
        let now = Top {
            at_us: 3_000_000,
            processed: 210,
            threads: thread(500_000),
            slowest,
            ..Top::default()
        };
        let mut text = String::new();
        snapshot(&now, Some(&before), &mut text);
        let has =
            |wanted: &str| text.lines().any(|line| line.split_whitespace().eq(wanted.split(' ')));
        assert!(has("new calls 210 100/s"), "{text}");
        assert!(has("shard-0 25.0") && has("all 25.0") && has("SIP/a-1 2.5"), "{text}");
        text.clear();
        snapshot(&now, None, &mut text);
        assert!(text.contains("210          -") && !text.contains("shard-0"), "{text}");
    }
}
