//! Dial: whom it calls, what the caller hears, how it ends.

use std::time::Duration;

use crate::world::*;
use call::*;

/// Two targets at once, then a step that tells how it ended.
fn both(timeout: &str) -> Stage {
    let mut world = one(&format!(
        "'Dial(SIP/t/1&sip:2@192.0.2.9:5070{timeout})',
         'Verbose(1,${{DIALSTATUS}} ${{HANGUPCAUSE}})'"
    ));
    world.verbose = 1;
    world
}

/// One target after the other, each for 10 s.
fn in_turn() -> Stage {
    let mut world = one("{ app = \"Dial\", targets = [\"SIP/t/1\", \"SIP/t/2\"], \
         mode = \"sequential\", ring_timeout_s = 10 }, 'Verbose(1,${DIALSTATUS} ${HANGUPCAUSE})'");
    world.verbose = 1;
    world
}

fn said(world: &Stage) -> String {
    let text = |fact: &CallFact| match fact {
        CallFact::Verbose { text, .. } => Some(text.to_string()),
        _ => None,
    };
    world.facts.iter().find_map(text).unwrap_or_default()
}

#[test]
fn the_callers_offer_goes_out_untouched_and_the_answer_comes_back() {
    let mut world = one("'Dial(SIP/trunk-b/100)'");
    let a = world.call("x");
    let b = leg(a, 1);
    assert_eq!(world.told(), ["0 proceeding", "1 place trunk-b/100 2=A"]);
    world.event(b, LegEvent::Proceeding);
    world.event(b, rings());
    assert_eq!(world.told(), ["0 alerting 0 -"]);
    world.event(b, answered("B"));
    assert_eq!(world.told(), ["0 answer 0 1=B"]);
    world.pass(Duration::from_secs(7));
    world.gone(b, sip(0, 16));
    assert_eq!(world.told(), ["0 release 16/0"]);
    let record = world.finish(a);
    assert_eq!((record.disposition, record.ended_by), (Disposition::Answered, EndedBy::Callee));
    assert_eq!(record.billed, Duration::from_secs(7));
    assert_eq!(record.peer_channel.unwrap().to_string(), "SIP/trunk-b-00000001");
}

#[test]
fn a_placement_says_who_calls_and_has_one_hop_less() {
    let mut world = one("'Set(CALLERID(num)=77)', 'Dial(SIP/trunk-b/100)'");
    world.hops = 3;
    world.call("x");
    let placement = world.commands.iter().find_map(|(_, command)| match command {
        LegCommand::Place(placement) => Some(placement.clone()),
        _ => None,
    });
    let placement = placement.unwrap();
    assert_eq!((&*placement.caller_number, &*placement.caller_name), ("77", "Ann"));
    assert_eq!(placement.hops, 2);
}

#[test]
fn the_first_to_answer_wins_and_the_others_learn_that_it_was_answered_elsewhere() {
    let mut world = both("");
    let a = world.call("x");
    let (b, c) = (leg(a, 1), leg(a, 2));
    let wanted = ["0 proceeding", "1 place t/1 2=A", "2 place sip:2@192.0.2.9:5070 2=A"];
    assert_eq!(world.told(), wanted);
    world.event(b, rings());
    world.event(c, rings());
    world.event(c, answered("C"));
    assert_eq!(
        world.told(),
        ["0 alerting 0 -", "0 alerting 1 -", "0 answer 1 1=C", "1 release 26"]
    );
    // The other's answer crossed its cancellation.
    world.event(b, answered("B"));
    assert!(world.told().is_empty());
    world.gone(b, sip(487, 16));
    world.gone(c, Cause::NORMAL_CLEARING);
    let record = world.finish(a);
    assert_eq!(record.peer_channel.unwrap().to_string(), "SIP/192.0.2.9:5070-00000002");
}

#[test]
fn early_media_of_each_early_dialog_has_its_own_number_upstream() {
    let mut world = both("");
    let a = world.call("x");
    world.told();
    let answer = |body: &str| Some((OfferId(2), description(body)));
    for n in 0..2 {
        let answer = answer(&format!("B{n}"));
        let event = LegEvent::Progress { early: early(n), inband: true, answer };
        world.event(leg(a, 1), event);
    }
    world.event(leg(a, 2), LegEvent::Alerting { early: early(0), answer: answer("C0") });
    world.event(leg(a, 1), LegEvent::Alerting { early: early(1), answer: None });
    let wanted = [
        "0 progress 0 inband 1=B0",
        "0 progress 1 inband 1=B1",
        "0 alerting 2 1=C0",
        "0 alerting 1 -",
    ];
    assert_eq!(world.told(), wanted);
    // An answer that does not repeat its description means what it said before.
    let session = SessionPart::Unsaid;
    world.event(leg(a, 1), LegEvent::Answered { early: early(1), session });
    assert_eq!(world.told(), ["0 answer 1 1=B1", "2 release 26"]);
}

