//! `top`: one look at the server.

use super::super::Console;
use super::Done;
use crate::mailbox::Ask;
use crate::program::Program;
use pbx_control::Reply;
use pbx_control::wire::{Top, TopCall, TopThread};
use pbx_core::ShardCounts;
use std::fs;

/// Slow calls that are told.
const SLOWEST_MAX: usize = 5;

pub(super) async fn answer(console: &mut Console, program: &Program) -> Done {
    let shards = program.shard_counts().await?;
    let sum = |count: fn(&ShardCounts) -> u64| shards.iter().map(count).sum::<u64>();
    let (mut slowest, mut kernel_drops) = (Vec::new(), 0);
    for post in &program.posts {
        let of_shard = post.ask(Ask::Top).await?;
        slowest.extend(of_shard.slowest);
        kernel_drops += of_shard.kernel_drops;
    }
    slowest.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
    slowest.truncate(SLOWEST_MAX);
    let log = program.log.logger.view();
    let in_sinks = |count: fn(&logging_sinks::SinkCounts) -> u64| {
        log.sinks.iter().map(|sink| count(&sink.counts)).sum::<u64>()
    };
    let in_lanes: u64 = log.lanes.iter().map(|lane| lane.verbose_dropped).sum();
    let failing = log
        .sinks
        .iter()
        .filter_map(|sink| Some(format!("{}: {}", sink.name, sink.failure.as_ref()?)));
    let top = Top {
        at_us: u64::try_from(program.started_at.elapsed().as_micros()).unwrap_or(u64::MAX),
        calls: sum(|shard| shard.calls as u64),
        channels: sum(|shard| shard.legs as u64),
        processed: sum(|shard| shard.call.calls),
        answered: sum(|shard| shard.call.answered),
        refused: shards.iter().flat_map(|shard| shard.refused.iter()).sum(),
        registers: sum(|shard| shard.registers),
        kernel_drops,
        lost_verbose: in_lanes + in_sinks(|counts| counts.dropped_verbose),
        lost_keep: in_sinks(logging_sinks::SinkCounts::dropped_keep),
        failing: failing.collect(),
        verbose: log.gate.verbose,
        rss_bytes: rss_bytes(),
        threads: threads(),
        slowest: slowest
            .into_iter()
            .map(|(took_us, channel)| TopCall { channel, took_us })
            .collect(),
    };
    Ok(console.send(&Reply::Top(top)).await?)
}

fn rss_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// By name; threads of one name together.
fn threads() -> Vec<TopThread> {
    let mut threads: Vec<TopThread> = Vec::new();
    for entry in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        // A thread may end meanwhile.
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let (name, account) = (read("comm").trim().to_owned(), read("schedstat"));
        let nanos = account.split(' ').next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0);
        match threads.iter_mut().find(|thread| thread.name == name) {
            Some(thread) => thread.cpu_us += nanos / 1_000,
            None => threads.push(TopThread { name, cpu_us: nanos / 1_000 }),
        }
    }
    threads.retain(|thread| thread.cpu_us > 0);
    threads
}
