//! The PBX behind Kamailio, which stays in the path of each dialog: whoever ends a call must send
//! its BYE along the route set (RFC 3261 12.2.1.1, 16.12).

use crate::baresip::Baresip;
use crate::kamailio::{Between, CARRIER, EDGE, Kamailio, PROXY, port_beside, registering};
use crate::outside::{Folder, free_port, wait_until};
use crate::pbx::Pbx;
use crate::sipp::{Answering, Counts, calling_at};

const CALLS: u32 = 20;

/// Says BYE along the route set, after the call has stood for a moment.
const HANGS_UP: &str = r#"  <pause milliseconds="200"/>
  <send retrans="500"><![CDATA[

    BYE [next_url] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    [routes]
    @FROM@
    @TO@
    Call-ID: [call_id]
    CSeq: 2 BYE
    Max-Forwards: 70
    Content-Length: 0

  ]]></send>
  <recv response="200"/>"#;

/// Waits for the other side's BYE.
const IS_HUNG_UP: &str = r#"  <recv request="BYE"/>
  <send><![CDATA[

    SIP/2.0 200 OK
    [last_Via:]
    [last_From:]
    [last_To:]
    [last_Call-ID:]
    [last_CSeq:]
    Content-Length: 0

  ]]></send>
  <timewait milliseconds="100"/>"#;

fn caller(folder: &Folder, hangs_up: bool) -> &'static str {
    let from = "From: <sip:caller@[local_ip]:[local_port]>;tag=[pid]t[call_number]";
    let bye = HANGS_UP.replace("@FROM@", from).replace("@TO@", "[last_To:]");
    let end = if hangs_up { bye.as_str() } else { IS_HUNG_UP };
    folder.write("caller.xml", &include_str!("caller.xml").replace("@END@", end));
    "caller.xml"
}

/// The called side: its From is what the INVITE had as To.
fn called(folder: &Folder, hangs_up: bool) -> &'static str {
    let bye = HANGS_UP
        .replace("@FROM@", "From: <[$2]>;tag=[pid]u[call_number]")
        .replace("@TO@", "To: [$1]");
    let end = if hangs_up { bye.as_str() } else { IS_HUNG_UP };
    let taken = r#"  <recv request="INVITE" rrs="true"><action>
    <ereg regexp=".*" search_in="hdr" header="From:" assign_to="1"/>
    <ereg regexp="sip:[^>]*" search_in="hdr" header="To:" assign_to="2"/>
  </action></recv>"#;
    let text = include_str!("called.xml").replace("@END@", end);
    let text = match hangs_up {
        true => text.replace(r#"  <recv request="INVITE" rrs="true"/>"#, taken),
        false => text,
    };
    folder.write("called.xml", &text);
    "called.xml"
}

const PLAN: &str = r#"
[[context.default.exten]]
match = "answer"
steps = ["Ringing()", "Answer()", "Wait(600)"]

[[context.default.exten]]
match = "brief"
steps = ["Answer()", "Wait(1)", "Hangup()"]

[[context.default.exten]]
match = "out"
steps = ["Dial(SIP/proxy/service,30)", "Hangup()"]
"#;

/// Kamailio is both: where calls come from and the peer that calls go out by.
fn parties(kamailio: u16) -> String {
    format!(
        r#"
[trunks.proxy]
from = ["127.0.0.0/8"]
peer = "127.0.0.1:{kamailio}"
context = "default"
"#
    )
}

fn start(folder: &Folder, to: u16) -> (Pbx, Kamailio) {
    start_by(folder, to, PROXY)
}

fn start_by(folder: &Folder, to: u16, config: &str) -> (Pbx, Kamailio) {
    let port = port_beside(&[to]);
    let pbx = Pbx::start_with(folder, PLAN, &parties(port));
    let between = Between { pbx: pbx.port(), called: to, ..Between::default() };
    let kamailio = Kamailio::start(folder, port, config, &between);
    (pbx, kamailio)
}

fn call(folder: &Folder, port: u16, extension: &str, scenario: &str) -> Counts {
    calling_at(folder, port, "caller", &["-sf", scenario, "-s", extension], CALLS)
}

