//! A phone's registration, and what the PBX has promised about it.

use std::time::Duration;

use turn::Mono;

use super::ON_ITS_WAY;
use super::desk::{DOMAIN, Desk, Turn};
use super::open::Open;
use crate::text::{Request, Text};

/// What must be in the PBX's table, from nothing but what the phone saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Bound,
    Unbound,
    /// A request is on its way, or its answer was never seen.
    Unknown,
}

/// A 200 that was seen.
#[derive(Clone, Copy, Debug)]
struct Granted {
    /// When the request was first sent, and when its answer came: the PBX counts from in between.
    asked_at: Mono,
    seen_at: Mono,
    expires: Duration,
}

#[derive(Debug)]
pub(crate) struct Registration {
    /// Of which phone.
    place: usize,
    call_id: String,
    boots: u32,
    cseq: u32,
    open: Option<Open>,
    /// When the request that is open was first sent, and for how long.
    asked_at: Mono,
    asked: u64,
    /// When it registers again.
    next_at: Option<Mono>,
    wanted_s: u64,
    is_on: bool,
    granted: Option<Granted>,
    /// A removal may have been done whose answer never came.
    may_be_gone: bool,
    /// Until then a REGISTER may count whose answer never came.
    may_be_there_until: Mono,
    /// The program was killed while a request was open: whoever is challenged for its repeat may
    /// have been let in by the earlier life.
    is_in_doubt: bool,
    /// Counts for the test of coverage.
    pub(crate) seen: Counts,
    pub(crate) faults: Vec<String>,
}

/// What a registration has met.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) granted: u32,
    pub(crate) refreshed: u32,
    pub(crate) removed: u32,
    pub(crate) too_brief: u32,
    pub(crate) challenged: u32,
    pub(crate) refused: u32,
    pub(crate) unanswered: u32,
}

impl Counts {
    pub(crate) fn add(&mut self, more: Self) {
        self.granted += more.granted;
        self.refreshed += more.refreshed;
        self.removed += more.removed;
        self.too_brief += more.too_brief;
        self.challenged += more.challenged;
        self.refused += more.refused;
        self.unanswered += more.unanswered;
    }
}

impl Registration {
    pub(crate) fn new(place: usize, wanted_s: u64, starts_at: Mono) -> Self {
        Self {
            place,
            call_id: format!("registration-{place}-0"),
            boots: 0,
            cseq: 0,
            open: None,
            asked_at: Mono::ZERO,
            asked: 0,
            next_at: Some(starts_at),
            wanted_s,
            is_on: true,
            granted: None,
            may_be_gone: false,
            may_be_there_until: Mono::ZERO,
            is_in_doubt: false,
            seen: Counts::default(),
            faults: Vec::new(),
        }
    }

