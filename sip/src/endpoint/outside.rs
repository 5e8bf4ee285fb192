//! Requests of ours that begin no dialog: REGISTER and OPTIONS (RFC 3261 §8.1.1, §10.2, §11.1).

use crate::agent::{Agent, MAX_FORWARDS, push_via};
use crate::path::Path;
use crate::wire::{Builder, Name, push_decimal};

/// A request outside of any dialog.
#[derive(Clone, Copy, Debug)]
pub struct Outside<'a> {
    /// The way to the first hop.
    pub path: Path,
    /// REGISTER or OPTIONS.
    pub method: &'a [u8],
    /// The Request-URI.
    pub uri: &'a [u8],
    /// The URI of From.
    pub from: &'a [u8],
    /// Its tag.
    pub from_tag: &'a [u8],
    /// The URI of To.
    pub to: &'a [u8],
    /// The Call-ID: one for all REGISTERs of one registration (§10.2).
    pub call_id: &'a [u8],
    /// The number of CSeq.
    pub cseq: u32,
    /// Further header lines, each ended by CRLF.
    pub lines: &'a [u8],
}

impl Outside<'_> {
    pub(super) fn write(&self, out: &mut Vec<u8>, branch: &[u8], agent: &Agent) {
        let builder = Builder::request(out, self.method, self.uri)
            .composed(Name::Via, |out| push_via(out, &self.path, branch))
            .number(Name::MaxForwards, u64::from(MAX_FORWARDS))
            .parts(Name::From, &[b"<", self.from, b">;tag=", self.from_tag])
            .parts(Name::To, &[b"<", self.to, b">"])
            .header(Name::CallId, self.call_id)
            .composed(Name::CSeq, |out| {
                push_decimal(out, u64::from(self.cseq));
                out.push(b' ');
                out.extend_from_slice(self.method);
            })
            .line(self.lines);
        agent.user_agent(builder).no_body();
    }
}
