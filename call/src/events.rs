//! What an event of a leg or a due timer means, given what the call does.

use bytes::Bytes;

use crate::bridge::{Bridge, Next, Side};
use crate::call::{Call, Doing, INBOUND};
use crate::calls::Env;
use crate::cause::Cause;
use crate::facts::CallFact;
use crate::flow;
use crate::interpreter;
use crate::leg::{Description, Foreign, LegCommand, LegEvent, NOBODY, OfferId, RequestId};
use crate::leg_state::LegState;
use crate::out::{CallTimer, TimerKind};
use crate::record::EndedBy;
use crate::search;

/// Something happened on a leg. What only an outbound leg can say means nothing from the inbound
/// one, and the other way round.
pub(crate) fn on_leg(call: &mut Call, leg: u8, event: LegEvent, env: &mut Env<'_, '_>) {
    let state = if leg == INBOUND { Some(call.inbound) } else { call.leg(leg).map(|it| it.state) };
    let is_alive = state.is_some_and(LegState::is_alive);
    if !is_alive && !matches!(event, LegEvent::Released(_)) {
        env.counts.stale += 1;
        return;
    }
    match event {
        LegEvent::MoreDigits { digits, may_grow } => {
            if leg == INBOUND && matches!(call.doing, Doing::Digits) {
                interpreter::on_digits(call, &digits, may_grow, env);
            }
        }
        LegEvent::Proceeding => {}
        LegEvent::Alerting { early, answer } => {
            search::on_alerting(call, (leg, early), answer, env);
        }
        LegEvent::Progress { early, inband, answer } => {
            search::on_progress(call, (leg, early), inband, answer, env);
        }
        LegEvent::Answered { early, session } => {
            search::on_answered(call, (leg, early), session, env);
        }
        LegEvent::Offer(id, offer) => on_offer(call, leg, id, offer, env),
        LegEvent::OfferWanted(id) => on_offer_wanted(call, leg, id, env),
        LegEvent::Answer(id, answer) => on_answer(call, leg, id, answer, env),
        LegEvent::OfferRefused(id, cause) => on_offer_refused(call, leg, id, cause, env),
        LegEvent::Hold(held) => pass(call, leg, LegCommand::Hold(held), env),
        LegEvent::Digit(digit) => pass(call, leg, LegCommand::Digit(digit), env),
        LegEvent::Foreign(request, foreign) => on_foreign(call, leg, request, foreign, env),
        LegEvent::ForeignReply(request, status, foreign) => {
            pass(call, leg, LegCommand::ForeignReply(request, status, foreign), env);
        }
        // Not built: the far end learns so, and the call stays as it is.
        LegEvent::Transfer { request, .. } => {
            call.command(leg, LegCommand::TransferProgress(request, NOBODY), env);
        }
        LegEvent::Released(cause) if leg == INBOUND => on_caller_gone(call, &cause, env),
        LegEvent::Released(cause) => on_callee_gone(call, leg, cause, env),
    }
}

/// A timer is due.
pub(crate) fn on_timer(call: &mut Call, timer: CallTimer, env: &mut Env<'_, '_>) {
    if timer.kind == TimerKind::Limit {
        return on_limit(call, timer, env);
    }
    if !call.is_due(timer, env) {
        return;
    }
    match &call.doing {
        Doing::Digits => interpreter::on_digits_timeout(call, env),
        Doing::Search(_) => search::on_timeout(call, env),
        Doing::Pause { then: None } => call.doing = Doing::Ready,
        Doing::Pause { then: Some(cause) } => {
            let cause = cause.clone();
            call.end(cause, EndedBy::Plan, env);
        }
        // Nothing is armed in these.
        Doing::Ready | Doing::Bridge(_) | Doing::Ended => env.counts.stale += 1,
    }
}

/// The call's time is over: its plan goes on at `T`, else it ends.
fn on_limit(call: &mut Call, timer: CallTimer, env: &mut Env<'_, '_>) {
    let Some(limit) = call.is_limit_due(timer, env) else { return };
    if matches!(call.doing, Doing::Ended) {
        return;
    }
    if limit.is_absolute && flow::run_special(call, "T", env) {
        call.release_others(INBOUND, Cause::NORMAL_CLEARING.q850, env);
        call.disarm();
        call.doing = Doing::Ready;
    } else {
        call.end(Cause::NORMAL_CLEARING, EndedBy::Plan, env);
    }
}

/// An operator ends an outbound leg.
pub(crate) fn hang_up(call: &mut Call, leg: u8, cause: Cause, env: &mut Env<'_, '_>) {
    if call.leg(leg).is_some_and(|leg| leg.state.is_alive()) {
        call.release(leg, cause.clone(), env);
        lose(call, leg, cause, EndedBy::Operator, env);
    }
}

/// The bridge that the leg is in, and its side of it.
fn bridge_of(call: &mut Call, leg: u8) -> Option<(&mut Bridge, Side)> {
    let Doing::Bridge(bridge) = &mut call.doing else { return None };
    match leg {
        INBOUND => Some((bridge, Side::Caller)),
        peer if peer == bridge.peer => Some((bridge, Side::Callee)),
        _ => None,
    }
}

/// Whether the leg's session is one of ours: answered by us, with nobody behind.
fn is_alone(call: &Call, leg: u8) -> bool {
    leg == INBOUND && call.inbound == LegState::Up
}

