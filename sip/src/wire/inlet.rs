//! The receiving end of one stream: bytes in, messages out (RFC 3261 18.3; keep-alives RFC 5626
//! 4.4.1).
//!
//! ```text
//!          bytes               empty line, Content-Length bytes
//! Between ───────► Within ──────────────────────────────────────► a message, Between
//!    │ line ends: skipped; two of them are a ping
//!    └ a fault of the framing ends the stream: what follows cannot be found again
//! ```
//!
//! A value without a socket or a clock. Its owner asks [`Inlet::is_within`] to give a message that
//! has begun only so much time to end. A head is looked at once, however small its pieces.

use super::frame::{Frame, frame_from};
use super::{Fault, MESSAGE_BYTES_MAX};

/// What stood at the beginning of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'b> {
    /// A message.
    Message(&'b [u8]),
    /// A keep-alive that wants a single line end for an answer. Pings that came at once count as
    /// one: who fills a segment with line ends does not get a segment of answers to write.
    Ping,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Inlet {
    bytes: Vec<u8>,
    /// Where the next piece begins.
    start: usize,
    /// Before so many bytes behind `start` no head ends.
    seen: usize,
    /// Line feeds since the last message that no ping has used up.
    feeds: usize,
}

impl Inlet {
    /// The most that it holds: one message and what one read brought behind it.
    pub const BYTES_MAX: usize = MESSAGE_BYTES_MAX;

    /// Takes bytes in. To be called only when [`Inlet::next_piece`] has no more pieces, so that it
    /// never holds more than a message and these.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next piece; `None` when more bytes are needed. After an error the stream is of no use.
    pub fn next_piece(&mut self) -> Result<Option<Piece<'_>>, Fault> {
        loop {
            let rest = &self.bytes[self.start..];
            match frame_from(rest, &mut self.seen)? {
                Frame::Message(length) => {
                    let from = self.start;
                    self.start += length;
                    (self.seen, self.feeds) = (0, 0);
                    return Ok(Some(Piece::Message(&self.bytes[from..from + length])));
                }
                Frame::LineEnds(length) => {
                    self.feeds += rest[..length].iter().filter(|byte| **byte == b'\n').count();
                    self.start += length;
                    if self.feeds >= 2 {
                        self.feeds = 0;
                        return Ok(Some(Piece::Ping));
                    }
                }
                Frame::Partial => return Ok(None),
            }
        }
    }

    /// Whether a message has begun and not ended.
    pub fn is_within(&self) -> bool {
        self.start < self.bytes.len()
    }

    /// What stands there: after an error the message that caused it, or its beginning.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "OPTIONS sip:a SIP/2.0\r\nCall-ID: 1\r\nContent-Length: 4\r\n\r\nbody";
    const TWO: &str = "BYE sip:b SIP/2.0\r\nl: 0\r\n\r\n";

    /// What comes out of a stream in these pieces.
    fn pieces(parts: &[&[u8]]) -> Result<Vec<String>, Fault> {
        let (mut inlet, mut out) = (Inlet::default(), Vec::new());
        for part in parts {
            inlet.feed(part);
            while let Some(piece) = inlet.next_piece()? {
                out.push(match piece {
                    Piece::Message(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    Piece::Ping => "ping".to_owned(),
                });
            }
        }
        Ok(out)
    }

    #[test]
    fn case_c01_messages_come_out_whole_wherever_the_stream_is_cut() {
        let text = format!("\r\n{ONE}{TWO}\r\n\r\n{ONE}");
        let wanted = [ONE, TWO, "ping", ONE];
        assert_eq!(pieces(&[text.as_bytes()]).unwrap(), wanted, "all in one segment");
        for cut in 0..text.len() {
            let (a, b) = text.as_bytes().split_at(cut);
            assert_eq!(pieces(&[a, b]).unwrap(), wanted, "cut at {cut}");
        }
        let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(pieces(&single).unwrap(), wanted, "byte by byte");
    }

    #[test]
    fn case_c06_a_single_line_end_is_no_ping_and_two_are() {
        assert_eq!(pieces(&[b"\r\n"]).unwrap(), [""; 0]);
        assert_eq!(pieces(&[b"\r\n\r\n"]).unwrap(), ["ping"]);
        assert_eq!(pieces(&[b"\r", b"\n\r", b"\n"]).unwrap(), ["ping"]);
        assert_eq!(pieces(&[b"\r\n", ONE.as_bytes(), b"\r\n"]).unwrap(), [ONE]);
    }

    #[test]
    fn case_c03_line_ends_behind_a_body_are_skipped() {
        let first = ONE.replace("Length: 4", "Length: 2");
        let text = format!("{}\r\n\r\n{TWO}", &first[..first.len() - 2]);
        let whole = &first[..first.len() - 2];
        assert_eq!(pieces(&[text.as_bytes()]).unwrap(), [whole, "ping", TWO]);
    }

    #[test]
    fn case_c04_a_message_without_a_length_ends_the_stream_and_can_still_be_read() {
        let mut inlet = Inlet::default();
        inlet.feed(b"OPTIONS sip:a SIP/2.0\r\nCall-ID: 1\r\n\r\n");
        assert!(inlet.next_piece().is_err());
        assert!(inlet.rest().starts_with(b"OPTIONS sip:a"));
    }

    #[test]
    fn a_head_that_never_ends_is_cut_off_at_its_limit() {
        let mut inlet = Inlet::default();
        let line = [b'a'; 1_024];
        let mut fed = 0;
        loop {
            inlet.feed(&line);
            fed += line.len();
            match inlet.next_piece() {
                Ok(None) => assert!(inlet.is_within() && fed < Inlet::BYTES_MAX, "{fed}"),
                Ok(Some(piece)) => panic!("{piece:?}"),
                Err(_) => break,
            }
        }
        assert!(fed <= Inlet::BYTES_MAX);
    }

    #[test]
    fn a_message_that_has_begun_is_told() {
        let mut inlet = Inlet::default();
        assert!(!inlet.is_within());
        inlet.feed(b"OPT");
        assert_eq!(inlet.next_piece(), Ok(None));
        assert!(inlet.is_within());
        inlet.feed(&ONE.as_bytes()[3..]);
        assert!(matches!(inlet.next_piece(), Ok(Some(Piece::Message(_)))));
        assert!(!inlet.is_within());
    }
}
