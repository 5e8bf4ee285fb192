//! The view of an indexed message: bytes and index side by side. Copying it is cheap.

use super::body::{self, Parts};
use super::index::{Entry, Index};
use super::method::{CSeq, Method};
use super::nameaddr::NameAddr;
use super::params::Params;
use super::scan;
use super::uri::Uri;
use super::values::Values;
use super::via::Via;
use super::{Fault, Name};

/// An indexed message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    index: &'a Index,
}

/// The start line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartLine<'a> {
    /// A request line.
    Request {
        /// The method.
        method: Method<'a>,
        /// The Request-URI as written.
        uri: &'a [u8],
    },
    /// A status line.
    Response {
        /// From 100 to 699.
        status: u16,
        /// The reason phrase, often empty, any bytes.
        reason: &'a [u8],
    },
}

/// One header field as it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field<'a> {
    /// The name, [`Name::Other`] if it is not a known one.
    pub name: Name,
    /// The name as written.
    pub raw_name: &'a [u8],
    /// The value without the white space around it; folds are left in place.
    pub value: &'a [u8],
    /// The whole line with its line end, folds included.
    pub line: &'a [u8],
}

impl<'a> Message<'a> {
    pub(crate) fn new(bytes: &'a [u8], index: &'a Index) -> Self {
        Self { bytes, index }
    }

