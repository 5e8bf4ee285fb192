//! TCP through a whole shard: the way back, the switch of long requests, lost connections.

#![allow(clippy::unwrap_used)] // a test may fail loudly

mod common;

use std::time::Duration;

use common::phone::{Device, account, answer, phones, status};
use common::{SDP, World, header};
use pbx_core::{Directory, DirectorySpec, Hop, Trunk};
use sip::path::Transport;

const PLAN: &str = r#"
[[context.default.exten]]
match = "_1XXX"
steps = ["Dial(SIP/${EXTEN},60)", "Hangup()"]
[[context.default.exten]]
match = "uri"
steps = ["Dial(sip:a@192.0.2.50:5070;transport=tcp,60)", "Hangup()"]
[[context.default.exten]]
match = "out"
steps = ["Dial(SIP/peer/200,60)", "Hangup()"]
"#;

const A: &str = "192.0.2.10:5060";
const B: &str = "192.0.2.11:40000";

fn world() -> World {
    World::of(PLAN, phones(vec![account("1000"), account("1001")]), |_| {})
}

/// The INVITEs among what was sent: transport, to where, and the text.
fn invites(sent: &[(Transport, String, String)]) -> Vec<(Transport, String, String)> {
    sent.iter().filter(|(_, _, text)| text.starts_with("INVITE ")).cloned().collect()
}

#[test]
fn a_phone_is_called_over_the_connection_that_it_registered_on() {
    let mut world = world();
    let mut callee = Device::new("1001", B);
    world.transport = Transport::Tcp;
    // Its Contact names where it would listen; its connection comes from elsewhere.
    callee.register(&mut world, "Contact: <sip:1001@10.1.1.1:5060;transport=tcp>\n");
    world.transport = Transport::Udp;
    Device::new("1000", A).call(&mut world, "1001");
    let called = invites(&world.last_sent);
    let [(Transport::Tcp, to, text)] = &called[..] else { panic!("{:#?}", world.last_sent) };
    assert_eq!(to, B);
    assert!(header(text, "Via").starts_with("SIP/2.0/TCP 127.0.0.1:5060;"), "{text}");
    assert!(header(text, "Contact").contains(";transport=tcp"), "{text}");
    world.transport = Transport::Tcp;
    let contact = "<sip:1001@10.1.1.1:5060;transport=tcp>";
    let answered = answer(text, "200 OK", "d", SDP).replace("<sip:callee@127.0.0.1:5999>", contact);
    world.receive(B, &answered);
    let ack = world.last_sent.iter().find(|(_, _, text)| text.starts_with("ACK "));
    let (transport, to, _) = ack.expect("an ACK");
    assert_eq!((*transport, to.as_str()), (Transport::Tcp, B), "on the same connection");
}

/// RFC 3261 18.2.2. A phone opens its connection from a port of its own, names in Via the one where
/// it would listen, and need not ask for rport.
#[test]
fn a_challenge_goes_back_over_the_connection_whatever_via_says() {
    let mut world = world();
    world.transport = Transport::Tcp;
    let request = Device::new("1001", "192.0.2.11:5060").request("REGISTER", "sip:127.0.0.1", "");
    let request = request.replace("SIP/2.0/UDP", "SIP/2.0/TCP").replace(";rport", "");
    world.receive(B, &request);
    let [(Transport::Tcp, to, text)] = &world.last_sent[..] else {
        panic!("{:#?}", world.last_sent)
    };
    assert!(text.starts_with("SIP/2.0 401 "), "{text}");
    assert_eq!(to, B);
}

#[test]
fn nothing_is_repeated_over_a_stream() {
    let mut world = world();
    let mut caller = Device::new("1000", A);
    caller.call(&mut world, "uri");
    let called = invites(&world.last_sent);
    assert_eq!((called[0].0, called[0].1.as_str()), (Transport::Tcp, "192.0.2.50:5070"));
    let sent = world.wait(Duration::from_secs(10));
    assert!(!sent.iter().any(|(_, text)| text.starts_with("INVITE ")), "{sent:#?}");
}

/// A description that does not fit into a datagram.
fn long() -> String {
    let codecs: String = (96..127).map(|pt| format!("a=rtpmap:{pt} L16/{pt}00/2\n")).collect();
    format!("{SDP}{codecs}a=x:{}\n", "y".repeat(300))
}

fn trunk_world(transport: Transport) -> World {
    let mut trunk = World::trunk(|_| {});
    trunk.peers = vec![Hop::Address("192.0.2.60:5060".parse().unwrap(), transport)];
    let trunks: Vec<Trunk> = vec![trunk];
    let spec = DirectorySpec { trunks, phones: vec![account("1000")], ..DirectorySpec::default() };
    World::of(PLAN, Directory::new(spec), |_| {})
}

#[test]
fn case_rr04_a_long_request_goes_over_tcp_and_else_in_a_datagram() {
    let mut world = trunk_world(Transport::Udp);
    let mut caller = Device::new("1000", A);
    caller.body = long();
    caller.call(&mut world, "out");
    let called = invites(&world.last_sent);
    let [(Transport::Tcp, to, text)] = &called[..] else { panic!("{called:#?}") };
    assert_eq!(to, "192.0.2.60:5060");
    // Nobody takes the connection.
    let text = text.clone();
    world.send_failed(&text);
    let called = invites(&world.last_sent);
    let [(Transport::Udp, to, again)] = &called[..] else { panic!("{called:#?}") };
    assert_eq!(to, "192.0.2.60:5060");
    assert!(header(again, "Via").starts_with("SIP/2.0/UDP "), "{again}");
    assert_ne!(header(again, "Call-ID"), header(&text, "Call-ID"), "a transaction of its own");
}

#[test]
fn case_rr04_a_short_request_stays_in_a_datagram_and_the_switch_can_be_off() {
    let mut world = trunk_world(Transport::Udp);
    Device::new("1000", A).call(&mut world, "out");
    assert_eq!(invites(&world.last_sent)[0].0, Transport::Udp);
    let mut world = trunk_world(Transport::Udp);
    world.shard.set_switches(false);
    let mut caller = Device::new("1000", A);
    caller.body = long();
    caller.call(&mut world, "out");
    assert_eq!(invites(&world.last_sent)[0].0, Transport::Udp);
}

#[test]
fn a_trunk_over_tcp_that_takes_no_connection_is_out_of_order() {
    let mut world = trunk_world(Transport::Tcp);
    Device::new("1000", A).call(&mut world, "out");
    let (transport, _, text) = invites(&world.last_sent)[0].clone();
    assert_eq!(transport, Transport::Tcp);
    assert!(text.starts_with("INVITE sip:200@192.0.2.60:5060;transport=tcp "), "{text}");
    let sent = world.send_failed(&text);
    assert_eq!(status(&sent), "502", "{sent:#?}");
}
