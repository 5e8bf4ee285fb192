//! Plans as one writes them, and what numbers find in them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use dialplan::{
    Address, App, HangupCause, MatchResult, Mode, NoWay, Plan, RenderFault, Seconds, Variables,
    parse,
};

#[track_caller]
fn plan(text: &str) -> Plan {
    parse(&[("dialplan.toml", text)]).unwrap_or_else(|faults| panic!("{faults}"))
}

/// A plan of one context `default` with these names and patterns.
#[track_caller]
fn patterns(patterns: &[&str]) -> Plan {
    let extensions: String = patterns
        .iter()
        .map(|name| format!("[[context.default.exten]]\nmatch = '{name}'\nsteps = ['NoOp']\n"))
        .collect();
    plan(&extensions)
}

/// A plan whose extension `100` has these steps.
#[track_caller]
fn steps(steps: &str) -> Plan {
    plan(&format!("[[context.default.exten]]\nmatch = '100'\nsteps = [{steps}]\n"))
}

#[track_caller]
fn only_app(text: &str) -> App {
    let plan = steps(text);
    let id = plan.find_complete("default", "100", "").unwrap();
    plan.steps(id)[0].app.clone()
}

struct Table(&'static [(&'static str, &'static str)]);

impl Variables for Table {
    fn value(&self, name: &str, out: &mut String) -> bool {
        let found = self.0.iter().find(|(known, _)| *known == name);
        out.push_str(found.map_or("", |(_, value)| value));
        found.is_some()
    }
}

#[track_caller]
fn found<'p>(plan: &'p Plan, number: &str) -> (MatchResult, &'p str) {
    let found = plan.find("default", number, "");
    (found.result, found.extension.map_or("", |id| plan.name(id)))
}

#[test]
fn plans_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Plan>();
}

#[test]
fn dp01_patterns_have_a_total_order_whatever_the_order_in_the_file() {
    let mut all = ["_6XX1", "_64XX", "_640X", "_6.", "_64NX", "_6[45]NX", "_6[34]NX"];
    for _ in 0..all.len() {
        let plan = patterns(&all);
        assert_eq!(found(&plan, "6421"), (MatchResult::CompleteOrMore, "_64NX"));
        let order: Vec<&str> = plan
            .listing(Some("default"))
            .flat_map(dialplan::ContextView::extensions)
            .map(dialplan::ExtensionView::name)
            .collect();
        assert_eq!(order, ["_640X", "_64NX", "_64XX", "_6[34]NX", "_6[45]NX", "_6XX1", "_6."]);
        all.rotate_left(1);
    }
}

#[test]
fn dp01_the_account_says_why_each_candidate_lost_or_won() {
    let plan = patterns(&["_6XX1", "_64XX", "_640X", "_6.", "_64NX", "_6[45]NX", "_6[34]NX", "7"]);
    let wanted = "\
'6421' from an unknown caller in context 'default'
context 'default'
  exact names that are others: 1
  '_640X'              no: position 3 does not take '2'  [dialplan.toml:8]
  '_64NX'              yes: this one  [dialplan.toml:14]
  '_64XX'              matches too, but comes later  [dialplan.toml:5]
  '_6[34]NX'           matches too, but comes later  [dialplan.toml:20]
  '_6[45]NX'           matches too, but comes later  [dialplan.toml:17]
  '_6XX1'              matches too, but comes later  [dialplan.toml:2]
  '_6.'                matches too, but comes later  [dialplan.toml:11]
result: a match, but more digits may find another
steps of '_64NX' in context 'default':
    1. NoOp()
";
    assert_eq!(plan.explain("default", "6421", ""), wanted);
}

#[test]
fn dp01_a_chosen_extension_takes_no_steps_of_another_one() {
    let plan = plan(
        "[[context.default.exten]]\nmatch = '6410'\nsteps = ['NoOp(a)']\n\
         [[context.default.exten]]\nmatch = '_641X'\nsteps = ['NoOp(b)', 'NoOp(c)']\n",
    );
    let id = plan.find_complete("default", "6410", "").unwrap();
    assert_eq!(plan.steps(id).len(), 1);
    assert_eq!(plan.enter("default", "6410", "", "2"), Err(NoWay::Step));
}

