//! The wire layer: an index of a message instead of a tree, views instead of strings, and a builder.

mod body;
mod build;
mod fault;
mod frame;
mod index;
mod message;
mod method;
mod name;
mod nameaddr;
mod params;
mod peek;
mod respond;
mod scan;
mod startline;
mod unescape;
mod uri;
mod uri_equal;
mod values;
mod via;

pub use body::{Part, Parts};
pub use build::{Builder, push_decimal, reason_phrase};
pub use fault::{Fault, Rule};
pub use frame::{Frame, frame};
pub use index::Index;
pub use message::{Field, Message, StartLine};
pub use method::{CSEQ_MAX, CSeq, Method};
pub use name::Name;
pub use nameaddr::{NameAddr, unfold, unquote};
pub use params::{Param, ParamIter, Params};
pub use peek::{Peek, peek};
pub use respond::{CopyWith, DEFAULT_PORT, copy_response_head, response_address};
pub use unescape::{escape_user, unescape};
pub use uri::{Scheme, Uri};
pub use values::Values;
pub use via::{MAGIC_COOKIE, Via};

/// The longest message: what a UDP datagram can carry.
pub const MESSAGE_BYTES_MAX: usize = 65_535;
/// The longest head of a message on a stream: a peer must not make us keep more for a message that never ends.
pub const HEAD_BYTES_MAX: usize = 32_768;
/// The most header fields of a message. RFC 4475's longest has 44; an index must stay small enough for the cache.
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
