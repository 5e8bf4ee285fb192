//! What the control thread looks after once a second: metrics, the verbosity that is wanted, the
//! configuration's file, and the service manager's watchdog.

use crate::mailbox::Ask;
use crate::program::Program;
use crate::records::{self, Journal};
use crate::state::{self, State};
use crate::{control, metrics, notify, streams};
use logging_sinks::Logger;
use sip_net::Streams;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

/// Tells the service manager that the program is alive, as long as each shard answers.
pub(crate) async fn stay_alive(program: Arc<Program>, every: Duration) {
    loop {
        if program.shard_counts().await.is_ok() {
            notify::alive();
        }
        tokio::time::sleep(every).await;
    }
}

/// What is counted beside the shards.
pub(crate) struct Watched {
    journal: Option<Arc<records::Progress>>,
    state: Arc<state::Progress>,
    streams: Option<Streams>,
}

impl Watched {
    pub(crate) fn new(journal: Option<&Journal>, state: &State, streams: Option<Streams>) -> Self {
        Self {
            journal: journal.map(|journal| Arc::clone(&journal.progress)),
            state: Arc::clone(&state.progress),
            streams,
        }
    }

    fn publish(&self, logger: &Logger) {
        metrics::publish_logger(logger);
        if let Some(progress) = &self.journal {
            metrics::publish_journal(progress);
        }
        metrics::publish_state(&self.state);
        if let Some(streams) = &self.streams {
            streams::publish(streams);
        }
    }
}

/// Once a second: metrics, the verbosity that is wanted, and whether the configuration's file has
/// changed.
pub(crate) async fn look_after(program: Arc<Program>, watched: Watched) {
    let written = || {
        let file = program.options.config.as_ref()?;
        fs::metadata(file).and_then(|metadata| metadata.modified()).ok()
    };
    // The file is read once more at first: it may have changed while the program started.
    let (mut seen, mut verbose) = (None, logging::view().verbose);
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        watched.publish(&program.log.logger);
        // A console that takes nothing releases its share by itself.
        let wanted = logging::view().verbose;
        if wanted != std::mem::replace(&mut verbose, wanted) {
            program.posts.iter().for_each(|post| post.tell(Ask::Verbosity));
        }
        let now = written();
        if now.is_some() && now != seen {
            seen = now;
            control::follow_file(&program);
        }
    }
}