#[test]
fn dp02_a_dialled_target_stays_one_number() {
    let app = only_app("'Dial(SIP/trunk-a/${EXTEN})'");
    let App::Dial(dial) = app else { panic!("{app:?}") };
    assert_eq!(dial.targets.len(), 1);
    let vars = Table(&[("EXTEN", "300&DAHDI/g1/4165551212")]);
    assert_eq!(
        dial.targets[0].address.rendered(&vars),
        Ok(Address::Trunk {
            name: "trunk-a".into(),
            number: Some("300&DAHDI/g1/4165551212".into())
        })
    );
}

#[test]
fn dp02_a_value_cannot_turn_a_uri_around() {
    let app = only_app("'Dial(sip:${EXTEN}@${HOST}:5070)'");
    let App::Dial(dial) = app else { panic!("{app:?}") };
    let rendered = |vars: Table| dial.targets[0].address.rendered(&vars);
    assert_eq!(
        rendered(Table(&[("EXTEN", "1@evil;x=y?z %&/ä"), ("HOST", "127.0.0.1")])),
        Ok(Address::Uri("sip:1%40evil%3Bx%3Dy%3Fz%20%25%26%2F%C3%A4@127.0.0.1:5070".into()))
    );
    for host in ["evil@h", "h;x", "h?x", "", "a b", "h/x", "h>x"] {
        let host: &'static str = host;
        let vars: &'static [(&str, &str)] = Box::leak(Box::new([("EXTEN", "1"), ("HOST", host)]));
        assert_eq!(rendered(Table(vars)), Err(RenderFault::NotAHost), "{host}");
    }
}

#[test]
fn dp04_an_exact_name_beats_every_pattern_of_its_context() {
    let plan = patterns(&["_1XX1", "_1001", "1001", "_1!"]);
    assert_eq!(found(&plan, "1001").1, "1001");
    assert_eq!(found(&plan, "1011").1, "_1XX1");
}

#[test]
fn dp05_a_dot_needs_one_more_and_a_bang_none() {
    let dot = patterns(&["_9."]);
    assert_eq!(found(&dot, "9"), (MatchResult::More, ""));
    assert_eq!(found(&dot, "91"), (MatchResult::CompleteOrMore, "_9."));
    let bang = patterns(&["_9!"]);
    assert_eq!(found(&bang, ""), (MatchResult::More, ""));
    assert_eq!(found(&bang, "9"), (MatchResult::Complete, "_9!"));
    assert_eq!(found(&bang, "91"), (MatchResult::Complete, "_9!"));
    let both = patterns(&["_9!", "_9."]);
    assert_eq!(found(&both, "9").1, "_9!");
    assert_eq!(found(&both, "91").1, "_9.");
}

#[test]
fn overlap_is_told_by_four_results() {
    let plan = patterns(&["100", "1000", "_2XX", "_2XXX"]);
    assert_eq!(found(&plan, ""), (MatchResult::More, ""));
    assert_eq!(found(&plan, "10"), (MatchResult::More, ""));
    assert_eq!(found(&plan, "100"), (MatchResult::CompleteOrMore, "100"));
    assert_eq!(found(&plan, "1000"), (MatchResult::Complete, "1000"));
    assert_eq!(found(&plan, "10000"), (MatchResult::None, ""));
    assert_eq!(found(&plan, "234"), (MatchResult::CompleteOrMore, "_2XX"));
    assert_eq!(found(&plan, "2345"), (MatchResult::Complete, "_2XXX"));
    assert_eq!(found(&plan, "3"), (MatchResult::None, ""));
}

