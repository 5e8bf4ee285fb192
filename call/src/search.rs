//! The search of a Dial: calls its targets at once or in turn until one answers (RFC 3261 16.7 is
//! the model for what a caller learns when none does).
//!
//! ```text
//! start ─► place all ─┬─ answered ──► the caller is answered, the others released (26) ─► bridge
//!          (or next)  ├─ released ──► the last one? in turn: place next, else: failed
//!                     ├─ 6xx ───────► the others released ─► failed
//!                     └─ time over ─► at once: failed (19); in turn: place next
//! ```
//!
//! It owns the outbound legs that are not answered; a leg that was released is none of its business
//! any more, so an answer that crosses the end of the ring time changes nothing.

use std::time::Duration;

use turn::Mono;

use dialplan::{Address, App, Dial, ExtensionId, Mode, Target, Technology};

use crate::bridge::{Bridge, Exchange, Side};
use crate::call::{Call, Doing, INBOUND};
use crate::calls::Env;
use crate::cause::Cause;
use crate::channel::Channel;
use crate::facts::{CallFact, CallFault, DialStatus};
use crate::interpreter::vars;
use crate::leg::{Description, Destination, Early, LegCommand, OfferId, Placement, SessionPart};
use crate::leg_state::{Leg, LegState};
use crate::out::TimerKind;

/// Names the offer in each [`Placement`].
const PLACED: OfferId = OfferId(2);

#[derive(Debug)]
pub(crate) struct Search {
    /// Where the Dial stands.
    step: (ExtensionId, u16, Option<bool>),
    next_target: u8,
    ring_timeout: Option<Duration>,
    /// The most telling cause so far.
    best: Option<Cause>,
    began: Mono,
}

impl Search {
    pub(crate) fn new(
        step: (ExtensionId, u16, Option<bool>),
        ring_timeout: Option<Duration>,
        began: Mono,
    ) -> Self {
        Self { step, next_target: 0, ring_timeout, best: None, began }
    }

    fn dial<'p>(&self, env: &Env<'p, '_>) -> Option<&'p Dial> {
        let step = env.plan.steps(self.step.0).get(usize::from(self.step.1))?;
        let app = match (&step.app, self.step.2) {
            (App::ExecIf(execution), Some(holds)) => &execution.branch(holds)?.app,
            (app, _) => app,
        };
        if let App::Dial(dial) = app { Some(dial) } else { None }
    }

    fn note(&mut self, cause: Cause) {
        if self.best.as_ref().is_none_or(|best| cause.rank() < best.rank()) {
            self.best = Some(cause);
        }
    }
}

/// Places the first targets.
pub(crate) fn start(call: &mut Call, env: &mut Env<'_, '_>) {
    advance(call, env);
}

/// Places what is to be placed next; when nobody is left to wait for, the search has failed.
fn advance(call: &mut Call, env: &mut Env<'_, '_>) {
    loop {
        let Doing::Search(search) = &mut call.doing else { return };
        let Some(dial) = search.dial(env) else { return fail(call, env) };
        let is_done = |call: &Call| !call.legs.iter().any(|leg| leg.state.is_waiting());
        let Some(target) = dial.targets.get(usize::from(search.next_target)) else {
            if is_done(call) {
                fail(call, env);
            }
            return;
        };
        let is_first = search.next_target == 0;
        if dial.mode == Mode::Sequential && !is_done(call) {
            return;
        }
        let Doing::Search(search) = &mut call.doing else { return };
        search.next_target += 1;
        let ring_timeout = search.ring_timeout;
        if dial.mode == Mode::Sequential || is_first {
            call.arm(TimerKind::Ring, ring_timeout, env);
        }
        if let Err(cause) = place(call, (target, dial.stays), env) {
            let Doing::Search(search) = &mut call.doing else { return };
            search.note(cause);
        }
    }
}

fn place(
    call: &mut Call,
    (target, stays): (&Target, bool),
    env: &mut Env<'_, '_>,
) -> Result<(), Cause> {
    if call.hops == 0 {
        env.counts.no_hops += 1;
        call.fault(CallFault::NoHopsLeft, env);
        return Err(Cause::ROUTING_LOOP);
    }
    if call.legs.len() >= usize::from(env.limits.legs_per_call_max) || call.legs_used == u8::MAX {
        env.counts.legs_full += 1;
        call.fault(CallFault::LegsFull, env);
        return Err(Cause::CONGESTION);
    }
    let address = target.address.rendered(&vars(call, env));
    let address = address.map_err(|fault| {
        call.fault(CallFault::Unrenderable(fault), env);
        Cause::NO_ROUTE
    })?;
    call.legs_used += 1;
    let number = call.legs_used;
    let stem = env.numbers.stems.stem(target.technology.name(), place_of(&address));
    let channel = Channel { stem, number: env.numbers.channel(), call: call.number };
    let offered = call.offer.as_ref().map(|(_, offer)| (PLACED, offer.clone()));
    let placement = Placement {
        destination: Destination { technology: target.technology, address },
        caller_number: call.caller_number().into(),
        caller_name: call.caller_name().into(),
        hops: call.hops - 1,
        offer: offered,
        headers: call.extras.as_ref().map(|extras| extras.headers.clone()).unwrap_or_default(),
        variables: if target.technology == Technology::Local { call.heirlooms() } else { vec![] },
        stays,
    };
    env.counts.legs += 1;
    let facts = &mut env.cx.out.facts;
    facts.push(CallFact::NewChannel { channel: channel.clone() });
    facts.push(CallFact::Called { channel: call.channel(), target: channel.clone() });
    call.peer = Some(channel.clone());
    let placed = env.cx.now.mono;
    call.legs.reserve_exact(1);
    call.legs.push(Leg { number, state: LegState::Dialing, channel, placed });
    call.command(number, LegCommand::Place(Box::new(placement)), env);
    Ok(())
}

