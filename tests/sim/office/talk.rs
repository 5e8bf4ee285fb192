//! One call as one phone sees it: of a caller or of a called one.

use std::time::Duration;

use turn::Mono;

use super::desk::{DOMAIN, Desk, Turn};
use super::open::{Open, PATIENCE};
use crate::text::{Request, Text, response, sdp, sdp_name};

/// What a phone does with a call that comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mind {
    /// Rings, then answers.
    Answer,
    AnswerAtOnce,
    Busy,
    Decline,
    /// Rings until it is cancelled, or until it is tired of it.
    RingOn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Our INVITE has no final response yet.
    Calling,
    /// Their INVITE has none.
    Ringing,
    Talking,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alarm {
    /// The user has waited long enough.
    Cancel,
    /// Nobody will answer our INVITE any more, though it was cancelled.
    Abandon,
    Answer,
    /// Rings no more.
    Tire,
    Hold,
    HangUp,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) is_caller: bool,
    /// Whom the caller dialled.
    pub(crate) number: String,
    pub(crate) call_id: String,
    pub(crate) state: State,
    pub(crate) ended: Option<Mono>,
    /// Each different final status of our INVITE that was no challenge.
    pub(crate) finals: Vec<u16>,
    pub(crate) has_answered: bool,
    pub(crate) sent_bye: bool,
    pub(crate) got_bye: bool,
    /// A 481 or nobody at all said that the call is over.
    pub(crate) was_told: Vec<u16>,
    /// What does not fit.
    pub(crate) faults: Vec<String>,
    /// The PBX was killed, or a connection broke, in the middle of it.
    pub(crate) is_excused: bool,
    /// The caller cancelled before its INVITE was let in.
    pub(crate) is_unmade: bool,
    /// How often our last INVITE that may begin the call has reached the program, and how many
    /// challenges for it got lost: they are made without state and not repeated.
    pub(crate) invites_heard: u32,
    pub(crate) challenges_lost: u32,
    from: String,
    to: String,
    target: String,
    cseq: u32,
    /// The CSeq of our last INVITE that may begin the call.
    invited: u32,
    opens: Vec<Open>,
    /// Our final response, until its ACK.
    last: Option<Open>,
    invite: Option<Text>,
    alarms: Vec<(Mono, Alarm)>,
}

impl Talk {
    fn new(is_caller: bool, number: &str, call_id: &str) -> Self {
        Self {
            is_caller,
            number: number.to_owned(),
            call_id: call_id.to_owned(),
            state: if is_caller { State::Calling } else { State::Ringing },
            ended: None,
            finals: Vec::new(),
            has_answered: false,
            sent_bye: false,
            got_bye: false,
            was_told: Vec::new(),
            faults: Vec::new(),
            is_excused: false,
            is_unmade: false,
            invites_heard: 0,
            challenges_lost: 0,
            from: String::new(),
            to: String::new(),
            target: String::new(),
            cseq: 0,
            invited: 0,
            opens: Vec::new(),
            last: None,
            invite: None,
            alarms: Vec::new(),
        }
    }

    /// Begins a call to `number`.
    pub(crate) fn calling(
        (number, call_id): (&str, &str),
        desk: &mut Desk,
        turn: &mut Turn<'_>,
    ) -> Self {
        let mut talk = Self::new(true, number, call_id);
        talk.from = format!("<sip:{}@{DOMAIN}>;tag=from-{call_id}", desk.name);
        talk.to = format!("<sip:{number}@{DOMAIN}>");
        talk.target = format!("sip:{number}@{DOMAIN}:5060");
        // Some hang up early; nobody waits for ever.
        let gives_up = turn.rng.below(5) == 0;
        let patience = if gives_up { turn.rng.below(8_000) } else { 60_000 };
        talk.alarms.push((turn.now + Duration::from_millis(patience), Alarm::Cancel));
        desk.answering.begin();
        talk.invite(desk, turn);
        talk
    }

    /// Their INVITE came.
    pub(crate) fn called(invite: Text, desk: &mut Desk, turn: &mut Turn<'_>) -> Self {
        let mut talk = Self::new(false, &desk.name, invite.header("Call-ID"));
        talk.from = format!("{};tag=to-{}", invite.header("To"), turn.rng.next_u32());
        invite.header("From").clone_into(&mut talk.to);
        invite.contact().clone_into(&mut talk.target);
        talk.invite = Some(invite);
        let minds = [
            Mind::Answer,
            Mind::Answer,
            Mind::Answer,
            Mind::AnswerAtOnce,
            Mind::Busy,
            Mind::Decline,
            Mind::RingOn,
        ];
        match minds[turn.rng.below(minds.len() as u64) as usize] {
            Mind::Answer => {
                talk.respond("180 Ringing", "", desk, turn);
                let ring = Duration::from_millis(turn.rng.below(10_000));
                talk.alarms.push((turn.now + ring, Alarm::Answer));
            }
            Mind::AnswerAtOnce => talk.answer(desk, turn),
            Mind::Busy => talk.refuse("486 Busy Here", desk, turn),
            Mind::Decline => talk.refuse("603 Decline", desk, turn),
            Mind::RingOn => {
                talk.respond("180 Ringing", "", desk, turn);
                talk.alarms.push((turn.now + Duration::from_secs(50), Alarm::Tire));
            }
        }
        talk
    }

