//! A challenge to us, and our answer (RFC 7616 §3.4, RFC 3261 §22.1-22.3, RFC 8760 §2.4).
//!
//! Of several challenges of one realm the topmost counts whose algorithm we know. Credentials go
//! only to a realm that an account is for: whoever asks for others learns nothing (§22.1). A
//! request is answered for at most twice: once for a challenge, and once more when the server says
//! that only the nonce was stale, or that another realm wants its answer, too.

use smallvec::SmallVec;

use super::credentials::{Fields, bare, plain, unfolded};
use super::hash::{self, Algorithm, Asked, BadHash, Hex, Secret};
use crate::wire::{Message, Name};

/// Challenges of one response that are looked at: proxies on the way each add theirs.
const CHALLENGES_MAX: usize = 8;

/// Answers to challenges for one request.
const ROUNDS_MAX: u8 = 2;

/// A password, or the hash that stands for it. Prints as nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Kind);

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Text(Box<str>),
    Hash(Secret),
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(..)")
    }
}

impl Password {
    /// The password itself.
    pub fn of_text(password: &str) -> Self {
        Self(Kind::Text(password.into()))
    }

    /// `H(user:realm:password)` as hex, good for that hash alone.
    pub fn of_ha1(algorithm: Algorithm, hex: &str) -> Result<Self, BadHash> {
        Ok(Self(Kind::Hash(Secret::of_ha1(algorithm, hex)?)))
    }

    fn is_good_for(&self, algorithm: Algorithm) -> bool {
        match &self.0 {
            Kind::Text(_) => true,
            Kind::Hash(secret) => secret.ha1(algorithm).is_some(),
        }
    }

    fn ha1(&self, user: &str, realm: &[u8], algorithm: Algorithm) -> Option<Hex> {
        match &self.0 {
            Kind::Text(text) => {
                Some(algorithm.family().hash(&[user.as_bytes(), realm, text.as_bytes()]))
            }
            Kind::Hash(secret) => secret.ha1(algorithm).map(Hex::of),
        }
    }
}

/// With what we answer the challenges of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Who we are.
    pub user: Box<str>,
    /// For which realm; `None` for whatever realm the peer names.
    pub realm: Option<Box<str>>,
    /// How we prove it.
    pub password: Password,
}

/// Why a challenge is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is none that can be read.
    NoChallenge,
    /// No account is for its realm.
    NoAccount,
    /// Nothing that we know is offered.
    NoAlgorithm,
    /// Our answer to the one before was not good enough.
    Repeated,
}

#[derive(Clone, Debug)]
struct Challenge {
    is_proxy: bool,
    account: usize,
    realm: Box<[u8]>,
    nonce: Box<[u8]>,
    opaque: Option<Box<[u8]>>,
    algorithm: Algorithm,
    /// Whether the algorithm was named: then the answer names it, too.
    names_algorithm: bool,
    /// Whether `qop=auth` was offered; without any qop the answer is the older, weaker one.
    has_qop: bool,
    nc: u32,
}

/// The challenges that a dialog or a registration has met, and how often each nonce was used.
#[derive(Clone, Debug, Default)]
pub struct Answering {
    challenges: SmallVec<[Challenge; 1]>,
    rounds: u8,
}

impl Answering {
    /// Whether there is nothing to answer.
    pub fn is_empty(&self) -> bool {
        self.challenges.is_empty()
    }

    /// A new request begins: it may meet challenges of its own.
    pub fn begin(&mut self) {
        self.rounds = 0;
    }