    /// The start line.
    pub fn start(&self) -> StartLine<'a> {
        let text = self.index.start.text.in_bytes(self.bytes);
        if self.is_request() {
            StartLine::Request { method: self.method(), uri: text }
        } else {
            StartLine::Response { status: self.index.start.status, reason: text }
        }
    }

    /// Is it a request?
    pub fn is_request(&self) -> bool {
        self.index.start.is_request
    }

    /// The status code of a response.
    pub fn status(&self) -> Option<u16> {
        (!self.is_request()).then_some(self.index.start.status)
    }

    /// The method of a request; of a response that of its CSeq.
    pub fn method(&self) -> Method<'a> {
        let start = &self.index.start;
        let span = if start.is_request { start.method } else { self.index.cseq_method };
        Method::of(span.in_bytes(self.bytes))
    }

    /// The Request-URI; empty for a response.
    pub fn request_uri(&self) -> &'a [u8] {
        if self.is_request() { self.index.start.text.in_bytes(self.bytes) } else { b"" }
    }

    /// The first value of this name, folds left in place.
    pub fn header(&self, name: Name) -> Option<&'a [u8]> {
        self.index.first(name).map(|(_, entry)| entry.value.in_bytes(self.bytes))
    }

    /// The value of each line of this name.
    pub fn headers(&self, name: Name) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.entries(name).map(move |entry| entry.value.in_bytes(bytes))
    }

    /// The values of all lines of this name, comma lists split. Not for lists of challenges or
    /// credentials, see [`Values`].
    pub fn values(&self, name: Name) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.headers(name).flat_map(Values::new)
    }

    /// The value of each line of a name given as text, in any case; known names are found in all
    /// their forms.
    pub fn named(&self, name: &[u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let known = Name::of(name);
        let text: smallvec::SmallVec<[u8; 64]> = name.into();
        let bytes = self.bytes;
        self.entries(known).filter_map(move |entry| {
            let is_same =
                known != Name::Other || entry.raw_name.in_bytes(bytes).eq_ignore_ascii_case(&text);
            is_same.then(|| entry.value.in_bytes(bytes))
        })
    }

    /// All header fields in order.
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let bytes = self.bytes;
        self.index.entries.iter().map(move |entry| Field {
            name: entry.name,
            raw_name: entry.raw_name.in_bytes(bytes),
            value: entry.value.in_bytes(bytes),
            line: entry.line.in_bytes(bytes),
        })
    }

    /// The topmost Via value.
    pub fn top_via(&self) -> Via<'a> {
        self.index.via.view(self.bytes)
    }

    /// The From address.
    pub fn from(&self) -> NameAddr<'a> {
        self.index.from.view(self.bytes)
    }

    /// The To address.
    pub fn to(&self) -> NameAddr<'a> {
        self.index.to.view(self.bytes)
    }

    /// The From tag; a peer of RFC 2543 may send none.
    pub fn from_tag(&self) -> Option<&'a [u8]> {
        self.index.from.tag.map(|span| span.in_bytes(self.bytes))
    }

    /// The To tag; a request has it inside a dialog only.
    pub fn to_tag(&self) -> Option<&'a [u8]> {
        self.index.to.tag.map(|span| span.in_bytes(self.bytes))
    }

    /// The Call-ID.
    pub fn call_id(&self) -> &'a [u8] {
        self.index.call_id.in_bytes(self.bytes)
    }

    /// The CSeq.
    pub fn cseq(&self) -> CSeq<'a> {
        let method = Method::of(self.index.cseq_method.in_bytes(self.bytes));
        CSeq { number: self.index.cseq_number, method }
    }

    /// Max-Forwards, if the message has one.
    pub fn max_forwards(&self) -> Option<u8> {
        self.index.max_forwards
    }

    /// The first Contact; `None` when there is none or it is `*`.
    pub fn contact(&self) -> Option<NameAddr<'a>> {
        self.contacts().next()
    }

    /// All Contact addresses; `*` is left out, see [`Message::is_contact_star`].
    pub fn contacts(&self) -> impl Iterator<Item = NameAddr<'a>> + use<'a> {
        self.values(Name::Contact).filter_map(|value| NameAddr::parse(value).ok())
    }

    /// Is the Contact of this REGISTER `*` (RFC 3261 10.2.2)?
    pub fn is_contact_star(&self) -> bool {
        self.values(Name::Contact).any(|value| value == b"*")
    }

    /// The Request-URI taken apart. It was checked already when the message was indexed, so only a
    /// response and a salvaged request fail.
    pub fn parse_request_uri(&self) -> Result<Uri<'a>, Fault> {
        Uri::parse(self.request_uri())
    }

    /// A header field whose value is one decimal number; `None` when absent, malformed or above
    /// 2^32 - 1.
    pub fn number(&self, name: Name) -> Option<u32> {
        let value = self.header(name)?;
        // Retry-After and Session-Expires have parameters or a comment behind the number.
        let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
        match value.get(digits) {
            None | Some(b';' | b'(' | b' ' | b'\t' | b'\r' | b'\n') => {
                scan::decimal(&value[..digits])
            }
            Some(_) => None,
        }
    }

    /// The media type of the body without its parameters, `type/subtype` as written.
    pub fn content_type(&self) -> Option<(&'a [u8], Params<'a>)> {
        self.header(Name::ContentType).map(body::media_type)
    }

    /// The body parts: one for a plain body, each part of a multipart one (nested ones are
    /// entered).
    pub fn parts(&self) -> Parts<'a> {
        Parts::new(self.header(Name::ContentType), self.body())
    }

    /// The first body part of this media type, wherever it stands: `application/sdp` inside
    /// `multipart/mixed` too.
    pub fn part(&self, media_type: &[u8]) -> Option<&'a [u8]> {
        self.parts().find(|part| part.is(media_type)).map(|part| part.body)
    }

    /// The body, cut to Content-Length.
    pub fn body(&self) -> &'a [u8] {
        self.index.body.in_bytes(self.bytes)
    }

    /// The message from its start line to the end of its body.
    pub fn bytes(&self) -> &'a [u8] {
        self.index.whole.in_bytes(self.bytes)
    }

    fn entries(&self, name: Name) -> impl Iterator<Item = &'a Entry> + use<'a> {
        let index = self.index;
        let from = index.first(name).map_or(index.entries.len(), |(at, _)| at);
        index.entries[from..].iter().filter(move |entry| entry.name == name)
    }
}
