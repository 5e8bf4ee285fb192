//! Things that happen at once.

use std::time::Duration;

use crate::world::*;
use call::*;

#[test]
fn both_sides_hang_up_at_once() {
    let mut world = one("'Dial(SIP/t/1)'");
    let a = world.call("x");
    let b = leg(a, 1);
    world.event(b, answered("B"));
    world.told();
    world.gone(a, Cause::NORMAL_CLEARING);
    world.gone(b, Cause::NORMAL_CLEARING);
    assert_eq!(world.told(), ["1 release 16"]);
    assert!(world.calls.is_empty());
    assert_eq!(world.records.len(), 1);
    assert_eq!(world.records[0].ended_by, EndedBy::Caller);
    // What still comes finds nothing.
    world.gone(b, Cause::NORMAL_CLEARING);
    world.event(a, LegEvent::Digit('1'));
    assert!(world.told().is_empty());
    assert_eq!(world.calls.counts().stale, 2);
}

#[test]
fn the_callee_answers_while_the_caller_gives_up() {
    let mut world = one("'Dial(SIP/t/1)'");
    let a = world.call("x");
    world.told();
    world.gone(a, sip(487, 16));
    world.event(leg(a, 1), answered("B"));
    assert_eq!(world.told(), ["1 release 16"]);
    let record = world.finish(a);
    assert_eq!((record.disposition, record.code), (Disposition::NoAnswer, 487));
}

#[test]
fn the_record_is_there_while_a_leg_is_still_on_its_way_out() {
    let mut world = one("'Dial(SIP/t/1)'");
    let a = world.call("x");
    world.event(leg(a, 1), answered("B"));
    world.gone(a, Cause::NORMAL_CLEARING);
    assert_eq!((world.records.len(), world.calls.len(), world.calls.legs()), (1, 1, 1));
    let (views, _) = world.calls.channels(world.now, 0, 10);
    assert_eq!(views.len(), 1);
    assert_eq!(views[0].state.as_str(), "Down");
    world.pass(Duration::from_secs(32));
    world.gone(leg(a, 1), Cause::NORMAL_CLEARING);
    assert!(world.calls.is_empty());
    assert_eq!(world.records[0].duration, Duration::ZERO);
}

#[test]
fn a_caller_whom_the_plan_releases_may_still_speak() {
    let mut world = one("'Hangup(17)'");
    let a = world.call("x");
    world.told();
    world.event(a, LegEvent::Offer(OfferId(3), description("x")));
    world.hang_up(a);
    assert!(world.told().is_empty());
    world.gone(a, Cause::NORMAL_CLEARING);
    assert_eq!(world.finish(a).q850, 17);
}

#[test]
fn an_offer_before_the_bridge_is_refused_not_lost() {
    let mut world = one("'Dial(SIP/t/1)'");
    let a = world.call("x");
    world.told();
    world.event(leg(a, 1), LegEvent::Offer(OfferId(3), description("x")));
    world.event(a, LegEvent::OfferWanted(OfferId(5)));
    assert_eq!(world.told(), ["1 refuse 3 44", "0 refuse 5 44"]);
}

#[test]
fn a_stale_key_finds_nothing_also_when_its_place_is_used_again() {
    let mut world = one("'Answer()', 'Wait(3)', 'Hangup(42)'");
    let old = world.call_offering("x", Some(REAL));
    world.gone(old, Cause::NORMAL_CLEARING);
    world.pass(Duration::from_secs(1));
    let new = world.call_offering("x", Some(REAL));
    assert_eq!(old.call.index, new.call.index);
    world.told();
    world.gone(old, Cause::NORMAL_CLEARING);
    world.pass(Duration::from_millis(2_500)); // the old call's timer is due
    assert!(world.told().is_empty());
    world.pass(Duration::from_secs(1));
    assert_eq!(world.told(), ["0 release 42"]);
}

#[test]
fn a_leg_that_was_given_up_no_longer_speaks_for_the_search() {
    let mut world = one("{ app = \"Dial\", targets = [\"SIP/t/1\", \"SIP/t/2\"], \
         mode = \"sequential\", ring_timeout_s = 10 }");
    let a = world.call("x");
    world.pass(Duration::from_secs(11));
    world.told();
    world.gone(leg(a, 1), sip(603, 21)); // its refusal crossed our cancellation
    assert!(world.told().is_empty());
    world.event(leg(a, 2), answered("B2"));
    assert_eq!(world.told(), ["0 answer 0 1=B2"]);
    world.finish(a);
}

#[test]
fn a_timer_of_something_that_is_over_is_not_armed_again() {
    let mut world = one("'Dial(SIP/t/1,20)', 'Wait(100)'");
    let a = world.call("x");
    world.gone(leg(a, 1), sip(486, 17));
    assert_eq!(world.armed(), 2, "the wheel forgets nothing");
    world.pass(TIMER_SLICE + Duration::from_secs(1));
    assert_eq!(world.armed(), 1);
    world.gone(a, Cause::NORMAL_CLEARING);
    world.finish(a);
}
