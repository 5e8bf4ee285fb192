//! Identifiers that lead back to a call's slot, so that an answer needs no look-up by text.
//!
//! ```text
//! mark     run (8 hex) + index (8 hex) + generation (8 hex)
//! branch   z9hG4bK + kind + mark        From tag = mark        Call-ID = mark@host
//! ```
//!
//! The run number tells apart two runs against one server: late messages of an earlier run are
//! strays. Nothing here is secret: the tool talks to a server under test, not to strangers.

use sip::wire::MAGIC_COOKIE;
use turn::Slot;

/// Length of a mark.
pub const MARK_LEN: usize = 24;

/// The text that names a call.
pub type Mark = [u8; MARK_LEN];

/// What a branch belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// INVITE, its CANCEL, and the ACK of a failure (RFC 3261 9.1, 17.1.1.3).
    Invite = b'i',
    /// The ACK of a 2xx, a transaction of its own (13.2.2.4).
    Ack = b'a',
    /// BYE.
    Bye = b'b',
    /// BYE for a call that is no longer in the table; nobody waits for its answer.
    Stale = b's',
}

/// One run of the generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run(pub u32);

impl Run {
    /// The mark of the call in `slot`.
    pub fn mark(self, slot: Slot) -> Mark {
        let mut mark = [0; MARK_LEN];
        write_hex(&mut mark[..8], self.0);
        write_hex(&mut mark[8..16], slot.index);
        write_hex(&mut mark[16..], slot.generation);
        mark
    }

    /// The slot that `mark` names, if it is of this run. Text behind the mark is ignored.
    pub fn read(self, mark: &[u8]) -> Option<Slot> {
        let mark = mark.first_chunk::<MARK_LEN>()?;
        let slot = Slot { index: read_hex(&mark[8..16])?, generation: read_hex(&mark[16..])? };
        (read_hex(&mark[..8])? == self.0).then_some(slot)
    }

    /// What a branch of ours belongs to.
    pub fn read_branch(self, branch: &[u8]) -> Option<(Kind, Slot)> {
        let (kind, mark) = branch.strip_prefix(MAGIC_COOKIE)?.split_first()?;
        let kind = [Kind::Invite, Kind::Ack, Kind::Bye, Kind::Stale]
            .into_iter()
            .find(|known| *known as u8 == *kind)?;
        Some((kind, self.read(mark)?))
    }
}

fn write_hex(out: &mut [u8], mut number: u32) {
    for place in out.iter_mut().rev() {
        *place = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

fn read_hex(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0, |number: u32, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u32::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_leads_back_to_its_slot() {
        let run = Run(0x00c0_ffee);
        for slot in
            [Slot { index: 0, generation: 1 }, Slot { index: 0xdead_beef, generation: u32::MAX }]
        {
            let mut branch = MAGIC_COOKIE.to_vec();
            branch.push(b'b');
            branch.extend_from_slice(&run.mark(slot));
            assert_eq!(run.read(&run.mark(slot)), Some(slot));
            assert_eq!(run.read_branch(&branch), Some((Kind::Bye, slot)));
            assert_eq!(Run(1).read_branch(&branch), None);
        }
    }

    #[test]
    fn foreign_text_names_nothing() {
        let run = Run(1);
        for text in [&b""[..], b"z9hG4bK", b"z9hG4bKi00000001", b"z9hG4bKi0000000100000001ZZZZZZZZ"]
        {
            assert_eq!(run.read_branch(text), None);
            assert_eq!(run.read(text), None);
        }
    }
}
