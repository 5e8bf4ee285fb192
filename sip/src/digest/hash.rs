//! The hashes, and the secrets made with them.

use md5::Md5;
use sha2::{Sha256, Sha512_256};

/// The longest hash as hex.
pub(super) const HEX_MAX: usize = 64;

/// How a digest is made (RFC 7616 §3.3, RFC 8760 §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// The oldest, and all that many phones know.
    Md5,
    /// MD5 with a key for the session.
    Md5Sess,
    /// What RFC 8760 wants everybody to know.
    Sha256,
    /// SHA-256 with a key for the session.
    Sha256Sess,
    /// The strongest.
    Sha512_256,
    /// SHA-512/256 with a key for the session.
    Sha512_256Sess,
}

impl Algorithm {
    /// All, the weakest first.
    pub const ALL: [Self; 6] = [
        Self::Md5,
        Self::Md5Sess,
        Self::Sha256,
        Self::Sha256Sess,
        Self::Sha512_256,
        Self::Sha512_256Sess,
    ];

    /// Its token.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Md5Sess => "MD5-sess",
            Self::Sha256 => "SHA-256",
            Self::Sha256Sess => "SHA-256-sess",
            Self::Sha512_256 => "SHA-512-256",
            Self::Sha512_256Sess => "SHA-512-256-sess",
        }
    }

    /// Reads a token, in any case.
    pub fn of_token(token: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|it| token.eq_ignore_ascii_case(it.as_str().as_bytes()))
    }

    /// Whether HA1 is hashed once more with nonce and cnonce.
    pub const fn is_session(self) -> bool {
        matches!(self, Self::Md5Sess | Self::Sha256Sess | Self::Sha512_256Sess)
    }

    /// Whether a HA1 for one is good for the other.
    pub fn is_same_hash(self, other: Self) -> bool {
        self.family() == other.family()
    }

    pub(super) const fn family(self) -> Family {
        match self {
            Self::Md5 | Self::Md5Sess => Family::Md5,
            Self::Sha256 | Self::Sha256Sess => Family::Sha256,
            Self::Sha512_256 | Self::Sha512_256Sess => Family::Sha512_256,
        }
    }
}

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Md5,
    Sha256,
    Sha512_256,
}

impl Family {
    /// Bytes of its result as hex.
    pub(super) const fn hex_len(self) -> usize {
        match self {
            Self::Md5 => 32,
            Self::Sha256 | Self::Sha512_256 => 64,
        }
    }

    /// The hash of the pieces, with a `:` between each two.
    pub(super) fn hash(self, pieces: &[&[u8]]) -> Hex {
        match self {
            Self::Md5 => hashed::<Md5>(pieces),
            Self::Sha256 => hashed::<Sha256>(pieces),
            Self::Sha512_256 => hashed::<Sha512_256>(pieces),
        }
    }
}

/// A hash as lower-case hex.
#[derive(Clone, Copy)]
pub(super) struct Hex {
    text: [u8; HEX_MAX],
    len: u8,
}

impl Hex {
    /// Of text that is hex already.
    pub(super) fn of(hex: &[u8]) -> Self {
        let len = hex.len().min(HEX_MAX);
        let mut text = [0; HEX_MAX];
        text[..len].copy_from_slice(&hex[..len]);
        Self { text, len: len as u8 }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.len)]
    }
}

fn hashed<D: sha2::Digest>(pieces: &[&[u8]]) -> Hex {
    let mut hash = D::new();
    for (at, piece) in pieces.iter().enumerate() {
        if at > 0 {
            hash.update(b":");
        }
        hash.update(piece);
    }
    let mut text = [0; HEX_MAX];
    let mut len = 0;
    for byte in hash.finalize() {
        text[len] = hex_digit(byte >> 4);
        text[len + 1] = hex_digit(byte & 15);
        len += 2;
    }
    Hex { text, len: len as u8 }
}

pub(super) const fn hex_digit(value: u8) -> u8 {
    b"0123456789abcdef"[value as usize]
}

/// What stands for a user's password in one realm: `H(user:realm:password)`, for each hash that can
/// be made. Prints as nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<Hashes>);

#[derive(Clone, Default, PartialEq, Eq)]
struct Hashes {
    md5: Option<[u8; 32]>,
    sha256: Option<[u8; 64]>,
    sha512_256: Option<[u8; 64]>,
}

/// A hash that is none: not as many hex digits as the algorithm makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHash {
    /// How many hex digits it must have.
    pub digits: usize,
}

impl std::fmt::Display for BadHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a hash of {} hex digits is wanted", self.digits)
    }
}

