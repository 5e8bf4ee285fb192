//! SIP traces of the running program: by peer, endpoint and call, into the log and into a pcap file
//! that tshark reads; and `top`.

mod rig;

use pbx_control::wire::{TraceAsk, TraceWhose, View};
use pbx_control::{Command, Reply};
use rig::{Folder, Phone, Program, eventually};
use std::process::Command as Process;

const PHONES: &str = "logging.verbose = 3\nendpoints.alice.password = \"secret\"\n\
    endpoints.alice.context = \"in\"\n";

fn start(more: &str) -> (Folder, Program) {
    let folder = Folder::new();
    folder.configure(&format!("{PHONES}{more}"));
    let program = Program::start(&folder, &[]);
    (folder, program)
}

fn ask(program: &Program, ask: TraceAsk) -> Result<Vec<String>, String> {
    match program.ask(Command::Trace(ask)).first() {
        Some(Reply::Text { lines }) => Ok(lines.clone()),
        Some(Reply::Refused { reason }) => Err(reason.clone()),
        other => panic!("{other:?}"),
    }
}

fn on(program: &Program, of: TraceWhose, file: Option<&str>) -> Result<Vec<String>, String> {
    ask(program, TraceAsk::On { of, file: file.map(str::to_owned) })
}

/// Messages in the log so far, by their head lines.
fn traced(folder: &Folder) -> usize {
    folder.read("log/messages").matches("<---").count()
}

