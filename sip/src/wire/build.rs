//! Writing messages: appends to the caller's buffer and allocates nothing else.
//!
//! What is given is written as it is. A value from outside the program must not hold CR or LF;
//! debug builds check it.

use super::Name;

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

/// The usual reason phrase (RFC 3261 21 and the IANA registry); of an unknown code that of its
/// class.
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Trying",
        180 => "Ringing",
        181 => "Call Is Being Forwarded",
        182 => "Queued",
        183 => "Session Progress",
        199 => "Early Dialog Terminated",
        200 => "OK",
        202 => "Accepted",
        204 => "No Notification",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Moved Temporarily",
        305 => "Use Proxy",
        380 => "Alternative Service",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        410 => "Gone",
        412 => "Conditional Request Failed",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Unsupported URI Scheme",
        417 => "Unknown Resource-Priority",
        420 => "Bad Extension",
        421 => "Extension Required",
        422 => "Session Interval Too Small",
        423 => "Interval Too Brief",
        424 => "Bad Location Information",
        428 => "Use Identity Header",
        429 => "Provide Referrer Identity",
        430 => "Flow Failed",
        433 => "Anonymity Disallowed",
        436 => "Bad Identity Info",
        437 => "Unsupported Credential",
        438 => "Invalid Identity Header",
        439 => "First Hop Lacks Outbound Support",
        440 => "Max-Breadth Exceeded",
        469 => "Bad Info Package",
        470 => "Consent Needed",
        480 => "Temporarily Unavailable",
        481 => "Call/Transaction Does Not Exist",
        482 => "Loop Detected",
        483 => "Too Many Hops",
        484 => "Address Incomplete",
        485 => "Ambiguous",
        486 => "Busy Here",
        487 => "Request Terminated",
        488 => "Not Acceptable Here",
        489 => "Bad Event",
        491 => "Request Pending",
        493 => "Undecipherable",
        494 => "Security Agreement Required",
        500 => "Server Internal Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Server Time-out",
        505 => "Version Not Supported",
        513 => "Message Too Large",
        555 => "Push Notification Service Not Supported",
        580 => "Precondition Failure",
        600 => "Busy Everywhere",
        603 => "Decline",
        604 => "Does Not Exist Anywhere",
        606 => "Not Acceptable",
        607 => "Unwanted",
        608 => "Rejected",
        _ => match status / 100 {
            1 => "Progress",
            2 => "OK",
            3 => "Redirect",
            4 => "Request Failure",
            5 => "Server Failure",
            _ => "Global Failure",
        },
    }
}
