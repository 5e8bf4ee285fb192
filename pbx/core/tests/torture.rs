//! The RFC 4475 messages through a whole shard: what the parser does with them is judged in `sip`;
//! here is what a caller would be told. Rows and verdicts are in `tests/conformance`.
//!
//! The REGISTERs are challenged first; that those with sound contacts are accepted then is tested
//! below the table.

#![allow(clippy::disallowed_methods)] // it reads the conformance files
#![allow(clippy::unwrap_used)] // a test may fail loudly

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;

use common::World;
use common::phone::{Device, account};
use pbx_core::{Datagram, Directory, DirectorySpec, Prefix, Shard, ShardOut};
use sip::path::{Path, Transport};
use turn::{Mono, Now};

const PLAN: &str = r#"
[[context.default.exten]]
match = "_."
steps = ["Ringing()", "Wait(60)"]
"#;

/// Everybody may call, and the users of the REGISTERs have accounts.
fn shard() -> Shard {
    let anybody = Prefix::new("0.0.0.0".parse().unwrap(), 0).unwrap();
    let directory = DirectorySpec {
        trunks: vec![World::trunk(|trunk| trunk.sources = vec![anybody])],
        phones: ["watson", "user", "j.user"].map(account).into(),
        ..DirectorySpec::default()
    };
    World::of(PLAN, Directory::new(directory), |_| {}).shard
}

/// The statuses of everything that is sent for a message.
fn statuses(bytes: &[u8]) -> Vec<u16> {
    let status = |text: &String| text[8..11].parse().unwrap();
    sent(&mut shard(), bytes).iter().map(status).collect()
}

/// Everything that is sent for a message.
fn sent(shard: &mut Shard, bytes: &[u8]) -> Vec<String> {
    let mut out = ShardOut::new();
    let now = Now { mono: Mono::from_nanos(10_000_000_000), ..Now::default() };
    let path = Path {
        transport: Transport::Udp,
        local: "192.0.2.200:5060".parse().unwrap(),
        remote: "192.0.2.1:5060".parse().unwrap(),
    };
    shard.receive(now, Datagram { bytes, path, received_at: now.mono }, &mut out);
    shard.flush(now, &mut out);
    out.net.sends().map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect()
}

/// What each row's verdict means for what a shard sends: any of these statuses, or nothing at all
/// when there is none.
fn wanted(name: &str, verdict: &str) -> &'static [u16] {
    match name {
        // Its To has a tag, which is none of ours.
        "wsinv" => &[481],
        // Valid: an INVITE rings, OPTIONS gets 200, a MESSAGE 405.
        "esc01" | "longreq" | "inv2543" => &[180],
        "mpart01" => &[405],
        "lwsdisp" | "semiuri" | "transports" | "badbranch" => &[200],
        // Methods of their own; an escape in a method is no escape.
        "intmeth" | "esc02" => &[501],
        "unreason" | "noreason" => &[],
        "scalarlg" | "bigcode" | "bcast" => &[],
        "badvers" => &[505],
        "mismatch02" => &[400, 501],
        // Where the table lets us choose: Date is not looked at, the display name is tolerated.
        "baddate" => &[180],
        "baddn" => &[200],
        "insuf" | "multi01" | "mcl01" => &[400],
        "unkscm" | "novelsc" => &[416],
        "bext01" => &[420],
        "invut" => &[415],
        "zeromf" => &[483],
        "sdp01" => &[406],
        // A REGISTER is challenged, whatever else it holds, and whatever scheme its credentials
        // name.
        "regaut01" | "cparam01" | "cparam02" | "regescrt" | "unksm2" | "escnull" | "dblreq" => {
            &[401]
        }
        _ => {
            assert!(verdict.starts_with("400"), "{name}: what does {verdict:?} mean?");
            &[400]
        }
    }
}

#[test]
fn all_49_messages_get_what_the_table_says() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/rfc4475");
    let table = std::fs::read_to_string(folder.join("EXPECTED.tsv"))
        .or_else(|_| std::fs::read_to_string(folder.join("../EXPECTED.tsv")))
        .expect("the table of verdicts");
    let mut faults = BTreeMap::new();
    let rows: Vec<_> = table.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(rows.len(), 49);
    for row in rows {
        let mut columns = row.split('\t');
        let name = columns.next().expect("a name");
        let verdict = columns.nth(1).expect("a verdict");
        let verdict = verdict.split_once(' ').map_or(verdict, |(_, verdict)| verdict);
        let bytes = std::fs::read(folder.join(format!("{name}.dat"))).expect("the message");
        let sent = statuses(&bytes);
        let wanted = wanted(name, verdict);
        let is_right = match sent.as_slice() {
            [] => wanted.is_empty(),
            [status] => wanted.contains(status),
            _ => false,
        };
        if !is_right {
            faults.insert(name.to_owned(), (sent, wanted, verdict.to_owned()));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn registers_with_odd_contacts_are_accepted_once_their_user_is_known() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/rfc4475");
    for (name, user, contact) in [
        // A parameter of the header field, and one of the URI.
        ("cparam01", "watson", "Contact: <sip:+19725552222@gw1.example.net>;expires=3600"),
        ("cparam02", "watson", "Contact: <sip:+19725552222@gw1.example.net;unknownparam>;"),
        // The escaped header of the URI is kept as it stands.
        ("regescrt", "user", "<sip:user@example.com?Route=%3Csip:sip.example.com%3E>;expires="),
    ] {
        let bytes = std::fs::read(folder.join(format!("{name}.dat"))).expect("the message");
        let text = String::from_utf8(bytes).unwrap();
        let mut shard = shard();
        let challenge = sent(&mut shard, text.as_bytes()).remove(0);
        let uri = text.split(' ').nth(1).unwrap();
        let proof = Device::new(user, "192.0.2.1:5060").prove(&challenge, "REGISTER", uri);
        // Another transaction: the branch differs.
        let again = text.replacen("\r\n", &format!("\r\n{}", proof.replace('\n', "\r\n")), 1);
        let accepted = sent(&mut shard, again.replace("z9hG4bK", "z9hG4bK2").as_bytes()).remove(0);
        assert!(accepted.starts_with("SIP/2.0 200"), "{name}: {accepted}");
        assert!(accepted.contains(contact), "{name}: {accepted}");
    }
}
