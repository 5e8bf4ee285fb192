//! Tools that ask: sipsak pings and registers; SIPVicious looks for extensions and passwords, and
//! must go away with nothing, while the log and the counts tell of it.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use crate::kamailio::{Between, Kamailio, LEAKY};
use crate::outside::{Folder, Process, free_port, wait_until};
use crate::pbx::Pbx;
use crate::{PHONES, PHONES_PLAN, plan};

/// What a tool ended with, and all that it wrote.
#[derive(Debug)]
struct Ran {
    code: i32,
    output: String,
}

/// Runs a tool to its end.
fn run(folder: &Folder, program: &str, arguments: &[&str]) -> Ran {
    let mut command = Command::new(program);
    // SIPVicious would write into a folder of whoever runs the test.
    command.args(arguments).env("HOME", folder.path());
    let mut process = Process::start(folder, program, &mut command);
    let code = process.finish();
    Ran { code, output: process.output() }
}

// --- sipsak -------------------------------------------------------------------------------------

#[test]
fn sipsak_s_ping_is_answered_to_a_trunk_and_to_nobody_else() {
    let folder = Folder::new("sipsak-ping");
    let pbx = Pbx::start(&folder, &plan(9));
    for target in ["", "answer@"] {
        let uri = format!("sip:{target}127.0.0.1:{}", pbx.port());
        let ran = run(&folder, "sipsak", &["-vv", "-s", &uri]);
        assert_eq!(ran.code, 0, "{uri}: {}", ran.output);
        assert!(ran.output.contains("SIP/2.0 200 OK"), "{uri}: {}", ran.output);
    }
    pbx.stop();

    let pbx = Pbx::start_with(&folder, PHONES_PLAN, PHONES);
    let uri = format!("sip:127.0.0.1:{}", pbx.port());
    let ran = run(&folder, "sipsak", &["-vv", "-s", &uri]);
    assert_ne!(ran.code, 0, "{}", ran.output);
    assert!(ran.output.contains("401 Unauthorized"), "{}", ran.output);
    pbx.stop();
}

/// Registers 1000 for a minute.
fn sipsak_registers(folder: &Folder, pbx: &Pbx, password: &str, transport: &str) -> Ran {
    let uri = format!("sip:1000@127.0.0.1:{}", pbx.port());
    let contact = format!("sip:1000@127.0.0.1:{}", free_port());
    let arguments = ["-U", "-i", "-vv", "-x", "60", "-u", "1000", "-a", password, "-s", &uri];
    let by = ["-C", &contact, "-E", transport];
    run(folder, "sipsak", &[&arguments[..], &by].concat())
}

#[test]
fn sipsak_registers_with_a_digest_over_udp_and_tcp() {
    let folder = Folder::new("sipsak-register");
    for transport in ["udp", "tcp"] {
        let pbx = Pbx::start_with(&folder, PHONES_PLAN, PHONES);
        let ran = sipsak_registers(&folder, &pbx, "secret1000", transport);
        assert_eq!(ran.code, 0, "{transport}: {}", ran.output);
        assert_eq!(pbx.health("endpoints registered"), 1, "{transport}: {}", ran.output);
        pbx.stop();
        // The next one begins without registrations.
        std::fs::remove_dir_all(folder.inside("pbx")).expect("the folder is the test's");
        folder.inside("pbx");
    }
}

#[test]
fn sipsak_with_a_wrong_password_is_refused_and_logged() {
    let folder = Folder::new("sipsak-wrong");
    let pbx = Pbx::start_with(&folder, PHONES_PLAN, PHONES);
    let ran = sipsak_registers(&folder, &pbx, "secret1001", "udp");
    assert_ne!(ran.code, 0, "{}", ran.output);
    assert_eq!(pbx.health("endpoints registered"), 0);
    assert_eq!(pbx.health("requests refused (wrong_password)"), 1);
    wait_until("the log says so", || pbx.log("messages").contains("- Wrong password"));
    pbx.stop();
}

// --- SIPVicious ---------------------------------------------------------------------------------