/// The trunk's name, or `192.0.2.1:5070` of a URI.
fn place_of(address: &Address<Box<str>>) -> &str {
    let place = match address {
        Address::Trunk { name, .. } => name,
        Address::Local { number, .. } => number,
        Address::Uri(uri) => {
            let rest = uri.split_once(':').map_or(&**uri, |(_, rest)| rest);
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            host.split([';', '?', '>']).next().unwrap_or(host)
        }
    };
    crate::text::cut(place)
}

/// An outbound leg rings, perhaps with an early answer.
pub(crate) fn on_alerting(
    call: &mut Call,
    (leg, early): (u8, Early),
    answer: Option<(OfferId, Description)>,
    env: &mut Env<'_, '_>,
) {
    let Some(ringing) = call.leg_mut(leg).filter(|leg| leg.state.is_waiting()) else { return };
    ringing.state = LegState::Ringing;
    let channel = ringing.channel.clone();
    env.cx.out.facts.push(CallFact::Ringing { channel });
    if let Some((early, answer)) = pass_early(call, (leg, early), answer, env) {
        call.inbound = LegState::Ringing;
        call.command(INBOUND, LegCommand::Alerting { early, answer }, env);
    }
}

/// An outbound leg has progress, perhaps early media.
pub(crate) fn on_progress(
    call: &mut Call,
    (leg, early): (u8, Early),
    inband: bool,
    answer: Option<(OfferId, Description)>,
    env: &mut Env<'_, '_>,
) {
    let Some(progressing) = call.leg(leg).filter(|leg| leg.state.is_waiting()) else { return };
    let channel = progressing.channel.clone();
    env.cx.out.facts.push(CallFact::Progressing { channel });
    if let Some((early, answer)) = pass_early(call, (leg, early), answer, env) {
        call.command(INBOUND, LegCommand::Progress { early, inband, answer }, env);
    }
}

/// In which early dialog the caller hears of it, and with which answer to his own offer. Nothing
/// is passed when he is answered already, or hears our ringing (option `r`).
fn pass_early(
    call: &mut Call,
    (leg, early): (u8, Early),
    answer: Option<(OfferId, Description)>,
    env: &mut Env<'_, '_>,
) -> Option<(Early, Option<(OfferId, Description)>)> {
    let Doing::Search(search) = &call.doing else { return None };
    if !call.inbound.is_waiting() || search.dial(env).is_some_and(|dial| dial.ringing) {
        return None;
    }
    let upstream = call.early.upstream(leg, early);
    if upstream.is_shared {
        env.counts.early_overflow += 1;
        return Some((upstream.early, None));
    }
    let offer = call.offer.as_ref().map(|(id, _)| *id);
    let answer = offer.zip(answer).map(|(id, (_, answer))| (id, answer));
    if let Some((_, answer)) = &answer {
        call.early.remember(upstream, answer);
    }
    Some((upstream.early, answer))
}

/// An outbound leg answered: the first one wins.
pub(crate) fn on_answered(
    call: &mut Call,
    (leg, early): (u8, Early),
    session: SessionPart,
    env: &mut Env<'_, '_>,
) {
    let Some(winner) = call.leg_mut(leg).filter(|leg| leg.state.is_waiting()) else { return };
    winner.state = LegState::Up;
    let channel = winner.channel.clone();
    env.cx.out.facts.push(CallFact::Answered { channel: channel.clone() });
    let Doing::Search(search) = &call.doing else { return };
    let (dial, began) = (search.dial(env), search.began);
    let go_on = dial.is_some_and(|dial| dial.go_on);
    let talk_limit = dial.and_then(|dial| dial.talk_limit);
    let Some(exchange) = join(call, (leg, early), session, env) else {
        call.fault(CallFault::AnsweredWithoutDescription, env);
        call.release(leg, Cause::INCOMPATIBLE, env);
        on_released(call, Cause::INCOMPATIBLE, env);
        return;
    };
    call.release_others(leg, Cause::ANSWERED_ELSEWHERE.q850, env);
    call.disarm();
    call.dial_status = DialStatus::Answer;
    call.cause = None;
    call.peer = Some(channel.clone());
    let times = (began, env.cx.now.mono);
    call.doing = Doing::Bridge(Bridge { peer: leg, go_on, exchange, times });
    if talk_limit.is_some() {
        call.limit(talk_limit, false, env);
    }
    env.cx.out.facts.push(CallFact::Bridged { channel: call.channel(), peer: channel });
}