/// How many requests of a method within a dialog came to Kamailio from a port with a route, and
/// how many without one.
fn within_dialogs(kamailio: &Kamailio, method: &str, from: Option<u16>) -> (usize, usize) {
    let begin = format!("seen: {method} from ");
    let text = kamailio.output();
    let seen = text.lines().filter_map(|line| line.split_once(&begin)).map(|(_, rest)| rest);
    let seen = seen.filter(|rest| from.is_none_or(|port| rest.starts_with(&format!("{port} "))));
    let seen: Vec<&str> = seen.filter(|rest| !rest.ends_with("tag [<null>]")).collect();
    let bare = seen.iter().filter(|rest| rest.contains("route [<null>]")).count();
    (seen.len() - bare, bare)
}

fn assert_all(counts: &Counts, whose: &str) {
    assert_eq!((counts.completed, counts.failed), (CALLS, 0), "{whose}: {counts:?}");
}

#[test]
fn a_caller_behind_a_record_routing_proxy_is_answered_and_hangs_up() {
    let folder = Folder::new("kamailio-in");
    let (pbx, kamailio) = start(&folder, free_port());
    let scenario = caller(&folder, true);
    assert_all(&call(&folder, kamailio.port(), "answer", scenario), "the caller");
    let (routed, bare) = within_dialogs(&kamailio, "BYE", None);
    assert!(routed >= CALLS as usize && bare == 0, "{routed} {bare}");
    assert_answered(pbx);
}

#[test]
fn the_pbx_hangs_up_along_the_route_set() {
    let folder = Folder::new("kamailio-bye");
    let (pbx, kamailio) = start(&folder, free_port());
    let scenario = caller(&folder, false);
    assert_all(&call(&folder, kamailio.port(), "brief", scenario), "the caller");
    let (routed, bare) = within_dialogs(&kamailio, "BYE", Some(pbx.port()));
    assert!(routed >= CALLS as usize && bare == 0, "{routed} {bare}");
    assert_answered(pbx);
}

/// The proxy takes calls over UDP and speaks TCP with the PBX: it enters itself twice into the
/// route set, once for each side (RFC 5658).
#[test]
fn both_sides_hang_up_by_a_proxy_that_changes_the_transport() {
    let folder = Folder::new("kamailio-tcp");
    let config = PROXY
        .replace("disable_tcp=yes", "listen=tcp:127.0.0.1:@PORT@")
        .replace("127.0.0.1:@PBX@\"", "127.0.0.1:@PBX@;transport=tcp\"");
    let (pbx, kamailio) = start_by(&folder, free_port(), &config);
    let scenario = caller(&folder, true);
    assert_all(&call(&folder, kamailio.port(), "answer", scenario), "the caller hangs up");
    let scenario = caller(&folder, false);
    assert_all(&call(&folder, kamailio.port(), "brief", scenario), "the PBX hangs up");
    // The BYEs of the PBX come by a connection of its own: the proxy has not offered its own (RFC
    // 5923).
    let (routed, bare) = within_dialogs(&kamailio, "BYE", None);
    assert!(routed >= 2 * CALLS as usize && bare == 0, "{routed} {bare}");
    let messages = folder.read("caller.messages");
    assert!(messages.contains("transport=tcp;r2=on;lr"), "the transport was changed");
    wait_until("each call has its record", || pbx.records().len() == 2 * CALLS as usize);
    pbx.stop();
}

#[test]
fn a_call_goes_out_by_a_trunk_whose_peer_is_a_proxy_and_the_caller_hangs_up() {
    let folder = Folder::new("kamailio-out");
    let to = free_port();
    let (pbx, kamailio) = start(&folder, to);
    let scenario = called(&folder, false);
    let mut answering = Answering::by(&folder, "called", &["-sf", scenario], to, CALLS);
    // The caller comes directly: what Kamailio sees is the leg that goes out, and nothing else.
    let scenario = caller(&folder, true);
    assert_all(&call(&folder, pbx.port(), "out", scenario), "the caller");
    assert_all(&answering.finish(), "the called side");
    for method in ["ACK", "BYE"] {
        let (routed, bare) = within_dialogs(&kamailio, method, Some(pbx.port()));
        assert!(routed >= CALLS as usize && bare == 0, "{method}: {routed} {bare}");
    }
    assert_answered(pbx);
}

