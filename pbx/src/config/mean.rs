//! What the file means: defaults filled in, and what belongs together checked.

use super::endpoints::{self, Endpoint, Group};
use super::said::{Said, SaidAbuse, SaidLimits, SaidLogFile, SaidTrunk, path};
use super::table::{At, Page};
use super::trunks::{self, Line, Peer};
use super::units;
use dialplan::Fault;
use logging::Levels;
use pbx_control::{places, socket};
use pbx_core::Budget;
use sip::digest::Algorithm;
use sip::path::Transport;
use sip_net::StreamLimits;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything that the program is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The system's name, part of unique identifiers.
    pub name: String,
    /// Where files lie that are given no other place.
    pub data_folder: PathBuf,
    /// How many threads serve calls.
    pub shards: u8,
    /// The CPU of each shard's thread, in turn; empty leaves it to the kernel.
    pub pin: Vec<usize>,
    /// `[sip]`.
    pub sip: Sip,
    /// Where the dialplan comes from.
    pub plan: PlanSource,
    /// By name.
    pub trunks: Vec<Trunk>,
    /// Phones and accounts, in the order of the file.
    pub endpoints: Vec<Endpoint>,
    /// Groups of endpoints.
    pub groups: Vec<Group>,
    /// `[auth]`.
    pub auth: Auth,
    /// `[abuse]`: what strangers may cost.
    pub abuse: Budget,
    /// `[limits]`.
    pub limits: Limits,
    /// `[log]`.
    pub log: Logs,
    /// `[records]`; `None` when there are none.
    pub records: Option<Records>,
    /// `[control]`.
    pub control: Control,
    /// Where metrics can be read; loopback only.
    pub metrics: Option<SocketAddr>,
    /// Who tells where hosts with names are.
    pub dns: Dns,
}

/// `[sip]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sip {
    /// UDP addresses.
    pub listen: Vec<SocketAddr>,
    /// TCP addresses: the same, unless said otherwise.
    pub listen_tcp: Vec<SocketAddr>,
    /// Whether a request that is too long for a datagram goes over TCP.
    pub switch_to_tcp: bool,
    /// The Server and User-Agent header field.
    pub user_agent: String,
    /// Bytes of the kernel's buffer, for each shard.
    pub receive_buffer: u64,
    /// When 100 (Trying) is said.
    pub trying: Trying,
}

/// When 100 (Trying) is said to an INVITE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trying {
    /// Where nothing better is said at once: a datagram less for each call.
    #[default]
    Lazy,
    /// Always, and first.
    Always,
}

/// Where the dialplan comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanSource {
    /// The one inside the program.
    Embedded,
    /// Files, in this order.
    Files(Vec<PathBuf>),
}

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// Its first address.
    pub address: IpAddr,
    /// How many bits of it count.
    pub bits: u8,
}

impl Prefix {
    /// The address with all bits beyond the length cleared.
    pub fn network(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        }
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// A peer that is known by its address or has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// `Dial(SIP/NAME/...)`.
    pub name: String,
    /// Where its calls come from.
    pub from: Vec<Prefix>,
    /// Where calls to it go: the first that answers.
    pub peers: Vec<Peer>,
    /// Over which transport; without one, UDP or what a name says.
    pub transport: Option<Transport>,
    /// How we are known there.
    pub(crate) line: Line,
    /// Where its calls enter the dialplan.
    pub context: String,
    /// Calls at a time.
    pub calls_max: Option<u32>,
    /// What to say when the dialplan does not have the context.
    pub(crate) missing_context: Option<Fault>,
}

impl Trunk {
    /// Whether both mean the same, wherever they stand in the file.
    pub fn is_same(&self, other: &Self) -> bool {
        let Self { name, from, peers, transport, line, context, calls_max, missing_context: _ } =
            self;
        (name, from, peers, transport, line, context, calls_max)
            == (
                &other.name,
                &other.from,
                &other.peers,
                &other.transport,
                &other.line,
                &other.context,
                &other.calls_max,
            )
    }
}