#[test]
fn early_dialogs_beyond_the_limit_share_one_that_carries_no_early_answer() {
    let mut world = both("");
    let a = world.call("x");
    world.told();
    for n in 0..12 {
        let answer = Some((OfferId(2), description("E")));
        world.event(leg(a, 1), LegEvent::Progress { early: early(n), inband: true, answer });
    }
    let told = world.told();
    assert_eq!(told[6], "0 progress 6 inband 1=E");
    assert!(told[7..].iter().all(|it| it == "0 progress 7 inband -"), "{told:?}");
    assert_eq!(world.calls.counts().early_overflow, 5);
    let session = SessionPart::Answer(OfferId(2), description("late"));
    world.event(leg(a, 1), LegEvent::Answered { early: early(10), session });
    assert_eq!(world.told(), ["0 answer 7 1=late", "2 release 26"]);
}

#[test]
fn ringing_at_once_hides_what_the_targets_send() {
    let mut world = one("'Dial(SIP/t/1,30,r)'");
    let a = world.call("x");
    assert_eq!(world.told(), ["0 proceeding", "0 alerting 0 -", "1 place t/1 2=A"]);
    let answer = Some((OfferId(2), description("E")));
    world.event(leg(a, 1), LegEvent::Progress { early: early(0), inband: true, answer });
    assert!(world.told().is_empty());
    world.event(leg(a, 1), answered("B"));
    assert_eq!(world.told(), ["0 answer 0 1=B"]);
}

#[test]
fn when_all_fail_the_most_telling_cause_counts() {
    for (causes, status, told) in [
        ([sip(486, 17), sip(404, 1)], "BUSY 17", "17/486"),
        ([sip(404, 1), sip(486, 17)], "BUSY 17", "17/486"),
        ([sip(503, 34), sip(404, 1)], "CHANUNAVAIL 1", "1/404"),
        ([sip(503, 34), sip(503, 34)], "CONGESTION 34", "34/503"),
        ([sip(503, 34), sip(500, 41)], "CONGESTION 41", "41/500"),
        ([sip(480, 18), sip(503, 34)], "NOANSWER 18", "18/480"),
        ([sip(302, 23), sip(486, 17)], "CHANUNAVAIL 23", "23/302"),
    ] {
        let mut world = both("");
        let a = world.call("x");
        world.told();
        let [first, second] = causes;
        world.gone(leg(a, 1), first);
        assert!(world.told().is_empty());
        world.gone(leg(a, 2), second);
        assert_eq!(said(&world), status);
        assert_eq!(world.told(), [format!("0 release {told}")]);
        assert_eq!(world.finish(a).ended_by, EndedBy::Plan);
    }
}

#[test]
fn a_refusal_for_all_places_ends_the_search_at_once() {
    for (cause, status) in [(sip(600, 17), "BUSY 17"), (sip(603, 21), "BUSY 21")] {
        let mut world = both("");
        let a = world.call("x");
        world.event(leg(a, 2), rings());
        world.told();
        let code = cause.origin.as_ref().unwrap().code;
        let q850 = cause.q850;
        world.gone(leg(a, 1), cause);
        assert_eq!(world.told(), ["2 release 16".to_owned(), format!("0 release {q850}/{code}")]);
        assert_eq!(said(&world), status);
        let record = world.finish(a);
        assert_eq!((record.disposition, record.code), (Disposition::Busy, code));
    }
}

#[test]
fn redirects_and_retry_after_reach_the_caller_when_dial_was_the_last_word() {
    let mut refusal = sip(302, 23);
    let origin = refusal.origin.as_mut().unwrap();
    origin.contacts = Some(bytes::Bytes::from_static(b"Contact: <sip:b@192.0.2.3>\r\n"));
    origin.retry_after_s = Some(30);
    for steps in ["'Dial(SIP/t/1)'", "'Dial(SIP/t/1)', 'Hangup()'", "'Dial(SIP/t/1)', 'NoOp()'"] {
        let mut world = one(steps);
        let a = world.call("x");
        world.gone(leg(a, 1), refusal.clone());
        assert_eq!(world.commands.last().unwrap().1, LegCommand::Release(refusal.clone()));
    }
    let mut world = one("'Dial(SIP/t/1)', 'Hangup(17)'");
    let a = world.call("x");
    world.gone(leg(a, 1), refusal.clone());
    assert_eq!(world.told().last().unwrap(), "0 release 17");
}

#[test]
fn ring_time_at_once_is_over_for_all_and_nobody_answered() {
    let mut world = both(",20");
    let a = world.call("x");
    world.event(leg(a, 1), rings());
    world.gone(leg(a, 2), sip(486, 17));
    world.told();
    world.pass(Duration::from_millis(19_990));
    assert!(world.told().is_empty());
    world.pass(Duration::from_millis(20));
    assert_eq!(world.told(), ["1 release 16", "0 release 19"]);
    assert_eq!(said(&world), "NOANSWER 19");
    assert_eq!(world.finish(a).disposition, Disposition::NoAnswer);
}

