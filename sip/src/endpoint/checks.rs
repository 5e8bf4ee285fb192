//! The checks of a UAS on a request outside of a dialog, in the order of RFC 3261 §8.2.
//!
//! Authentication and admission come before them and are the layer above's ([`super::Admission`]).
//! Merged requests (§8.2.2.2) are looked for where the usages are, in [`super`].

use super::{Extra, Reply};
use crate::agent::ACCEPT;
use crate::usage::Body;
use crate::wire::{Message, Method, Name, Params, Scheme, Uri};

/// §8.2.1, §8.2.2, §8.2.3 for everything but the body.
pub(super) fn check(message: &Message<'_>) -> Result<(), Reply<'static>> {
    method(message)?;
    request_uri(message)?;
    hops(message)?;
    require(message)
}

/// §8.2.1: 405 for what we know and do not do here, 501 for what we do not know.
fn method(message: &Message<'_>) -> Result<(), Reply<'static>> {
    match message.method() {
        Method::Invite | Method::Options | Method::Register | Method::Ack | Method::Cancel => {
            Ok(())
        }
        // In a dialog only.
        Method::Bye | Method::Info | Method::Prack | Method::Update => Err(Reply::status(481)),
        Method::Notify => Err(Reply::status(481)),
        Method::Refer | Method::Subscribe | Method::Message | Method::Publish => {
            Err(Reply::status(405))
        }
        Method::Other(_) => Err(Reply::status(501)),
    }
}

/// §8.2.2.1: a scheme that we do not route is 416; text that is no URI is 400.
fn request_uri(message: &Message<'_>) -> Result<(), Reply<'static>> {
    let uri = Uri::parse(message.request_uri()).map_err(|_| Reply::status(400))?;
    match uri.scheme {
        Scheme::Sip | Scheme::Sips | Scheme::Tel => Ok(()),
        Scheme::Urn | Scheme::Other(_) => Err(Reply::status(416)),
    }
}

/// §16.3 step 3, for a B2BUA as RFC 7332 asks: a request with no hop left goes nowhere.
fn hops(message: &Message<'_>) -> Result<(), Reply<'static>> {
    match message.max_forwards() {
        Some(0) => Err(Reply::status(483)),
        Some(_) | None => Ok(()),
    }
}

/// §8.2.2.3: no extension that must be understood is built.
pub(super) fn require(message: &Message<'_>) -> Result<(), Reply<'static>> {
    let required = [Name::Require, Name::ProxyRequire]
        .into_iter()
        .any(|name| message.values(name).any(|tag| !tag.is_empty()));
    if required { Err(Reply { extra: Extra::Unsupported, ..Reply::status(420) }) } else { Ok(()) }
}

/// §8.2.3 and §20.1: the session description of an INVITE; `None` when it has no body, or one that
/// may be ignored.
pub(super) fn session_body<'m>(message: &Message<'m>) -> Result<Option<Body<'m>>, Reply<'static>> {
    accept(message)?;
    if message.body().is_empty() {
        return Ok(None);
    }
    let encodings = || message.values(Name::ContentEncoding);
    if encodings().any(|encoding| !encoding.eq_ignore_ascii_case(b"identity")) {
        return Err(Reply { extra: Extra::AcceptEncoding, ..Reply::status(415) });
    }
    match session_part(message) {
        Some(body) => Ok(Some(body)),
        None if may_ignore_body(message) => Ok(None),
        None => Err(Reply { extra: Extra::Accept, ..Reply::status(415) }),
    }
}

/// The session description in a body, be it the whole or a part of a multipart one (RFC 5621 §3).
/// Other parts are not kept: a description passes end to end, a location document does not.
pub(super) fn session_part<'m>(message: &Message<'m>) -> Option<Body<'m>> {
    if message.body().is_empty() {
        return None;
    }
    let part = message.parts().find(|part| part.is(ACCEPT))?;
    Some(Body { content_type: ACCEPT, bytes: part.body })
}

/// RFC 3261 §20.11: a body whose handling is optional may be ignored when it is not understood.
fn may_ignore_body(message: &Message<'_>) -> bool {
    message.header(Name::ContentDisposition).is_some_and(|value| {
        let params = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
        let handling = Params::of_header(&value[params..]).value(b"handling");
        handling.is_some_and(|handling| handling.eq_ignore_ascii_case(b"optional"))
    })
}

/// A caller that accepts no session description cannot be answered (RFC 3261 §20.1, §21.4.7).
fn accept(message: &Message<'_>) -> Result<(), Reply<'static>> {
    let mut ranges = message.values(Name::Accept).peekable();
    if ranges.peek().is_none() || ranges.any(accepts_session) {
        return Ok(());
    }
    // An empty Accept accepts nothing (§20.1); so does one that names other types only.
    Err(Reply::status(406))
}

fn accepts_session(range: &[u8]) -> bool {
    let range = range.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let major_any = b"application/*";
    range == b"*/*"
        || range.eq_ignore_ascii_case(major_any)
        || range.eq_ignore_ascii_case(ACCEPT)
        || range.to_ascii_lowercase().starts_with(b"multipart/")
}
