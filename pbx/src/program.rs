//! What the threads share about the running program, and the reload.

use crate::cli::Options;
use crate::config::{Config, Endpoint, Trunk, load_plan};
use crate::control::Consoles;
use crate::logs::Log;
use crate::mailbox::{Ask, NoAnswer, Post};
use crate::trace::Rule;
use dialplan::Plan;
use pbx_control::Counts;
use pbx_core::{
    CallerId, Directory, DirectorySpec, Phone, Prefix, QualifySpec, ShardCounts, Shared,
};
use sip_net::Streams;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
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
    /// What all shards share.
    pub(crate) shared: Shared,
    /// The TCP connections, unless they are switched off.
    pub(crate) streams: Option<Streams>,
    pub(crate) started_at: Instant,
    pub(crate) ending: watch::Sender<Ending>,
    pub(crate) log: Arc<Log>,
    pub(crate) consoles: Consoles,
    /// Whose SIP messages are written where.
    pub(crate) traces: Mutex<Vec<Arc<Rule>>>,
    running: Mutex<Running>,
}

/// What a reload replaces.
struct Running {
    config: Config,
    plan: Arc<Plan>,
    /// As the first shard sees it.
    directory: Arc<Directory>,
    reloaded_at: Option<Instant>,
}

impl Program {
    /// A program with these shards.
    pub(crate) fn new(
        options: Options,
        config: Config,
        (plan, directory): (Arc<Plan>, Arc<Directory>),
        (shared, streams): (Shared, Option<Streams>),
        posts: Vec<Post>,
        log: Arc<Log>,
    ) -> Self {
        Self {
            log,
            consoles: Consoles::default(),
            traces: Mutex::default(),
            shared,
            streams,
            options,
            posts,
            started_at: Instant::now(),
            ending: watch::Sender::new(Ending::No),
            running: Mutex::new(Running { config, plan, directory, reloaded_at: None }),
        }
    }

    /// The plan that new calls get.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.running().plan)
    }

    /// The trunks and endpoints that new calls see.
    pub(crate) fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.running().directory)
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
        // The number of threads is as at the start, whatever the file says now.
        let config = Config { shards: self.config().shards, ..config };
        let directories = directories(&config, Some(&self.directory()));
        let first = directories.first().map(Arc::clone);
        for ((shard, post), directory) in self.posts.iter().enumerate().zip(directories) {
            let asked = post.ask(|done| Ask::Reload { plan: Arc::clone(&plan), directory, done });
            asked.await.map_err(|NoAnswer| format!("shard {shard} does not answer"))?;
        }
        let of_log = self.log.apply(&config.logs);
        self.posts.iter().for_each(|post| post.tell(Ask::Verbosity));
        let mut running = self.running();
        let mut lines = of_log;
        lines.extend(changes(&running, &config, &plan));
        running.config = Config {
            trunks: config.trunks.clone(),
            endpoints: config.endpoints.clone(),
            groups: config.groups.clone(),
            auth: config.auth.clone(),
            abuse: config.abuse,
            plan: config.plan.clone(),
            logs: config.logs.clone(),
            ..running.config.clone()
        };
        running.plan = plan;
        if let Some(directory) = first {
            running.directory = directory;
        }
        running.reloaded_at = Some(Instant::now());
        Ok(lines)
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        // What is behind the lock is replaced as a whole, so a panic leaves it sound.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the configuration says of trunks and endpoints, for each shard: of a trunk's cap on calls
/// each has its part, of all else they see the same. What lives on is taken from `old`.
pub(crate) fn directories(config: &Config, old: Option<&Directory>) -> Vec<Arc<Directory>> {
    let phones: Vec<Phone> = config.endpoints.iter().map(|it| phone(it, config)).collect();
    let mut first: Option<Arc<Directory>> = None;
    let directory = |shard: u8| {
        let spec = DirectorySpec {
            realm: config.auth.realm.as_str().into(),
            algorithms: config.auth.algorithms.clone(),
            nonce_lifetime: config.auth.nonce_lifetime,
            domains: Vec::new(),
            trunks: trunks_of(config, shard),
            phones: phones.clone(),
            groups: config.groups.iter().map(group).collect(),
            strangers: config.abuse,
        };
        let fresh = Directory::new(spec);
        let before = first.as_deref().or(old);
        let made = Arc::new(match before {
            Some(before) => fresh.inherit(before),
            None => fresh,
        });
        first.get_or_insert_with(|| Arc::clone(&made));
        made
    };
    (0..config.shards.max(1)).map(directory).collect()
}

fn group(group: &crate::config::Group) -> (Box<str>, Vec<Box<str>>) {
    (group.name.as_str().into(), group.members.iter().map(|it| it.as_str().into()).collect())
}

