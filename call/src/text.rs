//! The texts of a call in one allocation.

use crate::leg::SetupText;

/// Longest text that is kept, in bytes: what is longer is cut at a character. A Call-ID or a
/// display name beyond it is nobody's honest wish.
pub const TEXT_MAX: usize = 255;

const FIELDS: usize = 5;

/// The texts of a [`SetupText`], owned and packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    bytes: Box<str>,
    ends: [u16; FIELDS],
}

impl Text {
    /// Copies the texts into one allocation; each is cut at [`TEXT_MAX`].
    pub fn pack(text: &SetupText<'_>) -> Self {
        let fields =
            [text.digits, text.caller_number, text.caller_name, text.foreign_id, text.peer]
                .map(cut);
        let mut bytes = String::with_capacity(fields.iter().map(|field| field.len()).sum());
        let mut ends = [0; FIELDS];
        for (end, field) in ends.iter_mut().zip(fields) {
            bytes.push_str(field);
            *end = u16::try_from(bytes.len()).expect("five texts of 255 bytes fit in 16 bits");
        }
        Self { bytes: bytes.into_boxed_str(), ends }
    }

    /// The same with other digits (an overlap caller dialled on).
    pub(crate) fn with_digits(&self, digits: &str) -> Self {
        Self::pack(&SetupText {
            digits,
            caller_number: self.caller_number(),
            caller_name: self.caller_name(),
            foreign_id: self.foreign_id(),
            peer: self.peer(),
        })
    }

    /// The dialled number or name.
    pub fn digits(&self) -> &str {
        self.field(0)
    }

    /// Caller's number.
    pub fn caller_number(&self) -> &str {
        self.field(1)
    }

    /// Caller's display name.
    pub fn caller_name(&self) -> &str {
        self.field(2)
    }

    /// The technology's own name of the call.
    pub fn foreign_id(&self) -> &str {
        self.field(3)
    }

    /// The peer's address.
    pub fn peer(&self) -> &str {
        self.field(4)
    }

    fn field(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[usize::from(start)..usize::from(self.ends[index])]
    }
}

/// `text` cut to at most [`TEXT_MAX`] bytes.
pub(crate) fn cut(text: &str) -> &str {
    cut_at(text, TEXT_MAX)
}

/// `text` cut to at most `limit` bytes, at a character.
pub(crate) fn cut_at(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_and_long_ones_are_cut_at_a_character() {
        let long = "é".repeat(200);
        let text = Text::pack(&SetupText {
            digits: "100",
            caller_number: "",
            caller_name: &long,
            foreign_id: "abc@host",
            peer: "127.0.0.1:5061",
        });
        assert_eq!((text.digits(), text.caller_number()), ("100", ""));
        assert_eq!(text.caller_name(), "é".repeat(127));
        assert_eq!((text.foreign_id(), text.peer()), ("abc@host", "127.0.0.1:5061"));
        let grown = text.with_digits("1002");
        assert_eq!((grown.digits(), grown.foreign_id()), ("1002", "abc@host"));
    }
}