/// Gives the caller what the winner said of the session; `None` when the winner owed a description
/// and gave none.
///
/// | the caller | the winner | so |
/// |---|---|---|
/// | offered | answers (now or early) | the caller is answered with it |
/// | did not offer | offers | the caller is answered with the offer, his answer goes back |
/// | was answered before | offers | the caller gets it as a new offer, his answer goes back |
fn join(
    call: &mut Call,
    (leg, early): (u8, Early),
    session: SessionPart,
    env: &mut Env<'_, '_>,
) -> Option<Exchange> {
    if !call.inbound.is_waiting() {
        let SessionPart::Offer(id, offer) = session else { return None };
        let passed = call.mint_offer();
        call.command(INBOUND, LegCommand::Offer(passed, offer), env);
        return Some(Exchange::initial(Side::Callee, id, passed));
    }
    let upstream = call.early.upstream(leg, early);
    let Some((offer, _)) = call.offer else {
        let SessionPart::Offer(id, description) = session else { return None };
        let passed = call.mint_offer();
        call.answer_caller(upstream.early, Some((passed, description)), env);
        return Some(Exchange::initial(Side::Callee, id, passed));
    };
    let answer = match session {
        SessionPart::Answer(_, answer) => answer,
        SessionPart::Unsaid => call.early.answer(upstream)?,
        SessionPart::Offer(..) => return None,
    };
    call.answer_caller(upstream.early, Some((offer, answer)), env);
    Some(Exchange::Idle)
}

/// An outbound leg that was searched for is gone, or as good as gone.
pub(crate) fn on_released(call: &mut Call, cause: Cause, env: &mut Env<'_, '_>) {
    let Doing::Search(search) = &mut call.doing else { return };
    let is_global = cause.is_global();
    search.note(cause);
    if is_global {
        fail(call, env);
    } else {
        advance(call, env);
    }
}

/// The ring time is over.
pub(crate) fn on_timeout(call: &mut Call, env: &mut Env<'_, '_>) {
    call.release_others(INBOUND, Cause::NORMAL_CLEARING.q850, env);
    let Doing::Search(search) = &mut call.doing else { return };
    let is_parallel = search.dial(env).is_none_or(|dial| dial.mode == Mode::Parallel);
    if is_parallel {
        // Those who refused are no news to somebody who waited for the others.
        search.best = Some(Cause::NO_ANSWER);
        fail(call, env);
    } else {
        search.note(Cause::NO_ANSWER);
        advance(call, env);
    }
}

/// Leaves the times of the Dial that ends, and whom it reached, as Asterisk's variables. What finds
/// no room is left out: they are for statistics.
pub(crate) fn note_times(call: &mut Call, env: &Env<'_, '_>) {
    let (began, answered) = match &call.doing {
        Doing::Search(search) => (search.began, None),
        Doing::Bridge(bridge) => (bridge.times.0, Some(bridge.times.1)),
        Doing::Digits | Doing::Ready | Doing::Pause { .. } | Doing::Ended => return,
    };
    let now = env.cx.now.mono;
    let seconds = |since: Mono| (now - since).as_secs().to_string();
    let peer = call.peer.as_ref().map(ToString::to_string).unwrap_or_default();
    let _ = call.vars.set("DIALEDTIME", &seconds(began));
    let _ = call.vars.set("ANSWEREDTIME", &answered.map(seconds).unwrap_or_default());
    let _ = call.vars.set("DIALEDPEERNAME", &peer);
}

/// Nobody answered: the plan goes on, knowing why.
fn fail(call: &mut Call, env: &mut Env<'_, '_>) {
    note_times(call, env);
    call.release_others(INBOUND, Cause::NORMAL_CLEARING.q850, env);
    call.disarm();
    let Doing::Search(search) = &mut call.doing else { return };
    let cause = search.best.take().unwrap_or(Cause::NO_ROUTE);
    call.dial_status = status_of(&cause);
    call.cause = Some(cause);
    call.doing = Doing::Ready;
    let status = call.dial_status;
    env.cx.out.facts.push(CallFact::Unanswered { channel: call.channel(), status });
}

/// What `DIALSTATUS` says of a cause.
fn status_of(cause: &Cause) -> DialStatus {
    match cause.q850 {
        17 | 21 => DialStatus::Busy,
        16 | 18 | 19 => DialStatus::NoAnswer,
        34 | 38 | 41 | 42 | 44 | 47 => DialStatus::Congestion,
        _ => DialStatus::ChanUnavail,
    }
}