fn phone(endpoint: &Endpoint, config: &Config) -> Phone {
    let text = |text: &Option<String>| text.as_deref().map(Into::into);
    Phone {
        user: endpoint.user.as_str().into(),
        secret: endpoint.secret(&config.auth.realm),
        aliases: endpoint.aliases.iter().map(|alias| alias.as_str().into()).collect(),
        caller_id: CallerId {
            number: text(&endpoint.caller_number),
            name: text(&endpoint.caller_name),
        },
        sources: prefixes(&endpoint.from),
        calls_max: endpoint.calls_max,
        policy: endpoint.policy,
        rewrites_contact: endpoint.rewrites_contact,
        dnd: endpoint.dnd,
        forward: endpoint.forward.clone(),
        qualify: endpoint.qualify.map(asked_every),
        ..Phone::named(party(&endpoint.name, &endpoint.context))
    }
}

fn asked_every(every: Duration) -> QualifySpec {
    let defaults = QualifySpec::default();
    QualifySpec { every, timeout: defaults.timeout.min(every), ..defaults }
}

fn party(name: &str, context: &str) -> Arc<call::Endpoint> {
    Arc::new(call::Endpoint {
        channel: format!("SIP/{name}").into(),
        name: name.into(),
        context: context.into(),
    })
}

fn trunks_of(config: &Config, shard: u8) -> Vec<pbx_core::Trunk> {
    let (shard, shards) = (u32::from(shard), u32::from(config.shards.max(1)));
    let part = |most: u32| most / shards + u32::from(shard < most % shards);
    let trunks = config.trunks.iter().map(|trunk| pbx_core::Trunk {
        sources: prefixes(&trunk.from),
        peers: trunk.peers.iter().map(|peer| peer.hop(trunk.transport)).collect(),
        accounts: trunk.line.accounts(),
        registration: trunk.line.registration(),
        qualify: trunk.line.qualify.map(asked_every),
        from_user: trunk.line.from_user.as_deref().map(Into::into),
        from_domain: trunk.line.from_domain.as_deref().map(Into::into),
        caller_id: CallerId {
            number: trunk.line.caller_number.as_deref().map(Into::into),
            name: trunk.line.caller_name.as_deref().map(Into::into),
        },
        calls_max: trunk.calls_max.map(part),
        ..pbx_core::Trunk::named(party(&trunk.name, &trunk.context))
    });
    trunks.collect()
}

fn prefixes(list: &[crate::config::Prefix]) -> Vec<Prefix> {
    list.iter().filter_map(|prefix| Prefix::new(prefix.address, prefix.bits)).collect()
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
    endpoint_changes(&old.endpoints, &config.endpoints, &mut lines);
    if old.groups != config.groups {
        lines.push("groups changed".to_owned());
    }
    if old.auth != config.auth {
        lines.push("[auth] changed: phones will be challenged anew".to_owned());
    }
    if old.abuse != config.abuse {
        lines.push("[abuse] changed".to_owned());
    }
    if lines.is_empty() {
        lines.push("nothing changed".to_owned());
    }
    let comparable = |config: &Config| Config {
        trunks: vec![],
        endpoints: vec![],
        groups: vec![],
        auth: old.auth.clone(),
        abuse: old.abuse,
        plan: old.plan.clone(),
        logs: old.logs.clone(),
        ..config.clone()
    };
    if comparable(old) != comparable(config) {
        lines.push("other settings changed too: they need a restart".to_owned());
    }
    let (extensions, contexts) = (plan.len(), plan.contexts().count());
    lines.push(format!("Dialplan reloaded; extensions: {extensions}, contexts: {contexts}"));
    lines
}

/// Lines of a reload about single endpoints; more are told as a number.
const ENDPOINT_LINES_MAX: usize = 20;

fn endpoint_changes(old: &[Endpoint], new: &[Endpoint], lines: &mut Vec<String>) {
    let named = |list: &[Endpoint]| -> BTreeMap<String, Endpoint> {
        list.iter().map(|endpoint| (endpoint.name.clone(), endpoint.clone())).collect()
    };
    let (old, new) = (named(old), named(new));
    let mut told = Vec::new();
    for (name, endpoint) in &new {
        match old.get(name) {
            None => told.push(format!("endpoint '{name}' added")),
            Some(before) if before != endpoint => told.push(format!("endpoint '{name}' changed")),
            Some(_) => {}
        }
    }
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    told.extend(gone.map(|name| format!("endpoint '{name}' removed")));
    let more = told.len().saturating_sub(ENDPOINT_LINES_MAX);
    told.truncate(ENDPOINT_LINES_MAX);
    lines.append(&mut told);
    if more > 0 {
        lines.push(format!("{more} more endpoints added, changed or removed"));
    }
}