#[test]
fn a_pattern_beats_an_exact_name_of_an_included_context() {
    let plan = plan(
        "[context.default]\ninclude = ['b', 'c']\n\
         [[context.default.exten]]\nmatch = '_1XX'\nsteps = ['NoOp(default)']\n\
         [context.b]\ninclude = ['d']\n\
         [[context.b.exten]]\nmatch = '100'\nsteps = ['NoOp(b)']\n\
         [[context.c.exten]]\nmatch = '200'\nsteps = ['NoOp(c)']\n\
         [[context.d.exten]]\nmatch = '_2XX'\nsteps = ['NoOp(d)']\n",
    );
    let data = |number: &str| {
        let id = plan.find_complete("default", number, "").unwrap();
        (&*plan.steps(id)[0].data, plan.context_of(id))
    };
    assert_eq!(data("100"), ("default", "default"));
    // Depth first: what b includes comes before c.
    assert_eq!(data("200"), ("d", "d"));
}

#[test]
fn an_extension_for_a_caller_comes_before_the_one_for_all() {
    let plan = plan(
        "[[context.default.exten]]\nmatch = '100'\nsteps = ['NoOp(all)']\n\
         [[context.default.exten]]\nmatch = '100'\ncaller = '_3XX'\nsteps = ['NoOp(300s)']\n\
         [[context.default.exten]]\nmatch = '100'\ncaller = ''\nsteps = ['NoOp(hidden)']\n",
    );
    let data = |caller: &str| {
        let id = plan.find_complete("default", "100", caller).unwrap();
        plan.steps(id)[0].data.to_string()
    };
    assert_eq!(data("301"), "300s");
    assert_eq!(data("3-0-1"), "300s");
    assert_eq!(data("401"), "all");
    assert_eq!(data(""), "hidden");
}

#[test]
fn dashes_are_for_the_eye_in_names_and_numbers() {
    let plan = patterns(&["555-1234", "answer-now"]);
    assert_eq!(found(&plan, "5551234").1, "555-1234");
    assert_eq!(found(&plan, "5-5-5-1234").1, "555-1234");
    assert_eq!(found(&plan, "answer-now").1, "answer-now");
    assert_eq!(found(&plan, "Answer-now").1, "");
}

#[test]
fn a_number_beyond_the_limit_and_an_unknown_context_find_nothing() {
    let plan = patterns(&["_X."]);
    let number = "1".repeat(dialplan::limits::NUMBER_MAX);
    assert_eq!(found(&plan, &number), (MatchResult::Complete, "_X."));
    assert_eq!(found(&plan, &format!("{number}1")), (MatchResult::None, ""));
    assert_eq!(plan.find("nowhere", "1", "").result, MatchResult::None);
    assert_eq!(plan.enter("nowhere", "1", "", "1"), Err(NoWay::Context));
    assert_eq!(plan.enter("default", "x", "", "1"), Err(NoWay::Number));
}

#[test]
fn dial_is_read_as_text_and_as_table() {
    let text = only_app("'Dial(SIP/a/1&PJSIP/2@b&SIP/c, 0.5 ,rg)'");
    let table = only_app(
        "{ app = 'Dial', targets = ['SIP/a/1', 'SIP/2@b', 'SIP/c'], ring_timeout_s = 0.5, \
         options = 'gr' }",
    );
    assert_eq!(text, table);
    let App::Dial(dial) = text else { panic!("{text:?}") };
    assert_eq!(dial.ring_timeout, Some(Seconds::Fixed(Duration::from_millis(500))));
    assert!(dial.ringing && dial.go_on);
    assert_eq!(dial.mode, Mode::Parallel);
    let turn = only_app("{ app = 'Dial', targets = ['SIP/a', 'SIP/b'], mode = 'sequential' }");
    assert!(matches!(turn, App::Dial(dial) if dial.mode == Mode::Sequential));
}