/// Servers of names: all may be asked for one question.
const DNS_SERVERS_MAX: usize = 8;

/// `[dns]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dns {
    /// Whom to ask; empty: whom the system asks (/etc/resolv.conf).
    pub servers: Vec<SocketAddr>,
}

/// `[auth]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// The realm of our challenges.
    pub realm: String,
    /// The hashes that a challenge offers.
    pub algorithms: Vec<Algorithm>,
    /// How long a nonce is good for.
    pub nonce_lifetime: Duration,
}

/// `[limits]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// New calls beyond this many are refused.
    pub calls: u32,
    /// Tables are sized for this many: running calls may place further legs up to it.
    pub calls_hard: u32,
    /// A new call that waited longer than this in the socket is refused.
    pub sojourn: Duration,
    /// How long a graceful stop waits for calls to end.
    pub drain: Duration,
    /// What TCP connections may take.
    pub streams: StreamLimits,
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logs {
    /// Verbosity at the start.
    pub verbose: u8,
    /// By name.
    pub files: Vec<LogFile>,
}

/// `[log.files.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// Its name.
    pub name: String,
    /// Where it is written.
    pub path: PathBuf,
    /// What goes into it.
    pub levels: Levels,
}

/// `[records]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Records {
    /// Where the JSON lines go.
    pub folder: PathBuf,
    /// Where the rings lie.
    pub ring_folder: PathBuf,
    /// Bytes of one shard's ring.
    pub ring: u64,
    /// A new file after so many bytes.
    pub file: u64,
    /// How long a record may stay away from the disk.
    pub sync: Option<Duration>,
    /// Whether SQLite is filled.
    pub sqlite: bool,
}

/// `[control]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The socket's path.
    pub socket: PathBuf,
    /// Its permissions.
    pub mode: u32,
}

/// Where metrics are read when nobody says otherwise.
const METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9464);
const SIP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5060);
/// 1 s of 8,000 calls per second in both directions.
const RECEIVE_BUFFER: u64 = 16 << 20;
const CALLS_HARD: u32 = 10_000;
/// Each nonce in use is remembered so long, twice.
const NONCE_LIFETIME: Duration = Duration::from_secs(60);
const NONCE_MIN: Duration = Duration::from_secs(5);
const NONCE_MAX: Duration = Duration::from_secs(3600);
const SOJOURN: Duration = Duration::from_millis(200);
const DRAIN: Duration = Duration::from_secs(3600);
/// Some 25,000 records: new calls are refused when half of it is used.
const RING: u64 = 16 << 20;
const RECORD_FILE: u64 = 256 << 20;
const SYNC: Duration = Duration::from_secs(1);
const SOCKET_MODE: u32 = 0o600;
/// Room for the suffix under which a new socket is made.
const SOCKET_PATH_MAX: usize = socket::PATH_MAX - 12;