    /// Learns from a 401 or 407 to the request that was sent last. `Ok`: send it again, with what
    /// [`Answering::write`] writes.
    pub fn on_challenge(
        &mut self,
        response: &Message<'_>,
        accounts: &[Account],
    ) -> Result<(), Refusal> {
        let mut taken: SmallVec<[Challenge; 1]> = SmallVec::new();
        let mut refusal = Refusal::NoChallenge;
        let mut is_stale = true;
        let names = [(Name::WwwAuthenticate, false), (Name::ProxyAuthenticate, true)];
        let lines = names.into_iter().flat_map(|(name, is_proxy)| {
            response.headers(name).map(move |value| (value, is_proxy))
        });
        for (value, is_proxy) in lines.take(CHALLENGES_MAX) {
            let value = unfolded(value);
            let Some(read) = Fields::of(&value).and_then(|fields| Read::of(&fields)) else {
                continue;
            };
            let realm = plain(read.realm);
            if taken.iter().any(|it| it.is_proxy == is_proxy && *it.realm == *realm) {
                continue;
            }
            match read.choose(is_proxy, &realm, accounts) {
                Ok(challenge) => {
                    is_stale &= read.is_stale && self.knows_other_nonce(&challenge);
                    taken.push(challenge);
                }
                Err(why) => refusal = why,
            }
        }
        if taken.is_empty() {
            return Err(refusal);
        }
        let is_first = self.rounds == 0;
        let is_new = taken.iter().any(|challenge| !self.has_nonce(challenge));
        // Behind a proxy that was satisfied stands another server with a realm of its own (§22.3).
        let is_next = taken.iter().any(|challenge| !self.knows_realm(challenge));
        if !is_new || self.rounds >= ROUNDS_MAX || !(is_first || is_stale || is_next) {
            return Err(Refusal::Repeated);
        }
        self.rounds += 1;
        for challenge in taken {
            self.challenges
                .retain(|it| it.is_proxy != challenge.is_proxy || it.realm != challenge.realm);
            self.challenges.push(challenge);
        }
        Ok(())
    }

    fn knows_realm(&self, challenge: &Challenge) -> bool {
        let mut same = self.challenges.iter().filter(|it| it.is_proxy == challenge.is_proxy);
        same.any(|it| it.realm == challenge.realm)
    }

    fn has_nonce(&self, challenge: &Challenge) -> bool {
        let mut same = self.challenges.iter().filter(|it| it.is_proxy == challenge.is_proxy);
        same.any(|it| it.realm == challenge.realm && it.nonce == challenge.nonce)
    }

    fn knows_other_nonce(&self, challenge: &Challenge) -> bool {
        let mut same = self.challenges.iter().filter(|it| it.is_proxy == challenge.is_proxy);
        same.any(|it| it.realm == challenge.realm && it.nonce != challenge.nonce)
    }

    /// Appends a header line for each challenge that was met, for a request of that method and
    /// Request-URI; the counts of the nonces go up by one.
    pub fn write(
        &mut self,
        accounts: &[Account],
        method: &[u8],
        uri: &[u8],
        cnonce: u64,
        out: &mut Vec<u8>,
    ) {
        for challenge in &mut self.challenges {
            let Some(account) = accounts.get(challenge.account) else { continue };
            challenge.nc = challenge.nc.wrapping_add(1);
            challenge.write(account, (method, uri), cnonce, out);
        }
    }
}

