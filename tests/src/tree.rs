//! The files of the workspace, as the style tests see them.

use std::fs;
use std::path::{Path, PathBuf};

/// The workspace's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lies in the workspace's folder")
}

/// All files with one of these endings, as paths from the root, sorted. What is built, what a run
/// leaves behind and what the fuzzer collects is left out.
pub fn files(endings: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = vec![root().to_path_buf()];
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder).expect("a folder of the workspace can be read");
        for entry in entries {
            let path = entry.expect("a folder of the workspace can be listed").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !is_left_out(&name) {
                    open.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let inside = path.strip_prefix(root()).expect("found below the root");
                found.push(inside.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

/// The text of a file of the workspace. Bytes that are no UTF-8 are replaced.
pub fn text(path: &str) -> String {
    let bytes = fs::read(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_left_out(folder: &str) -> bool {
    folder.starts_with("target")
        || matches!(folder, ".git" | "corpus" | "artifacts" | "coverage" | "var" | "data")
}
