//! Writes TOML: quotes, keys, comments.

use crate::report::shown;
use std::fmt::Write as _;

/// A text in quotes: single ones where that saves escapes, double ones else.
pub(crate) fn quoted(text: &str) -> String {
    let plain = !text.chars().any(|c| c.is_control() && c != '\t');
    if plain && !text.contains('\'') && text.contains(['"', '\\']) {
        return format!("'{text}'");
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A key, in quotes where it needs them.
pub(crate) fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { quoted(name) }
}

/// A list of texts in one line.
pub(crate) fn list<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(quoted).collect();
    format!("[{}]", texts.join(", "))
}

/// A comment of one line.
pub(crate) fn comment(indent: &str, text: &str) -> String {
    format!("{indent}# {}", shown(text))
}
