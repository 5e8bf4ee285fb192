//! Trunks and targets with names: the real program asks a DNS server of the test.

#![allow(clippy::unwrap_used)] // a test may fail loudly

mod rig;

use rig::{Folder, Phone, Program, eventually};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const NXDOMAIN: u8 = 3;

/// A record of the test's zone.
#[derive(Clone)]
enum Record {
    A(Ipv4Addr),
    Srv { priority: u16, port: u16, target: &'static str },
}

impl Record {
    fn kind(&self) -> u16 {
        match self {
            Self::A(_) => 1,
            Self::Srv { .. } => 33,
        }
    }

    fn data(&self) -> Vec<u8> {
        match self {
            Self::A(address) => address.octets().to_vec(),
            Self::Srv { priority, port, target } => {
                let mut data = [priority.to_be_bytes(), [0, 0], port.to_be_bytes()].concat();
                for label in target.split('.') {
                    data.push(label.len() as u8);
                    data.extend_from_slice(label.as_bytes());
                }
                data.push(0);
                data
            }
        }
    }
}

type Zone = Vec<(&'static str, Record)>;

/// A tiny DNS server: one question a datagram, every record with a TTL of 0.
struct Dns {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    is_mute: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl Dns {
    fn start(zone: Zone) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let dns = Self {
            address: socket.local_addr().unwrap(),
            zone: Arc::new(Mutex::new(zone)),
            is_mute: Arc::default(),
            asked: Arc::default(),
        };
        let (zone, is_mute) = (Arc::clone(&dns.zone), Arc::clone(&dns.is_mute));
        let asked = Arc::clone(&dns.asked);
        // The thread ends with the test program.
        thread::spawn(move || {
            let mut buffer = [0; 1_500];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                asked.fetch_add(1, Ordering::Relaxed);
                if !is_mute.load(Ordering::Relaxed) {
                    let answer = answer(&buffer[..length], &zone.lock().unwrap());
                    socket.send_to(&answer, from).unwrap();
                }
            }
        });
        dns
    }

    fn mute(&self, is_mute: bool) {
        self.is_mute.store(is_mute, Ordering::Relaxed);
    }
}

fn answer(question: &[u8], zone: &Zone) -> Vec<u8> {
    let (mut at, mut name) = (12, String::new());
    while question[at] > 0 {
        let length = usize::from(question[at]);
        name.push_str(&String::from_utf8_lossy(&question[at + 1..=at + length]).to_lowercase());
        name.push('.');
        at += length + 1;
    }
    let end = at + 5;
    let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
    let name = name.trim_end_matches('.');
    let of_name: Vec<_> = zone.iter().filter(|(owner, _)| *owner == name).collect();
    let found: Vec<_> = of_name.iter().filter(|(_, record)| record.kind() == kind).collect();
    let code = if of_name.is_empty() { NXDOMAIN } else { 0 };
    let mut answer = question[..2].to_vec();
    answer.extend_from_slice(&[0x85, 0x80 | code, 0, 1, 0, found.len() as u8, 0, 0, 0, 0]);
    answer.extend_from_slice(&question[12..end]);
    for (_, record) in found {
        let data = record.data();
        answer.extend_from_slice(&[0xc0, 12]);
        answer.extend_from_slice(&kind.to_be_bytes());
        answer.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, data.len() as u8]);
        answer.extend_from_slice(&data);
    }
    answer
}

fn callee_at(own: &str) -> Phone {
    Phone::at(own, "127.0.0.1:9".parse().unwrap())
}

fn start(dns: &Dns, more: &str, target: &str) -> (Folder, Program) {
    let folder = Folder::new();
    let server = dns.address;
    folder.configure(&format!("dns.servers = [\"{server}\"]\nlimits.sojourn = \"20s\"\n{more}"));
    folder.write(
        "dialplan.toml",
        &format!("[[context.in.exten]]\nmatch = \"_X.\"\nsteps = [\"Dial({target},60)\"]\n"),
    );
    let program = Program::start(&folder, &[]);
    (folder, program)
}

/// The caller's call is answered by that callee; the INVITE that it got.
fn call_through(program: &Program, callee: &mut Phone) -> String {
    let mut caller = Phone::new(program.address);
    callee.call_back(program.address);
    caller.dial("123");
    let invite = callee.receive();
    assert!(invite.starts_with("INVITE "), "{invite}");
    callee.pick_up(&invite);
    let answered = caller.answered("123");
    assert!(answered.starts_with("SIP/2.0 200 "), "{answered}");
    assert!(caller.bye("123").starts_with("SIP/2.0 200 "));
    let bye = callee.receive();
    assert!(bye.starts_with("BYE "), "{bye}");
    callee.accept(&bye);
    invite
}

