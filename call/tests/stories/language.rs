//! The language of the plan as calls run it: subroutines, loops, what is set, events, limits.

use std::time::Duration;

use crate::world::{Stage, answered, leg, one};
use call::*;

/// What the steps say by Verbose(0,...), with the call's end.
fn said(world: &Stage) -> Vec<String> {
    let texts = world.facts.iter().filter_map(|fact| match fact {
        CallFact::Verbose { text, .. } => Some(text.to_string()),
        CallFact::Log { level, text, .. } => Some(format!("{level:?}: {text}")),
        _ => None,
    });
    texts.collect()
}

/// A world whose call ran these steps of `x` in the context `in`, with more plan behind.
fn ran(steps: &str, more: &str) -> Stage {
    let plan = format!("[[context.in.exten]]\nmatch = 'x'\nsteps = [{steps}]\n{more}");
    let mut world = Stage::new(&plan);
    world.call("x");
    world
}

#[test]
fn dp_a_subroutine_gets_arguments_and_gives_a_value_back() {
    let world = ran(
        "'Set(ARG1=mine)', 'Gosub(sub,1,start(a b,${EXTEN}))', \
         'Verbose(0,${GOSUB_RETVAL}/${ARG1}/${ARG2}/${EXTEN})', 'Hangup'",
        "[[context.in.exten]]\nmatch = 'sub'\nsteps = \
         ['NoOp']\n[context.sub]\n[[context.sub.exten]]\nmatch = '1'\n\
         steps = [{ app = 'Set', args = ['LOCAL(T)=${ARG1}-${ARG2}-${ARGC}-${EXTEN}'], label = \
         'start' }, 'Return(${T})']\n",
    );
    assert_eq!(said(&world), ["a b-x-2-1/mine//x"]);
}

#[test]
fn dp_a_subroutine_without_an_end_ends_the_call() {
    let mut world = ran("{ app = 'Gosub', args = ['again'], label = 'again' }", "");
    while world.calls.has_runnable() {
        world.resume();
    }
    assert_eq!(world.faults(), [CallFault::GosubTooDeep]);
    let world = ran("'Return(1)'", "");
    assert_eq!(world.faults(), [CallFault::NothingToReturnTo]);
}

#[test]
fn dp_loops_run_as_often_as_their_condition_holds() {
    let world = ran(
        "'Set(N=0)', 'While($[${N} < 9])', 'Set(N=$[${N} + 1])', 'ExecIf($[${N} = \
         2]?ContinueWhile())', \
         'ExecIf($[${N} = 5]?ExitWhile())', 'Verbose(0,${N})', 'EndWhile', 'Verbose(0,end ${N})'",
        "",
    );
    assert_eq!(said(&world), ["1", "3", "4", "end 5"]);
}

#[test]
fn dp_a_loop_without_an_end_ends_the_call() {
    let mut world = ran("'While(1)', 'NoOp', 'EndWhile'", "");
    while world.calls.has_runnable() {
        world.resume();
    }
    assert_eq!(world.faults(), [CallFault::EndlessPlan]);
}

#[test]
fn dp_a_place_that_is_not_there_is_the_business_of_i() {
    let steps = "'Set(N=404)', 'Goto(${N},1)'";
    let world = ran(
        steps,
        "[[context.in.exten]]\nmatch = 'i'\nsteps = ['Verbose(0,no ${INVALID_EXTEN} in \
         ${CONTEXT})']\n",
    );
    assert_eq!(
        (said(&world), world.faults()),
        (vec!["no 404 in in".into()], vec![CallFault::GotoNowhere])
    );
    // Without it, and for a fault of `i` itself, the call ends.
    let mut world = ran(steps, "");
    assert_eq!(world.told(), ["0 release 1"]);
    let mut world = ran(steps, "[[context.in.exten]]\nmatch = 'i'\nsteps = ['Goto(${N},1)']\n");
    assert_eq!(world.told(), ["0 release 1"]);
}

