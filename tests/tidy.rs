//! Style that a machine can keep: the house limits, module docs, words, purity of the pure crates'
//! lints, and the form of the changelog. CONTRIBUTING.md gives the reasons; `tidy/allow.toml` the
//! exceptions.
//!
//! Each rule is a function from text to faults, so that the tests at the end can plant faults and
//! see them found.

use std::collections::BTreeSet;

use serde::Deserialize;
use tests::rust_text::Source;
use tests::tree::{files, text};

/// Lines of a function, from `fn` to the closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Lines of a source file, its tests included.
const FILE_LINES_MAX: usize = 600;
/// Characters of a line.
const LINE_MAX: usize = 100;

/// Words that say nothing about what a type is (GLOSSARY.md has better ones).
const AVOIDED_WORDS: &[&str] =
    &["Manager", "Handler", "Helper", "Util", "Utils", "Processor", "Info", "Data", "Session"];

/// The crates that do no I/O, by folder.
const PURE: &[&str] = &["turn", "sip", "sdp", "dialplan", "import", "call", "pbx/core"];

#[derive(Deserialize)]
struct Allowed {
    file: Vec<AllowedFile>,
    function: Vec<AllowedFunction>,
    name: Vec<AllowedName>,
}

#[derive(Deserialize)]
struct AllowedFile {
    path: String,
    lines: usize,
    reason: String,
}

#[derive(Deserialize)]
struct AllowedFunction {
    path: String,
    name: String,
    lines: usize,
    reason: String,
}

#[derive(Deserialize)]
struct AllowedName {
    path: String,
    name: String,
    reason: String,
}

fn allowed() -> Allowed {
    toml::from_str(&text("tests/tidy/allow.toml")).expect("tests/tidy/allow.toml is in its form")
}

/// All faults of a rule over all files, or nothing.
#[track_caller]
fn none(rule: &str, faults: impl IntoIterator<Item = String>) {
    let faults: Vec<String> = faults.into_iter().collect();
    assert!(faults.is_empty(), "{rule}:\n  {}\n", faults.join("\n  "));
}

fn over_rust(rule: impl Fn(&str, &str) -> Vec<String>) -> Vec<String> {
    files(&[".rs"]).iter().flat_map(|path| rule(path, &text(path))).collect()
}

// --- length -------------------------------------------------------------------------------------

#[test]
fn functions_are_short() {
    let allowed = allowed().function;
    let limit = |path: &str, name: &str| {
        allowed
            .iter()
            .find(|a| a.path == path && a.name == name)
            .map_or(FUNCTION_LINES_MAX, |a| a.lines)
    };
    none(
        "functions longer than the limit (split them, or give a reason in tests/tidy/allow.toml)",
        over_rust(|path, text| long_functions(path, text, &limit)),
    );
    let unused = allowed.iter().filter(|a| {
        let functions = Source::scan(&text(&a.path)).functions();
        a.reason.len() < 20
            || !functions.iter().any(|f| f.name == a.name && f.lines > FUNCTION_LINES_MAX)
    });
    none("exceptions not needed or without reason", unused.map(|a| a.name.clone()));
}

fn long_functions(path: &str, text: &str, limit: &dyn Fn(&str, &str) -> usize) -> Vec<String> {
    let functions = Source::scan(text).functions();
    let long = functions.iter().filter(|f| f.lines > limit(path, &f.name));
    long.map(|f| format!("{path}:{}: {} has {} lines", f.line, f.name, f.lines)).collect()
}

#[test]
fn files_are_short() {
    let allowed = allowed().file;
    let limit =
        |path: &str| allowed.iter().find(|a| a.path == path).map_or(FILE_LINES_MAX, |a| a.lines);
    none(
        "files longer than the limit (split them, or give a reason in tests/tidy/allow.toml)",
        over_rust(|path, text| long_file(path, text, limit(path))),
    );
    let unused = allowed
        .iter()
        .filter(|a| a.reason.len() < 20 || text(&a.path).lines().count() <= FILE_LINES_MAX);
    none("exceptions not needed or without reason", unused.map(|a| a.path.clone()));
}

