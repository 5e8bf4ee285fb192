//! Puts the program together, in the order in which one part needs another, and takes it apart
//! again.

use crate::cli::{ConfigFault, Options};
use crate::config::{Config, Trying, load_plan};
use crate::control;
use crate::driver::{Driver, HopPosts, Parts, Sockets};
use crate::facts::Facts;
use crate::lifecycle::{Signals, lead_to_the_end};
use crate::logs::Log;
use crate::mailbox::{Mailbox, Post, mailbox};
use crate::program::{Program, directories};
use crate::quota::{Cap, Lease, Quotas};
use crate::records::{self, Journal, RecordSink};
use crate::resolver::{self, Resolver};
use crate::state::{self, Started, State};
use crate::watch::{self, Watched};
use crate::web::{self, Pages};
use crate::{metrics, notify, sockets, streams, threads};
use dialplan::Plan;
use logging::{Hub, LaneSize, notice};
use logging_sinks::lwp;
use metrics_exporter_prometheus::PrometheusHandle;
use pbx_control::socket::{self, ControlSocket};
use pbx_core::{Limits, Locals, Router, Shard, ShardConfig, Shared};
use pbx_journal::Appender;
use sip_net::{Clock, Streams, UdpPort};
use std::error::Error;
use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, fs};
use tokio::runtime::{Builder, Runtime};
use turn::{HashKey, Rng, Seed};

/// Why the program did not start, or ended other than it should.
#[derive(Debug)]
pub struct StartFault {
    /// What failed; empty when the error says all.
    action: String,
    error: Box<dyn Error>,
}

impl fmt::Display for StartFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.action.is_empty() {
            write!(f, "{}", self.error.to_string().trim_end())
        } else {
            write!(f, "pbx: {}: {}", self.action, self.error)
        }
    }
}

impl Error for StartFault {}

pub(crate) fn fault<E: Into<Box<dyn Error>>>(
    action: impl Into<String>,
) -> impl FnOnce(E) -> StartFault {
    let action = action.into();
    move |error| StartFault { action, error: error.into() }
}

/// Runs the program until it is told to end.
pub fn run(options: &Options) -> Result<(), StartFault> {
    let (options, first) = options
        .or_first_start()
        .map_err(|(folder, error)| fault(folder.display().to_string())(error))?;
    let options = &options;
    let config = options.configure().map_err(|error: ConfigFault| fault("")(error))?;
    let plan = Arc::new(load_plan(&config).map_err(fault(""))?);
    if options.check {
        let (extensions, contexts) = (plan.len(), plan.contexts().count());
        let (trunks, endpoints) = (config.trunks.len(), config.endpoints.len());
        println!(
            "sound; extensions: {extensions}, contexts: {contexts}, trunks: {trunks}, \
             endpoints: {endpoints}"
        );
        return Ok(());
    }
    // Records and logs say who called whom: they are for the service's group at most.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o027));
    fs::create_dir_all(&config.data_folder).map_err(at(&config.data_folder))?;
    let hub = Hub::new(std::process::id(), now);
    let log = start_log(&config, &hub)?;
    if let Some(first) = first {
        let server = config.sip.listen.first().map(ToString::to_string).unwrap_or_default();
        print!("{}", first.words(&server));
    }
    let ended = run_logged(options, config, plan, &hub, &log);
    log.logger.flush();
    ended
}

fn at<E: Into<Box<dyn Error>>>(path: &Path) -> impl FnOnce(E) -> StartFault {
    fault(path.display().to_string())
}

thread_local! {
    static CLOCK: Clock = Clock::new();
}

fn now() -> turn::Now {
    CLOCK.with(Clock::sample)
}

fn start_log(config: &Config, hub: &Arc<Hub>) -> Result<Arc<Log>, StartFault> {
    let log = Arc::new(Log::start(&config.logs, hub).map_err(fault("start the log"))?);
    logging::install(hub).map_err(fault("start the log"))?;
    logging::listen(logging::default_targets()).map_err(fault("start the log"))?;
    threads::abort_on_panic(&log.logger);
    Ok(log)
}