/// Method or status and source address of each message in a capture.
fn captured(folder: &Folder, file: &str) -> Vec<String> {
    let output = Process::new("tshark")
        .args(["-r"])
        .arg(folder.0.join("log").join(file))
        .args(["-Y", "sip", "-T", "fields", "-E", "separator=|"])
        .args(["-e", "sip.Method", "-e", "sip.Status-Code", "-e", "ip.src", "-e", "ipv6.src"])
        .args(["-o", "ip.check_checksum:TRUE", "-d", "udp.port==1-65535,sip"])
        .output()
        .expect("tshark runs: `cargo xtask test install`");
    let text = String::from_utf8(output.stdout).expect("fields are text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_trace_shows_one_peer_one_endpoint_or_one_call() {
    let (folder, program) = start("");
    let peer = || TraceWhose::Peer { address: [127, 0, 0, 2].into() };
    on(&program, peer(), None).unwrap();
    let mut near = Phone::new(program.address);
    near.options();
    let mut far = Phone::at("127.0.0.2", program.address);
    far.options();
    eventually("the far one is traced", || traced(&folder) == 2);
    assert!(!folder.read("log/messages").contains("from UDP:127.0.0.1"), "only the far one");
    ask(&program, TraceAsk::Off { of: Some(peer()) }).unwrap();
    let again = ask(&program, TraceAsk::Off { of: Some(peer()) }).unwrap_err();
    assert!(again.contains("there is no trace of peer 127.0.0.2"), "{again}");

    // An endpoint, by its name in a URI.
    on(&program, TraceWhose::Endpoint { name: "alice".into() }, None).unwrap();
    near.options();
    let before = traced(&folder);
    far.register("alice", "secret");
    eventually("its registration is traced", || traced(&folder) == before + 4);
    let unknown = on(&program, TraceWhose::Endpoint { name: "bob".into() }, None).unwrap_err();
    assert_eq!(unknown, "Unable to find object bob.");
    ask(&program, TraceAsk::Off { of: None }).unwrap();

    // A call, by the name of its channel.
    let mut other = Phone::new(program.address);
    assert!(near.call("answer").starts_with("SIP/2.0 200 "));
    assert!(other.call("answer").starts_with("SIP/2.0 200 "));
    let replies = program.ask(Command::ShowChannels { view: View::Table });
    let Some(Reply::Channels { channels }) = replies.first() else { panic!("{replies:?}") };
    let name = channels[0].name.clone();
    on(&program, TraceWhose::Call { call: name.clone() }, None).unwrap();
    let before = traced(&folder);
    assert!(near.bye("answer").starts_with("SIP/2.0 200 "));
    assert!(other.bye("answer").starts_with("SIP/2.0 200 "));
    eventually("its end is traced", || traced(&folder) >= before + 2);
    let listed = ask(&program, TraceAsk::Show).unwrap();
    assert!(listed[0].starts_with(&format!("call {name}")), "{listed:?}");
    assert!(listed[0].contains(" 2 messages, 0 lost"), "{listed:?}");
    let gone = on(&program, TraceWhose::Call { call: "C-00ffffff".into() }, None).unwrap_err();
    assert!(gone.contains("has no legs"), "{gone}");
}

#[test]
fn a_capture_is_read_by_tshark() {
    let (folder, program) = start("sip.listen = [\"127.0.0.1:0\", \"[::1]:0\"]\n");
    let said = on(&program, TraceWhose::All, Some("calls.pcap")).unwrap();
    assert!(said[0].starts_with("SIP trace is on to ") && said.len() == 1, "{said:?}");
    for wrong in ["../x.pcap", ".pcap", "x.txt", "a/b.pcap"] {
        let refused = on(&program, TraceWhose::All, Some(wrong)).unwrap_err();
        assert!(refused.contains("a capture's name"), "{wrong}: {refused}");
    }
    let taken = on(&program, TraceWhose::All, Some("calls.pcap")).unwrap_err();
    assert!(taken.contains("exists"), "{taken}");
    let mut phone = Phone::new(program.address);
    phone.register("alice", "secret");
    let v6 = *program.addresses.iter().find(|it| it.is_ipv6()).unwrap();
    assert!(Phone::at("::1", v6).options().starts_with("SIP/2.0 200 "));
    assert_eq!(traced(&folder), 0, "nothing goes into the log");
    let wanted = [
        "REGISTER||127.0.0.1|",
        "|401|127.0.0.1|",
        "REGISTER||127.0.0.1|",
        "|200|127.0.0.1|",
        "OPTIONS|||::1",
        "|200||::1",
    ];
    eventually("all of them are in the file", || captured(&folder, "calls.pcap").len() == 6);
    assert_eq!(captured(&folder, "calls.pcap"), wanted);
    let bytes = std::fs::read(folder.0.join("log/calls.pcap")).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let at = text.find("response=\"").expect("a digest was sent") + 10;
    assert!(text[at..].starts_with("********************************\""), "it is hidden");
    ask(&program, TraceAsk::Off { of: None }).unwrap();
    phone.options();
    assert_eq!(captured(&folder, "calls.pcap").len(), 6);
}

#[test]
fn personal_data_is_masked_by_policy() {
    let (folder, program) = start("logging.personal = \"mask\"\n");
    let refused = on(&program, TraceWhose::All, Some("calls.pcap")).unwrap_err();
    assert!(refused.contains("personal"), "{refused}");
    on(&program, TraceWhose::All, None).unwrap();
    let mut phone = Phone::new(program.address);
    phone.call("4930123456");
    eventually("the call is told", || folder.read("log/messages").contains("to extension '49***'"));
    let text = folder.read("log/messages");
    assert!(!text.contains("4930123456"), "{text}");
    assert!(text.contains("INVITE sip:49***@127.0.0.1"), "{text}");
}

#[test]
fn top_tells_what_moves() {
    let (_folder, program) = start("");
    let top = || match program.ask(Command::Top).first() {
        Some(Reply::Top(top)) => top.clone(),
        other => panic!("{other:?}"),
    };
    let before = top();
    let mut phone = Phone::new(program.address);
    assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
    let during = top();
    assert_eq!((before.calls, during.calls, during.processed), (0, 1, 1));
    assert!(during.slowest.is_empty(), "a call is looked at when it has ended");
    assert!(phone.bye("answer").starts_with("SIP/2.0 200 "));
    let after = top();
    assert_eq!((after.calls, after.answered, after.slowest.len()), (0, 1, 1));
    assert!(after.slowest[0].channel.starts_with("SIP/phones-"), "{after:?}");
    assert!(after.threads.iter().any(|it| it.name == "shard-0"), "{after:?}");
    assert!(after.at_us > during.at_us && after.rss_bytes > 0);
    assert!(top().slowest.is_empty(), "each is told once");
}