fn long_file(path: &str, text: &str, limit: usize) -> Vec<String> {
    let lines = text.lines().count();
    if lines > limit { vec![format!("{path} has {lines} lines")] } else { vec![] }
}

#[test]
fn lines_are_short() {
    none("lines longer than 100 characters", over_rust(long_lines));
}

/// The formatter cannot break a string: a line whose excess is one word (an address) may stay.
fn long_lines(path: &str, text: &str) -> Vec<String> {
    let long = text.lines().enumerate().filter(|(_, line)| line.chars().count() > LINE_MAX);
    long.filter(|(_, line)| !line.contains("://"))
        .map(|(at, line)| format!("{path}:{}: {} characters", at + 1, line.chars().count()))
        .collect()
}

// --- docs and words -----------------------------------------------------------------------------

#[test]
fn every_module_opens_with_a_doc() {
    none("modules that do not say what they are", over_rust(no_module_doc));
}

fn no_module_doc(path: &str, text: &str) -> Vec<String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let opens = lines.find(|line| !line.starts_with("#!["));
    if opens.is_some_and(|line| line.starts_with("//!")) { vec![] } else { vec![path.to_owned()] }
}

#[test]
fn types_are_named_for_what_they_are() {
    let allowed = allowed().name;
    let found = over_rust(|path, text| {
        let mut faults = avoided_names(path, text);
        faults.retain(|(name, _)| !allowed.iter().any(|a| a.path == path && a.name == *name));
        faults.into_iter().map(|(_, fault)| fault).collect()
    });
    none("names with a word that says nothing (GLOSSARY.md has better ones)", found);
    let unused = allowed.iter().filter(|a| {
        let names = avoided_names(&a.path, &text(&a.path));
        a.reason.len() < 20 || !names.iter().any(|(name, _)| *name == a.name)
    });
    none("exceptions not needed or without reason", unused.map(|a| a.name.clone()));
}

fn avoided_names(path: &str, text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for item in Source::scan(text).items() {
        let is_avoided = match item.keyword {
            "fn" => item.name.starts_with("get_"),
            "mod" => AVOIDED_WORDS
                .iter()
                .any(|word| item.name.split('_').any(|part| part.eq_ignore_ascii_case(word))),
            _ => camel_words(&item.name).iter().any(|word| AVOIDED_WORDS.contains(&word.as_str())),
        };
        if is_avoided {
            let fault = format!("{path}:{}: {} {}", item.line, item.keyword, item.name);
            found.push((item.name, fault));
        }
    }
    found
}

fn camel_words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for letter in name.chars() {
        match words.last_mut() {
            Some(word) if !letter.is_uppercase() => word.push(letter),
            _ => words.push(letter.to_string()),
        }
    }
    words
}

#[test]
fn comments_speak_of_the_code_as_it_is() {
    none("comments that promise or remember", over_rust(bad_comments));
}

fn bad_comments(path: &str, text: &str) -> Vec<String> {
    const WORDS: [&str; 6] = ["TODO", "FIXME", "XXX", "HACK", "previously", "formerly"];
    let comments = Source::scan(text).comments;
    let mut faults = Vec::new();
    for (at, line) in comments.lines().enumerate() {
        let mut words = line.split(|c: char| !c.is_alphanumeric());
        if let Some(word) = words.find(|word| WORDS.contains(word)) {
            faults.push(format!("{path}:{}: {word}", at + 1));
        }
    }
    faults
}

#[test]
fn no_file_names_a_place_of_one_machine() {
    let endings = [".rs", ".toml", ".md", ".sh", ".xml", ".yml", ".cfg", ".conf", "run"];
    let found = files(&endings);
    none("places of one machine", found.iter().flat_map(|p| machine_places(p, &text(p))));
}

fn machine_places(path: &str, text: &str) -> Vec<String> {
    // Written in two halves, so that this file does not name them itself.
    const PLACES: [&str; 6] = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/tmp/", "tgt"),
        concat!("deb.deb", "ian.org"),
        concat!("../sha", "red"),
    ];
    let mut faults = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if let Some(place) = PLACES.iter().find(|place| line.contains(**place)) {
            faults.push(format!("{path}:{}: {place}", at + 1));
        }
    }
    faults
}

// --- purity -------------------------------------------------------------------------------------

