//! What an event of a leg or a due timer means, given what the call does.

use crate::bridge::{Bridge, Next, Side};
use crate::call::{Call, Doing, INBOUND};
use crate::calls::Env;
use crate::cause::Cause;
use crate::facts::CallFact;
use crate::interpreter;
use crate::leg::{Description, LegCommand, LegEvent, NOBODY, OfferId};
use crate::leg_state::LegState;
use crate::out::CallTimer;
use crate::record::EndedBy;
use crate::search;

/// Something happened on a leg.
pub(crate) fn on_leg(call: &mut Call, leg: u8, event: LegEvent, env: &mut Env<'_, '_>) {
    let state =
        if leg == INBOUND { Some(call.inbound) } else { call.leg(leg).map(|leg| leg.state) };
    match event {
        LegEvent::Released(cause) if leg == INBOUND => on_caller_gone(call, &cause, env),
        LegEvent::Released(cause) => on_callee_gone(call, leg, cause, env),
        _ if !state.is_some_and(LegState::is_alive) => env.counts.stale += 1,
        _ if leg == INBOUND => on_inbound(call, event, env),
        _ => on_outbound(call, leg, event, env),
    }
}

/// A timer is due.
pub(crate) fn on_timer(call: &mut Call, timer: CallTimer, env: &mut Env<'_, '_>) {
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

/// An operator ends an outbound leg.
pub(crate) fn hang_up(call: &mut Call, leg: u8, cause: Cause, env: &mut Env<'_, '_>) {
    if call.leg(leg).is_some_and(|leg| leg.state.is_alive()) {
        call.release(leg, cause.clone(), env);
        lose(call, leg, cause, EndedBy::Operator, env);
    }
}

fn on_inbound(call: &mut Call, event: LegEvent, env: &mut Env<'_, '_>) {
    match event {
        LegEvent::MoreDigits { digits, may_grow } => {
            if matches!(call.doing, Doing::Digits) {
                interpreter::on_digits(call, &digits, may_grow, env);
            }
        }
        LegEvent::Offer(..)
        | LegEvent::OfferWanted(_)
        | LegEvent::Answer(..)
        | LegEvent::OfferRefused(..) => on_session(call, INBOUND, event, env),
        LegEvent::Hold(_)
        | LegEvent::Digit(_)
        | LegEvent::Transfer { .. }
        | LegEvent::Foreign(..)
        | LegEvent::ForeignReply(..) => on_request(call, INBOUND, event, env),
        // A caller neither rings nor answers, and its end was dealt with.
        LegEvent::Proceeding
        | LegEvent::Alerting { .. }
        | LegEvent::Progress { .. }
        | LegEvent::Answered { .. }
        | LegEvent::Released(_) => env.counts.stale += 1,
    }
}

fn on_outbound(call: &mut Call, leg: u8, event: LegEvent, env: &mut Env<'_, '_>) {
    match event {
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
        LegEvent::Offer(..)
        | LegEvent::OfferWanted(_)
        | LegEvent::Answer(..)
        | LegEvent::OfferRefused(..) => on_session(call, leg, event, env),
        LegEvent::Hold(_)
        | LegEvent::Digit(_)
        | LegEvent::Transfer { .. }
        | LegEvent::Foreign(..)
        | LegEvent::ForeignReply(..) => on_request(call, leg, event, env),
        // Only a caller dials, and a leg's end was dealt with.
        LegEvent::MoreDigits { .. } | LegEvent::Released(_) => env.counts.stale += 1,
    }
}

/// The leg's side of the bridge, if it is in one.
fn side_of(call: &Call, leg: u8) -> Option<Side> {
    match &call.doing {
        Doing::Bridge(_) if leg == INBOUND => Some(Side::Caller),
        Doing::Bridge(bridge) if leg == bridge.peer => Some(Side::Callee),
        Doing::Digits
        | Doing::Ready
        | Doing::Pause { .. }
        | Doing::Search(_)
        | Doing::Bridge(_)
        | Doing::Ended => None,
    }
}

fn number_of(bridge: &Bridge, side: Side) -> u8 {
    match side {
        Side::Caller => INBOUND,
        Side::Callee => bridge.peer,
    }
}

/// Offers and answers: through the bridge, or dealt with here when the leg is on its own.
fn on_session(call: &mut Call, leg: u8, event: LegEvent, env: &mut Env<'_, '_>) {
    let Some(side) = side_of(call, leg) else { return on_session_alone(call, leg, event, env) };
    let fresh = match event {
        LegEvent::Offer(..) | LegEvent::OfferWanted(_) => call.mint_offer(),
        _ => OfferId(0), // not used
    };
    let Doing::Bridge(bridge) = &mut call.doing else { return };
    let next = match event {
        LegEvent::Offer(id, offer) => bridge.exchange.on_offer(side, id, offer, fresh),
        LegEvent::OfferWanted(id) => bridge.exchange.on_wanted(side, id, fresh),
        LegEvent::Answer(id, answer) => bridge.exchange.on_answer(side, id, answer),
        LegEvent::OfferRefused(id, cause) => bridge.exchange.on_refused(side, id, cause),
        _ => return,
    };
    match next {
        Next::Tell(to, command) => {
            let is_glare = to == side;
            env.counts.glares += u64::from(is_glare);
            let number = number_of(bridge, to);
            call.command(number, command, env);
        }
        Next::End(cause) => call.end(cause, EndedBy::Plan, env),
        Next::Stale => env.counts.stale += 1,
    }
}

fn on_session_alone(call: &mut Call, leg: u8, event: LegEvent, env: &mut Env<'_, '_>) {
    let is_ours = leg == INBOUND && call.inbound == LegState::Up;
    match event {
        LegEvent::Offer(id, offer) if is_ours => {
            let command = answered(call, id, &offer);
            call.command(leg, command, env);
        }
        LegEvent::OfferWanted(id) if is_ours => {
            let offer = call.describe_first();
            call.command(leg, LegCommand::Offer(id, offer), env);
        }
        // The session of a leg that nobody answered is not there to be changed.
        LegEvent::Offer(id, _) | LegEvent::OfferWanted(id) => {
            env.counts.glares += 1;
            call.command(leg, LegCommand::RefuseOffer(id, Cause::GLARE), env);
        }
        // The answer to our own inactive offer says nothing that we need.
        _ => {}
    }
}

fn answered(call: &mut Call, id: OfferId, offer: &Description) -> LegCommand {
    match call.describe(offer) {
        Ok(answer) => LegCommand::AnswerOffer(id, answer),
        Err(_) => LegCommand::RefuseOffer(id, Cause::INCOMPATIBLE),
    }
}

/// What passes from one leg to the other as it is. Without another leg, requests get an answer.
fn on_request(call: &mut Call, leg: u8, event: LegEvent, env: &mut Env<'_, '_>) {
    let other = side_of(call, leg).and_then(|side| match &call.doing {
        Doing::Bridge(bridge) => Some(number_of(bridge, side.other())),
        _ => None,
    });
    let (to, command) = match (event, other) {
        (LegEvent::Hold(held), Some(other)) => (other, LegCommand::Hold(held)),
        (LegEvent::Digit(digit), Some(other)) => (other, LegCommand::Digit(digit)),
        (LegEvent::Foreign(request, foreign), Some(other)) => {
            (other, LegCommand::Foreign(request, foreign))
        }
        (LegEvent::ForeignReply(request, status, foreign), Some(other)) => {
            (other, LegCommand::ForeignReply(request, status, foreign))
        }
        (LegEvent::Foreign(request, mut foreign), None) => {
            foreign.head = bytes::Bytes::new();
            foreign.body = bytes::Bytes::new();
            (leg, LegCommand::ForeignReply(request, NOBODY, foreign))
        }
        // Not built: the far end learns so and the call stays as it is.
        (LegEvent::Transfer { request, .. }, _) => {
            (leg, LegCommand::TransferProgress(request, NOBODY))
        }
        _ => return,
    };
    call.command(to, command, env);
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
                call.cause = Some(cause);
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
