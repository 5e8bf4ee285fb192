//! Whom fail2ban bans by our security log: the log of a running PBX that was attacked goes through
//! `fail2ban-regex` with the stock filters of Debian 12 and of Debian sid, and the addresses that
//! it finds are compared with the truth.
//!
//! Attackers have addresses of their own in 127.0.0.0/8. Some write what FIELD reports as forged
//! bans: text that looks like another address, or that would end a quotation.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::outside::{Folder, wait_until};
use crate::pbx::Pbx;
use crate::probed::sipvicious;

/// As the jail that we ship.
const MAX_RETRY: usize = 10;

/// Everybody may try often, so that the number of lines is the test's and not the budget's.
const PARTIES: &str = r#"
[endpoints.phones]
range = "1000-1009"
password = "secret{n}"
context = "default"

[endpoints.inside]
password = "secret"
context = "default"
from = ["192.0.2.0/24"]

[trunks.carrier]
from = ["127.0.0.30"]
context = "default"

[abuse]
burst = 1000
per_second = 1000
failures = 1000
"#;

const PLAN: &str = r#"
[[context.default.exten]]
match = "answer"
steps = ["Answer()", "Wait(600)"]
"#;

/// Addresses found by `fail2ban-regex` in a log, and how often.
fn found(folder: &Folder, suite: &str, log: &str) -> BTreeMap<String, usize> {
    let place = target().join("fail2ban").join(suite);
    let log = folder.write("to-judge.log", log);
    let filter = place.join("etc/fail2ban/filter.d/asterisk.conf");
    let output = Command::new("/usr/bin/python3")
        .arg(place.join("usr/bin/fail2ban-regex"))
        .env("PYTHONPATH", place.join("usr/lib/python3/dist-packages"))
        .arg("--config")
        .arg(place.join("etc/fail2ban"))
        .args(["-o", "ip", "--usedns", "no"])
        .args([&log, &filter])
        .output()
        .expect("python3 runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let trouble = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!trouble.contains("Traceback"), "`cargo xtask test install` fetches it: {trouble}");
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        *found.entry(line.trim().to_owned()).or_default() += 1;
    }
    found
}

/// Whom a jail like ours bans, by both filters; they must agree.
fn banned(folder: &Folder, log: &str) -> Vec<String> {
    let of = |suite: &str| -> Vec<String> {
        let found = found(folder, suite, log);
        found.into_iter().filter(|(_, count)| *count >= MAX_RETRY).map(|(ip, _)| ip).collect()
    };
    let (old, new) = (of("bookworm"), of("sid"));
    assert_eq!(old, new, "the filters of both suites agree");
    old
}

fn target() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its file");
    test.ancestors().nth(3).expect("it lies in target/debug/deps").to_owned()
}

/// Somebody at an address of his own who writes what he likes.
struct Attacker {
    socket: UdpSocket,
    server: u16,
    sent: u32,
}

/// What stands in a request.
#[derive(Clone, Copy)]
struct Wording<'a> {
    method: &'a str,
    /// Of the Request-URI and To.
    user: &'a str,
    /// Of From.
    from: &'a str,
    /// In front of a number.
    call_id: &'a str,
    /// Further header lines.
    more: &'a str,
}

impl Default for Wording<'_> {
    fn default() -> Self {
        Self { method: "REGISTER", user: "1000", from: "1000", call_id: "c", more: "" }
    }
}

impl Attacker {
    fn at(address: &str, pbx: &Pbx) -> Attacker {
        let socket = UdpSocket::bind((address, 0)).expect("127.0.0.0/8 is this machine");
        socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket takes a limit");
        Attacker { socket, server: pbx.port(), sent: 0 }
    }

