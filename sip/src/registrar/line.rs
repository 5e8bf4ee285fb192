//! Bindings as lines of a file: one JSON object each. What is read later counts.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use turn::Wall;

use super::TEXT_MAX;
use super::binding::{Aor, Binding, Parts};
use crate::path::{Path, Transport};

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// An endpoint can be reached.
    Bound {
        /// The endpoint.
        aor: Box<str>,
        /// How.
        binding: Box<Binding>,
    },
    /// It can no longer be reached there.
    Removed {
        /// The endpoint.
        aor: Box<str>,
        /// The contact's URI.
        contact: Box<[u8]>,
        /// Since when: what was made later is meant by no such line.
        at: Wall,
    },
}

/// A line that is none.
#[derive(Debug)]
pub struct BadLine(String);

impl std::fmt::Display for BadLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadLine {}

#[derive(Serialize, Deserialize)]
struct Written<'a> {
    aor: std::borrow::Cow<'a, str>,
    contact: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    removed: bool,
    /// Microseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<i64>,
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    more: Option<More>,
}

#[derive(Serialize, Deserialize)]
struct More {
    call_id: String,
    cseq: u32,
    q: u16,
    /// Microseconds since the Unix epoch.
    expires_at: i64,
    registered_at: i64,
    transport: String,
    local: SocketAddr,
    remote: SocketAddr,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    instance: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    reg_id: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    path: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    user_agent: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Binding {
    /// Appends the line that says so, without its line feed.
    pub fn to_line(&self, aor: &str, out: &mut String) {
        let way = self.way();
        let written = Written {
            aor: aor.into(),
            contact: text(self.contact()),
            removed: false,
            at: None,
            more: Some(More {
                call_id: text(self.call_id()),
                cseq: self.cseq(),
                q: self.q(),
                expires_at: self.expires_at().as_micros(),
                registered_at: self.registered_at().as_micros(),
                transport: way.transport.as_via().into(),
                local: way.local,
                remote: way.remote,
                instance: text(self.instance()),
                reg_id: self.reg_id(),
                path: text(self.path_header()),
                user_agent: text(self.user_agent()),
            }),
        };
        write(&written, out);
    }
}

/// Appends the line that says that a binding is gone, without its line feed.
pub fn removed_to_line(aor: &str, contact: &[u8], at: Wall, out: &mut String) {
    let (contact, at) = (text(contact), Some(at.as_micros()));
    let written = Written { aor: aor.into(), contact, removed: true, at, more: None };
    write(&written, out);
}

impl Line {
    /// The address of record.
    pub fn aor(&self) -> &str {
        match self {
            Self::Bound { aor, .. } | Self::Removed { aor, .. } => aor,
        }
    }

    /// Does to `aor` what the line says, unless something newer is known. Doing it twice does no
    /// harm.
    pub fn apply(self, aor: &mut Aor) {
        match self {
            Self::Bound { binding, .. } => {
                let is_newer = |it: &Binding| {
                    it.contact() == binding.contact()
                        && it.registered_at() > binding.registered_at()
                };
                if !aor.bindings().iter().any(is_newer) {
                    aor.restore(*binding);
                }
            }
            Self::Removed { contact, at, .. } => {
                aor.remove(|it| *it.contact() == *contact && it.registered_at() <= at);
            }
        }
    }

    /// Reads a line. The binding belongs to no shard yet (`keeper` 0).
    pub fn parse(line: &str) -> Result<Self, BadLine> {
        let bad = |error: &dyn std::fmt::Display| BadLine(error.to_string());
        let written: Written<'_> = serde_json::from_str(line).map_err(|error| bad(&error))?;
        let aor = written.aor.as_ref().into();
        let contact = bytes(&written.contact);
        if written.removed {
            let at = Wall::from_micros(written.at.unwrap_or(i64::MAX));
            return Ok(Self::Removed { aor, contact: contact.into(), at });
        }
        let more = written.more.ok_or_else(|| bad(&"neither `removed` nor a whole binding"))?;
        let transport =
            [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Ws, Transport::Wss]
                .into_iter()
                .find(|it| it.as_via() == more.transport)
                .ok_or_else(|| bad(&format!("no transport is called `{}`", more.transport)))?;
        let [call_id, instance, path, user_agent] =
            [&more.call_id, &more.instance, &more.path, &more.user_agent].map(|it| bytes(it));
        let texts = [&contact, &call_id, &instance, &path, &user_agent];
        if texts.iter().any(|text| text.len() > TEXT_MAX) {
            return Err(bad(&format!("a text is longer than {TEXT_MAX} bytes")));
        }
        let binding = Binding::new(&Parts {
            contact: &contact,
            call_id: &call_id,
            instance: &instance,
            path: &path,
            user_agent: &user_agent,
            reg_id: more.reg_id,
            cseq: more.cseq,
            q: more.q.min(1000),
            keeper: 0,
            expires_at: Wall::from_micros(more.expires_at),
            registered_at: Wall::from_micros(more.registered_at),
            way: Path { transport, local: more.local, remote: more.remote },
        });
        Ok(Self::Bound { aor, binding: Box::new(binding) })
    }
}

fn write(written: &Written<'_>, out: &mut String) {
    match serde_json::to_string(written) {
        Ok(line) => out.push_str(&line),
        Err(error) => debug_assert!(false, "plain values can be written: {error}"),
    }
}

/// Bytes as text: what is no UTF-8 is read back byte by byte, as Latin-1 behind U+FFFF.
fn text(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => std::iter::once(RAW).chain(bytes.iter().map(|byte| char::from(*byte))).collect(),
    }
}

