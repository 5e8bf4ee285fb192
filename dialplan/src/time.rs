//! Points in local time, and the times that an include or a GotoIfTime names.
//!
//! Asterisk's form: `times,days,days of the month,months`, each `*`, one, a range, or several
//! joined by `&`. A range may wrap (`22:00-06:00`, `fri-mon`); both ends belong to it, so
//! `18:00-07:59` ends when 8 o'clock begins. A time zone of its own is not built.

use std::fmt::Write as _;
use std::ops::Range;

/// A point in local time, to the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The year.
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 is Sunday.
    pub weekday: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// Seconds that the place is ahead of UTC.
    pub offset: i32,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const MONTHS_LONG: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const DAYS_LONG: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Moment {
    /// The moment that many seconds after 1970 began in UTC, at a place that is `offset` seconds
    /// ahead.
    pub fn from_epoch(epoch: i64, offset: i32) -> Self {
        let local = epoch.saturating_add(i64::from(offset));
        let (days, second) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        // Days since the first of March of the year 0, in eras of 400 years: leap days come last
        // in such a year.
        let shifted = days.saturating_add(719_468);
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let small = |value: i64| u8::try_from(value).unwrap_or_default();
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month: small(month),
            day: small(day_of_year - (153 * march_month + 2) / 5 + 1),
            weekday: small((days + 4).rem_euclid(7)),
            hour: small(second / 3_600),
            minute: small(second / 60 % 60),
            second: small(second % 60),
            offset,
        }
    }

    /// Appends the moment in the form of strftime(3); a conversion that is not known stays as
    /// written.
    pub fn format(&self, form: &str, out: &mut String) {
        let mut chars = form.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            match chars.next() {
                Some(conversion) => self.convert(conversion, out),
                None => out.push('%'),
            }
        }
    }

    fn convert(&self, conversion: char, out: &mut String) {
        let hour12 = match self.hour % 12 {
            0 => 12,
            hour => hour,
        };
        let day_name = DAYS_LONG[usize::from(self.weekday % 7)];
        let month_name = MONTHS_LONG[usize::from(self.month.clamp(1, 12) - 1)];
        let half = if self.hour < 12 { "AM" } else { "PM" };
        // Writing to a string cannot fail.
        let _ = match conversion {
            'Y' => write!(out, "{}", self.year),
            'y' => write!(out, "{:02}", self.year.rem_euclid(100)),
            'C' => write!(out, "{:02}", self.year.div_euclid(100)),
            'm' => write!(out, "{:02}", self.month),
            'd' => write!(out, "{:02}", self.day),
            'e' => write!(out, "{:2}", self.day),
            'H' => write!(out, "{:02}", self.hour),
            'k' => write!(out, "{:2}", self.hour),
            'I' => write!(out, "{hour12:02}"),
            'l' => write!(out, "{hour12:2}"),
            'M' => write!(out, "{:02}", self.minute),
            'S' => write!(out, "{:02}", self.second),
            'p' => out.write_str(half),
            'P' => out.write_str(&half.to_lowercase()),
            'A' => out.write_str(day_name),
            'a' => out.write_str(&day_name[..3]),
            'B' => out.write_str(month_name),
            'b' | 'h' => out.write_str(&month_name[..3]),
            'w' => write!(out, "{}", self.weekday),
            'u' => write!(out, "{}", if self.weekday == 0 { 7 } else { self.weekday }),
            'z' => {
                let (sign, minutes) =
                    if self.offset < 0 { ('-', -self.offset) } else { ('+', self.offset) };
                write!(out, "{sign}{:02}{:02}", minutes / 3_600, minutes / 60 % 60)
            }
            'F' => write!(out, "{}-{:02}-{:02}", self.year, self.month, self.day),
            'T' => write!(out, "{:02}:{:02}:{:02}", self.hour, self.minute, self.second),
            'R' => write!(out, "{:02}:{:02}", self.hour, self.minute),
            'D' => {
                let year = self.year.rem_euclid(100);
                write!(out, "{:02}/{:02}/{year:02}", self.month, self.day)
            }
            'n' => out.write_str("\n"),
            't' => out.write_str("\t"),
            '%' => out.write_str("%"),
            other => write!(out, "%{other}"),
        };
    }
}

/// Times, days, days of the month and months.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Minutes of the day, both ends included; empty is any.
    minutes: Vec<(u16, u16)>,
    /// Days of the week from Sunday.
    weekdays: Vec<(u8, u8)>,
    days: Vec<(u8, u8)>,
    months: Vec<(u8, u8)>,
}

/// What is wrong with times: where in the text, and why.
pub(crate) type TimesFault = (Range<usize>, String);

impl Times {
    /// Reads `09:00-17:59,mon-fri,*,*`; what is left out is any.
    pub(crate) fn parse(text: &str) -> Result<Self, TimesFault> {
        let mut times = Self::default();
        let mut start = 0;
        for (nth, field) in text.split(',').enumerate() {
            let range = start..start + field.len();
            start += field.len() + 1;
            times.read(nth, field.trim()).map_err(|why| (range, why))?;
        }
        Ok(times)
    }

    /// Reads one of the four fields.
    pub(crate) fn read(&mut self, nth: usize, field: &str) -> Result<(), String> {
        if field.is_empty() || field == "*" {
            return Ok(());
        }
        match nth {
            0 => self.minutes = ranges(field, &minute)?,
            1 => self.weekdays = ranges(field, &|text| named(text, &DAYS, "day of the week"))?,
            2 => self.days = ranges(field, &day)?,
            3 => {
                self.months = ranges(field, &|text| named(text, &MONTHS, "month"))?
                    .into_iter()
                    .map(|(from, to)| (from + 1, to + 1))
                    .collect();
            }
            4 => return Err("a time zone of its own is not built yet".to_owned()),
            _ => return Err("times, days, days of the month and months: no more".to_owned()),
        }
        Ok(())
    }

