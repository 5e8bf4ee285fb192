//! The language of steps: expressions, functions, what can be set, loops, subroutines, times.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::wildcard_enum_match_arm, reason = "what a test does not expect fails it")]

use std::cell::Cell;

use dialplan::{
    App, Clock, HeaderChange, Heirs, Moment, Plan, Question, Seeker, SetTarget, Test, Variables,
    parse,
};

/// Variables, and a world that answers each question with the question.
struct World {
    drawn: Cell<u64>,
}

impl Variables for World {
    fn value(&self, name: &str, out: &mut String) -> bool {
        let value = match name {
            "N" => "10",
            "WORD" => "Hello",
            "LIST" => "a-b-c-d",
            "PATH" => "x,y,z",
            "HOSTILE" => "1) | ${N} & \"",
            "RE" => "^H(el+)o$",
            "BAD" => "(",
            "CALLERID(num)" => "4930",
            _ => return false,
        };
        out.push_str(value);
        true
    }

    fn ask(&self, question: Question, args: &[Box<str>], out: &mut String) {
        out.push_str(&format!("{question:?}{args:?}"));
    }

    fn moment(&self, epoch: Option<i64>) -> Moment {
        Moment::from_epoch(epoch.unwrap_or(1_796_095_205), 0)
    }

    fn random(&self, bound: u64) -> u64 {
        self.drawn.set(self.drawn.get() + 1);
        self.drawn.get() % bound
    }
}

#[track_caller]
fn plan(text: &str) -> Plan {
    parse(&[("dialplan.toml", text)]).unwrap_or_else(|faults| panic!("{faults}"))
}

#[track_caller]
fn apps(steps: &str) -> Vec<App> {
    let plan = plan(&format!("[[context.default.exten]]\nmatch = '100'\nsteps = [{steps}]\n"));
    let id = plan.find_complete("default", "100", "").unwrap();
    plan.steps(id).iter().map(|step| step.app.clone()).collect()
}

#[track_caller]
fn rendered(text: &str) -> String {
    let App::NoOp(template) = apps(&format!("'''NoOp({text})'''")).remove(0) else { panic!() };
    template.rendered(&World { drawn: Cell::new(0) }).unwrap().into()
}

#[test]
fn dp_expressions_calculate_compare_and_match() {
    let cases = [
        ("$[1 + 2 * 3]", "7"),
        ("$[(1 + 2) * 3]", "9"),
        ("$[7 / 2]", "3.5"),
        ("$[7 % 4]", "3"),
        ("$[1 / 0]", "0"),
        ("$[-${N} - -3]", "-7"),
        ("$[${N}+1]", "11"),
        ("$[1 < 2 = 1]", "1"),
        ("$[!1]", "0"),
        ("$[\"${WORD}\" ~~ \"!\"]", "Hello!"),
        ("$[\"${WORD}\" : \"H(el)\"]", "el"),
        ("$[\"${WORD}\" : \"ell\"]", "0"),
        ("$[\"${WORD}\" =~ \"ell\"]", "3"),
        ("$[\"${WORD}\" =~ \"(l+)\"]", "ll"),
        ("$[\"${WORD}\" =~ \"${RE}\"]", "ell"),
        ("$[\"${WORD}\" =~ \"${BAD}\"]", "0"),
        ("$[${N} > 5 ? high :: low]", "high"),
        ("$[0 ? 1 :: 0 ? 2 :: 3]", "3"),
        ("$[\"\" | \"b\"]", "b"),
        ("$[\"a\" & \"b\"]", "a"),
        ("$[${HOSTILE} = 1]", "0"),
        ("$[${N} + $[1 + 1]]", "12"),
        ("a$[1]b", "a1b"),
    ];
    for (text, wanted) in cases {
        assert_eq!(rendered(text), wanted, "{text}");
    }
}

#[test]
fn dp_functions_that_look_at_their_arguments() {
    let cases = [
        ("${LEN(${WORD})}", "5"),
        ("${LEN()}", "0"),
        ("${TOUPPER(${WORD})}${TOLOWER(ABC)}", "HELLOabc"),
        ("${ISNULL()}${ISNULL(${WORD})}${EXISTS(${WORD})}", "101"),
        ("${IF($[${N} > 5]?yes:no)}", "yes"),
        ("${IF(0?yes)}", ""),
        ("${IFTIME(*,tue,*,dec?now:never)}", "now"),
        ("${IFTIME(04:00-05:00?now:never)}", "never"),
        ("${CUT(LIST,,2)}", "b"),
        ("${CUT(LIST,-,2-3)}", "b-c"),
        ("${CUT(LIST,-,3-)}", "c-d"),
        ("${CUT(PATH,\\,,1&3)}", "x,z"),
        ("${CUT(LIST,-,9)}", ""),
        ("${FIELDQTY(LIST,-)}${FIELDQTY(NONE,-)}", "40"),
        ("${FILTER(0-9,a1b2)}", "12"),
        ("${REGEX(\"^H\" ${WORD})}", "1"),
        ("${REPLACE(LIST,ad,x)}", "x-b-c-x"),
        ("${TRIM(  a b )}", "a b"),
        ("${RAND(5,6)}${RAND(5,6)}${RAND(3,1)}", "653"),
        ("${URIENCODE(a b&c)}${URIDECODE(%41%4)}", "a%20b%26cA%4"),
        ("${STRFTIME(0,,%F %R)}", "1970-01-01 00:00"),
        ("${STRFTIME(,,%A)}", "Tuesday"),
        ("${LEN(${HOSTILE})}", "13"),
        ("${TOUPPER(${WORD}):1:2}", "EL"),
    ];
    for (text, wanted) in cases {
        assert_eq!(rendered(text), wanted, "{text}");
    }
}