/// Runs a tool of SIPVicious against a port.
pub(crate) fn sipvicious(folder: &Folder, program: &str, port: u16, arguments: &[&str]) -> String {
    let (port, own) = (port.to_string(), free_port().to_string());
    let here = ["-b", "127.0.0.1", "-x", "127.0.0.1", "-P", &own, "-p", &port];
    let ran = run(folder, program, &[&here[..], arguments, &["127.0.0.1"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.output);
    ran.output
}

const FOUND_NOTHING: &str = "found nothing";

#[test]
fn svmap_sees_that_somebody_is_there_and_not_who() {
    let folder = Folder::new("svmap");
    let pbx = Pbx::start_with(&folder, PHONES_PLAN, PHONES);
    for method in ["OPTIONS", "INVITE"] {
        let before = pbx.health("requests refused (challenged)");
        let output = sipvicious(&folder, "svmap", pbx.port(), &["-m", method]);
        let device = format!("127.0.0.1:{}", pbx.port());
        assert!(output.contains(&device) && output.contains("unknown"), "{method}: {output}");
        assert!(!output.contains("pbx"), "it does not learn what runs there: {output}");
        assert!(pbx.health("requests refused (challenged)") > before, "{method}");
    }
    // Its REGISTER has `Contact: None`: a stranger's broken message is counted, and not answered.
    let output = sipvicious(&folder, "svmap", pbx.port(), &["-m", "REGISTER"]);
    assert!(output.contains(FOUND_NOTHING), "{output}");
    assert!(pbx.health("messages that broke a rule") > 0);
    assert_eq!(pbx.stop().len(), 0, "no call was made");
}

#[test]
fn svwar_finds_extensions_where_they_are_told_and_none_of_ours() {
    let folder = Folder::new("svwar");
    let range = ["--force", "-e", "998-1002"];
    let leaky = Kamailio::start(&folder, free_port(), LEAKY, &Between::default());
    let output = sipvicious(&folder, "svwar", leaky.port(), &range);
    assert!(output.contains("1000") && !output.contains("1001"), "the tool works: {output}");

    let pbx = Pbx::start_with(&folder, PHONES_PLAN, PHONES);
    for method in ["REGISTER", "OPTIONS", "INVITE"] {
        let before = pbx.health("requests refused (challenged)");
        let output =
            sipvicious(&folder, "svwar", pbx.port(), &[&range[..], &["-m", method]].concat());
        assert!(output.contains(FOUND_NOTHING), "{method}: {output}");
        assert!(pbx.health("requests refused (challenged)") > before, "{method}");
    }
    assert_eq!(pbx.stop().len(), 0, "no call was made");
}

#[test]
fn svcrack_gets_ten_guesses_and_is_closed_out() {
    let folder = Folder::new("svcrack");
    let crack = |pbx: &Pbx, words: &str| {
        let words = folder.write("words", words).display().to_string();
        let arguments = ["-u", "1000", "-d", &words, "--maximumtime", "2"];
        sipvicious(&folder, "svcrack", pbx.port(), &arguments)
    };
    let pbx = Pbx::start_with(&folder, PHONES_PLAN, PHONES);
    let output = crack(&pbx, "wrong\nsecret1000\n");
    assert!(output.contains("| secret1000 |"), "the tool works: {output}");
    pbx.stop();
    std::fs::remove_dir_all(folder.inside("pbx")).expect("the folder is the test's");
    folder.inside("pbx");

    let pbx = Pbx::start_with(&folder, PHONES_PLAN, PHONES);
    let wrong: String = (0..100).map(|number| format!("guess{number}\n")).collect();
    let output = crack(&pbx, &format!("{wrong}secret1000\n"));
    assert!(output.contains(FOUND_NOTHING) && !output.contains("secret1000"), "{output}");
    assert_eq!(pbx.health("strangers closed out"), 1);
    assert_eq!(pbx.health("endpoints registered"), 0);
    let failures = || pbx.log("messages").matches("- Wrong password").count();
    wait_until("the log has each failure", || failures() >= 10);
    let counted = pbx.health("requests refused (wrong_password)");
    assert_eq!(failures() as u64, counted, "as many as were counted");
    assert!(counted <= 20, "{counted} guesses before it was closed out");
    pbx.stop();
}

// --- by hand ------------------------------------------------------------------------------------

/// Asks for a user as a stranger, and returns the answer without what differs from one request to
/// the next.
fn answer_for(socket: &UdpSocket, port: u16, method: &str, user: &str) -> String {
    let own = socket.local_addr().expect("a bound socket has an address");
    let request = format!(
        "{method} sip:{user}@127.0.0.1:{port} SIP/2.0\r\n\
         Via: SIP/2.0/UDP {own};branch=z9hG4bK{method}{user};rport\r\n\
         From: <sip:{user}@127.0.0.1>;tag=1\r\nTo: <sip:{user}@127.0.0.1>\r\n\
         Call-ID: {method}{user}\r\nCSeq: 1 {method}\r\nContact: <sip:{user}@{own}>\r\n\
         Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
    );
    socket.send_to(request.as_bytes(), ("127.0.0.1", port)).expect("loopback takes a datagram");
    let mut buffer = [0; 4_096];
    let length =
        socket.recv(&mut buffer).unwrap_or_else(|error| panic!("{method} {user}: {error}"));
    let answer = String::from_utf8_lossy(&buffer[..length]).into_owned();
    let answer = answer.replace(user, "USER");
    let answer = without_value(&answer, "nonce=\"", '"');
    let to = answer.find("\r\nTo:").expect("an answer has a To");
    let (before, after) = answer.split_at(to);
    format!("{before}{}", without_value(after, ";tag=", '\r'))
}

/// The text without what stands between `begin` and the next `end`.
fn without_value(text: &str, begin: &str, end: char) -> String {
    let Some((before, rest)) = text.split_once(begin) else { return text.to_owned() };
    let after = rest.find(end).map_or("", |at| &rest[at..]);
    format!("{before}{begin}{after}")
}

#[test]
fn a_stranger_gets_the_same_answer_for_who_exists_and_who_does_not() {
    let folder = Folder::new("same-answer");
    let pbx = Pbx::start_with(&folder, PHONES_PLAN, PHONES);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket takes a time limit");
    for method in ["REGISTER", "INVITE", "OPTIONS", "SUBSCRIBE", "MESSAGE", "BYE"] {
        let here = answer_for(&socket, pbx.port(), method, "1000");
        let missing = answer_for(&socket, pbx.port(), method, "4711");
        assert_eq!(here, missing, "{method}");
        if method == "INVITE" {
            assert!(here.starts_with("SIP/2.0 401 "), "{here}");
        }
    }
    pbx.stop();
}