#[test]
fn a_call_through_the_proxy_both_ways_ends_when_the_called_side_hangs_up() {
    let folder = Folder::new("kamailio-both");
    let to = free_port();
    let (pbx, kamailio) = start(&folder, to);
    let scenario = called(&folder, true);
    let mut answering = Answering::by(&folder, "called", &["-sf", scenario], to, CALLS);
    let scenario = caller(&folder, false);
    assert_all(&call(&folder, kamailio.port(), "out", scenario), "the caller");
    assert_all(&answering.finish(), "the called side");
    // Called side to PBX and PBX to caller: both by the proxy.
    let (routed, bare) = within_dialogs(&kamailio, "BYE", None);
    assert!(routed >= 2 * CALLS as usize && bare == 0, "{routed} {bare}");
    assert_answered(pbx);
}

#[test]
fn a_caller_who_gives_up_ends_the_ringing_behind_the_proxy() {
    let folder = Folder::new("kamailio-cancel");
    let to = free_port();
    let (pbx, kamailio) = start(&folder, to);
    folder.write("cancelled.xml", include_str!("cancelled.xml"));
    folder.write("cancelling.xml", include_str!("cancelling.xml"));
    let scenario = ["-sf", "cancelled.xml"];
    let mut answering = Answering::by(&folder, "cancelled", &scenario, to, CALLS);
    // In by the proxy and out by it: both legs' CANCELs are for it to pass on.
    assert_all(&call(&folder, kamailio.port(), "out", "cancelling.xml"), "the caller");
    assert_all(&answering.finish(), "the called side");
    wait_until("each call has its record", || pbx.records().len() == CALLS as usize);
    let records = pbx.stop();
    let answered = records.iter().filter(|record| record["disposition"] == "ANSWERED").count();
    assert_eq!((records.len(), answered), (CALLS as usize, 0));
}

// --- registrations ------------------------------------------------------------------------------

const PHONE: &str = r#"
[endpoints.1000]
password = "secret1000"
context = "default"

[trunks.callers]
from = ["127.0.0.0/8"]
context = "default"
"#;

const PHONE_PLAN: &str = r#"
[[context.default.exten]]
match = "1000"
steps = ["Dial(SIP/1000,30)", "Hangup()"]
"#;

fn start_registering(folder: &Folder, password: &str, called: u16) -> (Pbx, Kamailio) {
    let pbx = Pbx::start_with(folder, PHONE_PLAN, PHONE);
    let port = port_beside(&[called, pbx.port()]);
    let modules = registering(folder, port, pbx.port(), password);
    let between = Between { pbx: pbx.port(), called, modules };
    let kamailio = Kamailio::start(folder, port, PROXY, &between);
    (pbx, kamailio)
}

#[test]
fn kamailio_registers_with_a_digest_and_is_called_where_it_registered() {
    let folder = Folder::new("kamailio-uac");
    let to = free_port();
    let (pbx, kamailio) = start_registering(&folder, "secret1000", to);
    wait_until("Kamailio is registered", || pbx.health("endpoints registered") == 1);
    let scenario = called(&folder, false);
    let mut answering = Answering::by(&folder, "called", &["-sf", scenario], to, CALLS);
    let scenario = caller(&folder, true);
    assert_all(&call(&folder, pbx.port(), "1000", scenario), "the caller");
    assert_all(&answering.finish(), "the called side");
    let (routed, bare) = within_dialogs(&kamailio, "BYE", Some(pbx.port()));
    assert!(routed >= CALLS as usize && bare == 0, "{routed} {bare}");
    assert_answered(pbx);
}

#[test]
fn kamailio_with_a_wrong_password_is_not_registered() {
    let folder = Folder::new("kamailio-wrong");
    let (pbx, _kamailio) = start_registering(&folder, "secret1001", free_port());
    wait_until("the log says so", || pbx.log("messages").contains("- Wrong password"));
    assert_eq!(pbx.health("endpoints registered"), 0);
    pbx.stop();
}

const OFFICE: &str = r#"
[endpoints.phones]
range = "1000-1009"
password = "secret{n}"
context = "default"
"#;

const OFFICE_PLAN: &str = r#"
[[context.default.exten]]
match = "_1XXX"
steps = ["Dial(SIP/${EXTEN},30)", "Hangup()"]
"#;

