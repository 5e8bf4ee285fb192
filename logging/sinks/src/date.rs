//! The date of a line: a small part of strftime, and Asterisk's `%3q` for milliseconds.

use std::fmt;
use std::io::Write as _;

use turn::Now;

/// How the date of a line is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateFormat(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Year,
    ShortYear,
    Month,
    MonthName,
    Day,
    DayPadded,
    Hour,
    Minute,
    Second,
    /// So many digits of the second's fraction.
    Fraction(u8),
    Zone,
}

/// A date format with a conversion that is not known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownConversion(String);

impl fmt::Display for UnknownConversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown conversion '{}' in a date format: expected one of %Y %y %m %b %d %e %H %M %S \
             %1q..%6q %z %F %T %%",
            self.0
        )
    }
}

impl std::error::Error for UnknownConversion {}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Default for DateFormat {
    /// `2026-11-30 20:15:01.123`, which fail2ban reads.
    fn default() -> Self {
        Self::parse("%F %T.%3q").expect("only known conversions")
    }
}

impl DateFormat {
    /// Reads a strftime format.
    pub fn parse(format: &str) -> Result<Self, UnknownConversion> {
        let mut pieces = Vec::new();
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            push_text(&mut pieces, &rest[..at]);
            rest = &rest[at..];
            let mut chars = rest.chars().skip(1);
            let conversion = chars.next().unwrap_or('%');
            let digits = conversion.to_digit(10).filter(|digits| (1..=6).contains(digits));
            let len = match (conversion, digits, chars.next()) {
                (_, Some(digits), Some('q')) => {
                    pieces.push(Piece::Fraction(digits as u8));
                    3
                }
                (_, None, _) if rest.len() > 1 && push_conversion(&mut pieces, conversion) => 2,
                _ => return Err(UnknownConversion(rest.chars().take(3).collect())),
            };
            rest = &rest[len..];
        }
        push_text(&mut pieces, rest);
        Ok(Self(pieces))
    }

    /// Appends the local date of `now`.
    pub fn write(&self, now: Now, out: &mut Vec<u8>) {
        let micros = now.wall.as_micros() + i64::from(now.utc_offset_s) * 1_000_000;
        let seconds = micros.div_euclid(1_000_000);
        let (year, month, day) = civil(seconds.div_euclid(86_400));
        let second = seconds.rem_euclid(86_400);
        let fraction = micros.rem_euclid(1_000_000);
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Year => number(out, year, 4),
                Piece::ShortYear => number(out, year.rem_euclid(100), 2),
                Piece::Month => number(out, month, 2),
                Piece::MonthName => out.extend_from_slice(MONTHS[month as usize - 1].as_bytes()),
                Piece::Day => number(out, day, 2),
                Piece::DayPadded => {
                    out.extend_from_slice(if day < 10 { b" " } else { b"" });
                    number(out, day, 1);
                }
                Piece::Hour => number(out, second / 3600, 2),
                Piece::Minute => number(out, second / 60 % 60, 2),
                Piece::Second => number(out, second % 60, 2),
                Piece::Fraction(digits) => {
                    let value = fraction / 10_i64.pow(6 - u32::from(*digits));
                    number(out, value, usize::from(*digits));
                }
                Piece::Zone => {
                    let minutes = now.utc_offset_s.abs() / 60;
                    out.push(if now.utc_offset_s < 0 { b'-' } else { b'+' });
                    number(out, i64::from(minutes / 60), 2);
                    number(out, i64::from(minutes % 60), 2);
                }
            }
        }
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

fn push_conversion(pieces: &mut Vec<Piece>, conversion: char) -> bool {
    match conversion {
        'Y' => pieces.push(Piece::Year),
        'y' => pieces.push(Piece::ShortYear),
        'm' => pieces.push(Piece::Month),
        'b' => pieces.push(Piece::MonthName),
        'd' => pieces.push(Piece::Day),
        'e' => pieces.push(Piece::DayPadded),
        'H' => pieces.push(Piece::Hour),
        'M' => pieces.push(Piece::Minute),
        'S' => pieces.push(Piece::Second),
        'z' => pieces.push(Piece::Zone),
        '%' => push_text(pieces, "%"),
        'F' => {
            let dash = || Piece::Text("-".to_owned());
            pieces.extend([Piece::Year, dash(), Piece::Month, dash(), Piece::Day]);
        }
        'T' => {
            let colon = || Piece::Text(":".to_owned());
            pieces.extend([Piece::Hour, colon(), Piece::Minute, colon(), Piece::Second]);
        }
        _ => return false,
    }
    true
}

fn number(out: &mut Vec<u8>, value: i64, digits: usize) {
    // Two digits are by far the most common.
    if digits == 2 && (0..100).contains(&value) {
        out.extend_from_slice(&[b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]);
    } else {
        write!(out, "{value:0digits$}").expect("a Vec takes every byte");
    }
}

/// Year, month and day of a number of days since 1970-01-01, in the proleptic Gregorian calendar
/// (Howard Hinnant's `civil_from_days`).
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use turn::Wall;

    use super::*;

    fn at(micros: i64, utc_offset_s: i32) -> Now {
        Now { wall: Wall::from_micros(micros), utc_offset_s, ..Now::default() }
    }

    fn written(format: &str, now: Now) -> String {
        let mut out = Vec::new();
        DateFormat::parse(format).unwrap().write(now, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_default_is_the_date_that_fail2ban_reads() {
        let mut out = Vec::new();
        DateFormat::default().write(at(1_796_069_701_123_456, 0), &mut out);
        assert_eq!(out, b"2026-11-30 20:15:01.123");
    }

    #[test]
    fn local_time_crosses_midnight_and_leap_days() {
        assert_eq!(written("%F %T", at(951_782_399_000_000, 3600)), "2000-02-29 00:59:59");
        assert_eq!(written("%F %T", at(-1_000_000, 0)), "1969-12-31 23:59:59");
        assert_eq!(written("%F", at(4_107_542_400_000_000, 0)), "2100-03-01");
    }

    #[test]
    fn every_conversion_is_written() {
        let now = at(1_796_069_701_123_456, -12_600);
        assert_eq!(
            written("%Y %y %m %b %d %e %H %M %S %1q %6q %z %%", now),
            "2026 26 11 Nov 30 30 16 45 01 1 123456 -0330 %"
        );
        assert_eq!(written("%e", at(0, 0)), " 1");
    }

    #[test]
    fn an_unknown_conversion_is_named() {
        for format in ["%Q", "%", "%9q", "%3", "ok %3z"] {
            let error = DateFormat::parse(format).unwrap_err().to_string();
            assert!(error.contains("unknown conversion"), "{format}: {error}");
        }
    }
}