#[test]
fn dp_h_runs_once_when_the_call_ends_and_knows_why() {
    let h = "[[context.in.exten]]\nmatch = 'h'\nsteps = ['Verbose(0,${HANGUPCAUSE} ${A} \
    ${CHANNEL(state)})', \
             'Set(DB(calls/last)=${CALLERID(num)})', 'Wait(1)', 'Verbose(0,never)']\n";
    let mut world = Stage::new(&format!(
        "[[context.in.exten]]\nmatch = 'x'\nsteps = ['Set(A=kept)', 'Answer', 'Wait(9)']\n{h}"
    ));
    let a = world.call_offering("x", Some(crate::world::REAL));
    world.gone(a, Cause::NORMAL_CLEARING);
    assert_eq!(said(&world), ["16 kept Down"]);
    assert_eq!(world.things.kept.borrow().get("calls/last").map(String::as_str), Some("301"));
    assert_eq!(world.finish(a).ended_by, EndedBy::Caller);
    // When the plan is over it runs as well; an endless one is cut off.
    let world = ran("'Hangup(17)'", h);
    assert_eq!(said(&world), ["17  Ring"]);
    let world = ran("'Hangup'", "[[context.in.exten]]\nmatch = 'h'\nsteps = ['Goto(1)']\n");
    assert_eq!(world.records.len(), 1);
}

#[test]
fn dp_t_runs_when_an_overlap_caller_is_silent() {
    let mut world = Stage::new(
        "[[context.in.exten]]\nmatch = '123'\nsteps = ['NoOp']\n\
         [[context.in.exten]]\nmatch = 't'\nsteps = ['Verbose(0,silent)']\n",
    );
    world.may_grow = true;
    world.call("12");
    world.pass(Duration::from_secs(6));
    assert_eq!(said(&world), ["silent"]);
}

#[test]
fn dp_an_absolute_timeout_goes_on_at_capital_t() {
    let steps =
        "'Set(TIMEOUT(absolute)=60)', 'Answer', 'Verbose(0,${TIMEOUT(absolute)})', 'Wait(900)'";
    let t = "[[context.in.exten]]\nmatch = 'T'\nsteps = ['Verbose(0,over)', 'Hangup(31)']\n";
    let plan = |more: &str| format!("[[context.in.exten]]\nmatch = 'x'\nsteps = [{steps}]\n{more}");
    let mut world = Stage::new(&plan(t));
    let a = world.call_offering("x", Some(crate::world::REAL));
    world.pass(Duration::from_secs(59));
    assert_eq!(said(&world), ["60"]);
    world.pass(Duration::from_secs(2));
    assert_eq!(said(&world), ["60", "over"]);
    assert_eq!(world.finish(a).q850, 31);
    let mut world = Stage::new(&plan(""));
    let a = world.call_offering("x", Some(crate::world::REAL));
    world.pass(Duration::from_secs(61));
    assert_eq!((world.finish(a).q850, world.armed()), (16, 1));
}

#[test]
fn dp_an_absolute_timeout_that_is_taken_back_ends_nothing() {
    let mut world =
        one("'Set(TIMEOUT(absolute)=1)', 'Set(TIMEOUT(absolute)=0)', 'Answer', 'Wait(30)'");
    world.call_offering("x", Some(crate::world::REAL));
    world.pass(Duration::from_secs(20));
    assert!(world.records.is_empty());
}

#[test]
fn dp_dial_ends_the_talk_after_its_limit() {
    let mut world = one("'Dial(SIP/a,30,L(5000)S(7))'");
    let a = world.call("x");
    world.event(leg(a, 1), answered("B"));
    world.pass(Duration::from_millis(4_900));
    assert!(world.records.is_empty());
    world.pass(Duration::from_millis(200));
    assert_eq!(world.records.len(), 1);
}

#[test]
fn dp_a_limit_that_is_no_number_is_said_and_takes_nothing_back() {
    let mut world = one("'Set(TIMEOUT(absolute)=5)', 'Set(TIMEOUT(absolute)=soon)', 'Answer', \
    'Wait(30)'");
    let a = world.call_offering("x", Some(crate::world::REAL));
    assert_eq!(world.faults(), [CallFault::NotSeconds]);
    world.pass(Duration::from_secs(6));
    assert_eq!(world.finish(a).q850, 16);
}

#[test]
fn dp_a_caller_who_was_served_is_not_told_of_a_later_failure() {
    let mut world = one("'Answer', 'Dial(SIP/a)'");
    let a = world.call_offering("x", Some(crate::world::REAL));
    world.gone(leg(a, 1), Cause::USER_BUSY);
    world.gone(a, Cause::NORMAL_CLEARING);
    assert_eq!(world.finish(a).q850, 16);
}

#[test]
fn dp_a_dial_leaves_its_times_and_its_peer() {
    let mut world = one("'Dial(SIP/a,30,g)', 'Verbose(0,${DIALEDPEERNAME} ${DIALEDTIME} \
    ${ANSWEREDTIME})'");
    let a = world.call("x");
    world.pass(Duration::from_secs(3));
    world.event(leg(a, 1), answered("B"));
    world.pass(Duration::from_secs(7));
    world.gone(leg(a, 1), Cause::NORMAL_CLEARING);
    assert_eq!(said(&world), ["SIP/a-00000001 10 7"]);
}

