//! The gate: what opens it, and what a closed one does not do. One test, since the gate is one per
//! process.

use logging::{
    Demand, Hub, LaneSize, Levels, debug, dtmf, error, notice, security, set_debug,
    set_debug_module, set_verbose, verbose, view, warning,
};
use turn::Now;

fn levels(text: &str) -> Levels {
    text.parse().expect("known levels")
}

/// One record of each level; returns how many were taken.
fn one_of_each(lane: &mut logging::Lane) -> u64 {
    let before = lane.counts();
    error!(lane, "e");
    warning!(lane, "w");
    notice!(lane, "n");
    security!(lane, "s");
    verbose!(1, lane, "v1");
    verbose!(3, lane, "v3");
    dtmf!(lane, "d");
    debug!(1, lane, "d1");
    debug!(3, lane, "d3");
    let after = lane.counts();
    assert!(after.is_balanced());
    after.keep_taken + after.verbose_taken - before.keep_taken - before.verbose_taken
}

#[test]
fn a_record_is_made_when_any_sink_wants_it() {
    let hub = Hub::new(1, Now::default);
    let mut lane = hub.turn_lane("test", 1, LaneSize::SHARD).unwrap();
    let lane = &mut lane;

    assert_eq!(one_of_each(lane), 0, "nobody wants anything");
    let mut evaluated = false;
    notice!(lane, "{}", {
        evaluated = true;
        1_u8
    });
    assert!(!evaluated, "the fields of an unwanted record are not evaluated");

    let file = Demand::new("messages", levels("notice,warning,error,verbose"));
    assert_eq!(one_of_each(lane), 3, "verbose = 0 silences VERBOSE, and nothing else");
    set_verbose(1);
    assert_eq!(one_of_each(lane), 4);
    set_verbose(7);
    assert_eq!(one_of_each(lane), 5);
    set_verbose(0);

    let console = Demand::new("console", levels("verbose(3),security,dtmf"));
    assert_eq!(one_of_each(lane), 7, "the highest verbosity of any sink counts");
    let opened = view();
    assert_eq!((opened.verbose, opened.root), (3, 0));
    assert_eq!(opened.sinks[1], ("console".to_owned(), levels("verbose(3),security,dtmf")));
    console.change(levels("security"));
    assert_eq!(one_of_each(lane), 4);
    drop(console);
    assert_eq!(one_of_each(lane), 3, "a sink that has gone wants nothing");

    set_debug(3);
    assert_eq!(one_of_each(lane), 3, "a debug level alone does not open the gate");
    file.change(levels("notice,debug"));
    assert_eq!(one_of_each(lane), 3);
    set_debug(1);
    assert_eq!(one_of_each(lane), 2);
    assert_eq!(set_debug_module("gate", Some(3)), None);
    assert_eq!(one_of_each(lane), 3, "the level of the module goes before the general one");
    assert_eq!(set_debug_module("gat", Some(0)), None);
    assert_eq!(one_of_each(lane), 3, "a name that is only the beginning of a module's is another");
    assert_eq!(set_debug_module("gate", None), Some(3));
    assert_eq!(one_of_each(lane), 2);

    // Verbosity beyond the range is drawn into it.
    file.change(levels("verbose(1)"));
    let before = lane.counts().verbose_taken;
    verbose!(0, lane, "as 1");
    assert_eq!(lane.counts().verbose_taken, before + 1);
    set_verbose(200);
    assert_eq!(view().root, logging::VERBOSITY_MAX);
}
