//! Stages of a run: each prints its time when it ends, and a table of all of them closes the run.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How a stage ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
}

/// The stages of one run, in the order in which they ran.
#[derive(Default)]
pub(crate) struct Stages {
    ended: Vec<(&'static str, Duration, Verdict)>,
}

impl Stages {
    /// Runs a stage and prints its time. A failure is kept for the end, so that one run shows all.
    pub(crate) fn run(&mut self, name: &'static str, stage: impl FnOnce() -> Result<()>) -> bool {
        println!("== {name}");
        let begin = Instant::now();
        let outcome = stage();
        let took = begin.elapsed();
        let verdict = match outcome {
            Ok(()) => Verdict::Passed,
            Err(error) => {
                println!("== {name}: {error:#}");
                Verdict::Failed
            }
        };
        println!("== {name}: {} in {:.1} s", verdict.word(), took.as_secs_f64());
        self.ended.push((name, took, verdict));
        verdict == Verdict::Passed
    }

    /// Prints the table, and fails when any stage did.
    pub(crate) fn close(self) -> Result<()> {
        println!("\n{:<28} {:>9}", "stage", "seconds");
        for (name, took, verdict) in &self.ended {
            println!("{name:<28} {:>9.1}  {}", took.as_secs_f64(), verdict.word());
        }
        let total: Duration = self.ended.iter().map(|(_, took, _)| *took).sum();
        println!("{:<28} {:>9.1}", "all", total.as_secs_f64());
        let failed: Vec<&str> = self
            .ended
            .iter()
            .filter(|(_, _, verdict)| *verdict == Verdict::Failed)
            .map(|(name, _, _)| *name)
            .collect();
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        Ok(())
    }
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Failed => "FAILED",
        }
    }
}
