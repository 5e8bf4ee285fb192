//! The record as it travels: a head and raw fields, in units of 64 bytes.

use turn::{Now, Wall};

use crate::field::{self, FIELDS_MAX, TEXT_MAX, Value};

/// What a lane's ring is made of.
pub(crate) type Unit = [u8; UNIT_BYTES];

pub(crate) const UNIT_BYTES: usize = 64;

/// The longest record: as many of the longest strings as a record has fields.
pub(crate) const RECORD_UNITS_MAX: usize = 64;

pub(crate) const HEAD_BYTES: usize = 40;

const _: () = assert!(
    HEAD_BYTES + FIELDS_MAX * (TEXT_MAX + 2) <= RECORD_UNITS_MAX * UNIT_BYTES,
    "a record holds its fields even when each is the longest"
);

/// What stands in front of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) len: u16,
    pub(crate) verbosity: u8,
    pub(crate) fields: u8,
    pub(crate) site: u32,
    pub(crate) seq: u64,
    pub(crate) wall: i64,
    pub(crate) utc_offset_s: i32,
    pub(crate) call: u32,
    pub(crate) lwp: u32,
}

impl Head {
    /// How many units the record takes.
    #[inline]
    pub(crate) fn units(&self) -> usize {
        usize::from(self.len).div_ceil(UNIT_BYTES)
    }

    #[inline]
    pub(crate) fn write(&self, place: &mut [u8; HEAD_BYTES]) {
        place[0..2].copy_from_slice(&self.len.to_ne_bytes());
        place[2] = self.verbosity;
        place[3] = self.fields;
        place[4..8].copy_from_slice(&self.site.to_ne_bytes());
        place[8..16].copy_from_slice(&self.seq.to_ne_bytes());
        place[16..24].copy_from_slice(&self.wall.to_ne_bytes());
        place[24..28].copy_from_slice(&self.utc_offset_s.to_ne_bytes());
        place[28..32].copy_from_slice(&self.call.to_ne_bytes());
        place[32..36].copy_from_slice(&self.lwp.to_ne_bytes());
    }

    pub(crate) fn read(unit: &Unit) -> Self {
        fn at<const N: usize>(unit: &Unit, from: usize) -> [u8; N] {
            std::array::from_fn(|i| unit[from + i])
        }
        Self {
            len: u16::from_ne_bytes(at(unit, 0)),
            verbosity: unit[2],
            fields: unit[3],
            site: u32::from_ne_bytes(at(unit, 4)),
            seq: u64::from_ne_bytes(at(unit, 8)),
            wall: i64::from_ne_bytes(at(unit, 16)),
            utc_offset_s: i32::from_ne_bytes(at(unit, 24)),
            call: u32::from_ne_bytes(at(unit, 28)),
            lwp: u32::from_ne_bytes(at(unit, 32)),
        }
    }
}

/// A record as the writer reads it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    head: Head,
    fields: &'a [u8],
}

impl<'a> Record<'a> {
    pub(crate) fn new(head: Head, units: &'a [Unit]) -> Self {
        let bytes = units.as_flattened();
        let fields = bytes.get(HEAD_BYTES..usize::from(head.len)).unwrap_or_default();
        Self { head, fields }
    }

    /// The number of its call site, as [`crate::sites_from`] counts them.
    pub fn site(&self) -> usize {
        self.head.site as usize
    }

    /// When: of the turn that made it. The monotonic clock does not travel.
    pub fn now(&self) -> Now {
        Now {
            wall: Wall::from_micros(self.head.wall),
            utc_offset_s: self.head.utc_offset_s,
            ..Now::default()
        }
    }

    /// Its place among all records of its lane.
    pub fn seq(&self) -> u64 {
        self.head.seq
    }

    /// The number of the call that it belongs to; 0 for none.
    pub fn call(&self) -> u32 {
        self.head.call
    }

    /// The thread that made it.
    pub fn lwp(&self) -> u32 {
        self.head.lwp
    }

    /// The verbosity of VERBOSE and DEBUG; 1 otherwise.
    pub fn verbosity(&self) -> u8 {
        self.head.verbosity
    }

    /// The fields in order.
    pub fn values(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let mut rest = self.fields;
        (0..self.head.fields).map_while(move |_| field::read(&mut rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_back_as_written() {
        let head = Head {
            len: 129,
            verbosity: 3,
            fields: 4,
            site: 0xdead_beef,
            seq: u64::MAX - 1,
            wall: -1,
            utc_offset_s: -3600,
            call: 26,
            lwp: 1638,
        };
        let mut unit = [0xff; UNIT_BYTES];
        head.write((&mut unit[..HEAD_BYTES]).try_into().unwrap());
        assert_eq!(Head::read(&unit), head);
        assert_eq!(head.units(), 3);
    }
}
