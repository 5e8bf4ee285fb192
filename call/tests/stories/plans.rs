//! The plan: look-up, applications, variables, limits.

use std::time::Duration;

use crate::world::*;
use call::*;

#[test]
fn a_call_is_answered_and_held_until_the_caller_hangs_up() {
    let mut world = one("'Ringing()', 'Answer()', 'Wait(86400)'");
    let a = world.call_offering("x", Some(REAL));
    assert_eq!(world.told(), ["0 alerting 0 -", "0 answer 0 1=v1:inactive"]);
    world.pass(Duration::from_millis(61_500));
    assert!(world.told().is_empty());
    world.gone(a, sip(0, 16));
    let record = world.finish(a);
    assert_eq!(record.disposition, Disposition::Answered);
    assert_eq!((record.ended_by, record.q850), (EndedBy::Caller, 16));
    assert_eq!(record.billed, Duration::from_millis(61_500));
    assert_eq!(record.duration, record.billed);
    assert_eq!(record.text.foreign_id(), "call-1@a");
    let span = record.end.as_micros() - record.start.as_micros();
    assert_eq!(span, 61_500_000);
    assert_eq!(record.id.to_string(), "pbx-1000.0");
}

#[test]
fn the_timers_of_a_long_wait_never_pile_up() {
    let mut world = one("'Answer()', 'Wait(86400)'");
    for _ in 0..5 {
        let a = world.call_offering("x", Some(REAL));
        world.gone(a, Cause::NORMAL_CLEARING);
    }
    assert_eq!(world.armed(), 5);
    world.pass(TIMER_SLICE + Duration::from_millis(8));
    assert_eq!(world.armed(), 0);
    world.records.clear();
    // A living call is woken for each slice and then at the right time.
    let a = world.call_offering("x", Some(REAL));
    world.pass(Duration::from_secs(86_399));
    world.told();
    assert_eq!(world.armed(), 1);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.told(), ["0 release 16"]);
    assert_eq!(world.finish(a).ended_by, EndedBy::Plan);
}

#[test]
fn a_caller_without_an_offer_gets_ours_and_his_answer_is_taken() {
    let mut world = one("'Answer()', 'Wait(9)'");
    let a = world.call_offering("x", None);
    assert_eq!(world.told(), ["0 answer 0 4=v1:inactive"]);
    world.event(a, LegEvent::Answer(OfferId(4), description("his")));
    assert!(world.told().is_empty());
    world.gone(a, Cause::NORMAL_CLEARING);
    assert_eq!(world.finish(a).disposition, Disposition::Answered);
}

#[test]
fn an_offer_that_cannot_be_answered_refuses_the_call() {
    let mut world = one("'Answer()', 'Wait(9)'");
    let a = world.call_offering("x", Some("v=0\r\nm=video 4 RTP/AVP 96\r\n"));
    assert_eq!(world.told(), ["0 release 88"]);
    assert_eq!(world.faults(), [CallFault::Undescribable(sdp::Fault::NothingInCommon)]);
    assert_eq!(world.finish(a).disposition, Disposition::Failed);
}

#[test]
fn the_caller_of_an_answered_call_may_hold_and_ask_for_an_offer() {
    let mut world = one("'Answer()', 'Wait(9)'");
    let a = world.call_offering("x", Some(REAL));
    world.told();
    let hold = format!("{REAL}a=sendonly");
    world.event(a, LegEvent::Offer(OfferId(3), description(&hold)));
    world.event(a, LegEvent::OfferWanted(OfferId(5)));
    world.event(a, LegEvent::Answer(OfferId(5), description("his")));
    world.event(a, LegEvent::Offer(OfferId(7), description("no description")));
    let wanted = ["0 answer-offer 3=v2:inactive", "0 offer 5=v3:inactive", "0 refuse 7 88"];
    assert_eq!(world.told(), wanted);
}

