//! The real program on real sockets: calls, consoles, reload, drain, kill.

mod rig;

use pbx_control::wire::{Stop, View};
use pbx_control::{Command, Reply};
use rig::{Folder, Phone, Program, eventually};
use rustix::process::Signal;

fn field<'r>(record: &'r str, name: &str) -> &'r str {
    let start = record.find(&format!("\"{name}\":")).expect("the field is there");
    let rest = &record[start + name.len() + 3..];
    rest.split([',', '}']).next().expect("a value").trim_matches('"')
}

#[test]
fn a_call_is_answered_listed_and_recorded() {
    let folder = Folder::new();
    let program = Program::start(&folder, &[]);
    let mut phone = Phone::new(program.address);
    assert!(phone.options().starts_with("SIP/2.0 200 "));
    assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
    let replies = program.ask(Command::ShowChannels { view: View::Table });
    let [Reply::Channels { channels }, Reply::Counts(counts), Reply::End] = &replies[..] else {
        panic!("{replies:?}");
    };
    assert_eq!((counts.channels, counts.calls, counts.processed), (1, 1, 1));
    let [channel] = &channels[..] else { panic!("{channels:?}") };
    assert!(channel.name.starts_with("SIP/phones-"), "{channel:?}");
    let place = (channel.exten.as_str(), channel.context.as_str(), channel.state.as_str());
    assert_eq!(place, ("answer", "in", "Up"));
    assert!(phone.bye("answer").starts_with("SIP/2.0 200 "));
    eventually("the record is written", || folder.records().len() == 1);
    let record = &folder.records()[0];
    assert_eq!(field(record, "disposition"), "ANSWERED");
    assert_eq!(field(record, "dialled"), "answer");
    assert_eq!(field(record, "ended_by"), "caller");
    assert_eq!(program.counts().calls, 0);
}

#[test]
fn wrong_numbers_and_strangers_are_refused_and_logged_for_fail2ban() {
    let folder = Folder::new();
    let program = Program::start(&folder, &[]);
    let mut phone = Phone::new(program.address);
    assert!(phone.call("nowhere").starts_with("SIP/2.0 404 "));
    assert!(phone.call("busy").starts_with("SIP/2.0 486 "));
    let mut stranger = Phone::at("127.0.0.2", program.address);
    assert!(stranger.call("answer").starts_with("SIP/2.0 403 "));
    let wrong_number =
        "to extension 'nowhere' rejected because extension not found in context 'in'.";
    eventually("the wrong number is in the log", || {
        folder.read("log/messages").contains(wrong_number)
    });
    eventually("the stranger is in both logs", || {
        let security = folder.read("log/security.log");
        folder.read("log/messages").contains("failed for '127.0.0.2:")
            && security.contains("SecurityEvent=\"InvalidAccountID\"")
            && security.contains("RemoteAddress=\"IPV4/UDP/127.0.0.2/")
    });
    let messages = folder.read("log/messages");
    assert!(messages.contains("- No matching endpoint found"), "{messages}");
    assert!(!messages.contains("SecurityEvent"), "each failure counts once: {messages}");
}

#[test]
fn a_reload_changes_new_calls_and_a_fault_changes_nothing() {
    let folder = Folder::new();
    let program = Program::start(&folder, &[]);
    let mut running = Phone::new(program.address);
    assert!(running.call("answer").starts_with("SIP/2.0 200 "));
    let mut phone = Phone::new(program.address);
    assert!(phone.call("new").starts_with("SIP/2.0 404 "));

    folder
        .write("dialplan.toml", "[[context.in.exten]]\nmatch = \"new\"\nsteps = [\"Anwser()\"]\n");
    let replies = program.ask(Command::DialplanReload);
    let Some(Reply::Refused { reason }) = replies.last() else { panic!("{replies:?}") };
    assert!(reason.contains("dialplan.toml:3:"), "{reason}");
    assert!(reason.contains("did you mean 'Answer'"), "{reason}");
    assert!(phone.call("new").starts_with("SIP/2.0 404 "));

    let extended = format!(
        "{}[[context.in.exten]]\nmatch = \"new\"\nsteps = [\"Answer()\", \"Wait(9)\"]\n",
        folder.dialplan()
    );
    folder.write("dialplan.toml", &extended);
    program.signal(Signal::HUP);
    eventually("the reload is in the log", || {
        folder.read("log/messages").contains("extension 'new' added to context 'in'")
    });
    assert!(phone.call("new").starts_with("SIP/2.0 200 "));
    assert!(running.bye("answer").starts_with("SIP/2.0 200 "));
}

