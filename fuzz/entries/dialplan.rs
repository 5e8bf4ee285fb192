//! What the fuzzer and the replay of its corpus do with a dialplan file, and what must hold always.
//!
//! * Nothing panics, and a search ends.
//! * Faults have a place and can be shown without control characters.
//! * A plan differs from itself in nothing.
//! * What a variable holds stays inside its hole: one URI of one line, whatever the value.

use dialplan::{Address, App, MatchResult, Plan, Step, Variables, parse};

/// Values that want to be more than values.
const VALUE: &str = "1@h&SIP/t/2;x?y ${EXTEN}$[1]\r\n\u{1b}\u{e4}";

struct Hostile;

impl Variables for Hostile {
    fn value(&self, _: &str, out: &mut String) -> bool {
        out.push_str(VALUE);
        true
    }
}

/// Reads one file; true when it is a plan.
pub(crate) fn run(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    match parse(&[("input", &text)]) {
        Ok(plan) => {
            check_plan(&plan);
            true
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            for fault in &faults {
                assert!(fault.line() >= 1 && fault.column() >= 1);
            }
            let shown = faults.to_string();
            let odd = |c: char| c.is_control() && c != '\n' && c != '\t';
            assert!(!shown.contains(odd), "{shown:?}");
            false
        }
    }
}

fn check_plan(plan: &Plan) {
    assert!(plan.diff(plan).is_empty());
    for context in plan.contexts().take(20) {
        for number in ["", "9", "9180", "*8", "answer-now", VALUE] {
            let found = plan.find(context, number, "4930");
            let whole = matches!(found.result, MatchResult::Complete | MatchResult::CompleteOrMore);
            assert_eq!(found.extension.is_some(), whole);
            let account = plan.explain(context, number, "4930");
            assert!(!account.contains(|c: char| c.is_control() && c != '\n'), "{account:?}");
        }
    }
    for context in plan.listing(None) {
        for extension in context.extensions() {
            extension.steps().iter().for_each(check_step);
        }
    }
}

fn check_step(step: &Step) {
    let _ = step.to_string();
    check_app(&step.app);
}

fn check_app(app: &App) {
    match app {
        App::Dial(dial) => {
            for target in &dial.targets {
                if let Ok(Address::Uri(uri)) = target.address.rendered(&Hostile) {
                    assert!(uri.matches('@').count() <= 1, "{uri}");
                    assert!(uri.bytes().all(|byte| byte.is_ascii_graphic()), "{uri:?}");
                }
            }
        }
        App::Hangup { cause: Some(cause) } => {
            assert!(cause.q850(&Hostile).is_none_or(|cause| (1..=127).contains(&cause)));
        }
        App::GotoIf { test, .. } | App::While { test, .. } => {
            let _ = test.holds(&Hostile);
        }
        App::Gosub { test, yes, no } => {
            let _ = test.as_ref().map(|test| test.holds(&Hostile));
            for call in yes.iter().chain(no) {
                call.args.iter().for_each(|arg| _ = arg.rendered(&Hostile));
            }
        }
        App::ExecIf(execution) => {
            let _ = execution.test.holds(&Hostile);
            execution.yes.iter().chain(&execution.no).for_each(|inner| check_app(&inner.app));
        }
        App::Set(assignments) => {
            assignments.iter().for_each(|it| _ = it.value.rendered(&Hostile));
        }
        App::NoOp(text)
        | App::Verbose { text, .. }
        | App::Log { text, .. }
        | App::Return(text)
        | App::DatabaseDelete { family: text, .. } => {
            let _ = text.rendered(&Hostile);
        }
        App::Wait(length) => {
            let _ = length.length(&Hostile);
        }
        App::Answer
        | App::Hangup { cause: None }
        | App::Ringing
        | App::Progress
        | App::Busy { .. }
        | App::Congestion { .. }
        | App::StackPop
        | App::Jump { .. }
        | App::Goto(_) => {}
    }
}
