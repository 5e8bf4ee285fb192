//! The security log of the running program: what stands there, letter by letter, and that its
//! counts add up. (Whom fail2ban bans by it is judged among the peers.)

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod rig;

use rig::{Folder, PATIENCE, Phone, Program, eventually};
use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

const PHONES: &str = r#"
auth.realm = "pbx.test"
limits.sojourn = "20s"
[endpoints.desk]
range = "1000-1009"
password = "secret{n}"
context = "in"
"#;

fn folder(more: &str) -> Folder {
    let folder = Folder::new();
    folder.configure(&format!("{more}\n{PHONES}"));
    folder
}

/// A REGISTER with credentials that nobody can read.
fn guess(transport: &str, own: SocketAddr, call_id: &str) -> String {
    format!(
        "REGISTER sip:pbx.test SIP/2.0\r\n\
         Via: SIP/2.0/{transport} {own};branch=z9hG4bK{call_id};rport\r\n\
         From: <sip:1000@pbx.test>;tag=1\r\nTo: <sip:1000@pbx.test>\r\nCall-ID: {call_id}\r\n\
         CSeq: 1 REGISTER\r\nMax-Forwards: 70\r\nContact: <sip:1000@{own}>\r\n\
         Authorization: Digest username=\"1000\", realm=\"pbx.test\"\r\nContent-Length: 0\r\n\r\n"
    )
}

fn socket(own: &str) -> UdpSocket {
    let socket = UdpSocket::bind((own, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn answer(socket: &UdpSocket) -> String {
    let mut buffer = [0; 4_096];
    let length = socket.recv(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// The value of an element of an event.
fn element<'l>(line: &'l str, name: &str) -> &'l str {
    let value = line.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
    value.unwrap_or_else(|| panic!("no {name} in {line}"))
}

fn events(folder: &Folder, reason: &str) -> Vec<String> {
    let log = folder.read("log/security.log");
    let wanted = format!("Reason=\"{reason}\"");
    log.lines().filter(|line| line.contains(&wanted)).map(str::to_owned).collect()
}

fn events_in(lines: &[String]) -> u64 {
    lines.iter().map(|line| element(line, "Count").parse::<u64>().unwrap()).sum()
}

/// The line without its times and numbers of threads.
fn shape(line: &str) -> String {
    let time = element(line, "EventTV");
    let (_, rest) = line.split_once("] ").unwrap();
    let (level, rest) = rest.split_once('[').unwrap();
    let (thread, rest) = rest.split_once("] ").unwrap();
    assert!(thread.bytes().all(|byte| byte.is_ascii_digit()), "{line}");
    format!("{level}[] {}", rest.replace(time, "T"))
}

/// L03: whatever it came by, one stable line without colour, the address as an element of its own.
#[test]
fn case_l03_each_transport_has_the_same_line() {
    let folder = folder("sip.listen = [\"127.0.0.1:0\", \"[::1]:0\"]");
    let program = Program::start(&folder, &[]);
    let mut expected = Vec::new();
    let mut expect = |family: &str, (local, own): (SocketAddr, SocketAddr), call_id: &str| {
        expected.push(format!(
            "SECURITY[] security.rs: SecurityEvent=\"ChallengeResponseFailed\",EventTV=\"T\",\
             Severity=\"Error\",Service=\"SIP\",EventVersion=\"1\",AccountID=\"1000\",\
             SessionID=\"{call_id}\",Reason=\"credentials\",Count=\"1\",\
             LocalAddress=\"{family}/{}/{}\",RemoteAddress=\"{family}/{}/{}\"",
            local.ip(),
            local.port(),
            own.ip(),
            own.port()
        ));
    };
    for (local, family, ip) in
        [(program.addresses[0], "IPV4/UDP", "127.0.0.9"), (program.addresses[1], "IPV6/UDP", "::1")]
    {
        let socket = socket(ip);
        let own = socket.local_addr().unwrap();
        socket.send_to(guess("UDP", own, "by-udp").as_bytes(), local).unwrap();
        assert!(answer(&socket).starts_with("SIP/2.0 401 "));
        expect(family, (local, own), "by-udp");
    }
    for (local, family) in [(program.addresses[0], "IPV4/TCP"), (program.addresses[1], "IPV6/TCP")]
    {
        let mut stream = TcpStream::connect(local).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let own = stream.local_addr().unwrap();
        stream.write_all(guess("TCP", own, "by-tcp").as_bytes()).unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).unwrap();
        assert_eq!(&begin, b"SIP/2.0 401 ");
        expect(family, (local, own), "by-tcp");
    }
    eventually("all are in the log", || events(&folder, "credentials").len() >= 4);
    let lines: Vec<String> = events(&folder, "credentials").iter().map(|it| shape(it)).collect();
    assert_eq!(lines, expected);
    assert!(!folder.read("log/security.log").contains('\x1b'));
}

/// L06: REGISTER, 401, REGISTER with digest: one success and no failure, in either file.
#[test]
fn case_l06_a_phone_s_first_401_is_no_failure() {
    let folder = folder("");
    let mut program = Program::start(&folder, &[]);
    let mut phone = Phone::at("127.0.0.9", program.address);
    assert!(phone.register("1000", "secret1000").starts_with("SIP/2.0 200 "));
    program.signal(Signal::TERM);
    assert!(program.ended().success());
    let log = folder.read("log/security.log");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert_eq!(element(lines[0], "SecurityEvent"), "SuccessfulAuth");
    assert_eq!(element(lines[0], "AccountID"), "1000");
    assert!(!folder.read("log/messages").contains("failed for"));
}

/// L07: one source with 250 new calls a second where there is no room: each gets its 503 with
/// Retry-After, the call that runs is served, and the log counts, one line a second.
#[test]
fn case_l07_what_is_refused_is_counted_and_calls_that_run_are_served() {
    const INVITES: u64 = 500;
    let folder = folder("limits.calls = 1\nmetrics.listen = \"127.0.0.1:0\"");
    let mut program = Program::start(&folder, &[]);
    let mut phone = Phone::new(program.address);
    assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
    let socket = socket("127.0.0.1");
    let own = socket.local_addr().unwrap();
    for number in 0..INVITES {
        let invite = guess("UDP", own, &format!("full{number}"))
            .replace("REGISTER sip:", "INVITE sip:answer@")
            .replace("1 REGISTER", "1 INVITE")
            .replace("Authorization: Digest username=\"1000\", realm=\"pbx.test\"\r\n", "");
        socket.send_to(invite.as_bytes(), program.address).unwrap();
        let answer = answer(&socket);
        assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
        assert!(answer.contains("\r\nRetry-After: "), "{answer}");
        thread::sleep(Duration::from_millis(3));
    }
    assert!(phone.bye("answer").starts_with("SIP/2.0 200 "), "a request within a dialog");
    program.signal(Signal::TERM);
    assert!(program.ended().success());
    let log = folder.read("log/messages");
    let counted: Vec<(&str, u64)> = log
        .lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once("Refused ")?;
            let count = rest.strip_suffix(" requests with 503: calls_max")?;
            Some((&line[1..20], count.parse().unwrap()))
        })
        .collect();
    assert_eq!(counted.iter().map(|(_, count)| count).sum::<u64>(), INVITES, "{counted:?}");
    // One line for each second, and one at the end of the program.
    let mut seconds: Vec<&str> = counted.iter().map(|(second, _)| *second).collect();
    seconds.dedup();
    assert!(counted.len() <= seconds.len() + 1, "{counted:?}");
    assert!(events(&folder, "stranger").is_empty(), "overload is no attack");
}