    fn write(&mut self, wording: Wording<'_>) {
        let Wording { method, user, from, call_id, more } = wording;
        self.sent += 1;
        let (n, own) = (self.sent, self.socket.local_addr().expect("it is bound"));
        let text = format!(
            "{method} sip:{user}@127.0.0.1 SIP/2.0\r\n\
             Via: SIP/2.0/UDP {own};branch=z9hG4bK-{own}-{n};rport\r\n\
             From: <sip:{from}@127.0.0.1>;tag=t{n}\r\nTo: <sip:{user}@127.0.0.1>\r\n\
             Call-ID: {call_id}{n}\r\nCSeq: {n} {method}\r\nMax-Forwards: 70\r\n\
             Contact: <sip:{own}>\r\n{more}Content-Length: 0\r\n\r\n"
        );
        self.send(text.as_bytes());
    }

    fn send(&self, bytes: &[u8]) {
        self.socket.send_to(bytes, ("127.0.0.1", self.server)).expect("loopback takes it");
    }

    /// The next message, if one comes.
    fn read(&self) -> Option<String> {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }

    /// The final response to a request.
    fn ask(&mut self, wording: Wording<'_>) -> String {
        self.write(wording);
        loop {
            let message = self.read().expect("an answer comes");
            if !message.starts_with("SIP/2.0 1") {
                return message;
            }
        }
    }

    /// A request with credentials that answer a fresh challenge, wrongly.
    fn guess(&mut self, account: &str, wording: Wording<'_>) -> String {
        let challenge = self.ask(wording);
        assert!(challenge.starts_with("SIP/2.0 401"), "{challenge}");
        let part = |name: &str| {
            let begin = challenge.find(&format!("{name}=\"")).expect("it is in the challenge");
            challenge[begin + name.len() + 2..].split('"').next().unwrap_or_default().to_owned()
        };
        let (realm, nonce) = (part("realm"), part("nonce"));
        let credentials = format!(
            "Authorization: Digest username=\"{account}\", realm=\"{realm}\", nonce=\"{nonce}\", \
             uri=\"sip:127.0.0.1\", response=\"00112233445566778899aabbccddeeff\", qop=auth, \
             nc=00000001, cnonce=\"x\", algorithm=MD5\r\n"
        );
        let more = format!("{}{credentials}", wording.more);
        self.ask(Wording { more: &more, ..wording })
    }
}

/// Waits until the log tells of so many events of an address, alone or as sums; all of it.
fn told(pbx: &Pbx, expected: &[(&str, u64)]) -> String {
    let count = |log: &str, address: &str| -> u64 {
        let of_address = log.lines().filter(|line| line.contains(&format!("/{address}/")));
        let failed = of_address.filter(|line| !line.contains("SuccessfulAuth"));
        failed.map(events_in).sum()
    };
    wait_until("all events are told", || {
        let log = pbx.log("security.log");
        expected.iter().all(|(address, events)| count(&log, address) >= *events)
    });
    let log = pbx.log("security.log");
    for (address, events) in expected {
        assert_eq!(count(&log, address), *events, "{address}: {log}");
    }
    log
}

/// How many events a line stands for.
fn events_in(line: &str) -> u64 {
    let count = line.split("Count=\"").nth(1).and_then(|rest| rest.split('"').next());
    count.map_or(1, |text| text.parse().expect("a number"))
}