/// Works out what was meant.
pub(super) fn mean(said: &Said, folder: &Path, page: &mut Page<'_>) -> Config {
    let at_folder = |text: &At<String>| folder.join(path(text));
    let data_folder = said.data_folder.as_ref().map_or_else(places::data_dir, at_folder);
    let calls_hard = value(&said.limits.calls_hard, CALLS_HARD.max(value(&said.limits.calls, 0)));
    let trunks = trunks(said, page);
    let mut taken: BTreeMap<String, &'static str> =
        trunks.iter().map(|trunk| (trunk.name.clone(), "a trunk")).collect();
    let endpoints = endpoints::mean(&said.endpoints, &said.templates, &mut taken, page);
    let groups = endpoints::mean_groups(&said.groups, &endpoints, &mut taken, page);
    let auth = auth(said, page);
    endpoints::check_hashes(&said.endpoints, &said.templates, &auth.algorithms, page);
    let config = Config {
        name: value(&said.name, "pbx".to_owned()),
        shards: u8::try_from(value(&said.shards, 1)).unwrap_or(u8::MAX),
        pin: value(&said.pin, Vec::new()).into_iter().map(|cpu| cpu as usize).collect(),
        sip: Sip {
            listen: listen(said, page),
            listen_tcp: listen_tcp(said, page),
            switch_to_tcp: value(&said.switch_to_tcp, true),
            user_agent: value(&said.user_agent, concat!("pbx/", env!("CARGO_PKG_VERSION")).into()),
            receive_buffer: value(&said.receive_buffer, RECEIVE_BUFFER),
            trying: value(&said.trying, Trying::Lazy),
        },
        plan: plan(said, folder),
        trunks,
        endpoints,
        groups,
        auth,
        abuse: abuse(&said.abuse),
        limits: Limits {
            calls: value(&said.limits.calls, calls_hard),
            calls_hard,
            sojourn: value(&said.limits.sojourn, SOJOURN),
            drain: value(&said.limits.drain, DRAIN),
            streams: streams(&said.limits),
        },
        log: logs(said, folder, &data_folder, page),
        records: records(said, folder, &data_folder, page),
        control: Control {
            socket: said.socket.as_ref().map_or(data_folder.join(places::SOCKET_NAME), at_folder),
            mode: value(&said.socket_mode, SOCKET_MODE),
        },
        metrics: value(&said.metrics, Some(METRICS)),
        dns: dns(said, page),
        data_folder,
    };
    check(said, &config, page);
    config
}

impl Config {
    /// Moves everything that lies in the data folder to another one.
    pub fn place(&mut self, folder: PathBuf) {
        let old = std::mem::replace(&mut self.data_folder, folder);
        let rings = pbx_journal::default_ring_folder(&old);
        let new = &self.data_folder;
        let moved = |path: &mut PathBuf| {
            if let Ok(rest) = path.strip_prefix(&old) {
                *path = new.join(rest);
            }
        };
        moved(&mut self.control.socket);
        self.log.files.iter_mut().for_each(|file| moved(&mut file.path));
        if let Some(records) = &mut self.records {
            moved(&mut records.folder);
            if records.ring_folder == rings {
                records.ring_folder = pbx_journal::default_ring_folder(new);
            }
        }
    }
}

fn value<T: Clone>(said: &Option<At<T>>, default: T) -> T {
    said.as_ref().map_or(default, |at| at.value.clone())
}

fn listen(said: &Said, page: &mut Page<'_>) -> Vec<SocketAddr> {
    let Some(listen) = &said.listen else { return vec![SIP] };
    if listen.value.is_empty() {
        page.fault(listen.span.clone(), "without an address nobody can call");
    }
    let mut seen: Vec<SocketAddr> = Vec::new();
    for At { value: address, span } in &listen.value {
        // Port 0 takes a free one, so the same text may mean several.
        if address.port() != 0 && seen.contains(address) {
            page.fault(span.clone(), format!("{address} is listed twice"));
        }
        seen.push(*address);
    }
    seen
}

/// RFC 3261 18 wants TCP wherever there is UDP.
fn listen_tcp(said: &Said, page: &mut Page<'_>) -> Vec<SocketAddr> {
    let Some(list) = &said.listen_tcp else {
        let udp = said.listen.as_ref().map(|list| list.value.iter().map(|at| at.value).collect());
        return udp.unwrap_or_else(|| vec![SIP]);
    };
    let mut seen: Vec<SocketAddr> = Vec::new();
    for At { value: address, span } in &list.value {
        if address.port() != 0 && seen.contains(address) {
            page.fault(span.clone(), format!("{address} is listed twice"));
        }
        seen.push(*address);
    }
    seen
}

fn streams(said: &SaidLimits) -> StreamLimits {
    let defaults = StreamLimits::default();
    let number = |said: &Option<At<u32>>, or| said.as_ref().map_or(or, |at| at.value as usize);
    StreamLimits {
        connections: number(&said.tcp_connections, defaults.connections),
        per_address: number(&said.tcp_per_address, defaults.per_address),
        idle: value(&said.tcp_idle, defaults.idle),
        ..defaults
    }
}

