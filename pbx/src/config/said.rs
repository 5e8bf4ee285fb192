//! What the file says, key by key.

use super::endpoints::{self, Named, SaidGroup};
use super::logs::{self, SaidLogs};
use super::table::{At, Page, Table};
use super::trunks::Peer;
use super::units;
use super::{Prefix, Trying};
use sip::digest::Algorithm;
use sip::path::Transport;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use toml::de::DeTable;

/// Threads that run shards: more than any machine it has been measured on.
const SHARDS_MAX: u32 = 64;

/// Calls at a time; memory is reserved for them at the start.
const CALLS_MAX: u32 = 4_000_000;

/// The file; `None` is a key that it does not have.
#[derive(Default)]
pub(super) struct Said {
    pub(super) name: Option<At<String>>,
    pub(super) data_folder: Option<At<String>>,
    pub(super) shards: Option<At<u32>>,
    pub(super) pin: Option<At<Vec<u32>>>,
    pub(super) listen: Option<At<Vec<At<SocketAddr>>>>,
    pub(super) listen_tcp: Option<At<Vec<At<SocketAddr>>>>,
    pub(super) switch_to_tcp: Option<At<bool>>,
    pub(super) user_agent: Option<At<String>>,
    pub(super) receive_buffer: Option<At<u64>>,
    pub(super) trying: Option<At<Trying>>,
    pub(super) plan_files: Option<At<Vec<At<String>>>>,
    pub(super) trunks: Vec<SaidTrunk>,
    pub(super) endpoints: Vec<Named>,
    pub(super) templates: Vec<Named>,
    pub(super) groups: Vec<SaidGroup>,
    pub(super) auth: SaidAuth,
    pub(super) abuse: SaidAbuse,
    pub(super) limits: SaidLimits,
    pub(super) logs: SaidLogs,
    pub(super) records: SaidRecords,
    pub(super) socket: Option<At<String>>,
    pub(super) socket_mode: Option<At<u32>>,
    pub(super) metrics: Option<At<Option<SocketAddr>>>,
    pub(super) dns_servers: Option<At<Vec<At<SocketAddr>>>>,
}

/// `[auth]`.
#[derive(Default)]
pub(super) struct SaidAuth {
    pub(super) realm: Option<At<String>>,
    pub(super) algorithms: Option<At<Vec<At<Algorithm>>>>,
    pub(super) nonce_lifetime: Option<At<Duration>>,
}

/// `[abuse]`.
#[derive(Default)]
pub(super) struct SaidAbuse {
    pub(super) burst: Option<At<u32>>,
    pub(super) per_second: Option<At<u32>>,
    pub(super) failures: Option<At<u32>>,
    pub(super) forget_after: Option<At<Duration>>,
    pub(super) penalty: Option<At<Duration>>,
    pub(super) vouched_factor: Option<At<u32>>,
    pub(super) vouched_for: Option<At<Duration>>,
    pub(super) all_per_second: Option<At<u32>>,
    pub(super) unanswered: Option<At<u32>>,
}

/// `[trunks.NAME]`.
pub(super) struct SaidTrunk {
    pub(super) name: At<String>,
    pub(super) from: Option<At<Vec<At<Prefix>>>>,
    pub(super) peer: Option<At<Peer>>,
    pub(super) peers: Option<At<Vec<At<Peer>>>>,
    pub(super) transport: Option<At<Transport>>,
    pub(super) line: SaidLine,
    pub(super) context: Option<At<String>>,
    pub(super) calls_max: Option<At<u32>>,
}

/// What `[trunks.NAME]` says of how we are known there.
#[derive(Default)]
pub(super) struct SaidLine {
    pub(super) user: Option<At<String>>,
    pub(super) password: Option<At<String>>,
    pub(super) ha1: Option<At<String>>,
    pub(super) ha1_algorithm: Option<At<Algorithm>>,
    pub(super) realm: Option<At<String>>,
    pub(super) register: Option<At<Peer>>,
    pub(super) expires: Option<At<Duration>>,
    pub(super) contact_user: Option<At<String>>,
    pub(super) from_user: Option<At<String>>,
    pub(super) from_domain: Option<At<String>>,
    pub(super) caller_number: Option<At<String>>,
    pub(super) caller_name: Option<At<String>>,
    pub(super) qualify: Option<At<Duration>>,
}

/// `[limits]`.
#[derive(Default)]
pub(super) struct SaidLimits {
    pub(super) calls: Option<At<u32>>,
    pub(super) calls_hard: Option<At<u32>>,
    pub(super) sojourn: Option<At<Duration>>,
    pub(super) drain: Option<At<Duration>>,
    pub(super) tcp_connections: Option<At<u32>>,
    pub(super) tcp_per_address: Option<At<u32>>,
    pub(super) tcp_idle: Option<At<Duration>>,
}

/// `[records]`.
#[derive(Default)]
pub(super) struct SaidRecords {
    pub(super) enabled: Option<At<bool>>,
    pub(super) folder: Option<At<String>>,
    pub(super) ring_folder: Option<At<String>>,
    pub(super) ring: Option<At<u64>>,
    pub(super) file: Option<At<u64>>,
    pub(super) sync: Option<At<Option<Duration>>>,
    pub(super) sqlite: Option<At<bool>>,
}

