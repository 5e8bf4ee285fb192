//! Two legs that talk: offers, hold, requests, hang-up.

use bytes::Bytes;

use crate::world::*;
use call::*;

/// A bridged call; the commands so far are gone.
fn bridged(options: &str) -> (Stage, LegId, LegId) {
    let mut world = one(&format!("'Dial(SIP/t/1,,{options})', 'Hangup(42)'"));
    let a = world.call("x");
    world.event(leg(a, 1), answered("B"));
    world.told();
    (world, a, leg(a, 1))
}

#[test]
fn hold_and_resume_pass_through_both_ways() {
    let (mut world, a, b) = bridged("");
    world.event(a, LegEvent::Offer(OfferId(3), description("hold")));
    world.event(b, LegEvent::Answer(OfferId(4), description("held")));
    assert_eq!(world.told(), ["1 offer 4=hold", "0 answer-offer 3=held"]);
    world.event(b, LegEvent::Offer(OfferId(9), description("talk")));
    world.event(a, LegEvent::Answer(OfferId(6), description("talking")));
    assert_eq!(world.told(), ["0 offer 6=talk", "1 answer-offer 9=talking"]);
}

#[test]
fn a_refused_offer_leaves_the_call_as_it_was() {
    let (mut world, a, b) = bridged("");
    world.event(a, LegEvent::Offer(OfferId(3), description("video")));
    world.event(b, LegEvent::OfferRefused(OfferId(4), sip(488, 88)));
    assert_eq!(world.told(), ["1 offer 4=video", "0 refuse 3 88/488"]);
    world.event(a, LegEvent::Offer(OfferId(5), description("hold")));
    assert_eq!(world.told(), ["1 offer 6=hold"]);
}

#[test]
fn offers_of_both_sides_that_cross_are_glare() {
    let (mut world, a, b) = bridged("");
    world.event(a, LegEvent::Offer(OfferId(3), description("hold-a")));
    world.event(b, LegEvent::Offer(OfferId(7), description("hold-b")));
    assert_eq!(world.told(), ["1 offer 4=hold-a", "1 refuse 7 44"]);
    assert_eq!(world.calls.counts().glares, 1);
    world.event(b, LegEvent::Answer(OfferId(4), description("held")));
    world.event(b, LegEvent::Offer(OfferId(9), description("hold-b")));
    let told = world.told();
    assert_eq!(told[0], "0 answer-offer 3=held");
    assert!(told[1].starts_with("0 offer ") && told[1].ends_with("=hold-b"), "{told:?}");
}

#[test]
fn an_empty_reinvite_asks_the_other_side() {
    let (mut world, a, b) = bridged("");
    world.event(a, LegEvent::OfferWanted(OfferId(3)));
    world.event(b, LegEvent::Offer(OfferId(4), description("b-offer")));
    world.event(a, LegEvent::Answer(OfferId(3), description("a-answer")));
    assert_eq!(world.told(), ["1 want 4", "0 offer 3=b-offer", "1 answer-offer 4=a-answer"]);
}

#[test]
fn a_delayed_offer_travels_from_callee_to_caller_and_its_answer_back() {
    let mut world = one("'Dial(SIP/t/1)'");
    let a = world.call_offering("x", None);
    let b = leg(a, 1);
    assert_eq!(world.told(), ["0 proceeding", "1 place t/1 -"]);
    world.event(b, answered_with_offer(1, "b-offer"));
    assert_eq!(world.told(), ["0 answer 0 4=b-offer"]);
    // Until the caller's answer is there, another offer is glare.
    world.event(b, LegEvent::Offer(OfferId(3), description("x")));
    assert_eq!(world.told(), ["1 refuse 3 44"]);
    world.event(a, LegEvent::Answer(OfferId(4), description("a-answer")));
    assert_eq!(world.told(), ["1 answer-offer 1=a-answer"]);
    world.gone(a, Cause::NORMAL_CLEARING);
    assert_eq!(world.told(), ["1 release 16"]);
    assert_eq!(world.finish(a).disposition, Disposition::Answered);
}

#[test]
fn a_caller_who_was_answered_before_gets_the_callees_offer_anew() {
    let mut world = one("'Answer()', 'Dial(SIP/t/1)'");
    let a = world.call_offering("x", Some(REAL));
    let b = leg(a, 1);
    assert_eq!(world.told(), ["0 answer 0 1=v1:inactive", "1 place t/1 -"]);
    world.event(b, rings());
    assert!(world.told().is_empty(), "an answered caller is not told that it rings");
    world.event(b, answered_with_offer(1, "b-offer"));
    assert_eq!(world.told(), ["0 offer 4=b-offer"]);
    world.event(a, LegEvent::Answer(OfferId(4), description("a-answer")));
    assert_eq!(world.told(), ["1 answer-offer 1=a-answer"]);
    world.gone(b, Cause::NORMAL_CLEARING);
    world.finish(a);
}

