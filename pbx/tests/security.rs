//! The security log of the running program: shapes for every transport and family, what a phone
//! leaves behind, and what a flood costs those who call.

mod rig;

use rig::{Folder, Phone, Program, eventually};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

const PHONES: &str = "sip.listen = [\"127.0.0.1:0\", \"[::1]:0\"]\n\
    endpoints.alice.password = \"secret\"\nendpoints.alice.context = \"in\"\n\
    trunks.phones.from = [\"127.0.0.200\"]\n";

fn start() -> (Folder, Program) {
    let folder = Folder::new();
    folder.configure("");
    let text = folder.read("pbx.toml");
    // Nobody but one address is known by it.
    let text: String = text
        .lines()
        .filter(|line| !line.contains(".from") && !line.contains("sip.listen"))
        .map(|line| format!("{line}\n"))
        .collect();
    folder.write("pbx.toml", &format!("{text}{PHONES}"));
    let program = Program::start(&folder, &[]);
    (folder, program)
}

#[test]
fn case_l03_a_failure_has_one_shape_over_udp_tcp_and_ipv6() {
    let (folder, program) = start();
    Phone::new(program.address).register("alice", "wrong");
    let v6 = *program.addresses.iter().find(|it| it.is_ipv6()).expect("it listens on both");
    Phone::at("::1", v6).register("alice", "wrong");
    let mut stream = TcpStream::connect(program.address).unwrap();
    stream.set_read_timeout(Some(rig::PATIENCE)).unwrap();
    let credentials = "Authorization: Digest username=\"mallory\", realm=\"pbx\", nonce=\"x\", \
        uri=\"sip:pbx\", response=\"00112233445566778899aabbccddeeff\"\r\n";
    let own = stream.local_addr().unwrap();
    let text = format!(
        "REGISTER sip:pbx SIP/2.0\r\nVia: SIP/2.0/TCP {own};branch=z9hG4bK1\r\n\
         From: <sip:mallory@pbx>;tag=1\r\nTo: <sip:mallory@pbx>\r\nCall-ID: tcp\r\n\
         CSeq: 1 REGISTER\r\nMax-Forwards: 70\r\n{credentials}Content-Length: 0\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = [0; 2048];
    let length = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    // The nonce is none of ours, so it is asked once more, with one.
    let nonce = answer.split("nonce=\"").nth(1).and_then(|it| it.split('"').next()).unwrap();
    let realm = answer.split("realm=\"").nth(1).and_then(|it| it.split('"').next()).unwrap();
    let text = text
        .replace("nonce=\"x\"", &format!("nonce=\"{nonce}\""))
        .replace("realm=\"pbx\"", &format!("realm=\"{realm}\""))
        .replace("CSeq: 1", "CSeq: 2")
        .replace("z9hG4bK1", "z9hG4bK2");
    stream.write_all(text.as_bytes()).unwrap();
    let has = |text: &str| folder.read("log/security.log").contains(text);
    eventually("all three are told", || {
        has("RemoteAddress=\"IPV4/UDP/127.0.0.1/")
            && has("RemoteAddress=\"IPV6/UDP/::1/")
            && has("RemoteAddress=\"IPV4/TCP/127.0.0.1/")
    });
    let text = folder.read("log/security.log");
    for line in text.lines() {
        let (head, event) = line.split_once(": ").unwrap();
        assert!(head.contains("] SECURITY[") && head.ends_with(" security.rs"), "{line}");
        assert!(event.starts_with("SecurityEvent=\"") && event.ends_with('"'), "{line}");
        assert!(!line.contains('\x1b') && !line.contains("mallory"), "{line}");
    }
}

#[test]
fn case_l06_a_phone_s_first_401_is_no_failure_and_its_success_is_told_once() {
    let (folder, program) = start();
    let mut phone = Phone::new(program.address);
    assert!(phone.register("alice", "secret").starts_with("SIP/2.0 200 "));
    eventually("the success is told", || {
        folder.read("log/security.log").contains("SecurityEvent=\"SuccessfulAuth\"")
    });
    let text = folder.read("log/security.log");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("AccountID=\"alice\""), "{text}");
    assert!(!folder.read("log/messages").contains("failed for"), "no failure for people, too");
}

#[test]
fn case_l07_beside_a_flood_calls_go_on_and_every_refusal_is_counted() {
    let (folder, program) = start();
    let mut caller = Phone::at("127.0.0.200", program.address);
    assert!(caller.call("answer").starts_with("SIP/2.0 200 "));
    let flood = std::net::UdpSocket::bind("127.0.0.66:0").unwrap();
    let own = flood.local_addr().unwrap();
    let sent = 500;
    for number in 0..sent {
        let text = format!(
            "INVITE sip:answer@pbx SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKf{number}\r\n\
             From: <sip:x@pbx>;tag={number}\r\nTo: <sip:answer@pbx>\r\nCall-ID: f{number}\r\n\
             CSeq: 1 INVITE\r\nMax-Forwards: 70\r\nContact: <sip:{own}>\r\n\
             Content-Length: 0\r\n\r\n"
        );
        flood.send_to(text.as_bytes(), program.address).unwrap();
    }
    assert!(caller.bye("answer").starts_with("SIP/2.0 200 "), "a running call is served");
    assert!(caller.call("answer").starts_with("SIP/2.0 200 "), "and so is a new one");
    let replies = program.ask(pbx_control::Command::ShowHealth);
    let Some(pbx_control::Reply::Text { lines }) = replies.first() else { panic!("{replies:?}") };
    let figure = |name: &str| {
        let begin = format!("{name}: ");
        let line = lines.iter().find_map(|line| line.strip_prefix(&begin));
        line.map_or(0, |text| text.parse::<u64>().unwrap())
    };
    assert_eq!(figure("requests refused (challenged)"), sent, "{lines:?}");
    // Beyond its budget of a hundred answers a stranger gets none.
    let silent = figure("strangers left without an answer");
    assert!(silent > 0 && silent <= sent - 100, "{lines:?}");
    // One line for each reason and second; their sum is the count.
    let told = || -> u64 {
        let text = folder.read("log/messages");
        let lines = text.lines().filter(|it| it.contains("requests of strangers got no answer"));
        let number =
            |line: &str| line.split("second, ").nth(1)?.split(' ').next()?.parse::<u64>().ok();
        lines.filter_map(number).sum()
    };
    eventually("the silence is told", || told() == silent);
}
