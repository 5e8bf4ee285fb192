//! Plans as one writes them.

use dialplan::{App, MatchResult, parse};

#[test]
fn a_small_plan_is_read() {
    let text = r#"
[globals]
TRUNK = "trunk-a"

[context.default]
include = ["features"]

[[context.default.exten]]
match = "answer"
steps = ["Ringing()", "Answer()", "Hangup(17)"]

[[context.default.exten]]
match = "_9."
steps = [
    "Dial(SIP/trunk-a/${EXTEN:1}&sip:${EXTEN}@127.0.0.1:5070,30,r)",
    { app = "GotoIf", args = ['$["${DIALSTATUS}" = "BUSY"]?busy:end'] },
    { label = "busy", app = "Busy", args = ["5"] },
    { label = "end", app = "Hangup" },
]

[context.features]
[[context.features.exten]]
match = "*8"
steps = ["Answer"]
"#;
    let plan = parse(&[("dialplan.toml", text)]).unwrap_or_else(|faults| panic!("{faults}"));
    let found = plan.find("default", "answer", "");
    assert_eq!(found.result, MatchResult::Complete);
    let steps = plan.steps(found.extension.unwrap());
    assert!(matches!(steps[1].app, App::Answer));
    assert_eq!(plan.find("default", "9", "").result, MatchResult::More);
    assert_eq!(plan.find("default", "91", "").result, MatchResult::CompleteOrMore);
    assert_eq!(plan.find("default", "*8", "").result, MatchResult::Complete);
    assert_eq!(plan.find("default", "8", "").result, MatchResult::None);
    assert_eq!(plan.trunks_referenced()[0].name(), "trunk-a");
}
