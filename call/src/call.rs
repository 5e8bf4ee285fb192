//! One call: an inbound leg that runs the plan, the outbound legs that it placed, and what it does
//! at the moment.
//!
//! ```text
//!            lookup           steps                  Dial            answered
//! Digits ─────────────► Ready ─────► Pause ─► Ready ─────► Search ──────────────► Bridge
//!                         ▲                             │                           │
//!                         └───────── no answer ─────────┘◄── callee gone, option g ─┘
//! any ── caller gone, plan over, operator ──► Ended ── last leg gone ──► removed
//! ```
//!
//! A call is over for accounting when it is `Ended`: its record is written then, while its legs may
//! still be on their way out.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dialplan::{Heirs, Plan};
use turn::{Mono, Slot, Wall};

use crate::bridge::Bridge;
use crate::calls::Env;
use crate::cause::Cause;
use crate::channel::{CallNumber, Channel, Stem};
use crate::early::EarlyDialogs;
use crate::extras::Extras;
use crate::facts::{CallFact, CallFault, DialStatus};
use crate::flow;
use crate::interpreter::Cursor;
use crate::leg::{Description, Early, Endpoint, Heirloom, LegCommand, LegId, OfferId, Setup};
use crate::leg_state::{Leg, LegState};
use crate::out::{CallTimer, TIMER_SLICE, TimerKind};
use crate::record::{Disposition, EndedBy, Marks, Record, UniqueId};
use crate::search::{self, Search};
use crate::text::{Text, cut};
use crate::vars::Vars;

/// The number of the inbound leg.
pub(crate) const INBOUND: u8 = 0;

/// What a call does.
#[derive(Debug)]
pub(crate) enum Doing {
    /// Waits for more digits.
    Digits,
    /// Runs the next step of its plan.
    Ready,
    /// Waits for time to pass, then goes on, or ends when a cause is there.
    Pause { then: Option<Cause> },
    /// Looks for somebody who answers.
    Search(Box<Search>),
    /// Two legs talk.
    Bridge(Bridge),
    /// Is over, and waits for its legs to be gone.
    Ended,
}

/// What the plan says of the caller in place of what the set-up said.
#[derive(Debug, Default)]
pub(crate) struct CallerSet {
    pub(crate) number: Option<Box<str>>,
    pub(crate) name: Option<Box<str>>,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: Slot,
    /// Taken out while an input is worked on, so that the plan and the call can be used together.
    pub(crate) plan: Option<Arc<Plan>>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) text: Text,
    pub(crate) local: IpAddr,
    pub(crate) hops: u8,
    pub(crate) number: CallNumber,
    pub(crate) channel_number: u32,
    pub(crate) began: (Wall, Mono),
    pub(crate) answered: Option<(Wall, Mono)>,
    pub(crate) inbound: LegState,
    /// The caller's offer, until it is answered.
    pub(crate) offer: Option<(OfferId, Description)>,
    /// Outbound legs that are not gone.
    pub(crate) legs: Vec<Leg>,
    pub(crate) legs_used: u8,
    offers_made: u32,
    descriptions_made: u32,
    pub(crate) is_proceeding: bool,
    pub(crate) is_queued: bool,
    /// Runs its last steps.
    is_ending: bool,
    pub(crate) cursor: Cursor,
    pub(crate) doing: Doing,
    pub(crate) early: EarlyDialogs,
    pub(crate) vars: Vars,
    pub(crate) caller_set: Option<Box<CallerSet>>,
    pub(crate) extras: Option<Box<Extras>>,
    pub(crate) dial_status: DialStatus,
    /// Why the last Dial failed, or the bridge ended.
    pub(crate) cause: Option<Cause>,
    /// The outbound leg that answered, else the last one placed.
    pub(crate) peer: Option<Channel>,
    timer_serial: u32,
    deadline: Option<Mono>,
}

impl Call {
    /// A call that has run no step. `id` is the place that the table will give it.
    pub(crate) fn new(id: Slot, plan: Arc<Plan>, setup: Setup, env: &mut Env<'_, '_>) -> Self {
        let began = (env.cx.now.wall, env.cx.now.mono);
        let (vars, extras) = inherited(setup.headers, setup.variables);
        Self {
            id,
            plan: Some(plan),
            endpoint: setup.endpoint,
            text: setup.text,
            local: setup.local,
            hops: setup.hops,
            number: env.numbers.call(),
            channel_number: env.numbers.channel(),
            began,
            answered: setup.is_answered.then_some(began),
            inbound: if setup.is_answered { LegState::Up } else { LegState::Ring },
            offer: setup.offer,
            legs: Vec::new(),
            legs_used: 0,
            offers_made: 0,
            descriptions_made: 0,
            is_proceeding: false,
            is_queued: false,
            is_ending: false,
            cursor: Cursor::default(),
            doing: Doing::Ready,
            early: EarlyDialogs::default(),
            vars,
            caller_set: None,
            extras,
            dial_status: DialStatus::Unset,
            cause: None,
            peer: None,
            timer_serial: 0,
            deadline: None,
        }
    }

