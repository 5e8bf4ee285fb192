//! What the log costs a call while nobody wants its story: answered and bridged calls
//! through a shard, and what came out into a lane, at verbosity 0.
//!
//! `cargo xtask bench micro` runs it under callgrind twice, with the log macros and without them
//! (`--cfg logging_off`), and compares the instructions of `measured`. Alone it prints nothing but
//! the number of calls.

#[path = "../../pbx/core/benches/world/mod.rs"]
mod world;

use logging::{Demand, Hub, LaneSize, Levels};
use pbx::bench::Facts;
use turn::Now;
use world::{CALLEE, CALLER, SDP, World, request, response, tag_of};

const CALLS: u32 = 3_000;

/// One turn of the shard, as the driver makes it. Callgrind counts what is inside.
#[inline(never)]
fn measured(world: &mut World, facts: &mut Facts, (from, message): (&str, &str)) {
    world.receive(from, message);
    facts.set_now(world.now);
    for fact in &world.out.facts {
        facts.write(fact);
    }
}

fn answered(world: &mut World, facts: &mut Facts, n: u32) {
    measured(world, facts, (CALLER, &request("INVITE", "answer", n, "", SDP)));
    let tag = tag_of(&world.sent(1));
    measured(world, facts, (CALLER, &request("ACK", "answer", n, &tag, "")));
    measured(world, facts, (CALLER, &request("BYE", "answer", n, &tag, "")));
    assert_eq!(world.out.records.len(), 1);
    world.tick();
}

fn bridged(world: &mut World, facts: &mut Facts, n: u32) {
    measured(world, facts, (CALLER, &request("INVITE", "bridge", n, "", SDP)));
    let out = world.sent(0);
    measured(world, facts, (CALLEE, &response(&out, "180 Ringing", "")));
    measured(world, facts, (CALLEE, &response(&out, "200 OK", SDP)));
    let tag = tag_of(&world.sent(1));
    measured(world, facts, (CALLER, &request("ACK", "bridge", n, &tag, "")));
    measured(world, facts, (CALLER, &request("BYE", "bridge", n, &tag, "")));
    let ok = response(&world.sent(1), "200 OK", "");
    measured(world, facts, (CALLEE, &ok));
    world.tick();
}

fn main() {
    let hub = Hub::new(1, Now::default);
    let levels: Levels = "error,warning,notice,security,verbose".parse().expect("known levels");
    let _demand = Demand::new("bench", levels);
    let lane = hub.turn_lane("bench", 1, LaneSize::SHARD).expect("few lanes");
    let mut facts = Facts::new(lane);
    let mut world = World::new();
    for n in 0..CALLS {
        answered(&mut world, &mut facts, 2 * n);
        bridged(&mut world, &mut facts, 2 * n + 1);
    }
    println!("{} calls", 2 * CALLS);
}