    pub(crate) fn expected(&self, now: Mono) -> Expected {
        let is_open = |for_removal: bool| self.open.is_some() && (self.asked == 0) == for_removal;
        let may_be_gone = self.may_be_gone || is_open(true);
        let may_be_there = self.may_be_there_until > now || is_open(false);
        let granted = self.granted.as_ref();
        let is_sure = granted.is_some_and(|it| it.asked_at + it.expires > now);
        let is_over = granted.is_none_or(|it| it.seen_at + it.expires <= now);
        match (is_sure, is_over) {
            (true, _) if !may_be_gone => Expected::Bound,
            (_, true) if !may_be_there => Expected::Unbound,
            _ => Expected::Unknown,
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Mono> {
        let open = self.open.as_ref().and_then(Open::next_timeout);
        open.into_iter().chain(self.next_at.filter(|_| self.open.is_none())).min()
    }

    pub(crate) fn fire(&mut self, desk: &mut Desk, turn: &mut Turn<'_>) {
        if self.open.as_mut().is_some_and(|open| !open.fire(turn.now, &mut turn.out)) {
            self.give_up(Duration::from_secs(5), turn);
            self.seen.unanswered += 1;
        }
        if self.open.is_none() && self.next_at.is_some_and(|at| at <= turn.now) {
            self.next_at = None;
            desk.answering.begin();
            self.ask(desk, turn);
        }
    }

    /// Nobody answers, or nobody can.
    fn give_up(&mut self, pause: Duration, turn: &mut Turn<'_>) {
        self.forget(turn.now);
        self.next_at = Some(turn.now + pause);
    }

    /// Waits for an answer no more: what was asked for may have been done or not.
    fn forget(&mut self, now: Mono) {
        match (self.open.take(), self.asked) {
            (Some(_), 0) => self.may_be_gone = true,
            // The last repeat may be on its way still.
            (Some(_), asked) => {
                self.may_be_there_until = now + Duration::from_secs(asked) + ON_ITS_WAY;
            }
            (None, _) => {}
        }
    }

    /// The program was killed.
    pub(crate) fn on_killed(&mut self) {
        self.is_in_doubt = self.open.is_some();
    }

    /// The connection is gone: what the PBX says next would not arrive.
    pub(crate) fn on_closed(&mut self, turn: &mut Turn<'_>) {
        let pause = Duration::from_millis(1_000 + turn.rng.below(2_000));
        if self.open.is_some() {
            self.give_up(pause, turn);
        } else if self.is_on {
            self.next_at = Some(turn.now + pause);
        }
    }

    /// Switched off by its user: it says so, or not.
    pub(crate) fn switch_off(&mut self, says_so: bool, turn: &Turn<'_>) {
        self.is_on = false;
        self.next_at = None;
        if says_so {
            self.next_at = Some(turn.now);
        } else {
            self.forget(turn.now);
        }
    }

    /// Switched on again: another Call-ID (RFC 3261 10.2), the same Contact.
    pub(crate) fn switch_on(&mut self, turn: &Turn<'_>) {
        self.is_on = true;
        self.boots += 1;
        self.forget(turn.now);
        self.cseq = 0;
        self.call_id = format!("registration-{}-{}", self.place, self.boots);
        // What was sent under the other Call-ID has arrived by then: nothing else orders the two.
        self.next_at = Some(turn.now + Duration::from_secs(1));
    }

    fn ask(&mut self, desk: &mut Desk, turn: &mut Turn<'_>) {
        self.cseq += 1;
        self.asked = if self.is_on { self.wanted_s } else { 0 };
        self.asked_at = turn.now;
        let aor = format!("<sip:{}@{DOMAIN}>", desk.name);
        let request = Request {
            method: "REGISTER",
            uri: &format!("sip:{DOMAIN}"),
            local: "",
            branch: &format!("{}-{}", self.call_id, self.cseq),
            from: &format!("{aor};tag=t{}", self.boots),
            to: &aor,
            call_id: &self.call_id,
            cseq: self.cseq,
            contact: "",
            transport: "",
            lines: &format!("Expires: {}\r\n", self.asked),
            body: "",
        };
        let text = desk.write(request, true);
        turn.out.push(text.clone());
        let name = ("REGISTER", self.cseq);
        self.open = Some(Open::new(name, text, turn.now, !desk.is_stream));
    }

    /// An answer to a REGISTER.
    pub(crate) fn on_response(
        &mut self,
        (text, raw, status): (&Text, &str, u16),
        desk: &mut Desk,
        turn: &mut Turn<'_>,
    ) {
        let is_open = self.open.as_ref().is_some_and(|open| open.cseq == text.number());
        if !is_open || status < 200 || text.header("Call-ID") != self.call_id {
            return;
        }
        if self.is_in_doubt && status != 200 {
            self.forget(turn.now);
        }
        (self.open, self.is_in_doubt) = (None, false);
        match status {
            200 => self.on_granted(text, desk, turn),
            401 => match desk.prove(raw) {
                Ok(()) => {
                    self.seen.challenged += 1;
                    self.ask(desk, turn);
                }
                // Unknown there, at the moment.
                Err(_) => {
                    self.seen.refused += 1;
                    self.next_at = Some(turn.now + Duration::from_secs(20));
                }
            },
            423 => {
                self.seen.too_brief += 1;
                self.wanted_s = text.header("Min-Expires").parse().expect("a number");
                desk.answering.begin();
                self.ask(desk, turn);
            }
            _ => {
                self.faults.push(format!("{} got {status} to REGISTER", desk.name));
                self.next_at = Some(turn.now + Duration::from_secs(20));
            }
        }
    }

    fn on_granted(&mut self, text: &Text, desk: &Desk, turn: &mut Turn<'_>) {
        let own = format!("<sip:{}>;expires=", desk.contact());
        let granted = text.headers("Contact").find_map(|value| value.strip_prefix(&own));
        let granted = granted.map(|rest| rest.split(';').next().unwrap_or_default());
        (self.may_be_gone, self.may_be_there_until) = (false, Mono::ZERO);
        match (granted, self.asked) {
            (None, 0) => {
                self.granted = None;
                self.seen.removed += 1;
                if self.is_on {
                    self.next_at = Some(turn.now);
                }
            }
            (Some(seconds), asked) if asked > 0 => {
                let seconds: u64 = seconds.parse().expect("a number");
                if seconds == 0 || seconds > asked {
                    self.faults.push(format!("{} got {seconds} s for {asked} s", desk.name));
                }
                let expires = Duration::from_secs(seconds);
                self.seen.refreshed += u32::from(self.granted.is_some());
                self.seen.granted += 1;
                let (asked_at, seen_at) = (self.asked_at, turn.now);
                self.granted = Some(Granted { asked_at, seen_at, expires });
                let at = seconds * 1_000 * (50 + turn.rng.below(30)) / 100;
                let at = if self.is_on { Duration::from_millis(at) } else { Duration::ZERO };
                self.next_at = Some(turn.now + at);
            }
            (granted, asked) => {
                self.faults.push(format!("{} asked for {asked} s, got {granted:?}", desk.name));
            }
        }
    }
}