    pub(crate) fn channel(&self) -> Channel {
        let stem = Stem::Endpoint(Arc::clone(&self.endpoint));
        Channel { stem, number: self.channel_number, call: self.number }
    }

    pub(crate) fn unique_id(&self, system: &Arc<str>) -> UniqueId {
        let system = Arc::clone(system);
        UniqueId { system, began: self.began.0, number: self.channel_number }
    }

    pub(crate) fn exten(&self) -> &str {
        self.cursor.place.as_ref().map_or_else(|| self.text.digits(), |place| &place.exten)
    }

    pub(crate) fn context(&self) -> &str {
        self.cursor.place.as_ref().map_or(&self.endpoint.context, |place| &place.context)
    }

    pub(crate) fn caller_number(&self) -> &str {
        let set = self.caller_set.as_ref().and_then(|set| set.number.as_deref());
        set.unwrap_or_else(|| self.text.caller_number())
    }

    pub(crate) fn caller_name(&self) -> &str {
        let set = self.caller_set.as_ref().and_then(|set| set.name.as_deref());
        set.unwrap_or_else(|| self.text.caller_name())
    }

    /// The outbound leg with that number.
    pub(crate) fn leg_mut(&mut self, number: u8) -> Option<&mut Leg> {
        self.legs.iter_mut().find(|leg| leg.number == number)
    }

    pub(crate) fn leg(&self, number: u8) -> Option<&Leg> {
        self.legs.iter().find(|leg| leg.number == number)
    }

    pub(crate) fn command(&self, leg: u8, command: LegCommand, env: &mut Env<'_, '_>) {
        env.cx.out.commands.push((LegId { call: self.id, leg }, command));
    }

    pub(crate) fn fault(&self, fault: CallFault, env: &mut Env<'_, '_>) {
        env.cx.out.facts.push(CallFact::Fault {
            channel: self.channel(),
            fault,
            exten: self.exten().into(),
            context: self.context().into(),
            priority: self.cursor.priority(),
        });
    }

    /// A new name for an offer of ours; even, and never that of a placement.
    pub(crate) fn mint_offer(&mut self) -> OfferId {
        self.offers_made += 1;
        OfferId(self.offers_made * 2 + 2)
    }

    /// Lets `kind` become due after `span`; `None` waits without an end. Whatever was armed before
    /// no longer counts.
    pub(crate) fn arm(&mut self, kind: TimerKind, span: Option<Duration>, env: &mut Env<'_, '_>) {
        self.disarm();
        if let Some(span) = span {
            self.deadline = Some(env.cx.now.mono + span);
            self.arm_slice(kind, env);
        }
    }

    pub(crate) fn disarm(&mut self) {
        self.timer_serial = self.timer_serial.wrapping_add(1);
        self.deadline = None;
    }

    /// Whether the timer that came due is over; arms the next slice when it is not.
    pub(crate) fn is_due(&mut self, timer: CallTimer, env: &mut Env<'_, '_>) -> bool {
        let Some(deadline) = self.deadline else { return false };
        if timer.serial != self.timer_serial {
            return false;
        }
        if env.cx.now.mono < deadline {
            self.arm_slice(timer.kind, env);
            return false;
        }
        self.disarm();
        true
    }

    fn arm_slice(&self, kind: TimerKind, env: &mut Env<'_, '_>) {
        let Some(deadline) = self.deadline else { return };
        let at = deadline.min(env.cx.now.mono + TIMER_SLICE);
        env.cx.out.timers.push((at, CallTimer { call: self.id, serial: self.timer_serial, kind }));
    }

    /// Answers the caller and notes when.
    pub(crate) fn answer_caller(
        &mut self,
        early: Early,
        description: Option<(OfferId, Description)>,
        env: &mut Env<'_, '_>,
    ) {
        self.command(INBOUND, LegCommand::Answer { early, description }, env);
        self.inbound = LegState::Up;
        self.answered = Some((env.cx.now.wall, env.cx.now.mono));
        self.offer = None;
        self.early = EarlyDialogs::default();
        env.counts.answered += 1;
    }

    /// Our own answer to an offer of the caller: nobody is there to send or to listen.
    pub(crate) fn describe(&mut self, offer: &Description) -> Result<Description, sdp::Fault> {
        let body = sdp::session_part(&offer.content_type, &offer.body)?;
        let answer = sdp::answer_inactive(body, &self.next_origin())?;
        Ok(described(answer))
    }

    /// Our own offer to a caller who made none.
    pub(crate) fn describe_first(&mut self) -> Description {
        described(sdp::offer_inactive(&self.next_origin()))
    }

    fn next_origin(&mut self) -> sdp::Origin {
        self.descriptions_made += 1;
        // As the unique id: no other session of ours has it, and it fits in 63 bits.
        let seconds = self.began.0.as_micros().unsigned_abs() / 1_000_000 % (1 << 31);
        sdp::Origin {
            address: self.local,
            id: seconds << 32 | u64::from(self.channel_number),
            version: u64::from(self.descriptions_made),
        }
    }

