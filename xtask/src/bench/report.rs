//! The bench's outcome: rows with target, measured value and verdict, and facts beside them.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

/// Which side of the target is good.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// No target: a figure for comparison.
    None,
}

/// One measured figure.
#[derive(Serialize)]
pub(crate) struct Row {
    name: String,
    target: String,
    measured: f64,
    unit: &'static str,
    verdict: &'static str,
    remark: String,
}

/// All figures of a run.
#[derive(Serialize)]
pub(crate) struct Report {
    subject: String,
    commit: String,
    processor: String,
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(subject: &str) -> Report {
        let text = |command: &mut std::process::Command| {
            crate::run::output(command).map(|text| text.trim().to_owned()).unwrap_or_default()
        };
        let commit = text(crate::run::program("git").args(["describe", "--always", "--dirty"]));
        let list = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = list.lines().find_map(|line| line.strip_prefix("model name"));
        let processor = model.unwrap_or_default().trim_matches([' ', '\t', ':']).to_owned();
        Report { subject: subject.to_owned(), commit, processor, rows: Vec::new() }
    }

    /// Adds a figure and prints it at once: a long run shows where it is.
    pub(crate) fn row(
        &mut self,
        name: &str,
        bound: Bound,
        measured: f64,
        unit: &'static str,
        remark: impl Into<String>,
    ) {
        let (target, is_met) = match bound {
            Bound::AtLeast(limit) => (format!(">= {}", number(limit)), Some(measured >= limit)),
            Bound::AtMost(limit) => (format!("<= {}", number(limit)), Some(measured <= limit)),
            Bound::None => (String::new(), None),
        };
        let verdict = match is_met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        let row =
            Row { name: name.to_owned(), target, measured, unit, verdict, remark: remark.into() };
        println!("-- {}", row.line());
        self.rows.push(row);
    }

    /// The names of the figures that missed their target.
    pub(crate) fn missed(&self) -> Vec<&str> {
        let missed = self.rows.iter().filter(|row| row.verdict == "MISSED");
        missed.map(|row| row.name.as_str()).collect()
    }

    /// Writes `NAME.json` and `NAME.md` in the folder, and prints the table.
    pub(crate) fn close(&self, folder: &Path, name: &str) -> Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join(format!("{name}.json")), serde_json::to_string_pretty(self)?)?;
        let table = self.table();
        fs::write(folder.join(format!("{name}.md")), &table)?;
        println!("\n{table}");
        Ok(())
    }

    fn table(&self) -> String {
        let mut text = format!(
            "{} at {}, {}\n\n| figure | target | measured | verdict | remark |\n\
             |---|---|---|---|---|\n",
            self.subject, self.commit, self.processor
        );
        for row in &self.rows {
            text.push_str(&format!(
                "| {} | {} | {} {} | {} | {} |\n",
                row.name,
                row.target,
                number(row.measured),
                row.unit,
                row.verdict,
                row.remark
            ));
        }
        text
    }
}

impl Row {
    fn line(&self) -> String {
        let measured = format!("{} {}", number(self.measured), self.unit);
        let text =
            format!("{}: {measured} {} {} {}", self.name, self.target, self.verdict, self.remark);
        text.trim_end().to_owned()
    }
}

/// Three significant places, with the thousands apart.
fn number(value: f64) -> String {
    if value.abs() < 10.0 && value.fract() != 0.0 {
        return format!("{value:.2}");
    }
    if value.abs() < 100.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_precise_as_they_deserve() {
        let texts = [0.659, 26.54, 20_000.0, 1_234_567.8, 7.0, -1500.0].map(number);
        assert_eq!(texts, ["0.66", "26.5", "20,000", "1,234,568", "7", "-1,500"]);
    }

    #[test]
    fn a_figure_on_the_wrong_side_of_its_target_is_missed() {
        let mut report = Report::new("a");
        report.row("rate", Bound::AtLeast(10.0), 10.0, "cps", "");
        report.row("cost", Bound::AtMost(50.0), 50.1, "us", "");
        report.row("other", Bound::None, 1.0, "us", "x");
        assert_eq!(report.missed(), ["cost"]);
        assert!(report.table().contains("| cost | <= 50 | 50.1 us | MISSED |  |"));
    }
}
