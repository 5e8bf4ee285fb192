//! The rules one by one, with a clock that goes on by hand.

use super::*;
use crate::path::Transport;
use crate::wire::{Framing, Index};

const POLICY: Policy = Policy {
    expires_min: Duration::from_secs(60),
    expires_max: Duration::from_secs(7200),
    expires_default: Duration::from_secs(1800),
    contacts_max: 3,
    when_full: WhenFull::Refuse,
};

/// An address, and the time.
struct World {
    aor: Aor,
    now: i64,
    policy: Policy,
}

impl World {
    fn new() -> Self {
        Self { aor: Aor::default(), now: 1_000_000, policy: POLICY }
    }

    fn send(&mut self, call_id: &str, cseq: u32, lines: &str) -> Registered {
        let text = format!(
            "REGISTER sip:pbx SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
             From: <sip:1000@pbx>;tag=1\r\nTo: <sip:1000@pbx>\r\nCall-ID: {call_id}\r\n\
             CSeq: {cseq} REGISTER\r\n{lines}Content-Length: 0\r\n\r\n"
        );
        let mut index = Index::new();
        let message = index.parse(text.as_bytes(), Framing::Datagram).unwrap();
        let way = Path {
            transport: Transport::Udp,
            local: "192.0.2.9:5060".parse().unwrap(),
            remote: "192.0.2.1:5062".parse().unwrap(),
        };
        let now = Wall::from_micros(self.now * 1_000_000);
        register(&mut self.aor, &message, way, now, &self.policy, 3)
    }

    fn status(&mut self, call_id: &str, cseq: u32, lines: &str) -> u16 {
        self.send(call_id, cseq, lines).status
    }

    fn contacts(&self) -> Vec<&str> {
        self.aor.bindings().iter().map(|it| str::from_utf8(it.contact()).unwrap()).collect()
    }
}

fn lines(registered: &Registered) -> &str {
    str::from_utf8(&registered.lines).unwrap()
}

#[test]
fn a_binding_is_added_refreshed_listed_and_removed() {
    let mut world = World::new();
    let added = world.send("a", 1, "Contact: <sip:1000@192.0.2.1>\r\nUser-Agent: x\r\n");
    assert_eq!(lines(&added), "Contact: <sip:1000@192.0.2.1>;expires=1800\r\n");
    assert_eq!(&added.changes[..], [Change::Added { serial: 1 }]);
    world.now += 100;
    assert_eq!(lines(&world.send("q", 1, "")), "Contact: <sip:1000@192.0.2.1>;expires=1700\r\n");
    let refreshed = world.send("a", 2, "Contact: <sip:1000@192.0.2.1:5060>;expires=600;q=0.5\r\n");
    let other = "a contact with a port is another one than one without (19.1.4)";
    assert_eq!(&refreshed.changes[..], [Change::Added { serial: 2 }], "{other}");
    let refreshed = world.send("a", 3, "Contact: <sip:1000@192.0.2.1:5060>;expires=600;q=0.5\r\n");
    assert_eq!(&refreshed.changes[..], [Change::Refreshed { serial: 3 }]);
    let gone = world.send("a", 4, "Contact: <sip:1000@192.0.2.1>;expires=0\r\n");
    assert_eq!(gone.changes.len(), 1);
    let binding = &world.aor.bindings()[0];
    assert_eq!((binding.keeper(), binding.q(), binding.cseq()), (3, 500, 3));
}

#[test]
fn case_r02_expires_0_removes_in_either_place_and_nothing_is_negative() {
    for removal in ["Contact: <sip:a@h>;expires=0\r\n", "Contact: <sip:a@h>\r\nExpires: 0\r\n"] {
        let mut world = World::new();
        world.send("a", 1, "Contact: <sip:a@h>\r\nContact: <sip:b@h>\r\n");
        world.now += 100;
        let left = world.send("a", 2, removal);
        assert_eq!(lines(&left), "Contact: <sip:b@h>;expires=1700\r\n");
        assert_eq!(&left.changes[..], [Change::Removed { contact: b"sip:a@h".as_slice().into() }]);
        assert_eq!(world.status("a", 3, removal), 200, "what is gone may be removed");
        world.now += 1700;
        assert_eq!(lines(&world.send("a", 4, "")), "", "what is over is not listed");
    }
}

