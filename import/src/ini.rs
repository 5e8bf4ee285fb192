//! The syntax that all of Asterisk's files share: sections with templates, `key = value`,
//! `key => value`, comments, block comments and includes.
//!
//! `[name](!)` is a template, `[name](a,b)` begins with what `a` and `b` say, `[name](+)` goes on
//! with the section of that name. `;` starts a comment, `\;` is a semicolon, `;-- --;` encloses a
//! comment of many lines. `#exec` runs a program in Asterisk; here it is refused.

use crate::Include;
use crate::limits::{BYTES_MAX, COMMENT_DEPTH_MAX, ENTRIES_MAX, FILES_MAX, INCLUDE_DEPTH_MAX};
use crate::report::{Place, Report};

/// A line `key = value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// In lower case.
    pub(crate) key: String,
    /// The key in its own case: names of variables differ by it.
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) place: Place,
}

/// A section with all it has, that of its templates first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) is_template: bool,
    /// The first template that it begins with.
    pub(crate) parent: Option<String>,
    pub(crate) entries: Vec<Entry>,
}

impl Section {
    /// The last value of a key.
    pub(crate) fn last(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.key == key)
    }
}

/// Reads a file with all it includes. Templates are among the sections.
pub(crate) fn read(name: &str, text: &str, include: &mut Include<'_>) -> (Vec<Section>, Report) {
    let mut reader =
        Reader { report: Report::default(), sections: Vec::new(), include, bytes: 0, entries: 0 };
    reader.read_file(name, text, None, 0);
    (reader.sections, reader.report)
}

struct Reader<'i, 'f> {
    report: Report,
    sections: Vec<Section>,
    include: &'i mut Include<'f>,
    bytes: usize,
    entries: usize,
}

impl Reader<'_, '_> {
    /// `current` is the section that the file goes on with.
    fn read_file(&mut self, name: &str, text: &str, current: Option<usize>, depth: usize) {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > BYTES_MAX {
            let file = self.report.add_file(name, "");
            let reason = format!("more than {BYTES_MAX} bytes in all files: it was not read");
            return self.report.left(Place { file, line: 1 }, reason);
        }
        let file = self.report.add_file(name, text);
        let mut current = current;
        let mut comments = Comments::default();
        for (number, line) in (1..).zip(text.lines()) {
            let place = Place { file, line: number };
            let Some(said) = comments.strip(line, place, &mut self.report) else { continue };
            let said = said.trim();
            if said.is_empty() {
                continue;
            }
            if let Some(directive) = said.strip_prefix('#') {
                self.read_directive(directive, place, current, depth);
            } else if said.starts_with('[') {
                current = self.read_header(said, place);
            } else {
                self.read_entry(said, place, current);
            }
        }
        if let Some(open) = comments.open.first() {
            let reason = "the block comment `;--` is not closed: all behind it is a comment";
            self.report.left(*open, reason);
        }
    }

    fn read_directive(&mut self, text: &str, place: Place, current: Option<usize>, depth: usize) {
        let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
        let rest = rest.trim();
        let unquoted = ['"', '<'].iter().fold(rest, |rest, open| rest.trim_start_matches(*open));
        let named = unquoted.trim_end_matches(['"', '>']).trim();
        let is_try = word.eq_ignore_ascii_case("tryinclude");
        if word.eq_ignore_ascii_case("exec") {
            return self.report.left(place, "#exec runs a program, which is not done here");
        }
        if !is_try && !word.eq_ignore_ascii_case("include") {
            return self.report.left(place, "unknown directive");
        }
        if named.is_empty() {
            return self.report.left(place, "the name of the file is missing");
        }
        if depth == INCLUDE_DEPTH_MAX {
            let reason = format!("files include files {INCLUDE_DEPTH_MAX} deep at most");
            return self.report.left(place, reason);
        }
        let from = self.report.file_name(place.file).to_owned();
        match (self.include)(&from, named) {
            Ok(files) if files.is_empty() && !is_try => {
                self.report.note(place, "no file matches");
            }
            Ok(files) => {
                for (name, text) in files {
                    if self.report.file_count() == FILES_MAX {
                        let reason = format!("more than {FILES_MAX} files: it was not read");
                        return self.report.left(place, reason);
                    }
                    self.read_file(&name, &text, current, depth + 1);
                }
            }
            Err(why) if is_try => self.report.note(place, why),
            Err(why) => self.report.left(place, why),
        }
    }

