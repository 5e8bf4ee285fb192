//! What a call costs a shard, without sockets: time and allocations of an answered and of a
//! bridged call, with the messages that SIPp sends.
//!
//! `cargo bench -p pbx-core` prints microseconds and allocations a call.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // a bench reads the clock

mod world;

use std::time::{Duration, Instant};

use world::{CALLEE, CALLER, SDP, World, request, response, tag_of};

const CALLS: u32 = 100_000;

/// The shard's own time is what is between the lap marks; building messages is not in it.
#[derive(Default)]
struct Lap {
    time: Duration,
    allocations: u64,
    bytes: u64,
}

impl Lap {
    fn of(&mut self, act: impl FnOnce()) {
        let mut time = Duration::ZERO;
        let counted = allocation_counter::measure(|| {
            let start = Instant::now();
            act();
            time = start.elapsed();
        });
        self.time += time;
        self.allocations += counted.count_total;
        self.bytes += counted.bytes_total;
    }

    fn print(&self, what: &str) {
        println!(
            "{what}: {:.2} us, {:.1} allocations, {:.0} bytes allocated a call",
            self.time.as_secs_f64() * 1e6 / f64::from(CALLS),
            self.allocations as f64 / f64::from(CALLS),
            self.bytes as f64 / f64::from(CALLS),
        );
    }
}

fn answered() {
    let mut world = World::new();
    let mut laps: [Lap; 4] = Default::default();
    for n in 0..CALLS {
        let invite = request("INVITE", "answer", n, "", SDP);
        laps[0].of(|| world.receive(CALLER, &invite));
        let tag = tag_of(&world.sent(1));
        let ack = request("ACK", "answer", n, &tag, "");
        laps[1].of(|| world.receive(CALLER, &ack));
        let bye = request("BYE", "answer", n, &tag, "");
        laps[2].of(|| world.receive(CALLER, &bye));
        assert_eq!(world.out.records.len(), 1);
        laps[3].of(|| world.tick());
    }
    for (lap, what) in laps.iter().zip(["INVITE", "ACK", "BYE", "timers"]) {
        lap.print(&format!("answered, {what}"));
    }
}

fn bridged() {
    let mut world = World::new();
    let mut laps: [Lap; 7] = Default::default();
    for n in 0..CALLS {
        let invite = request("INVITE", "bridge", n, "", SDP);
        laps[0].of(|| world.receive(CALLER, &invite));
        let out = world.sent(0);
        let (ringing, ok) = (response(&out, "180 Ringing", ""), response(&out, "200 OK", SDP));
        laps[1].of(|| world.receive(CALLEE, &ringing));
        laps[2].of(|| world.receive(CALLEE, &ok));
        let tag = tag_of(&world.sent(1));
        let ack = request("ACK", "bridge", n, &tag, "");
        laps[3].of(|| world.receive(CALLER, &ack));
        let bye = request("BYE", "bridge", n, &tag, "");
        laps[4].of(|| world.receive(CALLER, &bye));
        let bye_ok = response(&world.sent(1), "200 OK", "");
        laps[5].of(|| world.receive(CALLEE, &bye_ok));
        laps[6].of(|| world.tick());
    }
    let names = ["INVITE", "180", "200", "ACK", "BYE", "200 to BYE", "timers"];
    for (lap, what) in laps.iter().zip(names) {
        lap.print(&format!("bridged, {what}"));
    }
}

fn main() {
    answered();
    bridged();
}
