//! Realistic files, and what they become. `golden/NAME.conf` is converted; `golden/NAME.txt` holds
//! the output and the remarks. `PBX_BLESS=1 cargo test -p import` writes the latter anew: look at
//! the difference before it is committed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use import::{Converted, Remark};

fn nothing(_: &str, what: &str) -> Result<Vec<(String, String)>, String> {
    Err(format!("{what}: cannot be read: there is nothing here"))
}

fn shown(told: &Converted) -> String {
    let list = |remarks: &[Remark]| -> String {
        remarks.iter().map(|remark| format!("{remark}\n")).collect()
    };
    format!("{}---- left\n{}---- notes\n{}", told.toml, list(&told.left), list(&told.notes))
}

#[track_caller]
#[allow(clippy::disallowed_methods, reason = "the person who blesses asks for the file")]
fn check(told: &Converted, name: &str, expected: &str) {
    toml::from_str::<toml::Table>(&told.toml).unwrap();
    let shown = shown(told);
    if shown != expected && std::env::var("PBX_BLESS").is_ok() {
        let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        return std::fs::write(path, shown).unwrap();
    }
    assert!(shown == expected, "it is now:\n{shown}");
}

macro_rules! golden {
    ($name:ident, $convert:path) => {
        #[test]
        fn $name() {
            let name = concat!(stringify!($name), ".conf");
            let text = include_str!(concat!("golden/", stringify!($name), ".conf"));
            let told = $convert(name, text, &mut nothing);
            check(
                &told,
                stringify!($name),
                include_str!(concat!("golden/", stringify!($name), ".txt")),
            );
        }
    };
}

golden!(office, import::dialplan);
golden!(ancient, import::dialplan);
golden!(wrong, import::dialplan);
golden!(pjsip, import::endpoints);
golden!(sip, import::endpoints);
