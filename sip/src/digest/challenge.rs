//! Our challenges, and what comes back for them (RFC 7616 §3.3, §3.4, RFC 8760 §2.4).
//!
//! ```text
//! nonce    time (8 hex) + serial (8 hex) + check (32 hex)
//! check    the first half of SHA-256 (key : time : serial)
//! ```
//!
//! The serial makes two nonces of one second differ, so that their counts are two. A nonce that is
//! too old, of another key (the program was started again), or whose count was used before is
//! *stale* if the digest made with it is right: the client tries again with the next one and nobody
//! is asked for a password (RFC 7616 §3.3). So is one whose answer was made with an algorithm that
//! is not offered any more: the configuration was changed, and that is no guess at a password.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use subtle::ConstantTimeEq as _;
use turn::Wall;

use super::credentials::{Fields, bare, has_fold, plain, unfolded};
use super::hash::{self, Algorithm, Asked, Family, Secret};
use super::window::NonceCounts;
use crate::wire::{Message, Name};

/// Hex digits of a nonce.
const NONCE_LEN: usize = 48;

/// A nonce may come from a clock that is so much ahead of ours.
const AHEAD_MAX_S: i64 = 60;

/// What credentials were worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There are none for our realm.
    None,
    /// They are right.
    Accepted,
    /// The password is right, the nonce is not good, or no longer, or the algorithm is not offered.
    Stale,
    /// The password is wrong.
    Wrong,
    /// Nobody has that name.
    Unknown,
    /// They cannot be read, or are made in a way that we did not offer.
    Malformed,
}

/// A verdict, and on whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked<'m> {
    /// What the credentials were worth.
    pub verdict: Verdict,
    /// The name that they gave, without quotes; `None` when they gave none.
    pub username: Option<Cow<'m, [u8]>>,
}

impl Checked<'_> {
    fn of(verdict: Verdict) -> Self {
        Self { verdict, username: None }
    }

    fn into_owned<'a>(self) -> Checked<'a> {
        let username = self.username.map(|name| Cow::Owned(name.into_owned()));
        Checked { verdict: self.verdict, username }
    }
}

/// Makes challenges and judges credentials. All shards of a program have the same key.
pub struct Challenger {
    key: [u8; 32],
    realm: Box<str>,
    algorithms: Vec<Algorithm>,
    lifetime_s: i64,
    serial: AtomicU32,
    /// Stands in for a user that does not exist, so that the work is the same.
    nobody: Secret,
}

impl std::fmt::Debug for Challenger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Challenger").field("realm", &self.realm).finish_non_exhaustive()
    }
}

