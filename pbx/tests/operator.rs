//! What an operator sees and does at the running program: health, hints, trace, originate, TCP.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod rig;

use pbx_control::wire::{TraceAsk, TraceWhose};
use pbx_control::{Command as Ask, Reply};
use rig::{Folder, Phone, Program, eventually};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

const CONFIG: &str = r#"
auth.realm = "pbx.test"
logging.verbose = 3
logging.files.messages.levels = "notice,warning,error,verbose"
[endpoints.desk]
range = "1000-1001"
password = "secret{n}"
context = "in"
"#;

const PLAN: &str = r#"
[[context.in.exten]]
match = "answer"
steps = ["Answer()", "Wait(3600)"]
[[context.in.hint]]
exten = "100"
device = "SIP/1000&SIP/1001"
"#;

fn start() -> (Folder, Program) {
    let folder = Folder::new();
    folder.write("dialplan.toml", PLAN);
    folder.configure(CONFIG);
    let program = Program::start(&folder, &[]);
    (folder, program)
}

/// The lines of an answer, and the refusal if it ended so.
fn lines(replies: &[Reply]) -> (Vec<String>, Option<String>) {
    let mut all = Vec::new();
    let mut refused = None;
    for reply in replies {
        if let Reply::Text { lines } = reply {
            all.extend(lines.clone());
        } else if let Reply::Refused { reason } = reply {
            refused = Some(reason.clone());
        }
    }
    (all, refused)
}

fn log(folder: &Folder) -> String {
    folder.read("log/messages")
}

#[test]
fn health_is_one_word_and_its_reasons() {
    let (_folder, program) = start();
    let (said, refused) = lines(&program.ask(Ask::ShowHealth));
    assert_eq!((said[0].as_str(), refused), ("healthy", None));
    assert!(said.iter().any(|line| line.starts_with("calls: 0 of ")), "{said:?}");
    assert!(said.iter().any(|line| line.starts_with("TCP connections: 0 of ")), "{said:?}");
    let (said, _) = lines(&program.ask(Ask::ShowSettings));
    assert!(said.iter().any(|line| line.contains("Realm") && line.ends_with("pbx.test")));
}

