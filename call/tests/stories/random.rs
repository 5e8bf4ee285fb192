//! Random stories: whatever legs say in whatever order, every call ends with exactly one record and
//! nothing is left. A failure names its seed.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use turn::{Rng, Slot};

use crate::world::*;
use call::*;

const PLAN: &str = r#"
[[context.in.exten]]
match = "hold"
steps = ["Ringing()", "Answer()", "Wait(30)"]
[[context.in.exten]]
match = "both"
steps = ["Dial(SIP/t/1&SIP/t/2&SIP/t/3,20)", "Dial(SIP/t/4,5,g)", "Busy(2)"]
[[context.in.exten]]
match = "turn"
steps = [
    { app = "Dial", targets = ["SIP/t/1", "SIP/t/2"], mode = "sequential", ring_timeout_s = 9 },
          'GotoIf($["${DIALSTATUS}" = "BUSY"]?1)', "Answer()", "Dial(SIP/t/3,5,gr)", "Wait(1)" ]
[[context.in.exten]]
match = "loop"
steps = ["NoOp(1)", "Goto(1)"]
[[context.in.exten]]
match = "_1XX"
steps = ["Progress()", "Wait(0.5)", "Congestion()"]
"#;

/// What the model knows of a call without looking inside: who was commanded, who is gone.
#[derive(Default)]
struct Known {
    /// Leg number to whether it was released by us.
    legs: BTreeMap<u8, bool>,
    gone: Vec<u8>,
    was_answered: bool,
    records: usize,
    /// Calls are numbered in the order in which they came, from 1.
    number: u32,
}

