//! What keeps a line one line, and its words our own: cleaning and redaction.
//!
//! fail2ban bans by regular expressions over these lines, so a caller whose text ends a quotation
//! could evade a ban or forge one; and a terminal obeys control characters.

use std::sync::atomic::{AtomicBool, Ordering};

use memchr::memchr2_iter;

/// Stands where a character was taken away.
const GONE: u8 = b'?';

/// Stands where a secret was taken away.
const HIDDEN: &[u8] = b"***";

/// Appends `text` without control characters and bytes that are no UTF-8: each becomes `?`.
pub fn clean(text: &[u8], out: &mut Vec<u8>) {
    clean_but(text, out, |_| false);
}

/// Appends `text` from outside so that it can stand in a quotation: as [`clean`], and without
/// `'`, `"`, `(` and `)`, each of which becomes `?`.
pub fn clean_for_quotes(text: &[u8], out: &mut Vec<u8>) {
    clean_but(text, out, |byte| matches!(byte, b'\'' | b'"' | b'(' | b')'));
}

fn clean_but(text: &[u8], out: &mut Vec<u8>, is_unwanted: impl Fn(u8) -> bool) {
    for chunk in text.utf8_chunks() {
        let valid = chunk.valid();
        if valid.bytes().all(|b| (b' '..0x7f).contains(&b) && !is_unwanted(b)) {
            out.extend_from_slice(valid.as_bytes());
        } else {
            for letter in valid.chars() {
                let unwanted = letter.is_ascii() && is_unwanted(letter as u8);
                if unwanted || letter.is_control() || is_deceptive(letter) {
                    out.push(GONE);
                } else {
                    out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        out.extend(chunk.invalid().iter().map(|_| GONE));
    }
}

/// Line separators, and marks that make a line read otherwise than it is written.
const fn is_deceptive(letter: char) -> bool {
    matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether personal data is masked; one answer for the whole program.
static IS_MASKING: AtomicBool = AtomicBool::new(false);

/// Masks numbers and users in what callers wrote from now on, or no longer.
pub fn set_masking(is_masking: bool) {
    IS_MASKING.store(is_masking, Ordering::Relaxed);
}

/// Whether they are masked.
pub fn is_masking() -> bool {
    IS_MASKING.load(Ordering::Relaxed)
}

/// Digits in a row that are taken for somebody's number.
const NUMBER_MIN: usize = 5;

/// What is left of a number or a user.
const SHOWN: usize = 2;

/// Appends `text` with the greater part of long numbers and of the users in SIP and tel URIs
/// hidden: `sip:al***@pbx.example.org`, `49***`.
pub(crate) fn mask(text: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let is_user =
            ["sip:", "sips:", "tel:"].iter().any(|it| text[..at].ends_with(it.as_bytes()));
        let len = if is_user {
            // Without an `@` it is a host.
            let end = rest.iter().position(|it| b"@>; \t\r\n\"".contains(it)).unwrap_or(rest.len());
            let has_user = rest.get(end) == Some(&b'@') || text[..at].ends_with(b"tel:");
            if has_user { end } else { 0 }
        } else {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits >= NUMBER_MIN { digits } else { 0 }
        };
        if len == 0 {
            // A number is looked at as a whole.
            let plain = rest.iter().take_while(|byte| byte.is_ascii_digit()).count().max(1);
            out.extend_from_slice(&rest[..plain]);
            at += plain;
        } else {
            out.extend_from_slice(&rest[..len.min(SHOWN)]);
            out.extend_from_slice(HIDDEN);
            at += len;
        }
    }
}

/// A word after which a secret stands, and what ends the secret.
struct Secret {
    word: &'static [u8],
    ends: &'static [u8],
}

/// The words are compared in any case and end in `:` or `=`.
const SECRETS: [Secret; 10] = [
    Secret { word: b"authorization:", ends: b"\r\n" },
    Secret { word: b"inline:", ends: b"|; \r\n" },
    Secret { word: b"password=", ends: b"&;,\" \r\n" },
    Secret { word: b"password:", ends: b"&;,\" \r\n" },
    Secret { word: b"passwd=", ends: b"&;,\" \r\n" },
    Secret { word: b"secret=", ends: b"&;,\" \r\n" },
    Secret { word: b"token=", ends: b"&;,\" \r\n" },
    Secret { word: b"response=", ends: b"&;,\" \r\n" },
    Secret { word: b"cnonce=", ends: b"&;,\" \r\n" },
    Secret { word: b"pin=", ends: b"&;,\" \r\n" },
];

/// Appends `text` with secrets hidden: credentials of (Proxy-)Authorization, passwords and tokens
/// in parameters, keys of `a=crypto`. Returns whether anything was hidden; if not, nothing was
/// appended and `text` can be used as it is.
pub fn redact(text: &[u8], out: &mut Vec<u8>) -> bool {
    let mut copied = 0;
    for at in memchr2_iter(b':', b'=', text) {
        if at < copied {
            continue; // inside what was hidden
        }
        let before = &text[..=at];
        let Some(secret) = SECRETS.iter().find(|secret| ends_with(before, secret.word)) else {
            continue;
        };
        let value = &text[at + 1..];
        let blank = value.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'"')).count();
        let len = value[blank..]
            .iter()
            .position(|byte| secret.ends.contains(byte))
            .unwrap_or(value.len() - blank);
        if len == 0 {
            continue;
        }
        out.extend_from_slice(&text[copied..at + 1 + blank]);
        out.extend_from_slice(HIDDEN);
        copied = at + 1 + blank + len;
    }
    if copied > 0 {
        out.extend_from_slice(&text[copied..]);
    }
    copied > 0
}

fn ends_with(text: &[u8], word: &[u8]) -> bool {
    text.len() >= word.len() && text[text.len() - word.len()..].eq_ignore_ascii_case(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_users_are_masked_and_hosts_are_not() {
        let masked = |text: &str| {
            let mut out = Vec::new();
            mask(text.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(masked("sip:alice@pbx.example.org"), "sip:al***@pbx.example.org");
        assert_eq!(masked("<sips:+4930123456@h;user=phone>"), "<sips:+4***@h;user=phone>");
        assert_eq!(masked("sip:192.0.2.1:5060"), "sip:192.0.2.1:5060");
        assert_eq!(masked("tel:+1-201-555-0123"), "tel:+1***");
        assert_eq!(masked("4930123456 and 1000"), "49*** and 1000");
    }

    fn cleaned(text: &[u8]) -> String {
        let mut out = Vec::new();
        clean(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn quoted(text: &[u8]) -> String {
        let mut out = Vec::new();
        clean_for_quotes(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn redacted(text: &str) -> String {
        let mut out = Vec::new();
        let is_hidden = redact(text.as_bytes(), &mut out);
        if is_hidden { String::from_utf8(out).unwrap() } else { text.to_owned() }
    }

    #[test]
    fn a_line_stays_one_line_and_obeys_no_terminal() {
        assert_eq!(cleaned(b"a\r\nb\x1b[31m\0\x7f"), "a??b?[31m??");
        assert_eq!(cleaned("\u{9b}31m\u{202e}x\u{2028}".as_bytes()), "?31m?x?");
        assert_eq!(cleaned(b"\xff\xfe ok \xc3"), "?? ok ?");
        assert_eq!(cleaned("Jürgen 'x' (日本)".as_bytes()), "Jürgen 'x' (日本)");
    }

    #[test]
    fn text_from_outside_cannot_end_a_quotation() {
        assert_eq!(quoted(b"<sip:o'brien@x>"), "<sip:o?brien@x>");
        assert_eq!(quoted(b"a)b\"c(d"), "a?b?c?d");
        assert_eq!(
            quoted(b"\",RemoteAddress=\"IPV4/UDP/10.8.8.8/5060"),
            "?,RemoteAddress=?IPV4/UDP/10.8.8.8/5060"
        );
    }

    /// A string of the bytes that matter, from a simple generator with a fixed seed.
    fn strange_texts() -> impl Iterator<Item = Vec<u8>> {
        const BYTES: &[u8] =
            b"ab'\"()\r\n\x00\x1b\x7f\xc2\x85\x9b\xe2\x80\xa8\xae\xff:= token=pin:";
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize
        };
        (0..20_000).map(move |_| (0..next() % 40).map(|_| BYTES[next() % BYTES.len()]).collect())
    }

    #[test]
    fn whatever_comes_in_one_clean_line_comes_out() {
        for text in strange_texts() {
            let (plain, quoted) = (cleaned(&text), quoted(&text));
            for out in [&plain, &quoted] {
                assert!(!out.chars().any(|c| c.is_control() || is_deceptive(c)), "{text:?}");
                assert_eq!(cleaned(out.as_bytes()), *out, "cleaning twice changes nothing");
            }
            assert!(!quoted.contains(['\'', '"', '(', ')']), "{text:?}");
            let mut once = Vec::new();
            if redact(&text, &mut once) {
                let mut twice = Vec::new();
                let again = redact(&once, &mut twice);
                assert!(!again || twice == once, "redacting twice changes nothing: {text:?}");
            } else {
                assert!(once.is_empty());
            }
        }
    }

    #[test]
    fn secrets_are_hidden_and_their_surroundings_kept() {
        let header = "REGISTER x\r\nProxy-Authorization: Digest u=\"a\", response=\"0f\"\r\nX: y";
        assert_eq!(redacted(header), "REGISTER x\r\nProxy-Authorization: ***\r\nX: y");
        assert_eq!(redacted("Password=abc&x=1"), "Password=***&x=1");
        assert_eq!(redacted("u=1, response=\"0f\", nc=1"), "u=1, response=\"***\", nc=1");
        assert_eq!(
            redacted("a=crypto:1 AES_CM_128 inline:d0RmdmcmVC|2^20"),
            "a=crypto:1 AES_CM_128 inline:***|2^20"
        );
        assert_eq!(redacted("sip:x@y;user=phone"), "sip:x@y;user=phone");
        assert_eq!(redacted("token="), "token=");
    }
}
