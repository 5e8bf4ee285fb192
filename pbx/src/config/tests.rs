//! What a configuration may say, what it means, and how its faults are told.

use super::*;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

fn faults(text: &str) -> String {
    match parse(Path::new("pbx.toml"), text) {
        Ok(config) => panic!("no fault in {text:?}: {config:?}"),
        Err(faults) => faults.to_string(),
    }
}

fn config(text: &str) -> Config {
    parse(Path::new("/etc/pbx/pbx.toml"), text).unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn nothing_listens_to_the_world_unless_told_to() {
    for config in [config(""), embedded().unwrap()] {
        assert!(config.sip.listen.iter().all(|address| address.ip().is_loopback()));
        assert!(config.metrics.is_some_and(|address| address.ip().is_loopback()));
        assert_eq!(config.control.mode, 0o600);
        let networks = config.trunks.iter().flat_map(|trunk| &trunk.from);
        assert!(networks.map(|prefix| prefix.address).all(|address| address.is_loopback()));
    }
}

#[test]
fn all_faults_come_at_once_with_their_places() {
    let text = "\
[sip]
lisen = []
listen = [\"127.0.0.1\", 5060]

[limits]
calls = 0
sojourn = \"200\"

[trunks.a]
from = [\"10.0.0.1/8\"]
context = \"x\"

[metrics]
listen = \"0.0.0.0:9464\"

[other]
";
    let said = faults(text);
    let expected = [
        "pbx.toml:2:1: unknown key 'lisen' in [sip] (did you mean 'listen'?)\n \
         2 | lisen = []\n   | ^^^^^\n",
        "pbx.toml:3:11: '127.0.0.1' is no address",
        "pbx.toml:3:24: a text in quotes is needed here, not an integer",
        "pbx.toml:6:9: a number from 1 to 4000000",
        "pbx.toml:7:11: '200' is no duration",
        "pbx.toml:9:9: a trunk needs `from`, `peer` or both",
        "pbx.toml:10:9: '10.0.0.1/8' has bits beyond its length: 10.0.0.0/8 is the network",
        "pbx.toml:14:10: metrics have no authentication",
        "pbx.toml:16:2: unknown key 'other'\n",
    ];
    let mut rest = said.as_str();
    for part in expected {
        let at =
            rest.find(part).unwrap_or_else(|| panic!("missing or out of order: {part}\n{said}"));
        rest = &rest[at..];
    }
    assert_eq!(said.matches("pbx.toml:").count(), expected.len(), "{said}");
}

#[test]
fn broken_toml_is_told_with_its_place_and_the_rest_is_still_checked() {
    let said = faults("[sip]\nlisten = = 3\n[limits]\ncals = 3\n");
    assert!(said.contains("pbx.toml:2:10: "), "{said}");
    assert!(said.contains("did you mean 'calls'"), "{said}");
}

#[test]
fn paths_start_at_the_folder_of_the_file() {
    let text = "[server]\ndata_dir = \"var\"\n[dialplan]\nfiles = [\"a.toml\", \"/b.toml\"]\n";
    let config = config(text);
    assert_eq!(config.control.socket, PathBuf::from("/etc/pbx/var/control.sock"));
    let files = vec![PathBuf::from("/etc/pbx/a.toml"), PathBuf::from("/b.toml")];
    assert_eq!(config.plan, PlanSource::Files(files));
    assert_eq!(config.records.unwrap().folder, PathBuf::from("/etc/pbx/var/records"));
    assert_eq!(config.logs.files[0].path, PathBuf::from("/etc/pbx/var/log/messages"));
}

#[test]
fn everything_can_be_said() {
    let config = config(
        r#"
[server]
name = "pbx-1"
data_dir = "/var/lib/pbx"
shards = 2
pin = [1, 2]
[sip]
listen = ["192.0.2.1:5060", "[2001:db8::1]:5060"]
user_agent = "Example"
receive_buffer = "8MiB"
[trunks.carrier]
from = ["198.51.100.0/24", "2001:db8:1::/48"]
peer = "198.51.100.7:5060"
context = "incoming"
calls = 30
[limits]
calls = 500
calls_hard = 600
sojourn = "100ms"
drain = "5m"
[logging]
verbose = 4
folder = "/var/log/pbx"
[logging.files.full]
levels = "notice,verbose(5)"
[logging.files.other]
path = "/tmp/other.log"
levels = "*"
[records]
folder = "/var/lib/pbx/cdr"
ring_folder = "/dev/shm/x"
ring = "2MiB"
file = "1MiB"
sync = "never"
sqlite = false
[control]
socket = "/run/pbx/control.sock"
mode = "0660"
[metrics]
listen = "none"
"#,
    );
    assert_eq!((config.name.as_str(), config.shards, &config.pin[..]), ("pbx-1", 2, &[1, 2][..]));
    let listen: Vec<SocketAddr> =
        ["192.0.2.1:5060", "[2001:db8::1]:5060"].map(|text| text.parse().unwrap()).into();
    assert_eq!(config.sip.listen, listen);
    assert_eq!(config.trunks[0].calls_max, Some(30));
    assert_eq!(config.trunks[0].from.len(), 2);
    assert_eq!(config.limits.drain, Duration::from_secs(300));
    assert_eq!((config.limits.calls, config.limits.calls_hard), (500, 600));
    assert_eq!(config.logs.files[0].path, PathBuf::from("/var/log/pbx/full"));
    assert_eq!(config.logs.files[1].path, PathBuf::from("/tmp/other.log"));
    assert_eq!(config.metrics, None);
    let records = config.records.unwrap();
    assert_eq!((records.sync, records.sqlite, records.ring), (None, false, 2 << 20));
}

#[test]
fn what_belongs_together_is_checked_together() {
    let said = faults(
        "[trunks.a]\nfrom = [\"10.0.0.0/8\"]\ncontext = \"x\"\n\
         [trunks.b]\nfrom = [\"10.0.0.0/8\"]\n[trunks.c]\n\
         [trunks.'d e']\npeer = \"10.0.0.1:5060\"\n\
         [limits]\ncalls = 10\ncalls_hard = 5\n",
    );
    for part in [
        "pbx.toml:5:9: 10.0.0.0/8 belongs to trunk 'a' already",
        "pbx.toml:4:9: a trunk with `from` needs a `context`",
        "pbx.toml:6:9: a trunk needs `from`, `peer` or both",
        "pbx.toml:7:9: a name has 1 to 64 letters",
        "pbx.toml:11:14: `calls_hard` is below `calls`",
    ] {
        assert!(said.contains(part), "missing: {part}\n{said}");
    }
}

#[test]
fn a_raised_cap_raises_the_hard_one_with_it() {
    let config = config("[limits]\ncalls = 50000\n");
    assert_eq!((config.limits.calls, config.limits.calls_hard), (50_000, 50_000));
}

#[test]
fn the_embedded_files_are_sound() {
    let config = embedded().unwrap_or_else(|faults| panic!("{faults}"));
    let plan = load_plan(&config).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(plan.has_context("default"));
}

#[test]
fn the_samples_are_sound_and_state_the_defaults() {
    let etc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../etc");
    let load = |name: &str| {
        let path = etc.join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let config = parse(&path, &text).unwrap_or_else(|faults| panic!("{faults}"));
        load_plan(&config).unwrap_or_else(|fault| panic!("{fault}"));
        config
    };
    let bench = load("bench/pbx.toml");
    assert_eq!((bench.logs.verbose, bench.records.is_some()), (0, true));
    let sample = load("pbx.toml");
    let default = parse(&etc.join("x"), "[server]\ndata_dir = \"/var/lib/pbx\"\n").unwrap();
    assert_eq!(sample.limits.calls_hard, default.limits.calls_hard);
    assert_eq!(sample.limits.streams, default.limits.streams);
    let parties_aside = Config {
        trunks: Vec::new(),
        endpoints: Vec::new(),
        groups: Vec::new(),
        control: default.control.clone(),
        limits: default.limits.clone(),
        ..sample
    };
    assert_eq!(parties_aside, default);
}

#[test]
fn a_missing_context_or_trunk_is_told_at_its_place() {
    let folder = std::env::temp_dir().join(format!("pbx-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let plan = "[[context.in.exten]]\nmatch = \"1\"\nsteps = [\"Dial(SIP/carier/100)\"]\n";
    std::fs::write(folder.join("dialplan.toml"), plan).unwrap();
    let text =
        "[trunks.carrier]\nfrom = [\"10.0.0.0/8\"]\npeer = \"10.0.0.1:5060\"\ncontext = \"inn\"\n";
    let config = parse(&folder.join("pbx.toml"), text).unwrap();
    let said = load_plan(&config).expect_err("two faults").to_string();
    assert!(
        said.contains(
            "there is no trunk, endpoint or group of this name (did you mean 'carrier'?)"
        ),
        "{said}"
    );
    assert!(said.contains("pbx.toml:4:11: the dialplan has no context 'inn'"), "{said}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_peer_may_have_a_name() {
    let text = "[dns]\nservers = [\"192.0.2.53:53\"]\n[trunks.carrier]\n\
        peers = [\"sip.example.com\", \"sip.example.net:5080\", \"192.0.2.1\"]\n\
        user = \"us\"\npassword = \"p\"\nregister = \"sip.example.com\"\n";
    let config = config(text);
    assert_eq!(config.dns.servers, ["192.0.2.53:53".parse().unwrap()]);
    let trunk = &config.trunks[0];
    let peers: Vec<String> = trunk.peers.iter().map(ToString::to_string).collect();
    assert_eq!(peers, ["sip.example.com", "sip.example.net:5080", "192.0.2.1:5060"]);
    let registration = trunk.line.registration().unwrap();
    assert_eq!(&*registration.registrar, "sip:sip.example.com");
    assert_eq!(&*registration.aor, "sip:us@sip.example.com");
}

#[test]
fn wrong_names_of_peers_are_shown_where_they_stand() {
    let text = "[dns]\nservers = []\n[trunks.carrier]\npeers = [\"sip.example.com\", \"-a\"]\n\
        register = \"a:0\"\n[trunks.other]\npeer = \"sip.example.com\"\ncontext = \"in\"\n";
    let faults = faults(text);
    for expected in [
        "pbx.toml:2:11: 1 to 8 servers",
        "pbx.toml:4:29: '-a' is neither a host name",
        "pbx.toml:5:12: 'a:0' has no port from 1 to 65535",
        "pbx.toml:8:11: calls of a trunk are known by their source address",
    ] {
        assert!(faults.contains(expected), "{expected}: {faults}");
    }
}
