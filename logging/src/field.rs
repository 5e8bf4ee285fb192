//! Fields of a record: raw values, written out by the writer thread and not by the caller.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Strings longer than this are cut, and carry a mark that says so.
pub const TEXT_MAX: usize = 255;

/// Fields in one record: enough for the longest security event of Asterisk (14 elements).
pub const FIELDS_MAX: usize = 15;

/// A value that a record can carry.
///
/// `&str` is taken for our own text and is only freed from control characters. `&[u8]` is taken
/// for text from outside: the writer also takes away what would let a caller end a quotation
/// (`'`, `"`, `(`, `)`), so that nobody can forge or evade a line that fail2ban reads. Where a
/// `&str` came from outside, wrap it in [`Quoted`]; where bytes are to be shown as they are, in
/// [`Plain`].
pub trait Field {
    /// Appends the value.
    fn put(&self, fields: &mut Fields<'_>);
}

/// Text from outside, to stand in a quotation.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

/// Bytes from outside whose quotation marks are kept. Never in a line that fail2ban reads.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a>(pub &'a [u8]);

/// The name of a channel as Asterisk's users know it, `SIP/alice-0000001a`: written out by the
/// writer, since it is in nearly every line of a call.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// `SIP/alice`.
    pub stem: &'a str,
    /// Shown as eight hexadecimal digits.
    pub number: u32,
}

/// Anything that has a `Display`: slower, since it is formatted by the caller. For errors.
#[derive(Clone, Copy, Debug)]
pub struct Shown<T>(pub T);

/// A field as the writer reads it back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A count or number.
    Unsigned(u64),
    /// A number that may be negative.
    Signed(i64),
    /// A truth.
    Bool(bool),
    /// A length of time.
    Span(Duration),
    /// An address.
    Ip(IpAddr),
    /// An address with port.
    Socket(SocketAddr),
    /// An absent value.
    Absent,
    /// The name of a channel.
    Name {
        /// In front of the number.
        stem: &'a [u8],
        /// Its number.
        number: u32,
    },
    /// Our own text; `cut` when it was longer.
    Text {
        /// The bytes, perhaps no UTF-8.
        bytes: &'a [u8],
        /// Whether the end is missing.
        cut: bool,
    },
    /// Text from outside; `cut` when it was longer.
    Outside {
        /// The bytes, perhaps no UTF-8.
        bytes: &'a [u8],
        /// Whether the end is missing.
        cut: bool,
    },
}

#[derive(Clone, Copy)]
#[repr(u8)]
enum Tag {
    Unsigned = 1,
    Signed,
    Bool,
    Span,
    Ipv4,
    Ipv6,
    Socket4,
    Socket6,
    Absent,
    Name,
    Text,
    TextCut,
    Outside,
    OutsideCut,
}

/// The place in a record where its fields are written.
#[derive(Debug)]
pub struct Fields<'r> {
    room: &'r mut [u8],
    len: usize,
    count: u8,
    cuts: u8,
}

impl<'r> Fields<'r> {
    pub(crate) fn new(room: &'r mut [u8]) -> Self {
        Self { room, len: 0, count: 0, cuts: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn count(&self) -> u8 {
        self.count
    }

    pub(crate) fn cuts(&self) -> u8 {
        self.cuts
    }

    /// Appends a value; the macros call this for each field.
    #[inline]
    pub fn put(&mut self, value: &(impl Field + ?Sized)) {
        value.put(self);
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, tag: Tag, bytes: [u8; N]) {
        match self.room.get_mut(self.len..self.len + 1 + N) {
            Some(place) => {
                place[0] = tag as u8;
                place[1..].copy_from_slice(&bytes);
                self.len += 1 + N;
                self.count += 1;
            }
            None => self.cuts = self.cuts.saturating_add(1),
        }
    }

    #[inline]
    fn text(&mut self, whole: Tag, cut: Tag, bytes: &[u8]) {
        let end = self.len + 2;
        if end > self.room.len() {
            self.cuts = self.cuts.saturating_add(1);
            return;
        }
        let taken = bytes.len().min(TEXT_MAX).min(self.room.len() - end);
        let is_cut = taken < bytes.len();
        self.room[self.len] = if is_cut { cut } else { whole } as u8;
        self.room[self.len + 1] = taken as u8; // at most TEXT_MAX
        self.room[end..end + taken].copy_from_slice(&bytes[..taken]);
        self.len = end + taken;
        self.count += 1;
        self.cuts = self.cuts.saturating_add(u8::from(is_cut));
    }
}

impl Field for [u8] {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        fields.text(Tag::Outside, Tag::OutsideCut, self);
    }
}

impl Field for Vec<u8> {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        self.as_slice().put(fields);
    }
}

impl<const N: usize> Field for [u8; N] {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        self.as_slice().put(fields);
    }
}

impl Field for str {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        fields.text(Tag::Text, Tag::TextCut, self.as_bytes());
    }
}

impl Field for String {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        self.as_str().put(fields);
    }
}