#[test]
fn a_trunk_comes_and_goes_with_a_reload() {
    let folder = Folder::new();
    let program = Program::start(&folder, &[]);
    let mut peer = Phone::at("127.0.0.3", program.address);
    assert!(peer.call("answer").starts_with("SIP/2.0 403 "));
    folder.configure("trunks.new.from = [\"127.0.0.3\"]\ntrunks.new.context = \"in\"\n");
    let said = |replies: &[Reply]| match replies.first() {
        Some(Reply::Text { lines }) => lines.join("; "),
        other => panic!("{other:?}"),
    };
    let lines = said(&program.ask(Command::DialplanReload));
    assert!(lines.contains("trunk 'new' added"), "{lines}");
    assert!(peer.call("answer").starts_with("SIP/2.0 200 "));
    folder.configure("");
    let lines = said(&program.ask(Command::DialplanReload));
    assert!(lines.contains("trunk 'new' removed"), "{lines}");
    assert!(peer.bye("answer").starts_with("SIP/2.0 200 "), "running calls keep their trunk");
    assert!(peer.call("answer").starts_with("SIP/2.0 403 "));
}

#[test]
fn sigterm_refuses_new_calls_and_waits_for_the_running_ones() {
    let folder = Folder::new();
    let mut program = Program::start(&folder, &[]);
    let mut running = Phone::new(program.address);
    assert!(running.call("answer").starts_with("SIP/2.0 200 "));
    program.signal(Signal::TERM);
    let mut late = Phone::new(program.address);
    eventually("new calls are refused", || {
        let response = late.call("answer");
        if response.starts_with("SIP/2.0 200 ") {
            assert!(late.bye("answer").starts_with("SIP/2.0 200 "));
        }
        response.starts_with("SIP/2.0 503 ") && response.contains("Retry-After:")
    });
    assert_eq!(program.child.try_wait().expect("its state"), None, "it waits for the call");
    assert!(running.bye("answer").starts_with("SIP/2.0 200 "));
    assert!(program.ended().success());
    assert!(!program.socket().exists(), "the socket goes away");
}

#[test]
fn stop_now_hangs_up_the_running_calls() {
    let folder = Folder::new();
    let mut program = Program::start(&folder, &[]);
    let mut phone = Phone::new(program.address);
    assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
    let replies = program.ask(Command::Stop { how: Stop::Now });
    assert_eq!(replies, [Reply::Stopping { how: Stop::Now, calls: 1 }, Reply::End]);
    let request = phone.receive();
    assert!(request.starts_with("BYE "), "{request}");
    phone.accept(&request);
    assert!(program.ended().success());
    assert_eq!(field(&folder.records()[0], "ended_by"), "operator");
}

#[test]
fn a_second_sigterm_hurries() {
    let folder = Folder::new();
    let mut program = Program::start(&folder, &[]);
    let mut phone = Phone::new(program.address);
    assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
    program.signal(Signal::TERM);
    eventually("the first signal is in the log", || {
        folder.read("log/messages").contains("SIGTERM: the program ends when its calls have ended")
    });
    program.signal(Signal::TERM);
    let request = phone.receive();
    assert!(request.starts_with("BYE "), "{request}");
    phone.accept(&request);
    assert!(program.ended().success());
}

#[test]
fn a_killed_program_loses_no_record_and_doubles_none() {
    let folder = Folder::new();
    const CALLS: usize = 20;
    for _ in 0..3 {
        let program = Program::start(&folder, &[]);
        let mut phone = Phone::new(program.address);
        for _ in 0..CALLS {
            assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
            assert!(phone.bye("answer").starts_with("SIP/2.0 200 "));
        }
        program.kill();
    }
    let mut program = Program::start(&folder, &[]);
    let records = folder.records();
    let mut ids: Vec<&str> = records.iter().map(|record| field(record, "foreign_id")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((records.len(), ids.len()), (3 * CALLS, 3 * CALLS));
    program.signal(Signal::TERM);
    assert!(program.ended().success());
    let rings = std::fs::read_dir(folder.0.join("rings")).expect("the ring folder");
    let names: Vec<_> = rings.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, ["lock"], "a clean end leaves no ring");
}

#[test]
fn two_shards_serve_calls_wherever_their_datagrams_come_in() {
    let folder = Folder::new();
    let program = Program::start(&folder, &["--shards", "2"]);
    let mut phones: Vec<Phone> = (0..40).map(|_| Phone::new(program.address)).collect();
    for phone in &mut phones {
        assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
    }
    let counts = program.counts();
    assert_eq!((counts.calls, counts.processed), (40, 40));
    let replies = program.ask(Command::ShowChannels { view: View::Concise });
    let rows =
        |reply: &Reply| if let Reply::Channels { channels } = reply { channels.len() } else { 0 };
    assert_eq!(replies.iter().map(rows).sum::<usize>(), 40);
    for phone in &mut phones {
        assert!(phone.bye("answer").starts_with("SIP/2.0 200 "));
    }
    eventually("all records are written", || folder.records().len() == 40);
    assert_eq!(program.counts().calls, 0);
}