#[test]
fn lengths_and_causes_may_come_from_variables() {
    let vars = Table(&[("T", "1.25"), ("C", "user_busy"), ("BAD", "soon")]);
    let App::Wait(wait) = only_app("'Wait(${T})'") else { panic!() };
    assert_eq!(wait.length(&vars), Some(Duration::from_millis(1_250)));
    let App::Wait(wait) = only_app("'Wait(${BAD})'") else { panic!() };
    assert_eq!(wait.length(&vars), None);
    let App::Hangup { cause: Some(cause) } = only_app("'Hangup(${C})'") else { panic!() };
    assert_eq!(cause.q850(&vars), Some(17));
    assert!(matches!(
        only_app("'Hangup(USER_BUSY)'"),
        App::Hangup { cause: Some(HangupCause::Fixed(17)) }
    ));
}

#[test]
fn texts_keep_their_commas_where_they_are_one_argument() {
    let said = |app: App| {
        let text = if let App::Set(assignments) = &app {
            assignments[0].value.clone()
        } else if let App::NoOp(text) | App::Verbose { text, .. } = app {
            text
        } else {
            panic!("{app:?}")
        };
        text.rendered(&Table(&[("X", "x")])).unwrap().to_string()
    };
    assert_eq!(said(only_app("'NoOp(a, b,${X})'")), "a, b,x");
    assert_eq!(said(only_app("'Set(A=1,2=3)'")), "1,2=3");
    assert_eq!(said(only_app("'Verbose(2,a,b)'")), "a,b");
    assert_eq!(said(only_app("'Verbose(2,\"a,b\")'")), "a,b");
    assert_eq!(said(only_app("'Verbose(text)'")), "text");
}

#[test]
fn conditions_hold_as_in_asterisk() {
    let vars =
        Table(&[("BUSY", "BUSY"), ("N", "10"), ("EMPTY", ""), ("ODD", "a = b | 1"), ("Z", "0")]);
    let cases = [
        ("1", true),
        ("0", false),
        ("", false),
        ("${EMPTY}", false),
        ("${Z}", false),
        ("${BUSY}", true),
        ("$[\"${BUSY}\" = \"BUSY\"]", true),
        ("$[${BUSY} = BUSY]", true),
        ("$[${BUSY} != BUSY]", false),
        ("$[\"${EMPTY}\" = \"\"]", true),
        ("$[${N} > 9]", true),
        ("$[${N} < 9]", false),
        ("$[${N} >= 10 & ${N} <= 10.0]", true),
        ("$[${N} = 11 | ${BUSY} = BUSY & 1]", true),
        ("$[(${N} = 10 | 0) & 0]", false),
        ("$[!${Z}]", true),
        ("$[!(${N} = 10)]", false),
        ("$[${ODD} = 5]", false),
        ("$[\"9\" < \"10\"]", true),
        ("$[abc < abd]", true),
        ("$[-1 < +1]", true),
        ("$[${EMPTY}]", false),
    ];
    for (text, wanted) in cases {
        let step = format!("'GotoIf({text}?1)'");
        let App::GotoIf { test, .. } = only_app(&step) else { panic!() };
        assert_eq!(test.holds(&vars), Ok(wanted), "{text}");
    }
}

#[test]
fn a_goto_may_lead_into_a_context_that_includes_this_one() {
    let text = "[context.outer]\ninclude = ['inner']\n\
                [[context.outer.exten]]\nmatch = '200'\nsteps = ['NoOp']\n\
                [[context.inner.exten]]\nmatch = '100'\nsteps = ['Goto(200,1)']\n";
    let plan = plan(text);
    assert!(plan.enter("outer", "200", "", "1").is_ok());
    assert_eq!(plan.enter("inner", "200", "", "1"), Err(NoWay::Number));
}

