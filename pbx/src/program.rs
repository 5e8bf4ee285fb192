//! What the threads share about the running program, and the reload.

use crate::cli::Options;
use crate::config::{Config, Trunk, load_plan};
use crate::mailbox::{Ask, NoAnswer, Post};
use dialplan::Plan;
use pbx_control::Counts;
use pbx_core::{Prefix, ShardCounts, Trunks};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// How far the end of the program has come. It only ever grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// It runs.
    #[default]
    No,
    /// New calls are refused, running ones may end.
    Gracefully,
    /// All calls are being hung up.
    Now,
}

/// The running program.
pub(crate) struct Program {
    pub(crate) options: Options,
    pub(crate) posts: Vec<Post>,
    pub(crate) started_at: Instant,
    pub(crate) ending: watch::Sender<Ending>,
    running: Mutex<Running>,
}

/// What a reload replaces.
struct Running {
    config: Config,
    plan: Arc<Plan>,
    reloaded_at: Option<Instant>,
}

impl Program {
    /// A program with these shards.
    pub(crate) fn new(options: Options, config: Config, plan: Arc<Plan>, posts: Vec<Post>) -> Self {
        Self {
            options,
            posts,
            started_at: Instant::now(),
            ending: watch::Sender::new(Ending::No),
            running: Mutex::new(Running { config, plan, reloaded_at: None }),
        }
    }

    /// The plan that new calls get.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.running().plan)
    }

    /// The configuration as last loaded.
    pub(crate) fn config(&self) -> Config {
        self.running().config.clone()
    }

    /// When the last reload was.
    pub(crate) fn reloaded_at(&self) -> Option<Instant> {
        self.running().reloaded_at
    }

    /// Begins the end, or hurries it.
    pub(crate) fn end(&self, how: Ending) {
        self.ending.send_if_modified(|ending| {
            let grows = how > *ending;
            *ending = how.max(*ending);
            grows
        });
    }

    /// The counts of each shard.
    pub(crate) async fn shard_counts(&self) -> Result<Vec<ShardCounts>, NoAnswer> {
        let mut all = Vec::with_capacity(self.posts.len());
        for post in &self.posts {
            all.push(post.ask(Ask::Counts).await?);
        }
        Ok(all)
    }

    /// The totals that consoles see.
    pub(crate) async fn counts(&self) -> Result<Counts, NoAnswer> {
        let shards = self.shard_counts().await?;
        let sum = |count: fn(&ShardCounts) -> u64| shards.iter().map(count).sum();
        Ok(Counts {
            channels: sum(|shard| shard.legs as u64),
            calls: sum(|shard| shard.calls as u64),
            calls_max: u64::from(self.running().config.limits.calls),
            processed: sum(|shard| shard.call.calls),
        })
    }

    /// Reads configuration and dialplan again. Nothing changes when there is a fault; otherwise new
    /// calls get the new plan and running ones keep theirs. Returns what changed, line by line.
    pub(crate) async fn reload(&self) -> Result<Vec<String>, String> {
        let config = self.options.configure().map_err(|fault| fault.to_string())?;
        let plan = Arc::new(load_plan(&config).map_err(|fault| fault.to_string())?);
        for (shard, post) in self.posts.iter().enumerate() {
            let trunks = Arc::new(trunks_of(&config, shard));
            let asked = post.ask(|done| Ask::Reload { plan: Arc::clone(&plan), trunks, done });
            asked.await.map_err(|NoAnswer| format!("shard {shard} does not answer"))?;
        }
        let mut running = self.running();
        let lines = changes(&running, &config, &plan);
        running.config = Config {
            trunks: config.trunks.clone(),
            plan: config.plan.clone(),
            ..running.config.clone()
        };
        running.plan = plan;
        running.reloaded_at = Some(Instant::now());
        Ok(lines)
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        // What is behind the lock is replaced as a whole, so a panic leaves it sound.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The trunks as one shard sees them: of a cap on calls each shard has its part.
pub(crate) fn trunks_of(config: &Config, shard: usize) -> Trunks {
    let shards = u32::from(config.shards.max(1));
    let part = |most: u32| most / shards + u32::from((shard as u32) < most % shards);
    let trunks = config.trunks.iter().map(|trunk| pbx_core::Trunk {
        endpoint: Arc::new(call::Endpoint {
            channel: format!("SIP/{}", trunk.name).into(),
            name: trunk.name.as_str().into(),
            context: trunk.context.as_str().into(),
        }),
        sources: sources(trunk),
        peer: trunk.peer,
        calls_max: trunk.calls_max.map(part),
        owner: None,
    });
    Trunks::new(trunks.collect())
}

fn sources(trunk: &Trunk) -> Vec<Prefix> {
    trunk.from.iter().filter_map(|prefix| Prefix::new(prefix.address, prefix.bits)).collect()
}

fn changes(running: &Running, config: &Config, plan: &Plan) -> Vec<String> {
    let mut lines: Vec<String> =
        plan.diff(&running.plan).changes.iter().map(ToString::to_string).collect();
    let old = &running.config;
    let named = |trunks: &[Trunk], name: &str| trunks.iter().find(|t| t.name == name).cloned();
    for trunk in &config.trunks {
        match named(&old.trunks, &trunk.name) {
            None => lines.push(format!("trunk '{}' added", trunk.name)),
            Some(before) if !before.is_same(trunk) => {
                lines.push(format!("trunk '{}' changed", trunk.name));
            }
            Some(_) => {}
        }
    }
    for trunk in &old.trunks {
        if named(&config.trunks, &trunk.name).is_none() {
            lines.push(format!("trunk '{}' removed", trunk.name));
        }
    }
    if lines.is_empty() {
        lines.push("nothing changed".to_owned());
    }
    let comparable =
        |config: &Config| Config { trunks: vec![], plan: old.plan.clone(), ..config.clone() };
    if comparable(old) != comparable(config) {
        lines.push("other settings changed too: they need a restart".to_owned());
    }
    let (extensions, contexts) = (plan.len(), plan.contexts().count());
    lines.push(format!("Dialplan reloaded; extensions: {extensions}, contexts: {contexts}"));
    lines
}