#[test]
fn beyond_the_cap_new_calls_are_refused_and_running_ones_are_not() {
    let folder = Folder::new();
    folder.configure("limits.calls = 1\nlimits.calls_hard = 10\n");
    let program = Program::start(&folder, &[]);
    let (mut first, mut second) = (Phone::new(program.address), Phone::new(program.address));
    assert!(first.call("answer").starts_with("SIP/2.0 200 "));
    let refused = second.call("answer");
    assert!(refused.starts_with("SIP/2.0 503 ") && refused.contains("Retry-After:"), "{refused}");
    eventually("the refusal is in the log", || {
        folder.read("log/messages").contains("Refused 1 requests with 503: calls_max")
    });
    assert!(first.bye("answer").starts_with("SIP/2.0 200 "));
    assert!(second.call("answer").starts_with("SIP/2.0 200 "));
}

#[test]
fn operators_can_hang_up_and_change_the_verbosity() {
    let folder = Folder::new();
    let program = Program::start(&folder, &[]);
    let set = |level| {
        let (at_least, silent, console) = (false, false, None);
        program.ask(Command::SetVerbose { level, at_least, silent, console })
    };
    assert_eq!(set(3), [Reply::Verbose { was: 0, now: 3 }, Reply::End]);
    assert!(matches!(set(200)[..], [Reply::Refused { .. }]));
    let mut phone = Phone::new(program.address);
    assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
    eventually("the story of the call is in the log", || {
        folder.read("log/messages").contains("Executing [answer@in:2] Answer(\"SIP/phones-")
    });
    let gone = program.ask(Command::Hangup { channel: "SIP/nobody-1".to_owned() });
    assert!(matches!(gone[..], [Reply::Refused { .. }]), "{gone:?}");
    let all = program.ask(Command::Hangup { channel: "all".to_owned() });
    assert!(matches!(all[..], [Reply::HangupRequested { .. }, Reply::End]), "{all:?}");
    let request = phone.receive();
    assert!(request.starts_with("BYE "), "{request}");
    phone.accept(&request);
    eventually("the call is gone", || program.counts().calls == 0);
}

#[test]
fn a_faulty_configuration_is_told_and_nothing_starts() {
    let folder = Folder::new();
    folder.configure("[sipp]\n");
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pbx"));
        command.arg("--config").arg(folder.0.join("pbx.toml")).args(arguments);
        command.output().expect("it runs")
    };
    for arguments in [&[][..], &["--check"]] {
        let output = run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success());
        assert!(said.contains("unknown key 'sipp' (did you mean 'sip'?)"), "{said}");
        assert!(!folder.0.join("log").exists(), "nothing has started");
    }
    folder.configure("");
    assert!(run(&["--check"]).status.success());
}

#[test]
fn a_second_program_in_the_same_folder_is_kept_out() {
    let folder = Folder::new();
    let _first = Program::start(&folder, &[]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pbx"));
    let output = command.arg("--config").arg(folder.0.join("pbx.toml")).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("another process uses it"), "{said}");
}

