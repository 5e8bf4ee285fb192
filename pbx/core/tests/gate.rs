//! Who comes in and who does not: strangers, caps, overload and the end of the program.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{World, in_dialog, invite};
use pbx_core::{Directory, Fact, Refused};

const CALLER: &str = "127.0.0.1:5071";

/// The caller's INVITE number `n`: another call each time.
fn another(n: u32) -> String {
    invite("answer")
        .replace("z9hG4bK-1", &format!("z9hG4bK-c{n}"))
        .replace("c1@x", &format!("c{n}@x"))
}

fn status(sent: &[(String, String)]) -> &str {
    &sent.last().expect("something was sent").1[8..11]
}

#[test]
fn a_stranger_gets_403_and_leaves_no_state() {
    let mut world = World::new();
    for n in 0..50 {
        let sent = world.receive("192.0.2.66:5060", &another(n));
        assert_eq!((sent.len(), status(&sent)), (1, "403"));
        let ack = another(n).replace("INVITE", "ACK");
        assert!(world.receive("192.0.2.66:5060", &ack).is_empty());
    }
    assert_eq!(world.shard.counts().refused[Refused::Stranger.index()], 50);
    let counts = world.shard.counts();
    assert_eq!((counts.transactions.servers, counts.transactions.tombstones), (0, 0));
    assert!(
        world
            .out
            .facts
            .iter()
            .all(|fact| matches!(fact, Fact::Refused { why: Refused::Stranger, .. }))
    );
    assert!(world.wait(Duration::from_secs(40)).is_empty(), "nothing is repeated");
}

#[test]
fn rubbish_of_a_stranger_is_not_worth_an_answer() {
    let mut world = World::new();
    let broken = another(1).replace("CSeq: 1 INVITE", "CSeq: abc INVITE");
    assert!(world.receive("192.0.2.66:5060", &broken).is_empty());
    assert_eq!(status(&world.receive(CALLER, &broken)), "400");
    assert_eq!(world.shard.counts().malformed, 2);
}

#[test]
fn an_invite_that_waited_too_long_is_shed() {
    let mut world = World::new();
    let sent = world.receive_late(CALLER, &another(1), Duration::from_millis(201));
    assert_eq!(status(&sent), "503");
    assert!(sent[0].1.contains("Retry-After: "));
    let sent = world.receive_late(CALLER, &another(2), Duration::from_millis(199));
    assert_eq!(status(&sent), "200");
    // A repeat of a call that is in is no new call, and its dialog is served however late.
    assert!(world.receive_late(CALLER, &another(2), Duration::from_secs(1)).is_empty());
    let to = common::header(&sent[1].1, "To").to_owned();
    let bye = in_dialog("BYE", &to, 2, "b").replace("c1@x", "c2@x");
    assert_eq!(status(&world.receive_late(CALLER, &bye, Duration::from_secs(1))), "200");
}

#[test]
fn the_soft_cap_refuses_new_calls_only() {
    let mut world = World::with(common::PLAN, |_| {}, |limits| limits.calls_soft_max = 3);
    let statuses: Vec<_> =
        (0..5).map(|n| status(&world.receive(CALLER, &another(n))).to_owned()).collect();
    assert_eq!(statuses, ["200", "200", "200", "503", "503"]);
    assert_eq!(world.shard.counts().refused[Refused::CallsMax.index()], 2);
}

#[test]
fn the_hard_cap_refuses_when_the_table_is_full() {
    let mut world = World::with(
        common::PLAN,
        |_| {},
        |limits| (limits.calls_max, limits.calls_soft_max) = (2, 1000),
    );
    let statuses: Vec<_> =
        (0..3).map(|n| status(&world.receive(CALLER, &another(n))).to_owned()).collect();
    assert_eq!(statuses, ["200", "200", "503"]);
    assert_eq!(world.shard.counts().full, 1);
}

#[test]
fn a_trunk_has_its_own_cap() {
    let mut world = World::with(common::PLAN, |trunk| trunk.calls_max = Some(1), |_| {});
    assert_eq!(status(&world.receive(CALLER, &another(1))), "200");
    assert_eq!(status(&world.receive(CALLER, &another(2))), "503");
    assert_eq!(world.shard.counts().refused[Refused::TrunkMax.index()], 1);
}

#[test]
fn a_reload_keeps_running_calls_and_counts_them_by_name() {
    let mut world = World::with(common::PLAN, |trunk| trunk.calls_max = Some(1), |_| {});
    let sent = world.receive(CALLER, &another(1));
    let to = common::header(&sent[1].1, "To").to_owned();
    let plan = dialplan::parse(&[(
        "p",
        "[[context.default.exten]]\nmatch = \"x\"\nsteps = [\"Busy()\"]\n",
    )]);
    let directory = World::directory(|trunk| trunk.calls_max = Some(1));
    world.shard.reload(Arc::new(plan.unwrap_or_else(|e| panic!("{e}"))), Arc::new(directory));
    assert_eq!(status(&world.receive(CALLER, &another(2))), "503", "the call still counts");
    let bye = in_dialog("BYE", &to, 2, "b");
    assert_eq!(status(&world.receive(CALLER, &bye)), "200");
    assert_eq!(status(&world.receive(CALLER, &another(3))), "404", "the new plan is in force");
    // A trunk that is gone lets nobody in.
    let plan = dialplan::parse(&[("p", common::PLAN)]).unwrap_or_else(|e| panic!("{e}"));
    world.shard.reload(Arc::new(plan), Arc::new(Directory::default()));
    assert_eq!(status(&world.receive(CALLER, &another(4))), "403");
}

#[test]
fn a_drain_refuses_new_calls_and_serves_running_ones() {
    let mut world = World::new();
    let sent = world.receive(CALLER, &another(1));
    let to = common::header(&sent[1].1, "To").to_owned();
    world.receive(CALLER, &in_dialog("ACK", &to, 1, "a"));
    world.shard.drain(true);
    assert_eq!(status(&world.receive(CALLER, &another(2))), "503");
    let options = another(3).replace("INVITE", "OPTIONS");
    assert_eq!(status(&world.receive(CALLER, &options)), "503", "health checks see it");
    let now = world.now;
    assert_eq!(world.shard.hangup_some(now, 10, &mut world.out), 0, "none is left");
    let sent = world.drain();
    assert!(sent[0].1.starts_with("BYE "), "{sent:?}");
    assert_eq!(world.out.records.len(), 1);
}
