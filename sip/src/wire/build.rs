//! Writing messages: appends to the caller's buffer and allocates nothing else.
//!
//! What is given is written as it is. A value from outside the program must not hold CR or LF;
//! debug builds check it.

use super::Name;
use super::reason::reason_phrase;

/// Writes one message.
#[derive(Debug)]
pub struct Builder<'w> {
    out: &'w mut Vec<u8>,
}

impl<'w> Builder<'w> {
    /// Begins a request.
    pub fn request(out: &'w mut Vec<u8>, method: &[u8], uri: &[u8]) -> Self {
        debug_assert!(is_one_line(method) && is_one_line(uri));
        for piece in [method, b" ", uri, b" SIP/2.0\r\n"] {
            out.extend_from_slice(piece);
        }
        Self { out }
    }

    /// Begins a response; without a reason phrase the usual one is taken.
    pub fn response(out: &'w mut Vec<u8>, status: u16, reason: Option<&[u8]>) -> Self {
        let reason = reason.unwrap_or_else(|| reason_phrase(status).as_bytes());
        debug_assert!(is_one_line(reason));
        out.extend_from_slice(b"SIP/2.0 ");
        push_decimal(out, u64::from(status));
        for piece in [b" ", reason, b"\r\n"] {
            out.extend_from_slice(piece);
        }
        Self { out }
    }

    /// A header field.
    #[must_use]
    pub fn header(self, name: Name, value: &[u8]) -> Self {
        self.raw_header(name.as_bytes(), value)
    }

    /// A header field whose name is text.
    #[must_use]
    pub fn raw_header(self, name: &[u8], value: &[u8]) -> Self {
        debug_assert!(!name.is_empty() && is_one_line(name) && is_one_line(value));
        for piece in [name, b": ", value, b"\r\n"] {
            self.out.extend_from_slice(piece);
        }
        self
    }

    /// A header field whose value is given in pieces.
    #[must_use]
    pub fn parts(self, name: Name, pieces: &[&[u8]]) -> Self {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        for piece in pieces {
            debug_assert!(is_one_line(piece));
            self.out.extend_from_slice(piece);
        }
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// A header field whose value is a number.
    #[must_use]
    pub fn number(self, name: Name, value: u64) -> Self {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        push_decimal(self.out, value);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// A header field whose value `write` appends.
    #[must_use]
    pub fn composed(self, name: Name, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        write(self.out);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Finished header lines, each with its line end.
    #[must_use]
    pub fn line(self, lines: &[u8]) -> Self {
        debug_assert!(lines.is_empty() || lines.ends_with(b"\n"));
        self.out.extend_from_slice(lines);
        self
    }

    /// The buffer, for what writes header lines by itself, such as
    /// [`copy_response_head`](super::copy_response_head).
    #[must_use]
    pub fn with(self, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        write(self.out);
        self
    }

    /// Ends the message with a body.
    pub fn body(self, content_type: Option<&[u8]>, body: &[u8]) {
        let this = match content_type {
            Some(kind) => self.header(Name::ContentType, kind),
            None => self,
        };
        let this = this.number(Name::ContentLength, body.len() as u64);
        this.out.extend_from_slice(b"\r\n");
        this.out.extend_from_slice(body);
    }

    /// Ends the message without a body.
    pub fn no_body(self) {
        self.out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    }
}

/// Appends a number in decimal.
pub fn push_decimal(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        // A remainder of ten fits a byte.
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn is_one_line(text: &[u8]) -> bool {
    memchr::memchr2(b'\r', b'\n', text).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_written_line_by_line() {
        let mut out = b"kept ".to_vec();
        Builder::request(&mut out, b"INFO", b"sip:a@b")
            .parts(Name::Via, &[b"SIP/2.0/UDP ", b"h;branch=", b"z9hG4bK1"])
            .raw_header(b"X-Foo", b"bar")
            .number(Name::MaxForwards, 0)
            .line(b"A: 1\r\nB: 2\r\n")
            .with(|out| out.extend_from_slice(b"C: 3\r\n"))
            .body(Some(b"text/plain"), b"hi\n");
        let expected = "kept INFO sip:a@b SIP/2.0\r\n\
            Via: SIP/2.0/UDP h;branch=z9hG4bK1\r\nX-Foo: bar\r\nMax-Forwards: 0\r\nA: 1\r\nB: 2\r\n\
            C: 3\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nhi\n";
        assert_eq!(out, expected.as_bytes());
    }

    #[test]
    fn a_response_has_the_usual_reason_or_its_own() {
        let mut out = Vec::new();
        Builder::response(&mut out, 486, None).no_body();
        Builder::response(&mut out, 400, Some(b"Bad CSeq")).no_body();
        let expected = "SIP/2.0 486 Busy Here\r\nContent-Length: 0\r\n\r\n\
            SIP/2.0 400 Bad CSeq\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(out, expected.as_bytes());
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 9, 10, 65_535, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }
}