impl Field for Cow<'_, str> {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        self.as_ref().put(fields);
    }
}

impl Field for Quoted<'_> {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        fields.text(Tag::Outside, Tag::OutsideCut, self.0.as_bytes());
    }
}

impl Field for Plain<'_> {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        fields.text(Tag::Text, Tag::TextCut, self.0);
    }
}

impl Field for Name<'_> {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        let (before, cuts) = (fields.len, fields.cuts);
        fields.text(Tag::Name, Tag::TextCut, self.stem.as_bytes());
        // A stem that was cut, or had no room, is a text and has no number.
        if fields.cuts != cuts {
            return;
        }
        match fields.room.get_mut(fields.len..fields.len + 4) {
            Some(place) => {
                place.copy_from_slice(&self.number.to_ne_bytes());
                fields.len += 4;
            }
            None => fields.room[before] = Tag::TextCut as u8,
        }
    }
}

impl<T: fmt::Display> Field for Shown<T> {
    fn put(&self, fields: &mut Fields<'_>) {
        let mut text = ShortText::<TEXT_MAX>::new();
        // An error can only come from the value's own Display; what it wrote so far is shown.
        let _ = write!(text, "{}", self.0);
        let tag = if text.is_cut { Tag::TextCut } else { Tag::Text };
        fields.text(tag, Tag::TextCut, text.as_bytes());
        fields.cuts = fields.cuts.saturating_add(u8::from(text.is_cut));
    }
}

impl<T: Field + ?Sized> Field for &T {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        (**self).put(fields);
    }
}

impl<T: Field + ?Sized> Field for Box<T> {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        (**self).put(fields);
    }
}

impl<T: Field> Field for Option<T> {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        match self {
            Some(value) => value.put(fields),
            None => fields.fixed(Tag::Absent, []),
        }
    }
}

impl Field for bool {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        fields.fixed(Tag::Bool, [u8::from(*self)]);
    }
}

macro_rules! number {
    ($tag:ident, $wide:ty: $($narrow:ty)*) => { $(
        impl Field for $narrow {
            #[inline]
            fn put(&self, fields: &mut Fields<'_>) {
                fields.fixed(Tag::$tag, <$wide>::from(*self).to_ne_bytes());
            }
        }
    )* };
}

number!(Unsigned, u64: u8 u16 u32 u64);
number!(Signed, i64: i8 i16 i32 i64);

impl Field for usize {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        fields.fixed(Tag::Unsigned, (*self as u64).to_ne_bytes());
    }
}

impl Field for Duration {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        let micros = u64::try_from(self.as_micros()).unwrap_or(u64::MAX);
        fields.fixed(Tag::Span, micros.to_ne_bytes());
    }
}

impl Field for IpAddr {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        match self {
            Self::V4(ip) => fields.fixed(Tag::Ipv4, ip.octets()),
            Self::V6(ip) => fields.fixed(Tag::Ipv6, ip.octets()),
        }
    }
}

impl Field for SocketAddr {
    #[inline]
    fn put(&self, fields: &mut Fields<'_>) {
        let [high, low] = self.port().to_be_bytes();
        match self.ip() {
            IpAddr::V4(ip) => {
                let [a, b, c, d] = ip.octets();
                fields.fixed(Tag::Socket4, [a, b, c, d, high, low]);
            }
            IpAddr::V6(ip) => {
                let mut bytes = [high; 18];
                bytes[..16].copy_from_slice(&ip.octets());
                bytes[17] = low;
                fields.fixed(Tag::Socket6, bytes);
            }
        }
    }
}

/// Text on the stack, cut where it ends.
pub(crate) struct ShortText<const N: usize> {
    bytes: [u8; N],
    len: usize,
    pub(crate) is_cut: bool,
}

impl<const N: usize> ShortText<N> {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; N], len: 0, is_cut: false }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<const N: usize> fmt::Write for ShortText<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let taken = text.len().min(N - self.len);
        self.bytes[self.len..self.len + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.len += taken;
        self.is_cut |= taken < text.len();
        Ok(())
    }
}

