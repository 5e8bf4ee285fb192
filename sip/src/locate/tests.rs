//! The rules of RFC 3263 §4 and RFC 2782, one by one, against a table of records.

use super::*;

const ALL: Ways = Ways { udp: true, tcp: true, v4: true, v6: false };

fn naptr(order: u16, preference: u16, service: &str, replacement: &str) -> Naptr {
    let flags = "s".into();
    Naptr { order, preference, flags, service: service.into(), replacement: replacement.into() }
}

fn srv(priority: u16, weight: u16, port: u16, target: &str) -> Srv {
    Srv { priority, weight, port, target: target.into() }
}

fn addresses(list: &[&str]) -> Answer {
    Answer::Addresses(list.iter().map(|text| text.parse().unwrap()).collect())
}

/// The DNS of a test: what it does not have is not there.
type Records<'a> = &'a [(&'a str, Kind, Answer)];

/// Finds `host[:port][;transport]`; the questions that were asked, and what came of it.
fn find_by(ways: Ways, text: &str, records: Records<'_>, rng: &mut Rng) -> (Vec<String>, Located) {
    let (rest, transport) = match text.split_once(';') {
        Some((rest, "tcp")) => (rest, Some(Transport::Tcp)),
        Some((rest, "udp")) => (rest, Some(Transport::Udp)),
        Some((rest, _)) => (rest, Some(Transport::Tls)),
        None => (text, None),
    };
    let (host, port) = match rest.split_once('/') {
        Some((host, port)) => (host, Some(port.parse().unwrap())),
        None => (rest, None),
    };
    let mut machine = Locate::new(Wanted { host: host.into(), port, transport }, ways);
    let mut asked = Vec::new();
    let mut step = machine.start();
    loop {
        let question = match step {
            Step::Done(located) => return (asked, located),
            Step::Ask(question) => question,
        };
        asked.push(format!("{:?} {}", question.kind, question.name).to_lowercase());
        let is_it = |it: &&(&str, Kind, Answer)| *it.0 == *question.name && it.1 == question.kind;
        let answer = records.iter().find(is_it).map(|it| it.2.clone());
        step = machine.answer(answer.unwrap_or(Answer::Nothing), rng);
    }
}

fn find(text: &str, records: Records<'_>) -> (Vec<String>, String) {
    let (asked, located) = find_by(ALL, text, records, &mut Rng::new([1; 32]));
    (asked, shown(&located))
}

fn shown(located: &Located) -> String {
    let Located::Found(places) = located else { return format!("{located:?}") };
    let place = |(at, by): &(SocketAddr, Transport)| format!("{} {at}", by.as_via());
    places.iter().map(place).collect::<Vec<_>>().join(", ")
}

#[test]
fn an_address_needs_no_question() {
    assert_eq!(find("192.0.2.1", &[]), (vec![], "UDP 192.0.2.1:5060".into()));
    assert_eq!(find("192.0.2.1/5070;tcp", &[]), (vec![], "TCP 192.0.2.1:5070".into()));
    assert_eq!(find("2001:db8::1", &[]), (vec![], "Unknown".into()), "we have no IPv6");
}

#[test]
fn with_a_port_only_addresses_are_asked_for() {
    let records = [("a.example", Kind::A, addresses(&["192.0.2.1", "192.0.2.2"]))];
    let (asked, found) = find("a.example/5080", &records);
    assert_eq!(asked, ["a a.example"]);
    assert_eq!(found, "UDP 192.0.2.1:5080, UDP 192.0.2.2:5080");
    let (_, found) = find("a.example/5080;tcp", &records);
    assert_eq!(found, "TCP 192.0.2.1:5080, TCP 192.0.2.2:5080");
}

#[test]
fn with_a_transport_there_is_no_naptr() {
    let records = [
        ("_sip._tcp.a.example", Kind::Srv, Answer::Srv(vec![srv(1, 0, 5062, "b.example.")])),
        ("b.example", Kind::A, addresses(&["192.0.2.7"])),
    ];
    let (asked, found) = find("a.example;tcp", &records);
    assert_eq!(asked, ["srv _sip._tcp.a.example", "a b.example"]);
    assert_eq!(found, "TCP 192.0.2.7:5062");
}

#[test]
fn the_domain_chooses_the_transport_by_naptr() {
    // The records of RFC 3263 §4.1.
    let records = [
        (
            "example.com",
            Kind::Naptr,
            Answer::Naptr(vec![
                naptr(100, 50, "SIP+D2U", "_sip._udp.example.com."),
                naptr(50, 50, "SIPS+D2T", "_sips._tcp.example.com."),
                naptr(90, 50, "sip+d2t", "_sip._tcp.example.com."),
            ]),
        ),
        (
            "_sip._tcp.example.com",
            Kind::Srv,
            Answer::Srv(vec![
                srv(1, 1, 5060, "server2.example.com."),
                srv(0, 1, 5060, "server1.example.com."),
            ]),
        ),
        ("server1.example.com", Kind::A, addresses(&["192.0.2.1"])),
        ("server2.example.com", Kind::A, addresses(&["192.0.2.2"])),
    ];
    let (asked, found) = find("example.com", &records);
    assert_eq!(asked[..2], ["naptr example.com", "srv _sip._tcp.example.com"]);
    assert_eq!(found, "TCP 192.0.2.1:5060, TCP 192.0.2.2:5060");
    let ways = Ways { tcp: false, ..ALL };
    let (asked, _) = find_by(ways, "example.com", &records, &mut Rng::new([1; 32]));
    assert_eq!(asked[1], "srv _sip._udp.example.com", "the first of those that we have");
}

#[test]
fn without_naptr_each_transport_is_asked_for_then_the_host() {
    let host = ("a.example", Kind::A, addresses(&["192.0.2.1"]));
    let (asked, found) = find("a.example", std::slice::from_ref(&host));
    let all =
        ["naptr a.example", "srv _sip._udp.a.example", "srv _sip._tcp.a.example", "a a.example"];
    assert_eq!(asked, all);
    assert_eq!(found, "UDP 192.0.2.1:5060");
    let tcp = ("_sip._tcp.a.example", Kind::Srv, Answer::Srv(vec![srv(0, 0, 5061, "a.example")]));
    assert_eq!(find("a.example", &[host, tcp]).1, "TCP 192.0.2.1:5061");
}

#[test]
fn a_dot_says_that_there_is_no_service() {
    let records = [
        ("_sip._udp.a.example", Kind::Srv, Answer::Srv(vec![srv(0, 0, 0, ".")])),
        ("a.example", Kind::A, addresses(&["192.0.2.1"])),
    ];
    assert_eq!(find("a.example;udp", &records).1, "Unknown");
}

#[test]
fn what_is_no_name_is_not_asked_for() {
    let label = "a".repeat(64);
    let long = vec!["abcdefghi"; 25].join(".");
    for wrong in ["", ".", "a..b", &format!("{label}.example"), &long] {
        assert_eq!(find(wrong, &[]), (vec![], "Unknown".into()), "{wrong}");
    }
    assert_eq!(find("a.example./5060", &[]).0, ["a a.example"], "a dot at the end is no part");
}

#[test]
fn unknown_and_silent_are_told_apart() {
    assert_eq!(find("a.example", &[]).1, "Unknown");
    assert_eq!(find("a.example/5060;tls", &[]).1, "Unknown");
    let records = [("a.example", Kind::A, Answer::Silence)];
    assert_eq!(find("a.example", &records).1, "Silent");
    let records = [
        ("a.example", Kind::Naptr, Answer::Silence),
        ("a.example", Kind::A, addresses(&["192.0.2.1"])),
    ];
    assert_eq!(find("a.example", &records).1, "UDP 192.0.2.1:5060", "it is found all the same");
}

#[test]
fn both_families_are_asked_for_when_we_have_both() {
    let ways = Ways { v6: true, ..ALL };
    let records = [
        ("a.example", Kind::A, addresses(&["192.0.2.1"])),
        ("a.example", Kind::Aaaa, addresses(&["2001:db8::1"])),
    ];
    let (asked, located) = find_by(ways, "a.example/5060", &records, &mut Rng::new([1; 32]));
    assert_eq!(asked, ["a a.example", "aaaa a.example"]);
    assert_eq!(shown(&located), "UDP 192.0.2.1:5060, UDP [2001:db8::1]:5060");
    let ways = Ways { v4: false, ..ways };
    let (asked, _) = find_by(ways, "a.example/5060", &records, &mut Rng::new([1; 32]));
    assert_eq!(asked, ["aaaa a.example"]);
}

#[test]
fn weights_say_how_often_a_target_is_first() {
    let mut rng = Rng::new([3; 32]);
    let mut firsts = [0_u32; 3];
    for _ in 0..10_000 {
        let ordered =
            in_order(vec![srv(1, 30, 1, "a"), srv(1, 10, 2, "b"), srv(1, 0, 3, "c")], &mut rng);
        firsts[usize::from(ordered[0].port) - 1] += 1;
        assert_eq!(ordered.len(), 3);
    }
    // 30 of 41, 10 of 41 and 1 of 41.
    for (seen, part) in firsts.into_iter().zip([7_317, 2_439, 244]) {
        assert!(seen.abs_diff(part) < 200, "{firsts:?}");
    }
    let ordered = in_order(vec![srv(2, 9, 1, "late"), srv(1, 0, 2, "soon")], &mut rng);
    assert_eq!(&*ordered[0].target, "soon", "priority goes before weight");
}

#[test]
fn what_strangers_write_is_bounded() {
    let many: Vec<Srv> = (0..200).map(|at| srv(at, 0, 5060, &format!("h{at}.example"))).collect();
    let ips: Vec<IpAddr> = (0..200).map(|at| IpAddr::from([192, 0, 2, at])).collect();
    let mut machine = Locate::new(
        Wanted { host: "a.example".into(), port: None, transport: Some(Transport::Udp) },
        ALL,
    );
    let mut rng = Rng::new([1; 32]);
    let (mut step, mut asked) = (machine.start(), 0);
    let places = loop {
        let question = match step {
            Step::Done(Located::Found(places)) => break places,
            Step::Done(other) => panic!("{other:?}"),
            Step::Ask(question) => question,
        };
        asked += 1;
        step = match question.kind {
            Kind::Srv => machine.answer(Answer::Srv(many.clone()), &mut rng),
            Kind::A => machine.answer(Answer::Addresses(ips.clone()), &mut rng),
            Kind::Naptr | Kind::Aaaa => machine.answer(Answer::Nothing, &mut rng),
        };
    };
    assert_eq!(places.len(), RECORDS_MAX, "the targets have the same addresses");
    assert!(asked <= 1 + RECORDS_MAX, "{asked}");
}
