//! What is told beside the output: what could not be converted, and what needs no counterpart.

use crate::limits::SHOWN_MAX;
use crate::mask::masked;
use std::collections::BTreeSet;
use std::fmt;

/// The outcome: the TOML, and what to know about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// The output; it always is TOML.
    pub toml: String,
    /// What could not be converted, by file and line.
    pub left: Vec<Remark>,
    /// What was converted in another form or needs no counterpart, by file and line.
    pub notes: Vec<Remark>,
}

/// Something about a line. Its text holds no passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The file, as named by the caller.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// What stands there; passwords are masked.
    pub text: String,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, text, reason } = self;
        write!(f, "{file}:{line}: {reason}\n    {text}")
    }
}

/// A line of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Which of the files.
    pub(crate) file: usize,
    /// From 1.
    pub(crate) line: u32,
}

/// Gathers remarks. The same about the same line is said once: templates repeat lines.
#[derive(Debug, Default)]
pub(crate) struct Report {
    files: Vec<(String, Vec<String>)>,
    left: BTreeSet<(Place, String)>,
    notes: BTreeSet<(Place, String)>,
}

impl Report {
    /// Takes a file; gives its number.
    pub(crate) fn add_file(&mut self, name: &str, text: &str) -> usize {
        self.files.push((name.to_owned(), text.lines().map(str::to_owned).collect()));
        self.files.len() - 1
    }

    pub(crate) fn file_count(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn file_name(&self, file: usize) -> &str {
        self.files.get(file).map_or("", |(name, _)| name)
    }

    /// The line's text without blanks around it and without passwords.
    pub(crate) fn text(&self, place: Place) -> String {
        let line = usize::try_from(place.line).unwrap_or_default().wrapping_sub(1);
        let text = self.files.get(place.file).and_then(|(_, lines)| lines.get(line));
        shown(&masked(text.map_or("", |text| text.trim())))
    }

    /// `file:line`.
    pub(crate) fn position(&self, place: Place) -> String {
        format!("{}:{}", self.file_name(place.file), place.line)
    }

    /// Something that could not be converted.
    pub(crate) fn left(&mut self, place: Place, reason: impl Into<String>) {
        self.left.insert((place, said(&reason.into())));
    }

    /// What could not be converted so far.
    pub(crate) fn all_left(&self) -> Vec<(Place, String)> {
        self.left.iter().cloned().collect()
    }

    /// Something to know.
    pub(crate) fn note(&mut self, place: Place, reason: impl Into<String>) {
        self.notes.insert((place, said(&reason.into())));
    }

    pub(crate) fn finish(self, toml: String) -> Converted {
        let remarks = |set: &BTreeSet<(Place, String)>| {
            let remark = |(place, reason): &(Place, String)| Remark {
                file: self.file_name(place.file).to_owned(),
                line: place.line,
                text: self.text(*place),
                reason: reason.clone(),
            };
            set.iter().map(remark).collect()
        };
        Converted { toml, left: remarks(&self.left), notes: remarks(&self.notes) }
    }
}

/// A reason as it is told: it may name a part of the line.
pub(crate) fn said(reason: &str) -> String {
    shown(&masked(reason))
}

/// A text for a terminal and for a comment of TOML: short, without control characters.
pub(crate) fn shown(text: &str) -> String {
    let clean = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
    let mut shown: String = text.chars().take(SHOWN_MAX).map(clean).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}
