//! Both sides against each other, and credentials by hand.

use super::*;
use crate::digest::{Account, Answering, Password, Refusal};
use crate::wire::{Framing, Index};
use std::sync::atomic::AtomicU64;

const REALM: &str = "pbx.example";
const LIFETIME: Duration = Duration::from_secs(60);

/// The counts of the nonce that was used last: enough for one client.
#[derive(Debug, Default)]
struct Counts {
    nonce: AtomicU64,
    highest: AtomicU32,
}

impl NonceCounts for Counts {
    fn fresh(&self, nonce: u64, nc: u32, _: Wall) -> bool {
        if self.nonce.swap(nonce, Ordering::Relaxed) != nonce {
            self.highest.store(0, Ordering::Relaxed);
        }
        self.highest.fetch_max(nc, Ordering::Relaxed) < nc
    }
}

fn at(seconds: i64) -> Wall {
    Wall::from_micros((1_000_000 + seconds) * 1_000_000)
}

fn challenger(algorithms: &[Algorithm]) -> Challenger {
    Challenger::new([7; 32], REALM, algorithms, LIFETIME, 0)
}

fn account(user: &str, password: &str) -> Account {
    Account { user: user.into(), realm: None, password: Password::of_text(password) }
}

fn text(method: &str, lines: &str) -> String {
    format!(
        "{method} sip:pbx.example SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
         From: <sip:1000@pbx.example>;tag=1\r\nTo: <sip:1000@pbx.example>\r\nCall-ID: 1\r\n\
         CSeq: 1 {method}\r\n{lines}Content-Length: 0\r\n\r\n"
    )
}

/// A server with one user, and what it says to credentials.
struct Server {
    challenger: Challenger,
    secret: Secret,
    counts: Counts,
}

impl Server {
    fn new(algorithms: &[Algorithm]) -> Self {
        let secret = Secret::of_password("1000", REALM, "secret1000");
        Self { challenger: challenger(algorithms), secret, counts: Counts::default() }
    }

    fn check(&self, now: Wall, method: &str, lines: &str) -> Verdict {
        let text = text(method, lines);
        let mut index = Index::new();
        let message = index.parse(text.as_bytes(), Framing::Datagram).unwrap();
        let find = |user: &str| (user == "1000").then_some(&self.secret);
        self.challenger.check(now, &message, find, &self.counts).verdict
    }

    /// The lines of a challenge.
    fn challenge(&self, now: Wall, is_stale: bool) -> String {
        let mut out = Vec::new();
        self.challenger.challenge(now, false, is_stale, &mut out);
        String::from_utf8(out).unwrap()
    }
}

/// Lets a client learn from a challenge.
fn learn(client: &mut Answering, accounts: &[Account], lines: &str) -> Result<(), Refusal> {
    let text = format!(
        "SIP/2.0 401 Unauthorized\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
         From: <sip:1000@pbx.example>;tag=1\r\nTo: <sip:1000@pbx.example>;tag=2\r\n\
         Call-ID: 1\r\nCSeq: 1 REGISTER\r\n{lines}Content-Length: 0\r\n\r\n"
    );
    let mut index = Index::new();
    let message = index.parse(text.as_bytes(), Framing::Datagram).unwrap();
    client.on_challenge(&message, accounts)
}

