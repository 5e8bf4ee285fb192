//! A world for calls: legs that do what the story says, virtual time, and commands as short texts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use call::*;
use dialplan::Plan;
use turn::{Mono, Now, Wall, Wheel};

/// A description that our own answer accepts.
pub(crate) const REAL: &str = "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\n\
    t=0 0\r\n\
    m=audio 4000 RTP/AVP 0\r\n";

pub(crate) struct Stage {
    pub(crate) calls: Calls,
    pub(crate) now: Now,
    pub(crate) verbose: u8,
    pub(crate) facts: Vec<CallFact>,
    pub(crate) records: Vec<Record>,
    pub(crate) hops: u8,
    pub(crate) may_grow: bool,
    plan: Arc<Plan>,
    out: CallOut,
    wheel: Wheel<CallTimer>,
    pub(crate) commands: Vec<(LegId, LegCommand)>,
    pub(crate) things: Things,
    pub(crate) headers: &'static str,
}

/// The world of a story: a database and global variables.
#[derive(Debug, Default)]
pub(crate) struct Things {
    pub(crate) kept: RefCell<BTreeMap<String, String>>,
    pub(crate) is_full: bool,
}

impl World for Things {
    fn database(&self, family: &str, key: &str, out: &mut String) -> bool {
        self.global(&format!("{family}/{key}"), out)
    }

    fn set_database(&self, family: &str, key: &str, value: &str) -> bool {
        self.set_global(&format!("{family}/{key}"), value)
    }

    fn delete_database(&self, family: &str, key: &str, is_tree: bool) {
        let start = format!("{family}/{key}");
        let is_it = |known: &str| known == start || (is_tree && known.starts_with(&start));
        self.kept.borrow_mut().retain(|known, _| !is_it(known));
    }

    fn global(&self, name: &str, out: &mut String) -> bool {
        let kept = self.kept.borrow();
        out.push_str(kept.get(name).map_or("", String::as_str));
        kept.contains_key(name)
    }

    fn set_global(&self, name: &str, value: &str) -> bool {
        if !self.is_full {
            self.kept.borrow_mut().insert(name.to_owned(), value.to_owned());
        }
        !self.is_full
    }

    fn device_state(&self, device: &str) -> DeviceState {
        match device {
            "SIP/100" => DeviceState::InUse,
            "SIP/101" => DeviceState::Ringing,
            _ => DeviceState::Unknown,
        }
    }

    fn random(&self, bound: u64) -> u64 {
        bound - 1
    }
}

/// A plan with one extension `x`, whose steps are given as TOML.
pub(crate) fn one(steps: &str) -> Stage {
    Stage::new(&format!("[[context.in.exten]]\nmatch = \"x\"\nsteps = [{steps}]\n"))
}

pub(crate) fn description(body: &str) -> Description {
    let content_type = Bytes::from_static(b"application/sdp");
    Description { content_type, body: Bytes::copy_from_slice(body.as_bytes()) }
}

pub(crate) fn sip(code: u16, q850: u8) -> Cause {
    let technology = dialplan::Technology::Sip;
    let origin = Origin { technology, code, retry_after_s: None, contacts: None };
    Cause { q850, origin: Some(origin) }
}

pub(crate) fn early(n: u8) -> Early {
    Early(n)
}

/// An answer to our offer in a placement.
pub(crate) fn answered(body: &str) -> LegEvent {
    let session = SessionPart::Answer(OfferId(2), description(body));
    LegEvent::Answered { early: Early(0), session }
}

pub(crate) fn answered_with_offer(id: u32, body: &str) -> LegEvent {
    let session = SessionPart::Offer(OfferId(id), description(body));
    LegEvent::Answered { early: Early(0), session }
}

pub(crate) fn rings() -> LegEvent {
    LegEvent::Alerting { early: Early(0), answer: None }
}

pub(crate) fn leg(inbound: LegId, leg: u8) -> LegId {
    LegId { leg, ..inbound }
}