#[test]
fn an_unknown_number_is_refused_and_told_to_the_security_log() {
    let mut world = one("'Answer()'");
    let a = world.call("4711");
    assert_eq!(world.told(), ["0 release 1"]);
    let seen = world.facts.iter().any(|fact| {
        matches!(fact, CallFact::NoExtension { exten, context, peer, caller, .. }
            if &**exten == "4711" && &**context == "in" && &**peer == "192.0.2.7:5060"
                && &**caller == "301")
    });
    assert!(seen, "{:?}", world.facts);
    assert_eq!(world.calls.counts().no_extension, 1);
    let record = world.finish(a);
    assert_eq!((record.disposition, record.ended_by), (Disposition::Failed, EndedBy::Plan));
}

const DIGITS: &str = "[[context.in.exten]]\nmatch = \"_1XX\"\nsteps = ['Ringing()', 'Wait(9)']\n\
    [[context.in.exten]]\nmatch = \"_1XX.\"\nsteps = ['Busy()']\n";

#[test]
fn a_number_that_is_too_short_is_refused_or_waited_for() {
    let mut world = Stage::new(DIGITS);
    let a = world.call("12");
    assert_eq!(world.told(), ["0 release 28"]);
    world.finish(a);
    world.may_grow = true;
    let a = world.call("1");
    let more = |digits: &str, may_grow| LegEvent::MoreDigits { digits: digits.into(), may_grow };
    world.event(a, more("10", true));
    world.event(a, more("100", true));
    assert_eq!(world.told(), ["0 want-digits"; 3]);
    world.pass(Duration::from_secs(6));
    assert_eq!(world.told(), ["0 alerting 0 -"]);
    world.event(a, more("1000", false));
    assert!(world.told().is_empty(), "dialling is over");
    world.gone(a, Cause::NORMAL_CLEARING);
    assert_eq!(world.finish(a).text.digits(), "100");
    let a = world.call("1");
    world.event(a, more("1000", false));
    assert_eq!(world.told(), ["0 want-digits", "0 release 17"]);
    world.finish(a);
    let a = world.call("10");
    world.pass(Duration::from_secs(6));
    assert_eq!(world.told(), ["0 want-digits", "0 release 28"]);
    world.finish(a);
}

#[test]
fn busy_and_congestion_refuse_or_end_after_their_time() {
    for (app, cause, disposition) in
        [("Busy", 17, Disposition::Busy), ("Congestion", 34, Disposition::Congestion)]
    {
        let mut world = one(&format!("'{app}(3)'"));
        let a = world.call("x");
        assert_eq!(world.told(), [format!("0 release {cause}")]);
        assert_eq!(world.finish(a).disposition, disposition);
        let mut world = one(&format!("'Answer()', '{app}(3)', 'Ringing()'"));
        let a = world.call_offering("x", Some(REAL));
        world.told();
        world.pass(Duration::from_millis(2_900));
        assert!(world.told().is_empty());
        world.pass(Duration::from_millis(200));
        assert_eq!(world.told(), [format!("0 release {cause}")]);
        assert_eq!(world.finish(a).disposition, Disposition::Answered);
        let mut world = one(&format!("'Answer()', '{app}()'"));
        let a = world.call_offering("x", Some(REAL));
        world.told();
        world.pass(Duration::from_secs(3_600));
        assert!(world.told().is_empty(), "it waits for the caller");
        world.gone(a, Cause::NORMAL_CLEARING);
        world.finish(a);
    }
}

#[test]
fn hangup_gives_its_cause_and_a_plan_that_ends_clears_normally() {
    for (steps, cause) in [("'Hangup(42)'", 42), ("'Hangup()'", 16), ("'NoOp(x)'", 16)] {
        let mut world = one(steps);
        let a = world.call("x");
        assert_eq!(world.told(), [format!("0 release {cause}")]);
        assert_eq!(u64::from(world.finish(a).q850), cause);
    }
}

