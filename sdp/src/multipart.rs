//! The session description inside a body: alone, or one part of several (RFC 2046 5.1, RFC 5621 3).

use crate::Fault;

/// The description in a body of type `content_type`: the body itself when it is `application/sdp`
/// (or has no type), or the first part of that type in a `multipart/...` body (case S07).
pub fn session_part<'a>(content_type: &[u8], body: &'a [u8]) -> Result<&'a [u8], Fault> {
    let kind = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if kind.is_empty() || kind.eq_ignore_ascii_case(b"application/sdp") {
        return Ok(body);
    }
    if !kind.get(..10).is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/")) {
        return Err(Fault::NoDescription);
    }
    let boundary = boundary(content_type).ok_or(Fault::NoDescription)?;
    parts(boundary, body).find_map(description_of).ok_or(Fault::NoDescription)
}

/// The value of the parameter `boundary`, with or without quotation marks.
fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    content_type.split(|byte| *byte == b';').skip(1).find_map(|parameter| {
        let at = parameter.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (parameter[..at].trim_ascii(), parameter[at + 1..].trim_ascii());
        let quoted = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        let value = quoted.unwrap_or(value);
        (name.eq_ignore_ascii_case(b"boundary") && !value.is_empty()).then_some(value)
    })
}

/// The parts between the delimiter lines, preamble and epilogue left out.
fn parts<'a, 'b>(
    boundary: &'b [u8],
    body: &'a [u8],
) -> impl Iterator<Item = &'a [u8]> + use<'a, 'b> {
    let mut rest = delimiter(boundary, body, 0).map(|found| found.after);
    std::iter::from_fn(move || {
        let start = rest.take()?;
        let end = delimiter(boundary, body, start)?;
        rest = (!end.is_last).then_some(end.after);
        Some(&body[start..end.before.max(start)])
    })
}

struct Delimiter {
    /// Where the text before it ends; the line break belongs to the delimiter.
    before: usize,
    /// Where the text after its line begins.
    after: usize,
    is_last: bool,
}

/// The first delimiter line at or after `from`, which is the beginning of a line.
fn delimiter(boundary: &[u8], body: &[u8], from: usize) -> Option<Delimiter> {
    let mut at = from;
    while at < body.len() {
        let length = body[at..].iter().position(|byte| *byte == b'\n');
        let next = length.map_or(body.len(), |length| at + length + 1);
        let tail = body[at..next].strip_prefix(b"--").and_then(|it| it.strip_prefix(boundary));
        if let Some(tail) = tail {
            let before = body[..at].strip_suffix(b"\n").unwrap_or(&body[..at]);
            let before = before.strip_suffix(b"\r").unwrap_or(before).len();
            match tail.trim_ascii() {
                b"" => return Some(Delimiter { before, after: next, is_last: false }),
                b"--" => return Some(Delimiter { before, after: next, is_last: true }),
                _ => {} // a longer boundary that begins with ours
            }
        }
        at = next;
    }
    None
}

/// The content of a part, if its Content-Type is `application/sdp`.
fn description_of(part: &[u8]) -> Option<&[u8]> {
    let (mut at, mut is_description) = (0, false);
    while at < part.len() {
        let length = part[at..].iter().position(|byte| *byte == b'\n')?;
        let line = part[at..at + length].trim_ascii();
        at += length + 1;
        if line.is_empty() {
            return is_description.then(|| &part[at..]);
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"Content-Type") {
            let kind = value.split(|byte| *byte == b';').next()?.trim_ascii();
            is_description = kind.eq_ignore_ascii_case(b"application/sdp");
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"preamble v=0\r\n--b1\r\nContent-Type: application/pidf+xml\r\n\
        \r\n<x/>\r\n--b1\r\ncontent-type: Application/SDP; charset=utf-8\r\n\r\n\
        v=0\r\ns=-\r\n\r\n--b1--\r\nend";

    #[test]
    fn the_description_is_found_among_other_parts() {
        let found = session_part(b"multipart/mixed; boundary=\"b1\"", BODY);
        assert_eq!(found, Ok(&b"v=0\r\ns=-\r\n"[..]));
        assert_eq!(session_part(b"application/sdp;x=y", b"v=0"), Ok(&b"v=0"[..]));
        assert_eq!(session_part(b"", b"v=0"), Ok(&b"v=0"[..]));
    }

    #[test]
    fn a_body_without_a_description_is_refused() {
        let fault = Err(Fault::NoDescription);
        assert_eq!(session_part(b"text/plain", b"v=0"), fault);
        assert_eq!(session_part(b"multipart/mixed", BODY), fault);
        assert_eq!(session_part(b"multipart/mixed;boundary=b", BODY), fault);
        assert_eq!(session_part(b"multipart/mixed;boundary=b1", &BODY[..70]), fault);
        for end in 0..BODY.len() {
            let _ = session_part(b"multipart/mixed;boundary=b1", &BODY[..end]);
        }
    }
}
