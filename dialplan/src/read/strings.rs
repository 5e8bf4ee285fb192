//! Finds the place in a file of a byte of a TOML string, escapes and kinds of quotes considered.

use std::ops::Range;

/// The range of the file that holds the bytes `within` of the string that stands at `span`.
pub(crate) fn place(file: &str, span: Range<usize>, within: Range<usize>) -> Range<usize> {
    let Some(raw) = file.get(span.clone()) else { return span };
    let start = span.start + raw_offset(raw, within.start);
    let end = span.start + raw_offset(raw, within.end);
    start..end.max(start)
}

/// The offset in the raw text, quotes included, of a byte of the string's value.
fn raw_offset(raw: &str, wanted: usize) -> usize {
    let literal = raw.starts_with('\'');
    let long = raw.starts_with("\"\"\"") || raw.starts_with("'''");
    let mut at = if long { 3 } else { 1 };
    if long {
        // A line end directly behind the quotes is not part of the value.
        at += ["\r\n", "\n"].iter().find(|end| raw[at..].starts_with(**end)).map_or(0, |e| e.len());
    }
    let mut value = 0;
    while let Some(c) = raw.get(at..).and_then(|rest| rest.chars().next()) {
        let (raw_length, value_length) =
            if c == '\\' && !literal { escape(&raw[at..]) } else { (c.len_utf8(), c.len_utf8()) };
        // A swallowed line end belongs to what stands behind it.
        if value >= wanted && value_length > 0 {
            break;
        }
        at += raw_length;
        value += value_length;
    }
    at.min(raw.len())
}

/// How long an escape is in the file and in the value.
fn escape(rest: &str) -> (usize, usize) {
    let hex = |digits: usize| {
        let value = rest.get(2..2 + digits).and_then(|text| u32::from_str_radix(text, 16).ok());
        let length = value.and_then(char::from_u32).map_or(1, char::len_utf8);
        ((2 + digits).min(rest.len()), length)
    };
    match rest.as_bytes().get(1) {
        Some(b'x') => hex(2),
        Some(b'u') => hex(4),
        Some(b'U') => hex(8),
        Some(byte) if byte.is_ascii_whitespace() => {
            // A backslash at the end of a line swallows all blanks up to the next text.
            (1 + rest[1..].len() - rest[1..].trim_start().len(), 0)
        }
        Some(_) => (2, 1),
        None => (1, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, value_offset: usize, rest: &str) {
        let file = format!("x = {raw}");
        let place = place(&file, 4..file.len(), value_offset..value_offset + 1);
        assert!(file[place.start..].starts_with(rest), "{}", &file[place.start..]);
    }

    #[test]
    fn a_byte_is_found_in_every_kind_of_string() {
        check("\"abc\"", 1, "bc\"");
        check("'a\\c'", 1, "\\c'");
        check("\"a\\\"c\"", 2, "c\"");
        check("\"\\u00e4c\"", 2, "c\"");
        check("\"\\U0001F600c\"", 4, "c\"");
        check("\"\\x41c\"", 1, "c\"");
        check("\"\"\"\nabc\"\"\"", 1, "bc");
        check("'''abc'''", 1, "bc");
        check("\"\"\"a\\\n   bc\"\"\"", 1, "bc");
        check("\"\"\"a\\\n   bc\"\"\"", 2, "c");
        check("\"abc\"", 9, "");
    }

    #[test]
    fn every_letter_is_found_where_the_parser_took_it_from() {
        let raws = [
            "\"\\tab\\\"c\\\\d\\u00e4e\\U0001F600f\\x41g\\e1\"",
            "'a\\b\"c'",
            "\"\"\"\r\nab\r\ncd\\\r\n  \r\n ef\"\"gh\"\"\"",
            "'''\nab\r\ncd\ne''f'''",
            "\"\"\"ab\"\"\"",
            "''",
        ];
        for raw in raws {
            let file = format!("x = {raw}\n");
            let table = toml::de::DeTable::parse(&file).unwrap();
            let value = &table.get_ref()["x"];
            let text = value.get_ref().as_str().unwrap();
            for (at, c) in text.char_indices().filter(|(_, c)| c.is_ascii_lowercase()) {
                let place = place(&file, value.span(), at..at + 1);
                assert_eq!(file[place].chars().next(), Some(c), "{raw} {at}");
            }
        }
    }
}
