//! Variables that the plan reads and nothing in it sets: Asterisk may have set them itself.

use crate::extensions::Draft;
use crate::report::Place;
use std::collections::{BTreeMap, BTreeSet};

/// Variables that every call has here, too. One that is missing here costs a note too many.
const OURS: &[&str] = &[
    "ARGC",
    "CHANNEL",
    "CONTEXT",
    "DIALSTATUS",
    "EPOCH",
    "EXTEN",
    "GOSUB_RETVAL",
    "HANGUPCAUSE",
    "INVALID_EXTEN",
    "PRIORITY",
    "UNIQUEID",
];

/// How the variables begin that only a macro of Asterisk has.
const OF_MACROS: &str = "MACRO_";

/// Each such name with the line where it stands first.
pub(crate) fn unset(draft: &Draft) -> BTreeMap<String, Place> {
    let extensions = || draft.contexts.iter().flat_map(|context| &context.extensions);
    let steps = || extensions().flat_map(|extension| extension.steps.values());
    let mut set: BTreeSet<&str> = draft.globals.iter().map(|it| it.name.as_str()).collect();
    for step in steps() {
        set.extend(assigned(&step.text));
    }
    let mut found: BTreeMap<String, Place> = BTreeMap::new();
    for step in steps() {
        for name in read(&step.text) {
            let is_argument = name.strip_prefix("ARG").is_some_and(|number| {
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            });
            let is_ours = OURS.contains(&name) || name.starts_with(OF_MACROS);
            if !is_argument && !is_ours && !set.contains(name) {
                let place = found.entry(name.to_owned()).or_insert(step.place);
                *place = step.place.min(*place);
            }
        }
    }
    found
}

/// What is wrong with a step that reads where its macro was called from.
pub(crate) fn of_macros(text: &str) -> BTreeSet<String> {
    let names = read(text).filter(|name| name.starts_with(OF_MACROS));
    names.map(|name| format!("no `{name}` is known: give it to the macro as an argument")).collect()
}

/// The names in `${NAME}` and `${NAME:1}`.
fn read(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("${").filter_map(|(at, _)| {
        let rest = text.get(at + 2..)?;
        let end = rest.find(|c: char| !is_of_name(c))?;
        let is_whole = rest.get(end..).is_some_and(|rest| rest.starts_with(['}', ':']));
        rest.get(..end).filter(|name| is_whole && !name.is_empty())
    })
}

/// Names in front of a `=`; those in parentheses too, for `GLOBAL(NAME)=` and `ARRAY(A,B)=`.
pub(crate) fn assigned(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('=').flat_map(move |(at, _)| {
        let before = text.get(..at).unwrap_or_default().trim_end();
        let inside = before.strip_suffix(')').and_then(|inside| inside.rsplit_once('('));
        let names = inside.map_or(before, |(_, names)| names);
        let last = names.rsplit(|c: char| !is_of_name(c)).next().unwrap_or_default();
        let all = inside.map_or("", |(_, names)| names).split(',');
        all.map(str::trim).chain([last, last.trim_start_matches('_')])
    })
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_they_are_read_and_set() {
        let names = |text| read(text).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(names("Dial(${A}/${B:1},${LEN(${C})},${D${E}})"), ["A", "B", "C", "E"]);
        assert_eq!(names("${A ${B}"), ["B"]);
        let names = |text| assigned(text).collect::<BTreeSet<_>>();
        assert!(names("Set(__A=1)").contains("A"));
        assert!(names("ExecIf($[1]?Set(GLOBAL(B)=1))").contains("B"));
        assert!(names("Set(ARRAY(C,D)=1,2)").is_superset(&["C", "D"].into()));
        assert!(!names("NoOp(E)").contains("E"));
    }
}