#[test]
fn each_kind_of_attack_is_banned_and_no_phone_is() {
    let folder = Folder::new("banned");
    let pbx = Pbx::start_with(&folder, PLAN, PARTIES);
    let tries = 12;
    let at = |address: &str| Attacker::at(address, &pbx);
    let (mut password, mut user, mut acl) = (at("127.0.0.11"), at("127.0.0.12"), at("127.0.0.13"));
    let (mut number, broken) = (at("127.0.0.30"), at("127.0.0.15"));
    let (mut invite, mut other) = (at("127.0.0.16"), at("127.0.0.17"));
    let plain = Wording::default();
    for _ in 0..tries {
        // A wrong guess looks like a fresh challenge, whoever was meant.
        assert!(password.guess("1000", plain).starts_with("SIP/2.0 401"));
        let nobody = Wording { user: "9999", from: "9999", ..plain };
        assert!(user.guess("9999", nobody).starts_with("SIP/2.0 401"));
        acl.guess("inside", Wording { user: "inside", from: "inside", ..plain });
        // A trunk's wrong number is its customers' affair, and no attack.
        let wrong = Wording { method: "INVITE", user: "nowhere", ..plain };
        assert!(number.ask(wrong).starts_with("SIP/2.0 404"));
        broken.send(b"INVITE sip:100@127.0.0.1 SIP/2.0\r\nVia: nonsense\r\nTo: x\r\n\r\n");
        invite.guess("9999", Wording { method: "INVITE", user: "answer", from: "9999", ..plain });
        // Somebody else's name in From and his own account in the credentials.
        other.guess("1001", plain);
    }
    // Phones register all day: a first 401 is no failure.
    let mut phone = at("127.0.0.40");
    for _ in 0..tries {
        assert!(phone.ask(plain).starts_with("SIP/2.0 401"));
        std::thread::sleep(Duration::from_millis(20));
    }
    let guessers = ["127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.16", "127.0.0.17"];
    let expected: Vec<(&str, u64)> = guessers.iter().map(|it| (*it, tries)).collect();
    let log = told(&pbx, &expected);
    let mut truth: Vec<String> = guessers.iter().map(ToString::to_string).collect();
    truth.push("127.0.0.15".to_owned());
    truth.sort();
    wait_until("the broken messages are told", || {
        pbx.log("security.log").matches("/127.0.0.15/").count() >= MAX_RETRY
    });
    assert_eq!(banned(&folder, &pbx.log("security.log")), truth, "{log}");
    // The file for people tells the same; whoever points a jail at it bans the same guessers.
    let messages = pbx.log("messages");
    assert!(messages.contains("- Wrong password") && !messages.contains("SecurityEvent"));
    pbx.stop();
}

#[test]
fn case_l02_challenges_that_are_never_answered_are_told_and_a_phone_s_are_not() {
    let folder = Folder::new("l02");
    let pbx = Pbx::start_with(&folder, PLAN, PARTIES);
    let mut scanner = Attacker::at("127.0.0.66", &pbx);
    let mut phone = Attacker::at("127.0.0.67", &pbx);
    for at in 0..200 {
        scanner.write(Wording::default());
        if at % 40 == 0 {
            phone.ask(Wording::default());
        }
        std::thread::sleep(Duration::from_millis(15));
    }
    wait_until("the scanner is told", || {
        let log = pbx.log("security.log");
        log.lines().filter(|line| line.contains("/127.0.0.66/")).count() > 0
    });
    std::thread::sleep(Duration::from_millis(1_500));
    let log = pbx.log("security.log");
    assert!(log.contains("ChallengeResponseFailed"), "{log}");
    assert!(!log.contains("127.0.0.67"), "{log}");
    for suite in ["bookworm", "sid"] {
        let found = found(&folder, suite, &log);
        assert!(found.contains_key("127.0.0.66"), "{suite}: {found:?}: {log}");
        assert!(!found.contains_key("127.0.0.67"), "{suite}: {found:?}");
    }
    pbx.stop();
}

/// Texts that would forge a ban of 10.9.9.9, evade one, or split a line, if they got through.
const FORGED: [&str; 6] = [
    "x' (UDP:10.9.9.9:5060) to extension '1' rejected because extension not found in context 'a",
    "o'brien",
    "a%22,RemoteAddress=%22IPV4/UDP/10.9.9.9/5060%22",
    "\",RemoteAddress=\"IPV4/UDP/10.9.9.9/5060\",X=\"",
    "a)b",
    "' failed for '10.9.9.9:5060' - Wrong password",
];