impl Stage {
    pub(crate) fn new(plan: &str) -> Self {
        let plan =
            dialplan::parse(&[("plan.toml", plan)]).unwrap_or_else(|fault| panic!("{fault}"));
        let naming = Naming { system: "pbx".into(), shard: 0, shards: 1 };
        let start = Mono::from_nanos(5_000_000_000);
        Self {
            calls: Calls::new(CallLimits { calls_max: 8, ..CallLimits::default() }, &naming),
            now: Now { mono: start, wall: Wall::from_micros(1_000_000_000), utc_offset_s: 0 },
            verbose: 0,
            facts: Vec::new(),
            records: Vec::new(),
            hops: 70,
            may_grow: false,
            plan: Arc::new(plan),
            out: CallOut::new(),
            wheel: Wheel::new(start),
            commands: Vec::new(),
            things: Things::default(),
            headers: "",
        }
    }

    pub(crate) fn limited(mut self, limits: CallLimits) -> Self {
        let naming = Naming { system: "pbx".into(), shard: 0, shards: 1 };
        self.calls = Calls::new(limits, &naming);
        self
    }

    /// A call with an offer `A`.
    pub(crate) fn call(&mut self, digits: &str) -> LegId {
        self.call_offering(digits, Some("A"))
    }

    pub(crate) fn call_offering(&mut self, digits: &str, offer: Option<&str>) -> LegId {
        let setup = self.setup(digits, offer);
        self.enter(setup).expect("room for a call")
    }

    pub(crate) fn setup(&self, digits: &str, offer: Option<&str>) -> Setup {
        Setup {
            endpoint: Arc::new(Endpoint {
                channel: "SIP/trunk-a".into(),
                name: "trunk-a".into(),
                context: "in".into(),
            }),
            text: Text::pack(&SetupText {
                digits,
                caller_number: "301",
                caller_name: "Ann",
                foreign_id: "call-1@a",
                peer: "192.0.2.7:5060",
            }),
            may_grow: self.may_grow,
            hops: self.hops,
            local: IpAddr::from([127, 0, 0, 1]),
            offer: offer.map(|body| (OfferId(1), description(body))),
            headers: self.headers.into(),
            variables: Vec::new(),
            is_answered: false,
        }
    }

    pub(crate) fn enter(&mut self, setup: Setup) -> Result<LegId, Refusal> {
        let mut cx = Cx {
            now: self.now,
            out: &mut self.out,
            world: &self.things,
            verbose_wanted: self.verbose,
        };
        let entered = self.calls.setup(&mut cx, &self.plan, setup);
        self.drain();
        entered
    }

    pub(crate) fn event(&mut self, leg: LegId, event: LegEvent) {
        let mut cx = Cx {
            now: self.now,
            out: &mut self.out,
            world: &self.things,
            verbose_wanted: self.verbose,
        };
        self.calls.on_leg(&mut cx, leg, event);
        self.drain();
    }

    pub(crate) fn gone(&mut self, leg: LegId, cause: Cause) {
        self.event(leg, LegEvent::Released(cause));
    }

    pub(crate) fn hang_up(&mut self, leg: LegId) {
        let mut cx = Cx {
            now: self.now,
            out: &mut self.out,
            world: &self.things,
            verbose_wanted: self.verbose,
        };
        self.calls.hangup(&mut cx, leg, Cause::NORMAL_CLEARING);
        self.drain();
    }

    pub(crate) fn resume(&mut self) {
        let mut cx = Cx {
            now: self.now,
            out: &mut self.out,
            world: &self.things,
            verbose_wanted: self.verbose,
        };
        self.calls.resume(&mut cx);
        self.drain();
    }