#[test]
fn dp_a_dial_inside_an_exec_if_is_a_dial() {
    let mut world =
        one("'ExecIf($[${EXTEN} = x]?Dial(SIP/a&SIP/b,30,g):NoOp())', 'Verbose(0,${DIALSTATUS})'");
    let a = world.call("x");
    world.gone(leg(a, 1), Cause::USER_BUSY);
    world.gone(leg(a, 2), Cause::USER_BUSY);
    assert_eq!(said(&world), ["BUSY"]);
}

#[test]
fn dp_what_is_set_is_read_again() {
    let world = ran(
        "'MSet(A=1,B=two)', 'Set(GLOBAL(G)=all)', 'Set(DB(f/k)=v)', 'Set(ARRAY(P,Q)=p,q)', \
         'Set(CALLERID(all)=\"Bob\" <302>)', 'Set(CDR(userfield)=u)', \
         'Verbose(0,${A}${B} ${G} ${GLOBAL(G)} ${DB(f/k)}${DB_EXISTS(f/k)} ${P}${Q} \
         ${CALLERID(all)} ${CDR(userfield)})', \
         'Verbose(0,${DB_DELETE(f/k)}${DB_EXISTS(f/k)} ${RAND(1,6)} ${DEVICE_STATE(SIP/100)} \
         ${EXTENSION_STATE(9@in)} ${HINT(9@in)} ${DIALPLAN_EXISTS(in,x)})', \
         'Log(WARNING,${CHANNEL(channeltype)} ${CHANNEL(peerip)})', 'DBdeltree(f)'",
        "[[context.in.hint]]\nexten = '9'\ndevice = 'SIP/100&SIP/101'\n",
    );
    let wanted = [
        "1two all all v1 pq \"Bob\" <302> u",
        "v0 6 INUSE RINGINUSE SIP/100&SIP/101 1",
        "Warning: SIP 192.0.2.7",
    ];
    assert_eq!(said(&world), wanted);
    let marks = world.records[0].marks.as_ref().map(|marks| marks.userfield.to_string());
    assert_eq!(marks.as_deref(), Some("u"));
}

#[test]
fn dp_a_full_world_is_said_and_the_plan_goes_on() {
    let mut world = one("'Set(GLOBAL(G)=all)', 'Set(DB(f/k)=v)', 'Verbose(0,on)'");
    world.things.is_full = true;
    world.call("x");
    assert_eq!(world.faults(), [CallFault::NoRoom, CallFault::NoRoom]);
    assert_eq!(said(&world), ["on"]);
}

#[test]
fn dp_header_lines_are_added_read_and_never_forged() {
    let mut world =
        one("'Set(PJSIP_HEADER(add,X-A)=1)', 'SIPAddHeader(X-B: ${SIP_HEADER(x-mark)})', \
         'Set(PJSIP_HEADER(update,x-a)=2)', 'Set(N=Via)', 'Set(PJSIP_HEADER(add,${N})=evil)', \
         'Set(PJSIP_HEADER(add,X-C)=${PJSIP_HEADER(read,X-Mark,2)})', 'SIPRemoveHeader(X-C)', \
         'Dial(SIP/a)'");
    world.headers = "Via: a\nX-Mark: first\nX-Mark: second\n";
    world.call("x");
    assert_eq!(world.faults(), [CallFault::HeaderRefused]);
    let placed = world.commands.iter().find_map(|(_, command)| match command {
        LegCommand::Place(placement) => Some(placement.headers.clone()),
        _ => None,
    });
    let wanted: Vec<(Box<str>, Box<str>)> =
        vec![("X-B".into(), "first".into()), ("x-a".into(), "2".into())];
    assert_eq!(placed, Some(wanted));
}

#[test]
fn dp_variables_go_to_local_legs_as_marked() {
    let mut world = one("'Set(_A=1)', 'Set(__B=2)', 'Set(C=3)', 'Dial(Local/9@in/n&SIP/a)'");
    world.call("x");
    let placed: Vec<Vec<String>> = world
        .commands
        .iter()
        .filter_map(|(_, command)| match command {
            LegCommand::Place(placement) => Some(
                placement
                    .variables
                    .iter()
                    .map(|it| format!("{}={} {}", it.name, it.value, it.goes_on))
                    .collect(),
            ),
            _ => None,
        })
        .collect();
    assert_eq!(placed, [vec!["A=1 false".to_owned(), "B=2 true".to_owned()], vec![]]);
}