#[test]
fn dp_a_function_cannot_make_a_text_longer_than_a_text_may_be() {
    let long = "x".repeat(2_000);
    let step = format!("'''NoOp(${{REPLACE(LIST,abcd-,{long})}})'''");
    let App::NoOp(template) = apps(&step).remove(0) else { panic!() };
    let fault = template.rendered(&World { drawn: Cell::new(0) });
    assert_eq!(fault, Err(dialplan::RenderFault::TooLong));
}

#[test]
fn dp_questions_reach_the_world_with_their_arguments_filled_in() {
    let cases = [
        ("${DB(a/${N})}", "Database[\"a\", \"10\"]"),
        ("${DB_EXISTS(a/b/c)}", "DatabaseExists[\"a\", \"b/c\"]"),
        ("${GLOBAL(X)}", "Global[\"X\"]"),
        ("${DEVICE_STATE(SIP/100)}", "DeviceState[\"SIP/100\"]"),
        ("${DIALPLAN_EXISTS(default,${N})}", "DialplanExists[\"default\", \"10\"]"),
        ("${SIP_HEADER(X-Mark)}", "Header[\"X-Mark\", \"1\"]"),
        ("${PJSIP_HEADER(read,Via,2)}", "Header[\"Via\", \"2\"]"),
        ("${HINT(100@default)}", "Hint[\"100@default\"]"),
    ];
    for (text, wanted) in cases {
        assert_eq!(rendered(text), wanted, "{text}");
    }
}

#[test]
fn dp_everything_that_can_be_set_is_told_apart_at_load() {
    let target = |text: &str| {
        let App::Set(list) = apps(&format!("'{text}'")).remove(0) else { panic!("{text}") };
        assert_eq!(list.len(), 1);
        list[0].target.clone()
    };
    let heirs = |text: &str| match target(text) {
        SetTarget::Variable { name, heirs } => (name.as_fixed().unwrap().to_owned(), heirs),
        other => panic!("{other:?}"),
    };
    assert_eq!(heirs("Set(A=1)"), ("A".to_owned(), Heirs::Nobody));
    assert_eq!(heirs("Set(_A=1)"), ("A".to_owned(), Heirs::Children));
    assert_eq!(heirs("Set(__A=1)"), ("A".to_owned(), Heirs::All));
    assert_eq!(target("Set(CALLERID(all)=x <1>)"), SetTarget::CallerAll);
    assert_eq!(target("Set(CALLERID(number)=1)"), SetTarget::CallerNumber);
    assert_eq!(target("Set(TIMEOUT(absolute)=1)"), SetTarget::AbsoluteTimeout);
    assert_eq!(target("Set(CDR(userfield)=1)"), SetTarget::Mark("CDR(userfield)"));
    assert!(matches!(target("Set(GLOBAL(A)=1)"), SetTarget::Global(_)));
    assert!(matches!(target("Set(LOCAL(A)=1)"), SetTarget::Local(_)));
    assert!(matches!(target("Set(DB(a/${N})=1)"), SetTarget::Database(..)));
    assert!(matches!(target("Set(ARRAY(A,B)=1,2)"), SetTarget::Array(names) if names.len() == 2));
    let header = |text: &str| match target(text) {
        SetTarget::Header(change, name) => (change, name.as_fixed().unwrap().to_owned()),
        other => panic!("{other:?}"),
    };
    assert_eq!(header("Set(PJSIP_HEADER(add,X-A)=1)"), (HeaderChange::Add, "X-A".to_owned()));
    assert_eq!(header("SIPAddHeader(X-A: b: c)"), (HeaderChange::Add, "X-A".to_owned()));
    assert_eq!(header("SIPRemoveHeader(X-)"), (HeaderChange::Remove, "X-".to_owned()));
    let App::Set(list) = apps("'MSet(A=1,B=\"x,y\",C=${CUT(LIST,-,1)})'").remove(0) else {
        panic!()
    };
    let values: Vec<_> =
        list.iter().map(|it| it.value.rendered(&World { drawn: Cell::new(0) }).unwrap()).collect();
    assert_eq!(values, ["1".into(), "\"x,y\"".into(), Box::<str>::from("a")]);
}

