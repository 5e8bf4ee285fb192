//! Where a message ends on a stream (RFC 3261 18.3, 7.5): the head's empty line, then
//! Content-Length bytes.
//!
//! A stream whose framing is lost cannot be found again: every fault here ends the connection.

use super::scan;
use super::{Fault, HEAD_BYTES_MAX, MESSAGE_BYTES_MAX, Name, Rule};

/// What stands at the beginning of a stream's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// So many bytes are one message.
    Message(usize),
    /// So many bytes are line ends between messages, or a keep-alive: four of them are a ping (RFC
    /// 5626 4.4.1).
    LineEnds(usize),
    /// Not enough bytes yet.
    Partial,
}

/// Looks at the beginning of a buffer.
pub fn frame(bytes: &[u8]) -> Result<Frame, Fault> {
    frame_from(bytes, &mut 0)
}

/// As [`frame`], when the end of the head does not lie before `seen`, which is moved on: what comes
/// byte by byte is not looked at again and again.
pub(crate) fn frame_from(bytes: &[u8], seen: &mut usize) -> Result<Frame, Fault> {
    let blank = bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
    if blank > 0 {
        return Ok(Frame::LineEnds(blank));
    }
    // The last three bytes may be the beginning of the end.
    let from = seen.saturating_sub(3).min(bytes.len());
    let Some(head) = head_end(&bytes[from..]).map(|end| from + end) else {
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(Fault::new(Rule::MessageTooLong, HEAD_BYTES_MAX));
        }
        *seen = bytes.len();
        return Ok(Frame::Partial);
    };
    *seen = head;
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "OPTIONS sip:a SIP/2.0\r\nl: 4\r\nX: y\r\n\r\n";

    fn rule(text: &str) -> Option<Rule> {
        frame(text.as_bytes()).err().map(|fault| fault.rule)
    }

    #[test]
    fn a_message_ends_where_content_length_says() {
        let text = format!("{HEAD}bodyOPTIONS");
        for end in 0..HEAD.len() + 4 {
            let expected =
                if end == 0 { Frame::Partial } else { frame(&text.as_bytes()[..end]).unwrap() };
            assert_eq!(expected, Frame::Partial, "{end}");
        }
        assert_eq!(frame(text.as_bytes()), Ok(Frame::Message(HEAD.len() + 4)));
        let folded = text.replace("l: 4", "l:\r\n 4");
        assert_eq!(frame(folded.as_bytes()), Ok(Frame::Message(HEAD.len() + 6)));
        let lf = HEAD.replace("\r\n", "\n") + "body";
        assert_eq!(frame(lf.as_bytes()), Ok(Frame::Message(lf.len())));
    }

    #[test]
    fn line_ends_between_messages_are_told() {
        assert_eq!(frame(b"\r\n\r\nOPTIONS"), Ok(Frame::LineEnds(4)));
        assert_eq!(frame(b""), Ok(Frame::Partial));
    }

    #[test]
    fn a_stream_whose_framing_is_lost_is_told() {
        assert_eq!(rule("A sip:a SIP/2.0\r\n\r\n"), Some(Rule::Missing(Name::ContentLength)));
        assert_eq!(rule(&HEAD.replace("X: y", "L: 4")), Some(Rule::Repeated(Name::ContentLength)));
        assert_eq!(rule(&HEAD.replace('4', "-4")), Some(Rule::ContentLength));
        assert_eq!(rule(&HEAD.replace('4', "65535")), Some(Rule::MessageTooLong));
        assert_eq!(rule(&"A".repeat(HEAD_BYTES_MAX)), None);
        assert_eq!(rule(&"A".repeat(HEAD_BYTES_MAX + 1)), Some(Rule::MessageTooLong));
    }
}