impl std::error::Error for BadHash {}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// Of a password: good for every algorithm.
    pub fn of_password(user: &str, realm: &str, password: &str) -> Self {
        let pieces = [user.as_bytes(), realm.as_bytes(), password.as_bytes()];
        Self(Box::new(Hashes {
            md5: Family::Md5.hash(&pieces).as_bytes().try_into().ok(),
            sha256: Family::Sha256.hash(&pieces).as_bytes().try_into().ok(),
            sha512_256: Family::Sha512_256.hash(&pieces).as_bytes().try_into().ok(),
        }))
    }

    /// Of `H(user:realm:password)` as hex: good for that hash alone.
    pub fn of_ha1(algorithm: Algorithm, hex: &str) -> Result<Self, BadHash> {
        let bad = BadHash { digits: algorithm.family().hex_len() };
        if hex.len() != bad.digits || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(bad);
        }
        let hex = hex.to_ascii_lowercase();
        let mut hashes = Hashes::default();
        match algorithm.family() {
            Family::Md5 => hashes.md5 = hex.as_bytes().try_into().ok(),
            Family::Sha256 => hashes.sha256 = hex.as_bytes().try_into().ok(),
            Family::Sha512_256 => hashes.sha512_256 = hex.as_bytes().try_into().ok(),
        }
        Ok(Self(Box::new(hashes)))
    }

    /// HA1 as hex, if it is known for that algorithm.
    pub(super) fn ha1(&self, algorithm: Algorithm) -> Option<&[u8]> {
        match algorithm.family() {
            Family::Md5 => self.0.md5.as_ref().map(|hex| &hex[..]),
            Family::Sha256 => self.0.sha256.as_ref().map(|hex| &hex[..]),
            Family::Sha512_256 => self.0.sha512_256.as_ref().map(|hex| &hex[..]),
        }
    }
}

/// What goes into a response beside HA1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) method: &'a [u8],
    pub(super) uri: &'a [u8],
    pub(super) nonce: &'a [u8],
    /// As eight hex digits.
    pub(super) nc: &'a [u8],
    pub(super) cnonce: &'a [u8],
}

/// The response for `qop=auth` (RFC 7616 §3.4.1).
pub(super) fn response(ha1: &[u8], asked: &Asked<'_>) -> Hex {
    let Asked { algorithm, method, uri, nonce, nc, cnonce } = *asked;
    let family = algorithm.family();
    let ha2 = family.hash(&[method, uri]);
    let ha2 = ha2.as_bytes();
    if algorithm.is_session() {
        let key = family.hash(&[ha1, nonce, cnonce]);
        return family.hash(&[key.as_bytes(), nonce, nc, cnonce, b"auth", ha2]);
    }
    family.hash(&[ha1, nonce, nc, cnonce, b"auth", ha2])
}

/// The response to a challenge without qop, as before RFC 2617: Kamailio still asks so by default.
pub(super) fn response_without_qop(ha1: &[u8], asked: &Asked<'_>) -> Hex {
    let family = asked.algorithm.family();
    let ha2 = family.hash(&[asked.method, asked.uri]);
    family.hash(&[ha1, asked.nonce, ha2.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7616 3.9.1.
    const MUFASA: Asked<'_> = Asked {
        algorithm: Algorithm::Md5,
        method: b"GET",
        uri: b"/dir/index.html",
        nonce: b"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
        nc: b"00000001",
        cnonce: b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
    };

    fn mufasa(algorithm: Algorithm) -> String {
        let secret = Secret::of_password("Mufasa", "http-auth@example.org", "Circle of Life");
        let asked = Asked { algorithm, ..MUFASA };
        let hex = response(secret.ha1(algorithm).unwrap(), &asked);
        String::from_utf8(hex.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn the_examples_of_rfc_7616_come_out() {
        assert_eq!(mufasa(Algorithm::Md5), "8ca523f5e9506fed4657c9700eebdbec");
        let sha256 = "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1";
        assert_eq!(mufasa(Algorithm::Sha256), sha256);
    }

    #[test]
    fn the_example_of_rfc_7616_3_9_2_comes_out() {
        // The hash that stands there is none of SHA-512/256 (it is in the errata); this one was
        // made by Python's hashlib.
        let secret = Secret::of_password("Jäsøn Doe", "api@example.org", "Secret, or not?");
        let asked = Asked {
            algorithm: Algorithm::Sha512_256,
            method: b"GET",
            uri: b"/doe.json",
            nonce: b"5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK",
            nc: b"00000001",
            cnonce: b"NTg6RKcb9boFIAS3KrFK9BGeh+niz/sm",
        };
        let hex = response(secret.ha1(Algorithm::Sha512_256).unwrap(), &asked);
        let wanted = "7a4e1192babbba02e91182d2895bfdbf7adafc6e48d4e517ca301974843d840c";
        assert_eq!(str::from_utf8(hex.as_bytes()).unwrap(), wanted);
    }

    #[test]
    fn a_session_key_changes_the_response() {
        for plain in [Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512_256] {
            let session = Algorithm::of_token(format!("{}-SESS", plain.as_str()).as_bytes());
            let session = session.unwrap();
            assert!(session.is_session());
            assert_ne!(mufasa(plain), mufasa(session));
        }
    }

    #[test]
    fn a_hash_stands_for_the_password_of_its_algorithm() {
        let whole = Secret::of_password("1000", "pbx", "secret1000");
        let hex = str::from_utf8(whole.ha1(Algorithm::Md5).unwrap()).unwrap().to_uppercase();
        let alone = Secret::of_ha1(Algorithm::Md5Sess, &hex).unwrap();
        assert_eq!(alone.ha1(Algorithm::Md5), whole.ha1(Algorithm::Md5));
        assert_eq!(alone.ha1(Algorithm::Sha256), None);
        assert_eq!(Secret::of_ha1(Algorithm::Sha256, &hex).unwrap_err().digits, 64);
        assert!(Secret::of_ha1(Algorithm::Md5, &"g".repeat(32)).is_err());
        assert_eq!(format!("{whole:?}"), "Secret(..)");
    }
}
