//! The table "what costs what". Pure: findings to texts.

use super::set_up::SetUp;
use super::shard_us_per_call;
use crate::commands::Best;
use crate::report::StepReport;
use crate::verdict::Verdict;
use serde::{Serialize, Serializer};
use std::fmt;

/// Two lines.
pub(super) fn heading() -> String {
    let columns = [
        ("verb-", "osity", 5),
        (" full", " log", 6),
        ("console", "", 12),
        ("fail2ban", "", 12),
        ("best cps", "answered", 8),
        ("  quiet", "  = 100", 7),
        (" CPU us", "  /call", 7),
        ("  shard us", "     /call", 9),
        ("lines lost", "", 11),
        ("published", "      cps", 10),
        ("broke by", "", 8),
    ];
    let line = |pick: fn(&(&'static str, &'static str, usize)) -> &'static str| {
        let cells = columns.iter().map(|column| format!("{:<1$}", pick(column), column.2));
        cells.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    };
    format!("{}\n{}", line(|column| column.0), line(|column| column.1))
}

/// What one set-up reached.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    #[serde(serialize_with = "as_text")]
    pub(super) set_up: SetUp,
    /// Calls answered per second at the highest rate that was carried.
    pub(super) best_cps: f64,
    /// The same as a share of the quiet set-up's.
    pub(super) share: Option<f64>,
    /// CPU time of the whole server for each call at that rate, in microseconds.
    pub(super) cpu_us: f64,
    /// The same of the shards' threads alone.
    pub(super) shard_us: f64,
    /// Lines of the log that were lost during the whole search, overload included.
    pub(super) lines_lost: Option<u64>,
    /// What the published test reached in the nearest set-up.
    pub(super) published_cps: u32,
    /// What ended the search.
    pub(super) broke: String,
}

fn as_text<S: Serializer>(set_up: &SetUp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(set_up)
}

impl Row {
    pub(super) fn new(set_up: SetUp, best: &Best, lines_lost: Option<u64>) -> Self {
        let step = best.step.as_ref();
        let of_server = |step: &StepReport| {
            step.server.as_ref().map_or(0.0, |server| server.cpu_micros_per_call)
        };
        Self {
            set_up,
            best_cps: step.map_or(0.0, |step| step.answered_cps),
            share: None,
            cpu_us: step.map_or(0.0, of_server),
            shard_us: step.map_or(0.0, shard_us_per_call),
            lines_lost,
            published_cps: set_up.published_cps(),
            broke: best.broke.as_ref().map_or("-", broke).to_owned(),
        }
    }
}

fn broke(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::GeneratorLimit(_) => "generator",
        Verdict::ServerFailed(_) => "server failed",
        Verdict::ServerLate(_) => "server late",
        Verdict::Interrupted => "interrupted",
        Verdict::Clean => "-",
    }
}

/// Fills in each row's share of the quiet set-up's rate.
pub(super) fn compare(rows: &mut [Row]) {
    let quiet = rows.iter().find(|row| row.set_up == SetUp::QUIET).map(|row| row.best_cps);
    if let Some(quiet) = quiet.filter(|quiet| *quiet > 0.0) {
        rows.iter_mut().for_each(|row| row.share = Some(row.best_cps / quiet));
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SetUp { verbose, full, console, fail2ban } = self.set_up;
        let full = if full { "on" } else { "off" };
        let share = self.share.map_or("-".to_owned(), |share| format!("{:.1}", share * 100.0));
        let lost = self.lines_lost.map_or("unknown".to_owned(), |lost| lost.to_string());
        write!(
            f,
            "{verbose:>5}  {full:<4} {console:<12} {fail2ban:<12} {:>8.0}  {share:>6}  {:>6.1}  \
             {:>8.1}  {lost:>10}  {:>9}  {}",
            self.best_cps, self.cpu_us, self.shard_us, self.published_cps, self.broke
        )
    }
}

/// The table for the documents.
pub(super) fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "| verbose | full log | console | fail2ban reads | best cps | of quiet | CPU us/call | \
         shard us/call | lines lost | published cps |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let SetUp { verbose, full, console, fail2ban } = row.set_up;
        let full = if full { "on" } else { "off" };
        let share = row.share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0));
        let lost = row.lines_lost.map_or("unknown".to_owned(), |lost| lost.to_string());
        text.push_str(&format!(
            "| {verbose} | {full} | {console} | {fail2ban} | {:.0} | {share} | {:.1} | {:.1} | \
             {lost} | {} |\n",
            row.best_cps, row.cpu_us, row.shard_us, row.published_cps
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(set_up: SetUp, best_cps: f64) -> Row {
        let best = Best { step: None, broke: Some(Verdict::Interrupted) };
        Row { best_cps, ..Row::new(set_up, &best, Some(3)) }
    }

    #[test]
    fn rows_are_compared_with_the_quiet_one() {
        let mut rows = [row(SetUp::QUIET, 20_000.0), row(SetUp::LOUD, 19_000.0)];
        compare(&mut rows);
        assert_eq!(rows[1].share, Some(0.95));
        let line = rows[1].to_string();
        assert!(line.contains("  95.0  ") && line.ends_with("interrupted"), "{line}");
        let text = markdown(&rows);
        assert!(text.contains("| 7 | on | reading | security.log | 19000 | 95.0 % |"), "{text}");
    }

    #[test]
    fn without_a_quiet_row_there_is_no_share() {
        let mut rows = [row(SetUp::LOUD, 19_000.0)];
        compare(&mut rows);
        assert_eq!(rows[0].share, None);
    }
}
