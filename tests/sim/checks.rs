//! What must hold at the end of every run, and the reference model: what the record of a call must
//! say, from nothing but what its caller saw.

use call::{Disposition, EndedBy, Record};

use crate::caller::Caller;
use crate::world::World;

/// Everything that does not hold; empty for a good run.
pub(crate) fn check(world: &World) -> Vec<String> {
    let mut faults = check_ends(world);
    for caller in &world.callers {
        check_record(caller, world, &mut faults);
    }
    faults
}

/// What must hold even where shards lose each other's messages: every call ends, once, everywhere.
pub(crate) fn check_ends(world: &World) -> Vec<String> {
    let mut faults = Vec::new();
    for (at, shard) in world.shards.iter().enumerate() {
        for (what, count) in shard.leftovers() {
            if count > 0 {
                faults.push(format!("shard {at} has {count} {what} left"));
            }
        }
    }
    for caller in &world.callers {
        check_caller(caller, &mut faults);
    }
    if world.records.len() != world.callers.len() {
        let (records, calls) = (world.records.len(), world.callers.len());
        faults.push(format!("{records} records of {calls} calls"));
    }
    for callee in &world.callees {
        faults.extend(callee.faults.iter().cloned());
        if !callee.is_over() {
            let (id, state) = (&callee.call_id, callee.state);
            faults.push(format!("callee {id} ({:?}) is left in {state:?}", callee.mind));
        }
    }
    faults.extend(world.odd_facts.iter().cloned());
    faults
}

fn check_caller(caller: &Caller, faults: &mut Vec<String>) {
    let (id, seen) = (&caller.call_id, &caller.seen);
    if seen.finals.len() != 1 {
        faults.push(format!("{id} to {} got the finals {:?}", caller.plan.number, seen.finals));
    }
    if !seen.unanswered.is_empty() {
        faults.push(format!("{id}: nobody answered {:?}", seen.unanswered));
    }
    if !caller.is_done() {
        faults.push(format!("{id} is not over: {:?}", caller.seen));
    }
    faults.extend(seen.faults.iter().map(|fault| format!("{id}: {fault}")));
}

fn check_record(caller: &Caller, world: &World, faults: &mut Vec<String>) {
    let records: &[Record] = &world.records;
    let id = &caller.call_id;
    let mut of_call = records.iter().filter(|record| record.text.foreign_id() == id);
    let (Some(record), None) = (of_call.next(), of_call.next()) else {
        let count = records.iter().filter(|record| record.text.foreign_id() == id).count();
        faults.push(format!("{id} has {count} records"));
        return;
    };
    let Some(status) = caller.seen.finals.first() else { return };
    let wanted = disposition(*status);
    if record.disposition != wanted {
        let is = record.disposition;
        faults.push(format!("{id} ended with {status}, so {wanted:?}, but its record says {is:?}"));
    }
    if record.text.digits() != caller.plan.number || &*record.endpoint.name != "callers" {
        faults.push(format!("{id} has the record of another call: {record:?}"));
    }
    if record.answer.is_some() != (*status == 200) || record.end < record.start {
        faults.push(format!("{id} has odd times: {record:?}"));
    }
    let callee_hung_up = world.callees.iter().any(|callee| callee.has_hung_up_on(id));
    let ended_by = ended_by(caller, *status, callee_hung_up);
    if !ended_by.contains(&record.ended_by) {
        let is = record.ended_by;
        faults.push(format!("{id} was ended by one of {ended_by:?}, its record says {is:?}"));
    }
}

/// The reference model: what became of a call whose INVITE ended with this status.
pub(crate) fn disposition(status: u16) -> Disposition {
    match status {
        200 => Disposition::Answered,
        486 | 600 | 603 => Disposition::Busy,
        408 | 480 | 487 => Disposition::NoAnswer,
        503 => Disposition::Congestion,
        _ => Disposition::Failed,
    }
}

/// The reference model: who may have ended it. Where two requests crossed, either.
fn ended_by(caller: &Caller, status: u16, callee_hung_up: bool) -> Vec<EndedBy> {
    let seen = &caller.seen;
    match (status, seen.sent_bye, seen.got_bye) {
        // Our BYE waits for the ACK of a re-INVITE's 2xx, and the caller's comes first.
        (200, true, false) if callee_hung_up => vec![EndedBy::Caller, EndedBy::Callee],
        (200, true, false) => vec![EndedBy::Caller],
        (200, false, _) => vec![EndedBy::Callee],
        (200, true, true) => vec![EndedBy::Caller, EndedBy::Callee],
        (487, ..) => vec![EndedBy::Caller],
        _ => vec![EndedBy::Plan],
    }
}