#[test]
fn a_caller_who_refuses_the_first_offer_ends_the_call() {
    let mut world = one("'Answer()', 'Dial(SIP/t/1)'");
    let a = world.call_offering("x", Some(REAL));
    world.event(leg(a, 1), answered_with_offer(1, "b-offer"));
    world.told();
    world.event(a, LegEvent::OfferRefused(OfferId(4), sip(488, 88)));
    assert_eq!(world.told(), ["1 release 88", "0 release 88/488"]);
    world.finish(a);
}

#[test]
fn an_answer_without_the_description_that_it_owes_is_a_failure_of_that_target() {
    let nothing = || LegEvent::Answered { early: Early(0), session: SessionPart::Unsaid };
    for (offer, event) in
        [(Some("A"), nothing()), (Some("A"), answered_with_offer(1, "b-offer")), (None, nothing())]
    {
        let mut world = one("'Dial(SIP/t/1)'");
        let a = world.call_offering("x", offer);
        world.told();
        world.event(leg(a, 1), event);
        assert_eq!(world.told(), ["1 release 88", "0 release 88"]);
        assert_eq!(world.faults(), [CallFault::AnsweredWithoutDescription]);
        assert_eq!(world.finish(a).disposition, Disposition::Failed);
    }
}

#[test]
fn requests_that_call_does_not_understand_pass_with_their_replies() {
    let (mut world, a, b) = bridged("");
    let info = |body: &'static str| Foreign {
        kind: Bytes::from_static(b"INFO"),
        head: Bytes::new(),
        body: Bytes::from_static(body.as_bytes()),
    };
    world.event(a, LegEvent::Foreign(RequestId(3), info("q")));
    world.event(b, LegEvent::ForeignReply(RequestId(3), 200, info("r")));
    world.event(b, LegEvent::Digit('5'));
    world.event(a, LegEvent::Hold(true));
    let target = Bytes::from_static(b"<sip:c@h>");
    world.event(b, LegEvent::Transfer { request: RequestId(1), target, replaces: None });
    let wanted =
        ["1 foreign 3 INFO", "0 reply 3 200 r", "0 digit 5", "1 hold true", "1 transfer 1 0"];
    assert_eq!(world.told(), wanted);
    // On its own, a leg gets an answer, too.
    let mut world = one("'Answer()', 'Wait(5)'");
    let a = world.call_offering("x", Some(REAL));
    world.told();
    world.event(a, LegEvent::Foreign(RequestId(8), info("q")));
    world.event(a, LegEvent::Digit('1'));
    assert_eq!(world.told(), ["0 reply 8 0 "]);
}

#[test]
fn the_plan_goes_on_after_the_callee_only_when_asked_to() {
    let (mut world, a, b) = bridged("");
    world.gone(b, Cause::NORMAL_CLEARING);
    assert_eq!(world.told(), ["0 release 16"]);
    assert_eq!(world.finish(a).ended_by, EndedBy::Callee);
    let (mut world, a, b) = bridged("g");
    world.gone(b, Cause::NORMAL_CLEARING);
    assert_eq!(world.told(), ["0 release 42"]);
    assert_eq!(world.finish(a).ended_by, EndedBy::Plan);
    let (mut world, a, _) = bridged("g");
    world.gone(a, Cause::NORMAL_CLEARING);
    assert_eq!(world.told(), ["1 release 16"]);
    assert_eq!(world.finish(a).ended_by, EndedBy::Caller);
}

#[test]
fn an_operator_sees_who_talks_to_whom_and_can_hang_up_either() {
    let (mut world, a, b) = bridged("");
    let (views, _) = world.calls.channels(world.now, 0, 10);
    let names: Vec<_> = views.iter().map(|view| (view.name.as_str(), view.app)).collect();
    assert_eq!(names, [("SIP/trunk-a-00000000", "Dial"), ("SIP/t-00000001", "AppDial")]);
    assert_eq!(views[0].bridged_to.as_deref(), Some("SIP/t-00000001"));
    assert_eq!(views[1].bridged_to.as_deref(), Some("SIP/trunk-a-00000000"));
    assert!(views.iter().all(|view| view.state == LegState::Up));
    assert_eq!(world.calls.legs(), 2);
    world.hang_up(b);
    assert_eq!(world.told(), ["1 release 16", "0 release 16"]);
    assert_eq!(world.finish(a).ended_by, EndedBy::Operator);
}