    /// Releases an outbound leg, if it is there to be released.
    pub(crate) fn release(&mut self, number: u8, cause: Cause, env: &mut Env<'_, '_>) {
        let Some(leg) = self.leg_mut(number).filter(|leg| leg.state.is_alive()) else { return };
        leg.state = LegState::Releasing;
        self.command(number, LegCommand::Release(cause), env);
    }

    /// Releases all outbound legs but `spared`.
    pub(crate) fn release_others(&mut self, spared: u8, q850: u8, env: &mut Env<'_, '_>) {
        for index in 0..self.legs.len() {
            let number = self.legs[index].number;
            if number != spared {
                self.release(number, Cause::of(q850), env);
            }
        }
    }

    /// Ends the call: each leg is released, the record is written, and what only a living call
    /// needs is dropped.
    pub(crate) fn end(&mut self, cause: Cause, by: EndedBy, env: &mut Env<'_, '_>) {
        if matches!(self.doing, Doing::Ended) || self.is_ending {
            return;
        }
        self.is_ending = true;
        if env.plan.has_last_steps() {
            search::note_times(self, env);
            flow::run_last(self, &cause, env);
        }
        let q850 = if self.answered.is_some() { cause.q850 } else { 16 };
        self.release_others(INBOUND, q850, env);
        self.record(&cause, by, env);
        if self.inbound.is_alive() {
            self.inbound = LegState::Releasing;
            self.command(INBOUND, LegCommand::Release(cause), env);
        }
        self.doing = Doing::Ended;
        self.disarm();
        self.plan = None;
        self.offer = None;
        self.early = EarlyDialogs::default();
        self.vars = Vars::default();
        self.caller_set = None;
        self.extras = None;
        self.cause = None;
    }

    fn record(&mut self, cause: &Cause, ended_by: EndedBy, env: &mut Env<'_, '_>) {
        let now = env.cx.now;
        let disposition = match self.answered {
            Some(_) => Disposition::Answered,
            None => Disposition::unanswered(cause.q850, ended_by),
        };
        env.counts.ended += 1;
        env.cx.out.records.push(Record {
            id: self.unique_id(env.system),
            call: self.number,
            endpoint: Arc::clone(&self.endpoint),
            text: std::mem::take(&mut self.text),
            channel: self.channel(),
            peer_channel: self.peer.take(),
            start: self.began.0,
            answer: self.answered.map(|(wall, _)| wall),
            end: now.wall,
            duration: now.mono - self.began.1,
            billed: self.answered.map_or(Duration::ZERO, |(_, mono)| now.mono - mono),
            disposition,
            q850: cause.q850,
            code: cause.code(),
            ended_by,
            marks: self.marks(),
        });
    }

    /// What the plan noted for the record.
    fn marks(&self) -> Option<Box<Marks>> {
        let noted = |names: [&str; 2]| names.iter().find_map(|name| self.vars.value(name));
        let account = noted(["CDR(accountcode)", "CHANNEL(accountcode)"]);
        let userfield = noted(["CDR(userfield)", "CHANNEL(userfield)"]);
        if account.is_none() && userfield.is_none() {
            return None;
        }
        let owned = |text: Option<&str>| text.map(cut).unwrap_or_default().into();
        Some(Box::new(Marks { account: owned(account), userfield: owned(userfield) }))
    }

    /// The variables that outbound legs of ours get.
    pub(crate) fn heirlooms(&self) -> Vec<Heirloom> {
        let Some(extras) = &self.extras else { return Vec::new() };
        let value = |name: &str| self.vars.value(name).map(Into::into);
        let one = |(name, heirs): &(Box<str>, Heirs)| {
            let value = value(name)?;
            Some(Heirloom { name: name.clone(), value, goes_on: *heirs == Heirs::All })
        };
        extras.heirlooms.iter().filter_map(one).collect()
    }

    /// Whether nothing of the call is left.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.doing, Doing::Ended) && self.inbound == LegState::Gone && self.legs.is_empty()
    }
}

/// What a call begins with.
fn inherited(headers: Box<str>, variables: Vec<Heirloom>) -> (Vars, Option<Box<Extras>>) {
    if headers.is_empty() && variables.is_empty() {
        return (Vars::default(), None);
    }
    let mut vars = Vars::default();
    let mut extras = Extras { request: headers, ..Extras::default() };
    for heirloom in variables {
        // They had room in a call like this one.
        if vars.set(&heirloom.name, &heirloom.value).is_ok() && heirloom.goes_on {
            extras.heirlooms.push((heirloom.name, Heirs::All));
        }
    }
    (vars, Some(Box::new(extras)))
}

fn described(body: Vec<u8>) -> Description {
    Description { content_type: Bytes::from_static(b"application/sdp"), body: body.into() }
}

impl CallerSet {
    pub(crate) fn set(&mut self, part: CallerPart, value: &str) {
        let value = Some(cut(value).into());
        match part {
            CallerPart::Number => self.number = value,
            CallerPart::Name => self.name = value,
        }
    }
}

/// The parts of a caller's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerPart {
    Number,
    Name,
}
