//! What the fuzzer and the replay of its corpus do with header lines of digests, and what must hold
//! always. An input stands where a response has its challenges, and where a request has its
//! credentials.
//!
//! * Nothing panics, and reading fields ends.
//! * What we answer to a challenge is one header line for each, which can be read again.
//! * A server of that realm finds our answer right: the password is never *wrong*.
//! * Nobody is let in by credentials that were not made with our key.
//! * A challenge of ours is answered and accepted once, whatever realm and user are called.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sip::digest::{
    Account, Algorithm, Answering, Challenger, Fields, NonceCounts, Password, Refusal, Secret,
    Verdict,
};
use sip::wire::{Framing, Index, Message, Name, unquote};
use turn::Wall;

const NOW: Wall = Wall::from_micros(1_000_000_000_000);
const LIFETIME: Duration = Duration::from_secs(60);
const KEY: [u8; 32] = [7; 32];
const USER: &str = "us\\er\"";
const PASSWORD: &str = "secret";
const URI: &[u8] = b"sip:pbx.example";
/// Above what reads fields.
const FIELDS_MAX: usize = 33;
/// Header fields of [`text`].
const OTHER_FIELDS: usize = 6;

/// Lets one count pass.
#[derive(Debug, Default)]
struct Once(AtomicBool);

impl NonceCounts for Once {
    fn fresh(&self, _: u64, _: u32, _: Wall) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}

/// What an input was good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// A challenge in it was answered.
    pub(crate) answered: bool,
    /// Credentials in it could be read.
    pub(crate) read: bool,
}

/// Runs one input.
pub(crate) fn run(bytes: &[u8]) -> Seen {
    check_fields(bytes);
    own_challenge(bytes);
    Seen { answered: challenge(bytes), read: credentials(bytes) }
}

fn check_fields(value: &[u8]) {
    let Some(fields) = Fields::of(value) else { return };
    let all: Vec<_> = fields.iter().collect();
    assert!(all.len() <= FIELDS_MAX);
    let faulty = all.iter().position(Result::is_err);
    assert!(faulty.is_none_or(|at| at + 1 == all.len()), "nothing comes behind a fault");
    for (name, _) in all.into_iter().flatten() {
        assert!(!name.is_empty() && !name.contains(&b'"'), "{}", name.escape_ascii());
    }
}

fn text(start: &[u8], method: &str, lines: &[u8]) -> Vec<u8> {
    let head = format!(
        "\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\nFrom: <sip:1@a>;tag=1\r\n\
         To: <sip:1@a>;tag=2\r\nCall-ID: 1\r\nCSeq: 1 {method}\r\n"
    );
    [start, head.as_bytes(), lines, b"\r\nContent-Length: 0\r\n\r\n"].concat()
}

fn request(lines: &[u8]) -> Vec<u8> {
    text(b"REGISTER sip:pbx.example SIP/2.0", "REGISTER", lines)
}

fn account() -> Account {
    Account { user: USER.into(), realm: None, password: Password::of_text(PASSWORD) }
}

/// The input as a challenge; true when it was answered.
fn challenge(bytes: &[u8]) -> bool {
    let bytes =
        text(b"SIP/2.0 401 Unauthorized", "REGISTER", &[b"WWW-Authenticate: ", bytes].concat());
    let mut index = Index::new();
    let Ok(response) = index.parse(&bytes, Framing::Datagram) else { return false };
    let (mut answering, accounts) = (Answering::default(), [account()]);
    if answering.on_challenge(&response, &accounts).is_err() {
        assert!(answering.is_empty());
        return false;
    }
    let again = answering.on_challenge(&response, &accounts);
    assert_eq!(again, Err(Refusal::Repeated), "the same nonces");
    let mut lines = Vec::new();
    answering.write(&accounts, b"REGISTER", URI, 0xabcd, &mut lines);
    let lines = lines.strip_suffix(b"\r\n").expect("an answer is a line");
    let sent = request(lines);
    let mut index = Index::new();
    let sent = match index.parse(&sent, Framing::Datagram) {
        Ok(sent) => sent,
        Err(fault) => panic!("{fault}: {}", lines.escape_ascii()),
    };
    let names = [Name::Authorization, Name::ProxyAuthorization];
    let asked = [Name::WwwAuthenticate, Name::ProxyAuthenticate];
    for (name, asked) in names.into_iter().zip(asked) {
        let most = response.headers(asked).count();
        assert!(sent.headers(name).count() <= most, "{}", lines.escape_ascii());
    }
    let answers: usize = names.into_iter().map(|name| sent.headers(name).count()).sum();
    let others = sent.fields().count() - answers;
    assert_eq!(others, OTHER_FIELDS, "nothing but answers: {}", lines.escape_ascii());
    sent.headers(Name::Authorization).for_each(|value| check_answer(&sent, value));
    true
}