fn plan(said: &Said, folder: &Path) -> PlanSource {
    match &said.plan_files {
        Some(files) => {
            PlanSource::Files(files.value.iter().map(|file| folder.join(path(file))).collect())
        }
        None => PlanSource::Files(vec![folder.join("dialplan.toml")]),
    }
}

/// Whoever gives a context wants calls from there.
const NAMED_WITHOUT_FROM: &str = "calls of a trunk are known by their source address, and its \
    `peer` is a name: say in `from` where they come from (or leave `context` out)";

fn trunks(said: &Said, page: &mut Page<'_>) -> Vec<Trunk> {
    let mut owners: BTreeMap<Prefix, String> = BTreeMap::new();
    let mut trunks = Vec::new();
    for SaidTrunk { name, from, peer, peers, transport, line, context, calls_max } in &said.trunks {
        if let Err(why) = units::name(&name.value) {
            page.fault(name.span.clone(), why);
        }
        if context.is_none() && from.is_some() {
            let text = "a trunk with `from` needs a `context`, where its calls enter the dialplan";
            page.fault(name.span.clone(), text);
        }
        if from.is_none() && peer.is_none() && peers.is_none() {
            page.fault(name.span.clone(), "a trunk needs `from`, `peer` or both");
        }
        let transport = transport.as_ref().map(|at| at.value);
        let line = trunks::mean(name, (line, transport), page);
        let peers = trunks::peers(peer, peers, page);
        let is_named = peers.iter().any(|peer| matches!(peer, Peer::Name { .. }));
        if let (Some(context), None, true) = (context, from, is_named) {
            page.fault(context.span.clone(), NAMED_WITHOUT_FROM);
        }
        let prefixes = from.as_ref().map_or(&[][..], |list| &list.value);
        for At { value: prefix, span } in prefixes {
            if let Some(owner) = owners.insert(*prefix, name.value.clone()) {
                page.fault(span.clone(), format!("{prefix} belongs to trunk '{owner}' already"));
            }
        }
        trunks.push(Trunk {
            name: name.value.clone(),
            from: prefixes.iter().map(|at| at.value).collect(),
            peers,
            transport,
            line,
            context: value(context, String::new()),
            calls_max: calls_max.as_ref().map(|at| at.value),
            missing_context: context.as_ref().map(|at| {
                let text = format!("the dialplan has no context '{}'", at.value);
                page.make_fault(at.span.clone(), text)
            }),
        });
    }
    trunks
}

fn dns(said: &Said, page: &mut Page<'_>) -> Dns {
    let Some(servers) = &said.dns_servers else { return Dns::default() };
    if servers.value.is_empty() || servers.value.len() > DNS_SERVERS_MAX {
        let text = format!("1 to {DNS_SERVERS_MAX} servers; without the key, those of the system");
        page.fault(servers.span.clone(), text);
    }
    Dns { servers: servers.value.iter().map(|at| at.value).collect() }
}

fn auth(said: &Said, page: &mut Page<'_>) -> Auth {
    let said = &said.auth;
    let algorithms: Vec<Algorithm> = match &said.algorithms {
        Some(list) if list.value.is_empty() => {
            page.fault(list.span.clone(), "without a hash nobody can prove who he is");
            Vec::new()
        }
        Some(list) => list.value.iter().map(|at| at.value).collect(),
        // Phones in the field (baresip 1.0 and SIPp 3.6 among them) fail at a challenge that names
        // SHA-256, though RFC 8760 wants them to pass over it.
        None => vec![Algorithm::Md5],
    };
    if let Some(At { value, span }) = &said.nonce_lifetime
        && !(NONCE_MIN..=NONCE_MAX).contains(value)
    {
        page.fault(span.clone(), "a nonce is good for 5s to 1h");
    }
    Auth {
        realm: value(&said.realm, "pbx".to_owned()),
        algorithms,
        nonce_lifetime: value(&said.nonce_lifetime, NONCE_LIFETIME),
    }
}

