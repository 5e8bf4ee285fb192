//! The console as a script sees it: what it prints, where, and its exit status.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use pbx_control::wire::{read_request, write_line};
use pbx_control::{Channel, Command as Ask, Counts, Hello, PROTOCOL, Reply};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static SERVERS: AtomicU32 = AtomicU32::new(0);

/// A server that answers every command of one console by `answer`.
fn serve(answer: fn(&Ask) -> Vec<Reply>) -> PathBuf {
    let number = SERVERS.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("pbxctl-{}-{number}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = Vec::new();
        let hello = Hello { protocol: PROTOCOL, version: "0".to_owned(), pid: 1 };
        write_line(&hello, &mut lines).unwrap();
        stream.write_all(&lines).unwrap();
        for line in BufReader::new(stream.try_clone().unwrap()).split(b'\n') {
            lines.clear();
            for reply in answer(&read_request(&line.unwrap()).unwrap().command) {
                write_line(&reply, &mut lines).unwrap();
            }
            stream.write_all(&lines).unwrap();
        }
    });
    path
}

fn one_call(ask: &Ask) -> Vec<Reply> {
    let counts = Counts { channels: 1, calls: 1, calls_max: 0, processed: 7 };
    let channel = Channel { name: "SIP/a-1".to_owned(), ..Channel::default() };
    match ask {
        Ask::ShowChannels { .. } => {
            let channels = vec![channel];
            vec![Reply::Channels { channels }, Reply::Counts(counts), Reply::End]
        }
        Ask::ShowCalls { .. } => vec![Reply::Counts(counts), Reply::End],
        Ask::ShowUptime { .. }
        | Ask::ShowVersion
        | Ask::SetVerbose { .. }
        | Ask::Logger { .. }
        | Ask::Attach(_)
        | Ask::Stop { .. }
        | Ask::DialplanShow { .. }
        | Ask::DialplanReload
        | Ask::DialplanTest { .. }
        | Ask::EndpointShow { .. }
        | Ask::RegistrarShow { .. }
        | Ask::Unregister { .. }
        | Ask::TrunkShow { .. }
        | Ask::DatabaseShow { .. }
        | Ask::DatabaseGet { .. }
        | Ask::DatabasePut { .. }
        | Ask::DatabaseDelete { .. }
        | Ask::ShowHealth
        | Ask::ShowHints
        | Ask::ShowSettings
        | Ask::ShowTcp
        | Ask::SetDebug { .. }
        | Ask::SetDnd { .. }
        | Ask::Trace(_)
        | Ask::Top
        | Ask::Originate { .. }
        | Ask::Hangup { .. } => {
            vec![Reply::Refused { reason: "first fault\nsecond fault".to_owned() }]
        }
    }
}

fn pbxctl(socket: &Path, arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pbxctl"))
        .arg("--socket")
        .arg(socket)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have ended without reading.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let _ = std::fs::remove_file(socket);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_command_may_be_typed_as_for_asterisk() {
    let expected = "SIP/a-1!!!0!!(None)!!!!!0!0!!\n";
    for arguments in [
        &["core", "show", "channels", "concise"][..],
        &["core show channels concise"],
        &["-rx", "core show channels concise"],
        &["-x", "core show channels concise"],
    ] {
        let (status, out, err) = pbxctl(&serve(one_call), arguments, "");
        assert_eq!((status, out.as_str(), err.as_str()), (Some(0), expected, ""));
    }
}

#[test]
fn json_is_one_value_a_line() {
    let (status, out, _) = pbxctl(&serve(one_call), &["--json", "core", "show", "calls"], "");
    assert_eq!(status, Some(0));
    let replies: Vec<Reply> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replies, one_call(&Ask::ShowCalls { uptime: false, seconds: false }));
}

#[test]
fn a_refusal_goes_to_standard_error_with_status_1() {
    let (status, out, err) = pbxctl(&serve(one_call), &["dialplan", "reload"], "");
    assert_eq!((status, out.as_str()), (Some(1), ""));
    assert_eq!(err, "first fault\nsecond fault\n");
}

#[test]
fn nonsense_is_status_2_and_needs_no_server() {
    let nowhere = PathBuf::from("/nowhere/control.sock");
    let (status, out, err) = pbxctl(&nowhere, &["core", "show", "nonsense"], "");
    assert_eq!((status, out.as_str()), (Some(2), ""));
    assert!(err.contains("core show channels"), "{err}");
    assert_eq!(pbxctl(&nowhere, &["--nonsense"], "").0, Some(2));
    let (status, out, _) = pbxctl(&nowhere, &["help"], "");
    assert_eq!(status, Some(0));
    assert!(out.contains("dialplan test <number>@<context>"), "{out}");
}

#[test]
fn no_server_is_status_3() {
    let nowhere = PathBuf::from("/nowhere/control.sock");
    let (status, _, err) = pbxctl(&nowhere, &["core", "show", "calls"], "");
    assert_eq!(status, Some(3));
    assert!(err.starts_with("pbxctl: /nowhere/control.sock: no PBX listens there"), "{err}");
    assert_eq!(pbxctl(&nowhere, &[], "core show calls\n").0, Some(3));
}

#[test]
fn commands_may_come_from_a_pipe_and_the_first_failure_ends_it() {
    let input = "core show calls\n\nexit\ncore show calls\n";
    let (status, out, _) = pbxctl(&serve(one_call), &[], input);
    assert_eq!((status, out.as_str()), (Some(0), "1 active call\n7 calls processed\n"));
    let input = "dialplan reload\ncore show calls\n";
    let (status, out, _) = pbxctl(&serve(one_call), &[], input);
    assert_eq!((status, out.as_str()), (Some(1), ""));
}

/// What a terminal shows when these keys are pressed in it, each some time after the one before.
fn typed(socket: &Path, home: &Path, keys: &[&str]) -> String {
    let line = format!("{} --socket {}", env!("CARGO_BIN_EXE_pbxctl"), socket.display());
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("XDG_STATE_HOME", home)
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for key in keys {
        std::thread::sleep(std::time::Duration::from_millis(300));
        input.write_all(key.as_bytes()).unwrap();
        input.flush().unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    // It may have ended already.
    let _ = input.write_all(b"\x04");
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_terminal_completes_remembers_and_stays_after_a_slip() {
    let home = std::env::temp_dir().join(format!("pbxctl-home-{}", std::process::id()));
    let socket = serve(one_call);
    let shown = typed(&socket, &home, &["core sh\tcalls\r", "cor show calls\r", "quit\r"]);
    assert!(shown.contains("*CLI> "), "{shown}");
    assert!(shown.contains("7 calls processed"), "TAB has completed `show`: {shown}");
    assert!(shown.contains("did you mean 'core'?"), "{shown}");
    let history = home.join("pbxctl/history");
    let text = std::fs::read_to_string(&history).unwrap();
    assert!(text.contains("core show calls"), "{text}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&history.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let _ = std::fs::remove_dir_all(home);
}
