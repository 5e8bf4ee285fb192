//! The wire layer: an index of a message instead of a tree, views instead of strings, and a
//! builder (RFC 3261 7, 18.3, 19, 20, 25; RFC 3581, 3966, 4475, 5118).
//!
//! ```text
//!  datagram ── peek ──────────────► which shard
//!     │
//!     └─ Index::parse ─ Ok ───────► Message: header, values, top_via, from, cseq, body ...
//!                    └─ Err(Fault) ► Rule::status and Index::salvage ► an answer, or silence
//!
//!  Message ── copy_response_head ──► Builder ──► bytes
//! ```
//!
//! * **One pass, no copy, no allocation.** The index holds offsets; one [`Index`] serves a thread
//!   for ever.
//! * **Bytes, not text.** Nothing is turned into UTF-8; a value is what stood between its white
//!   space. Values with folds keep them: the parsers of this module read a fold as white space,
//!   and [`unfold`] is there for others.
//! * **Checked once.** After `Ok` the start line with its Request-URI, the top Via, From, To,
//!   Call-ID, CSeq, Max-Forwards, every Contact and Content-Length are sound. Other header fields
//!   are judged by whoever reads them: by [`NameAddr::parse`], [`Via::parse`], [`Uri::parse`],
//!   [`Message::number`].
//! * **A fault names byte and rule**, and what could be indexed stays, so that a request can be
//!   refused with its own identifiers. A request is answered when its rule has a status
//!   ([`Rule::status`]) *and* it can be salvaged ([`Index::salvage`]): that needs a top Via, and
//!   is never true for a response or an ACK.
//!
//! It does not look into bodies beyond finding their parts, does not compare credentials, keeps no
//! state, and decides nothing that needs another message.
//!
//! # What is read although it is against the grammar, and why
//!
//! * line ends before the start line, NULs among them: skipped (RFC 3261 7.5; keep-alives of some
//!   phones)
//! * lines that end with LF: as with CRLF, if **all** do; a mixture is a 400 (scripts and old
//!   gateways; a mixture lets two readers see two messages)
//! * no reason phrase, nor the space before it: empty (RFC 4475 3.1.1.13 has the space, many
//!   senders have not)
//! * `SIP/2.0` in any case: as if in capitals (7.1: the string is compared without case)
//! * unquoted display name of any characters but `"`, `<`, `;`: as it stands (RFC 4475 3.1.2.15
//!   allows; common with names in UTF-8)
//! * `sip:@host`: no user (senders without a user part)
//! * value of a parameter with any byte but white space, `;`, `,`, `"`, `<`, `>`: as it stands
//!   (`received=[2001:db8::1]`, RFC 5118 4.5; odd tags)
//! * `_` in host names: a letter (names of hosts in the field)
//! * `[2001:db8:::192.0.2.1]`: without the third colon (RFC 5118 4.10)
//! * a zone in brackets, `%254` or `%eth0`: part of the host's text, no part of the address (RFC
//!   6874 and what was before it)
//! * an unescaped `@` in URI headers: the first `@` ends the user part (`Replaces` in Refer-To of
//!   some phones)
//! * no Content-Length in a datagram: the body ends with it (18.3)
//! * more bytes than Content-Length in a datagram: discarded (18.3)
//! * no tag in From, no branch, no Max-Forwards: absent (RFC 2543 peers, RFC 4475 3.4.1;
//!   the layer above decides)
//! * malformed Date, Expires, Warning and the like: not looked at (they do not change how the
//!   message is handled)
//! * multipart without its closing delimiter: the last part ends with the body (senders that
//!   forget it)
//!
//! # What is refused although others read it
//!
//! * other white space than two single spaces in the request line (RFC 4475 3.1.2.8-10; two
//!   readers, two targets)
//! * a lone CR or LF in the head (a value with it, copied into another message, would be a header
//!   field)
//! * From, To, Call-ID, CSeq, Max-Forwards, Content-Type or Content-Length twice (RFC 4475 3.3.8,
//!   3.3.9)
//! * header fields in the Request-URI (RFC 3261 19.1.1, RFC 4475 3.1.2.11)
//! * a head without its empty line (the datagram was cut)

mod body;
mod build;
mod fault;
mod frame;
mod index;
mod inlet;
mod message;
mod method;
mod name;
mod nameaddr;
mod params;
mod peek;
mod reason;
mod respond;
mod scan;
mod startline;
mod unescape;
mod uri;
mod uri_equal;
mod values;
mod via;

pub use body::{Part, Parts};
pub use build::{Builder, push_decimal};
pub use fault::{Fault, Rule};
pub use frame::{Frame, frame};
pub use index::Index;
pub use inlet::{Inlet, Piece};
pub use message::{Field, Message, StartLine};
pub use method::{CSEQ_MAX, CSeq, Method};
pub use name::Name;
pub use nameaddr::{NameAddr, unfold, unquote};
pub use params::{Param, ParamIter, Params};
pub use peek::{Peek, peek};
pub use reason::reason_phrase;
pub use respond::{CopyWith, DEFAULT_PORT, copy_response_head, response_address};
pub use unescape::{escape_user, unescape};
pub use uri::{Scheme, Uri};
pub use values::Values;
pub use via::{MAGIC_COOKIE, Via};

/// The longest message: what a UDP datagram can carry.
pub const MESSAGE_BYTES_MAX: usize = 65_535;
/// The longest head of a message on a stream: a peer must not make us keep more for a message that
/// never ends.
pub const HEAD_BYTES_MAX: usize = 32_768;
/// The most header fields of a message. RFC 4475's longest has 44; an index must stay small enough
/// for the cache.
pub const HEADERS_MAX: usize = 128;
/// The longest header field with its folds: an Identity with a long token has 2-4 KiB.
pub const HEADER_BYTES_MAX: usize = 8_192;
/// The longest Request-URI: a browser's limit, far above any phone's. Beyond it: 414.
pub const URI_BYTES_MAX: usize = 2_048;
/// The most parts of a body that are looked at.
pub const PARTS_MAX: usize = 32;

/// How the bytes came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// A datagram: it ends the body; what Content-Length leaves over is discarded.
    Datagram,
    /// A piece of a stream: Content-Length is mandatory.
    Stream,
}