    fn name(&self) -> String {
        format!("offer of {}", self.call_id)
    }

    /// The Call-ID of the caller that this one was called by.
    pub(crate) fn called_by(&self) -> Option<&str> {
        sdp_name(&self.invite.as_ref()?.body).strip_prefix("offer of ")
    }

    fn is_seen_over(&mut self, now: Mono) {
        self.state = State::Over;
        self.ended.get_or_insert(now);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Over && self.opens.is_empty() && self.last.is_none()
    }

    pub(crate) fn next_timeout(&self) -> Option<Mono> {
        let opens = self.opens.iter().chain(&self.last).filter_map(Open::next_timeout);
        opens.chain(self.alarms.iter().map(|(at, _)| *at)).min()
    }

    pub(crate) fn fire(&mut self, desk: &mut Desk, turn: &mut Turn<'_>) {
        let now = turn.now;
        let due: Vec<Alarm> =
            self.alarms.iter().filter(|(at, _)| *at <= now).map(|(_, alarm)| *alarm).collect();
        self.alarms.retain(|(at, _)| *at > now);
        for alarm in due {
            self.on_alarm(alarm, desk, turn);
        }
        let (mut opens, mut lost) = (std::mem::take(&mut self.opens), Vec::new());
        opens.retain_mut(|open| {
            let is_left = open.fire(now, &mut turn.out);
            if !is_left {
                lost.push((open.method, open.cseq));
            }
            is_left
        });
        self.opens.append(&mut opens);
        for (method, cseq) in lost {
            if method == "INVITE"
                && self.state == State::Calling
                && self.invites_heard == self.challenges_lost
            {
                // It was never let in.
                self.is_unmade = true;
                self.is_seen_over(now);
                continue;
            }
            self.faults.push(format!("nobody answered {cseq} {method}"));
            self.was_told.push(408);
            match method {
                "BYE" => self.is_seen_over(now),
                "INVITE" if self.state == State::Calling => self.is_seen_over(now),
                "INVITE" if self.state == State::Talking => self.hang_up(desk, turn),
                _ => {}
            }
        }
        if self.last.as_mut().is_some_and(|last| !last.fire(now, &mut turn.out)) {
            self.last = None;
            self.faults.push("nobody acknowledged the final response".to_owned());
            if self.state == State::Talking {
                // RFC 3261 13.3.1.4
                self.hang_up(desk, turn);
            }
        }
    }

    fn on_alarm(&mut self, alarm: Alarm, desk: &mut Desk, turn: &mut Turn<'_>) {
        let soon = turn.now + Duration::from_millis(500);
        match (alarm, self.state) {
            (Alarm::Cancel, State::Calling) => self.cancel(desk, turn),
            (Alarm::Abandon, State::Calling) => {
                self.opens.retain(|open| open.method != "INVITE");
                self.faults.push("an INVITE that was cancelled has no end".to_owned());
                self.is_seen_over(turn.now);
            }
            (Alarm::Answer, State::Ringing) => self.answer(desk, turn),
            (Alarm::Tire, State::Ringing) => {
                self.faults.push("rings on".to_owned());
                self.refuse("480 Temporarily Unavailable", desk, turn);
            }
            (Alarm::Hold, State::Talking) => {
                let body = sdp(&format!("hold of {}", self.call_id));
                self.request("INVITE", &body, desk, turn);
            }
            // 15: not before the ACK. And not beside a re-INVITE.
            (Alarm::HangUp, State::Talking)
                if self.last.is_some() || self.opens.iter().any(|it| it.method == "INVITE") =>
            {
                self.alarms.push((soon, Alarm::HangUp));
            }
            (Alarm::HangUp, State::Talking) => self.hang_up(desk, turn),
            (_, State::Calling | State::Ringing | State::Talking | State::Over) => {}
        }
    }

    fn hang_up(&mut self, desk: &mut Desk, turn: &mut Turn<'_>) {
        self.sent_bye = true;
        self.request("BYE", "", desk, turn);
    }

