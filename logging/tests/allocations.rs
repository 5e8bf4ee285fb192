//! A record allocates nothing on the thread that makes it.

use allocation_counter::measure;
use logging::{Demand, Hub, LaneSize, Levels, Quoted, Shown, notice, verbose};
use turn::Now;

#[test]
fn a_record_allocates_nothing() {
    let _demand = Demand::new("test", "notice,verbose(3)".parse::<Levels>().unwrap());
    let hub = Hub::new(1, Now::default);
    let mut lane = hub.turn_lane("test", 1, LaneSize::SHARD).unwrap();
    let source = std::net::SocketAddr::from(([192, 0, 2, 3], 5060));
    let mut make = |count: u32| {
        for number in 0..count {
            verbose!(3, lane, call = number, "{} {} {}", "name", b"outside", source);
            notice!(lane, from = source, "{} {}", Quoted("caller"), Shown(number));
            verbose!(4, lane, "unwanted {}", number);
        }
    };
    make(1); // the first use of a site makes it known, which allocates once
    let used = measure(|| make(1000));
    assert_eq!(used.count_total, 0);
    assert_eq!(lane.counts().keep_taken, 1001);
    assert_eq!(lane.counts().verbose_taken, 1001);
}