    /// Gives the section that goes on from here.
    fn read_header(&mut self, text: &str, place: Place) -> Option<usize> {
        let Some((name, options)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        else {
            self.report.left(place, "the section's name is not closed: `]` is missing");
            return self.open("", place);
        };
        let options = options.trim();
        let inside = options.strip_prefix('(').map(|rest| rest.strip_suffix(')'));
        let options = match inside {
            Some(Some(inside)) => inside,
            None if options.is_empty() => "",
            Some(None) | None => {
                self.report.left(place, "this cannot follow a section's name");
                ""
            }
        };
        let options: Vec<&str> = options.split(',').map(str::trim).collect();
        let goes_on = options.iter().any(|option| option.starts_with('+'));
        let same = |section: &Section| section.name.eq_ignore_ascii_case(name);
        let known = if goes_on { self.sections.iter().position(same) } else { None };
        if goes_on && known.is_none() {
            self.report.left(place, "there is no section of this name to go on with");
        }
        let at = known.or_else(|| self.open(name, place))?;
        for option in options {
            match option {
                "" => {}
                "!" => self.sections.get_mut(at)?.is_template = true,
                _ if option.starts_with('+') => {}
                parent => self.inherit(at, parent, place),
            }
        }
        Some(at)
    }

    fn open(&mut self, name: &str, place: Place) -> Option<usize> {
        self.sections.push(Section {
            name: name.trim().to_owned(),
            place,
            is_template: false,
            parent: None,
            entries: Vec::new(),
        });
        self.sections.len().checked_sub(1)
    }

    fn inherit(&mut self, at: usize, parent: &str, place: Place) {
        let found = self.sections.get(..at).and_then(|before| {
            before.iter().find(|section| section.name.eq_ignore_ascii_case(parent))
        });
        let Some(found) = found else {
            return self.report.left(place, format!("there is no template '{parent}' above"));
        };
        if self.entries.saturating_add(found.entries.len()) > ENTRIES_MAX {
            let reason = format!("more than {ENTRIES_MAX} entries: '{parent}' was not taken over");
            return self.report.left(place, reason);
        }
        let entries = found.entries.clone();
        self.entries += entries.len();
        if let Some(section) = self.sections.get_mut(at) {
            section.parent.get_or_insert_with(|| parent.to_owned());
            section.entries.extend(entries);
        }
    }

    fn read_entry(&mut self, text: &str, place: Place, current: Option<usize>) {
        let Some((key, value)) = text.split_once('=') else {
            return self.report.left(place, "no `=` in this line");
        };
        let Some(section) = current.and_then(|at| self.sections.get_mut(at)) else {
            return self.report.left(place, "it stands in no section");
        };
        if self.entries == ENTRIES_MAX {
            let reason = format!("more than {ENTRIES_MAX} entries in all files");
            return self.report.left(place, reason);
        }
        let value = value.strip_prefix('>').unwrap_or(value).trim();
        let adds = key.ends_with('+');
        let name = key.trim_end_matches('+').trim().to_owned();
        let key = name.to_ascii_lowercase();
        if key.is_empty() {
            return self.report.left(place, "the name before the `=` is missing");
        }
        self.entries += 1;
        let before = if adds { section.last(&key).map(|entry| entry.value.clone()) } else { None };
        let value = format!("{}{value}", before.unwrap_or_default());
        section.entries.push(Entry { key, name, value, place });
    }
}

/// Block comments that are open, outermost first.
#[derive(Default)]
struct Comments {
    open: Vec<Place>,
}

impl Comments {
    /// What a line says outside of comments.
    fn strip(&mut self, line: &str, place: Place, report: &mut Report) -> Option<String> {
        let mut said = String::new();
        let mut rest = line;
        while let Some(at) = rest.find(';') {
            let (before, behind) = rest.split_at(at);
            let after = behind.get(1..).unwrap_or_default();
            let is_open = !self.open.is_empty();
            if let Some(kept) = before.strip_suffix('\\') {
                if !is_open {
                    said.push_str(kept);
                    said.push(';');
                }
                rest = after;
            } else if after.starts_with("--") && !after.starts_with("---") {
                if !is_open {
                    said.push_str(before);
                }
                if self.open.len() == COMMENT_DEPTH_MAX {
                    let reason = format!("comments nest {COMMENT_DEPTH_MAX} deep at most");
                    report.left(place, reason);
                } else {
                    self.open.push(place);
                }
                rest = after.get(2..).unwrap_or_default();
            } else if is_open && before.ends_with("--") {
                self.open.pop();
                rest = after;
            } else if is_open {
                rest = after;
            } else {
                said.push_str(before);
                return Some(said);
            }
        }
        if self.open.is_empty() {
            said.push_str(rest);
        }
        (!said.is_empty()).then_some(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> (Vec<Section>, crate::Converted) {
        let mut none = |_: &str, what: &str| match what {
            "more.conf" => Ok(vec![("more.conf".to_owned(), "d=4\n[q]\ne=5\n".to_owned())]),
            "self.conf" => Ok(vec![("self.conf".to_owned(), "#include self.conf\n".to_owned())]),
            "none*.conf" => Ok(vec![]),
            _ => Err(format!("{what}: not there")),
        };
        let (sections, report) = read("a.conf", text, &mut none);
        (sections, report.finish(String::new()))
    }

    fn entries(text: &str) -> Vec<String> {
        let (sections, _) = read_all(text);
        let line = |section: &Section, entry: &Entry| {
            format!("{}.{}={}", section.name, entry.key, entry.value)
        };
        sections.iter().flat_map(|it| it.entries.iter().map(move |entry| line(it, entry))).collect()
    }

    fn reasons(text: &str) -> Vec<String> {
        let (_, told) = read_all(text);
        told.left.iter().map(|it| format!("{}:{}: {}", it.file, it.line, it.reason)).collect()
    }

    #[test]
    fn values_comments_and_escapes() {
        let text = "[s] ; x\n a = 1 ; 1\nB=>two\\;three;four\n;c=3\n;--\nd=4\n;-- --;\n--; e = 5\n\
                    f=6 ;-- no --; and more\n;---- a line ----\ng = a=b\ng += ,c\n";
        assert_eq!(
            entries(text),
            ["s.a=1", "s.b=two;three", "s.e=5", "s.f=6  and more", "s.g=a=b", "s.g=a=b,c"]
        );
        assert_eq!(reasons(text), [""; 0]);
    }

    #[test]
    fn templates_come_first_and_may_be_gone_on_with() {
        let text = "[t](!)\na=1\n[u](!,t)\nb=2\n[s](u)\nc=3\n[t](+)\nd=4\n";
        assert_eq!(entries(text), ["t.a=1", "t.d=4", "u.a=1", "u.b=2", "s.a=1", "s.b=2", "s.c=3"]);
        let (sections, _) = read_all(text);
        let flags: Vec<_> = sections.iter().map(|it| (it.is_template, it.parent.clone())).collect();
        assert_eq!(flags[2], (false, Some("u".to_owned())));
        assert!(flags[0].0 && flags[1].0);
    }

    #[test]
    fn an_included_file_goes_on_with_the_section_and_so_does_what_follows() {
        assert_eq!(
            entries("[s]\na=1\n#include \"more.conf\"\nb=2\n#tryinclude <x>\n"),
            ["s.a=1", "s.d=4", "s.b=2", "q.e=5"]
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        assert_eq!(
            reasons("a=1\n[s\nb=2\n[t](x)y\nnothing\n=3\n[v](+)\n[w](nobody)\n"),
            [
                "a.conf:1: it stands in no section",
                "a.conf:2: the section's name is not closed: `]` is missing",
                "a.conf:4: this cannot follow a section's name",
                "a.conf:5: no `=` in this line",
                "a.conf:6: the name before the `=` is missing",
                "a.conf:7: there is no section of this name to go on with",
                "a.conf:8: there is no template 'nobody' above",
            ]
        );
        let unclosed = "the block comment `;--` is not closed: all behind it is a comment";
        assert_eq!(reasons("[s]\n;-- x\na=1\n"), [format!("a.conf:2: {unclosed}")]);
    }

    #[test]
    fn directives_that_are_not_followed_are_told() {
        let text = "#exec \"/bin/rm\"\n#include gone.conf\n#inclood x\n#include\n#tryinclude y\n";
        assert_eq!(
            reasons(text),
            [
                "a.conf:1: #exec runs a program, which is not done here",
                "a.conf:2: gone.conf: not there",
                "a.conf:3: unknown directive",
                "a.conf:4: the name of the file is missing",
            ]
        );
        assert_eq!(reasons("#include self.conf\n").len(), 1);
        assert_eq!(read_all("#include none*.conf\n").1.notes.len(), 1);
    }

    #[test]
    fn templates_of_templates_cannot_grow_without_end() {
        let mut text = "[t0](!)\na=1\nb=2\n".to_owned();
        for n in 1..40 {
            text.push_str(&format!("[t{n}](!,t{0},t{0})\n", n - 1));
        }
        assert!(reasons(&text).iter().any(|it| it.contains("more than 1000000 entries")));
    }
}