    fn cancel(&mut self, desk: &mut Desk, turn: &mut Turn<'_>) {
        let invite = self.opens.iter().find(|open| open.method == "INVITE");
        let Some(invite) = invite else { return };
        if invite.next_timeout().is_some() {
            // 9.1: not before a provisional response.
            self.alarms.push((turn.now + Duration::from_millis(100), Alarm::Cancel));
            return;
        }
        self.alarms.push((turn.now + PATIENCE, Alarm::Abandon));
        let cseq = self.invited;
        self.send("CANCEL", cseq, "", desk, turn);
    }

    /// Our (next) INVITE that may begin the call. Some offers are too long for a datagram.
    fn invite(&mut self, desk: &mut Desk, turn: &mut Turn<'_>) {
        (self.invites_heard, self.challenges_lost) = (0, 0);
        let mut body = sdp(&self.name());
        if self.call_id.len().is_multiple_of(2) {
            body.push_str(&format!("a=x-long:{}\r\n", "x".repeat(900)));
        }
        self.request("INVITE", &body, desk, turn);
        self.invited = self.cseq;
    }

    fn request(&mut self, method: &'static str, body: &str, desk: &mut Desk, turn: &mut Turn<'_>) {
        self.cseq += 1;
        self.send(method, self.cseq, body, desk, turn);
    }

    fn send(
        &mut self,
        method: &'static str,
        cseq: u32,
        body: &str,
        desk: &mut Desk,
        turn: &mut Turn<'_>,
    ) {
        let request = Request {
            method,
            uri: &self.target,
            local: "",
            branch: &format!("{}-{cseq}", self.from.rsplit("tag=").next().unwrap_or_default()),
            from: &self.from,
            to: &self.to,
            call_id: &self.call_id,
            cseq,
            contact: "",
            transport: "",
            lines: "",
            body,
        };
        let text = desk.write(request, method == "INVITE" && self.state == State::Calling);
        turn.out.push(text.clone());
        self.opens.push(Open::new((method, cseq), text, turn.now, !desk.is_stream));
    }

    fn respond(&self, status: &str, body: &str, desk: &Desk, turn: &mut Turn<'_>) -> String {
        let tag = self.from.rsplit("tag=").next().unwrap_or_default();
        let invite = self.invite.as_ref().expect("a called one has an INVITE");
        let text = response(invite, status, tag, &desk.contact(), body);
        turn.out.push(text.clone());
        text
    }

    fn answer(&mut self, desk: &mut Desk, turn: &mut Turn<'_>) {
        self.state = State::Talking;
        self.has_answered = true;
        let offer = self.invite.as_ref().map(|invite| sdp_name(&invite.body)).unwrap_or_default();
        let text = self.respond("200 OK", &sdp(&format!("answer to {offer}")), desk, turn);
        self.last = Some(Open::new(("2xx", 0), text, turn.now, true));
        // Somebody hangs up sooner or later: the caller mostly, the called one otherwise.
        let talk = Duration::from_millis(1_000 + turn.rng.below(30_000));
        self.alarms.push((turn.now + talk, Alarm::HangUp));
    }

    fn refuse(&mut self, status: &str, desk: &mut Desk, turn: &mut Turn<'_>) {
        self.is_seen_over(turn.now);
        let text = self.respond(status, "", desk, turn);
        self.last = Some(Open::new(("refusal", 0), text, turn.now, !desk.is_stream));
    }

    pub(crate) fn on_response(
        &mut self,
        (text, raw, status): (&Text, &str, u16),
        desk: &mut Desk,
        turn: &mut Turn<'_>,
    ) {
        let (method, cseq) = (text.method(), text.number());
        let at = self.opens.iter().position(|open| open.method == method && open.cseq == cseq);
        if status < 200 {
            if let Some(at) = at {
                self.opens[at].proceed();
            }
            return;
        }
        if let Some(at) = at {
            self.opens.remove(at);
        }
        if method == "INVITE" {
            self.acknowledge(text, status, desk, turn);
        }
        match (method, at) {
            ("INVITE", at) if self.is_caller && cseq <= self.invited => {
                self.on_final((text, raw, status), at.is_some(), desk, turn);
            }
            ("BYE", Some(_)) => {
                self.was_told.push(status);
                self.is_seen_over(turn.now);
            }
            // 12.2.1.2: the dialog is gone.
            ("INVITE", Some(_)) if matches!(status, 408 | 481) => {
                self.was_told.push(status);
                self.is_seen_over(turn.now);
            }
            _ => {}
        }
    }

