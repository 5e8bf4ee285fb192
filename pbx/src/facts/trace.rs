//! SIP messages in the log, for an operator who looks for a fault (`sip set trace`): a head line in
//! Asterisk's words, then the message line by line. The writer of the log leaves digests out.

use super::Facts;
use crate::trace::Rules;
use logging::verbose;
use sip::path::Path;

/// Lines of one message that are shown.
const LINES_MAX: usize = 200;

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To us.
    In,
    /// From us.
    Out,
}

impl Facts {
    /// Puts a message where it is wanted. Keep-alives are wanted nowhere.
    pub(crate) fn trace(
        &mut self,
        rules: &Rules,
        (path, direction): (Path, Direction),
        bytes: &[u8],
    ) {
        if bytes.len() < MESSAGE_BYTES_MIN {
            return;
        }
        let wall_us = self.now.wall.as_micros();
        if !rules.take(&path, direction == Direction::Out, wall_us, bytes) {
            return;
        }
        let kind = if bytes.starts_with(b"SIP/2.0 ") { "response" } else { "request" };
        let (transport, length) = (path.transport.as_via(), bytes.len());
        match direction {
            Direction::In => verbose!(
                1,
                self.lane,
                from = path.remote,
                "<--- Received SIP {} ({} bytes) from {}:{} --->",
                kind,
                length,
                transport,
                path.remote
            ),
            Direction::Out => verbose!(
                1,
                self.lane,
                "<--- Transmitting SIP {} ({} bytes) to {}:{} --->",
                kind,
                length,
                transport,
                path.remote
            ),
        }
        for line in bytes.split(|byte| *byte == b'\n').take(LINES_MAX) {
            verbose!(1, self.lane, "{}", line.trim_ascii_end());
        }
    }
}

/// Four bytes are a keep-alive.
const MESSAGE_BYTES_MIN: usize = 5;