/// Everything that comes after the log.
fn run_logged(
    options: &Options,
    config: Config,
    plan: Arc<Plan>,
    hub: &Arc<Hub>,
    log: &Arc<Log>,
) -> Result<(), StartFault> {
    let (appenders, journal) = start_records(&config, hub)?;
    let control = listen_control(&config)?;
    let ports = sockets::bind_udp(&config)?;
    let udp: Vec<SocketAddr> = ports[0].iter().map(UdpPort::local_addr).collect();
    let pages = prepare_web(&config)?;
    let boxes: Vec<(Post, Mailbox)> = (0..config.shards).map(|_| mailbox()).collect();
    let (posts, mailboxes): (Vec<Post>, Vec<Mailbox>) = boxes.into_iter().unzip();
    let secrets = Secrets::draw(&config)?;
    let deliver_to = (secrets.router(config.shards), posts.clone());
    let (tcp, streams) = sockets::start_tcp(&config, &udp, deliver_to, hub)?;
    let directories = directories(&config, None);
    let endpoints_max = config.endpoints.len().max(ENDPOINTS_MIN);
    let shared = pbx_shared::shared(endpoints_max, config.auth.nonce_lifetime);
    let Started { appenders: state_appenders, names, state } = start_state(&config, &shared, hub)?;
    let mut names = state::share_out(names, config.shards, &shared).into_iter();
    let quotas = Quotas::default();
    quotas.set(Cap::Calls, config.limits.calls);
    let locals = Locals { switches: config.sip.switch_to_tcp, ..sockets::locals(&udp, &tcp) };
    let connections = streams.as_ref().map(|running| running.streams.clone());
    let (resolver, resolving) = resolver::start(&config.dns, secrets.resolver_seed, hub)
        .map_err(fault("start the resolver"))?;
    let mut shards = Vec::new();
    let rings = appenders.into_iter().zip(state_appenders);
    let parts = ports.into_iter().zip(mailboxes).zip(rings).enumerate();
    for (number, ((ports, mailbox), (appender, state_appender))) in parts {
        let shard = ShardStart {
            number: u8::try_from(number).unwrap_or(u8::MAX),
            config: ShardConfig {
                directory: Arc::clone(&directories[number]),
                shared: shared.clone(),
                locals,
                ..shard_config(&config, number, &secrets, &plan)
            },
            trying: config.sip.trying,
            router: secrets.router(config.shards),
            ports,
            streams: connections.clone(),
            mailbox,
            posts: posts.clone(),
            resolver: resolver.clone(),
            records: RecordSink::new("call records", appender),
            state: RecordSink::new("the state", Some(state_appender)),
            names: names.next().unwrap_or_default(),
            lease: Lease::new(quotas.clone(), config.shards),
            cpu: (!config.pin.is_empty()).then(|| config.pin[number % config.pin.len()]),
        };
        shards.push(start_shard(shard, hub)?);
    }
    let text = announcement(&config, &udp, &tcp);
    let (known, tables) = ((plan, Arc::clone(&directories[0])), (shared, connections.clone()));
    let log = Arc::clone(log);
    let program = Arc::new(Program::new(options.clone(), config, known, tables, posts, log));
    let watched = Watched::new(journal.as_ref(), &state, connections);
    start_web(pages, &program, hub)?;
    let controller = start_control(&program, &control, watched, hub)?;
    announce(&text);
    drop(resolver);
    shards.push(resolving);
    finish(controller, shards, streams, (journal, state));
    drop(control);
    Ok(())
}

fn listen_control(config: &Config) -> Result<ControlSocket, StartFault> {
    let path = &config.control.socket;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(at(folder))?;
    }
    socket::listen(path, config.control.mode).map_err(at(path))
}