    /// Whether the moment is one of these times.
    pub fn hold(&self, at: &Moment) -> bool {
        let minute = u16::from(at.hour) * 60 + u16::from(at.minute);
        is_in(&self.minutes, minute)
            && is_in(&self.weekdays, at.weekday)
            && is_in(&self.days, at.day)
            && is_in(&self.months, at.month)
    }
}

fn is_in<T: Ord + Copy>(ranges: &[(T, T)], value: T) -> bool {
    let holds = |(from, to): &(T, T)| match from <= to {
        true => (*from..=*to).contains(&value),
        false => value >= *from || value <= *to,
    };
    ranges.is_empty() || ranges.iter().any(holds)
}

fn ranges<T: Copy>(
    field: &str,
    read: &dyn Fn(&str) -> Result<T, String>,
) -> Result<Vec<(T, T)>, String> {
    let one = |part: &str| match part.split_once('-') {
        Some((from, to)) => Ok((read(from.trim())?, read(to.trim())?)),
        None => read(part.trim()).map(|value| (value, value)),
    };
    field.split('&').map(one).collect()
}

fn minute(text: &str) -> Result<u16, String> {
    let fault = || format!("'{}' is no time such as 09:30", crate::read::shown(text));
    let (hour, minute) = text.split_once(':').ok_or_else(fault)?;
    let number = |text: &str, below: u16| {
        let digits = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u16>().ok().filter(|value| digits && *value < below).ok_or_else(fault)
    };
    Ok(number(hour, 24)? * 60 + number(minute, 60)?)
}

fn day(text: &str) -> Result<u8, String> {
    let fault = || format!("'{}' is no day of the month", crate::read::shown(text));
    text.parse().ok().filter(|day| (1..=31).contains(day)).ok_or_else(fault)
}

fn named(text: &str, names: &[&str], what: &str) -> Result<u8, String> {
    let lower = text.to_ascii_lowercase();
    let found = names.iter().position(|name| *name == lower);
    found
        .and_then(|at| u8::try_from(at).ok())
        .ok_or_else(|| format!("'{}' is no {what} such as {}", crate::read::shown(text), names[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tuesday, the first of December 2026, 03:20:05 in UTC.
    const NOW: i64 = 1_796_095_205;

    #[test]
    fn moments_are_those_of_the_calendar() {
        let shown = |epoch, offset, form: &str| {
            let mut out = String::new();
            Moment::from_epoch(epoch, offset).format(form, &mut out);
            out
        };
        assert_eq!(shown(NOW, 0, "%F %T %A %a %u"), "2026-12-01 03:20:05 Tuesday Tue 2");
        assert_eq!(shown(NOW, 3_600 * 9, "%I:%M %p %z"), "12:20 PM +0900");
        assert_eq!(shown(NOW, -3_600 * 4, "%d %B %Y %e %w %z"), "30 November 2026 30 1 -0400");
        assert_eq!(shown(951_782_400, 0, "%F %y%%%Q%"), "2000-02-29 00%%Q%");
        assert_eq!(shown(-1, 0, "%F %T"), "1969-12-31 23:59:59");
    }

    #[test]
    fn times_hold_to_the_minute_and_wrap() {
        let at = |hour, minute, weekday, day, month| Moment {
            hour,
            minute,
            weekday,
            day,
            month,
            ..Moment::default()
        };
        let holds = |text: &str, moment: Moment| Times::parse(text).unwrap().hold(&moment);
        assert!(holds("09:00-17:59,mon-fri,*,*", at(17, 59, 5, 1, 1)));
        assert!(!holds("09:00-17:59,mon-fri", at(18, 0, 5, 1, 1)));
        assert!(!holds("09:00-17:59,mon-fri", at(9, 0, 6, 1, 1)));
        assert!(
            holds("22:00-06:00", at(23, 0, 0, 1, 1)) && holds("22:00-06:00", at(6, 0, 0, 1, 1))
        );
        assert!(!holds("22:00-06:00", at(12, 0, 0, 1, 1)));
        assert!(holds("*,fri-mon", at(0, 0, 0, 1, 1)) && !holds("*,fri-mon", at(0, 0, 3, 1, 1)));
        assert!(holds("*,*,24-26&31,dec", at(0, 0, 0, 31, 12)));
        assert!(!holds("*,*,24-26&31,dec", at(0, 0, 0, 30, 12)));
        assert!(holds("", at(0, 0, 0, 1, 1)) && holds("*", at(0, 0, 0, 1, 1)));
    }

    #[test]
    fn what_is_no_time_is_said_at_its_place() {
        let fault = |text: &str| Times::parse(text).unwrap_err();
        assert_eq!(fault("9"), (0..1, "'9' is no time such as 09:30".to_owned()));
        assert_eq!(fault("24:00").1, "'24:00' is no time such as 09:30");
        assert_eq!(fault("*,munday"), (2..8, "'munday' is no day of the week such as mon".into()));
        assert_eq!(fault("*,*,0").1, "'0' is no day of the month");
        assert_eq!(fault("*,*,*,may-").1, "'' is no month such as feb");
        assert_eq!(fault("*,*,*,*,Europe/Berlin").1, "a time zone of its own is not built yet");
    }
}
