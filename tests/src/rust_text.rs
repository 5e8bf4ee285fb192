//! A scanner of Rust source: what is code, what is comment, and how long each function is.
//!
//! It knows strings (plain, byte, C and raw with any number of `#`), characters and lifetimes,
//! nested block comments and raw identifiers: what a count of braces must not stumble over. It
//! does not parse: items that a macro writes are not seen.

/// A source file, split into code and comments of the same shape: a byte stands at the same place
/// as in the source, what belongs to the other kind is a space, and line ends are in both.
pub struct Source {
    /// The code, with the content of strings and characters blanked.
    pub code: String,
    /// The comments, doc comments included.
    pub comments: String,
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub lines: usize,
}

/// A named item: a type, a trait, a module or a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The keyword: `struct`, `enum`, `trait`, `type`, `mod`, `union` or `fn`.
    pub keyword: &'static str,
    /// Its name.
    pub name: String,
    /// The line of its name, from 1.
    pub line: usize,
}

impl Source {
    /// Splits a source text.
    pub fn scan(text: &str) -> Source {
        let mut scanner = Scanner { bytes: text.as_bytes(), at: 0, code: vec![], comments: vec![] };
        while scanner.at < scanner.bytes.len() {
            scanner.step();
        }
        Source {
            code: String::from_utf8_lossy(&scanner.code).into_owned(),
            comments: String::from_utf8_lossy(&scanner.comments).into_owned(),
        }
    }