#[test]
fn case_r03_the_contact_s_expires_comes_before_the_header_s_before_the_default() {
    let mut world = World::new();
    let granted = |registered: &Registered| {
        let lines = lines(registered);
        lines.split("expires=").nth(1).unwrap().trim().parse::<u32>().unwrap()
    };
    for (cseq, (said, wanted)) in (1..).zip([
        ("Contact: <sip:a@h>;expires=120\r\n", 120),
        ("Expires: 3600\r\nContact: <sip:a@h>;expires=60\r\n", 60),
        ("Expires: 3600\r\nContact: <sip:a@h>\r\n", 3600),
        ("Contact: <sip:a@h>\r\n", 1800),
        ("Contact: <sip:a@h>;expires=99999\r\n", 7200),
        ("Contact: <sip:a@h>;expires=99999999999999999999\r\n", 7200),
        ("Contact: <sip:a@h>;expires=-1638193966\r\n", 3600),
    ]) {
        assert_eq!(granted(&world.send("a", cseq, said)), wanted, "{said}");
    }
}

#[test]
fn too_brief_is_refused_with_what_would_do_unless_it_is_long() {
    let mut world = World::new();
    let refused = world.send("a", 1, "Contact: <sip:a@h>;expires=59\r\n");
    assert_eq!((refused.status, lines(&refused)), (423, "Min-Expires: 60\r\n"));
    assert!(world.aor.is_empty() && refused.changes.is_empty());
    world.policy.expires_min = Duration::from_secs(7200);
    assert_eq!(world.status("a", 2, "Contact: <sip:a@h>;expires=3599\r\n"), 423);
    assert_eq!(world.status("a", 3, "Contact: <sip:a@h>;expires=3600\r\n"), 200);
}

#[test]
fn case_r05_a_new_binding_of_the_same_phone_takes_the_place_of_its_old_one() {
    let instance = ";+sip.instance=\"<urn:uuid:1>\"";
    let old = format!("Contact: <sip:1000@192.0.2.5:5060>{instance}\r\n");
    let new = format!("Contact: <sip:1000@192.0.2.5:6071>{instance}\r\n");
    let mut world = World::new();
    world.policy.contacts_max = 1;
    world.send("a", 1, &old);
    let replaced = world.send("b", 1, &new);
    assert_eq!(replaced.status, 200);
    assert_eq!(world.contacts(), ["sip:1000@192.0.2.5:6071"]);
    let gone = Change::Replaced { contact: b"sip:1000@192.0.2.5:5060".as_slice().into() };
    assert_eq!(&replaced.changes[..], [gone, Change::Added { serial: 2 }]);

    // The same Call-ID and no instance.
    let mut world = World::new();
    world.policy.contacts_max = 1;
    world.send("a", 1, "Contact: <sip:1000@192.0.2.5:5060>\r\n");
    assert_eq!(world.status("a", 2, "Contact: <sip:1000@192.0.2.5:6071>\r\n"), 200);
    assert_eq!(world.contacts(), ["sip:1000@192.0.2.5:6071"]);

    // Somebody else: refused, unless the old one does not answer.
    assert_eq!(world.status("c", 1, "Contact: <sip:1000@192.0.2.6>\r\n"), 403);
    let serial = world.aor.bindings()[0].serial();
    assert!(world.aor.mark(serial, Reach::Unreachable));
    assert_eq!(world.status("c", 2, "Contact: <sip:1000@192.0.2.6>\r\n"), 200);
    world.policy.when_full = WhenFull::ReplaceOldest;
    world.now += 1;
    assert_eq!(world.status("d", 1, "Contact: <sip:1000@192.0.2.7>\r\n"), 200);
    assert_eq!(world.contacts(), ["sip:1000@192.0.2.7"]);
}