/// A server of the answer's realm reads it and finds the password right.
fn check_answer(sent: &Message<'_>, value: &[u8]) {
    let fields = Fields::of(value).expect("an answer is a digest");
    let fields: Vec<_> = match fields.iter().collect() {
        Ok(fields) => fields,
        Err(_) => panic!("our answer cannot be read: {}", value.escape_ascii()),
    };
    let has_qop = fields.iter().any(|(name, _)| *name == b"qop");
    let realm = fields.iter().find(|(name, _)| *name == b"realm").expect("it has a realm").1;
    let mut plain = Vec::new();
    unquote(realm, &mut plain);
    let Ok(realm) = String::from_utf8(plain) else { return };
    let server = Challenger::new(KEY, &realm, &Algorithm::ALL, LIFETIME, 0);
    let secret = Secret::of_password(USER, &realm, PASSWORD);
    let find = |user: &str| (user == USER).then_some(&secret);
    let verdict = server.check(NOW, sent, find, &Once::default()).verdict;
    // The first answer of that realm may be another one than this.
    let is_mixed = sent.headers(Name::Authorization).count() > 1;
    let wanted = if has_qop { Verdict::Stale } else { Verdict::Malformed };
    assert!(verdict == wanted || is_mixed, "{verdict:?}: {}", value.escape_ascii());
}

/// The input as credentials; true when they could be read.
fn credentials(bytes: &[u8]) -> bool {
    let bytes = request(&[b"Authorization: ", bytes].concat());
    let mut index = Index::new();
    let Ok(message) = index.parse(&bytes, Framing::Datagram) else { return false };
    let server = Challenger::new(KEY, "pbx", &Algorithm::ALL, LIFETIME, 0);
    let secret = Secret::of_password("1000", "pbx", "not to be guessed 4e1f");
    let checked = server.check(NOW, &message, |_| Some(&secret), &Once::default());
    assert_ne!(checked.verdict, Verdict::Accepted);
    assert_ne!(checked.verdict, Verdict::Stale, "that password was not given");
    let checked = server.check(NOW, &message, |_| None, &Once::default());
    assert_ne!(checked.verdict, Verdict::Wrong, "there is nobody");
    !matches!(checked.verdict, Verdict::None | Verdict::Malformed)
}

/// A challenge of ours with names out of the input: answered and accepted, once.
fn own_challenge(bytes: &[u8]) {
    let name = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]);
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    let half = name.chars().count() / 2;
    let (user, realm): (String, String) =
        (name.chars().take(half).collect(), name.chars().skip(half).collect());
    let (user, realm) = (user.as_str(), realm.as_str());
    let algorithm = Algorithm::ALL[bytes.len() % Algorithm::ALL.len()];
    let server = Challenger::new(KEY, realm, &[algorithm], LIFETIME, 0);
    let mut lines = Vec::new();
    server.challenge(NOW, false, false, &mut lines);
    let lines = lines.strip_suffix(b"\r\n").expect("a challenge is a line");
    let bytes = text(b"SIP/2.0 401 Unauthorized", "REGISTER", lines);
    let mut index = Index::new();
    let Ok(response) = index.parse(&bytes, Framing::Datagram) else {
        panic!("our challenge cannot be read: {}", lines.escape_ascii());
    };
    let account = Account {
        user: user.into(),
        realm: Some(realm.into()),
        password: Password::of_text(PASSWORD),
    };
    let (mut answering, accounts) = (Answering::default(), [account]);
    assert_eq!(answering.on_challenge(&response, &accounts), Ok(()), "{}", lines.escape_ascii());
    let mut lines = Vec::new();
    answering.write(&accounts, b"REGISTER", URI, 1, &mut lines);
    let lines = lines.strip_suffix(b"\r\n").expect("an answer is a line");
    let bytes = request(lines);
    let mut index = Index::new();
    let Ok(message) = index.parse(&bytes, Framing::Datagram) else {
        panic!("our answer cannot be read: {}", lines.escape_ascii());
    };
    let counts = Once::default();
    let secret = Secret::of_password(user, realm, PASSWORD);
    let verdict = || {
        let find = |given: &str| (given == user).then_some(&secret);
        server.check(NOW, &message, find, &counts).verdict
    };
    assert_eq!(verdict(), Verdict::Accepted, "{}", lines.escape_ascii());
    assert_eq!(verdict(), Verdict::Stale, "a count is good once");
    let other = Secret::of_password(user, realm, "another");
    let checked = server.check(NOW, &message, |_| Some(&other), &Once::default());
    assert_eq!(checked.verdict, Verdict::Wrong);
}