#[test]
fn progress_and_ringing_say_nothing_after_the_answer() {
    let mut world =
        one("'Progress()', 'Ringing()', 'Answer()', 'Ringing()', 'Progress()', 'Answer()'");
    let a = world.call_offering("x", Some(REAL));
    let wanted =
        ["0 progress 0 silent -", "0 alerting 0 -", "0 answer 0 1=v1:inactive", "0 release 16"];
    assert_eq!(world.told(), wanted);
    world.finish(a);
}

/// What `Verbose` says of each text.
fn said(world: &Stage) -> Vec<String> {
    let text = |fact: &CallFact| match fact {
        CallFact::Verbose { text, .. } => Some(text.to_string()),
        _ => None,
    };
    world.facts.iter().filter_map(text).collect()
}

#[test]
fn variables_are_there_and_what_they_hold_is_data() {
    let mut world = Stage::new(
        "[globals]\nG = \"global\"\n[[context.in.exten]]\nmatch = \"_X.\"\nsteps = [\n\
         'Set(V=${EXTEN:1}&${G})', 'Set(CALLERID(num)=999)',\n\
         'Verbose(1,${V} ${CONTEXT} ${PRIORITY} ${CHANNEL} ${UNIQUEID} ${NONE})',\n\
         'Verbose(2,not wanted)', 'Set(V=)',\n\
         'Verbose(1,${V}.${CALLERID(num)}.${CALLERID(name)}.${HANGUPCAUSE}.${DIALSTATUS})' ]\n",
    );
    world.verbose = 1;
    let a = world.call("12${G}");
    let wanted = ["2${G}&global in 3 SIP/trunk-a-00000000 pbx-1000.0 ", ".999.Ann.0."];
    assert_eq!(said(&world), wanted);
    assert_eq!(world.finish(a).text.caller_number(), "301", "the record keeps who really called");
}

#[test]
fn goto_leads_by_number_label_extension_and_context() {
    let mut world = Stage::new(
        "[[context.in.exten]]\nmatch = \"x\"\nsteps = [ 'Goto(3)', 'Hangup(1)',\n\
         'GotoIf($[\"${EXTEN}\" = \"x\"]?on:2)', 'Hangup(2)',\n\
         { label = \"on\", app = \"Goto\", args = [\"out\", \"${EXTEN}12\", \"go\"] } ]\n\
         [[context.out.exten]]\nmatch = \"_[x]XX\"\nsteps = ['Hangup(3)',\n\
         { label = \"go\", app = \"Verbose\",\n\
           args = [\"1\", \"${CONTEXT} ${EXTEN} ${PRIORITY}\"] },\n\
         'GotoIf(0?1)', 'Hangup(42)' ]\n",
    );
    world.verbose = 3;
    let a = world.call("x");
    assert_eq!(said(&world), ["out x12 2"]);
    assert_eq!(world.told(), ["0 release 42"]);
    let steps: Vec<_> = world
        .facts
        .iter()
        .filter_map(|fact| match fact {
            CallFact::Step { context, priority, app, .. } => {
                Some(format!("{context} {priority} {app}"))
            }
            _ => None,
        })
        .collect();
    let wanted =
        ["in 1 Goto", "in 3 GotoIf", "in 5 Goto", "out 2 Verbose", "out 3 GotoIf", "out 4 Hangup"];
    assert_eq!(steps, wanted);
    world.finish(a);
}

#[test]
fn a_goto_to_nowhere_ends_the_call_and_says_so() {
    let mut world = one("'Set(T=nowhere)', 'Goto(${T})', 'Answer()'");
    let a = world.call("x");
    assert_eq!(world.told(), ["0 release 1"]);
    assert_eq!(world.faults(), [CallFault::GotoNowhere]);
    world.finish(a);
}