#[test]
fn calls_come_in_on_every_address_and_are_answered_from_it() {
    let folder = Folder::new();
    let listen = "sip.listen = [\"127.0.0.1:0\", \"[::1]:0\", \"0.0.0.0:0\"]\n";
    folder.configure(listen);
    let program = Program::start(&folder, &["--shards", "2"]);
    assert_eq!(program.addresses.len(), 3);
    for (at, own) in [(0, "127.0.0.1"), (1, "::1"), (2, "127.0.0.1")] {
        let mut server = program.addresses[at];
        if server.ip().is_unspecified() {
            server.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        let mut phone = Phone::at(own, server);
        phone.connect(); // from now on only this address of the server is heard
        assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
        assert!(phone.bye("answer").starts_with("SIP/2.0 200 "));
    }
}

#[test]
fn metrics_tell_what_happened() {
    let folder = Folder::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let address = free.expect("a free port");
    folder.configure(&format!("metrics.listen = \"{address}\"\n"));
    let program = Program::start(&folder, &[]);
    let mut phone = Phone::new(program.address);
    assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
    assert!(phone.call("nowhere").starts_with("SIP/2.0 404 "));
    eventually("the counts are published", || {
        let text = rig::http_get(address, "/metrics");
        [
            "pbx_calls_total{shard=\"0\"} 2",
            "pbx_calls{shard=\"0\"} 1",
            "pbx_calls_no_extension_total{shard=\"0\"} 1",
            "pbx_records_written_total 1",
            "pbx_requests_refused_total{shard=\"0\",why=\"stranger\"} 0",
        ]
        .iter()
        .all(|line| text.contains(line))
    });
}

#[test]
fn healthz_says_whether_new_calls_are_taken() {
    let folder = Folder::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let address = free.expect("a free port");
    folder.configure(&format!("metrics.listen = \"{address}\"\nlimits.drain = \"10s\"\n"));
    let program = Program::start(&folder, &[]);
    let status = |path: &str| rig::http_get(address, path)[9..12].to_owned();
    assert_eq!((status("/healthz"), status("/healthz/in")), ("200".into(), "200".into()));
    assert_eq!((status("/healthz/out"), status("/else")), ("404".into(), "404".into()));
    let mut phone = Phone::new(program.address);
    assert!(phone.options().starts_with("SIP/2.0 200 "));
    assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
    program.signal(Signal::TERM);
    eventually("the way down shows", || status("/healthz") == "503");
    assert!(rig::http_get(address, "/healthz").contains("on its way down"));
    assert!(Phone::new(program.address).options().starts_with("SIP/2.0 503 "));
}

#[test]
fn a_service_manager_hears_of_start_reload_and_end() {
    let folder = Folder::new();
    let socket = folder.0.join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(rig::PATIENCE)).unwrap();
    let heard = || {
        let mut text = [0; 512];
        let length = manager.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let mut program = Program::start_with(
        &folder,
        &[],
        &[("NOTIFY_SOCKET", socket.to_str().unwrap()), ("WATCHDOG_USEC", "400000")],
    );
    // The first sign of life may come before the word that all is ready.
    let next = || std::iter::repeat_with(heard).find(|text| !text.contains("WATCHDOG")).unwrap();
    assert!(next().contains("READY=1"));
    assert!(heard().contains("WATCHDOG=1"));
    assert!(heard().contains("WATCHDOG=1"), "again and again");
    program.signal(Signal::HUP);
    assert!(next().contains("RELOADING=1"));
    assert!(next().contains("READY=1"));
    program.signal(Signal::TERM);
    assert!(next().contains("STOPPING=1"));
    assert!(program.ended().success());
}

#[test]
fn sqlite_is_filled_with_every_field() {
    let folder = Folder::new();
    folder.configure("records.sqlite = true\n");
    let program = Program::start(&folder, &[]);
    let mut phone = Phone::new(program.address);
    assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
    assert!(phone.bye("answer").starts_with("SIP/2.0 200 "));
    let database = folder.0.join("records/calls.db");
    let query = "SELECT count(*) FROM calls WHERE call_id IS NOT NULL AND started IS NOT NULL \
        AND answered >= started AND ended >= answered AND duration_ms >= billed_ms \
        AND caller = 'tester' AND caller_name = '' AND dialled = 'answer' AND context = 'in' \
        AND endpoint = 'phones' AND peer LIKE '127.0.0.1:%' AND channel LIKE 'SIP/phones-%' \
        AND peer_channel IS NULL AND disposition = 'ANSWERED' AND cause = 16 AND code = 0 \
        AND ended_by = 'caller' AND foreign_id IS NOT NULL";
    eventually("the row is loaded", || {
        let opened = rusqlite::Connection::open(&database);
        opened.and_then(|it| it.query_row(query, [], |row| row.get(0))).unwrap_or(0) == 1
    });
}

#[test]
fn a_cpu_that_is_not_there_is_told() {
    let folder = Folder::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pbx"));
    command.arg("--config").arg(folder.0.join("pbx.toml")).args(["--pin", "1023"]);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("start shard-0"), "{said}");
}

#[test]
fn trying_is_lazy_or_not() {
    for (more, expected) in [("", "SIP/2.0 180 "), ("sip.trying = \"always\"\n", "SIP/2.0 100 ")] {
        let folder = Folder::new();
        folder.configure(more);
        let program = Program::start(&folder, &[]);
        let mut phone = Phone::new(program.address);
        assert!(phone.call("answer").starts_with("SIP/2.0 200 "));
        assert!(phone.first().starts_with(expected), "{}", phone.first());
    }
}

