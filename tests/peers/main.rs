//! Calls with other people's programs against the running `pbx`, over loopback: SIPp, baresip,
//! Kamailio, sipsak, SIPVicious.
//!
//! Each test has a folder, ports and processes of its own. `cargo xtask test` installs the
//! programs; a missing one fails the test and says so. What passed between them is left in the
//! folder that a failing test prints.

mod banned;
mod baresip;
mod branches;
mod kamailio;
mod logging_cost;
mod outside;
mod pbx;
mod probed;
mod proxied;
mod sipp;

use baresip::Baresip;
use outside::{Folder, free_port, wait_until};
use pbx::Pbx;
use sipp::{Answering, call, calling};

/// Calls of a SIPp test: enough to have many at once, few enough for a loaded machine.
const CALLS: u32 = 50;

/// A plan that answers, and bridges to a port of this machine.
fn plan(called: u16) -> String {
    format!(
        r#"
[[context.default.exten]]
match = "answer"
steps = ["Ringing()", "Answer()", "Wait(600)"]

[[context.default.exten]]
match = "answer-now"
steps = ["Answer()", "Wait(600)"]

[[context.default.exten]]
match = "bridge"
steps = ["Dial(sip:service@127.0.0.1:{called},30)", "Hangup()"]

[[context.default.exten]]
match = "busy"
steps = ["Busy(10)"]
"#
    )
}

#[test]
fn sipp_s_caller_is_answered() {
    let folder = Folder::new("sipp-answer");
    let pbx = Pbx::start(&folder, &plan(9));
    for extension in ["answer", "answer-now"] {
        let counts = call(&folder, &pbx, extension, CALLS);
        assert_eq!((counts.completed, counts.failed), (CALLS, 0), "{extension}: {counts:?}");
    }
    let records = pbx.stop();
    assert_eq!(records.len(), 2 * CALLS as usize, "one record for each call");
    let answered = records.iter().filter(|record| record["disposition"] == "ANSWERED");
    assert_eq!(answered.count(), records.len());
}

#[test]
fn sipp_calls_sipp_through_the_bridge() {
    let folder = Folder::new("sipp-bridge");
    let called = free_port();
    let pbx = Pbx::start(&folder, &plan(called));
    let mut answering = Answering::start(&folder, called, CALLS);
    let counts = call(&folder, &pbx, "bridge", CALLS);
    assert_eq!((counts.completed, counts.failed), (CALLS, 0), "{counts:?}");
    let counts = answering.finish();
    assert_eq!((counts.completed, counts.failed), (CALLS, 0), "the called side: {counts:?}");
    assert_eq!(pbx.stop().len(), CALLS as usize, "one record for each call, not for each leg");
}