#[test]
fn a_context_may_be_spread_over_files() {
    let first = "[[context.default.exten]]\nmatch = '100'\nsteps = ['Goto(200,there)']\n";
    let second = "[[context.default.exten]]\nmatch = '200'\n\
                  steps = [{ app = 'NoOp', label = 'there' }]\n";
    let plan = parse(&[("a.toml", first), ("b.toml", second)]).unwrap();
    let (id, step) = plan.enter("default", "200", "", "there").unwrap();
    assert_eq!((plan.place(id), step), (("b.toml", 2), 0));
    let faults = parse(&[("a.toml", first), ("b.toml", first)]).unwrap_err();
    let places: Vec<(&str, u32)> =
        faults.iter().map(|fault| (fault.file(), fault.line())).collect();
    assert_eq!(places, [("a.toml", 3), ("b.toml", 2), ("b.toml", 3)]);
}

#[test]
fn a_listing_has_all_that_a_show_needs() {
    let plan = plan(
        "[context.b]\ninclude = ['a']\n[[context.b.exten]]\nmatch = '1'\ncaller = '2'\n\
         steps = ['Dial(SIP/t/1,30)', { app = 'NoOp', args = ['x'], label = 'l' }]\n[context.a]\n",
    );
    let contexts: Vec<&str> = plan.listing(None).map(dialplan::ContextView::name).collect();
    assert_eq!(contexts, ["b", "a"]);
    let context = plan.listing(Some("b")).next().unwrap();
    assert_eq!(context.includes().collect::<Vec<_>>(), [("a", "")]);
    assert_eq!(context.file(), "dialplan.toml");
    let extension = context.extensions().next().unwrap();
    assert_eq!((extension.name(), extension.caller(), extension.line()), ("1", Some("2"), 4));
    let shown: Vec<String> = extension
        .steps()
        .iter()
        .map(|step| format!("{:?} {step} {}", step.label.as_deref(), step.line))
        .collect();
    assert_eq!(shown, ["None Dial(SIP/t/1,30) 6", "Some(\"l\") NoOp(x) 6"]);
}

#[test]
fn a_reload_says_what_changed() {
    let old = plan(
        "[globals]\nA = '1'\nB = '2'\n[context.default]\ninclude = ['x']\n\
         [[context.default.exten]]\nmatch = '100'\nsteps = ['NoOp(a)']\n\
         [[context.default.exten]]\nmatch = '200'\nsteps = ['NoOp(a)']\n\
         [[context.default.exten]]\nmatch = '300'\nsteps = ['NoOp(a)']\n[context.x]\n[context.y]\n",
    );
    let new = plan(
        "[globals]\nA = '1'\nB = '3'\n[context.default]\n# a comment moves the lines\n\
         [[context.default.exten]]\nmatch = '300'\nsteps = ['NoOp(a)']\n\
         [[context.default.exten]]\nmatch = '200'\nsteps = ['NoOp(b)']\n\
         [[context.default.exten]]\nmatch = '_4XX'\nsteps = ['NoOp(a)']\n\
         [context.x]\n[context.z]\n",
    );
    assert_eq!(
        new.diff(&old).to_string(),
        "global variable 'B' changed\n\
         context 'default': includes changed\n\
         extension '100' removed from context 'default'\n\
         extension '200' changed in context 'default'\n\
         extension '_4XX' added to context 'default'\n\
         context 'z' added, extensions: 0\n\
         context 'y' removed, extensions: 0"
    );
    assert!(new.diff(&new).is_empty());
    assert_eq!(new.diff(&new).to_string(), "nothing changed");
}

#[test]
fn the_account_shows_targets_filled_in_and_nothing_a_terminal_obeys() {
    let plan = plan(
        "[globals]\nT = 'carrier'\n\
         [[context.default.exten]]\nmatch = '_.'\n\
         steps = ['Dial(SIP/${T}/${EXTEN:1}&sip:${EXTEN}@h)']\n",
    );
    let account = plan.explain("default", "9\u{1b}[2J", "");
    assert!(account.contains("calls number '\u{fffd}[2J' through trunk 'carrier'"), "{account}");
    assert!(account.contains("calls sip:9%1B%5B2J@h"), "{account}");
    assert!(!account.contains('\u{1b}'));
}