/// The PBX must call a phone by the path that it registered with (RFC 3327 5.3): the edge answers
/// 404 to what comes without it.
#[test]
fn a_phone_behind_an_edge_proxy_is_called_by_its_path_and_calls_through_it() {
    let folder = Folder::new("kamailio-edge");
    let pbx = Pbx::start_with(&folder, OFFICE_PLAN, OFFICE);
    let port = port_beside(&[pbx.port()]);
    let between = Between { pbx: pbx.port(), ..Between::default() };
    let edge = Kamailio::start(&folder, port, EDGE, &between);
    let mut home = Baresip::register_through(&folder, "1000", pbx.port(), edge.port());
    let mut desk = Baresip::register(&folder, "1001", pbx.port());

    desk.dial(&format!("sip:1000@127.0.0.1:{}", pbx.port()));
    desk.wait_for("Call established");
    home.wait_for("Call established");
    desk.wait_for_media();
    home.hang_up();
    desk.wait_for("terminated");
    wait_until("the first call's record is written", || pbx.records().len() == 1);

    home.dial(&format!("sip:1001@127.0.0.1:{}", pbx.port()));
    wait_until("the second call is answered", || within_dialogs(&edge, "ACK", None).0 >= 2);
    desk.hang_up();
    wait_until("each call has its record", || pbx.records().len() == 2);
    let sent = format!("seen: INVITE from {} route [<sip:127.0.0.1:{port};lr", pbx.port());
    assert!(edge.output().contains(&sent), "{}", edge.output());
    let (routed, bare) = within_dialogs(&edge, "BYE", None);
    assert!(routed >= 2 && bare == 0, "{routed} {bare}");
    let records = pbx.stop();
    assert!(records.iter().all(|record| record["disposition"] == "ANSWERED"), "{records:?}");
}

/// The PBX as a customer of a carrier that challenges in that way.
fn start_customer(folder: &Folder, to: u16, (qop, algorithm): (&str, &str)) -> (Pbx, Kamailio) {
    let port = port_beside(&[to]);
    let parties = format!(
        "[trunks.proxy]\nfrom = [\"127.0.0.0/8\"]\ncontext = \"default\"\nuser = \"us\"\n\
         peer = \"127.0.0.1:{port}\"\nregister = \"127.0.0.1:{port}\"\nfrom_user = \"us\"\n\
         password = \"between us\"\n"
    );
    let plan = PLAN.replace("\"answer\"", "\"us\"");
    let pbx = Pbx::start_with(folder, &plan, &parties);
    let config = CARRIER.replace("@QOP@", qop).replace("@ALGORITHM@", algorithm);
    let between = Between { pbx: pbx.port(), called: to, ..Between::default() };
    let kamailio = Kamailio::start(folder, port, &config, &between);
    (pbx, kamailio)
}

/// Registered, called by the carrier, and calling out by it.
fn is_customer(folder: &Folder, challenge: (&str, &str)) {
    let to = free_port();
    let (pbx, kamailio) = start_customer(folder, to, challenge);
    wait_until("the PBX is registered", || pbx.registration("proxy") == "Registered");
    let scenario = caller(folder, true);
    assert_all(&call(folder, kamailio.port(), "us", scenario), "called where it registered");
    let scenario = called(folder, false);
    let mut answering = Answering::by(folder, "called", &["-sf", scenario], to, CALLS);
    let scenario = caller(folder, true);
    assert_all(&call(folder, pbx.port(), "out", scenario), "the caller");
    assert_all(&answering.finish(), "the called side");
    wait_until("each call has its record", || pbx.records().len() == 2 * CALLS as usize);
    let records = pbx.stop();
    let answered = records.iter().filter(|record| record["disposition"] == "ANSWERED").count();
    assert_eq!(answered, 2 * CALLS as usize, "{challenge:?}");
}

#[test]
fn the_pbx_is_the_customer_of_a_kamailio_that_asks_with_qop() {
    is_customer(&Folder::new("carrier-md5"), ("1", "MD5"));
}

#[test]
fn the_pbx_is_the_customer_of_a_kamailio_that_asks_without_qop() {
    is_customer(&Folder::new("carrier-old"), ("0", "MD5"));
}

#[test]
fn the_pbx_is_the_customer_of_a_kamailio_that_asks_for_sha_256() {
    is_customer(&Folder::new("carrier-sha"), ("1", "SHA-256"));
}

fn assert_answered(pbx: Pbx) {
    wait_until("each call has its record", || pbx.records().len() == CALLS as usize);
    let records = pbx.stop();
    let answered = records.iter().filter(|record| record["disposition"] == "ANSWERED").count();
    assert_eq!((records.len(), answered), (CALLS as usize, CALLS as usize));
}