#[test]
fn a_call_fails_over_from_a_dead_address_to_the_next() {
    let mut callee = callee_at("127.0.0.42");
    let port = callee.address().port();
    // Nobody listens at the first one.
    let addresses = [Ipv4Addr::new(127, 0, 0, 41), Ipv4Addr::new(127, 0, 0, 42)];
    let zone = addresses.map(|address| ("pair.example.net", Record::A(address)));
    let dns = Dns::start(zone.to_vec());
    let trunk = format!("trunks.carrier.peer = \"pair.example.net:{port}\"\n");
    let (_folder, program) = start(&dns, &trunk, "SIP/carrier/${EXTEN}");
    let invite = call_through(&program, &mut callee);
    assert!(invite.starts_with(&format!("INVITE sip:123@pair.example.net:{port} ")), "{invite}");
    let asked = dns.asked.load(Ordering::Relaxed);
    call_through(&program, &mut callee);
    assert_eq!(dns.asked.load(Ordering::Relaxed), asked, "the second call has it from the cache");
}

#[test]
fn srv_records_say_port_and_order_and_stale_ones_are_better_than_none() {
    let mut callee = callee_at("127.0.0.1");
    let (live, dead) = (callee.address().port(), callee_at("127.0.0.1").address().port());
    let srv = |priority, port, target| {
        ("_sip._udp.carrier.example.net", Record::Srv { priority, port, target })
    };
    let dns = Dns::start(vec![
        srv(20, live, "live.example.net"),
        srv(10, dead, "dead.example.net"),
        ("live.example.net", Record::A(Ipv4Addr::LOCALHOST)),
        ("dead.example.net", Record::A(Ipv4Addr::LOCALHOST)),
    ]);
    let trunk = "trunks.carrier.peer = \"carrier.example.net\"\n";
    let (_folder, program) = start(&dns, trunk, "SIP/carrier/${EXTEN}");
    let invite = call_through(&program, &mut callee);
    assert!(invite.starts_with("INVITE sip:123@carrier.example.net SIP/2.0"), "{invite}");
    // Records are kept for 5 s at least.
    dns.mute(true);
    thread::sleep(Duration::from_secs(6));
    let asked = dns.asked.load(Ordering::Relaxed);
    call_through(&program, &mut callee);
    assert!(dns.asked.load(Ordering::Relaxed) > asked, "they have been asked for again");
}

#[test]
fn a_target_with_a_name_is_called_and_unknown_or_silent_names_are_told() {
    let mut callee = callee_at("127.0.0.1");
    let port = callee.address().port();
    let dns = Dns::start(vec![("host.example.net", Record::A(Ipv4Addr::LOCALHOST))]);
    let target = format!("sip:bob@host.example.net:{port}");
    let (_folder, program) = start(&dns, "", &target);
    let invite = call_through(&program, &mut callee);
    assert!(invite.starts_with(&format!("INVITE {target} ")), "{invite}");

    let (folder, program) = start(&dns, "", "sip:bob@nobody.example.net");
    let response = Phone::new(program.address).call("123");
    assert!(response.starts_with("SIP/2.0 404 "), "{response}");
    eventually("the log says so", || {
        let wanted = "The DNS has no address for 'nobody.example.net' that can be called";
        folder.read("log/messages").contains(wanted)
    });

    dns.mute(true);
    let (folder, program) = start(&dns, "", "sip:bob@host.example.net");
    let began = Instant::now();
    let response = Phone::new(program.address).call("123");
    assert!(response.starts_with("SIP/2.0 502 "), "{response}");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    eventually("the log says so", || {
        let wanted = "No DNS server could tell where 'host.example.net' is";
        folder.read("log/messages").contains(wanted)
    });
}

#[test]
fn registrars_and_peers_with_names_are_found() {
    let (mut registrar, mut peer) = (callee_at("127.0.0.1"), callee_at("127.0.0.43"));
    let dns = Dns::start(vec![
        ("registrar.example.net", Record::A(Ipv4Addr::LOCALHOST)),
        ("peer.example.net", Record::A(Ipv4Addr::new(127, 0, 0, 43))),
    ]);
    let (at, peer_at) = (registrar.address().port(), peer.address().port());
    let trunk = format!(
        "[trunks.carrier]\npeer = \"peer.example.net:{peer_at}\"\nqualify = \"5s\"\n\
         user = \"us\"\npassword = \"p\"\nregister = \"registrar.example.net:{at}\"\n"
    );
    let (_folder, _program) = start(&dns, &trunk, "SIP/carrier");
    let request = registrar.receive();
    let line = format!("REGISTER sip:registrar.example.net:{at} SIP/2.0\r\n");
    assert!(request.starts_with(&line), "{request}");
    assert!(request.contains("<sip:us@registrar.example.net>"), "{request}");
    let request = peer.receive();
    let line = format!("OPTIONS sip:peer.example.net:{peer_at} SIP/2.0\r\n");
    assert!(request.starts_with(&line), "{request}");
}
