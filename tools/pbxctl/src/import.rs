//! `dialplan import` and `endpoint import`: Asterisk's files to the PBX's, without a server.
//!
//! The TOML goes to standard output or a file, what could not be converted to standard error. Exit
//! status: 0 all was converted, 1 something was not, 2 a file cannot be read or written.

use import::limits::BYTES_MAX;
use import::{Converted, decode};
use pbx_control::words::Import as What;
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

const INCOMPLETE: u8 = 1;
const UNUSABLE: u8 = 2;

/// Files that one `#include` may name by a pattern.
const MATCHES_MAX: usize = 1_000;

/// Runs the command; gives the exit status.
pub(crate) fn run(what: What, words: &[&str]) -> u8 {
    // One argument of a shell may hold the whole command; else each is one word, blanks and all.
    let split: Vec<&str> = match words {
        [line] => line.split_whitespace().collect(),
        words => words.to_vec(),
    };
    let Some((input, output)) = files(split.get(2..).unwrap_or_default()) else {
        let usage = match what {
            What::Dialplan => "dialplan import <extensions.conf> [-o <file>]",
            What::Endpoints => "endpoint import <pjsip.conf|sip.conf> [-o <file>]",
        };
        eprintln!("Usage: {usage}");
        return UNUSABLE;
    };
    convert(what, &input, output.as_deref()).unwrap_or_else(|problem| {
        eprintln!("pbxctl: {problem}");
        UNUSABLE
    })
}

/// The file to read and the file to write.
fn files(words: &[&str]) -> Option<(PathBuf, Option<PathBuf>)> {
    let (mut input, mut output) = (None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let place = match *word {
            "-o" | "--output" if output.is_none() => {
                output = Some(PathBuf::from(words.next()?));
                continue;
            }
            word if word.starts_with('-') && word.len() > 1 => return None,
            word => word,
        };
        if input.replace(PathBuf::from(place)).is_some() {
            return None;
        }
    }
    Some((input?, output))
}

fn convert(what: What, input: &Path, output: Option<&Path>) -> Result<u8, String> {
    let text = read(input)?;
    let folder = input.parent().unwrap_or(Path::new("")).to_owned();
    let mut sources = vec![input.to_owned()];
    let mut include = |_: &str, named: &str| {
        let found = included(&folder, named)?;
        sources.extend(found.iter().map(|(name, _)| PathBuf::from(name)));
        Ok(found)
    };
    let name = input.display().to_string();
    let told = match what {
        What::Dialplan => import::dialplan(&name, &text, &mut include),
        What::Endpoints => import::endpoints(&name, &text, &mut include),
    };
    let toml = format!("# Converted from {}.\n{}", one_line(&name), told.toml);
    match output {
        Some(path) => write(what, path, &sources, &toml)
            .map_err(|error| format!("{}: cannot be written: {error}", path.display()))?,
        None => match io::stdout().write_all(toml.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                return Err(format!("standard output: {error}"));
            }
            Ok(()) | Err(_) => {}
        },
    }
    tell(&told);
    Ok(if told.left.is_empty() { 0 } else { INCOMPLETE })
}

fn tell(told: &Converted) {
    let mut text = String::new();
    for (kind, remarks) in [("not converted", &told.left), ("note", &told.notes)] {
        for remark in remarks {
            let (file, line) = (one_line(&remark.file), remark.line);
            text.push_str(&format!("{file}:{line}: {kind}: {}\n", one_line(&remark.reason)));
            text.push_str(&format!("    {}\n", remark.text));
        }
    }
    text.push_str(&match told.left.len() {
        0 => "all was converted\n".to_owned(),
        count => format!("not converted: {count}; each stands as a comment in the output\n"),
    });
    // Whoever does not listen does not want to know.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A text that cannot break the line that it is in.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn read(path: &Path) -> Result<String, String> {
    let problem = |error: io::Error| format!("{}: cannot be read: {error}", path.display());
    let mut bytes = Vec::new();
    let most = BYTES_MAX as u64;
    let file = fs::File::open(path).map_err(problem)?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(problem)?;
    if bytes.len() > BYTES_MAX {
        return Err(format!("{}: has more than {most} bytes", path.display()));
    }
    Ok(decode(bytes))
}

/// The files that an `#include` names: beside the first file, as in Asterisk's folder; by a pattern
/// perhaps.
fn included(folder: &Path, named: &str) -> Result<Vec<(String, String)>, String> {
    let mut paths = vec![PathBuf::new()];
    let whole = folder.join(named);
    for component in whole.components() {
        let part = component.as_os_str();
        let is_pattern = matches!(component, Component::Normal(_))
            && part.to_string_lossy().contains(['*', '?']);
        if is_pattern {
            paths = paths.iter().flat_map(|path| matching(path, part)).collect();
        } else {
            for path in &mut paths {
                path.push(part);
            }
        }
        if paths.len() > MATCHES_MAX {
            return Err(format!("more than {MATCHES_MAX} files match"));
        }
    }
    let is_pattern = named.contains(['*', '?']);
    let paths = paths.into_iter().filter(|path| !is_pattern || path.is_file());
    paths.map(|path| Ok((path.display().to_string(), read(&path)?))).collect()
}

/// What in a folder fits a pattern, sorted.
fn matching(folder: &Path, pattern: &OsStr) -> Vec<PathBuf> {
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let pattern = pattern.to_string_lossy();
    let mut names: Vec<OsString> = fs::read_dir(here)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.file_name()))
        .filter(|name| fits(pattern.as_bytes(), name.to_string_lossy().as_bytes()))
        .collect();
    names.sort();
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// Whether a name fits a pattern of `*` and `?`. Names that start with a dot are hidden.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    let (mut at, mut place) = (0, 0);
    // Behind the last `*`, and how far it reached.
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(place) {
        match (pattern.get(at), star) {
            (Some(b'*'), _) => {
                star = Some((at + 1, place));
                at += 1;
            }
            (Some(b'?'), _) => (at, place) = (at + 1, place + 1),
            (Some(wanted), _) if wanted == byte => (at, place) = (at + 1, place + 1),
            (_, Some((behind, reached))) => {
                star = Some((behind, reached + 1));
                (at, place) = (behind, reached + 1);
            }
            (_, None) => return false,
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

/// Writes a file so that it is there as a whole or not at all. Endpoints have passwords.
fn write(what: What, path: &Path, sources: &[PathBuf], text: &str) -> io::Result<()> {
    if let Ok(target) = path.canonicalize() {
        if sources.iter().any(|source| source.canonicalize().is_ok_and(|it| it == target)) {
            return Err(io::Error::other("it is the file that is converted"));
        }
        if !target.is_file() {
            return OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes());
        }
    }
    let mode = if what == What::Endpoints { 0o600 } else { 0o644 };
    let name = path.file_name().ok_or_else(|| io::Error::other("it has no name"))?;
    let mut draft_name = OsString::from(".");
    draft_name.push(name);
    draft_name.push(format!(".{}", std::process::id()));
    let draft = path.with_file_name(draft_name);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&draft)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_a_pattern() {
        let fits = |pattern: &str, name: &str| fits(pattern.as_bytes(), name.as_bytes());
        assert!(fits("*.conf", "a.conf") && fits("*", "a") && fits("a*b*c", "aXbYbZc"));
        assert!(fits("?.conf", "a.conf") && fits("a", "a") && fits("a*", "a"));
        assert!(!fits("*.conf", ".conf") && !fits("*.conf", "a.conf~") && !fits("?", "ab"));
        assert!(!fits("", "a") && fits("", "") && fits("**", "x"));
    }
}