#[test]
fn case_r05_no_device_and_no_address_is_there_twice() {
    let with = |contact: &str, instance: &str| {
        let instance = match instance {
            "" => String::new(),
            name => format!(";+sip.instance=\"<urn:uuid:{name}>\""),
        };
        format!("Contact: <sip:1000@{contact}>{instance}\r\n")
    };
    let mut world = World::new();
    world.send("a", 1, &with("192.0.2.2", "1"));
    world.send("b", 1, &with("192.0.2.1", ""));
    let moved = world.send("a", 2, &with("192.0.2.1", "1"));
    assert_eq!(world.contacts(), ["sip:1000@192.0.2.1"]);
    let gone = Change::Replaced { contact: b"sip:1000@192.0.2.2".as_slice().into() };
    assert!(moved.changes.contains(&gone), "{:?}", moved.changes);
    let mut world = World::new();
    world.send("b", 1, &with("192.0.2.1", ""));
    world.send("a", 1, &with("192.0.2.2", "1"));
    world.send("a", 2, &with("192.0.2.1", "1"));
    assert_eq!(world.contacts(), ["sip:1000@192.0.2.1"]);
}

#[test]
fn a_hundred_thousand_endpoints_fit_into_60_mib() {
    let mut world = World::new();
    let instance = ";+sip.instance=\"<urn:uuid:00000000-0000-1000-8000-805ec0c5f3a1>\";reg-id=1";
    let agent = "User-Agent: Yealink SIP-T46U 108.86.0.90";
    let contact = "sip:1000@192.168.100.100:5060;line=abcdefgh";
    world.send(
        "0_1234567890@192.168.100.100",
        1,
        &format!("Contact: <{contact}>{instance}\r\n{agent}\r\n"),
    );
    assert!(world.aor.footprint() * 100_000 < 60 << 20, "{}", world.aor.footprint());
}

#[test]
fn case_r06_odd_contacts_and_times_are_answered_by_the_rules() {
    let mut world = World::new();
    assert_eq!(world.status("a", 1, "Contact: <sip:a@h>\r\nExpires: abc\r\n"), 200);
    assert!(lines(&world.send("b", 1, "")).contains("expires=3600"));
    for (cseq, lines) in (2..).zip([
        "Contact: *\r\nExpires: 3600\r\n",
        "Contact: *\r\n",
        "Contact: *\r\nContact: <sip:b@h>\r\nExpires: 0\r\n",
        "Contact: <tel:+1>\r\n",
    ]) {
        assert_eq!(world.status("a", cseq, lines), 400, "{lines}");
        assert_eq!(world.contacts(), ["sip:a@h"], "{lines}");
    }
    assert_eq!(world.status("x", 1, "Contact: *\r\nExpires: 0\r\n"), 200);
    assert!(world.aor.is_empty());
}

#[test]
fn a_late_request_changes_nothing() {
    let mut world = World::new();
    world.send("a", 5, "Contact: <sip:a@h>\r\n");
    for (cseq, lines) in [
        (5, "Contact: <sip:a@h>;expires=0\r\n"),
        (4, "Contact: *\r\nExpires: 0\r\n"),
        (4, "Contact: <sip:b@h>\r\nContact: <sip:a@h>;expires=99\r\n"),
    ] {
        let late = world.send("a", cseq, lines);
        assert_eq!((late.status, late.changes.len()), (500, 0), "{lines}");
        assert_eq!(world.contacts(), ["sip:a@h"], "{lines}");
    }
    assert_eq!(world.status("b", 1, "Contact: <sip:a@h>;expires=0\r\n"), 200, "another Call-ID");
}

