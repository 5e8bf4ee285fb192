//! What `pbxctl endpoint import` writes is a configuration that the PBX loads, whatever it is made
//! from.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use pbx::config;
use proptest::prelude::*;
use tests::tree::text;

#[path = "../import/tests/common/mod.rs"]
mod common;

fn nothing(_: &str, _: &str) -> Result<Vec<(String, String)>, String> {
    Err("there is nothing here".to_owned())
}

fn load(conf: &str) -> Result<config::Config, String> {
    let toml = import::endpoints("a.conf", conf, &mut nothing).toml;
    config::parse(Path::new("/a/pbx.toml"), &toml).map_err(|faults| format!("{faults}\n{toml}"))
}

#[test]
fn realistic_files_become_configurations() {
    for (name, endpoints, trunks) in [("pjsip", 2, 5), ("sip", 4, 9)] {
        let config = load(&text(&format!("import/tests/golden/{name}.conf"))).unwrap();
        assert_eq!((config.endpoints.len(), config.trunks.len()), (endpoints, trunks), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(3_000)
    })]

    #[test]
    fn so_do_files_made_by_chance(conf in common::file()) {
        prop_assert!(load(&conf).is_ok(), "{}\n{conf}", load(&conf).unwrap_err());
    }
}