/// 1,000 broken messages of one source: 20 lines a second, and the sum is exact.
#[test]
fn many_events_of_one_source_are_counted_exactly() {
    const MESSAGES: u64 = 1_000;
    let folder = folder("");
    let mut program = Program::start(&folder, &[]);
    let socket = socket("127.0.0.9");
    for number in 0..MESSAGES {
        let broken = format!("REGISTER sip:x SIP/2.0\r\nCall-ID: broken{number}\r\n\r\n");
        socket.send_to(broken.as_bytes(), program.address).unwrap();
        if number % 50 == 0 {
            thread::sleep(Duration::from_millis(20));
        }
    }
    // The last datagram is read when a later request is answered.
    assert!(Phone::at("127.0.0.10", program.address).options().starts_with("SIP/2.0 401 "));
    program.signal(Signal::TERM);
    assert!(program.ended().success());
    let lines = events(&folder, "malformed");
    assert_eq!(events_in(&lines), MESSAGES, "{} lines", lines.len());
    let own = format!("IPV4/UDP/127.0.0.9/{}", socket.local_addr().unwrap().port());
    assert!(lines.iter().all(|line| element(line, "RemoteAddress") == own), "{lines:#?}");
    let mut seconds: Vec<&str> = lines.iter().map(|line| &line[1..20]).collect();
    seconds.dedup();
    let singles = lines.iter().filter(|line| element(line, "Count") == "1").count();
    assert!(singles >= 20 && lines.len() < MESSAGES as usize / 2, "{singles}: {seconds:?}");
}

/// Who is let in by a trunk for everybody is a stranger: his wrong numbers are events, those of a
/// trunk that is known by its address are not.
#[test]
fn wrong_numbers_of_strangers_are_events() {
    let folder = Folder::new();
    folder.configure("[trunks.strangers]\nfrom = [\"0.0.0.0/0\"]\ncontext = \"in\"\n");
    let mut program = Program::start(&folder, &[]);
    for own in ["127.0.0.1", "127.0.0.9"] {
        let answer = Phone::at(own, program.address).call("nobody");
        assert!(answer.starts_with("SIP/2.0 404 "), "{answer}");
    }
    eventually("the wrong number is told", || !events(&folder, "no_extension").is_empty());
    program.signal(Signal::TERM);
    assert!(program.ended().success());
    let lines = events(&folder, "no_extension");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(element(&lines[0], "RemoteAddress").starts_with("IPV4/UDP/127.0.0.9/"), "{lines:#?}");
    assert_eq!(element(&lines[0], "AccountID"), "strangers");
    let told = folder.read("log/messages").matches("rejected because extension not found").count();
    assert_eq!(told, 2, "people hear of both");
}

/// A stranger's TCP connection that brings no SIP is an event with the stream's address.
#[test]
fn a_stranger_s_broken_stream_is_an_event() {
    let folder = Folder::new();
    folder.configure("");
    // A stream comes from 127.0.0.1, which must be no trunk's then.
    let text = folder.read("pbx.toml").replace("\"127.0.0.1\", \"::1\"", "\"::1\"");
    folder.write("pbx.toml", &text);
    let program = Program::start(&folder, &[]);
    let mut stream = TcpStream::connect(program.address).unwrap();
    let own = stream.local_addr().unwrap();
    stream.write_all(b"\x16\x03\x01 this is no SIP at all\r\n\r\n").unwrap();
    eventually("it is told", || !events(&folder, "malformed").is_empty());
    let lines = events(&folder, "malformed");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    let remote = format!("IPV4/TCP/127.0.0.1/{}", own.port());
    assert_eq!(element(&lines[0], "RemoteAddress"), remote);
    assert_eq!(element(&lines[0], "SecurityEvent"), "FailedACL");
}
