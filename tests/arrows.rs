//! Which crate may know which, over `cargo metadata`. ARCHITECTURE.md draws the arrows.
//!
//! Three rules: every member of the workspace is in the table and uses only what its row names;
//! what a pure crate links, however far away, does no I/O; nothing but tests uses the program.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use cargo_metadata::MetadataCommand;
use tests::tree::root;

/// A crate of ours, and the crates of ours that it may use. `turn` is for everybody.
const MAY_USE: &[(&str, &[&str])] = &[
    ("turn", &[]),
    ("sip", &["turn"]),
    ("sdp", &["turn"]),
    ("dialplan", &["turn"]),
    ("import", &["turn", "dialplan"]),
    ("call", &["turn", "dialplan", "sdp"]),
    ("pbx-core", &["turn", "sip", "sdp", "dialplan", "call"]),
    ("pbx-shared", &["turn", "sip", "pbx-core"]),
    ("sip-net", &["turn", "sip", "logging"]),
    ("logging", &["turn"]),
    ("logging-sinks", &["turn", "logging"]),
    ("pbx-journal", &["turn"]),
    ("pbx-control", &["turn"]),
    (
        "pbx",
        &[
            "turn",
            "sip",
            "sip-net",
            "sdp",
            "dialplan",
            "call",
            "logging",
            "logging-sinks",
            "pbx-core",
            "pbx-shared",
            "pbx-journal",
            "pbx-control",
        ],
    ),
    ("pbxctl", &["turn", "pbx-control", "import"]),
    ("sipstress", &["turn", "sip", "sip-net", "sdp", "logging", "logging-sinks", "pbx-control"]),
    ("xtask", &[]),
    (
        "tests",
        &[
            "turn",
            "sip",
            "sip-net",
            "sdp",
            "dialplan",
            "import",
            "call",
            "logging",
            "logging-sinks",
            "pbx-core",
            "pbx-shared",
            "pbx-journal",
            "pbx-control",
            "pbx",
            "sipstress",
        ],
    ),
];

/// What a crate uses in its tests alone; cargo refuses more, since the other one uses it.
const TESTED_WITH: &[(&str, &str)] = &[("pbx-core", "pbx-shared")];

/// The crates that do no I/O.
const PURE: &[&str] = &["turn", "sip", "sdp", "dialplan", "import", "call", "pbx-core"];

/// What a pure crate must not link, however far away: runtimes, sockets, the system's randomness
/// and clocks, and logs (a machine says facts; the program writes them).
const IMPURE: &[&str] = &[
    "tokio",
    "mio",
    "socket2",
    "libc",
    "rustix",
    "nix",
    "getrandom",
    "polling",
    "async-io",
    "log",
    "logging",
    "tracing",
    "tracing-core",
    "chrono",
    "jiff",
    "time",
    "uuid",
    "fastrand",
    "dashmap",
    "parking_lot",
    "crossbeam-channel",
    "rusqlite",
    "memmap2",
];

/// An impure crate that a pure one links all the same, with the reason.
const ALLOWED_IMPURE: &[(&str, &str, &str)] = &[];

/// The crates of the workspace.
#[derive(Default)]
struct Graph {
    ours: BTreeSet<String>,
    /// The direct dependencies of each, whatever their kind.
    uses: BTreeMap<String, BTreeSet<String>>,
    /// All that each pure crate links when it is built alone, however far away. Built with the
    /// whole workspace, a foreign crate has the features that anybody asks of it.
    links: BTreeMap<String, BTreeSet<String>>,
}

#[test]
fn the_arrows_hold() {
    let faults = faults(&real_graph());
    assert!(faults.is_empty(), "\n  {}\n", faults.join("\n  "));
}

#[test]
fn the_table_is_free_of_cycles() {
    for (name, _) in MAY_USE {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&str> = row(name).to_vec();
        while let Some(next) = open.pop() {
            assert_ne!(next, *name, "{name} may use itself");
            if seen.insert(next) {
                open.extend(row(next));
            }
        }
    }
}