#[test]
fn dp_loops_know_their_ends() {
    let all = apps(
        "'While($[${N} > 1])', 'ExecIf($[${N} = 5]?ExitWhile())', 'While(1)', 'ContinueWhile', \
         'EndWhile', 'EndWhile', 'Hangup'",
    );
    let jumps: Vec<(String, u16)> = all
        .iter()
        .filter_map(|app| match app {
            App::While { after, .. } => Some(("While".to_owned(), *after)),
            App::Jump { name, to } => Some(((*name).to_owned(), *to)),
            App::ExecIf(execution) => match execution.branch(true).map(|inner| &inner.app) {
                Some(App::Jump { name, to }) => Some(((*name).to_owned(), *to)),
                _ => None,
            },
            _ => None,
        })
        .collect();
    let wanted = [
        ("While", 6),
        ("ExitWhile", 6),
        ("While", 5),
        ("ContinueWhile", 2),
        ("EndWhile", 2),
        ("EndWhile", 0),
    ];
    assert_eq!(jumps, wanted.map(|(name, to)| (name.to_owned(), to)));
}

#[test]
fn dp_gosub_takes_its_arguments_with_it() {
    let all = apps(
        "{ app = 'Gosub', args = ['default', '100', 'sub(${N},b c)'], label = 'sub' }, \
         'GosubIf($[1]?sub(1,(2,3)):sub)', 'Return(${N})'",
    );
    let App::Gosub { test: None, yes: Some(call), no: None } = &all[0] else { panic!() };
    assert_eq!((call.args.len(), call.target.step.as_fixed()), (2, Some("sub")));
    let App::Gosub { test: Some(_), yes: Some(yes), no: Some(no) } = &all[1] else { panic!() };
    assert_eq!((yes.args.len(), no.args.len()), (2, 0));
    assert_eq!(yes.args[1].as_fixed(), Some("(2,3)"));
}

#[test]
fn dp_times_of_a_variable_hold_like_written_ones() {
    let world = World { drawn: Cell::new(0) };
    let test = |text: &str| match apps(&format!("'GotoIfTime({text}?1)'")).remove(0) {
        App::GotoIf { test, .. } => test,
        other => panic!("{other:?}"),
    };
    assert_eq!(test("03:00-03:20,mon-tue,1,dec").holds(&world), Ok(true));
    assert_eq!(test("03:21-03:30").holds(&world), Ok(false));
    let computed = test("0${IF(1?3:4)}:00-03:20");
    assert!(matches!(&computed, Test::Time(Clock::Computed(_))));
    assert_eq!(computed.holds(&world), Ok(true));
    assert_eq!(test("${WORD}").holds(&world), Ok(false));
}

#[test]
fn dp_an_include_with_times_counts_at_these_times_only() {
    let plan = plan(
        "[context.default]\ninclude = [{ context = 'day', hours = '09:00-16:59', days = \
         'mon-fri' }, \
         { context = 'night' }]\n[context.day]\ninclude = ['deep']\n\
         [[context.day.exten]]\nmatch = '_1XX'\nsteps = ['NoOp(day)']\n\
         [[context.deep.exten]]\nmatch = '7'\nsteps = ['NoOp']\n\
         [[context.night.exten]]\nmatch = '_1XX'\nsteps = ['NoOp(night)']\n",
    );
    assert!(plan.has_times());
    let context = |hour, weekday, number| {
        let at = Moment { hour, weekday, day: 1, month: 1, ..Moment::default() };
        let who = Seeker { caller: "", at: Some(at) };
        plan.find_complete("default", number, who).map(|id| plan.context_of(id))
    };
    assert_eq!(context(9, 1, "100"), Some("day"));
    assert_eq!(context(17, 1, "100"), Some("night"));
    assert_eq!(context(9, 0, "100"), Some("night"));
    assert_eq!((context(9, 5, "7"), context(9, 6, "7")), (Some("deep"), None));
    let at = Moment { hour: 20, ..Moment::default() };
    let account = plan.explain("default", "100", Seeker { caller: "", at: Some(at) });
    assert!(account.contains("context 'day' (not searched: it is included at other times)"));
    let listed: Vec<_> =
        plan.listing(Some("default")).flat_map(dialplan::ContextView::includes).collect();
    assert_eq!(listed, [("day", "09:00-16:59,mon-fri,*,*"), ("night", "")]);
}

#[test]
fn dp_hints_name_devices_and_may_be_patterns() {
    let plan = plan(
        "[context.default]\ninclude = ['more']\n[[context.default.hint]]\nexten = '100'\n\
         device = 'SIP/100&PJSIP/101'\n[[context.more.hint]]\nexten = '_2XX'\n\
         device = 'SIP/p${EXTEN}'\n",
    );
    let devices = |number| plan.hint("default", number, "");
    assert_eq!(devices("100"), Some(vec!["SIP/100".into(), "PJSIP/101".into()]));
    assert_eq!(devices("205"), Some(vec!["SIP/p205".into()]));
    assert_eq!(devices("300"), None);
}

#[test]
fn dp_special_extensions_are_found_by_name_only() {
    let plan = plan(
        "[[context.default.exten]]\nmatch = '_.'\nsteps = ['NoOp']\n\
         [[context.other.exten]]\nmatch = 'h'\nsteps = ['NoOp']\n",
    );
    assert_eq!(plan.find_named("default", "h", ""), None);
    assert!(plan.find_named("other", "h", "").is_some());
}
