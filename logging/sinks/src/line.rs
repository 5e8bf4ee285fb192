//! From a record to its message: the text of its site with the fields in their places, cleaned
//! and without secrets.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use logging::{Record, Site, Value};

use crate::clean::{clean, clean_for_quotes, is_masking, mask, redact};

/// Stands where the end of a string is missing.
const CUT_MARK: &str = "…";

/// What every line of one site shares, taken apart once.
pub(crate) struct SiteLine {
    pub(crate) site: &'static Site,
    /// The text between the fields: one piece more than there are places.
    pieces: Vec<&'static str>,
    /// The file without its folders.
    pub(crate) file: &'static str,
}

impl SiteLine {
    pub(crate) fn new(site: &'static Site) -> Self {
        Self { site, pieces: site.text.split("{}").collect(), file: file_token(site.file) }
    }

    /// Appends the message of a record: the text with the fields in their places. Fields beyond
    /// the last place are appended.
    pub(crate) fn write_message(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        let mut values = record.values();
        let (first, rest) = self.pieces.split_first().unwrap_or((&"", &[]));
        out.extend_from_slice(first.as_bytes());
        for piece in rest {
            if let Some(value) = values.next() {
                write_value(value, out);
            }
            out.extend_from_slice(piece.as_bytes());
        }
        for value in values {
            write_value(value, out);
        }
    }
}

/// The file without its folders. No `:` may stand in it, or fail2ban's prefix does not match.
fn file_token(file: &str) -> &str {
    file.rsplit(['/', '\\', ':']).next().unwrap_or(file)
}

fn write_value(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Unsigned(number) => write_unsigned(number, out),
        Value::Signed(number) => write_plain(number, out),
        Value::Bool(truth) => write_plain(if truth { "yes" } else { "no" }, out),
        Value::Span(span) => write_plain(format_args!("{:.3}", span.as_secs_f64()), out),
        Value::Ip(ip) => write_ip(ip.to_canonical(), out),
        Value::Socket(address) => write_socket(address, out),
        Value::Absent => out.push(b'-'),
        Value::Name { stem, number } => {
            write_text(stem, false, clean, out);
            out.push(b'-');
            write_hex(number, out);
        }
        Value::Text { bytes, cut } => write_text(bytes, cut, clean, out),
        Value::Outside { bytes, cut } if is_masking() => {
            let mut masked = Vec::new();
            mask(bytes, &mut masked);
            write_text(&masked, cut, clean_for_quotes, out);
        }
        Value::Outside { bytes, cut } => write_text(bytes, cut, clean_for_quotes, out),
    }
}

/// In decimal, without the machinery of `fmt`: numbers are in every line.
pub(crate) fn write_unsigned(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Eight digits.
pub(crate) fn write_hex(number: u32, out: &mut Vec<u8>) {
    let digit = |at: u32| b"0123456789abcdef"[(number >> (28 - 4 * at) & 0xf) as usize];
    out.extend((0..8).map(digit));
}

/// An IPv4 address that came through an IPv6 socket is written as what it is: bans go by it.
fn write_socket(address: SocketAddr, out: &mut Vec<u8>) {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => write_ip(ip, out),
        ip @ IpAddr::V6(_) => write_plain(format_args!("[{ip}]"), out),
    }
    out.push(b':');
    write_unsigned(address.port().into(), out);
}

fn write_ip(ip: IpAddr, out: &mut Vec<u8>) {
    let IpAddr::V4(ip) = ip else { return write_plain(ip, out) };
    for (at, octet) in ip.octets().into_iter().enumerate() {
        if at > 0 {
            out.push(b'.');
        }
        write_unsigned(octet.into(), out);
    }
}

pub(crate) fn write_plain(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    write!(out, "{value}").expect("a Vec takes every byte");
}

fn write_text(bytes: &[u8], cut: bool, clean: fn(&[u8], &mut Vec<u8>), out: &mut Vec<u8>) {
    let mut redacted = Vec::new(); // allocates only when a secret was found
    let shown = if redact(bytes, &mut redacted) { &redacted } else { bytes };
    clean(if cut { whole_letters(shown) } else { shown }, out);
    if cut {
        out.extend_from_slice(CUT_MARK.as_bytes());
    }
}

/// Without the part of a letter that a cut may have left at the end.
fn whole_letters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_and_addresses_are_written_as_display_writes_them() {
        for number in [0, 9, 10, 1638, u64::MAX] {
            assert_eq!(text(|out| write_unsigned(number, out)), number.to_string());
        }
        for ip in ["192.0.2.255", "0.0.0.0", "2001:db8::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            assert_eq!(text(|out| write_ip(ip, out)), ip.to_string());
            let socket = SocketAddr::new(ip, 5060);
            assert_eq!(text(|out| write_value(Value::Socket(socket), out)), socket.to_string());
        }
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:5060".parse().unwrap();
        assert_eq!(text(|out| write_value(Value::Socket(mapped), out)), "192.0.2.1:5060");
        assert_eq!(text(|out| write_value(Value::Ip(mapped.ip()), out)), "192.0.2.1");
    }

    #[test]
    fn a_channel_s_name_ends_with_eight_digits() {
        for number in [1, 0x1a, 0xdead_beef, u32::MAX] {
            let name = Value::Name { stem: b"SIP/alice", number };
            assert_eq!(text(|out| write_value(name, out)), format!("SIP/alice-{number:08x}"));
        }
    }

    #[test]
    fn the_file_token_has_neither_folder_nor_colon() {
        assert_eq!(file_token("pbx/src/facts.rs"), "facts.rs");
        assert_eq!(file_token("a::b"), "b");
        assert_eq!(file_token("rustls"), "rustls");
    }
}