#[test]
fn every_pure_crate_bans_the_world() {
    let required = bans(&text("turn/clippy.toml"));
    assert!(required.len() > 50, "the model of the bans has only {}", required.len());
    for word in ["Instant::now", "SystemTime::now", "UdpSocket", "hashbrown::HashMap::iter", "rng"]
    {
        assert!(required.iter().any(|ban| ban.ends_with(word)), "no ban of {word}");
    }
    let mut faults = Vec::new();
    for folder in PURE {
        let manifest = text(&format!("{folder}/Cargo.toml"));
        faults.extend(missing_bans(folder, &required, &text(&format!("{folder}/clippy.toml"))));
        if !inherits_lints(&manifest) {
            faults.push(format!("{folder}/Cargo.toml does not take the workspace's lints"));
        }
    }
    none("bans that a pure crate lacks", faults);
}

fn bans(clippy: &str) -> BTreeSet<String> {
    let table: toml::Table = toml::from_str(clippy).expect("clippy.toml is TOML");
    let mut found = BTreeSet::new();
    for list in ["disallowed-methods", "disallowed-types"] {
        for ban in table.get(list).and_then(toml::Value::as_array).into_iter().flatten() {
            let path = ban.get("path").and_then(toml::Value::as_str);
            found.extend(path.map(str::to_owned));
        }
    }
    found
}

fn missing_bans(folder: &str, required: &BTreeSet<String>, clippy: &str) -> Vec<String> {
    let present = bans(clippy);
    required.difference(&present).map(|ban| format!("{folder}/clippy.toml: {ban}")).collect()
}

fn inherits_lints(manifest: &str) -> bool {
    let table: toml::Table = toml::from_str(manifest).expect("Cargo.toml is TOML");
    let lints = table.get("lints").and_then(|lints| lints.get("workspace"));
    lints.and_then(toml::Value::as_bool) == Some(true)
}

#[test]
fn no_pure_crate_lifts_its_bans() {
    let is_pure =
        |path: &str| PURE.iter().any(|folder| path.starts_with(&format!("{folder}/src/")));
    none(
        "pure code that allows itself what is banned",
        over_rust(|path, text| if is_pure(path) { lifted_bans(path, text) } else { vec![] }),
    );
}

fn lifted_bans(path: &str, text: &str) -> Vec<String> {
    let code = Source::scan(text).code;
    let mut faults = Vec::new();
    for (at, line) in code.lines().enumerate() {
        if line.contains("clippy::disallowed") {
            faults.push(format!("{path}:{}: {}", at + 1, line.trim()));
        }
    }
    faults
}

// --- changelog ----------------------------------------------------------------------------------

#[test]
fn the_changelog_has_its_form() {
    none("CHANGELOG.md", changelog_faults(&text("CHANGELOG.md")));
}

/// A title, then versions with the unreleased one first, each with kinds of changes, each change
/// an item of a list.
fn changelog_faults(text: &str) -> Vec<String> {
    const KINDS: [&str; 5] = ["Added", "Changed", "Fixed", "Removed", "Speed"];
    let mut faults = Vec::new();
    let mut versions = Vec::new();
    let mut has_kind = false;
    for (at, line) in text.lines().enumerate() {
        let fault = |why: &str| format!("line {}: {why}: {line}", at + 1);
        if at == 0 {
            if line != "# Changelog" {
                faults.push(fault("the title is `# Changelog`"));
            }
        } else if let Some(version) = line.strip_prefix("## ") {
            versions.push(version);
            has_kind = false;
        } else if let Some(kind) = line.strip_prefix("### ") {
            has_kind = true;
            if !KINDS.contains(&kind) {
                faults.push(fault("no such kind"));
            }
        } else if line.starts_with("- ") && !has_kind {
            faults.push(fault("a change stands under its kind"));
        } else if !versions.is_empty() && !["", "-", " "].contains(&line.get(..1).unwrap_or("")) {
            faults.push(fault("only lists of changes here"));
        }
    }
    if versions.first() != Some(&"Unreleased") {
        faults.push("the first version is `## Unreleased`".to_owned());
    }
    faults
}

// --- the rules find what they are for -----------------------------------------------------------

