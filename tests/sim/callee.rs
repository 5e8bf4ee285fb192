//! The called side: every INVITE of the PBX becomes one callee, with a mind of its own drawn from
//! the seed.

use std::time::Duration;

use turn::{Mono, Rng};

use crate::text::{Request, Text, response, sdp, sdp_name};

const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);

/// What a callee does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mind {
    /// Rings, then answers.
    Answer,
    /// Answers without ringing.
    AnswerAtOnce,
    Busy,
    Decline,
    /// Rings until it is cancelled.
    RingOn,
    /// Says nothing at all.
    Dead,
}

/// Something that is repeated until it is acknowledged.
#[derive(Debug)]
struct Repeat {
    text: String,
    interval: Duration,
    due: Mono,
    until: Mono,
}

#[derive(Debug)]
pub(crate) struct Callee {
    pub(crate) local: String,
    pub(crate) call_id: String,
    pub(crate) mind: Mind,
    /// What does not fit.
    pub(crate) faults: Vec<String>,
    pub(crate) state: State,
    tag: String,
    invite: Text,
    /// Our final response, until its ACK.
    last: Option<Repeat>,
    /// Our BYE, until its answer.
    bye: Option<Repeat>,
    answer_at: Option<Mono>,
    hang_up_at: Option<Mono>,
    has_hung_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ringing,
    Answered,
    Refused,
    Ended,
}

impl Callee {
    /// An INVITE without To tag came that is no repeat.
    pub(crate) fn new(
        invite: Text,
        local: &str,
        rng: &mut Rng,
        now: Mono,
        out: &mut Vec<String>,
    ) -> Self {
        let minds = [
            Mind::Answer,
            Mind::Answer,
            Mind::Answer,
            Mind::AnswerAtOnce,
            Mind::Busy,
            Mind::Decline,
            Mind::RingOn,
            Mind::Dead,
        ];
        let mind = minds[rng.below(minds.len() as u64) as usize];
        let ring = Duration::from_millis(rng.below(5_000));
        let talk = Duration::from_millis(500 + rng.below(15_000));
        let mut callee = Self {
            local: local.to_owned(),
            call_id: invite.header("Call-ID").to_owned(),
            mind,
            faults: Vec::new(),
            state: State::Ringing,
            tag: format!("callee{}", rng.next_u32()),
            invite,
            last: None,
            bye: None,
            answer_at: None,
            hang_up_at: None,
            has_hung_up: false,
        };
        match mind {
            Mind::Answer => {
                out.push(callee.respond("180 Ringing", ""));
                callee.answer_at = Some(now + ring);
                callee.hang_up_at = (rng.below(2) == 0).then(|| now + ring + talk);
            }
            Mind::AnswerAtOnce => callee.answer(now, out),
            Mind::Busy => callee.refuse("486 Busy Here", now, out),
            Mind::Decline => callee.refuse("603 Decline", now, out),
            Mind::RingOn => out.push(callee.respond("180 Ringing", "")),
            Mind::Dead => {}
        }
        callee
    }

    fn respond(&self, status: &str, body: &str) -> String {
        response(&self.invite, status, &self.tag, &self.local, body)
    }

    fn answer(&mut self, now: Mono, out: &mut Vec<String>) {
        self.state = State::Answered;
        let body = sdp(&format!("answer to {}", sdp_name(&self.invite.body)));
        let text = self.respond("200 OK", &body);
        self.finally(text, now, out);
    }

    fn refuse(&mut self, status: &str, now: Mono, out: &mut Vec<String>) {
        self.state = State::Refused;
        let text = self.respond(status, "");
        self.finally(text, now, out);
    }

    fn finally(&mut self, text: String, now: Mono, out: &mut Vec<String>) {
        out.push(text.clone());
        self.last = Some(Repeat { text, interval: T1, due: now + T1, until: now + T1 * 64 });
    }

    pub(crate) fn next_timeout(&self) -> Option<Mono> {
        let repeats = [&self.last, &self.bye].into_iter().flatten().map(|it| it.due);
        repeats.chain(self.answer_at).chain(self.hang_up_at).min()
    }