struct Story {
    world: Stage,
    rng: Rng,
    calls: BTreeMap<Slot, Known>,
    over: usize,
    entered: u32,
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let world = Stage::new(PLAN);
        Self { world, rng: Rng::new(bytes), calls: BTreeMap::new(), over: 0, entered: 0 }
    }

    fn step(&mut self) {
        match self.rng.below(12) {
            0 | 1 => self.call(),
            2 => {
                let span = Duration::from_millis(self.rng.below(8_000));
                self.world.pass(span);
            }
            3 if self.rng.below(8) == 0 => {
                if let Some(leg) = self.some_leg() {
                    self.world.hang_up(leg);
                }
            }
            _ => {
                if let Some(leg) = self.some_leg() {
                    let event = self.event();
                    if matches!(event, LegEvent::Released(_)) {
                        self.note_gone(leg);
                    }
                    self.world.event(leg, event);
                }
            }
        }
        self.world.resume();
        self.look();
    }

    fn call(&mut self) {
        let numbers = ["hold", "both", "turn", "loop", "12", "123", "nobody"];
        let digits = numbers[self.rng.below(7) as usize];
        let offers = [None, Some("A"), Some(REAL), Some(REAL)];
        let offer = offers[self.rng.below(4) as usize];
        self.world.may_grow = self.rng.below(4) == 0;
        self.world.hops = self.rng.below(3) as u8;
        let setup = self.world.setup(digits, offer);
        if let Ok(leg) = self.world.enter(setup) {
            let known = self.calls.entry(leg.call).or_default();
            known.legs.insert(0, false);
            known.number = self.entered + 1;
            self.entered += 1;
        }
    }

    /// Mostly a leg that exists, now and then one that does not.
    fn some_leg(&mut self) -> Option<LegId> {
        let count = self.calls.len() as u64;
        let pick = self.rng.below(count) as usize;
        let stray = self.rng.below(20) == 0;
        let any = self.rng.below(6) as u8;
        let (call, known) = self.calls.iter().nth(pick)?;
        let alive: Vec<u8> =
            known.legs.keys().copied().filter(|leg| !known.gone.contains(leg)).collect();
        let number =
            if stray || alive.is_empty() { any } else { alive[usize::from(any) % alive.len()] };
        Some(LegId { call: *call, leg: number })
    }

    fn event(&mut self) -> LegEvent {
        let id = OfferId(self.rng.below(9) as u32);
        let early = Early(self.rng.below(10) as u8);
        let body = description(if self.rng.below(2) == 0 { REAL } else { "x" });
        let answer = (self.rng.below(2) == 0).then(|| (id, body.clone()));
        let causes = [sip(486, 17), sip(603, 21), sip(503, 34), Cause::NORMAL_CLEARING];
        let cause = causes[self.rng.below(4) as usize].clone();
        let foreign = Foreign { kind: Bytes::new(), head: Bytes::new(), body: Bytes::new() };
        match self.rng.below(17) {
            0 => LegEvent::Proceeding,
            1 | 2 => LegEvent::Alerting { early, answer },
            3 | 4 => LegEvent::Progress { early, inband: true, answer },
            5 => LegEvent::Answered { early, session: SessionPart::Unsaid },
            6 | 7 => LegEvent::Answered { early, session: SessionPart::Answer(id, body) },
            8 => LegEvent::Answered { early, session: SessionPart::Offer(id, body) },
            9 => LegEvent::Offer(id, body),
            10 => LegEvent::OfferWanted(id),
            11 => LegEvent::Answer(id, body),
            12 => LegEvent::OfferRefused(id, cause),
            13 => LegEvent::Foreign(RequestId(1), foreign),
            14 => LegEvent::MoreDigits { digits: "123".into(), may_grow: self.rng.below(2) == 0 },
            15 => LegEvent::Digit('1'),
            _ => LegEvent::Released(cause),
        }
    }

    fn note_gone(&mut self, leg: LegId) {
        if let Some(known) = self.calls.get_mut(&leg.call)
            && known.legs.contains_key(&leg.leg)
            && !known.gone.contains(&leg.leg)
        {
            known.gone.push(leg.leg);
        }
    }

    /// Checks what was commanded against what is known, and the table against both.
    fn look(&mut self) {
        for (leg, command) in std::mem::take(&mut self.world.commands) {
            let known = self.calls.get_mut(&leg.call).expect("a command for a call that is");
            let is_new = matches!(command, LegCommand::Place(_));
            assert_eq!(is_new, !known.legs.contains_key(&leg.leg), "{leg:?} {command:?}");
            assert!(!known.gone.contains(&leg.leg), "{leg:?} is gone: {command:?}");
            let released = known.legs.entry(leg.leg).or_default();
            assert!(!*released, "{leg:?} was released: {command:?}");
            *released = matches!(command, LegCommand::Release(_));
            if matches!(command, LegCommand::Answer { .. }) {
                assert!(leg.leg == 0 && !known.was_answered, "answered twice: {leg:?}");
                known.was_answered = true;
            }
        }
        for record in std::mem::take(&mut self.world.records) {
            let number = record.call.0;
            let (_, known) = self
                .calls
                .iter_mut()
                .find(|(_, known)| known.records == 0 && known.number == number)
                .unwrap_or_else(|| panic!("a second record, or one of no call: {record:?}"));
            known.records = 1;
            let is_answered = record.disposition == Disposition::Answered;
            assert_eq!(is_answered, known.was_answered, "{record:?}");
            assert_eq!(record.answer.is_some(), known.was_answered);
            assert!(known.gone.contains(&0) || known.legs[&0], "the caller knows nothing");
        }
        self.calls.retain(|_, known| {
            let is_over = known.gone.len() == known.legs.len();
            if is_over {
                assert_eq!(known.records, 1, "a call ended without its record");
                self.over += 1;
            }
            !is_over
        });
        let legs: usize = self.calls.values().map(|it| it.legs.len() - it.gone.len()).sum();
        assert_eq!(self.world.calls.legs(), legs);
        assert_eq!(self.world.calls.len(), self.calls.len());
        let counts = self.world.calls.counts();
        assert_eq!(counts.calls as usize, self.over + self.calls.len());
    }

    /// Every leg goes, callers first or last.
    fn end(&mut self) {
        while let Some(leg) = self.some_leg() {
            if self.calls[&leg.call].legs.contains_key(&leg.leg) {
                self.note_gone(leg);
                self.world.gone(leg, Cause::NORMAL_CLEARING);
            }
            while self.world.calls.has_runnable() {
                self.world.resume();
            }
            self.look();
        }
        assert!(self.world.calls.is_empty());
    }
}

#[test]
fn random_events_never_leave_anything_behind() {
    for seed in 0..300 {
        let run = std::panic::catch_unwind(|| {
            let mut story = Story::new(seed);
            (0..400).for_each(|_| story.step());
            story.end();
            story.over
        });
        let over = run.unwrap_or_else(|_| panic!("seed {seed} fails"));
        assert!(over > 10, "seed {seed} tells too little: {over} calls");
    }
}