    fn on_final(
        &mut self,
        (text, raw, status): (&Text, &str, u16),
        is_first: bool,
        desk: &mut Desk,
        turn: &mut Turn<'_>,
    ) {
        if status == 401 && is_first {
            let is_cancelled = self.alarms.iter().any(|(_, alarm)| *alarm == Alarm::Abandon);
            match desk.prove(raw) {
                Ok(()) if is_cancelled => {
                    self.is_unmade = true;
                    self.is_seen_over(turn.now);
                }
                Ok(()) => self.invite(desk, turn),
                Err(_) => {
                    self.finals.push(status);
                    self.is_seen_over(turn.now);
                }
            }
            return;
        }
        if status == 401 {
            return;
        }
        if !self.finals.contains(&status) {
            self.finals.push(status);
        }
        if !is_first && status < 300 && self.state == State::Over && !self.has_answered {
            // It was given up: who comes late is hung up on.
            self.has_answered = true;
            text.header("To").clone_into(&mut self.to);
            text.contact().clone_into(&mut self.target);
            self.hang_up(desk, turn);
        }
        if !is_first {
            return;
        }
        if status >= 300 {
            self.is_seen_over(turn.now);
            return;
        }
        self.state = State::Talking;
        self.has_answered = true;
        text.header("To").clone_into(&mut self.to);
        text.contact().clone_into(&mut self.target);
        let (is, wanted) = (sdp_name(&text.body), format!("answer to {}", self.name()));
        if self.number != "echo" && is != wanted {
            self.faults.push(format!("the answer is \"{is}\", not \"{wanted}\""));
        }
        let talk = Duration::from_millis(200 + turn.rng.below(20_000));
        self.alarms.push((turn.now + talk, Alarm::HangUp));
        if turn.rng.below(3) == 0 {
            self.alarms.push((turn.now + talk / 2, Alarm::Hold));
        }
    }

    fn acknowledge(&self, text: &Text, status: u16, desk: &mut Desk, turn: &mut Turn<'_>) {
        let cseq = text.number();
        let tag = self.from.rsplit("tag=").next().unwrap_or_default();
        let number = format!("sip:{}@{DOMAIN}:5060", self.number);
        let (branch, uri) = match status {
            200..300 => (format!("{tag}-{cseq}-ack"), text.contact()),
            _ if cseq <= self.invited => (format!("{tag}-{cseq}"), &*number),
            _ => (format!("{tag}-{cseq}"), &*self.target),
        };
        let request = Request {
            method: "ACK",
            uri,
            local: "",
            branch: &branch,
            from: &self.from,
            to: text.header("To"),
            call_id: &self.call_id,
            cseq,
            contact: "",
            transport: "",
            lines: "",
            body: "",
        };
        turn.out.push(desk.write(request, false));
    }

    /// A request in this dialog, or our INVITE again.
    pub(crate) fn on_request(&mut self, text: &Text, desk: &mut Desk, turn: &mut Turn<'_>) {
        let reply = |status: &str, body: &str, turn: &mut Turn<'_>| {
            let tag = self.from.rsplit("tag=").next().unwrap_or_default();
            turn.out.push(response(text, status, tag, &desk.contact(), body));
        };
        match text.method() {
            "INVITE" if text.tag("To").is_none() => match (&self.last, self.state) {
                (Some(last), _) => turn.out.push(last.text.clone()),
                (None, State::Ringing) => _ = self.respond("180 Ringing", "", desk, turn),
                (None, State::Calling | State::Talking | State::Over) => {}
            },
            _ if self.state == State::Over
                && !matches!(text.method(), "ACK" | "CANCEL" | "BYE") =>
            {
                reply("481 Call/Transaction Does Not Exist", "", turn);
            }
            // Repeats are left to the repeats of the INVITE.
            "INVITE" => reply("200 OK", &sdp(&format!("answer to {}", sdp_name(&text.body))), turn),
            "ACK" => self.last = None,
            "CANCEL" => {
                reply("200 OK", "", turn);
                let invite = self.invite.as_ref();
                if invite.is_none_or(|invite| invite.branch() != text.branch()) {
                    self.faults.push("a CANCEL with another branch".to_owned());
                }
                if self.state == State::Ringing {
                    self.refuse("487 Request Terminated", desk, turn);
                }
            }
            "BYE" => {
                reply("200 OK", "", turn);
                self.got_bye = true;
                self.last = None;
                self.is_seen_over(turn.now);
            }
            _ => reply("200 OK", "", turn),
        }
    }

    /// The phone's connection is gone: what was asked over it gets no answer. A BYE is said again.
    pub(crate) fn on_closed(&mut self, turn: &mut Turn<'_>) {
        if self.is_over() {
            return;
        }
        self.is_excused = true;
        let opens = std::mem::take(&mut self.opens);
        if self.state == State::Over && self.last.take().is_some() {
            return;
        }
        if self.state == State::Calling {
            self.is_seen_over(turn.now);
        }
        let has_asked = |method: &str| opens.iter().any(|open| open.method == method);
        if self.state == State::Talking && (has_asked("BYE") || has_asked("INVITE")) {
            let pause = Duration::from_millis(1_000 + turn.rng.below(1_000));
            self.alarms.push((turn.now + pause, Alarm::HangUp));
        }
    }
}