fn on_offer(call: &mut Call, leg: u8, id: OfferId, offer: Description, env: &mut Env<'_, '_>) {
    let fresh = call.mint_offer();
    if let Some((bridge, side)) = bridge_of(call, leg) {
        let next = bridge.exchange.on_offer(side, id, offer, fresh);
        follow(call, side, next, env);
    } else if is_alone(call, leg) {
        let command = match call.describe(&offer) {
            Ok(answer) => LegCommand::AnswerOffer(id, answer),
            Err(_) => LegCommand::RefuseOffer(id, Cause::INCOMPATIBLE),
        };
        call.command(leg, command, env);
    } else {
        refuse_for_glare(call, leg, id, env);
    }
}

fn on_offer_wanted(call: &mut Call, leg: u8, id: OfferId, env: &mut Env<'_, '_>) {
    let fresh = call.mint_offer();
    if let Some((bridge, side)) = bridge_of(call, leg) {
        let next = bridge.exchange.on_wanted(side, id, fresh);
        follow(call, side, next, env);
    } else if is_alone(call, leg) {
        let offer = call.describe_first();
        call.command(leg, LegCommand::Offer(id, offer), env);
    } else {
        refuse_for_glare(call, leg, id, env);
    }
}

/// The session of a leg that nobody answered is not there to be changed.
fn refuse_for_glare(call: &Call, leg: u8, id: OfferId, env: &mut Env<'_, '_>) {
    env.counts.glares += 1;
    call.command(leg, LegCommand::RefuseOffer(id, Cause::GLARE), env);
}

/// The answer to an inactive offer of our own says nothing that we need; others pass.
fn on_answer(call: &mut Call, leg: u8, id: OfferId, answer: Description, env: &mut Env<'_, '_>) {
    if let Some((bridge, side)) = bridge_of(call, leg) {
        let next = bridge.exchange.on_answer(side, id, answer);
        follow(call, side, next, env);
    }
}

fn on_offer_refused(call: &mut Call, leg: u8, id: OfferId, cause: Cause, env: &mut Env<'_, '_>) {
    if let Some((bridge, side)) = bridge_of(call, leg) {
        let next = bridge.exchange.on_refused(side, id, cause);
        follow(call, side, next, env);
    }
}

/// Does what the bridge says after `side` said something.
fn follow(call: &mut Call, side: Side, next: Next, env: &mut Env<'_, '_>) {
    match next {
        Next::Tell(to, command) => {
            // Who is told something on his own word is refused.
            env.counts.glares += u64::from(to == side);
            let Doing::Bridge(bridge) = &call.doing else { return };
            let leg = if to == Side::Caller { INBOUND } else { bridge.peer };
            call.command(leg, command, env);
        }
        Next::End(cause) => call.end(cause, EndedBy::Plan, env),
        Next::Stale => env.counts.stale += 1,
    }
}

/// Tells the other leg, if there is one.
fn pass(call: &mut Call, leg: u8, command: LegCommand, env: &mut Env<'_, '_>) {
    if let Some((bridge, side)) = bridge_of(call, leg) {
        let other = if side == Side::Caller { bridge.peer } else { INBOUND };
        call.command(other, command, env);
    }
}

fn on_foreign(
    call: &mut Call,
    leg: u8,
    request: RequestId,
    foreign: Foreign,
    env: &mut Env<'_, '_>,
) {
    if bridge_of(call, leg).is_some() {
        pass(call, leg, LegCommand::Foreign(request, foreign), env);
    } else {
        let reply = Foreign { kind: foreign.kind, head: Bytes::new(), body: Bytes::new() };
        call.command(leg, LegCommand::ForeignReply(request, NOBODY, reply), env);
    }
}

fn on_caller_gone(call: &mut Call, cause: &Cause, env: &mut Env<'_, '_>) {
    if call.inbound == LegState::Gone {
        env.counts.stale += 1;
        return;
    }
    call.inbound = LegState::Gone;
    let channel = call.channel();
    hung_up(channel, cause, env);
    call.end(cause.clone(), EndedBy::Caller, env);
}

fn on_callee_gone(call: &mut Call, leg: u8, cause: Cause, env: &mut Env<'_, '_>) {
    let Some(index) = call.legs.iter().position(|known| known.number == leg) else {
        env.counts.stale += 1;
        return;
    };
    let gone = call.legs.remove(index);
    hung_up(gone.channel, &cause, env);
    if gone.state.is_alive() {
        lose(call, leg, cause, EndedBy::Callee, env);
    }
}

/// The call lost an outbound leg that it had use for.
fn lose(call: &mut Call, leg: u8, cause: Cause, by: EndedBy, env: &mut Env<'_, '_>) {
    match &call.doing {
        Doing::Search(_) => search::on_released(call, cause, env),
        Doing::Bridge(bridge) if bridge.peer == leg => {
            let go_on = bridge.go_on;
            if go_on {
                // The caller waits for what the callee would have said to his offer.
                if let Some(id) = bridge.exchange.open_by(Side::Caller) {
                    call.command(INBOUND, LegCommand::RefuseOffer(id, cause.clone()), env);
                }
                call.cause = Some(cause);
                search::note_times(call, env);
                call.doing = Doing::Ready;
            } else {
                call.end(cause, by, env);
            }
        }
        Doing::Digits | Doing::Ready | Doing::Pause { .. } | Doing::Bridge(_) | Doing::Ended => {}
    }
}

fn hung_up(channel: crate::Channel, cause: &Cause, env: &mut Env<'_, '_>) {
    let (q850, code) = (cause.q850, cause.code());
    env.cx.out.facts.push(CallFact::Hungup { channel, q850, code });
}