/// Reads one value from the front of `bytes`; the rest is left for the next one.
pub(crate) fn read<'a>(bytes: &mut &'a [u8]) -> Option<Value<'a>> {
    let (tag, rest) = bytes.split_first()?;
    *bytes = rest;
    let tag = *tag;
    if (Tag::Text as u8..=Tag::OutsideCut as u8).contains(&tag) {
        let (len, rest) = bytes.split_first()?;
        let (text, rest) = rest.split_at_checked(usize::from(*len))?;
        *bytes = rest;
        let cut = tag == Tag::TextCut as u8 || tag == Tag::OutsideCut as u8;
        return Some(if tag <= Tag::TextCut as u8 {
            Value::Text { bytes: text, cut }
        } else {
            Value::Outside { bytes: text, cut }
        });
    }
    Some(match tag {
        t if t == Tag::Name as u8 => {
            let (len, rest) = bytes.split_first()?;
            let (stem, rest) = rest.split_at_checked(usize::from(*len))?;
            *bytes = rest;
            Value::Name { stem, number: u32::from_ne_bytes(take(bytes)?) }
        }
        t if t == Tag::Unsigned as u8 => Value::Unsigned(u64::from_ne_bytes(take(bytes)?)),
        t if t == Tag::Signed as u8 => Value::Signed(i64::from_ne_bytes(take(bytes)?)),
        t if t == Tag::Bool as u8 => Value::Bool(take::<1>(bytes)? != [0]),
        t if t == Tag::Span as u8 => {
            Value::Span(Duration::from_micros(u64::from_ne_bytes(take(bytes)?)))
        }
        t if t == Tag::Ipv4 as u8 => Value::Ip(Ipv4Addr::from(take::<4>(bytes)?).into()),
        t if t == Tag::Ipv6 as u8 => Value::Ip(Ipv6Addr::from(take::<16>(bytes)?).into()),
        t if t == Tag::Socket4 as u8 => {
            let ip = Ipv4Addr::from(take::<4>(bytes)?);
            Value::Socket((ip, u16::from_be_bytes(take(bytes)?)).into())
        }
        t if t == Tag::Socket6 as u8 => {
            let ip = Ipv6Addr::from(take::<16>(bytes)?);
            Value::Socket((ip, u16::from_be_bytes(take(bytes)?)).into())
        }
        t if t == Tag::Absent as u8 => Value::Absent,
        _ => return None,
    })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &dyn Field) -> Vec<u8> {
        let mut room = [0; 600];
        let mut fields = Fields::new(&mut room);
        value.put(&mut fields);
        let len = fields.len();
        room[..len].to_vec()
    }

    #[test]
    fn every_kind_of_value_reads_back() {
        let v4: SocketAddr = "192.0.2.1:5060".parse().unwrap();
        let v6: SocketAddr = "[2001:db8::2]:5061".parse().unwrap();
        let cases: Vec<(Box<dyn Field>, Value<'static>)> = vec![
            (Box::new(7_u16), Value::Unsigned(7)),
            (Box::new(usize::MAX), Value::Unsigned(u64::MAX)),
            (Box::new(-7_i32), Value::Signed(-7)),
            (Box::new(true), Value::Bool(true)),
            (Box::new(Duration::from_millis(5)), Value::Span(Duration::from_millis(5))),
            (Box::new(v4), Value::Socket(v4)),
            (Box::new(v6), Value::Socket(v6)),
            (Box::new(v4.ip()), Value::Ip(v4.ip())),
            (Box::new(v6.ip()), Value::Ip(v6.ip())),
            (Box::new(None::<u8>), Value::Absent),
            (Box::new(Some("x")), Value::Text { bytes: b"x", cut: false }),
            (Box::new(Quoted("x")), Value::Outside { bytes: b"x", cut: false }),
            (Box::new(b"x"), Value::Outside { bytes: b"x", cut: false }),
            (Box::new(Plain(b"x")), Value::Text { bytes: b"x", cut: false }),
            (
                Box::new(Name { stem: "SIP/a", number: 26 }),
                Value::Name { stem: b"SIP/a", number: 26 },
            ),
            (Box::new(Shown(1.5)), Value::Text { bytes: b"1.5", cut: false }),
        ];
        for (field, expected) in cases {
            let bytes = written(field.as_ref());
            let mut rest = bytes.as_slice();
            assert_eq!(read(&mut rest), Some(expected));
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn a_long_text_is_cut_at_its_limit_with_a_mark() {
        let text = "x".repeat(TEXT_MAX + 1);
        let (fits, fitting) = (written(&&text[1..]), written(&text.as_str()));
        assert_eq!(
            read(&mut fits.as_slice()),
            Some(Value::Text { bytes: &text.as_bytes()[1..], cut: false })
        );
        assert_eq!(
            read(&mut fitting.as_slice()),
            Some(Value::Text { bytes: &text.as_bytes()[1..], cut: true })
        );
        let name = written(&Name { stem: &text, number: 1 });
        assert!(matches!(read(&mut name.as_slice()), Some(Value::Text { cut: true, .. })));
        let shown = written(&Shown(&text));
        assert!(matches!(read(&mut shown.as_slice()), Some(Value::Text { cut: true, .. })));
    }

    #[test]
    fn a_field_without_room_is_left_out_and_counted() {
        let mut room = [0; 12];
        let mut fields = Fields::new(&mut room);
        fields.put(&1_u8);
        fields.put("text");
        fields.put(&2_u8);
        assert_eq!((fields.count(), fields.cuts()), (2, 2));
        let mut room = [0; 9];
        let mut fields = Fields::new(&mut room);
        fields.put(&Name { stem: "SIP/a", number: 1 });
        let len = fields.len();
        let cut = Value::Text { bytes: b"SIP/a", cut: true };
        assert_eq!(read(&mut &room[..len]), Some(cut), "no room for the number");
    }
}