fn faults(graph: &Graph) -> Vec<String> {
    let mut faults = Vec::new();
    for name in &graph.ours {
        if !MAY_USE.iter().any(|(known, _)| known == name) {
            faults.push(format!("{name} has no row in the table"));
            continue;
        }
        for used in graph.uses.get(name).into_iter().flatten() {
            let is_for_tests = TESTED_WITH.contains(&(name, used));
            if graph.ours.contains(used) && !row(name).contains(&used.as_str()) && !is_for_tests {
                faults.push(format!("{name} -> {used} is no arrow of the table"));
            }
        }
    }
    for pure in PURE {
        let links = graph.links.get(*pure).into_iter().flatten();
        for impure in links.filter(|link| IMPURE.contains(&link.as_str())) {
            if !ALLOWED_IMPURE.iter().any(|(p, i, _)| p == pure && i == impure) {
                faults
                    .push(format!("pure {pure} links {impure} (cargo tree -p {pure} -i {impure})"));
            }
        }
    }
    faults
}

fn row(name: &str) -> &'static [&'static str] {
    MAY_USE.iter().find(|(known, _)| *known == name).map_or(&[], |(_, may)| may)
}

fn real_graph() -> Graph {
    let metadata = MetadataCommand::new()
        .current_dir(root())
        .no_deps()
        .other_options(["--locked".to_owned()])
        .exec()
        .expect("cargo metadata describes the workspace");
    let mut graph = Graph::default();
    for package in metadata.workspace_packages() {
        let uses = package.dependencies.iter().map(|dependency| dependency.name.clone());
        graph.uses.insert(package.name.to_string(), uses.collect());
        graph.ours.insert(package.name.to_string());
    }
    for pure in PURE {
        graph.links.insert((*pure).to_owned(), linked(pure));
    }
    graph
}

/// The names of all crates that a crate links, by cargo's own resolution.
fn linked(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["tree", "--locked", "--package", package, "--edges", "normal", "--prefix", "none"])
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

// --- the rules find what they are for -----------------------------------------------------------

fn planted(arrows: &[(&str, &str)]) -> Vec<String> {
    let mut graph = Graph::default();
    graph.ours.extend(MAY_USE.iter().map(|(name, _)| (*name).to_owned()));
    for (from, to) in arrows {
        graph.uses.entry((*from).to_owned()).or_default().insert((*to).to_owned());
    }
    faults(&graph)
}

#[test]
fn arrows_that_must_never_exist_are_found() {
    assert!(planted(&[("pbx", "pbx-core"), ("call", "dialplan"), ("sip", "memchr")]).is_empty());
    for (from, to) in [
        ("call", "sip"),
        ("sip", "sdp"),
        ("dialplan", "call"),
        ("sip-net", "call"),
        ("logging", "sip"),
        ("pbx-core", "pbx"),
        ("sipstress", "pbx"),
    ] {
        assert_eq!(planted(&[(from, to)]), [format!("{from} -> {to} is no arrow of the table")]);
    }
}

#[test]
fn an_impure_crate_is_found() {
    let mut graph = Graph::default();
    graph.links.insert("sip".to_owned(), ["memchr", "tokio"].map(str::to_owned).into());
    assert_eq!(faults(&graph), ["pure sip links tokio (cargo tree -p sip -i tokio)"]);
}

#[test]
fn what_a_crate_links_is_found_however_far_away() {
    assert!(linked("sip-net").contains("mio"), "sip-net links mio by way of tokio");
    assert!(linked("pbx-core").contains("memchr"), "pbx-core links memchr by way of sip");
}

#[test]
fn a_new_member_needs_a_row() {
    let mut graph = Graph::default();
    graph.ours.insert("newcomer".to_owned());
    assert_eq!(faults(&graph), ["newcomer has no row in the table"]);
}
