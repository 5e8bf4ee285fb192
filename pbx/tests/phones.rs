//! Phones at the running program: they register, are called, and are known again after a kill.

mod rig;

use pbx_control::{Command as Ask, Reply};
use rig::{Folder, Phone, Program, eventually};

const PHONES: &str = r#"
auth.realm = "pbx.test"
auth.algorithms = ["MD5"]
limits.sojourn = "20s"
logging.verbose = 3
[endpoints.desk]
range = "1000-1009"
password = "secret{n}"
context = "in"
[endpoints.hashed]
ha1 = "HASH"
context = "in"
[groups.sales]
members = ["1000", "1001"]
"#;

const PLAN: &str = r#"
[[context.in.exten]]
match = "answer"
steps = ["Answer()", "Wait(3600)"]
[[context.in.exten]]
match = "_1XXX"
steps = ["Dial(SIP/${EXTEN},20)", "Hangup()"]
[[context.in.exten]]
match = "sales"
steps = ["Dial(SIP/sales,20)", "Hangup()"]
"#;

fn folder(more: &str) -> Folder {
    let folder = Folder::new();
    folder.write("dialplan.toml", PLAN);
    // echo -n hashed:pbx.test:wonder | md5sum
    let phones = PHONES.replace("HASH", "df280f87f5cba6ac151652ab78fc1d48");
    folder.configure(&format!("{more}{phones}"));
    folder
}

fn contacts(program: &Program) -> Vec<String> {
    let mut uris = Vec::new();
    for reply in program.ask(Ask::RegistrarShow { aor: None }) {
        if let Reply::Contacts { contacts } = reply {
            uris.extend(contacts.into_iter().map(|contact| contact.uri));
        }
    }
    uris.sort();
    uris
}

#[test]
fn a_killed_program_knows_its_phones_again() {
    let folder = folder("server.shards = 2\n");
    let mut phones = Vec::new();
    for _ in 0..3 {
        let program = Program::start(&folder, &[]);
        for number in 1000 + phones.len()..1002 + phones.len() {
            let mut phone = Phone::new(program.address);
            let done = phone.register(&number.to_string(), &format!("secret{number}"));
            assert!(done.starts_with("SIP/2.0 200 "), "{done}");
            phones.push((number, phone));
        }
        program.kill();
    }
    let program = Program::start(&folder, &[]);
    let mut wanted: Vec<String> =
        phones.iter().map(|(number, phone)| format!("sip:{number}@{}", phone.address())).collect();
    wanted.sort();
    assert_eq!(contacts(&program), wanted, "after three kills");
    // And it is not only listed, but called.
    let mut caller = Phone::new(program.address);
    caller.dial("1003");
    let (_, callee) = &mut phones[3];
    callee.call_back(program.address);
    let invite = callee.receive();
    callee.pick_up(&invite);
    assert!(caller.answered("1003").starts_with("SIP/2.0 200 "));
    // An operator forgets one; a kill does not bring it back.
    let gone = program.ask(Ask::Unregister { aor: "1000".into(), contact: None });
    assert!(matches!(gone[0], Reply::Text { .. }), "{gone:?}");
    program.kill();
    let program = Program::start(&folder, &[]);
    assert_eq!(contacts(&program), wanted[1..]);
}

#[test]
fn the_database_survives_a_kill() {
    let folder = folder("");
    let program = Program::start(&folder, &[]);
    let put = |program: &Program, key: &str, value: &str| {
        let (family, key, value) = ("cf".to_owned(), key.to_owned(), value.to_owned());
        program.ask(Ask::DatabasePut { family, key, value })
    };
    put(&program, "1000", "2000");
    put(&program, "1001", "x y");
    put(&program, "1000", "2001");
    program.kill();
    let program = Program::start(&folder, &[]);
    let shown = program.ask(Ask::DatabaseShow { family: Some("cf".into()) });
    let Reply::Entries { entries } = &shown[0] else { panic!("{shown:?}") };
    let entries: Vec<_> = entries.iter().map(|it| (it.key.as_str(), it.value.as_str())).collect();
    assert_eq!(entries, [("1000", "2001"), ("1001", "x y")]);
    let long = "x".repeat(5_000);
    assert!(matches!(&put(&program, "1002", &long)[0], Reply::Refused { .. }));
}

#[test]
fn failures_are_logged_for_fail2ban_and_a_phone_s_first_401_is_not() {
    let folder = folder("");
    let program = Program::start(&folder, &[]);
    let mut phone = Phone::new(program.address);
    assert!(phone.register("1000", "secret1000").starts_with("SIP/2.0 200 "));
    assert!(Phone::new(program.address).register("hashed", "wonder").starts_with("SIP/2.0 200 "));
    let mut guess = Phone::new(program.address);
    assert!(guess.register("1000", "guess").starts_with("SIP/2.0 401 "));
    let from = guess.address();
    assert!(guess.register("nobody", "guess").starts_with("SIP/2.0 401 "));
    let wanted = [
        format!("Registration from '<sip:1000>' failed for '{from}' - Wrong password"),
        format!("Registration from '<sip:anonymous>' failed for '{from}' - No matching peer found"),
    ];
    eventually("both failures are in the log", || {
        let log = folder.read("log/messages");
        wanted.iter().all(|line| log.contains(line))
    });
    assert_eq!(folder.read("log/messages").matches(" failed for ").count(), 2);
    let security = folder.read("log/security.log");
    assert_eq!(security.matches("SecurityEvent=\"InvalidPassword\"").count(), 1, "{security}");
    assert!(!folder.read("log/messages").contains("secret1000"));
}

#[test]
fn a_group_rings_and_a_reload_adds_an_endpoint() {
    let folder = folder("");
    let program = Program::start(&folder, &[]);
    let mut members = [Phone::new(program.address), Phone::new(program.address)];
    for (number, phone) in (1000..).zip(&mut members) {
        phone.register(&number.to_string(), &format!("secret{number}"));
    }
    let mut caller = Phone::new(program.address);
    caller.dial("sales");
    for phone in &mut members {
        assert!(phone.receive().starts_with("INVITE "));
    }
    let late = Phone::new(program.address).register("2000", "late");
    assert!(late.starts_with("SIP/2.0 401 "), "{late}");
    let phones = PHONES.replace("HASH", &"0".repeat(32));
    folder.configure(&format!("{phones}[endpoints.2000]\npassword = \"late\"\ncontext = \"in\"\n"));
    let changed = program.ask(Ask::DialplanReload);
    let Reply::Text { lines } = &changed[0] else { panic!("{changed:?}") };
    assert!(lines.contains(&"endpoint '2000' added".to_owned()), "{lines:?}");
    assert!(lines.contains(&"endpoint 'hashed' changed".to_owned()), "{lines:?}");
    let late = Phone::new(program.address).register("2000", "late");
    assert!(late.starts_with("SIP/2.0 200 "), "{late}");
}
