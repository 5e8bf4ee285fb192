//! The 49 messages of RFC 4475 against the table of what must happen to each (`EXPECTED.tsv`).
//!
//! Rows `V` and `I` are judged by the wire layer alone. Of rows `S` the table leaves the answer to the layer above; here
//! each of them is read, and what that layer needs for its answer is asked from the accessor that it will use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sip::wire::{Fault, Framing, Index};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/rfc4475")
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(format!("{name}.dat"))).unwrap()
}

/// Name of the message to what must happen.
fn expected() -> BTreeMap<String, String> {
    let table = std::fs::read_to_string(folder().join("EXPECTED.tsv")).unwrap();
    table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut columns = line.split('\t');
            let name = columns.next().unwrap();
            (name.to_owned(), columns.nth(1).unwrap().to_owned())
        })
        .collect()
}

/// What the wire layer decides: the status of the answer; `None` for a silent discard.
fn verdict(index: &Index, bytes: &[u8], fault: Fault) -> Option<u16> {
    index.salvage(bytes).and_then(|_| fault.rule.status())
}

#[test]
fn every_message_has_a_row_and_every_row_a_message() {
    let files = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "dat"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect::<std::collections::BTreeSet<_>>();
    assert_eq!(files, expected().into_keys().collect());
    assert_eq!(files.len(), 49);
}

/// Case P14.
#[test]
fn case_p14_each_message_is_judged_as_the_table_says() {
    let mut index = Index::new();
    let mut wrong = Vec::new();
    for (name, must) in expected() {
        let bytes = read(&name);
        let result = index.parse(&bytes, Framing::Datagram).map(|_| ());
        let status = result.map_err(|fault| verdict(&index, &bytes, fault));
        let is_right = match must.as_str() {
            "V accept" | "V accept first, ignore rest" => status == Ok(()),
            "I 400" | "I 400 (UDP)" | "I 501/400" => status == Err(Some(400)),
            "I 505" => status == Err(Some(505)),
            "I discard" => status == Err(None),
            // Date is not looked at, and display names need no quotes: see the table of lenient readings.
            "I 400 or ignore Date" | "I 400 (lenient allowed)" => status == Ok(()),
            // Where the table's answer to a row S is 400 the wire layer may give it.
            "S parse; 400" | "S parse; 2543 matching/400" => {
                matches!(status, Ok(()) | Err(Some(400)))
            }
            row if row.starts_with("S parse") => status == Ok(()),
            row => panic!("unknown row {row}"),
        };
        if !is_right {
            wrong.push(format!("{name}: must be {must:?}, is {status:?} ({result:?})"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