#[test]
fn a_long_function_is_found() {
    let body = " let a = \"{\";\n".repeat(FUNCTION_LINES_MAX - 2);
    let limit = |_: &str, _: &str| FUNCTION_LINES_MAX;
    assert!(long_functions("a.rs", &format!("fn a() {{\n{body}}}\n"), &limit).is_empty());
    let found = long_functions("a.rs", &format!("\nfn a() {{\n\n{body}}}\n"), &limit);
    assert_eq!(found, ["a.rs:2: a has 71 lines"]);
}

#[test]
fn a_long_file_and_a_long_line_are_found() {
    assert!(long_file("a.rs", &"\n".repeat(FILE_LINES_MAX), FILE_LINES_MAX).is_empty());
    assert_eq!(long_file("a.rs", &"\n".repeat(601), FILE_LINES_MAX), ["a.rs has 601 lines"]);
    assert!(long_lines("a.rs", &"é".repeat(LINE_MAX)).is_empty());
    assert_eq!(long_lines("a.rs", &"é".repeat(101)), ["a.rs:1: 101 characters"]);
}

#[test]
fn a_module_without_doc_is_found() {
    assert!(no_module_doc("a.rs", "\n#![forbid(unsafe_code)]\n//! A.\n").is_empty());
    assert_eq!(no_module_doc("a.rs", "// A.\nfn a() {}\n"), ["a.rs"]);
}

#[test]
fn an_avoided_name_is_found() {
    let names =
        |text: &str| avoided_names("a.rs", text).into_iter().map(|(n, _)| n).collect::<Vec<_>>();
    assert_eq!(names("struct CallManager;"), ["CallManager"]);
    assert_eq!(names("mod string_utils;"), ["string_utils"]);
    assert_eq!(names("impl A { fn get_leg(&self) {} }"), ["get_leg"]);
    assert!(names("struct Datagram; enum Infos {} fn getter() {} // struct Manager").is_empty());
}

#[test]
fn a_promise_in_a_comment_is_found() {
    assert_eq!(bad_comments("a.rs", "fn a() {} // TODO: b\n"), ["a.rs:1: TODO"]);
    assert!(bad_comments("a.rs", "let a = \"TODO\"; // MAXXXIM\n").is_empty());
}

#[test]
fn a_place_of_one_machine_is_found() {
    let line = format!("cd {}main", concat!("/wo", "rk/"));
    assert_eq!(machine_places("a.md", &line).len(), 1);
    assert!(machine_places("a.md", "framework/ and /var/lib").is_empty());
}

#[test]
fn a_missing_or_lifted_ban_is_found() {
    let model = "disallowed-types = [\n{ path = \"std::fs::File\" },\n{ path = \"a::B\" }]\n";
    let less = "disallowed-types = [\n{ path = \"a::B\" },\n{ path = \"a::C\" }]\n";
    assert_eq!(missing_bans("x", &bans(model), less), ["x/clippy.toml: std::fs::File"]);
    assert!(missing_bans("x", &bans(model), model).is_empty());
    let lifted = "#[allow(clippy::disallowed_methods)]\nfn a() {}\n";
    assert_eq!(lifted_bans("x", lifted).len(), 1);
    assert!(!inherits_lints("[package]\nname = \"x\"\n"));
    assert!(inherits_lints("[lints]\nworkspace = true\n"));
}

#[test]
fn a_changelog_out_of_form_is_found() {
    let good = "# Changelog\n\nAbout.\n\n## Unreleased\n\n### Added\n\n- A.\n  More of A.\n";
    assert_eq!(changelog_faults(good), Vec::<String>::new());
    assert_eq!(changelog_faults("# Changes\n\n## Unreleased\n").len(), 1);
    assert_eq!(changelog_faults("# Changelog\n\n## 0.1.0\n\n### Added\n").len(), 1);
    assert_eq!(changelog_faults("# Changelog\n\n## Unreleased\n\n- A.\n").len(), 1);
    assert_eq!(changelog_faults("# Changelog\n\n## Unreleased\n\n### New\n").len(), 1);
    assert_eq!(changelog_faults("# Changelog\n\n## Unreleased\n\nTalk.\n").len(), 1);
}