/// The call records, and what each shard writes them by; none when they are switched off.
fn start_records(
    config: &Config,
    hub: &Arc<Hub>,
) -> Result<(Vec<Option<Appender>>, Option<Journal>), StartFault> {
    let Some(settings) = &config.records else {
        return Ok(((0..config.shards).map(|_| None).collect(), None));
    };
    let started = records::start(settings, config.shards, hub);
    let (appenders, journal) = started.map_err(fault("open the call records"))?;
    Ok((appenders.into_iter().map(Some).collect(), Some(journal)))
}

/// What shards must find again after a start.
fn start_state(config: &Config, shared: &Shared, hub: &Arc<Hub>) -> Result<Started, StartFault> {
    let folder = config.data_folder.join("state");
    state::start((&folder, &ring_folder_of(config)), config.shards, shared, hub)
        .map_err(fault("open the state"))
}

/// Where the rings of the state lie: beside those of the call records.
fn ring_folder_of(config: &Config) -> PathBuf {
    let records = config.records.as_ref().map(|records| records.ring_folder.clone());
    let beside = records.unwrap_or_else(|| pbx_journal::default_ring_folder(&config.data_folder));
    let mut name = beside.file_name().unwrap_or_default().to_owned();
    name.push("-state");
    beside.with_file_name(name)
}

/// To whoever started it, the service manager and the log.
fn announce(text: &str) {
    println!("{text}");
    notify::ready(text);
    notice!("Started: {}", text);
}

fn announcement(config: &Config, udp: &[SocketAddr], tcp: &[SocketAddr]) -> String {
    let listed = |addresses: &[SocketAddr]| {
        addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let tcp = if tcp.is_empty() { String::new() } else { format!("; tcp {}", listed(tcp)) };
    let mut text = format!(
        "pbx {} is ready on udp {}{tcp}; control socket {}",
        env!("CARGO_PKG_VERSION"),
        listed(udp),
        config.control.socket.display()
    );
    if let Some(address) = config.metrics {
        text.push_str(&format!("; metrics http://{address}/metrics"));
    }
    text
}

/// Waits for the end. A panic on any thread has ended the program already.
fn finish(
    controller: JoinHandle<()>,
    shards: Vec<JoinHandle<()>>,
    streams: Option<streams::Running>,
    (journal, state): (Option<Journal>, State),
) {
    let _ = controller.join();
    for shard in shards {
        let _ = shard.join();
    }
    if let Some(streams) = streams {
        streams.stop();
    }
    if let Some(journal) = journal {
        journal.stop();
    }
    state.stop();
    notice!("Ended");
}

/// The socket for metrics and health, and what reads the metrics; none when it is switched off.
fn prepare_web(config: &Config) -> Result<Option<(TcpListener, PrometheusHandle)>, StartFault> {
    let Some(address) = config.metrics else { return Ok(None) };
    let handle = metrics::install().map_err(fault("start metrics"))?;
    let listener = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let listener = listener.map_err(fault(format!("serve metrics on {address}")))?;
    Ok(Some((listener, handle)))
}

fn start_web(
    prepared: Option<(TcpListener, PrometheusHandle)>,
    program: &Arc<Program>,
    hub: &Arc<Hub>,
) -> Result<(), StartFault> {
    let Some((listener, metrics)) = prepared else { return Ok(()) };
    let runtime = runtime().map_err(fault("start the web pages"))?;
    let pages = Arc::new(Pages { metrics, program: Arc::clone(program) });
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener).map_err(fault("start the web pages"))?
    };
    let thread = threads::spawn("web", hub, move || runtime.block_on(web::serve(listener, pages)));
    thread.map(drop).map_err(fault("start the web pages"))
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Endpoints that there is room for at least, so that a reload may bring some.
const ENDPOINTS_MIN: usize = 1_024;

/// What nobody outside may know or guess.
struct Secrets {
    epoch: u16,
    mint_key: HashKey,
    route_key: HashKey,
    nonce_key: [u8; 32],
    seeds: Vec<Seed>,
    resolver_seed: Seed,
}

