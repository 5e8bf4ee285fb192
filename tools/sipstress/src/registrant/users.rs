//! Who registers: a range of names, each with a password made of it.

use anyhow::bail;

/// Users at most: their secrets lie in memory.
const USERS_MAX: u64 = 1_000_000;

/// A range of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Users {
    prefix: String,
    first: u64,
    count: u64,
    /// Digits that a number has at least.
    width: usize,
    password: String,
}

impl Users {
    /// Reads `1000-1999`, `user001-user100` or one name; `{user}` and `{n}` in the password stand
    /// for name and number.
    pub fn parse(range: &str, password: &str) -> anyhow::Result<Self> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (prefix, number) = split(first);
        let (last_prefix, last_number) = split(last);
        if !range.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
            bail!("--users {range}: letters, digits, `_` and `.` only, as in 1000-1999");
        }
        if prefix != last_prefix {
            bail!("--users {range}: both ends must begin alike, as in user001-user100");
        }
        let numbers = if number.is_empty() && first == last {
            (0, 0)
        } else {
            match (number.parse::<u64>(), last_number.parse::<u64>()) {
                (Ok(first), Ok(last)) if first <= last => (first, last),
                _ => bail!("--users {range}: a range runs upwards, as in 1000-1999"),
            }
        };
        let count = numbers.1 - numbers.0 + 1;
        if count > USERS_MAX {
            bail!("--users {range}: more than {USERS_MAX}");
        }
        Ok(Self {
            prefix: prefix.into(),
            first: numbers.0,
            count,
            width: number.len(),
            password: password.into(),
        })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The name of the user at that place.
    pub fn name(&self, place: u64) -> String {
        if self.width == 0 {
            return self.prefix.clone();
        }
        format!("{}{:0width$}", self.prefix, self.first + place, width = self.width)
    }

    /// Its password.
    pub fn password(&self, place: u64) -> String {
        let number = (self.first + place).to_string();
        self.password.replace("{user}", &self.name(place)).replace("{n}", &number)
    }
}

/// Splits the digits at the end off.
fn split(name: &str) -> (&str, &str) {
    name.split_at(name.trim_end_matches(|c: char| c.is_ascii_digit()).len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_counted_and_named() {
        let users = Users::parse("1000-1999", "secret{n}").unwrap();
        assert_eq!((users.count(), users.name(0), users.name(999)), {
            (1000, "1000".into(), "1999".into())
        });
        assert_eq!(users.password(1), "secret1001");
        let users = Users::parse("phone08-phone12", "pw-{user}").unwrap();
        assert_eq!((users.count(), users.name(0), users.name(4)), {
            (5, "phone08".into(), "phone12".into())
        });
        assert_eq!(users.password(2), "pw-phone10");
        let users = Users::parse("alice", "wonder").unwrap();
        assert_eq!((users.count(), users.name(0), users.password(0)), {
            (1, "alice".into(), "wonder".into())
        });
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for range in ["", "10-5", "a1-b2", "1-2000000", "a b", "alice-bob", "1000-"] {
            let parsed = Users::parse(range, "x");
            assert!(parsed.is_err() || range.is_empty(), "{range}: {parsed:?}");
        }
    }
}
