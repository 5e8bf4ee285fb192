//! Planted faults: what a shard with a fault would look like from outside. Each must make the
//! checks fail for some seed, or the checks are worth nothing.
//!
//! The faults are planted where the shard meets its driver, so the type under test stays the one
//! that the program runs.

#![allow(clippy::wildcard_enum_match_arm)] // a mutant leaves everything else as it is

use std::collections::BTreeSet;

use call::{Disposition, Record};

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Timer G is missing: a refusal is never repeated.
    NoTimerG,
    /// A 2xx to INVITE is never repeated (13.3.1.4).
    NoSuccessRepeat,
    /// Timer A is missing: an INVITE is never repeated.
    NoTimerA,
    /// Timer E is missing: a BYE is never repeated.
    NoTimerE,
    /// The CANCEL race is lost: a search that is over cancels nobody.
    NoCancel,
    /// A repeated 2xx gets no ACK.
    AckOnce,
    /// A leg leaks: the BYE of some callee is never seen.
    LeakedLeg,
    /// A BYE of some caller is answered but forgotten by the other leg.
    LostBye,
    /// Each fifth record is lost.
    LostRecord,
    /// Each fifth record is written twice.
    DoubledRecord,
    /// An answered call is accounted as not answered.
    WrongDisposition,
    /// Descriptions of answers are mixed up.
    WrongDescription,
    /// An INVITE gets a second, different final answer.
    SecondFinal,
}

impl Mutant {
    pub(crate) const ALL: [Self; 13] = [
        Self::NoTimerG,
        Self::NoSuccessRepeat,
        Self::NoTimerA,
        Self::NoTimerE,
        Self::NoCancel,
        Self::AckOnce,
        Self::LeakedLeg,
        Self::LostBye,
        Self::LostRecord,
        Self::DoubledRecord,
        Self::WrongDisposition,
        Self::WrongDescription,
        Self::SecondFinal,
    ];
}

/// The fault at work, with what it must remember.
#[derive(Debug, Default)]
pub(crate) struct Planted {
    pub(crate) mutant: Option<Mutant>,
    sent: BTreeSet<String>,
    records: u32,
}

impl Planted {
    pub(crate) fn new(mutant: Option<Mutant>) -> Self {
        Self { mutant, ..Self::default() }
    }

    /// What the shard's message becomes on its way out.
    pub(crate) fn outgoing(&mut self, text: String) -> Vec<String> {
        let Some(mutant) = self.mutant else { return vec![text] };
        let start = text.split("\r\n").next().unwrap_or_default().to_owned();
        let is_for = |method: &str| text.contains(&format!(" {method}\r\n"));
        let is_refusal = start.starts_with("SIP/2.0 ") && start.as_bytes()[8] >= b'3';
        let is_first = |sent: &mut BTreeSet<String>| sent.insert(text.clone());
        let is_kept = match mutant {
            Mutant::NoTimerG if is_refusal && is_for("INVITE") => is_first(&mut self.sent),
            Mutant::NoSuccessRepeat if start.starts_with("SIP/2.0 200") && is_for("INVITE") => {
                is_first(&mut self.sent)
            }
            Mutant::NoTimerA if start.starts_with("INVITE ") => is_first(&mut self.sent),
            Mutant::NoTimerE if start.starts_with("BYE ") => is_first(&mut self.sent),
            Mutant::NoCancel => !start.starts_with("CANCEL "),
            Mutant::LostBye => !start.starts_with("BYE "),
            // Its branch is new each time: the dialog tells repeats apart.
            Mutant::AckOnce if start.starts_with("ACK ") => {
                let dialog = text.lines().filter(|line| line.starts_with("To:"));
                self.sent.insert(dialog.collect())
            }
            _ => true,
        };
        let wrong = "answer to offer of nobody";
        match mutant {
            _ if !is_kept => Vec::new(),
            Mutant::WrongDescription if text.contains("s=answer to") => {
                let right = text.split("s=").nth(1).and_then(|rest| rest.split("\r\n").next());
                // The length must stay right, or the message would only be broken.
                let right = right.unwrap_or_default().to_owned();
                let wrong = format!("{wrong:.<width$}", width = right.len());
                vec![text.replace(&right, &wrong[..right.len()])]
            }
            Mutant::SecondFinal if start.starts_with("SIP/2.0 486") => {
                vec![text.clone(), text.replace("SIP/2.0 486 Busy Here", "SIP/2.0 480 Not there!")]
            }
            _ => vec![text],
        }
    }

    /// Whether a message reaches the shard.
    pub(crate) fn is_seen(&self, text: &str) -> bool {
        self.mutant != Some(Mutant::LeakedLeg)
            || !(text.starts_with("BYE ") && text.contains(";tag=callee"))
    }

    /// What becomes of a record.
    pub(crate) fn record(&mut self, record: Record) -> Vec<Record> {
        self.records += 1;
        let is_fifth = self.records.is_multiple_of(5);
        match self.mutant {
            Some(Mutant::LostRecord) if is_fifth => Vec::new(),
            Some(Mutant::DoubledRecord) if is_fifth => vec![record.clone(), record],
            Some(Mutant::WrongDisposition) if record.answer.is_some() => {
                vec![Record { disposition: Disposition::NoAnswer, ..record }]
            }
            _ => vec![record],
        }
    }
}
