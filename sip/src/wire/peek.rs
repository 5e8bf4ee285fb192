//! A cheap look at a datagram, before it is indexed: which shard is it for (ARCHITECTURE.md,
//! "Which shard")?
//!
//! Stops as soon as it has what it wants, checks little, and agrees with the index on every
//! message that the index accepts (a property test keeps it so).

use super::nameaddr::NameAddr;
use super::values::Values;
use super::via::{Version, Via};
use super::{Name, scan};

/// What the choice of a shard needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peek<'a> {
    /// It begins with `SIP/`.
    pub is_response: bool,
    /// It begins with `INVITE `.
    pub is_invite: bool,
    /// The branch of the topmost Via, empty if there is none. For a response it is the only field
    /// that is filled.
    pub top_branch: &'a [u8],
    /// The Call-ID.
    pub call_id: &'a [u8],
    /// The To tag.
    pub to_tag: Option<&'a [u8]>,
    /// The From tag.
    pub from_tag: Option<&'a [u8]>,
}

impl Peek<'_> {
    /// An INVITE outside of any dialog: the first to be refused under load.
    pub fn is_new_call(&self) -> bool {
        self.is_invite && self.to_tag.is_none()
    }
}

/// Looks at a datagram; `None` if it lacks what a shard is chosen by.
pub fn peek(bytes: &[u8]) -> Option<Peek<'_>> {
    let begin = bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n' | 0)).count();
    let text = &bytes[begin..];
    let is_response = text.len() >= 4 && text[..4].eq_ignore_ascii_case(b"SIP/");
    let mut peek = Peek {
        is_response,
        is_invite: text.starts_with(b"INVITE "),
        top_branch: b"",
        call_id: b"",
        to_tag: None,
        from_tag: None,
    };
    let mut wanted = Wanted { via: true, call_id: true, to: true, from: true };
    let mut at = memchr::memchr(b'\n', text)? + 1;
    while wanted.any() {
        if matches!(text.get(at), None | Some(b'\r' | b'\n')) {
            break;
        }
        let start = at;
        at = scan::line_end(text, start)?;
        look_at_line(&text[start..at], &mut wanted, &mut peek);
        if is_response && !wanted.via {
            return Some(peek);
        }
    }
    (!wanted.via && !wanted.call_id).then_some(peek)
}

struct Wanted {
    via: bool,
    call_id: bool,
    to: bool,
    from: bool,
}

impl Wanted {
    fn any(&self) -> bool {
        self.via || self.call_id || self.to || self.from
    }
}

fn look_at_line<'a>(line: &'a [u8], wanted: &mut Wanted, peek: &mut Peek<'a>) {
    // Most lines are told by their first letter.
    let is_candidate = line.first().is_some_and(|b| b"vViIcCtTfF".contains(b));
    if !is_candidate {
        return;
    }
    let length = line.iter().take_while(|b| scan::is_token_byte(**b)).count();
    let name = Name::of(&line[..length]);
    let Some(colon) = memchr::memchr(b':', &line[length..]).map(|i| length + i) else { return };
    let value = || scan::trim(&line[colon + 1..]);
    if name == Name::Via && wanted.via {
        let top = Values::new(value()).next().unwrap_or_default();
        // A broken parameter is the index's to judge.
        let front = || Via::parse_front(top, Version::Ours).map(|(via, _)| via);
        if let Ok(via) = Via::parse(top).or_else(|_| front()) {
            peek.top_branch = via.branch().unwrap_or_default();
            wanted.via = false;
        }
    } else if name == Name::CallId && wanted.call_id {
        peek.call_id = value();
        wanted.call_id = false;
    } else if name == Name::To && wanted.to {
        peek.to_tag = tag(value());
        wanted.to = false;
    } else if name == Name::From && wanted.from {
        peek.from_tag = tag(value());
        wanted.from = false;
    }
}

fn tag(value: &[u8]) -> Option<&[u8]> {
    NameAddr::parse_with(value, b"tag").ok().and_then(|(_, tag)| tag)
}
