//! What must hold in an office: while it runs, after each start, and at the end.

use std::collections::BTreeMap;

use call::{Disposition, Record};
use pbx_core::Shard;

use super::Office;
use super::process::{FIRST_EPOCH, goes_on};
use super::registration::Expected;
use super::talk::Talk;
use crate::checks::disposition;
use crate::world::now;

/// Compares the table with what each phone was told.
pub(crate) fn audit(office: &mut Office) {
    let Some(process) = &office.process else { return };
    let now = now(office.now);
    let mut faults = Vec::new();
    for phone in &office.phones {
        let (name, contact) = (&phone.desk.name, format!("sip:{}", phone.desk.contact()));
        let is_there = process.has(name, &contact, now);
        let expected = phone.registration.expected(office.now);
        let is_right = match expected {
            Expected::Bound => is_there,
            Expected::Unbound => !is_there,
            Expected::Unknown => true,
        };
        if !is_right {
            let at = office.now.as_millis();
            faults.push(format!("{at} ms: {name} is {expected:?}, the table says {is_there}"));
        }
    }
    office.faults.append(&mut faults);
}

/// After a start: everything is there that was there before the kill.
pub(crate) fn check_restored(office: &mut Office) {
    let Some(process) = &office.process else { return };
    let now = now(office.now);
    let state = process.state(now);
    office.met.bindings_restored += process.shared.locations.len() as u32;
    let at = office.now.as_millis();
    let is_good = |line: &&String| !is_over(line, now.wall.as_micros());
    let lost = office.before.iter().filter(|line| !state.contains(line)).filter(is_good);
    let risen = state.iter().filter(|line| !office.before.contains(line));
    let lost = lost.map(|line| format!("{at} ms: the start has lost {line}"));
    let risen = risen.map(|line| format!("{at} ms: the start has found {line}"));
    let faults: Vec<String> = lost.chain(risen).collect();
    office.faults.extend(faults);
}

/// Whether a binding's line says that its time is over.
fn is_over(line: &str, now: i64) -> bool {
    let until = line.split("\"expires_at\":").nth(1).and_then(|rest| rest.split(',').next());
    until.and_then(|until| until.parse::<i64>().ok()).is_some_and(|until| until <= now)
}

/// At the end: everything that does not hold; empty for a good run.
pub(crate) fn check(office: &Office) -> Vec<String> {
    let mut faults = office.faults.clone();
    check_tables(office, &mut faults);
    let calls = calls(office);
    for phone in &office.phones {
        faults.extend(phone.registration.faults.iter().cloned());
        for talk in &phone.talks {
            check_talk(&phone.desk.name, talk, &calls, &mut faults);
            if talk.is_caller {
                check_records(&phone.desk.name, talk, office, &calls, &mut faults);
            }
        }
    }
    for (_, record) in &office.journal.records {
        if !is_local(record) && !calls.contains_key(record.text.foreign_id()) {
            faults.push(format!("a record of no call: {record:?}"));
        }
    }
    check_forwards(office, &mut faults);
    faults
}

/// Whether a record is of the other half of a Local leg, on which a call is forwarded.
fn is_local(record: &Record) -> bool {
    record.text.foreign_id().is_empty() && record.endpoint.channel.starts_with("Local/")
}

/// Each call that went on elsewhere has a record of its own, unless a kill met it.
fn check_forwards(office: &Office, faults: &mut Vec<String>) {
    for epoch in FIRST_EPOCH..=office.epoch {
        let wanted = office.forwards.get(&epoch).copied().unwrap_or(0);
        let records = office.journal.records.iter();
        let count = records.filter(|(of, record)| *of == epoch && is_local(record)).count();
        if count > wanted || epoch == office.epoch && count < wanted {
            faults
                .push(format!("{wanted} calls of life {epoch} went on, there are {count} records"));
        }
    }
}

/// Nothing is left in any table, of the shards or of the program.
fn check_tables(office: &Office, faults: &mut Vec<String>) {
    let Some(process) = &office.process else {
        faults.push("the program is not running".to_owned());
        return;
    };
    for (at, shard) in process.shards.iter().enumerate() {
        let kept = ("kept addresses", shard.counts().kept);
        for (what, count) in Shard::leftovers(shard).into_iter().chain([kept]) {
            if count > 0 {
                faults.push(format!("shard {at} has {count} {what} left"));
            }
        }
    }
    let names = process.shared.locations.names();
    if !names.is_empty() {
        faults.push(format!("{names:?} are registered for ever"));
    }
    for phone in process.directory.phones() {
        let (calls, ringing) = (phone.state.calls(), phone.state.ringing());
        if (calls, ringing) != (0, 0) {
            let name = phone.aor();
            faults.push(format!("{name} is left with {calls} legs, of which {ringing} ring"));
        }
    }
}