#[test]
fn a_sipp_caller_hears_busy_and_not_found() {
    let folder = Folder::new("sipp-refused");
    let pbx = Pbx::start(&folder, &plan(9));
    for extension in ["busy", "nobody"] {
        let counts = call(&folder, &pbx, extension, 5);
        assert_eq!((counts.completed, counts.failed), (0, 5), "{extension}: {counts:?}");
    }
    let dispositions: Vec<String> = pbx
        .stop()
        .iter()
        .map(|record| record["disposition"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(dispositions.iter().filter(|text| *text == "BUSY").count(), 5, "{dispositions:?}");
}

#[test]
fn sipp_s_branching_scenarios_meet_through_the_bridge() {
    let folder = Folder::new("sipp-branch");
    let called = free_port();
    let plan = plan(called).replace("\"bridge\"", "\"ua2\"");
    let pbx = Pbx::start(&folder, &plan);
    // Calls 2 and 20 to 29 are answered by the called side's rule, the others are refused with 403.
    let calls = 30;
    let mut answering = branches::start_called(&folder, called, calls);
    let counts = branches::call(&folder, &pbx, calls);
    assert_eq!((counts.completed, counts.failed), (calls, 0), "{counts:?}");
    let counts = answering.finish();
    assert_eq!((counts.completed, counts.failed), (calls, 0), "the called side: {counts:?}");
    let records = pbx.stop();
    let answered = records.iter().filter(|record| record["disposition"] == "ANSWERED").count();
    assert_eq!((records.len(), answered), (calls as usize, 11));
}

#[test]
fn a_baresip_is_answered_and_hangs_up() {
    let folder = Folder::new("baresip-answer");
    let pbx = Pbx::start(&folder, &plan(9));
    let mut phone = Baresip::start(&folder, "alice", free_port());
    phone.dial(&format!("sip:answer@127.0.0.1:{}", pbx.port()));
    phone.wait_for("Call established");
    phone.hang_up();
    wait_until("the call's record is written", || pbx.records().len() == 1);
    assert_eq!(pbx.stop()[0]["disposition"], "ANSWERED");
}

#[test]
fn a_baresip_calls_another_through_the_bridge() {
    let folder = Folder::new("baresip-bridge");
    let called = free_port();
    let pbx = Pbx::start(&folder, &plan(called));
    let mut bob = Baresip::start(&folder, "service", called);
    let mut alice = Baresip::start(&folder, "alice", free_port());
    alice.dial(&format!("sip:bridge@127.0.0.1:{}", pbx.port()));
    alice.wait_for("Call established");
    bob.wait_for("Call established");
    // Each hears the other: the descriptions went end to end, so media flows between the phones.
    alice.wait_for_media();
    bob.wait_for_media();
    // The called side hangs up: the caller's call ends too.
    bob.hang_up();
    alice.wait_for("terminated");
    wait_until("the call's record is written", || pbx.records().len() == 1);
    assert_eq!(pbx.stop()[0]["disposition"], "ANSWERED");
}

/// Phones with passwords, and nobody who is known by his address.
const PHONES: &str = r#"
[endpoints.phones]
range = "1000-1009"
password = "secret{n}"
context = "default"
"#;

const PHONES_PLAN: &str = r#"
[[context.default.exten]]
match = "_1XXX"
steps = ["Dial(SIP/${EXTEN},30)", "Hangup()"]
"#;

#[test]
fn two_baresips_register_and_call_each_other() {
    let folder = Folder::new("baresip-register");
    let pbx = Pbx::start_with(&folder, PHONES_PLAN, PHONES);
    let mut bob = Baresip::register(&folder, "1001", pbx.port());
    let mut alice = Baresip::register(&folder, "1000", pbx.port());
    alice.dial(&format!("sip:1001@127.0.0.1:{}", pbx.port()));
    alice.wait_for("Call established");
    bob.wait_for("Call established");
    alice.wait_for_media();
    bob.wait_for_media();
    alice.hang_up();
    bob.wait_for("terminated");
    wait_until("the call's record is written", || pbx.records().len() == 1);
    let records = pbx.stop();
    assert_eq!(records[0]["disposition"], "ANSWERED");
    assert_eq!(records[0]["endpoint"], "1000");
}

#[test]
fn two_baresips_register_and_call_each_other_over_tcp() {
    let folder = Folder::new("baresip-tcp");
    let pbx = Pbx::start_with(&folder, PHONES_PLAN, PHONES);
    let mut bob = Baresip::register_over_tcp(&folder, "1001", pbx.port());
    let mut alice = Baresip::register_over_tcp(&folder, "1000", pbx.port());
    alice.dial(&format!("sip:1001@127.0.0.1:{};transport=tcp", pbx.port()));
    alice.wait_for("Call established");
    bob.wait_for("Call established");
    alice.wait_for_media();
    bob.hang_up();
    alice.wait_for("terminated");
    wait_until("the call's record is written", || pbx.records().len() == 1);
    assert_eq!(pbx.stop()[0]["disposition"], "ANSWERED");
}

#[test]
fn a_baresip_over_tcp_calls_one_over_udp() {
    let folder = Folder::new("baresip-mixed");
    let pbx = Pbx::start_with(&folder, PHONES_PLAN, PHONES);
    let mut bob = Baresip::register(&folder, "1001", pbx.port());
    let mut alice = Baresip::register_over_tcp(&folder, "1000", pbx.port());
    alice.dial(&format!("sip:1001@127.0.0.1:{};transport=tcp", pbx.port()));
    alice.wait_for("Call established");
    bob.wait_for("Call established");
    alice.hang_up();
    bob.wait_for("session closed");
    wait_until("the call's record is written", || pbx.records().len() == 1);
    pbx.stop();
}

#[test]
fn sipp_calls_over_tcp_by_one_connection_and_by_many() {
    let folder = Folder::new("sipp-tcp");
    let pbx = Pbx::start(&folder, &plan(9));
    for transport in ["t1", "tn"] {
        let scenario = ["-sn", "uac", "-s", "answer", "-d", "100", "-t", transport];
        let many = ["-max_socket", "100"];
        let scenario: Vec<&str> = scenario.iter().chain(&many).copied().collect();
        let counts = calling(&folder, &pbx, &format!("uac-{transport}"), &scenario, CALLS);
        assert_eq!((counts.completed, counts.failed), (CALLS, 0), "{transport}: {counts:?}");
    }
    assert_eq!(pbx.stop().len(), 2 * CALLS as usize);
}

#[test]
fn sipp_over_tcp_reaches_sipp_over_tcp_through_the_bridge() {
    let folder = Folder::new("sipp-tcp-bridge");
    let called = free_port();
    let plan = plan(called).replace(&format!("{called},30"), &format!("{called};transport=tcp,30"));
    let pbx = Pbx::start(&folder, &plan);
    let scenario = ["-sn", "uas", "-t", "t1"];
    let mut answering = Answering::by(&folder, "uas-tcp", &scenario, called, CALLS);
    let counts = call(&folder, &pbx, "bridge", CALLS);
    assert_eq!((counts.completed, counts.failed), (CALLS, 0), "{counts:?}");
    let counts = answering.finish();
    assert_eq!((counts.completed, counts.failed), (CALLS, 0), "the called side: {counts:?}");
    assert_eq!(pbx.stop().len(), CALLS as usize);
}

#[test]
fn sipp_registers_with_a_digest() {
    let folder = Folder::new("sipp-register");
    let pbx = Pbx::start_with(&folder, PHONES_PLAN, PHONES);
    let file = folder.write("register.xml", include_str!("../../etc/bench/sipp/register.xml"));
    let users = folder.write("users.csv", &register_users());
    let (file, users) = (file.display().to_string(), users.display().to_string());
    let counts = calling(&folder, &pbx, "register", &["-sf", &file, "-inf", &users], CALLS);
    assert_eq!((counts.completed, counts.failed), (CALLS, 0), "{counts:?}");
    pbx.stop();
}

/// SIPp's injection file: user and credentials.
fn register_users() -> String {
    let user = |number: u32| {
        format!("{number};[authentication username={number} password=secret{number}]\n")
    };
    format!("SEQUENTIAL\n{}", (1000..1010).map(user).collect::<String>())
}
