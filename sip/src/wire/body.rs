//! Bodies: the parts of a multipart one (RFC 2046 5.1, RFC 5621 3). Bodies are bytes; nothing is
//! decoded.

use super::params::Params;
use super::{Name, PARTS_MAX, scan};

/// A media type and its parameters.
pub(crate) fn media_type(value: &[u8]) -> (&[u8], Params<'_>) {
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    (scan::trim(&value[..end]), Params::of_header(&value[end..]))
}

/// One part of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part<'a> {
    /// The value of its Content-Type, parameters included; a part without one is `text/plain` (RFC
    /// 2046 5.1).
    pub content_type: Option<&'a [u8]>,
    /// The value of its Content-Disposition.
    pub disposition: Option<&'a [u8]>,
    /// Its bytes.
    pub body: &'a [u8],
}

impl Part<'_> {
    /// Is its media type this one, in any case?
    pub fn is(&self, wanted: &[u8]) -> bool {
        let (kind, _) = media_type(self.content_type.unwrap_or(b"text/plain"));
        kind.eq_ignore_ascii_case(wanted)
    }
}

/// The parts of a body in order; a multipart inside a multipart is entered. At most [`PARTS_MAX`]
/// are given.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    /// The multiparts that were entered, the innermost last.
    open: [Option<Multipart<'a>>; DEPTH_MAX],
    depth: usize,
    single: Option<Part<'a>>,
    left: usize,
}

/// A multipart deeper than this is given as one part. RFC 5621 needs two levels.
const DEPTH_MAX: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Multipart<'a> {
    boundary: &'a [u8],
    /// From the end of a delimiter line on.
    rest: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Of a body with the Content-Type of its message. An empty body has no parts.
    pub fn new(content_type: Option<&'a [u8]>, body: &'a [u8]) -> Self {
        let mut parts = Self { open: [None; DEPTH_MAX], depth: 0, single: None, left: PARTS_MAX };
        let whole = Part { content_type, disposition: None, body };
        if !body.is_empty() && !parts.enter(&whole) {
            parts.single = Some(whole);
        }
        parts
    }

    fn enter(&mut self, part: &Part<'a>) -> bool {
        let Some(multipart) = Multipart::of(part) else { return false };
        let Some(level) = self.open.get_mut(self.depth) else { return false };
        *level = Some(multipart);
        self.depth += 1;
        true
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        if let Some(part) = self.single.take() {
            return Some(part);
        }
        while self.depth > 0 {
            let part = self.open[self.depth - 1].as_mut().and_then(Multipart::next_part);
            let Some(part) = part else {
                self.depth -= 1;
                continue;
            };
            self.left = self.left.checked_sub(1)?;
            if !self.enter(&part) {
                return Some(part);
            }
        }
        None
    }
}

impl<'a> Multipart<'a> {
    fn of(part: &Part<'a>) -> Option<Self> {
        let (kind, params) = media_type(part.content_type?);
        let is_multipart = kind.len() > 10 && kind[..10].eq_ignore_ascii_case(b"multipart/");
        let boundary = params.value(b"boundary").filter(|_| is_multipart)?;
        let boundary =
            boundary.strip_prefix(b"\"").and_then(|b| b.strip_suffix(b"\"")).unwrap_or(boundary);
        if boundary.is_empty() {
            return None;
        }
        // The preamble ends at the first delimiter.
        let (_, rest, is_last) = cut(part.body, boundary)?;
        Some(Self { boundary, rest: if is_last { b"" } else { rest } })
    }

    fn next_part(&mut self) -> Option<Part<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        // A part without the closing delimiter reaches to the end of the body.
        let (text, rest, is_last) = cut(self.rest, self.boundary).unwrap_or((self.rest, b"", true));
        self.rest = if is_last { b"" } else { rest };
        Some(part_of(text))
    }
}

/// Cuts at the first delimiter line: what stands before it (without the line end that belongs to
/// the delimiter), what follows it, and whether it was the closing one.
fn cut<'a>(text: &'a [u8], boundary: &[u8]) -> Option<(&'a [u8], &'a [u8], bool)> {
    let mut start = 0;
    while start < text.len() {
        let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |i| start + i + 1);
        if let Some(is_last) = delimiter(&text[start..end], boundary) {
            let before = &text[..start];
            let before = before
                .strip_suffix(b"\r\n")
                .or_else(|| before.strip_suffix(b"\n"))
                .unwrap_or(before);
            return Some((before, &text[end..], is_last));
        }
        start = end;
    }
    None
}