impl Secrets {
    fn draw(config: &Config) -> Result<Self, StartFault> {
        let mut seed: Seed = [0; 32];
        let source = Path::new("/dev/urandom");
        let drawn = fs::File::open(source).and_then(|mut file| file.read_exact(&mut seed));
        drawn.map_err(at(source))?;
        let mut rng = Rng::new(seed);
        let (mint_key, route_key) = (rng.hash_key(), rng.hash_key());
        let mut draw = || {
            let mut seed: Seed = [0; 32];
            seed.chunks_exact_mut(8)
                .for_each(|part| part.copy_from_slice(&rng.next_u64().to_ne_bytes()));
            seed
        };
        let seeds = (0..config.shards).map(|_| draw()).collect();
        let resolver_seed = draw();
        let mut nonce_key = [0; 32];
        nonce_key
            .chunks_exact_mut(8)
            .for_each(|part| part.copy_from_slice(&rng.next_u64().to_ne_bytes()));
        let epoch = next_epoch(&config.data_folder)?;
        Ok(Self { epoch, mint_key, route_key, nonce_key, seeds, resolver_seed })
    }

    fn router(&self, shards: u8) -> Router {
        Router::new(self.epoch, shards, self.mint_key, self.route_key)
    }
}

/// One more than at the last start, so that a peer that still uses an identifier of an earlier run
/// is told 481 and does not reach a stranger's dialog.
fn next_epoch(folder: &Path) -> Result<u16, StartFault> {
    let path = folder.join("epoch");
    let last = match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().unwrap_or(0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(at(&path)(error)),
    };
    let epoch = u16::wrapping_add(last, 1);
    let fresh = folder.join("epoch.new");
    let written = fs::write(&fresh, format!("{epoch}\n")).and_then(|()| fs::rename(&fresh, &path));
    written.map_err(at(&path))?;
    Ok(epoch)
}

fn shard_config(
    config: &Config,
    number: usize,
    secrets: &Secrets,
    plan: &Arc<Plan>,
) -> ShardConfig {
    let shards = u32::from(config.shards);
    let hard = config.limits.calls_hard;
    // Calls spread by hash: each shard has room for half as many again as its even share.
    let calls_max = if shards == 1 { hard } else { hard / shards * 3 / 2 + 64 };
    let defaults = Limits::default();
    ShardConfig {
        shard: u8::try_from(number).unwrap_or(u8::MAX),
        shards: config.shards,
        epoch: secrets.epoch,
        seed: secrets.seeds[number],
        mint_key: secrets.mint_key,
        start: now().mono,
        limits: Limits {
            calls_max,
            calls_soft_max: 0, // leased before the first datagram
            legs_max: calls_max * 2 + 64,
            sojourn_max: config.limits.sojourn,
            tombstones_max: defaults.tombstones_max / shards,
        },
        timing: Default::default(),
        agent: config.sip.user_agent.as_str().into(),
        system: config.name.as_str().into(),
        locals: Locals::default(),
        nonce_key: secrets.nonce_key,
        directory: Arc::default(),
        shared: pbx_shared::shared(0, Duration::ZERO),
        plan: Arc::clone(plan),
    }
}

/// What a shard's thread starts with.
struct ShardStart {
    number: u8,
    config: ShardConfig,
    trying: Trying,
    router: Router,
    ports: Vec<UdpPort>,
    streams: Option<Streams>,
    mailbox: Mailbox,
    posts: Vec<Post>,
    resolver: Resolver,
    records: RecordSink,
    state: RecordSink,
    /// The endpoints that it looks after from the start.
    names: Vec<Box<str>>,
    lease: Lease,
    cpu: Option<usize>,
}

