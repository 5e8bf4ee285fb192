//! The index: one pass over a message that notes where everything is (RFC 3261 7), and then the
//! judgement of what every message must have (8.1.1, 18.3). Nothing is copied and nothing is
//! allocated after [`Index::new`].
//!
//! A fault does not end the pass: the first one is kept, the rest of the message is still indexed,
//! so that a request can be answered ([`Index::salvage`]).

use super::message::Message;
use super::method::CSeq;
use super::nameaddr::{AddrSpans, NameAddr};
use super::scan::{self, Span};
use super::values::Values;
use super::via::{Version, Via, ViaSpans};
use super::{
    Fault, Framing, HEADER_BYTES_MAX, HEADERS_MAX, MESSAGE_BYTES_MAX, Method, Name, Rule, startline,
};

/// A reusable index; one per thread is enough, since a message is dealt with before the next one
/// is read.
#[derive(Debug)]
pub struct Index {
    pub(crate) entries: Vec<Entry>,
    /// The place of each name's first entry plus one; 0 when there is none.
    first: [u8; Name::COUNT],
    pub(crate) start: Start,
    pub(crate) via: ViaSpans,
    pub(crate) from: AddrSpans,
    pub(crate) to: AddrSpans,
    pub(crate) call_id: Span,
    pub(crate) cseq_number: u32,
    pub(crate) cseq_method: Span,
    pub(crate) max_forwards: Option<u8>,
    pub(crate) body: Span,
    /// The message without what precedes and follows it.
    pub(crate) whole: Span,
    length: Option<u32>,
    has_via: bool,
    fault: Option<Fault>,
}

/// The start line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Start {
    pub(crate) is_request: bool,
    pub(crate) status: u16,
    /// Of a request.
    pub(crate) method: Span,
    /// The Request-URI, or the reason phrase.
    pub(crate) text: Span,
}

/// One header field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Name,
    pub(crate) raw_name: Span,
    pub(crate) value: Span,
    /// With its line end, folds included.
    pub(crate) line: Span,
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

impl Index {
    /// Allocates room for [`HEADERS_MAX`] header fields, once.
    pub fn new() -> Self {
        Self {
            entries: Vec::with_capacity(HEADERS_MAX),
            first: [0; Name::COUNT],
            start: Start::default(),
            via: ViaSpans::default(),
            from: AddrSpans::default(),
            to: AddrSpans::default(),
            call_id: Span::default(),
            cseq_number: 0,
            cseq_method: Span::default(),
            max_forwards: None,
            body: Span::default(),
            whole: Span::default(),
            length: None,
            has_via: false,
            fault: None,
        }
    }