#[test]
fn a_plan_without_a_pause_goes_to_the_run_queue_and_is_ended_at_the_limit() {
    let mut world = one("'NoOp(a)', 'Goto(1)'");
    let a = world.call("x");
    let mut turns = 1;
    while world.calls.has_runnable() {
        assert!(world.told().is_empty());
        world.resume();
        turns += 1;
    }
    assert_eq!(turns, usize::from(STEPS_WITHOUT_PAUSE_MAX) / 64 + 1);
    assert_eq!(world.told(), ["0 release 25"]);
    assert_eq!(world.faults(), [CallFault::EndlessPlan]);
    assert_eq!(world.calls.counts().endless_plans, 1);
    world.finish(a);
}

#[test]
fn a_call_in_the_run_queue_may_be_hung_up() {
    let mut world = one("'NoOp(a)', 'Goto(1)'");
    let a = world.call("x");
    world.gone(a, Cause::NORMAL_CLEARING);
    assert!(world.calls.is_empty());
    world.resume();
    assert!(!world.calls.has_runnable());
    assert_eq!(world.records.len(), 1);
}

#[test]
fn a_loop_that_waits_may_go_on_for_ever() {
    let mut world = one("'Wait(0.1)', 'Goto(1)'");
    let a = world.call("x");
    world.pass(Duration::from_secs(600));
    assert!(world.told().is_empty());
    world.gone(a, Cause::NORMAL_CLEARING);
    assert_eq!(world.finish(a).disposition, Disposition::NoAnswer);
}

#[test]
fn steps_that_cannot_be_done_are_left_out_and_said() {
    let mut world = one("'Set(T=soon)', 'Wait(${T})', 'Wait(0)', 'Hangup()'");
    let a = world.call("x");
    assert_eq!(world.faults(), [CallFault::NotSeconds]);
    assert_eq!(world.told(), ["0 release 16"]);
    world.finish(a);
    let value = "v".repeat(4_000);
    let mut world =
        one(&format!("'Set(A={value})', 'Set(B={value})', 'Set(C={value})', 'Hangup()'"));
    let a = world.call("x");
    assert_eq!(world.faults(), [CallFault::VariablesFull]);
    assert_eq!(world.calls.counts().variables_full, 1);
    world.finish(a);
}

#[test]
fn a_full_table_refuses_the_next_call_and_only_that() {
    let mut world = one("'Wait(9)'").limited(CallLimits { calls_max: 2, ..CallLimits::default() });
    let (a, _) = (world.call("x"), world.call("x"));
    let setup = world.setup("x", None);
    assert_eq!(world.enter(setup), Err(Refusal::Full));
    assert_eq!(world.calls.counts().refused_full, 1);
    world.gone(a, Cause::NORMAL_CLEARING);
    world.call("x");
    assert_eq!(world.calls.len(), 2);
}

#[test]
fn an_operator_sees_channels_in_pages_and_can_hang_one_up() {
    let mut world = one("'Wait(9)'");
    let (a, b) = (world.call("x"), world.call("x"));
    world.told();
    world.pass(Duration::from_secs(2));
    let (page, next) = world.calls.channels(world.now, 0, 1);
    assert_eq!((page.len(), next), (1, Some(1)));
    let (page, next) = world.calls.channels(world.now, 1, 5);
    assert_eq!((page.len(), next), (1, None));
    let view = &page[0];
    assert_eq!(
        (view.name.as_str(), view.app, view.data.as_str()),
        ("SIP/trunk-a-00000001", "Wait", "9")
    );
    assert_eq!((view.state, view.priority), (LegState::Ring, 1));
    assert_eq!(view.duration, Duration::from_secs(2));
    assert_eq!(world.calls.find_channel("SIP/trunk-a-00000001"), Some(b));
    assert_eq!(world.calls.find_channel("SIP/trunk-b-00000001"), None);
    world.hang_up(b);
    assert_eq!(world.told(), ["0 release 16"]);
    assert_eq!(world.records[0].ended_by, EndedBy::Operator);
    world.gone(b, Cause::NORMAL_CLEARING);
    world.gone(a, Cause::NORMAL_CLEARING);
    assert!(world.calls.is_empty());
}