fn start_shard(start: ShardStart, hub: &Arc<Hub>) -> Result<JoinHandle<()>, StartFault> {
    let name = format!("shard-{}", start.number);
    let (said, ready) = mpsc::channel();
    let their_hub = Arc::clone(hub);
    let thread = threads::spawn(&name, hub, move || {
        let built = runtime().map_err(fault("")).and_then(|runtime| {
            let driver = {
                let _inside = runtime.enter();
                build_driver(start, &their_hub)?
            };
            Ok((runtime, driver))
        });
        match built {
            Ok((runtime, driver)) => {
                let _ = said.send(None);
                runtime.block_on(driver.run());
            }
            Err(fault) => {
                let _ = said.send(Some(fault.error.to_string()));
            }
        }
    });
    let thread = thread.map_err(fault(format!("start {name}")))?;
    match ready.recv() {
        Ok(None) => Ok(thread),
        Ok(Some(error)) => Err(fault(format!("start {name}"))(error)),
        Err(error) => Err(fault(format!("start {name}"))(error)),
    }
}

/// On the shard's own thread, so that its tables lie close to its CPU.
fn build_driver(start: ShardStart, hub: &Arc<Hub>) -> Result<Driver, StartFault> {
    if let Some(cpu) = start.cpu {
        threads::pin(cpu).map_err(fault(format!("keep it on CPU {cpu}")))?;
    }
    let lane_name = format!("shard-{} calls", start.number);
    let lane = hub.turn_lane(&lane_name, lwp(), LaneSize::SHARD);
    let lane = lane.ok_or_else(|| fault("")("no lane of the log is left"))?;
    let mut shard = Shard::new(&start.config);
    shard.set_trying_at_once(start.trying == Trying::Always);
    shard.restore(start.names);
    shard.watch_restored(now());
    Ok(Driver::new(Parts {
        number: start.number,
        shard,
        router: start.router,
        net: Sockets::new(start.ports, start.streams.map(|streams| (streams, start.number)))
            .map_err(fault("register its sockets"))?,
        mailbox: start.mailbox,
        resolver: start.resolver,
        own: start.posts[usize::from(start.number)].clone(),
        hops: HopPosts::new(start.posts),
        records: start.records,
        state: start.state,
        lease: start.lease,
        facts: Facts::new(lane),
    }))
}

/// Consoles, signals and the way to the end.
fn start_control(
    program: &Arc<Program>,
    control: &ControlSocket,
    watched: Watched,
    hub: &Arc<Hub>,
) -> Result<JoinHandle<()>, StartFault> {
    let program = Arc::clone(program);
    let listener = control.listener.try_clone().map_err(fault("start the control thread"))?;
    listener.set_nonblocking(true).map_err(fault("start the control thread"))?;
    let runtime = runtime().map_err(fault("start the control thread"))?;
    let prepared = {
        let _inside = runtime.enter();
        Signals::catch()
            .and_then(|signals| Ok((signals, tokio::net::UnixListener::from_std(listener)?)))
    };
    let (signals, listener) = prepared.map_err(fault("start the control thread"))?;
    let thread = threads::spawn("control", hub, move || {
        runtime.block_on(async {
            tokio::spawn(control::serve(listener, Arc::clone(&program)));
            tokio::spawn(signals.obey(Arc::clone(&program)));
            tokio::spawn(watch::look_after(Arc::clone(&program), watched));
            if let Some(every) = notify::watchdog() {
                tokio::spawn(watch::stay_alive(Arc::clone(&program), every));
            }
            lead_to_the_end(&program).await;
        });
    });
    thread.map_err(fault("start the control thread"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_has_an_epoch_of_its_own() {
        let folder = std::env::temp_dir().join(format!("pbx-epoch-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let first = next_epoch(&folder).unwrap();
        assert_eq!(next_epoch(&folder).unwrap(), first + 1);
        fs::write(folder.join("epoch"), "65535\n").unwrap();
        assert_eq!(next_epoch(&folder).unwrap(), 0);
        fs::remove_dir_all(folder).unwrap();
    }
}
