//! `pbxctl` attached to a running server: followed from a file, typed into on a terminal, killed.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::outside::{Folder, Process, wait_until};
use crate::pbx::{Pbx, built};
use crate::plan;
use crate::sipp::call;

#[test]
fn pbxctl_follows_the_log_into_a_file_and_its_death_is_noticed() {
    let folder = Folder::new("pbxctl-follow");
    let pbx = Pbx::start(&folder, &plan(9));
    let socket = pbx.control();
    let mut command = Command::new(built("pbxctl"));
    command.arg("--socket").arg(&socket).args(["--follow", "-vvv"]);
    let follower = Process::start(&folder, "pbxctl", &mut command);
    wait_until("it is attached", || {
        pbx.log("messages").contains("Console 'console-1' is attached")
    });
    let counts = call(&folder, &pbx, "answer-now", 3);
    assert_eq!((counts.completed, counts.failed), (3, 0), "{counts:?}");
    wait_until("it shows each call", || follower.output().matches("Hungup").count() == 3);
    let text = follower.output();
    assert!(text.contains("    -- Executing [answer-now@default:1] Answer("), "{text}");
    assert!(!text.contains('\x1b'), "no colours in a file: {text}");
    drop(follower); // by SIGKILL
    wait_until("its death is noticed", || pbx.log("messages").contains("'console-1' is gone"));
    pbx.stop();
}

#[test]
fn lines_come_above_the_prompt_while_commands_are_typed() {
    let folder = Folder::new("pbxctl-terminal");
    let pbx = Pbx::start(&folder, &plan(9));
    let line = format!("{} --socket {} -vvv", built("pbxctl").display(), pbx.control().display());
    let shown = folder.path().join("shown");
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("XDG_STATE_HOME", folder.inside("state"))
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(std::fs::File::create(&shown).expect("the folder is the test's"))
        .spawn()
        .expect("script is there");
    let mut keys = child.stdin.take().expect("it is piped");
    // Key by key, as people type: of keys that come at once the line editor takes one, and the rest
    // with the next key.
    let mut typed = |text: &str| {
        for key in text.as_bytes() {
            keys.write_all(&[*key]).and_then(|()| keys.flush()).expect("it reads");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_until("it is attached", || {
        pbx.log("messages").contains("Console 'console-1' is attached")
    });
    // A word is half typed when the lines come.
    typed("core set ver");
    call(&folder, &pbx, "answer-now", 2);
    // What nobody has: a notice, which a terminal shows in colour.
    call(&folder, &pbx, "nobody", 1);
    std::thread::sleep(Duration::from_millis(500));
    typed("bose off\r");
    std::thread::sleep(Duration::from_millis(500));
    call(&folder, &pbx, "answer-now", 1);
    typed("quit\r");
    wait_until("it ends", || child.try_wait().is_ok_and(|status| status.is_some()));
    let text = folder.read("shown");
    assert_eq!(text.matches("Hungup 'SIP/local-").count(), 3, "{text}");
    assert!(text.contains("Console verbose was 3 and is now OFF."), "{text}");
    assert!(text.contains("\x1b[33mNOTICE\x1b[0m["), "coloured on a terminal: {text}");
    wait_until("it has gone", || pbx.log("messages").contains("'console-1' is gone"));
    pbx.stop();
}
