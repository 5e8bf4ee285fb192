//! Minted identifiers that are handles: the branches, tags and Call-IDs that we invent.
//!
//! Each carries where its owner sits, so an answer or an in-dialog request goes straight to a slot
//! of a shard, without a look-up by text:
//!
//! ```text
//! z9hG4bK 0g40c000080000wxyz012345            24 characters of Crockford's base32, 120 bits
//! cookie   epoch 16 | shard 8 | index 32 | generation 32 | check 32
//! (branch
//! only)
//! ```
//!
//! The check is a keyed hash over the kind and all fields before it: what a stranger makes up, or
//! a tag shown as a branch, reads as [`Reading::Strange`]. It is 32 bits of pseudo-randomness as
//! RFC 3261 §19.3 wants, and it keeps strangers from the slots. It is no authentication: whoever
//! finds a slot still compares what else must match (Call-ID, remote tag, sent-by).
//!
//! The *epoch* grows with each start of the program. An identifier of an earlier run is told from
//! a stranger's as long as the key outlives the restart.

use crate::wire::MAGIC_COOKIE;
use turn::{HashKey, Slot};

/// How many characters an identifier has after the cookie.
pub const MINTED_LEN: usize = 24;

/// How many characters a minted branch has.
pub const BRANCH_LEN: usize = MAGIC_COOKIE.len() + MINTED_LEN;

/// Crockford's base32 in lower case: no i, l, o, u. In the order of its values.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Epoch, shard, index and generation.
const HANDLE_LEN: usize = 11;
/// A handle and its check.
const RAW_LEN: usize = HANDLE_LEN + 4;

/// What an identifier is for. Part of the check, so that one kind never reads as another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Minted {
    /// The branch of our Via: the key of a client transaction.
    Branch,
    /// Our tag in From or To: the key of a dialog.
    Tag,
    /// A Call-ID.
    CallId,
}

/// What a text turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// Minted in this run.
    Ours {
        /// The shard that minted it.
        shard: u8,
        /// Its owner on that shard; it may be gone by now.
        slot: Slot,
    },
    /// Minted by us before a restart.
    OldEpoch,
    /// Not minted by us.
    Strange,
}

/// Writes and reads identifiers. All shards share epoch and key, so that each can read what
/// another has minted.
#[derive(Clone, Copy, Debug)]
pub struct Minter {
    epoch: u16,
    shard: u8,
    key: HashKey,
}

impl Minter {
    /// A minter for one shard.
    pub const fn new(epoch: u16, shard: u8, key: HashKey) -> Self {
        Self { epoch, shard, key }
    }

    /// The shard whose identifiers it writes.
    pub const fn shard(&self) -> u8 {
        self.shard
    }

    /// Appends the identifier for `slot`; a branch with its cookie in front.
    pub fn write(&self, kind: Minted, slot: Slot, out: &mut Vec<u8>) {
        if kind == Minted::Branch {
            out.extend_from_slice(MAGIC_COOKIE);
        }
        out.extend_from_slice(&self.encode(kind, slot));
    }

    /// The branch for `slot`.
    pub fn branch(&self, slot: Slot) -> [u8; BRANCH_LEN] {
        let mut text = [0; BRANCH_LEN];
        let (cookie, handle) = text.split_at_mut(MAGIC_COOKIE.len());
        cookie.copy_from_slice(MAGIC_COOKIE);
        handle.copy_from_slice(&self.encode(Minted::Branch, slot));
        text
    }