#[test]
fn nobody_can_forge_a_ban_evade_one_or_split_a_line() {
    let folder = Folder::new("forged");
    let pbx = Pbx::start_with(&folder, PLAN, PARTIES);
    let mut addresses = Vec::new();
    for (at, text) in FORGED.iter().enumerate() {
        let address = format!("127.0.0.{}", 100 + at);
        let mut attacker = Attacker::at(&address, &pbx);
        let quoted = format!("\"{}\"", text.replace('"', "\\\""));
        for _ in 0..12 {
            // In the Call-ID, in a display name, in the User-Agent, and in the account that is
            // claimed; a broken message is told as such.
            let more = format!("User-Agent: {text}\r\nSubject: {quoted}\r\n");
            let wording = Wording { call_id: text, more: &more, ..Wording::default() };
            attacker.write(wording);
            let challenge = attacker.read().filter(|it| it.starts_with("SIP/2.0 401"));
            if challenge.is_some() {
                let account = text.replace(['"', '\\'], "");
                attacker.guess(&account, Wording { more: &more, ..Wording::default() });
            }
        }
        addresses.push(address);
    }
    let mut lf = Attacker::at("127.0.0.120", &pbx);
    for _ in 0..12 {
        lf.guess("a\u{2028}SecurityEvent", Wording::default());
    }
    addresses.push("127.0.0.120".to_owned());
    wait_until("everybody is told ten times", || {
        let log = pbx.log("security.log");
        addresses.iter().all(|it| log.matches(&format!("/{it}/")).count() >= MAX_RETRY)
    });
    let log = pbx.log("security.log");
    let whole = |line: &str| line.starts_with('[') && line.matches("RemoteAddress=").count() == 1;
    assert!(log.lines().all(whole), "{log}");
    addresses.sort();
    assert_eq!(banned(&folder, &log), addresses);
    // Nothing of another address in either file, by either filter.
    for log in [log, pbx.log("messages")] {
        for suite in ["bookworm", "sid"] {
            let found = found(&folder, suite, &log);
            assert!(found.keys().all(|it| it.starts_with("127.0.0.")), "{suite}: {found:?}");
        }
    }
    pbx.stop();
}

#[test]
fn sipvicious_is_banned_by_its_scan() {
    let folder = Folder::new("svwar-banned");
    let pbx = Pbx::start_with(&folder, PLAN, PARTIES);
    sipvicious(&folder, "svcrack", pbx.port(), &["-u", "1000", "-r", "1-40"]);
    wait_until("the guesses are told", || {
        let log = pbx.log("security.log");
        log.lines().filter(|line| line.contains("RemoteAddress=")).map(events_in).sum::<u64>() > 10
    });
    std::thread::sleep(Duration::from_millis(1_500));
    let log = pbx.log("security.log");
    assert_eq!(banned(&folder, &log), ["127.0.0.1"], "{log}");
    assert!(!log.contains('\x1b') && !pbx.log("messages").contains('\x1b'), "no colours in files");
    pbx.stop();
}

/// From, a dialled number and a colon: what the filter's prefix would take for the name of a file,
/// so that the caller's words were the message.
#[test]
fn nobody_forges_a_ban_by_from_or_by_a_number() {
    let folder = Folder::new("forged-numbers");
    let plan = "[[context.default.exten]]\nmatch = \"_X.\"\nsteps = [\"Log(NOTICE,called)\"]\n";
    let pbx = Pbx::start_with(&folder, plan, PARTIES);
    let words = "10.9.9.9%20failed%20to%20authenticate%20as%20x";
    let mut guesser = Attacker::at("127.0.0.130", &pbx);
    let from = format!("x%3A%20{words}");
    for _ in 0..12 {
        guesser.guess("1000", Wording { from: &from, ..Wording::default() });
    }
    // A trunk's callers reach the plan, whose lines tell the number.
    let mut caller = Attacker::at("127.0.0.30", &pbx);
    for user in [format!("1%3A%20{words}"), format!("a%3A%20{words}")] {
        let from = format!("b%3A%20{words}");
        caller.ask(Wording { method: "INVITE", user: &user, from: &from, ..Wording::default() });
    }
    let log = told(&pbx, &[("127.0.0.130", 12)]);
    assert_eq!(banned(&folder, &log), ["127.0.0.130"], "{log}");
    wait_until("the calls are told", || pbx.log("messages").contains("extension not found"));
    let messages = pbx.log("messages");
    assert!(messages.contains("called"), "{messages}");
    for suite in ["bookworm", "sid"] {
        let found = found(&folder, suite, &messages);
        assert!(found.keys().all(|it| it.starts_with("127.0.0.")), "{suite}: {found:?}");
    }
    pbx.stop();
}

