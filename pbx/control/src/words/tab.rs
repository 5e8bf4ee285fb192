//! What TAB offers: words of commands, their options, and where names of the server belong.

use super::list::{ALIASES, COMMANDS};
use super::{Entry, after, ours};

/// What may stand behind these words, the last of which may be half typed: for TAB.
pub fn completions(words: &[&str], half: &str) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = COMMANDS
        .iter()
        .map(|entry| entry.head)
        .chain(ALIASES.iter().map(|(theirs, _)| *theirs))
        .filter(|head| {
            let known = head.iter().zip(words).all(|(a, b)| a.eq_ignore_ascii_case(b));
            known && head.len() > words.len()
        })
        .filter_map(|head| head.get(words.len()).copied())
        .chain(COMMANDS.iter().flat_map(|entry| options(entry, words)))
        .filter(|word| word.len() >= half.len())
        .filter(|word| word[..half.len()].eq_ignore_ascii_case(half))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The words of a usage that may come next as they stand: `concise|verbose|count`.
fn options<'e>(entry: &'e Entry, words: &[&str]) -> Vec<&'static str>
where
    'e: 'static,
{
    let Some(rest) = after(entry.head, words) else { return Vec::new() };
    let behind = entry.usage.split_whitespace().skip(entry.head.len() + rest.len());
    let next =
        behind.take(1).flat_map(|word| word.trim_matches(|c| c == '[' || c == ']').split('|'));
    next.filter(|word| !word.is_empty() && !word.contains(['<', '>', '[', ']'])).collect()
}

/// What names belong at this place of a command, if any: for TAB.
pub fn names_at(words: &[&str]) -> Option<Names> {
    let words = ours(words.to_vec());
    let entry = COMMANDS.iter().find(|entry| after(entry.head, &words).is_some())?;
    let rest = after(entry.head, &words)?;
    let next = entry.usage.split_whitespace().nth(entry.head.len() + rest.len())?;
    let name = next.trim_matches(|c| c == '[' || c == ']');
    Some(match (entry.head, name) {
        (["endpoint", ..], "<name>") | (["registrar", ..], "<endpoint>") => Names::Endpoints,
        (["trunk", ..], "<name>") => Names::Trunks,
        (["channel", "request", ..], _) => Names::Channels,
        (["database", ..], "<family>") => Names::Families,
        (["dialplan", "show"], _) => Names::Contexts,
        _ => return None,
    })
}

/// A list of names that the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Of endpoints.
    Endpoints,
    /// Of trunks.
    Trunks,
    /// Of channels.
    Channels,
    /// Of the database's families.
    Families,
    /// Of contexts.
    Contexts,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tab_completes_words_options_and_knows_where_names_belong() {
        assert_eq!(completions(&[], "co"), ["core"]);
        let shown = completions(&["core", "show"], "c");
        assert_eq!(shown, ["calls", "channels"]);
        let shown = completions(&["core", "show", "channels"], "");
        assert_eq!(shown, ["concise", "count", "verbose"]);
        assert_eq!(completions(&["pjsip", "show"], "end"), ["endpoint", "endpoints"]);
        assert_eq!(completions(&["sip", "set", "trace"], "o"), ["off", "on"]);
        assert_eq!(names_at(&["endpoint", "show"]), Some(Names::Endpoints));
        assert_eq!(names_at(&["pjsip", "show", "endpoint"]), Some(Names::Endpoints));
        assert_eq!(names_at(&["channel", "request", "hangup"]), Some(Names::Channels));
        assert_eq!(names_at(&["core", "show"]), None);
    }
}