/// Is this line a delimiter, and if so, the closing one?
fn delimiter(line: &[u8], boundary: &[u8]) -> Option<bool> {
    let behind = line.strip_prefix(b"--")?.strip_prefix(boundary)?;
    if behind.starts_with(b"--") {
        return Some(true);
    }
    // Otherwise the boundary would only be the beginning of a longer word.
    behind.iter().all(|b| scan::is_lws(*b)).then_some(false)
}

fn part_of(text: &[u8]) -> Part<'_> {
    let mut part = Part { content_type: None, disposition: None, body: b"" };
    let mut at = 0;
    loop {
        let rest = &text[at..];
        if let Some(body) = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n")) {
            part.body = body;
            return part;
        }
        let Some(end) = scan::line_end(text, at) else { return part };
        let line = &text[at..end];
        if let Some(colon) = memchr::memchr(b':', line) {
            let value = scan::trim(&line[colon + 1..]);
            let name = Name::of(scan::trim(&line[..colon]));
            if name == Name::ContentType {
                part.content_type = Some(value);
            } else if name == Name::ContentDisposition {
                part.disposition = Some(value);
            }
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies<'a>(content_type: &'a [u8], body: &'a [u8]) -> Vec<&'a [u8]> {
        Parts::new(Some(content_type), body).map(|part| part.body).collect()
    }

    #[test]
    fn a_plain_body_is_its_only_part() {
        assert_eq!(bodies(b"application/sdp", b"v=0"), [b"v=0"]);
        assert_eq!(bodies(b"application/sdp", b""), [b""; 0]);
        assert!(Parts::new(None, b"x").next().unwrap().is(b"text/plain"));
    }

    #[test]
    fn nested_parts_are_given_one_after_another() {
        let body =
            b"--a\r\nContent-Type: multipart/alternative;\r\n boundary=b\r\n\r\n--b\r\n\r\n1\r\n\
            --b\r\n\r\n2\r\n--b--\r\n--a\r\n\r\n3\r\n--a--\r\n";
        assert_eq!(bodies(b"multipart/mixed; boundary=a", body), [b"1", b"2", b"3"]);
    }

    #[test]
    fn line_ends_that_belong_to_a_part_stay_with_it() {
        assert_eq!(bodies(b"multipart/mixed;boundary=a", b"--a\n\nx\n\n\n--a--"), [b"x\n\n"]);
        assert_eq!(bodies(b"multipart/mixed;boundary=a", b"--a\r\n\r\n\r\n--a--"), [b""]);
    }

    #[test]
    fn a_body_that_ends_early_gives_what_is_there() {
        assert_eq!(bodies(b"multipart/mixed;boundary=a", b"--a\r\n\r\nx\r\n"), [b"x\r\n"]);
        assert_eq!(bodies(b"multipart/mixed;boundary=a", b"--a\r\nX: y"), [b""]);
        assert_eq!(bodies(b"multipart/mixed;boundary=a", b"--a--\r\n"), [b""; 0]);
    }

    #[test]
    fn without_a_boundary_it_is_one_part() {
        assert_eq!(bodies(b"multipart/mixed", b"--a\r\n\r\nx"), [b"--a\r\n\r\nx"]);
        assert_eq!(bodies(b"multipart/mixed;boundary=a", b"no delimiter"), [b"no delimiter"]);
    }

    #[test]
    fn the_number_of_parts_and_the_depth_are_bounded() {
        let many = b"--a\r\n\r\nx\r\n".repeat(PARTS_MAX + 5);
        assert_eq!(bodies(b"multipart/mixed;boundary=a", &many).len(), PARTS_MAX);
        let deep = b"--a\r\nContent-Type: multipart/mixed;boundary=a\r\n\r\n".repeat(40);
        assert!(bodies(b"multipart/mixed;boundary=a", &deep).len() <= PARTS_MAX);
    }
}