    pub(crate) fn fire(&mut self, now: Mono, out: &mut Vec<String>) {
        if self.answer_at.take_if(|at| *at <= now).is_some() && self.state == State::Ringing {
            self.answer(now, out);
        }
        let may_hang_up = self.state == State::Answered && self.last.is_none();
        if self.hang_up_at.is_some_and(|at| at <= now) {
            if may_hang_up {
                self.hang_up_at = None;
                self.hang_up(now, out);
            } else if self.state == State::Answered {
                self.hang_up_at = Some(now + T1); // 15: not before the ACK
            } else {
                self.hang_up_at = None;
            }
        }
        for (repeat, what) in [(&mut self.last, "final response"), (&mut self.bye, "BYE")] {
            let Some(it) = repeat.as_mut().filter(|it| it.due <= now) else { continue };
            if it.until <= now {
                self.faults.push(format!("nobody acknowledged the {what} of {}", self.call_id));
                *repeat = None;
                continue;
            }
            out.push(it.text.clone());
            it.interval = (it.interval * 2).min(T2);
            it.due = now + it.interval;
        }
    }

    fn hang_up(&mut self, now: Mono, out: &mut Vec<String>) {
        self.state = State::Ended;
        self.has_hung_up = true;
        let text = Request {
            method: "BYE",
            uri: self.invite.contact(),
            local: &self.local,
            branch: &format!("{}-bye", self.tag),
            from: &format!("{};tag={}", self.invite.header("To"), self.tag),
            to: self.invite.header("From"),
            call_id: &self.call_id,
            cseq: 1,
            contact: &self.local,
            transport: "UDP",
            lines: "",
            body: "",
        }
        .write();
        out.push(text.clone());
        self.bye = Some(Repeat { text, interval: T1, due: now + T1, until: now + T1 * 64 });
    }

    /// A message of this dialog came.
    pub(crate) fn receive(&mut self, text: &Text, now: Mono, out: &mut Vec<String>) {
        if text.status().is_some() {
            if text.method() == "BYE" {
                self.bye = None;
            }
            return;
        }
        match text.method() {
            "INVITE" if text.tag("To").is_none() => self.repeat_last(out),
            "INVITE" => {
                let body = sdp(&format!("answer to {}", sdp_name(&text.body)));
                out.push(response(text, "200 OK", &self.tag, &self.local, &body));
            }
            "ACK" => self.last = None,
            "CANCEL" => self.on_cancel(text, now, out),
            "BYE" => {
                self.state = State::Ended;
                self.last = None;
                out.push(response(text, "200 OK", &self.tag, &self.local, ""));
            }
            _ => out.push(response(text, "200 OK", &self.tag, &self.local, "")),
        }
    }

    fn repeat_last(&self, out: &mut Vec<String>) {
        match (&self.last, self.state, self.mind) {
            (Some(last), _, _) => out.push(last.text.clone()),
            (None, State::Ringing, mind) if mind != Mind::Dead => {
                out.push(self.respond("180 Ringing", ""));
            }
            (None, _, _) => {}
        }
    }

    fn on_cancel(&mut self, text: &Text, now: Mono, out: &mut Vec<String>) {
        if text.branch() != self.invite.branch() {
            self.faults.push("a CANCEL with another branch".to_owned());
        }
        out.push(response(text, "200 OK", &self.tag, &self.local, ""));
        if self.state == State::Ringing {
            self.refuse("487 Request Terminated", now, out);
        }
    }

    /// Whether this side has said BYE in a call of that caller.
    pub(crate) fn has_hung_up_on(&self, caller: &str) -> bool {
        self.has_hung_up && sdp_name(&self.invite.body) == format!("offer of {caller}")
    }

    /// Whether the call is over as far as this side knows. A dead one never knew of it.
    pub(crate) fn is_over(&self) -> bool {
        let is_over = match self.state {
            State::Ringing => self.mind == Mind::Dead,
            State::Answered => false,
            State::Refused | State::Ended => true,
        };
        is_over && self.last.is_none() && self.bye.is_none()
    }
}