    /// Lets time pass, timer by timer.
    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now.mono + span;
        let mut due = Vec::new();
        while let Some(at) = self.wheel.next_timeout().filter(|at| *at <= end) {
            self.advance_to(at);
            self.wheel.fire(at, &mut due);
            for timer in due.drain(..) {
                let mut cx = Cx {
                    now: self.now,
                    out: &mut self.out,
                    world: &self.things,
                    verbose_wanted: self.verbose,
                };
                self.calls.on_timer(&mut cx, timer);
                self.drain();
            }
        }
        self.advance_to(end);
    }

    pub(crate) fn armed(&self) -> usize {
        self.wheel.len()
    }

    fn advance_to(&mut self, at: Mono) {
        let micros = i64::try_from((at - self.now.mono).as_micros()).expect("a short story");
        self.now.wall = Wall::from_micros(self.now.wall.as_micros() + micros);
        self.now.mono = self.now.mono.max(at);
    }

    fn drain(&mut self) {
        self.commands.append(&mut self.out.commands);
        self.facts.append(&mut self.out.facts);
        self.records.append(&mut self.out.records);
        for (at, timer) in self.out.timers.drain(..) {
            self.wheel.arm(at, timer);
        }
        assert!(self.out.is_empty());
    }

    /// The commands since the last look, as texts.
    pub(crate) fn told(&mut self) -> Vec<String> {
        self.commands
            .drain(..)
            .map(|(leg, command)| format!("{} {}", leg.leg, show(&command)))
            .collect()
    }

    /// The faults so far.
    pub(crate) fn faults(&self) -> Vec<CallFault> {
        let fault = |fact: &CallFact| match fact {
            CallFact::Fault { fault, .. } => Some(*fault),
            _ => None,
        };
        self.facts.iter().filter_map(fault).collect()
    }

    /// The one record, when all legs that were released are gone and the table is empty.
    pub(crate) fn finish(&mut self, inbound: LegId) -> Record {
        for number in 0..=u8::MAX {
            self.gone(leg(inbound, number), Cause::NORMAL_CLEARING);
        }
        assert_eq!((self.calls.len(), self.calls.legs()), (0, 0), "something is left");
        assert_eq!(self.records.len(), 1, "each call has one record");
        self.records.remove(0)
    }
}

pub(crate) fn show(command: &LegCommand) -> String {
    let with = |it: &Option<(OfferId, Description)>| match it {
        Some((id, description)) => format!("{}={}", id.0, label(description)),
        None => "-".into(),
    };
    match command {
        LegCommand::Place(placement) => {
            let to = match &placement.destination.address {
                dialplan::Address::Trunk { name, number } => {
                    format!("{name}/{}", number.as_deref().unwrap_or("-"))
                }
                dialplan::Address::Local { number, context } => format!("{number}@{context}"),
                dialplan::Address::Uri(uri) => uri.to_string(),
            };
            format!("place {to} {}", with(&placement.offer))
        }
        LegCommand::Alerting { early, answer } => format!("alerting {} {}", early.0, with(answer)),
        LegCommand::Progress { early, inband, answer } => {
            let band = if *inband { "inband" } else { "silent" };
            format!("progress {} {band} {}", early.0, with(answer))
        }
        LegCommand::Answer { early, description } => {
            format!("answer {} {}", early.0, with(description))
        }
        LegCommand::Offer(id, it) => format!("offer {}={}", id.0, label(it)),
        LegCommand::WantOffer(id) => format!("want {}", id.0),
        LegCommand::AnswerOffer(id, it) => format!("answer-offer {}={}", id.0, label(it)),
        LegCommand::RefuseOffer(id, cause) => format!("refuse {} {}", id.0, why(cause)),
        LegCommand::Hold(held) => format!("hold {held}"),
        LegCommand::Digit(digit) => format!("digit {digit}"),
        LegCommand::TransferProgress(request, status) => {
            format!("transfer {} {status}", request.0)
        }
        LegCommand::Foreign(request, foreign) => {
            format!("foreign {} {}", request.0, String::from_utf8_lossy(&foreign.kind))
        }
        LegCommand::ForeignReply(request, status, foreign) => {
            let body = String::from_utf8_lossy(&foreign.body).into_owned();
            format!("reply {} {status} {body}", request.0)
        }
        LegCommand::Release(cause) => format!("release {}", why(cause)),
        LegCommand::WantDigits => "want-digits".into(),
        LegCommand::Proceeding => "proceeding".into(),
    }
}

fn why(cause: &Cause) -> String {
    match &cause.origin {
        Some(origin) => format!("{}/{}", cause.q850, origin.code),
        None => cause.q850.to_string(),
    }
}

/// A story's label, or what a real description says about who may send.
fn label(it: &Description) -> String {
    let text = String::from_utf8_lossy(&it.body).into_owned();
    if !text.starts_with("v=0") {
        return text;
    }
    let version = text.lines().nth(1).and_then(|line| line.split(' ').nth(2)).unwrap_or("?");
    let way = text.lines().find(|line| line.starts_with("a=inactive")).unwrap_or("a=sendrecv");
    format!("v{version}:{}", &way[2..])
}