    /// What `text` is. Letters may have changed their case on the way (RFC 3261 §7.3.1).
    pub fn read(&self, kind: Minted, text: &[u8]) -> Reading {
        let text = match kind {
            Minted::Branch => match strip_cookie(text) {
                Some(text) => text,
                None => return Reading::Strange,
            },
            Minted::Tag | Minted::CallId => text,
        };
        let Some(raw) = decode(text) else { return Reading::Strange };
        let (handle, check) = raw.split_at(HANDLE_LEN);
        // One comparison of two numbers: its time does not tell how many bits were right.
        if be32(check) != self.check(kind, handle) {
            return Reading::Strange;
        }
        if u16::from_be_bytes([handle[0], handle[1]]) != self.epoch {
            return Reading::OldEpoch;
        }
        let slot = Slot { index: be32(&handle[3..7]), generation: be32(&handle[7..11]) };
        Reading::Ours { shard: handle[2], slot }
    }

    /// The shard that minted `text` in this run, for the hop to it.
    pub fn shard_of(&self, kind: Minted, text: &[u8]) -> Option<u8> {
        match self.read(kind, text) {
            Reading::Ours { shard, .. } => Some(shard),
            Reading::OldEpoch | Reading::Strange => None,
        }
    }

    fn encode(&self, kind: Minted, slot: Slot) -> [u8; MINTED_LEN] {
        let mut raw = [0; RAW_LEN];
        raw[..2].copy_from_slice(&self.epoch.to_be_bytes());
        raw[2] = self.shard;
        raw[3..7].copy_from_slice(&slot.index.to_be_bytes());
        raw[7..HANDLE_LEN].copy_from_slice(&slot.generation.to_be_bytes());
        let check = self.check(kind, &raw[..HANDLE_LEN]);
        raw[HANDLE_LEN..].copy_from_slice(&check.to_be_bytes());
        encode(&raw)
    }

    fn check(&self, kind: Minted, handle: &[u8]) -> u32 {
        let mut text = [0; 1 + HANDLE_LEN];
        text[0] = match kind {
            Minted::Branch => b'b',
            Minted::Tag => b't',
            Minted::CallId => b'c',
        };
        text[1..].copy_from_slice(handle);
        (self.key.hash(&text) >> 32) as u32
    }
}