    /// Every function that has a body, nested ones too.
    pub fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (at, name) in self.names_after("fn") {
            if let Some(end) = self.body_end(at) {
                let line = self.line_of(at);
                let lines = self.line_of(end) - line + 1;
                found.push(Function { name, line, lines });
            }
        }
        found
    }

    /// Every named item.
    pub fn items(&self) -> Vec<Item> {
        let mut found = Vec::new();
        for keyword in ["struct", "enum", "trait", "type", "mod", "union", "fn"] {
            for (at, name) in self.names_after(keyword) {
                found.push(Item { keyword, name, line: self.line_of(at) });
            }
        }
        found
    }

    /// The names that follow a keyword, with the place of each.
    fn names_after(&self, keyword: &str) -> Vec<(usize, String)> {
        let bytes = self.code.as_bytes();
        let mut found = Vec::new();
        for (at, _) in self.code.match_indices(keyword) {
            let end = at + keyword.len();
            let is_word = (at == 0 || !is_word_byte(bytes[at - 1]) && bytes[at - 1] != b'#')
                && bytes.get(end).is_some_and(u8::is_ascii_whitespace);
            if !is_word {
                continue;
            }
            let rest = self.code[end..].trim_start();
            let rest = rest.strip_prefix("r#").unwrap_or(rest);
            let length = rest.bytes().take_while(|byte| is_word_byte(*byte)).count();
            if length > 0 {
                found.push((at, rest[..length].to_owned()));
            }
        }
        found
    }

    /// The place of the brace that closes the body which begins after `at`; nothing for a
    /// declaration.
    fn body_end(&self, at: usize) -> Option<usize> {
        let bytes = self.code.as_bytes();
        let mut brackets = 0_u32;
        let mut at = at;
        loop {
            match bytes.get(at)? {
                b'(' | b'[' => brackets += 1,
                b')' | b']' => brackets = brackets.saturating_sub(1),
                b';' if brackets == 0 => return None,
                b'{' if brackets == 0 => break,
                _ => {}
            }
            at += 1;
        }
        let mut braces = 0_u32;
        loop {
            match bytes.get(at)? {
                b'{' => braces += 1,
                b'}' => {
                    braces -= 1;
                    if braces == 0 {
                        return Some(at);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn line_of(&self, at: usize) -> usize {
        self.code.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
    }
}

/// Where the bytes of the source go.
#[derive(Clone, Copy)]
enum Kind {
    Code,
    Comment,
    Blank,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    code: Vec<u8>,
    comments: Vec<u8>,
}

impl Scanner<'_> {
    /// Takes one comment, literal, word or other byte.
    fn step(&mut self) {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(b"//") {
            let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            self.take(length, Kind::Comment);
        } else if rest.starts_with(b"/*") {
            self.take(block_comment_length(rest), Kind::Comment);
        } else if let Some(length) = string_length(rest) {
            self.take(length, Kind::Blank);
        } else if rest[0] == b'\'' {
            self.take(quote_length(rest), Kind::Blank);
        } else if is_word_byte(rest[0]) {
            let length = rest.iter().take_while(|byte| is_word_byte(**byte)).count();
            self.take(length, Kind::Code);
        } else {
            self.take(1, Kind::Code);
        }
    }

    fn take(&mut self, length: usize, kind: Kind) {
        for byte in &self.bytes[self.at..self.at + length] {
            let blank = if *byte == b'\n' { b'\n' } else { b' ' };
            let (code, comment) = match kind {
                Kind::Code => (*byte, blank),
                Kind::Comment => (blank, *byte),
                Kind::Blank => (blank, blank),
            };
            self.code.push(code);
            self.comments.push(comment);
        }
        self.at += length;
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0_u32;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The length of the string literal that begins here, prefix included.
fn string_length(rest: &[u8]) -> Option<usize> {
    const PREFIXES: [&[u8]; 6] = [b"br", b"cr", b"b", b"c", b"r", b""];
    let prefix = PREFIXES.into_iter().find(|prefix| {
        rest.strip_prefix(*prefix).is_some_and(|after| {
            after.first() == Some(&b'"') || prefix.ends_with(b"r") && is_raw_start(after)
        })
    })?;
    let after = &rest[prefix.len()..];
    if prefix.ends_with(b"r") {
        let hashes = after.iter().take_while(|byte| **byte == b'#').count();
        let mut end = vec![b'"'];
        end.resize(hashes + 1, b'#');
        let body = &after[hashes + 1..];
        let found = body.windows(end.len()).position(|window| window == end);
        let length = found.map_or(body.len(), |at| at + end.len());
        return Some(prefix.len() + hashes + 1 + length);
    }
    let mut at = 1;
    while at < after.len() {
        match after[at] {
            b'\\' => at += 2,
            b'"' => return Some(prefix.len() + at + 1),
            _ => at += 1,
        }
    }
    Some(rest.len())
}

/// Hashes and a quote, as in `r#"`; `r#type` is an identifier.
fn is_raw_start(after: &[u8]) -> bool {
    let hashes = after.iter().take_while(|byte| **byte == b'#').count();
    hashes > 0 && after.get(hashes) == Some(&b'"')
}

/// The length of a character literal, or 1 for the quote of a lifetime or label.
fn quote_length(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        let body = rest.get(3..).unwrap_or_default();
        return body.iter().position(|byte| *byte == b'\'').map_or(1, |at| at + 4);
    }
    let text = String::from_utf8_lossy(&rest[1..rest.len().min(6)]).into_owned();
    let Some(first) = text.chars().next() else { return 1 };
    if rest.get(1 + first.len_utf8()) == Some(&b'\'') { first.len_utf8() + 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str) -> Vec<(String, usize)> {
        Source::scan(text).functions().into_iter().map(|f| (f.name, f.lines)).collect()
    }

    #[test]
    fn a_function_is_as_long_as_from_its_keyword_to_its_brace() {
        assert_eq!(lengths("fn a() {\n}\n\nfn b() {}\n"), [("a".into(), 2), ("b".into(), 1)]);
    }

    #[test]
    fn braces_in_strings_characters_and_comments_do_not_count() {
        let text = concat!(
            "fn a() {\n let s = \"}\\\"}\"; // }\n /* } /* } */ } */ let c = '}';\n",
            " let r = r#\"}\"}\"#; let b = br##\"}\"#}\"##; let q = b'}'; let e = '\\'';\n",
            " let u = '\\u{7d}'; let c = c\"}\";\n}\nfn b() {}\n"
        );
        assert_eq!(lengths(text), [("a".into(), 6), ("b".into(), 1)]);
    }

    #[test]
    fn lifetimes_labels_and_raw_identifiers_are_no_literals() {
        let text =
            "fn a<'x>(v: &'x str) -> &'static str {\n 'l: loop { break 'l }\n r#fn();\n v\n}\n";
        assert_eq!(lengths(text), [("a".into(), 5)]);
    }

    #[test]
    fn declarations_and_pointers_have_no_body() {
        let text = "trait T { fn a(x: [u8; 3]);\n fn b() {}\n}\ntype F = fn(u8) -> u8;\n";
        assert_eq!(lengths(text), [("b".into(), 1)]);
    }

    #[test]
    fn a_nested_function_counts_for_itself_too() {
        assert_eq!(lengths("fn a() {\n fn b() {\n }\n}\n"), [("a".into(), 4), ("b".into(), 2)]);
    }

    #[test]
    fn comments_are_kept_apart_from_code() {
        let source = Source::scan("let a = 1; // fn x() {\n/* fn y() {} */ let b;\n");
        assert!(source.functions().is_empty());
        assert!(source.comments.contains("fn x()") && source.comments.contains("fn y()"));
        assert!(source.code.contains("let b;") && !source.comments.contains("let b;"));
    }

    #[test]
    fn items_are_found_by_keyword_and_line() {
        let items = Source::scan("pub struct Leg;\nenum Side { A }\n// struct No;\n").items();
        let named: Vec<_> = items.iter().map(|i| (i.keyword, i.name.as_str(), i.line)).collect();
        assert_eq!(named, [("struct", "Leg", 1), ("enum", "Side", 2)]);
    }

    #[test]
    fn a_char_of_many_bytes_is_one_literal() {
        assert_eq!(lengths("fn a() {\n let c = 'é'; let d = '€';\n}\n"), [("a".into(), 3)]);
    }
}
