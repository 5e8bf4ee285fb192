//! What is wrong with a plan, said with place, line and caret; all faults of a load at once.
//!
//! ```text
//! dialplan.toml:12:14: unknown application 'Anwser' (did you mean 'Answer'?)
//!  12 |     steps = ["Anwser()"],
//!     |              ^^^^^^
//! ```

use std::fmt;
use std::ops::Range;

use crate::limits::FAULTS_MAX;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub(crate) line: Line,
    pub(crate) message: String,
}

/// A place in a file, with the text of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) file: Box<str>,
    pub(crate) number: u32,
    pub(crate) column: u32,
    /// How many characters are meant, at least 1.
    pub(crate) width: u32,
    /// The line's text, or of a very long line the part around the column.
    pub(crate) text: Box<str>,
    /// Characters left out before `text`.
    pub(crate) skipped: u32,
}

impl Fault {
    /// A fault at a range of bytes of a file's text; for other files of configuration, so that all
    /// faults look alike.
    pub fn at(file: &str, text: &str, range: Range<usize>, message: impl Into<String>) -> Self {
        Self { line: Source::new(file, text).line(range), message: message.into() }
    }

    /// The file's name, as given to [`parse`](crate::parse).
    pub fn file(&self) -> &str {
        &self.line.file
    }

    /// The line, from 1.
    pub fn line(&self) -> u32 {
        self.line.number
    }

    /// The column, from 1, in characters.
    pub fn column(&self) -> u32 {
        self.line.column
    }

    /// The text of the line; of a very long line the part around the column.
    pub fn line_text(&self) -> &str {
        &self.line.text
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// Bytes of a line that are kept on either side of the fault.
const KEPT_AROUND: usize = 1_024;
/// Characters of a line that are shown on either side of the fault.
const SHOWN_AROUND: usize = 70;

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { file, number, column, width, text, skipped } = &self.line;
        writeln!(f, "{file}:{number}:{column}: {}", self.message)?;
        let at = (*column as usize).saturating_sub(1).saturating_sub(*skipped as usize);
        let from = at.saturating_sub(SHOWN_AROUND);
        let shown: String = text.chars().skip(from).take(2 * SHOWN_AROUND).map(printable).collect();
        let margin = number.to_string();
        writeln!(f, " {margin} | {shown}")?;
        let pad: String = shown.chars().take(at - from).map(blank).collect();
        let room = shown.chars().count().saturating_sub(at - from).max(1);
        let carets = "^".repeat((*width as usize).clamp(1, room));
        write!(f, " {:1$} | {pad}{carets}", "", margin.len())
    }
}

/// A file may hold anything; a terminal shall not obey it.
fn printable(c: char) -> char {
    if c.is_control() && c != '\t' { '\u{fffd}' } else { c }
}

fn blank(c: char) -> char {
    if c == '\t' { '\t' } else { ' ' }
}

/// Everything that is wrong, in the order of files and lines; at most [`FAULTS_MAX`] in full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    faults: Vec<Fault>,
    unsaid: usize,
}

impl Faults {
    /// The faults.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.faults.iter()
    }

    /// How many there are, those beyond the limit included.
    pub fn len(&self) -> usize {
        self.faults.len() + self.unsaid
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Sorted by line and column within a file; files stay in the order in which they come.
impl FromIterator<Fault> for Faults {
    fn from_iter<I: IntoIterator<Item = Fault>>(faults: I) -> Self {
        let mut all: Vec<Fault> = Vec::new();
        let mut unsaid = 0;
        let mut files: Vec<Box<str>> = Vec::new();
        for fault in faults {
            if all.len() == FAULTS_MAX {
                unsaid += 1;
                continue;
            }
            if !files.contains(&fault.line.file) {
                files.push(fault.line.file.clone());
            }
            all.push(fault);
        }
        all.sort_by_key(|Fault { line, .. }| {
            (files.iter().position(|file| *file == line.file), line.number, line.column)
        });
        Self { faults: all, unsaid }
    }
}

impl<'f> IntoIterator for &'f Faults {
    type Item = &'f Fault;
    type IntoIter = std::slice::Iter<'f, Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in &self.faults {
            writeln!(f, "{fault}")?;
        }
        if self.unsaid > 0 {
            writeln!(f, "... and {} more faults", self.unsaid)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// One file of a plan.
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    line_starts: Vec<usize>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(name: &'a str, text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { name, text, line_starts }
    }

    /// The number of the line that holds a byte, from 1.
    pub(crate) fn line_number(&self, at: usize) -> u32 {
        let lines = self.line_starts.partition_point(|start| *start <= at);
        u32::try_from(lines).unwrap_or(u32::MAX)
    }

    /// The place of a range of bytes.
    pub(crate) fn line(&self, range: Range<usize>) -> Line {
        let at = self.floor(range.start.min(self.text.len()));
        let number = self.line_number(at);
        let start = self.line_starts[number.saturating_sub(1) as usize];
        let whole = self.text[start..].split('\n').next().unwrap_or_default();
        let text = whole.strip_suffix('\r').unwrap_or(whole);
        let line_end = start + text.len();
        let end = self.floor(range.end.min(line_end));
        let kept_from = self.floor(at.saturating_sub(KEPT_AROUND).max(start));
        let kept_to = self.floor(at.saturating_add(KEPT_AROUND).min(line_end));
        let count = |from: usize, to: usize| {
            u32::try_from(self.text.get(from..to).map_or(0, |part| part.chars().count()))
                .unwrap_or(u32::MAX)
        };
        Line {
            file: self.name.into(),
            number,
            column: count(start, at).saturating_add(1),
            width: count(at, end).max(1),
            text: self.text.get(kept_from..kept_to).unwrap_or_default().into(),
            skipped: count(start, kept_from),
        }
    }

    /// The start of the character that holds a byte.
    fn floor(&self, at: usize) -> usize {
        (0..=at).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }
}

/// Gathers faults of all files.
pub(crate) struct Gathered<'a> {
    pub(crate) sources: Vec<Source<'a>>,
    /// File, byte, fault.
    found: Vec<(usize, usize, Fault)>,
    unsaid: usize,
}

impl<'a> Gathered<'a> {
    pub(crate) fn new(sources: Vec<Source<'a>>) -> Self {
        Self { sources, found: Vec::new(), unsaid: 0 }
    }

    pub(crate) fn add(&mut self, file: usize, range: Range<usize>, message: impl Into<String>) {
        if self.found.len() == FAULTS_MAX {
            self.unsaid += 1;
            return;
        }
        let at = range.start;
        let line = self.sources[file].line(range);
        self.found.push((file, at, Fault { line, message: message.into() }));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether further faults are only counted, so that it is no use to think about their text.
    pub(crate) fn is_full(&self) -> bool {
        self.found.len() >= FAULTS_MAX
    }

    pub(crate) fn finish(mut self) -> Faults {
        self.found.sort_by_key(|(file, at, _)| (*file, *at));
        let faults = self.found.into_iter().map(|(_, _, fault)| fault).collect();
        Faults { faults, unsaid: self.unsaid }
    }
}
