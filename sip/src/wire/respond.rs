//! What every response copies from its request (RFC 3261 8.2.6.2), and where it goes (18.2.1,
//! 18.2.2, RFC 3581).

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use super::build::push_decimal;
use super::message::Message;
use super::nameaddr::unfold;
use super::via::Via;
use super::{Name, scan};

/// RFC 3261 18.2.2: where the sent-by names no port.
pub const DEFAULT_PORT: u16 = 5060;

/// What else is copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CopyWith {
    /// Record-Route lines: for a response that makes a dialog (RFC 3261 12.1.1).
    pub record_route: bool,
    /// Timestamp: for a 100 (8.2.6.1).
    pub timestamp: bool,
}

/// Appends the header lines that every response copies, each with canonical name, without folds,
/// ended by CRLF: Via (all in order; the top one with `received` and `rport` as `source` says),
/// From, To, Call-ID, CSeq.
///
/// The To gets `to_tag` if it has no tag of its own. What the request lacks is left out.
pub fn copy_response_head(
    out: &mut Vec<u8>,
    request: &Message<'_>,
    to_tag: Option<&[u8]>,
    source: SocketAddr,
    with: CopyWith,
) {
    for (i, line) in request.headers(Name::Via).enumerate() {
        out.extend_from_slice(b"Via: ");
        if i == 0 {
            push_top_via(out, line, &request.top_via(), source);
        } else {
            push_value(out, line);
        }
        out.extend_from_slice(b"\r\n");
    }
    if with.record_route {
        for line in request.headers(Name::RecordRoute) {
            push_line(out, Name::RecordRoute, line);
        }
    }
    if let Some(from) = request.header(Name::From) {
        push_line(out, Name::From, from);
    }
    if let Some(to) = request.header(Name::To) {
        push_line(out, Name::To, to);
        if let (Some(tag), None) = (to_tag, request.to_tag()) {
            out.truncate(out.len() - 2);
            for piece in [b";tag=", tag, b"\r\n"] {
                out.extend_from_slice(piece);
            }
        }
    }
    for name in [Name::CallId, Name::CSeq] {
        if let Some(value) = request.header(name) {
            push_line(out, name, value);
        }
    }
    if with.timestamp
        && let Some(value) = request.header(Name::Timestamp)
    {
        push_line(out, Name::Timestamp, value);
    }
}

/// Where a response to this request goes over UDP: the source address; its port if `rport` was
/// asked for, else that of the sent-by.
///
/// `received` is the source address by 18.2.1, so it needs no look at the parameter, and a value
/// that the sender wrote there itself is not believed. `maddr` is not followed either: it would
/// send answers to whomever a stranger names.
pub fn response_address(request: &Message<'_>, source: SocketAddr) -> SocketAddr {
    let via = request.top_via();
    let port = match via.rport() {
        Some(_) => source.port(),
        None => via.port.unwrap_or(DEFAULT_PORT),
    };
    SocketAddr::new(source.ip(), port)
}

fn push_line(out: &mut Vec<u8>, name: Name, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    push_value(out, value);
    out.extend_from_slice(b"\r\n");
}

/// A copied value has no folds: so no line end of a foreign message, LF-only ones among them, gets
/// into ours.
fn push_value(out: &mut Vec<u8>, value: &[u8]) {
    if memchr::memchr2(b'\r', b'\n', value).is_some() {
        unfold(value, out);
    } else {
        out.extend_from_slice(value);
    }
}

/// The first Via line with its first value stamped.
fn push_top_via(out: &mut Vec<u8>, line: &[u8], via: &Via<'_>, source: SocketAddr) {
    let ip = source.ip().to_canonical();
    let rport = via.rport();
    let has_received = via.params.find(b"received").is_some();
    // RFC 3581 4: who asks for rport gets received too.
    let wants_received = rport.is_some() || via.host_ip().map(|h| h.to_canonical()) != Some(ip);
    if rport.is_none() && !wants_received && !has_received {
        return push_value(out, line);
    }
    let front = via.raw.len() - via.params.raw().len();
    push_value(out, scan::trim(&via.raw[..front]));
    for param in via.params.iter() {
        if param.name.eq_ignore_ascii_case(b"received") || param.name.eq_ignore_ascii_case(b"rport")
        {
            continue;
        }
        out.push(b';');
        push_value(out, param.name);
        if let Some(value) = param.value {
            out.push(b'=');
            push_value(out, value);
        }
    }
    if wants_received {
        out.extend_from_slice(b";received=");
        push_ip(out, ip);
    }
    if rport.is_some() {
        out.extend_from_slice(b";rport=");
        push_decimal(out, u64::from(source.port()));
    }
    // The top value is the first of its line, so what follows it are the others.
    let end = via.raw.as_ptr() as usize + via.raw.len() - line.as_ptr() as usize;
    push_value(out, &line[end.min(line.len())..]);
}

fn push_ip(out: &mut Vec<u8>, ip: IpAddr) {
    if let IpAddr::V4(v4) = ip {
        for (i, octet) in v4.octets().into_iter().enumerate() {
            if i > 0 {
                out.push(b'.');
            }
            push_decimal(out, u64::from(octet));
        }
        return;
    }
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{ip}");
}
