//! How often the transaction layer allocates for a call: once per provisional response that it
//! keeps for repeats of the INVITE, once per request that it keeps to send again, else never.

#[path = "support/answered_calls.rs"]
mod answered_calls;

use answered_calls::AnsweredCalls;

const CALLS: u64 = 1000;

/// Allocations of `CALLS` calls, after enough of them that all buffers have their size.
fn allocations(mut one: impl FnMut(&mut AnsweredCalls)) -> u64 {
    let mut calls = AnsweredCalls::new();
    for _ in 0..CALLS {
        one(&mut calls);
    }
    assert!(calls.tombstones() <= 2 * CALLS as u32);
    allocation_counter::measure(|| (0..CALLS).for_each(|_| one(&mut calls))).count_total
}

#[test]
fn serving_a_call_allocates_nothing() {
    assert_eq!(allocations(|calls| calls.serve(false)), 0);
}

#[test]
fn a_provisional_is_kept_by_one_allocation() {
    assert_eq!(allocations(|calls| calls.serve(true)), CALLS);
}

#[test]
fn each_request_of_ours_is_kept_by_one_allocation() {
    let count = allocations(AnsweredCalls::call);
    // The timers' places in the wheel grow by doubling, since the clock stands still.
    let growth = u64::from(u64::BITS);
    assert!((2 * CALLS..2 * CALLS + growth).contains(&count), "{count}");
}

#[test]
fn reading_and_the_clock_allocate_nothing() {
    assert_eq!(allocations(AnsweredCalls::only_read), 0);
    assert_eq!(allocations(AnsweredCalls::tick), 0);
}