/// `branch` without the cookie; `None` for a branch older than RFC 3261.
pub fn strip_cookie(branch: &[u8]) -> Option<&[u8]> {
    let (cookie, rest) = branch.split_at_checked(MAGIC_COOKIE.len())?;
    cookie.eq_ignore_ascii_case(MAGIC_COOKIE).then_some(rest)
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Five bytes are eight characters.
fn encode(raw: &[u8; RAW_LEN]) -> [u8; MINTED_LEN] {
    let mut text = [0; MINTED_LEN];
    for (five, eight) in raw.chunks_exact(5).zip(text.chunks_exact_mut(8)) {
        let bits = five.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        for (at, letter) in eight.iter_mut().enumerate() {
            *letter = ALPHABET[(bits >> (35 - 5 * at) & 31) as usize];
        }
    }
    text
}

fn decode(text: &[u8]) -> Option<[u8; RAW_LEN]> {
    if text.len() != MINTED_LEN {
        return None;
    }
    let mut raw = [0; RAW_LEN];
    for (eight, five) in text.chunks_exact(8).zip(raw.chunks_exact_mut(5)) {
        let mut bits = 0_u64;
        for letter in eight {
            let value = VALUES[usize::from(*letter)];
            if value == NO_LETTER {
                return None;
            }
            bits = bits << 5 | u64::from(value);
        }
        five.copy_from_slice(&bits.to_be_bytes()[3..]);
    }
    Some(raw)
}

const NO_LETTER: u8 = 0xff;

/// The value of each letter, in both cases.
const VALUES: [u8; 256] = {
    let mut values = [NO_LETTER; 256];
    let mut value = 0;
    while value < ALPHABET.len() {
        values[ALPHABET[value] as usize] = value as u8;
        values[ALPHABET[value].to_ascii_uppercase() as usize] = value as u8;
        value += 1;
    }
    values
};

#[cfg(test)]
mod tests {
    use super::*;
    use turn::Rng;

    const KINDS: [Minted; 3] = [Minted::Branch, Minted::Tag, Minted::CallId];

    fn minter(epoch: u16, shard: u8) -> Minter {
        Minter::new(epoch, shard, HashKey::new(11, 22))
    }

    fn written(minter: &Minter, kind: Minted, slot: Slot) -> Vec<u8> {
        let mut text = Vec::new();
        minter.write(kind, slot, &mut text);
        text
    }

    #[test]
    fn any_shard_reads_what_one_has_minted() {
        let mut rng = Rng::new([1; 32]);
        let mut slots =
            vec![Slot { index: 0, generation: 0 }, Slot { index: u32::MAX, generation: u32::MAX }];
        slots.extend((0..100).map(|_| Slot { index: rng.next_u32(), generation: rng.next_u32() }));
        for slot in slots {
            for kind in KINDS {
                let text = written(&minter(7, 200), kind, slot);
                assert_eq!(minter(7, 3).read(kind, &text), Reading::Ours { shard: 200, slot });
                assert_eq!(minter(7, 3).shard_of(kind, &text), Some(200));
            }
        }
    }

    #[test]
    fn the_length_is_fixed_and_the_text_is_a_token() {
        let slot = Slot { index: 5, generation: 1 };
        let branch = written(&minter(1, 0), Minted::Branch, slot);
        assert_eq!(branch.len(), BRANCH_LEN);
        assert!(branch.starts_with(MAGIC_COOKIE));
        assert_eq!(branch, minter(1, 0).branch(slot));
        let tag = written(&minter(1, 0), Minted::Tag, slot);
        assert_eq!(tag.len(), MINTED_LEN);
        assert!(tag.iter().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase()));
    }

    #[test]
    fn upper_case_reads_the_same() {
        let slot = Slot { index: 77, generation: 3 };
        let text = written(&minter(1, 2), Minted::Branch, slot).to_ascii_uppercase();
        assert_eq!(minter(1, 0).read(Minted::Branch, &text), Reading::Ours { shard: 2, slot });
    }

    #[test]
    fn one_kind_is_a_stranger_as_another() {
        let slot = Slot { index: 5, generation: 1 };
        for wrote in KINDS {
            let text = written(&minter(1, 0), wrote, slot);
            let bare = strip_cookie(&text).unwrap_or(&text);
            for read in KINDS.into_iter().filter(|read| *read != wrote) {
                assert_eq!(minter(1, 0).read(read, bare), Reading::Strange);
                assert_eq!(minter(1, 0).read(read, &text), Reading::Strange);
            }
        }
    }

    #[test]
    fn any_changed_letter_makes_a_stranger() {
        let slot = Slot { index: 123_456, generation: 9 };
        let text = written(&minter(1, 0), Minted::Tag, slot);
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(minter(1, 0).read(Minted::Tag, &changed), Reading::Strange, "letter {at}");
        }
    }

    #[test]
    fn other_keys_lengths_and_letters_are_strange() {
        let text = written(&minter(1, 0), Minted::Tag, Slot { index: 1, generation: 1 });
        let other = Minter::new(1, 0, HashKey::new(11, 23));
        assert_eq!(other.read(Minted::Tag, &text), Reading::Strange);
        let ours = minter(1, 0);
        assert_eq!(ours.read(Minted::Tag, b""), Reading::Strange);
        assert_eq!(ours.read(Minted::Tag, &text[1..]), Reading::Strange);
        assert_eq!(ours.read(Minted::Branch, b"z9hG4bK"), Reading::Strange);
        assert_eq!(ours.read(Minted::Tag, &[0xff; MINTED_LEN]), Reading::Strange);
        assert_eq!(ours.read(Minted::Tag, b"uuuuuuuuuuuuuuuuuuuuuuuu"), Reading::Strange);
    }

    #[test]
    fn an_earlier_run_is_told_from_a_stranger() {
        let text = written(&minter(1, 0), Minted::Tag, Slot { index: 1, generation: 1 });
        assert_eq!(minter(2, 0).read(Minted::Tag, &text), Reading::OldEpoch);
    }
}