fn answer(client: &mut Answering, accounts: &[Account], method: &str) -> String {
    let mut out = Vec::new();
    client.write(accounts, method.as_bytes(), b"sip:pbx.example", 0xabcd, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn every_algorithm_is_accepted_and_a_wrong_password_is_not() {
    for algorithm in Algorithm::ALL {
        let server = Server::new(&[algorithm]);
        let lines = server.challenge(at(0), false);
        for (user, password, wanted) in [
            ("1000", "secret1000", Verdict::Accepted),
            ("1000", "secret1001", Verdict::Wrong),
            ("1001", "secret1000", Verdict::Unknown),
        ] {
            let (mut client, accounts) = (Answering::default(), [account(user, password)]);
            learn(&mut client, &accounts, &lines).unwrap();
            let line = answer(&mut client, &accounts, "REGISTER");
            assert_eq!(server.check(at(1), "REGISTER", &line), wanted, "{algorithm:?} {line}");
        }
    }
}

#[test]
fn case_d01_a_stale_nonce_is_tried_again_once_and_a_refusal_is_believed() {
    let server = Server::new(&[Algorithm::Md5]);
    let (mut client, accounts) = (Answering::default(), [account("1000", "secret1000")]);
    learn(&mut client, &accounts, &server.challenge(at(0), false)).unwrap();
    let old = answer(&mut client, &accounts, "INVITE");
    assert_eq!(server.check(at(61), "INVITE", &old), Verdict::Stale);
    learn(&mut client, &accounts, &server.challenge(at(61), true)).unwrap();
    let new = answer(&mut client, &accounts, "INVITE");
    assert!(new.contains("nc=00000001"), "{new}");
    assert_eq!(server.check(at(61), "INVITE", &new), Verdict::Accepted);
    let again = learn(&mut client, &accounts, &server.challenge(at(62), true));
    assert_eq!(again, Err(Refusal::Repeated), "two rounds are enough for one request");

    let mut client = Answering::default();
    learn(&mut client, &accounts, &server.challenge(at(70), false)).unwrap();
    let refused = learn(&mut client, &accounts, &server.challenge(at(70), false));
    assert_eq!(refused, Err(Refusal::Repeated), "not stale: the password was wrong");
}

#[test]
fn case_d02_a_proxy_and_the_server_behind_it_each_get_their_answer() {
    let accounts = [account("1000", "secret1000")];
    let mut client = Answering::default();
    let line = |name: &str, realm: &str| {
        format!("{name}: Digest realm=\"{realm}\", nonce=\"n-{realm}\", qop=\"auth\"\r\n")
    };
    learn(&mut client, &accounts, &line("Proxy-Authenticate", "edge")).unwrap();
    learn(&mut client, &accounts, &line("WWW-Authenticate", "home")).unwrap();
    let both = answer(&mut client, &accounts, "INVITE");
    assert!(both.contains("Proxy-Authorization: ") && both.contains("nonce=\"n-home\""), "{both}");
    let third = learn(&mut client, &accounts, &line("WWW-Authenticate", "farther"));
    assert_eq!(third, Err(Refusal::Repeated), "two rounds are enough for one request");
}

#[test]
fn case_d03_each_use_of_a_nonce_counts_up_and_hashes_its_own_method() {
    let server = Server::new(&[Algorithm::Sha256]);
    let (mut client, accounts) = (Answering::default(), [account("1000", "secret1000")]);
    learn(&mut client, &accounts, &server.challenge(at(0), false)).unwrap();
    let mut lines = Vec::new();
    for (count, method) in ["BYE", "INFO", "REFER", "BYE", "INFO"].into_iter().enumerate() {
        client.begin();
        let line = answer(&mut client, &accounts, method);
        assert!(line.contains(&format!("nc={:08x}", count + 1)), "{line}");
        assert_eq!(server.check(at(1), method, &line), Verdict::Accepted);
        lines.push((method, line));
    }
    for (method, line) in lines {
        assert_eq!(server.check(at(2), method, &line), Verdict::Stale, "a count is good once");
        assert_eq!(server.check(at(2), "MESSAGE", &line), Verdict::Wrong, "another method");
    }
}

#[test]
fn case_d04_an_old_nonce_with_the_right_digest_is_stale_never_wrong() {
    let server = Server::new(&[Algorithm::Md5]);
    let (mut client, accounts) = (Answering::default(), [account("1000", "secret1000")]);
    learn(&mut client, &accounts, &server.challenge(at(0), false)).unwrap();
    let line = answer(&mut client, &accounts, "INVITE");
    let mut restarted = Server::new(&[Algorithm::Md5]);
    restarted.challenger = Challenger::new([8; 32], REALM, &[Algorithm::Md5], LIFETIME, 0);
    assert_eq!(restarted.check(at(1), "INVITE", &line), Verdict::Stale, "of another start");
    assert_eq!(server.check(at(61), "INVITE", &line), Verdict::Stale, "too old");
    assert_eq!(server.check(at(-61), "INVITE", &line), Verdict::Stale, "of the future");
    assert!(server.challenge(at(61), true).contains("stale=true"));
}

#[test]
fn case_d05_a_new_nonce_without_stale_is_tried_once_for_each_request() {
    let server = Server::new(&[Algorithm::Md5]);
    let (mut client, accounts) = (Answering::default(), [account("1000", "secret1000")]);
    learn(&mut client, &accounts, &server.challenge(at(0), false)).unwrap();
    // The refresh an hour later carries the old nonce and is challenged anew.
    client.begin();
    let old = answer(&mut client, &accounts, "REGISTER");
    assert_eq!(server.check(at(3600), "REGISTER", &old), Verdict::Stale);
    let lines = server.challenge(at(3600), false);
    learn(&mut client, &accounts, &lines).unwrap();
    let new = answer(&mut client, &accounts, "REGISTER");
    assert_eq!(server.check(at(3600), "REGISTER", &new), Verdict::Accepted);
    client.begin();
    assert_eq!(learn(&mut client, &accounts, &lines), Err(Refusal::Repeated), "the same nonce");
}

#[test]
fn case_d06_each_algorithm_has_its_line_and_the_topmost_known_one_is_answered() {
    let algorithms = [Algorithm::Sha512_256, Algorithm::Sha256, Algorithm::Md5];
    let server = Server::new(&algorithms);
    let lines = server.challenge(at(0), false);
    let named: Vec<&str> = lines
        .lines()
        .map(|line| line.split("algorithm=").nth(1).unwrap().split(',').next().unwrap())
        .collect();
    assert_eq!(named, ["SHA-512-256", "SHA-256", "MD5"]);
    assert!(lines.lines().all(|line| line.contains("qop=\"auth\"")), "{lines}");
    let md5_only = "c2b4b5ac56a1c3aab9f1eb4a0d3c7ad1";
    for (password, wanted) in [
        (Password::of_text("secret1000"), "algorithm=SHA-512-256"),
        (Password::of_ha1(Algorithm::Md5, md5_only).unwrap(), "algorithm=MD5"),
    ] {
        let accounts = [Account { password, ..account("1000", "") }];
        let mut client = Answering::default();
        learn(&mut client, &accounts, &lines).unwrap();
        let line = answer(&mut client, &accounts, "REGISTER");
        assert!(line.contains(wanted), "{line}");
    }
    let strange = "WWW-Authenticate: Digest realm=\"a\", nonce=\"b\", algorithm=SHA-9, \
                   qop=\"auth\"\r\n\
                   WWW-Authenticate: digest realm=\"a\", nonce=\"b\", algorithm=\"sha-256\", \
                   qop=\"auth-int, AUTH\"\r\n";
    let accounts = [account("1000", "secret1000")];
    let mut client = Answering::default();
    learn(&mut client, &accounts, strange).unwrap();
    assert!(answer(&mut client, &accounts, "REGISTER").contains("algorithm=SHA-256"));
    let first = strange.lines().next().unwrap().to_owned() + "\r\n";
    let refused = learn(&mut Answering::default(), &accounts, &first);
    assert_eq!(refused, Err(Refusal::NoAlgorithm));
}

#[test]
fn case_d07_credentials_go_to_configured_realms_only() {
    let server = Server::new(&[Algorithm::Md5]);
    let lines = server.challenge(at(0), false);
    let other = Account { realm: Some("carrier.example".into()), ..account("1000", "x") };
    let refused = learn(&mut Answering::default(), std::slice::from_ref(&other), &lines);
    assert_eq!(refused, Err(Refusal::NoAccount));
    assert_eq!(learn(&mut Answering::default(), &[], &lines), Err(Refusal::NoAccount));
    let accounts = [other, Account { realm: Some(REALM.into()), ..account("1000", "secret1000") }];
    let mut client = Answering::default();
    learn(&mut client, &accounts, &lines).unwrap();
    let line = answer(&mut client, &accounts, "REGISTER");
    assert_eq!(server.check(at(0), "REGISTER", &line), Verdict::Accepted);
}

#[test]
fn case_t15_no_challenge_no_second_try() {
    let accounts = [account("1000", "secret1000")];
    for lines in ["", "WWW-Authenticate: Basic realm=\"x\"\r\n", "WWW-Authenticate: Digest\r\n"] {
        let refused = learn(&mut Answering::default(), &accounts, lines);
        assert_eq!(refused, Err(Refusal::NoChallenge), "{lines}");
    }
}

#[test]
fn several_realms_are_answered_together() {
    let accounts = [
        Account { realm: Some("a".into()), ..account("in-a", "x") },
        Account { realm: Some("b".into()), ..account("in-b", "y") },
    ];
    let lines = "WWW-Authenticate: Digest realm=\"a\", nonce=\"1\", qop=\"auth\"\r\n\
                 Proxy-Authenticate: Digest realm=\"b\", nonce=\"2\", qop=\"auth\", \
                 opaque=\"o\"\r\n\
                 Proxy-Authenticate: Digest realm=\"c\", nonce=\"3\", qop=\"auth\"\r\n";
    let mut client = Answering::default();
    learn(&mut client, &accounts, lines).unwrap();
    let out = answer(&mut client, &accounts, "INVITE");
    let mut out = out.lines();
    let first = out.next().unwrap();
    assert!(first.starts_with("Authorization: Digest username=\"in-a\", realm=\"a\""), "{first}");
    assert!(!first.contains("algorithm="), "{first}");
    let second = out.next().unwrap();
    assert!(second.starts_with("Proxy-Authorization: Digest username=\"in-b\""), "{second}");
    assert!(second.ends_with("opaque=\"o\""), "{second}");
    assert_eq!(out.next(), None);
}

#[test]
fn a_challenge_without_qop_gets_the_older_answer() {
    let accounts = [account("Mufasa", "Circle Of Life")];
    let lines = "WWW-Authenticate: Digest realm=\"testrealm@host.com\", \
                 nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\"\r\n";
    let mut client = Answering::default();
    learn(&mut client, &accounts, lines).unwrap();
    let mut out = Vec::new();
    client.write(&accounts, b"GET", b"/dir/index.html", 1, &mut out);
    let out = String::from_utf8(out).unwrap();
    // The example of RFC 2617 3.5 without its qop, as every other implementation answers it.
    assert!(out.contains("response=\"670fd8c2df070c60b045671b8b24ff02\""), "{out}");
    assert!(!out.contains("nc="), "{out}");
}

/// After a reload that offers less, each phone comes with what it has proved itself with so far.
#[test]
fn an_algorithm_that_is_not_offered_any_more_is_stale_and_not_a_guess() {
    let both = Server::new(&[Algorithm::Sha256, Algorithm::Md5]);
    let (mut client, accounts) = (Answering::default(), [account("1000", "secret1000")]);
    learn(&mut client, &accounts, &both.challenge(at(0), false)).unwrap();
    let line = answer(&mut client, &accounts, "REGISTER");
    assert!(line.contains("algorithm=SHA-256"), "{line}");
    assert_eq!(both.check(at(0), "REGISTER", &line), Verdict::Accepted);

    let server = Server::new(&[Algorithm::Md5]);
    let line = answer(&mut client, &accounts, "REGISTER");
    assert_eq!(server.check(at(1), "REGISTER", &line), Verdict::Stale);
    let guess = line.replace("response=\"", "response=\"0");
    assert_eq!(server.check(at(1), "REGISTER", &guess), Verdict::Wrong);
    client.begin();
    learn(&mut client, &accounts, &server.challenge(at(1), true)).unwrap();
    let line = answer(&mut client, &accounts, "REGISTER");
    assert_eq!(server.check(at(1), "REGISTER", &line), Verdict::Accepted, "{line}");
}

#[test]
fn credentials_that_are_not_whole_are_told_apart_from_wrong_ones() {
    let server = Server::new(&[Algorithm::Md5]);
    let (mut client, accounts) = (Answering::default(), [account("1000", "secret1000")]);
    learn(&mut client, &accounts, &server.challenge(at(0), false)).unwrap();
    let line = answer(&mut client, &accounts, "REGISTER");
    for (from, to) in [
        (", nc=00000001", ""),
        ("nc=00000001", "nc=1"),
        ("nc=00000001", "nc=0000000g"),
        (", qop=auth", ""),
        ("qop=auth", "qop=auth-int"),
        ("algorithm=MD5", "algorithm=crc"),
        ("username=\"1000\", ", ""),
        ("cnonce=", "other="),
        ("nonce=\"", "nonce=\"\", nonce=\""),
        ("uri=\"sip:pbx.example\"", "uri=\"\""),
        ("username=\"1000\"", "username=\"1000"),
    ] {
        let broken = line.replacen(from, to, 1);
        assert_ne!(broken, line, "{from}");
        assert_eq!(server.check(at(0), "REGISTER", &broken), Verdict::Malformed, "{broken}");
    }
    let foreign = line.replace(REALM, "elsewhere");
    assert_eq!(server.check(at(0), "REGISTER", &foreign), Verdict::None);
    let both = format!("{foreign}{line}");
    assert_eq!(server.check(at(0), "REGISTER", &both), Verdict::Accepted);
    assert_eq!(server.check(at(0), "REGISTER", "Authorization: Basic eA==\r\n"), Verdict::None);
    assert_eq!(server.check(at(0), "REGISTER", ""), Verdict::None);
}

#[test]
fn capitals_quotes_and_folds_do_not_matter() {
    let server = Server::new(&[Algorithm::Md5]);
    let (mut client, accounts) = (Answering::default(), [account("1000", "secret1000")]);
    learn(&mut client, &accounts, &server.challenge(at(0), false)).unwrap();
    let line = answer(&mut client, &accounts, "REGISTER");
    let response = line.split("response=\"").nth(1).unwrap().split('"').next().unwrap();
    let odd = line
        .replace(response, &response.to_uppercase())
        .replace("algorithm=MD5", "ALGORITHM=\"md5\"")
        .replace("qop=auth", "qop=\"auth\"")
        .replace(", realm=", ",\r\n realm=");
    assert_eq!(server.check(at(0), "REGISTER", &odd), Verdict::Accepted, "{odd}");
}

#[test]
fn a_user_whose_hash_is_of_another_algorithm_cannot_be_accepted() {
    let mut server = Server::new(&[Algorithm::Sha256]);
    server.secret = Secret::of_ha1(Algorithm::Md5, &"0".repeat(32)).unwrap();
    let (mut client, accounts) = (Answering::default(), [account("1000", "secret1000")]);
    learn(&mut client, &accounts, &server.challenge(at(0), false)).unwrap();
    let line = answer(&mut client, &accounts, "REGISTER");
    assert_eq!(server.check(at(0), "REGISTER", &line), Verdict::Wrong);
}

#[test]
fn nonces_of_one_second_differ() {
    let challenger = challenger(&[Algorithm::Md5]);
    let (mut one, mut two) = (Vec::new(), Vec::new());
    challenger.challenge(at(0), true, false, &mut one);
    challenger.challenge(at(0), true, false, &mut two);
    assert_ne!(one, two);
    assert!(one.starts_with(b"Proxy-Authenticate: Digest realm=\"pbx.example\", nonce=\""));
}