/// Reads the page.
pub(super) fn read(page: &mut Page<'_>) -> Said {
    let (root, errors) = DeTable::parse_recoverable(page.text());
    for error in errors {
        page.fault(error.span().unwrap_or(0..0), error.message());
    }
    let mut said = Said::default();
    let mut top = Table::new(page, root.get_ref(), String::new());
    top.table("server", |table| {
        said.name = table.parsed("name", units::name);
        said.data_folder = table.text("data_dir");
        said.shards = table.number("shards", 1..=SHARDS_MAX);
        said.pin = table.numbers("pin", 0..=4095);
    });
    top.table("sip", |table| {
        said.listen = table.list("listen", units::address);
        said.listen_tcp = table.list("listen_tcp", units::address);
        said.switch_to_tcp = table.boolean("switch_to_tcp");
        said.user_agent = table.parsed("user_agent", units::agent);
        said.receive_buffer = table.size("receive_buffer");
        said.trying = table.parsed("trying", |text| match text {
            "lazy" => Ok(Trying::Lazy),
            "always" => Ok(Trying::Always),
            _ => Err("`trying` is \"lazy\" or \"always\""),
        });
    });
    top.table("dialplan", |table| said.plan_files = table.list("files", not_empty));
    top.tables("trunks", |name, table| said.trunks.push(trunk(name, table)));
    top.tables("endpoints", |name, table| said.endpoints.push(endpoints::read(name, table)));
    top.tables("templates", |name, table| said.templates.push(endpoints::read(name, table)));
    top.tables("groups", |name, table| said.groups.push(endpoints::read_group(name, table)));
    top.table("auth", |table| {
        said.auth = SaidAuth {
            realm: table.parsed("realm", units::agent),
            algorithms: table.list("algorithms", endpoints::algorithm),
            nonce_lifetime: table.duration("nonce_lifetime"),
        };
    });
    top.table("abuse", |table| said.abuse = abuse(table));
    top.table("limits", |table| {
        said.limits = SaidLimits {
            calls: table.number("calls", 1..=CALLS_MAX),
            calls_hard: table.number("calls_hard", 1..=CALLS_MAX),
            sojourn: table.duration("sojourn"),
            drain: table.duration("drain"),
            tcp_connections: table.number("tcp_connections", 1..=1_000_000),
            tcp_per_address: table.number("tcp_per_address", 1..=1_000_000),
            tcp_idle: table.duration("tcp_idle"),
        };
    });
    top.renamed("log", "logging");
    top.table("logging", |table| said.logs = logs::read(table));
    top.table("records", |table| said.records = records(table));
    top.table("control", |table| {
        said.socket = table.text("socket");
        said.socket_mode = table.parsed("mode", units::socket_mode);
    });
    top.table("metrics", |table| {
        said.metrics = table.parsed("listen", |text| match text {
            "none" => Ok(None),
            text => units::address(text).map(Some),
        });
    });
    top.table("dns", |table| said.dns_servers = table.list("servers", units::address));
    top.finish();
    said
}

fn trunk(name: At<String>, table: &mut Table<'_, '_, '_>) -> SaidTrunk {
    SaidTrunk {
        name,
        from: table.list("from", units::prefix),
        peer: table.parsed("peer", units::peer),
        peers: table.list("peers", units::peer),
        transport: table.parsed("transport", |text| match text {
            "udp" => Ok(Transport::Udp),
            "tcp" => Ok(Transport::Tcp),
            "tls" => Err("TLS is not built yet"),
            _ => Err("`transport` is \"udp\" or \"tcp\""),
        }),
        line: line(table),
        context: table.text("context"),
        calls_max: table.number("calls", 1..=CALLS_MAX),
    }
}

fn line(table: &mut Table<'_, '_, '_>) -> SaidLine {
    SaidLine {
        user: table.parsed("user", units::name),
        password: table.text("password"),
        ha1: table.text("ha1"),
        ha1_algorithm: table.parsed("ha1_algorithm", endpoints::algorithm),
        realm: table.text("realm"),
        register: table.parsed("register", units::peer),
        expires: table.duration("expires"),
        contact_user: table.parsed("contact_user", units::name),
        from_user: table.parsed("from_user", units::name),
        from_domain: table.parsed("from_domain", units::host),
        caller_number: table.parsed("caller_number", endpoints::shown),
        caller_name: table.parsed("caller_name", endpoints::shown),
        qualify: table.duration("qualify"),
    }
}

fn abuse(table: &mut Table<'_, '_, '_>) -> SaidAbuse {
    let most = u32::from(u16::MAX);
    SaidAbuse {
        burst: table.number("burst", 1..=most),
        per_second: table.number("per_second", 1..=most),
        failures: table.number("failures", 1..=most),
        forget_after: table.duration("forget_after"),
        penalty: table.duration("penalty"),
        vouched_factor: table.number("vouched_factor", 1..=1_000),
        vouched_for: table.duration("vouched_for"),
        all_per_second: table.number("all_per_second", 1..=10_000_000),
        unanswered: table.number("unanswered", 0..=most),
    }
}

fn records(table: &mut Table<'_, '_, '_>) -> SaidRecords {
    SaidRecords {
        enabled: table.boolean("enabled"),
        folder: table.text("folder"),
        ring_folder: table.text("ring_folder"),
        ring: table.size("ring"),
        file: table.size("file"),
        sync: table.parsed("sync", |text| match text {
            "never" => Ok(None),
            text => units::duration(text).map(Some),
        }),
        sqlite: table.boolean("sqlite"),
    }
}

fn not_empty(text: &str) -> Result<String, &'static str> {
    if text.is_empty() { Err("it must not be empty") } else { Ok(text.to_owned()) }
}

/// A path as it was said.
pub(super) fn path(said: &At<String>) -> PathBuf {
    PathBuf::from(&said.value)
}