    /// Indexes a datagram, or one frame of a stream as [`frame`](super::frame()) cuts it.
    ///
    /// After `Ok` every accessor of the message that does not give an `Option` has something to
    /// give.
    pub fn parse<'a>(
        &'a mut self,
        bytes: &'a [u8],
        framing: Framing,
    ) -> Result<Message<'a>, Fault> {
        self.reset();
        self.read(bytes, framing);
        match self.fault {
            Some(fault) => Err(fault),
            None => Ok(Message::new(bytes, self)),
        }
    }

    /// What the last [`parse`](Self::parse) of these bytes found although it failed, if it is a
    /// request that can be answered: the top Via says where to and whom for. What is missing
    /// besides is empty.
    pub fn salvage<'a>(&'a self, bytes: &'a [u8]) -> Option<Message<'a>> {
        let is_ack = self.start.method.in_bytes(bytes) == Method::Ack.as_bytes();
        (self.start.is_request && self.has_via && !is_ack).then(|| Message::new(bytes, self))
    }

    /// The first entry of this name.
    pub(crate) fn first(&self, name: Name) -> Option<(usize, &Entry)> {
        let at = usize::from(self.first[name as usize]).checked_sub(1)?;
        Some((at, &self.entries[at]))
    }

    fn reset(&mut self) {
        self.entries.clear();
        self.first = [0; Name::COUNT];
        self.start = Start::default();
        self.via = ViaSpans::default();
        self.from = AddrSpans::default();
        self.to = AddrSpans::default();
        self.call_id = Span::default();
        self.cseq_number = 0;
        self.cseq_method = Span::default();
        self.max_forwards = None;
        self.body = Span::default();
        self.whole = Span::default();
        self.length = None;
        self.has_via = false;
        self.fault = None;
    }

    fn note(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    fn read(&mut self, bytes: &[u8], framing: Framing) {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return self.note(Fault::new(Rule::MessageTooLong, MESSAGE_BYTES_MAX));
        }
        // RFC 3261 7.5: line ends before the start line are ignored.
        let begin = bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n' | 0)).count();
        match bytes.get(begin) {
            None => return self.note(Fault::new(Rule::KeepAlive, 0)),
            Some(&b) if !scan::is_token_byte(b) => {
                return self.note(Fault::new(Rule::NotSip, begin));
            }
            Some(_) => {}
        }
        let Some(end) = memchr::memchr(b'\n', &bytes[begin..]).map(|i| begin + i) else {
            return self.note(Fault::new(Rule::HeadUnterminated, bytes.len()));
        };
        let is_crlf = bytes[end - 1] == b'\r';
        match startline::read(bytes, begin, end - usize::from(is_crlf), &mut self.start) {
            Ok(()) => {}
            Err(fault) => self.note(fault),
        }
        let (head_end, lines) = self.lines(bytes, end + 1);
        self.line_ends(&bytes[..head_end], begin, is_crlf.then_some(lines + 1));
        self.judge(bytes);
        self.cut_body(bytes, begin, head_end, framing);
    }

    /// Indexes the header lines from `at` to the empty line; gives where the body begins, and how
    /// many line ends there were, folds included.
    fn lines(&mut self, bytes: &[u8], mut at: usize) -> (usize, usize) {
        let mut ends = 0;
        loop {
            match bytes.get(at..) {
                Some([b'\r', b'\n', ..]) => return (at + 2, ends + 1),
                Some([b'\n', ..]) => return (at + 1, ends),
                Some([_, ..]) => {}
                None | Some([]) => {
                    self.note(Fault::new(Rule::HeadUnterminated, bytes.len()));
                    return (bytes.len(), ends);
                }
            }
            let start = at;
            loop {
                let Some(i) = memchr::memchr(b'\n', &bytes[at..]) else {
                    self.note(Fault::new(Rule::HeadUnterminated, bytes.len()));
                    return (bytes.len(), ends);
                };
                at += i + 1;
                ends += usize::from(bytes[at - 2] == b'\r');
                // RFC 3261 7.3.1: a line that begins with white space goes on with the one before.
                if !matches!(bytes.get(at), Some(b' ' | b'\t')) {
                    break;
                }
            }
            self.line(bytes, start, at);
        }
    }

    fn line(&mut self, bytes: &[u8], start: usize, end: usize) {
        if end - start > HEADER_BYTES_MAX {
            return self.note(Fault::new(Rule::HeaderTooLong, start + HEADER_BYTES_MAX));
        }
        let line = &bytes[start..end];
        let length = line.iter().take_while(|b| scan::is_token_byte(**b)).count();
        let mut colon = length;
        while matches!(line.get(colon), Some(b' ' | b'\t')) {
            colon += 1;
        }
        if line.get(colon) != Some(&b':') || length == 0 {
            let rule = if line.contains(&b':') { Rule::HeaderName } else { Rule::HeaderLine };
            return self.note(Fault::new(rule, start + colon));
        }
        if self.entries.len() == HEADERS_MAX {
            return self.note(Fault::new(Rule::TooManyHeaders, start));
        }
        let name = Name::of(&line[..length]);
        let value = scan::trim(&line[colon + 1..]);
        let value_start = Span::of(bytes, value).start as usize;
        self.entries.push(Entry {
            name,
            raw_name: Span::new(start, start + length),
            value: Span::new(value_start, value_start + value.len()),
            line: Span::new(start, end),
        });
        let first = &mut self.first[name as usize];
        if *first == 0 {
            *first = u8::try_from(self.entries.len()).expect("HEADERS_MAX is below 256");
        } else if name.is_single() {
            self.note(Fault::new(Rule::Repeated(name), start));
        }
    }

    /// In a message whose start line ends with CRLF every line does, and no CR stands elsewhere.
    /// In one with LF there is no CR at all. So the number of CRs in the head tells.
    fn line_ends(&mut self, head: &[u8], begin: usize, crlf_lines: Option<usize>) {
        let head_after = &head[begin..];
        let returns = memchr::memchr_iter(b'\r', head_after).count();
        let feeds = match crlf_lines {
            Some(_) => memchr::memchr_iter(b'\n', head_after).count(),
            None => 0,
        };
        if crlf_lines.map_or(returns == 0, |lines| returns == lines && feeds == lines) {
            return;
        }
        let is_crlf = crlf_lines.is_some();
        let lone = |&at: &usize| {
            let is_pair = match head_after[at] {
                b'\r' => head_after.get(at + 1) == Some(&b'\n'),
                _ => !is_crlf || at > 0 && head_after[at - 1] == b'\r',
            };
            !is_pair || (!is_crlf && head_after[at] == b'\r')
        };
        if let Some(at) = memchr::memchr2_iter(b'\r', b'\n', head_after).find(lone) {
            self.note(Fault::new(Rule::BareLineEnd, begin + at));
        }
    }

    /// What each message must have, in the order in which an answer needs it.
    fn judge(&mut self, bytes: &[u8]) {
        self.judge_via(bytes);
        self.from = self.judge_address(bytes, Name::From);
        self.to = self.judge_address(bytes, Name::To);
        self.judge_call_id(bytes);
        self.judge_cseq(bytes);
        self.judge_max_forwards(bytes);
        self.judge_contact(bytes);
        if let Some((value, at)) = self.value(bytes, Name::ContentLength) {
            self.length = scan::decimal(value);
            if self.length.is_none() {
                self.note(Fault::new(Rule::ContentLength, at));
            }
        }
    }

    fn value<'a>(&self, bytes: &'a [u8], name: Name) -> Option<(&'a [u8], usize)> {
        let (_, entry) = self.first(name)?;
        Some((entry.value.in_bytes(bytes), entry.value.start as usize))
    }

    fn mandatory<'a>(&mut self, bytes: &'a [u8], name: Name) -> Option<(&'a [u8], usize)> {
        let found = self.value(bytes, name);
        if found.is_none() {
            self.note(Fault::new(Rule::Missing(name), bytes.len()));
        }
        found
    }

    fn judge_via(&mut self, bytes: &[u8]) {
        let Some((line, at)) = self.mandatory(bytes, Name::Via) else { return };
        let Some(value) = Values::new(line).next() else {
            return self.note(Fault::new(Rule::ViaProtocol, at));
        };
        let at = Span::of(bytes, value).start as usize;
        let parsed = match Via::parse(value) {
            Ok(via) => Ok(via),
            Err(fault) => {
                self.note(fault.shifted(at));
                // Broken parameters or another version do not hide where the answer goes.
                Via::parse_front(value, Version::Any).map(|(via, _)| via)
            }
        };
        if let Ok(via) = parsed {
            self.via = ViaSpans::new(bytes, &via);
            self.has_via = true;
        }
    }

    fn judge_address(&mut self, bytes: &[u8], name: Name) -> AddrSpans {
        let Some((value, at)) = self.mandatory(bytes, name) else { return AddrSpans::default() };
        match NameAddr::parse_with(value, b"tag") {
            Ok((addr, tag)) => AddrSpans::new(bytes, &addr, tag),
            Err(fault) => {
                self.note(fault.shifted(at));
                AddrSpans::new(bytes, &NameAddr::unparsed(value), None)
            }
        }
    }

    fn judge_call_id(&mut self, bytes: &[u8]) {
        let Some((value, at)) = self.mandatory(bytes, Name::CallId) else { return };
        self.call_id = Span::of(bytes, value);
        let stray = value.iter().position(|&b| b <= b' ' || b == 0x7f);
        if value.is_empty() || stray.is_some() {
            self.note(Fault::new(Rule::CallId, at + stray.unwrap_or(0)));
        }
    }

    fn judge_cseq(&mut self, bytes: &[u8]) {
        let Some((value, at)) = self.mandatory(bytes, Name::CSeq) else { return };
        match CSeq::parse(value) {
            Ok(cseq) => {
                let method = cseq.method.as_bytes();
                // A known method's text is a constant, not a piece of the message; it ends the
                // value either way.
                let end = at + value.len();
                self.cseq_number = cseq.number;
                self.cseq_method = Span::new(end - method.len(), end);
                if self.start.is_request && self.start.method.in_bytes(bytes) != method {
                    self.note(Fault::new(Rule::CSeqMismatch, end - method.len()));
                }
            }
            Err(fault) => self.note(fault.shifted(at)),
        }
    }

    fn judge_max_forwards(&mut self, bytes: &[u8]) {
        let Some((value, at)) = self.value(bytes, Name::MaxForwards) else { return };
        self.max_forwards = scan::decimal(value).and_then(|n| u8::try_from(n).ok());
        if self.max_forwards.is_none() {
            self.note(Fault::new(Rule::MaxForwards, at));
        }
    }

    fn judge_contact(&mut self, bytes: &[u8]) {
        let Some((start, _)) = self.first(Name::Contact) else { return };
        let is_register = self.start.method.in_bytes(bytes) == Method::Register.as_bytes();
        for i in start..self.entries.len() {
            let entry = self.entries[i];
            if entry.name != Name::Contact {
                continue;
            }
            for value in Values::new(entry.value.in_bytes(bytes)) {
                let at = Span::of(bytes, value).start as usize;
                if value == b"*" {
                    if self.start.is_request && !is_register {
                        self.note(Fault::new(Rule::ContactStar, at));
                    }
                } else if let Err(fault) = NameAddr::parse(value) {
                    self.note(fault.shifted(at));
                }
            }
        }
    }

    /// RFC 3261 18.3: a datagram's body ends where Content-Length says, or with the datagram; on a
    /// stream Content-Length is mandatory.
    fn cut_body(&mut self, bytes: &[u8], begin: usize, head_end: usize, framing: Framing) {
        let room = bytes.len() - head_end;
        let mut length = room;
        match (self.length, framing) {
            (Some(told), _) if told as usize > room => {
                self.note(Fault::new(Rule::BodyTooShort, bytes.len()));
            }
            (Some(told), _) => length = told as usize,
            (None, Framing::Datagram) => {}
            (None, Framing::Stream) => {
                self.note(Fault::new(Rule::Missing(Name::ContentLength), head_end));
            }
        }
        self.body = Span::new(head_end, head_end + length);
        self.whole = Span::new(begin, head_end + length);
    }
}
