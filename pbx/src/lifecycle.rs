//! Signals, and the end of the program.
//!
//! ```text
//! No ── SIGTERM, SIGINT, `core stop gracefully` ──► Gracefully ── no call left, limit ──► end
//!  │                                                  │ SIGTERM again, `core stop now`
//!  └── `core stop now` ────────────────────────────►  Now ── no leg left, HANGUP_MAX ──► end
//! ```

use crate::mailbox::Ask;
use crate::notify;
use crate::program::{Ending, Program};
use logging::{Shown, error, notice, warning};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How often the calls that are left are counted.
const COUNT_EVERY: Duration = Duration::from_millis(100);

/// How long BYEs may take to be answered before the program ends all the same: three
/// retransmissions.
const HANGUP_MAX: Duration = Duration::from_secs(4);

/// The signals that the program knows.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// From now on these signals no longer end the process by themselves. Within a runtime.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Turns signals into what the program does, until the thread ends.
    pub(crate) async fn obey(mut self, program: Arc<Program>) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => end_or_hurry(&program, "SIGTERM"),
                _ = self.interrupt.recv() => end_or_hurry(&program, "SIGINT"),
                _ = self.hang_up.recv() => reload(&program).await,
            }
        }
    }
}

fn end_or_hurry(program: &Program, name: &str) {
    let next = match *program.ending.borrow() {
        Ending::No => Ending::Gracefully,
        Ending::Gracefully | Ending::Now => Ending::Now,
    };
    notice!("{}: the program ends {}", name, words(next));
    program.end(next);
}

const fn words(ending: Ending) -> &'static str {
    match ending {
        Ending::No => "not",
        Ending::Gracefully => "when its calls have ended",
        Ending::Now => "at once",
    }
}

async fn reload(program: &Program) {
    notify::reloading();
    for (name, reopened) in program.log.logger.reopen() {
        if let Err(error) = reopened {
            error!("The log {} cannot be opened again: {}", name.as_str(), Shown(&error));
        }
    }
    match program.reload().await {
        Ok(lines) => {
            notice!("SIGHUP: configuration and dialplan are loaded again");
            for line in lines {
                notice!("reload: {}", line.as_str());
            }
        }
        Err(reason) => {
            error!("SIGHUP: nothing is changed, since there are faults");
            for line in reason.lines() {
                error!("reload: {}", line);
            }
        }
    }
    notify::ready("serves calls");
}

/// Waits for the end, leads the shards to it and returns when their threads may be joined.
pub(crate) async fn lead_to_the_end(program: &Program) {
    let mut ending = program.ending.subscribe();
    let began = ending.wait_for(|ending| *ending > Ending::No).await.is_ok();
    debug_assert!(began, "the program holds the sender");
    notify::stopping();
    program.posts.iter().for_each(|post| post.tell(Ask::Drain));
    drain(program, &mut ending).await;
    program.posts.iter().for_each(|post| post.tell(Ask::HangUpAll));
    let hung_up = Instant::now();
    while hung_up.elapsed() < HANGUP_MAX && legs(program).await != Some(0) {
        tokio::time::sleep(COUNT_EVERY).await;
    }
    match legs(program).await {
        Some(0) => {}
        Some(left) => {
            warning!("The program ends with legs whose peers have not answered: {}", left);
        }
        None => warning!("The program ends though a shard does not answer"),
    }
    program.posts.iter().for_each(|post| post.tell(Ask::Stop));
}

/// Waits until no call is left, the limit is over or somebody hurries.
async fn drain(program: &Program, ending: &mut watch::Receiver<Ending>) {
    let deadline = Instant::now() + program.config().limits.drain;
    while *ending.borrow_and_update() == Ending::Gracefully && calls(program).await != Some(0) {
        if Instant::now() >= deadline {
            let left = calls(program).await.unwrap_or_default();
            warning!("The time for a graceful end is over; calls left: {}", left);
            return;
        }
        // Either somebody hurries or it is time to count again.
        let _ = tokio::time::timeout(COUNT_EVERY, ending.changed()).await;
    }
}

/// Calls that are left; `None` when a shard does not answer, which is no reason to hurry.
async fn calls(program: &Program) -> Option<u64> {
    Some(program.counts().await.ok()?.calls)
}

async fn legs(program: &Program) -> Option<u64> {
    Some(program.counts().await.ok()?.channels)
}
