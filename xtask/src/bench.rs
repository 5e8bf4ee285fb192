//! `cargo xtask bench`: the product's speed, with a verdict for each target.
//!
//! The whole server process is pinned to processor 1, every generator to processor 0. Nothing else
//! should run. Call records are on. The figures are the kernel's own account of processor time, the
//! generator's counts and the generator's clock; where the generator itself was late, its row says
//! so. The same runs measure a peer (`--against asterisk`), at rates that the peer can bear.

mod flood;
mod instructions;
mod load;
mod metrics;
mod micro;
mod process;
mod register;
mod report;
mod sections;
mod server;

use anyhow::{Result, bail};

use crate::peers::Peer;
use crate::run::target_folder;
use report::Report;
use server::Subject;

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these sections; all when none is given.
    #[arg(value_enum)]
    sections: Vec<Section>,
    /// A sixth of the time: to see that everything runs, not to quote.
    #[arg(long)]
    quick: bool,
    /// Measures a peer instead of our own server.
    #[arg(long, value_enum)]
    against: Option<Peer>,
}

/// A part of the bench that can run alone.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Section {
    /// Answered calls at the target rate, and their cost by SIPp.
    Answer,
    /// Bridged calls at the target rate, and their cost by SIPp.
    Bridge,
    /// The most that is carried without failure, half of it and twice of it.
    Maximum,
    /// Memory of a held call, younger and older than the transactions' lingering time.
    Memory,
    /// Registrations with a digest, and what a digest adds to a call.
    Register,
    /// Good calls while strangers send 50,000 datagrams a second.
    Flood,
    /// The cost of a second shard.
    Shards,
    /// Wire, transactions, dialplan and allocations, without a network.
    Micro,
}

const ALL: [Section; 8] = [
    Section::Answer,
    Section::Bridge,
    Section::Maximum,
    Section::Memory,
    Section::Register,
    Section::Flood,
    Section::Shards,
    Section::Micro,
];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let subject = arguments.against.map_or(Subject::Pbx, Subject::Peer);
    let wanted = if arguments.sections.is_empty() { &ALL[..] } else { &arguments.sections };
    let programs = server::Programs::build()?;
    let mut report = Report::new(&subject.to_string());
    let pace = sections::Pace { quick: arguments.quick, rates: subject.rates() };
    for section in wanted.iter().filter(|section| subject.has(**section)) {
        let bench = sections::Bench { subject, programs: &programs, pace: &pace };
        bench.run(*section, &mut report)?;
    }
    let name = match arguments.against {
        Some(_) => format!("report-{subject}"),
        None => "report".to_owned(),
    };
    report.close(&target_folder()?.join("bench"), &name)?;
    match report.missed() {
        missed if missed.is_empty() => Ok(()),
        missed => bail!("targets missed: {}", missed.join(", ")),
    }
}