#[test]
fn an_answer_that_crosses_the_end_of_the_ring_time_changes_nothing() {
    let mut world = one("'Dial(SIP/t/1,20)', 'Dial(SIP/t/2)'");
    let a = world.call("x");
    world.pass(Duration::from_secs(21));
    world.told();
    world.event(leg(a, 1), answered("late"));
    world.event(leg(a, 1), rings());
    world.gone(leg(a, 1), sip(487, 16));
    assert!(world.told().is_empty());
    world.event(leg(a, 2), answered("B2"));
    assert_eq!(world.told(), ["0 answer 0 1=B2"]);
    assert!(world.calls.counts().stale > 0);
    // And the other way round: the end of the ring time comes after the answer.
    world.pass(Duration::from_secs(60));
    assert!(world.told().is_empty());
    assert_eq!(world.finish(a).disposition, Disposition::Answered);
}

#[test]
fn targets_in_turn_each_have_their_ring_time() {
    let mut world = in_turn();
    let a = world.call("x");
    assert_eq!(world.told(), ["0 proceeding", "1 place t/1 2=A"]);
    world.event(leg(a, 1), rings());
    world.pass(Duration::from_millis(10_010));
    assert_eq!(world.told(), ["0 alerting 0 -", "1 release 16", "2 place t/2 2=A"]);
    world.pass(Duration::from_millis(9_900));
    assert!(world.told().is_empty());
    world.pass(Duration::from_millis(200));
    assert_eq!(world.told(), ["2 release 16", "0 release 19"]);
    assert_eq!(said(&world), "NOANSWER 19");
    world.finish(a);
    let mut world = in_turn();
    let a = world.call("x");
    world.gone(leg(a, 1), sip(503, 34));
    world.gone(leg(a, 2), sip(486, 17));
    let wanted = ["0 proceeding", "1 place t/1 2=A", "2 place t/2 2=A", "0 release 17/486"];
    assert_eq!(world.told(), wanted);
    world.finish(a);
    let mut world = in_turn();
    let a = world.call("x");
    world.gone(leg(a, 1), sip(603, 21));
    assert_eq!(world.told().last().unwrap(), "0 release 21/603", "nobody else is asked");
    world.finish(a);
}

#[test]
fn a_caller_who_gives_up_cancels_all() {
    let mut world = both(",20");
    let a = world.call("x");
    world.event(leg(a, 1), rings());
    world.told();
    world.gone(a, sip(0, 16));
    assert_eq!(world.told(), ["1 release 16", "2 release 16"]);
    world.pass(Duration::from_secs(60));
    assert!(world.told().is_empty());
    let record = world.finish(a);
    assert_eq!((record.disposition, record.ended_by), (Disposition::NoAnswer, EndedBy::Caller));
    assert_eq!(record.answer, None);
}

#[test]
fn without_hops_or_room_nobody_is_called() {
    let mut world = both("");
    world.hops = 0;
    let a = world.call("x");
    assert_eq!(world.told(), ["0 proceeding", "0 release 25"]);
    assert_eq!(world.faults(), [CallFault::NoHopsLeft; 2]);
    assert_eq!(said(&world), "CHANUNAVAIL 25");
    world.finish(a);
    let limits = CallLimits { legs_per_call_max: 1, ..CallLimits::default() };
    let mut world = both("").limited(limits);
    let a = world.call("x");
    assert_eq!(world.told(), ["0 proceeding", "1 place t/1 2=A"]);
    assert_eq!(world.faults(), [CallFault::LegsFull]);
    assert_eq!(world.calls.counts().legs_full, 1);
    world.gone(leg(a, 1), sip(486, 17));
    assert_eq!(world.told(), ["0 release 17/486"]);
    world.finish(a);
}

#[test]
fn a_plan_that_dials_for_ever_runs_out_of_legs_and_ends() {
    let mut world = one("'Dial(SIP/t/1)', 'Goto(1)'");
    let a = world.call("x");
    for number in 1..=u8::MAX {
        world.gone(leg(a, number), sip(404, 1));
    }
    while world.calls.has_runnable() {
        world.resume();
    }
    assert_eq!(world.told().last().unwrap(), "0 release 25");
    assert_eq!(world.faults().last(), Some(&CallFault::EndlessPlan));
    world.finish(a);
}

#[test]
fn the_plan_goes_on_after_a_failed_dial_and_may_answer_itself() {
    let mut world = one("'Dial(SIP/t/1)', 'Answer()', 'Wait(5)'");
    let a = world.call_offering("x", Some(REAL));
    let answer = Some((OfferId(2), description("E")));
    world.event(leg(a, 1), LegEvent::Progress { early: early(0), inband: true, answer });
    world.told();
    world.gone(leg(a, 1), sip(486, 17));
    // Its first early dialog has an answer already, so ours comes in another one.
    assert_eq!(world.told(), ["0 answer 7 1=v1:inactive"]);
    world.gone(a, Cause::NORMAL_CLEARING);
    assert_eq!(world.finish(a).disposition, Disposition::Answered);
}