impl Challenger {
    /// Challenges of `realm`, which offer `algorithms` with the preferred one first, with nonces
    /// that are good for `lifetime`. `first_serial` must differ from shard to shard by more than
    /// the nonces of a second.
    pub fn new(
        key: [u8; 32],
        realm: &str,
        algorithms: &[Algorithm],
        lifetime: Duration,
        first_serial: u32,
    ) -> Self {
        Self {
            key,
            realm: realm.into(),
            algorithms: algorithms.to_vec(),
            lifetime_s: i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX),
            serial: AtomicU32::new(first_serial),
            nobody: Secret::of_password("", realm, ""),
        }
    }

    /// The serial of the next nonce: where a challenger that takes the place of this one must go
    /// on.
    pub fn next_serial(&self) -> u32 {
        self.serial.load(Ordering::Relaxed)
    }

    /// Appends a challenge: a header line for each algorithm (RFC 8760 §2.4).
    pub fn challenge(&self, now: Wall, is_proxy: bool, is_stale: bool, out: &mut Vec<u8>) {
        let time = (now.as_micros() / 1_000_000) as u32;
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let nonce = self.nonce(time, serial);
        for algorithm in &self.algorithms {
            out.extend_from_slice(match is_proxy {
                false => b"WWW-Authenticate: Digest realm=\"",
                true => b"Proxy-Authenticate: Digest realm=\"",
            });
            for byte in self.realm.bytes() {
                if matches!(byte, b'"' | b'\\') {
                    out.push(b'\\');
                }
                out.push(byte);
            }
            out.extend_from_slice(b"\", nonce=\"");
            out.extend_from_slice(&nonce);
            out.extend_from_slice(b"\", algorithm=");
            out.extend_from_slice(algorithm.as_str().as_bytes());
            out.extend_from_slice(b", qop=\"auth\"");
            if is_stale {
                out.extend_from_slice(b", stale=true");
            }
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Judges the credentials of a request. `find` gives the secret of a user.
    pub fn check<'m, 's>(
        &'s self,
        now: Wall,
        message: &Message<'m>,
        find: impl FnOnce(&str) -> Option<&'s Secret>,
        counts: &dyn NonceCounts,
    ) -> Checked<'m> {
        let values = || message.headers(Name::Authorization);
        if !values().any(has_fold) {
            return self.check_values(now, message, values(), (find, counts));
        }
        let flat: Vec<_> = values().map(unfolded).collect();
        self.check_values(now, message, flat.iter().map(AsRef::as_ref), (find, counts)).into_owned()
    }

    fn check_values<'v, 's>(
        &'s self,
        now: Wall,
        message: &Message<'_>,
        values: impl Iterator<Item = &'v [u8]>,
        how: (impl FnOnce(&str) -> Option<&'s Secret>, &dyn NonceCounts),
    ) -> Checked<'v> {
        let given = match self.credentials(values) {
            Ok(Some(given)) => given,
            Ok(None) => return Checked::of(Verdict::None),
            Err(()) => return Checked::of(Verdict::Malformed),
        };
        let username = plain(given.username);
        let verdict = self.judge(now, message, &given, &username, how);
        Checked { verdict, username: Some(username) }
    }

    fn judge<'s>(
        &'s self,
        now: Wall,
        message: &Message<'_>,
        given: &Given<'_>,
        username: &[u8],
        (find, counts): (impl FnOnce(&str) -> Option<&'s Secret>, &dyn NonceCounts),
    ) -> Verdict {
        let Some((asked, nc)) = given.asked(message) else {
            return Verdict::Malformed;
        };
        let found = str::from_utf8(username).ok().and_then(find);
        let known = found.and_then(|secret| secret.ha1(asked.algorithm));
        let ha1 = known.or_else(|| self.nobody.ha1(asked.algorithm)).unwrap_or_default();
        let wanted = hash::response(ha1, &asked);
        let is_right = is_same_hex(wanted.as_bytes(), bare(given.response));
        match (found.is_some(), known.is_some() && is_right) {
            (false, _) => Verdict::Unknown,
            (true, false) => Verdict::Wrong,
            (true, true) if !self.algorithms.contains(&asked.algorithm) => Verdict::Stale,
            (true, true) => match self.read_nonce(now, asked.nonce) {
                Some(nonce) if counts.fresh(nonce, nc, now) => Verdict::Accepted,
                Some(_) | None => Verdict::Stale,
            },
        }
    }

    /// The credentials for our realm, if there are any.
    fn credentials<'v>(
        &self,
        values: impl Iterator<Item = &'v [u8]>,
    ) -> Result<Option<Given<'v>>, ()> {
        for value in values {
            let Some(fields) = Fields::of(value) else { continue };
            let given = Given::of(&fields)?;
            if *plain(given.realm) == *self.realm.as_bytes() {
                return Ok(Some(given));
            }
        }
        Ok(None)
    }

    fn nonce(&self, time: u32, serial: u32) -> [u8; NONCE_LEN] {
        let mut nonce = [0; NONCE_LEN];
        write_hex(&mut nonce[..8], time);
        write_hex(&mut nonce[8..16], serial);
        let check = Family::Sha256.hash(&[&self.key, &nonce[..16]]);
        nonce[16..].copy_from_slice(&check.as_bytes()[..32]);
        nonce
    }

    /// What a nonce of ours is called in the table of counts; `None` when it is not ours or not
    /// good any more.
    fn read_nonce(&self, now: Wall, nonce: &[u8]) -> Option<u64> {
        let nonce: &[u8; NONCE_LEN] = nonce.try_into().ok()?;
        let (time, serial) = (read_hex(&nonce[..8])?, read_hex(&nonce[8..16])?);
        if !bool::from(self.nonce(time, serial).ct_eq(nonce)) {
            return None;
        }
        let age_s = now.as_micros() / 1_000_000 - i64::from(time);
        let is_good = age_s <= self.lifetime_s && age_s >= -AHEAD_MAX_S;
        is_good.then_some(u64::from(serial) << 32 | u64::from(time))
    }
}