#[test]
fn several_contacts_take_effect_as_a_whole() {
    let mut world = World::new();
    let four = "Contact: <sip:a@h>, <sip:b@h>, <sip:c@h>, <sip:d@h>\r\n";
    let refused = world.send("a", 1, four);
    assert_eq!((refused.status, refused.changes.len()), (403, 0));
    assert!(world.aor.is_empty());
    assert_eq!(world.status("a", 2, "Contact: <sip:a@h>;q=0.1, <sip:b@h>, <sip:c@h>\r\n"), 200);
    let targets = world.aor.targets(Wall::from_micros(world.now * 1_000_000));
    assert_eq!(targets.last().unwrap().contact(), b"sip:a@h");
    let many = format!("Contact: {}<sip:z@h>\r\n", "<sip:y@h>,".repeat(CONTACTS_MAX));
    assert_eq!(world.status("a", 3, &many), 400);
    let long = format!("Contact: <sip:{}@h>\r\n", "x".repeat(TEXT_MAX));
    assert_eq!(world.status("a", 4, &long), 400);
}

#[test]
fn a_path_is_kept_and_told_to_who_understands_it() {
    let mut world = World::new();
    let path = "Path: <sip:p1;lr>,\r\n <sip:p2;lr>\r\n";
    let quiet = world.send("a", 1, &format!("Contact: <sip:a@h>\r\n{path}"));
    assert!(!lines(&quiet).contains("Path"));
    assert_eq!(world.aor.bindings()[0].path_header(), b"<sip:p1;lr>, <sip:p2;lr>");
    let told = world.send("a", 2, &format!("Contact: <sip:a@h>\r\nSupported: PATH\r\n{path}"));
    assert!(lines(&told).ends_with("Path: <sip:p1;lr>\r\nPath: <sip:p2;lr>\r\n"));
}

#[test]
fn bindings_expire_at_their_time() {
    let mut world = World::new();
    world.send("a", 1, "Contact: <sip:a@h>;expires=60, <sip:b@h>;expires=120\r\n");
    let at = |seconds: i64| Wall::from_micros(seconds * 1_000_000);
    assert_eq!(world.aor.next_expiry(), Some(at(world.now + 60)));
    assert_eq!(world.aor.expire(at(world.now + 59)), []);
    assert_eq!(world.aor.expire(at(world.now + 60)).len(), 1);
    assert_eq!(world.aor.next_expiry(), Some(at(world.now + 120)));
    assert!(world.aor.is_kept_by(3) && !world.aor.is_kept_by(2));
}

#[test]
fn requests_go_to_the_contact_or_back_where_they_came_from() {
    let mut world = World::new();
    world.send("a", 1, "Contact: <sip:a@10.0.0.1:5070>, <sip:b@phone.example>\r\n");
    let source = "192.0.2.1:5062".parse().unwrap();
    let [first, second] = world.aor.bindings() else { panic!("two") };
    assert_eq!(first.address(false), "10.0.0.1:5070".parse().unwrap());
    assert_eq!(first.address(true), source);
    assert_eq!(second.address(false), source, "a name that nobody looks up");
}

#[test]
fn requests_go_to_the_first_proxy_of_the_path() {
    for (path, expected) in [
        ("<sip:10.0.0.9:5080;lr>, <sip:10.0.0.8;lr>", "10.0.0.9:5080"),
        ("\"a, b\" <sip:10.0.0.9;lr>", "10.0.0.9:5060"),
        ("<sip:edge.example;lr>, <sip:10.0.0.8;lr>", "192.0.2.1:5062"),
    ] {
        let mut world = World::new();
        let lines = format!("Contact: <sip:a@10.0.0.1:5070>\r\nPath: {path}\r\n");
        world.send("a", 1, &lines);
        let address = world.aor.bindings()[0].address(false);
        assert_eq!(address, expected.parse().unwrap(), "{path}");
    }
}