fn bytes(text: &str) -> Vec<u8> {
    match text.strip_prefix(RAW) {
        Some(raw) => raw.chars().map(|it| u8::try_from(it).unwrap_or(b'?')).collect(),
        None => text.as_bytes().into(),
    }
}

/// Marks bytes that are no UTF-8: no text that came from outside begins so.
const RAW: char = '\u{ffff}';

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(contact: &[u8]) -> Binding {
        Binding::new(&Parts {
            contact,
            call_id: b"a\"b\\c@x",
            instance: b"\"<urn:uuid:1>\"",
            path: b"<sip:p1;lr>, <sip:p2;lr>",
            user_agent: b"phone \xff\x01",
            reg_id: 2,
            cseq: 7,
            q: 500,
            keeper: 0,
            expires_at: Wall::from_micros(1_800_000_000_000_000),
            registered_at: Wall::from_micros(1_700_000_000_000_000),
            way: Path {
                transport: Transport::Tcp,
                local: "[::1]:5060".parse().unwrap(),
                remote: "192.0.2.1:40000".parse().unwrap(),
            },
        })
    }

    #[test]
    fn a_binding_comes_back_from_its_line() {
        for contact in [&b"sip:1000@192.0.2.1"[..], b"sip:\"\\\n@x", b"sip:\xc3\xa4\xff@x"] {
            let mut line = String::new();
            let binding = binding(contact);
            binding.to_line("1000", &mut line);
            assert!(!line.contains('\n'), "{line}");
            let read = Line::parse(&line).unwrap();
            assert_eq!(read, Line::Bound { aor: "1000".into(), binding: Box::new(binding) });
            line.clear();
            let at = Wall::from_micros(7);
            removed_to_line("a\"b", contact, at, &mut line);
            let read = Line::parse(&line).unwrap();
            assert_eq!(read, Line::Removed { aor: "a\"b".into(), contact: contact.into(), at });
        }
    }

    #[test]
    fn lines_may_be_applied_twice_and_in_the_wrong_order() {
        let at = |seconds: i64| Wall::from_micros(1_700_000_000_000_000 + seconds * 1_000_000);
        let removed = |seconds| Line::Removed {
            aor: "1000".into(),
            contact: b"sip:x".as_slice().into(),
            at: at(seconds),
        };
        let bound = || Line::Bound { aor: "1000".into(), binding: Box::new(binding(b"sip:x")) };
        let mut aor = Aor::default();
        for line in [bound(), bound(), removed(-1)] {
            line.apply(&mut aor);
            assert_eq!(aor.bindings().len(), 1);
        }
        removed(0).apply(&mut aor);
        assert!(aor.is_empty());
    }

    #[test]
    fn what_is_no_line_says_why() {
        let mut line = String::new();
        binding(b"sip:x").to_line("1000", &mut line);
        for (line, why) in [
            (line.replace("\"TCP\"", "\"SCTP\""), "no transport"),
            (line[..line.len() / 2].to_owned(), "EOF"),
            ("{\"aor\":\"x\",\"contact\":\"y\"}".to_owned(), "whole binding"),
            (line.replace("sip:x", &"x".repeat(TEXT_MAX + 1)), "longer"),
            ("[]".to_owned(), "invalid"),
        ] {
            let fault = Line::parse(&line).unwrap_err().to_string();
            assert!(fault.contains(why), "{fault}");
        }
    }
}