#[test]
fn the_cap_holds_for_all_shards_together() {
    let folder = Folder::new();
    folder.configure("limits.calls = 20\n");
    let program = Program::start(&folder, &["--shards", "3"]);
    let mut phones: Vec<Phone> = (0..60).map(|_| Phone::new(program.address)).collect();
    let calls = phones.iter_mut().map(|phone| phone.call("answer"));
    let answered = calls.filter(|response| response.starts_with("SIP/2.0 200 ")).count();
    assert!((1..=20).contains(&answered), "{answered}");
    assert_eq!(program.counts().calls, answered as u64);
}

#[test]
fn consoles_may_ask_several_things_at_once_and_nonsense_is_refused() {
    use std::io::{BufRead as _, BufReader, Write as _};
    let folder = Folder::new();
    let program = Program::start(&folder, &[]);
    let stream = std::os::unix::net::UnixStream::connect(program.socket()).expect("a console");
    stream.set_read_timeout(Some(rig::PATIENCE)).expect("a timeout");
    let mut writer = stream.try_clone().expect("two ends");
    // A server that closes before it has read all resets the connection.
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.next().expect("a greeting").starts_with("{\"protocol\":2,"));
    let nonsense = "{\"v\":2,\"command\":\"show_version\"}\nnonsense\n{\"v\":7}\n\
        {\"v\":2,\"command\":\"show_uptime\",\"seconds\":true}\n";
    writer.write_all(nonsense.as_bytes()).expect("one write");
    let mut next = || lines.next().expect("an answer");
    assert!(next().contains("\"reply\":\"version\""));
    assert_eq!(next(), "{\"reply\":\"end\"}");
    assert!(next().contains("\"reply\":\"refused\",\"reason\":\"not a command"));
    assert!(next().contains("this server speaks version 2 of the control words, not 7"));
    assert!(next().contains("\"reply\":\"uptime\""));
    assert_eq!(next(), "{\"reply\":\"end\"}");
    writer.write_all(&vec![b'x'; 20_000]).expect("a long line");
    assert!(next().contains("too long"));
    assert!(lines.next().is_none(), "it is cut off");
}

#[test]
fn calls_are_bridged_and_hung_up_from_either_side() {
    let folder = Folder::new();
    for (shards, recorded) in [("1", 8), ("2", 16)] {
        let nowhere = "127.0.0.1:9".parse().expect("an address");
        let mut callee = Phone::new(nowhere);
        let out = format!("trunks.out.peer = \"{}\"\n", callee.address());
        folder.configure(&out);
        let plan =
            "[[context.in.exten]]\nmatch = \"_X.\"\nsteps = [\"Dial(SIP/out/${EXTEN},9)\"]\n";
        folder.write("dialplan.toml", plan);
        let program = Program::start(&folder, &["--shards", shards]);
        callee.call_back(program.address);
        for round in 0..8 {
            let mut caller = Phone::new(program.address);
            caller.dial("123");
            let invite = callee.receive();
            assert!(invite.starts_with("INVITE sip:123@"), "{invite}");
            assert!(invite.contains("m=audio 4000 "), "the caller's offer goes through: {invite}");
            callee.pick_up(&invite);
            let answer = caller.answered("123");
            assert!(answer.starts_with("SIP/2.0 200 ") && answer.contains("m=audio 5000 "));
            if round % 2 == 0 {
                assert!(caller.bye("123").starts_with("SIP/2.0 200 "));
                let bye = callee.receive();
                assert!(bye.starts_with("BYE "), "{bye}");
                callee.accept(&bye);
            } else {
                callee.hang_up(&invite);
                let bye = caller.receive();
                assert!(bye.starts_with("BYE "), "{bye}");
                caller.accept(&bye);
            }
        }
        eventually("nothing is left", || program.counts().channels == 0);
        eventually("all is recorded", || folder.records().len() == recorded);
    }
    let by = |who: &str| folder.records().iter().filter(|r| field(r, "ended_by") == who).count();
    assert_eq!((by("caller"), by("callee")), (8, 8));
}

#[test]
fn a_callee_that_is_not_there_fails_the_call_at_once() {
    let folder = Folder::new();
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let nobody = nobody.expect("a port that nobody listens on any more");
    folder.configure(&format!("trunks.out.peer = \"{nobody}\"\n"));
    let plan = "[[context.in.exten]]\nmatch = \"_X.\"\nsteps = [\"Dial(SIP/out/${EXTEN},60)\"]\n";
    folder.write("dialplan.toml", plan);
    let program = Program::start(&folder, &[]);
    let mut caller = Phone::new(program.address);
    let began = std::time::Instant::now();
    let response = caller.call("123");
    assert!(response.starts_with("SIP/2.0 5"), "{response}");
    assert!(began.elapsed().as_secs() < 10, "not Timer B, which takes 32 s: {:?}", began.elapsed());
}
