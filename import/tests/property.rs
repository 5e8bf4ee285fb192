//! Whatever stands in a file: the output is TOML, and a dialplan that its reader takes; all that
//! is told names a line that is there, and no password; what is left stands in the output, too.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use import::Converted;
use proptest::prelude::*;

mod common;
use common::file;

fn more(_: &str, _: &str) -> Result<Vec<(String, String)>, String> {
    Ok(vec![("x.conf".to_owned(), "exten => 5,1,Answer\n[x]\nsecret=hunter2\n".to_owned())])
}

fn check(told: &Converted, text: &str) {
    assert!(toml::from_str::<toml::Table>(&told.toml).is_ok(), "{}", told.toml);
    for remark in &told.left {
        let comment = format!("# not converted: {}:{}: ", remark.file, remark.line);
        assert!(told.toml.contains(&comment), "{remark}\n{}", told.toml);
    }
    for remark in told.left.iter().chain(&told.notes) {
        let lines = if remark.file == "a.conf" { text.lines().count() } else { 3 };
        assert!(remark.line >= 1 && remark.line as usize <= lines.max(1), "{remark}");
        assert!(!remark.reason.is_empty(), "{remark}");
        let secrets = ["password=hunter2", "secret=hunter2", "a:hunter2@"];
        assert!(!secrets.iter().any(|it| remark.to_string().contains(it)), "{remark}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(1_000)
    })]

    #[test]
    fn a_dialplan_is_always_one_that_can_be_loaded(text in file()) {
        let told = import::dialplan("a.conf", &text, &mut more);
        check(&told, &text);
        let plan = dialplan::parse(&[("out.toml", &told.toml)]);
        prop_assert!(plan.is_ok(), "{}\n{}", plan.unwrap_err(), told.toml);
    }

    #[test]
    fn endpoints_are_always_toml(text in file()) {
        check(&import::endpoints("a.conf", &text, &mut more), &text);
    }

    #[test]
    fn it_is_the_same_each_time(text in file()) {
        let dialplan = || import::dialplan("a.conf", &text, &mut more);
        prop_assert_eq!(dialplan(), dialplan());
        let endpoints = || import::endpoints("a.conf", &text, &mut more);
        prop_assert_eq!(endpoints(), endpoints());
    }
}