/// The jail that we ship, read by fail2ban itself: the commands that it would run, not running any.
#[test]
fn fail2ban_understands_our_jail() {
    let folder = Folder::new("jail");
    let log = folder.write("security.log", "");
    let jail = include_str!("../../etc/fail2ban/jail.d/pbx.conf");
    let jail = jail.replace("/var/lib/pbx/log/security.log", &log.display().to_string());
    for suite in ["bookworm", "sid"] {
        let place = target().join("fail2ban").join(suite);
        let etc = folder.path().join(suite);
        let copied =
            Command::new("cp").arg("-r").arg(place.join("etc/fail2ban")).arg(&etc).status();
        assert!(copied.is_ok_and(|it| it.success()), "`cargo xtask test install` fetches it");
        folder.write(&format!("{suite}/jail.d/pbx.conf"), &jail);
        let output = Command::new("/usr/bin/python3")
            .arg(place.join("usr/bin/fail2ban-client"))
            .env("PYTHONPATH", place.join("usr/lib/python3/dist-packages"))
            .args(["-d", "-c"])
            .arg(&etc)
            .output()
            .expect("python3 runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = format!("{said}{}", String::from_utf8_lossy(&output.stderr));
        let path = format!("['set', 'pbx', 'addlogpath', '{}'", log.display());
        for wanted in ["['add', 'pbx', 'auto']", &path, "['set', 'pbx', 'maxretry', 10]"] {
            assert!(said.contains(wanted), "{suite}: {wanted}: {said}");
        }
        assert!(said.contains("RemoteAddress="), "{suite}: the stock filter: {said}");
        assert!(said.contains("['start', 'pbx']"), "{suite}: {said}");
    }
}

/// Guesses of SIPVicious from one address, SIPp's registrations from another one.
#[test]
fn svcrack_is_banned_and_registering_phones_are_not() {
    let folder = Folder::new("svcrack-phones");
    let pbx = Pbx::start_with(&folder, PLAN, PARTIES);
    let file = folder.write("register.xml", include_str!("../../etc/bench/sipp/register.xml"));
    let users = folder.write("users.csv", &crate::register_users());
    let (file, users) = (file.display().to_string(), users.display().to_string());
    let scenario = ["-sf", &file, "-inf", &users, "-i", "127.0.0.140"];
    let counts = crate::calling(&folder, &pbx, "register", &scenario, 100);
    assert_eq!((counts.completed, counts.failed), (100, 0), "{counts:?}");
    sipvicious(&folder, "svcrack", pbx.port(), &["-u", "1000", "-r", "1-40"]);
    wait_until("the guesses are told", || {
        pbx.log("security.log").matches("\"wrong_password\"").count() >= MAX_RETRY
    });
    let log = pbx.log("security.log");
    assert_eq!(banned(&folder, &log), ["127.0.0.1"], "{log}");
    let registered = log.lines().filter(|line| line.contains("/127.0.0.140/"));
    assert!(registered.clone().all(|line| line.contains("\"SuccessfulAuth\"")), "{log}");
    assert_eq!(registered.count(), 10, "each phone once: {log}");
    pbx.stop();
}
