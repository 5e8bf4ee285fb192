//! What the fuzzer and the replay of its corpus do with the bytes of a stream, and what must hold
//! always.
//!
//! * Nothing panics, and the inlet never holds more than its limit while it waits for more.
//! * However the stream is cut, the same messages come out, and it ends in a fault or not.
//! * A ping is told between two messages in each way of cutting, or in none.
//! * What comes out, with what was left, is the stream: nothing is lost but line ends.

use sip::wire::{Framing, Index, Inlet, Piece};

/// A stream's first bytes; a longer one teaches nothing new and costs time.
const STREAM_MAX: usize = 3 * Inlet::BYTES_MAX;
/// Beyond this a stream is not cut into single bytes.
const SINGLE_MAX: usize = 16_384;

/// What came out of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Came {
    messages: Vec<Vec<u8>>,
    /// Pings before each message, and behind the last.
    pings: Vec<bool>,
    is_lost: bool,
    /// What stood there at the end or at the fault, and what was not fed any more.
    rest: Vec<u8>,
}

/// Runs one stream; the number of messages in it.
pub(crate) fn run(bytes: &[u8]) -> usize {
    let bytes = &bytes[..bytes.len().min(STREAM_MAX)];
    let whole = cut(bytes, |_| usize::MAX);
    check_whole(bytes, &whole);
    if bytes.len() <= SINGLE_MAX {
        assert_same(&cut(bytes, |_| 1), &whole, "single bytes");
    }
    // Cuts that the input itself decides: the fuzzer can look for others.
    for seed in 1..4 {
        let mut state = bytes.iter().take(64).fold(seed, |hash: u64, byte| {
            hash.wrapping_mul(0x0000_0100_0000_01b3) ^ u64::from(*byte)
        });
        let most = [0, 4, 100, 3_000][seed as usize];
        let pieces = cut(bytes, |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
            1 + (state >> 33) as usize % most
        });
        assert_same(&pieces, &whole, "pieces of the input's choice");
    }
    whole.messages.len()
}

/// Feeds a stream in pieces of these lengths.
fn cut(bytes: &[u8], mut length_of: impl FnMut(usize) -> usize) -> Came {
    let (mut inlet, mut came) = (Inlet::default(), Came::default());
    let (mut at, mut has_ping) = (0, false);
    while at < bytes.len() && !came.is_lost {
        let end = at.saturating_add(length_of(at)).min(bytes.len());
        inlet.feed(&bytes[at..end]);
        at = end;
        loop {
            match inlet.next_piece() {
                Ok(Some(Piece::Message(message))) => {
                    assert!(message.len() <= Inlet::BYTES_MAX);
                    came.messages.push(message.to_vec());
                    came.pings.push(std::mem::take(&mut has_ping));
                }
                Ok(Some(Piece::Ping)) => has_ping = true,
                Ok(None) => {
                    assert!(inlet.rest().len() < Inlet::BYTES_MAX, "{}", inlet.rest().len());
                    assert_eq!(inlet.is_within(), !inlet.rest().is_empty());
                    break;
                }
                Err(fault) => {
                    assert!(fault.at <= inlet.rest().len(), "{fault}");
                    assert!(fault.rule.status().is_some() || !fault.to_string().is_empty());
                    came.is_lost = true;
                    break;
                }
            }
        }
    }
    came.pings.push(has_ping);
    came.rest = [inlet.rest(), &bytes[at..]].concat();
    came
}

fn assert_same(pieces: &Came, whole: &Came, how: &str) {
    assert_eq!(pieces.messages.len(), whole.messages.len(), "{how}");
    assert_eq!(pieces.pings, whole.pings, "{how}");
    assert_eq!(pieces.is_lost, whole.is_lost, "{how}");
    assert!(pieces == whole, "{how}: messages differ");
}

/// Messages and line ends in order are the stream, and each message is one for the index, too.
fn check_whole(bytes: &[u8], whole: &Came) {
    let mut left = bytes;
    for message in &whole.messages {
        left = without_line_ends(left);
        left = left.strip_prefix(&message[..]).expect("a message stands where it stood");
        let mut index = Index::new();
        if let Ok(read) = index.parse(message, Framing::Stream) {
            assert_eq!(read.bytes().len(), message.len(), "one message, and all of it");
        }
    }
    assert!(without_line_ends(left) == without_line_ends(&whole.rest), "the rest is what is left");
}

fn without_line_ends(bytes: &[u8]) -> &[u8] {
    let count = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    &bytes[count..]
}