/// The fields of credentials, with their quotes.
#[derive(Clone, Copy, Debug, Default)]
struct Given<'m> {
    username: &'m [u8],
    realm: &'m [u8],
    nonce: &'m [u8],
    uri: &'m [u8],
    response: &'m [u8],
    algorithm: &'m [u8],
    cnonce: &'m [u8],
    qop: &'m [u8],
    nc: &'m [u8],
    has_username: bool,
}

impl<'m> Given<'m> {
    fn of(fields: &Fields<'m>) -> Result<Self, ()> {
        let mut given = Self::default();
        for field in fields.iter() {
            let (name, value) = field.map_err(|_| ())?;
            let place = match () {
                () if name.eq_ignore_ascii_case(b"username") => {
                    given.has_username = true;
                    &mut given.username
                }
                () if name.eq_ignore_ascii_case(b"realm") => &mut given.realm,
                () if name.eq_ignore_ascii_case(b"nonce") => &mut given.nonce,
                () if name.eq_ignore_ascii_case(b"uri") => &mut given.uri,
                () if name.eq_ignore_ascii_case(b"response") => &mut given.response,
                () if name.eq_ignore_ascii_case(b"algorithm") => &mut given.algorithm,
                () if name.eq_ignore_ascii_case(b"cnonce") => &mut given.cnonce,
                () if name.eq_ignore_ascii_case(b"qop") => &mut given.qop,
                () if name.eq_ignore_ascii_case(b"nc") => &mut given.nc,
                () => continue,
            };
            if !place.is_empty() {
                // Twice the same: whatever is meant, it is no digest.
                return Err(());
            }
            *place = value;
        }
        Ok(given)
    }

    /// What the response must be made of, and the count; `None` when something is missing or is
    /// never offered.
    fn asked(&self, message: &Message<'m>) -> Option<(Asked<'m>, u32)> {
        let algorithm = match bare(self.algorithm) {
            b"" => Algorithm::Md5,
            token => Algorithm::of_token(token)?,
        };
        let (nc, cnonce) = (bare(self.nc), bare(self.cnonce));
        let is_whole = self.has_username
            && !bare(self.nonce).is_empty()
            && !bare(self.uri).is_empty()
            && !cnonce.is_empty()
            && bare(self.qop).eq_ignore_ascii_case(b"auth");
        let count = read_hex(nc).filter(|_| nc.len() == 8)?;
        is_whole.then_some((
            Asked {
                algorithm,
                method: message.method().as_bytes(),
                uri: bare(self.uri),
                nonce: bare(self.nonce),
                nc,
                cnonce,
            },
            count,
        ))
    }
}

/// Compares in a time that says nothing of where they differ. Some clients write capitals.
fn is_same_hex(wanted: &[u8], given: &[u8]) -> bool {
    let mut lower = [0; hash::HEX_MAX];
    let Some(lower) = lower.get_mut(..given.len()) else { return false };
    lower.copy_from_slice(given);
    lower.make_ascii_lowercase();
    bool::from(wanted.ct_eq(lower))
}

fn write_hex(out: &mut [u8], number: u32) {
    for (at, place) in out.iter_mut().rev().enumerate() {
        *place = hash::hex_digit((number >> (4 * at)) as u8 & 15);
    }
}

fn read_hex(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 8 {
        return None;
    }
    text.iter().try_fold(0, |number: u32, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        Some(number << 4 | digit)
    })
}

#[cfg(test)]
mod tests;