/// What both sides of a call know of it, by the Call-ID of its caller.
#[derive(Debug, Default)]
struct Call {
    is_excused: bool,
    /// An INVITE has reached somebody.
    is_heard: bool,
    is_answered: bool,
    callee_hung_up: bool,
}

fn calls(office: &Office) -> BTreeMap<&str, Call> {
    let mut calls: BTreeMap<&str, Call> = BTreeMap::new();
    for talk in office.phones.iter().flat_map(|phone| &phone.talks) {
        let id = if talk.is_caller { Some(&*talk.call_id) } else { talk.called_by() };
        let call = calls.entry(id.unwrap_or_default()).or_default();
        call.is_excused |= talk.is_excused;
        if !talk.is_caller {
            call.is_heard = true;
            call.is_answered |= talk.has_answered;
            call.callee_hung_up |= talk.sent_bye;
        }
    }
    calls
}

fn check_talk(name: &str, talk: &Talk, calls: &BTreeMap<&str, Call>, faults: &mut Vec<String>) {
    let id = &talk.call_id;
    if !talk.is_over() {
        faults.push(format!("{name}: {id} is not over: {talk:?}"));
    }
    // Whoever restarts says 481: nobody hangs up in vain.
    let in_vain = talk.faults.iter().filter(|fault| fault.ends_with(" BYE"));
    faults.extend(in_vain.map(|fault| format!("{name}: {id}: {fault}")));
    let caller = if talk.is_caller { Some(&**id) } else { talk.called_by() };
    let call = caller.and_then(|caller| calls.get(caller));
    if call.is_none_or(|call| call.is_excused) {
        return;
    }
    faults.extend(talk.faults.iter().map(|fault| format!("{name}: {id}: {fault}")));
    let is_once = talk.finals.len() == 1 || talk.is_unmade;
    if talk.is_caller && !is_once {
        faults.push(format!("{name}: {id} to {} got the finals {:?}", talk.number, talk.finals));
    }
}

fn check_records(
    name: &str,
    talk: &Talk,
    office: &Office,
    calls: &BTreeMap<&str, Call>,
    faults: &mut Vec<String>,
) {
    let id = &talk.call_id;
    let of_call = office.journal.records.iter().filter(|(_, it)| it.text.foreign_id() == id);
    let of_call: Vec<_> = of_call.collect();
    let mut epochs: Vec<u16> = of_call.iter().map(|(epoch, _)| *epoch).collect();
    epochs.dedup();
    if epochs.len() != of_call.len() {
        faults.push(format!("{id} has {} records of {} lives", of_call.len(), epochs.len()));
    }
    // A call that ended before the kill, or that no kill met, has its record.
    if talk.is_excused {
        return;
    }
    let was_let_in = talk.finals.first().is_some_and(|status| *status != 401);
    let [(_, record)] = &of_call[..] else {
        if of_call.len() != usize::from(was_let_in) {
            let (count, finals) = (of_call.len(), &talk.finals);
            faults.push(format!("{name}: {id} with {finals:?} has {count} records"));
        }
        return;
    };
    let Some(call) = calls.get(&**id).filter(|call| !call.is_excused) else { return };
    let Some(status) = talk.finals.first() else {
        faults.push(format!("{name}: {id} was never let in and has a record"));
        return;
    };
    let wanted = match *status {
        // Also for a number that is registered nowhere: nobody could have answered.
        480 if !call.is_heard => Disposition::Failed,
        // It rang, and nobody was where it went on to.
        480 if record.disposition == Disposition::Failed && goes_on(&talk.number) => {
            Disposition::Failed
        }
        status => disposition(status),
    };
    if record.disposition != wanted {
        let is = record.disposition;
        faults.push(format!("{id} ended with {status}, so {wanted:?}, but its record says {is:?}"));
    }
    if record.text.digits() != talk.number || *record.endpoint.name != *name {
        faults.push(format!("{id} has the record of another call: {record:?}"));
    }
    if record.answer.is_some() != (*status == 200) || record.end < record.start {
        faults.push(format!("{id} has odd times: {record:?}"));
    }
    if *status == 200 && !call.is_answered && talk.number != "echo" {
        faults.push(format!("{id} got a 200 that nobody has given"));
    }
    if *status == 200 && talk.got_bye && !talk.sent_bye && !call.callee_hung_up {
        faults.push(format!("{id} was hung up by nobody"));
    }
}