#[test]
fn a_hint_shows_what_its_devices_do() {
    let (_folder, program) = start();
    let state = |program: &Program| {
        let (said, _) = lines(&program.ask(Ask::ShowHints));
        let line = said.iter().find(|line| line.contains("100@in")).unwrap().clone();
        line.split("State:").nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(state(&program), "Unavailable");
    let mut phone = Phone::new(program.address);
    assert!(phone.register("1000", "secret1000").starts_with("SIP/2.0 200 "));
    assert_eq!(state(&program), "Idle");
    let dnd = Ask::SetDnd { name: "1000".into(), dnd: Some(true) };
    assert_eq!(lines(&program.ask(dnd)).0, ["Endpoint 1000 is not to be disturbed"]);
    assert_eq!(state(&program), "InUse", "busy, while the other one is not there");
}

#[test]
fn an_operator_calls_a_phone_for_an_extension() {
    let (_folder, program) = start();
    let originate = |target: &str, extension: &str| Ask::Originate {
        target: target.into(),
        extension: extension.into(),
        context: "in".into(),
        caller: "77".into(),
    };
    let refused = |program: &Program, target: &str, extension: &str| {
        lines(&program.ask(originate(target, extension))).1.unwrap()
    };
    assert_eq!(refused(&program, "SIP/1000", "answer"), "SIP/1000 is not registered");
    assert_eq!(refused(&program, "SIP/1000", "none"), "the dialplan has no such extension there");
    assert_eq!(refused(&program, "FAX/1", "answer"), "unknown technology 'FAX'");
    let mut phone = Phone::new(program.address);
    assert!(phone.register("1000", "secret1000").starts_with("SIP/2.0 200 "));
    let (said, refusal) = lines(&program.ask(originate("SIP/1000", "answer")));
    assert_eq!((said, refusal), (vec!["Calling SIP/1000 for answer@in".into()], None));
    let invite = phone.receive();
    assert!(invite.starts_with("INVITE sip:1000@") && invite.contains("<sip:77@"), "{invite}");
    phone.call_back(program.address);
    phone.pick_up(&invite);
    eventually("the plan runs for it", || program.counts().calls == 1);
}

#[test]
fn a_trace_shows_messages_without_digests() {
    let (folder, program) = start();
    let traced = Ask::Trace(TraceAsk::On { of: TraceWhose::All, file: None });
    assert_eq!(lines(&program.ask(traced)).0, ["SIP trace is on"]);
    let mut phone = Phone::new(program.address);
    phone.register("1000", "secret1000");
    eventually("the messages are in the log", || {
        log(&folder).contains("Transmitting SIP response") && log(&folder).contains("200 OK")
    });
    let text = log(&folder);
    assert!(text.contains("<--- Received SIP request ("), "{text}");
    assert!(text.contains("Authorization: ***"), "{text}");
    assert!(!text.contains("response=\""), "no digest in the log");
    program.ask(Ask::Trace(TraceAsk::Off { of: None }));
    let before = log(&folder).matches("<---").count();
    phone.options();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(log(&folder).matches("<---").count(), before);
}

/// An OPTIONS over TCP.
fn options(number: u32) -> String {
    format!(
        "OPTIONS sip:pbx SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1;branch=z9hG4bK{number}\r\n\
         From: <sip:a@b>;tag=1\r\nTo: <sip:pbx>\r\nCall-ID: {number}\r\n\
         CSeq: 1 OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
    )
}

fn stream(program: &Program) -> TcpStream {
    let stream = TcpStream::connect(program.address).unwrap();
    stream.set_read_timeout(Some(rig::PATIENCE)).unwrap();
    stream
}

/// Reads so many responses; each has no body.
fn responses(stream: &mut TcpStream, count: usize) -> String {
    let (mut text, mut byte) = (String::new(), [0; 1]);
    while text.matches("\r\n\r\n").count() < count {
        stream.read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
    }
    text
}

#[test]
fn case_c01_three_requests_in_one_segment_and_one_in_single_bytes_are_all_answered() {
    let (_folder, program) = start();
    let mut peer = stream(&program);
    peer.write_all((options(1) + &options(2) + &options(3)).as_bytes()).unwrap();
    let text = responses(&mut peer, 3);
    for number in 1..=3 {
        assert!(text.contains(&format!("Call-ID: {number}\r\n")), "{text}");
    }
    for byte in options(4).as_bytes() {
        peer.write_all(&[*byte]).unwrap();
    }
    assert!(responses(&mut peer, 1).contains("Call-ID: 4\r\n"));
}

#[test]
fn case_c03_line_ends_behind_a_body_do_not_disturb_what_follows() {
    let (_folder, program) = start();
    let mut peer = stream(&program);
    let body = options(1).replace("Length: 0", "Length: 2") + "ab\r\n\r\n";
    peer.write_all((body + &options(2)).as_bytes()).unwrap();
    // Two line ends are a keep-alive, too: a line end comes back for them.
    eventually("both are answered", || {
        let mut text = [0; 4096];
        let length = peer.peek(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text[..length]).into_owned();
        text.contains("Call-ID: 1\r\n") && text.contains("Call-ID: 2\r\n")
    });
}

#[test]
fn case_c04_every_response_on_a_stream_has_a_length() {
    let (_folder, program) = start();
    let mut peer = stream(&program);
    let invite = options(1)
        .replace("OPTIONS", "INVITE")
        .replace("sip:pbx", "sip:answer@pbx")
        .replace("Max-Forwards", "Contact: <sip:a@127.0.0.1;transport=tcp>\r\nMax-Forwards");
    peer.write_all(invite.as_bytes()).unwrap();
    let text = responses(&mut peer, 1);
    assert!(text.starts_with("SIP/2.0 ") && text.contains("Content-Length: "), "{text}");
}

#[test]
fn case_c05_who_never_reads_holds_nobody_up() {
    let (_folder, program) = start();
    let mut deaf = stream(&program);
    deaf.set_write_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
    for number in 0..10_000 {
        // When it takes no more, it has been given up, or soon is.
        if deaf.write_all(options(number).as_bytes()).is_err() {
            break;
        }
    }
    let began = std::time::Instant::now();
    let mut good = stream(&program);
    good.write_all(options(1).as_bytes()).unwrap();
    assert!(responses(&mut good, 1).starts_with("SIP/2.0 "));
    assert!(began.elapsed() < rig::PATIENCE);
}

#[test]
fn case_c06_a_keep_alive_in_two_halves_is_answered() {
    let (_folder, program) = start();
    let mut peer = stream(&program);
    peer.write_all(options(1).as_bytes()).unwrap();
    responses(&mut peer, 1);
    peer.write_all(b"\r\n").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    peer.write_all(b"\r\n").unwrap();
    let mut pong = [0; 2];
    peer.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"\r\n");
}

#[test]
fn case_c04_a_stream_that_breaks_the_framing_gets_a_400_and_others_go_on() {
    let (_folder, program) = start();
    let mut good = TcpStream::connect(program.address).unwrap();
    let mut bad = TcpStream::connect(program.address).unwrap();
    for stream in [&good, &bad] {
        stream.set_read_timeout(Some(rig::PATIENCE)).unwrap();
    }
    let options = |length: &str| {
        format!(
            "OPTIONS sip:pbx SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1;branch=z9hG4bK1\r\n\
             From: <sip:a@b>;tag=1\r\nTo: <sip:pbx>\r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\n\
             Max-Forwards: 70\r\n{length}\r\n"
        )
    };
    bad.write_all(options("").as_bytes()).unwrap();
    let mut said = String::new();
    bad.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("SIP/2.0 400 "), "{said}");
    good.write_all(options("Content-Length: 0\r\n").as_bytes()).unwrap();
    let mut said = [0; 12];
    good.read_exact(&mut said).unwrap();
    assert!(said.starts_with(b"SIP/2.0 "), "{:?}", String::from_utf8_lossy(&said));
    drop(bad);
    eventually("it is counted", || {
        lines(&program.ask(Ask::ShowTcp)).0.contains(&"closed (broken): 1".to_owned())
    });
}