fn abuse(said: &SaidAbuse) -> Budget {
    let defaults = Budget::default();
    let small = |said: &Option<At<u32>>, or: u16| {
        said.as_ref().map_or(or, |at| u16::try_from(at.value).unwrap_or(u16::MAX))
    };
    Budget {
        burst: small(&said.burst, defaults.burst),
        per_second: small(&said.per_second, defaults.per_second),
        failures: small(&said.failures, defaults.failures),
        forget_after: value(&said.forget_after, defaults.forget_after),
        penalty: value(&said.penalty, defaults.penalty),
        vouched_factor: small(&said.vouched_factor, defaults.vouched_factor),
        vouched_for: value(&said.vouched_for, defaults.vouched_for),
        all_per_second: value(&said.all_per_second, defaults.all_per_second),
        unanswered: small(&said.unanswered, defaults.unanswered),
    }
}

fn logs(said: &Said, folder: &Path, data_folder: &Path, page: &mut Page<'_>) -> Logs {
    let logs = said.log_folder.as_ref().map_or(data_folder.join("log"), |at| folder.join(path(at)));
    let verbose = u8::try_from(value(&said.verbose, 0)).unwrap_or(u8::MAX);
    if said.log_files.is_empty() {
        return Logs { verbose, files: default_log_files(&logs) };
    }
    let mut files = Vec::new();
    for SaidLogFile { name, path: file, levels } in &said.log_files {
        if let Err(why) = units::name(&name.value) {
            page.fault(name.span.clone(), why);
        }
        let Some(levels) = levels else {
            page.fault(name.span.clone(), "a log file needs `levels`, such as \"notice,warning\"");
            continue;
        };
        let path = file.as_ref().map_or(logs.join(&name.value), |file| logs.join(path(file)));
        files.push(LogFile { name: name.value.clone(), path, levels: levels.value });
    }
    Logs { verbose, files }
}

/// `messages` for people, `security.log` for fail2ban's jail.
fn default_log_files(folder: &Path) -> Vec<LogFile> {
    let file = |name: &str, levels: &str| LogFile {
        name: name.to_owned(),
        path: folder.join(name),
        levels: levels.parse().expect("the levels are this program's own"),
    };
    vec![file("messages", "notice,warning,error,verbose"), file("security.log", "security")]
}

fn records(said: &Said, folder: &Path, data_folder: &Path, page: &mut Page<'_>) -> Option<Records> {
    let said = &said.records;
    if let Some(ring) = &said.ring
        && !(pbx_journal::RING_MIN..=pbx_journal::RING_MAX).contains(&ring.value)
    {
        page.fault(ring.span.clone(), "a ring has 1MiB to 1GiB");
    }
    if let Some(file) = &said.file
        && file.value < 1 << 20
    {
        page.fault(file.span.clone(), "a file of records has at least 1MiB");
    }
    value(&said.enabled, true).then(|| Records {
        folder: said
            .folder
            .as_ref()
            .map_or(data_folder.join("records"), |at| folder.join(path(at))),
        ring_folder: match &said.ring_folder {
            Some(at) => folder.join(path(at)),
            None => pbx_journal::default_ring_folder(data_folder),
        },
        ring: value(&said.ring, RING),
        file: value(&said.file, RECORD_FILE),
        sync: value(&said.sync, Some(SYNC)),
        sqlite: value(&said.sqlite, true),
    })
}

fn check(said: &Said, config: &Config, page: &mut Page<'_>) {
    if let Some(hard) = &said.limits.calls_hard
        && config.limits.calls > hard.value
    {
        page.fault(hard.span.clone(), "`calls_hard` is below `calls`");
    }
    if let Some(At { value: Some(address), span }) = &said.metrics
        && !address.ip().is_loopback()
    {
        let text = "metrics have no authentication: only a loopback address is allowed";
        page.fault(span.clone(), text);
    }
    if let Some(socket) = &said.socket
        && config.control.socket.as_os_str().len() > SOCKET_PATH_MAX
    {
        page.fault(
            socket.span.clone(),
            format!("a socket's path has at most {SOCKET_PATH_MAX} bytes"),
        );
    }
}
