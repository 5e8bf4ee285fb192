//! `sipstress answer`.

use super::seed;
use crate::answerer::{Answerer, Answering, Misbehaviour};
use crate::cli::Answer;
use crate::identity::Run;
use crate::link::Link;
use crate::serve::serve;
use anyhow::Context as _;
use std::sync::atomic::AtomicBool;
use turn::Rng;

/// Answers until stopped; the exit code.
pub fn answer(command: &Answer, stop: &AtomicBool) -> anyhow::Result<u8> {
    let listen = command
        .listen
        .parse()
        .with_context(|| format!("--listen {}: ADDRESS:PORT", command.listen))?;
    let mut link = Link::bind(listen)?;
    let mut random = Rng::new(seed(None));
    let answering = Answering {
        code: command.code,
        ring: command.ring,
        calls_max: command.calls_max,
        misbehaviour: Misbehaviour {
            busy_above: command.busy_above,
            drop_percent: command.drop,
            ignore_bye: command.ignore_bye,
            late: command.late,
        },
    };
    let run = Run(random.next_u32());
    let mut answerer = Answerer::new(run, answering, random, link.clock.mono());
    println!("sipstress answer: listening on {} with {}", link.port.local_addr(), command.code);
    let unsent = serve(&mut link, &mut answerer, stop);
    let mut record = serde_json::to_value(answerer.counts)?;
    record["unsent"] = unsent.into();
    record["overflow"] = link.port.dropped_by_kernel().into();
    record["open"] = answerer.open().into();
    for (name, count) in record.as_object().into_iter().flatten() {
        println!("{:>10} {name}", count.to_string());
    }
    if let Some(path) = &command.json {
        let text = serde_json::to_string_pretty(&record)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(0)
}
