//! Which crate may know which, over `cargo metadata`. ARCHITECTURE.md draws the arrows.
//!
//! Three rules: every member of the workspace is in the table and uses only what its row names;
//! what a pure crate links, however far away, does no I/O; nothing but tests uses the program.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};
use tests::tree::root;

/// A crate of ours, and the crates of ours that it may use. `turn` is for everybody.
const MAY_USE: &[(&str, &[&str])] = &[
    ("turn", &[]),
    ("sip", &["turn"]),
    ("sdp", &["turn"]),
    ("dialplan", &["turn"]),
    ("call", &["turn", "dialplan", "sdp"]),
    ("pbx-core", &["turn", "sip", "sdp", "dialplan", "call"]),
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
            "pbx-journal",
            "pbx-control",
        ],
    ),
    ("pbxctl", &["turn", "pbx-control"]),
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
            "call",
            "logging",
            "logging-sinks",
            "pbx-core",
            "pbx-journal",
            "pbx-control",
            "pbx",
            "sipstress",
        ],
    ),
];

/// The crates that do no I/O.
const PURE: &[&str] = &["turn", "sip", "sdp", "dialplan", "call", "pbx-core"];

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

/// The crates of a build: ours by name, foreign ones as `name@version`.
#[derive(Default)]
struct Graph {
    ours: BTreeSet<String>,
    /// Whatever the kind of dependency.
    uses: BTreeMap<String, BTreeSet<String>>,
    /// Without build scripts and tests.
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
            if graph.ours.contains(used) && !row(name).contains(&used.as_str()) {
                faults.push(format!("{name} -> {used} is no arrow of the table"));
            }
        }
    }
    for pure in PURE {
        for (impure, way) in impure_links(graph, pure) {
            if !ALLOWED_IMPURE.iter().any(|(p, i, _)| p == pure && *i == impure) {
                faults.push(format!("pure {pure} links {impure}: {way}"));
            }
        }
    }
    faults
}

fn row(name: &str) -> &'static [&'static str] {
    MAY_USE.iter().find(|(known, _)| *known == name).map_or(&[], |(_, may)| may)
}

/// The impure crates within reach of a crate, each with the way to it.
fn impure_links(graph: &Graph, from: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([from.to_owned()]);
    let mut open = vec![(from.to_owned(), from.to_owned())];
    while let Some((name, way)) = open.pop() {
        for next in graph.links.get(&name).into_iter().flatten() {
            if seen.insert(next.clone()) {
                let way = format!("{way} -> {next}");
                let name = next.split('@').next().unwrap_or(next);
                if IMPURE.contains(&name) {
                    found.push((name.to_owned(), way.clone()));
                }
                open.push((next.clone(), way));
            }
        }
    }
    found
}

fn real_graph() -> Graph {
    let options = ["--locked", "--filter-platform", "x86_64-unknown-linux-gnu"];
    let metadata = MetadataCommand::new()
        .current_dir(root())
        .other_options(options.map(str::to_owned))
        .exec()
        .expect("cargo metadata describes the workspace");
    let resolve = metadata.resolve.as_ref().expect("the dependencies are resolved");
    let is_ours = |id| metadata.workspace_members.contains(id);
    // Two versions of a foreign crate are two crates: their ways must not be joined.
    let name = |id| match &metadata[id] {
        package if is_ours(id) => package.name.to_string(),
        package => format!("{}@{}", package.name, package.version),
    };
    let mut graph = Graph::default();
    graph.ours.extend(metadata.workspace_members.iter().map(name));
    for node in &resolve.nodes {
        let from = name(&node.id);
        for dependency in &node.deps {
            let to = name(&dependency.pkg);
            if dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal) {
                graph.links.entry(from.clone()).or_default().insert(to.clone());
            }
            graph.uses.entry(from.clone()).or_default().insert(to);
        }
    }
    graph
}

// --- the rules find what they are for -----------------------------------------------------------

fn planted(arrows: &[(&str, &str)]) -> Vec<String> {
    let mut graph = Graph::default();
    graph.ours.extend(MAY_USE.iter().map(|(name, _)| (*name).to_owned()));
    for (from, to) in arrows {
        for kind in [&mut graph.uses, &mut graph.links] {
            kind.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
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
fn an_impure_crate_is_found_however_far_away() {
    let found = planted(&[("sip", "a"), ("a", "b"), ("b", "tokio")]);
    assert_eq!(found, ["pure sip links tokio: sip -> a -> b -> tokio"]);
}

#[test]
fn a_new_member_needs_a_row() {
    let mut graph = Graph::default();
    graph.ours.insert("newcomer".to_owned());
    assert_eq!(faults(&graph), ["newcomer has no row in the table"]);
}
