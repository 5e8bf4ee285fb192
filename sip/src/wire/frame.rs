//! Where a message ends on a stream (RFC 3261 18.3, 7.5): the head's empty line, then Content-Length bytes.
//!
//! A stream whose framing is lost cannot be found again: every fault here ends the connection.

use super::scan;
use super::{Fault, HEAD_BYTES_MAX, MESSAGE_BYTES_MAX, Name, Rule};

/// What stands at the beginning of a stream's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// So many bytes are one message.
    Message(usize),
    /// So many bytes are line ends between messages, or a keep-alive: four of them are a ping (RFC 5626 4.4.1).
    LineEnds(usize),
    /// Not enough bytes yet.
    Partial,
}

/// Looks at the beginning of a buffer.
pub fn frame(bytes: &[u8]) -> Result<Frame, Fault> {
    let blank = bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
    if blank > 0 {
        return Ok(Frame::LineEnds(blank));
    }
    let Some(head) = head_end(bytes) else {
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(Fault::new(Rule::MessageTooLong, HEAD_BYTES_MAX));
        }
        return Ok(Frame::Partial);
    };
    let length = content_length(&bytes[..head])?;
    let whole = head.saturating_add(length as usize);
    if head > HEAD_BYTES_MAX || whole > MESSAGE_BYTES_MAX {
        return Err(Fault::new(Rule::MessageTooLong, head));
    }
    Ok(if whole <= bytes.len() { Frame::Message(whole) } else { Frame::Partial })
}

/// Just behind the empty line.
fn head_end(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes).find_map(|at| match bytes.get(at + 1..) {
        Some([b'\r', b'\n', ..]) => Some(at + 3),
        Some([b'\n', ..]) => Some(at + 2),
        _ => None,
    })
}

fn content_length(head: &[u8]) -> Result<u32, Fault> {
    let mut found = None;
    let mut at = 0;
    while let Some(end) = scan::line_end(head, at) {
        let start = at;
        let line = &head[start..end];
        at = end;
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        if Name::of(scan::trim(&line[..colon])) != Name::ContentLength {
            continue;
        }
        if found.is_some() {
            return Err(Fault::new(Rule::Repeated(Name::ContentLength), start));
        }
        let number = scan::decimal(scan::trim(&line[colon + 1..]));
        found = Some(number.ok_or(Fault::new(Rule::ContentLength, start + colon + 1))?);
    }
    found.ok_or(Fault::new(Rule::Missing(Name::ContentLength), head.len()))
}