impl Challenge {
    fn write(
        &self,
        account: &Account,
        (method, uri): (&[u8], &[u8]),
        cnonce: u64,
        out: &mut Vec<u8>,
    ) {
        let Some(ha1) = account.password.ha1(&account.user, &self.realm, self.algorithm) else {
            return;
        };
        let (nc, cnonce) = (format!("{:08x}", self.nc), format!("{cnonce:016x}"));
        let asked = Asked {
            algorithm: self.algorithm,
            method,
            uri,
            nonce: &self.nonce,
            nc: nc.as_bytes(),
            cnonce: cnonce.as_bytes(),
        };
        let response = match self.has_qop {
            true => hash::response(ha1.as_bytes(), &asked),
            false => hash::response_without_qop(ha1.as_bytes(), &asked),
        };
        out.extend_from_slice(match self.is_proxy {
            false => b"Authorization: Digest username=",
            true => b"Proxy-Authorization: Digest username=",
        });
        push_quoted(out, account.user.as_bytes());
        out.extend_from_slice(b", realm=");
        push_quoted(out, &self.realm);
        // What is in quotes is sent back as it came: it went into the hash so.
        for (name, value) in [(&b", nonce=\""[..], &self.nonce[..]), (b"\", uri=\"", uri)] {
            out.extend_from_slice(name);
            out.extend_from_slice(value);
        }
        out.extend_from_slice(b"\", response=\"");
        out.extend_from_slice(response.as_bytes());
        out.push(b'"');
        if self.has_qop {
            out.extend_from_slice(b", cnonce=\"");
            out.extend_from_slice(cnonce.as_bytes());
            out.extend_from_slice(b"\", qop=auth, nc=");
            out.extend_from_slice(nc.as_bytes());
        }
        if self.names_algorithm {
            out.extend_from_slice(b", algorithm=");
            out.extend_from_slice(self.algorithm.as_str().as_bytes());
        }
        if let Some(opaque) = &self.opaque {
            out.extend_from_slice(b", opaque=\"");
            out.extend_from_slice(opaque);
            out.push(b'"');
        }
        out.extend_from_slice(b"\r\n");
    }
}

fn push_quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// The fields of a challenge, with their quotes.
#[derive(Clone, Copy, Debug, Default)]
struct Read<'m> {
    realm: &'m [u8],
    nonce: &'m [u8],
    opaque: Option<&'m [u8]>,
    algorithm: &'m [u8],
    qop: Option<&'m [u8]>,
    is_stale: bool,
}

impl<'m> Read<'m> {
    fn of(fields: &Fields<'m>) -> Option<Self> {
        let mut read = Self::default();
        let mut has_realm = false;
        for field in fields.iter() {
            let (name, value) = field.ok()?;
            if name.eq_ignore_ascii_case(b"realm") {
                has_realm = true;
                read.realm = value;
            } else if name.eq_ignore_ascii_case(b"nonce") {
                read.nonce = value;
            } else if name.eq_ignore_ascii_case(b"opaque") {
                read.opaque = Some(bare(value));
            } else if name.eq_ignore_ascii_case(b"algorithm") {
                read.algorithm = bare(value);
            } else if name.eq_ignore_ascii_case(b"qop") {
                read.qop = Some(bare(value));
            } else if name.eq_ignore_ascii_case(b"stale") {
                read.is_stale = bare(value).eq_ignore_ascii_case(b"true");
            }
        }
        (has_realm && !bare(read.nonce).is_empty()).then_some(read)
    }

    fn choose(
        &self,
        is_proxy: bool,
        realm: &[u8],
        accounts: &[Account],
    ) -> Result<Challenge, Refusal> {
        let is_for = |account: &Account| {
            account.realm.as_ref().is_none_or(|wanted| wanted.as_bytes() == realm)
        };
        if !accounts.iter().any(is_for) {
            return Err(Refusal::NoAccount);
        }
        let algorithm = match self.algorithm {
            b"" => Algorithm::Md5,
            token => Algorithm::of_token(token).ok_or(Refusal::NoAlgorithm)?,
        };
        let offers_auth = self.qop.is_none_or(|list| {
            list.split(|byte| *byte == b',').any(|it| it.trim_ascii().eq_ignore_ascii_case(b"auth"))
        });
        // Without qop there is no session key either.
        let offers_auth = offers_auth && (self.qop.is_some() || !algorithm.is_session());
        let account = accounts
            .iter()
            .position(|account| is_for(account) && account.password.is_good_for(algorithm))
            .filter(|_| offers_auth)
            .ok_or(Refusal::NoAlgorithm)?;
        Ok(Challenge {
            is_proxy,
            account,
            realm: realm.into(),
            nonce: bare(self.nonce).into(),
            opaque: self.opaque.map(Into::into),
            algorithm,
            names_algorithm: !self.algorithm.is_empty(),
            has_qop: self.qop.is_some(),
            nc: 0,
        })
    }
}
