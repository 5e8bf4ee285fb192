//! A caller: one INVITE from outside, and what a patient phone does with it. Knows RFC 3261 only as
//! far as a phone must, and notes what it saw for the checks.

use std::time::Duration;

use turn::{Mono, Rng};

use crate::text::{Request, Text, response, sdp, sdp_name};

const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);

/// What a caller does, drawn from the seed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The number dialled.
    pub(crate) number: &'static str,
    /// Gives up after that time if nothing final came.
    pub(crate) patience: Option<Duration>,
    /// Hangs up after having talked that long; otherwise waits for the other side.
    pub(crate) talk: Duration,
    /// Sends a re-INVITE while talking.
    pub(crate) hold: bool,
    /// Sends an INFO while talking.
    pub(crate) info: bool,
}

impl Plan {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let numbers = [
            "answer", "answer", "busy", "nobody", "bridge", "bridge", "bridge", "carrier",
            "carrier", "both", "turns",
        ];
        let number = numbers[rng.below(numbers.len() as u64) as usize];
        let gives_up = rng.below(4) == 0;
        Self {
            number,
            patience: gives_up.then(|| Duration::from_millis(rng.below(6_000))),
            talk: Duration::from_millis(200 + rng.below(20_000)),
            hold: rng.below(3) == 0,
            info: rng.below(3) == 0,
        }
    }
}

/// A request that is repeated until it is answered.
#[derive(Debug)]
struct Open {
    text: String,
    method: &'static str,
    number: u32,
    interval: Duration,
    due: Mono,
    until: Mono,
    /// A provisional response came: an INVITE is not repeated any more.
    is_proceeding: bool,
}

/// What the checks want to know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Each different final status of the INVITE; more than one is a fault.
    pub(crate) finals: Vec<u16>,
    pub(crate) sent_bye: bool,
    pub(crate) got_bye: bool,
    pub(crate) sent_cancel: bool,
    /// Requests of ours that nobody answered.
    pub(crate) unanswered: Vec<String>,
    /// What does not fit.
    pub(crate) faults: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) plan: Plan,
    pub(crate) call_id: String,
    pub(crate) local: String,
    pub(crate) seen: Seen,
    from: String,
    to: String,
    target: String,
    cseq: u32,
    open: Vec<Open>,
    /// Give up, begin to hold, send INFO, hang up.
    alarms: Vec<(Mono, Alarm)>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Calling,
    Talking,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alarm {
    GiveUp,
    Hold,
    Info,
    HangUp,
}

impl Caller {
    pub(crate) fn new(id: usize, plan: Plan) -> Self {
        let local = format!("127.0.0.1:{}", 20_000 + id);
        Self {
            call_id: format!("call-{id}@caller"),
            from: format!("<sip:caller{id}@{local}>;tag=from{id}"),
            to: format!("<sip:{}@127.0.0.1:5060>", plan.number),
            target: format!("sip:{}@127.0.0.1:5060", plan.number),
            plan,
            local,
            seen: Seen::default(),
            cseq: 0,
            open: Vec::new(),
            alarms: Vec::new(),
            state: State::Calling,
        }
    }

    fn name(&self) -> String {
        format!("offer of {}", self.call_id)
    }

    pub(crate) fn start(&mut self, now: Mono, out: &mut Vec<String>) {
        let body = sdp(&self.name());
        self.request("INVITE", &body, now, out);
        if let Some(patience) = self.plan.patience {
            self.alarms.push((now + patience, Alarm::GiveUp));
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Mono> {
        let alarms = self.alarms.iter().map(|(at, _)| *at);
        alarms.chain(self.open.iter().map(|open| open.due.min(open.until))).min()
    }

    pub(crate) fn fire(&mut self, now: Mono, out: &mut Vec<String>) {
        let due: Vec<Alarm> =
            self.alarms.iter().filter(|(at, _)| *at <= now).map(|(_, alarm)| *alarm).collect();
        self.alarms.retain(|(at, _)| *at > now);
        for alarm in due {
            self.on_alarm(alarm, now, out);
        }
        for open in &mut self.open {
            if open.due <= now && open.due < open.until {
                if !open.is_proceeding || open.method != "INVITE" {
                    out.push(open.text.clone());
                }
                open.interval *= 2;
                if open.method != "INVITE" {
                    open.interval = open.interval.min(T2);
                }
                open.due = now + open.interval;
            }
        }
        // A re-INVITE whose 2xx was lost stays open for ever once a BYE has ended its dialog.
        let is_over = self.seen.sent_bye || self.seen.got_bye;
        let lost = self.open.iter().filter(|open| {
            open.until <= now && !(is_over && open.method == "INVITE" && open.number > 1)
        });
        self.seen.unanswered.extend(lost.map(|open| format!("{} {}", open.number, open.method)));
        self.open.retain(|open| open.until > now);
    }

    fn on_alarm(&mut self, alarm: Alarm, now: Mono, out: &mut Vec<String>) {
        match (alarm, self.state) {
            (Alarm::GiveUp, State::Calling) => self.cancel(now, out),
            (Alarm::Hold, State::Talking) => {
                let body = sdp(&format!("hold of {}", self.call_id));
                self.request("INVITE", &body, now, out);
            }
            (Alarm::Info, State::Talking) => self.request("INFO", "", now, out),
            (Alarm::HangUp, State::Talking) => {
                self.seen.sent_bye = true;
                self.request("BYE", "", now, out);
            }
            (_, State::Calling | State::Talking | State::Over) => {}
        }
    }

    fn request(&mut self, method: &'static str, body: &str, now: Mono, out: &mut Vec<String>) {
        self.cseq += 1;
        let branch = format!("{}-{}", self.call_id, self.cseq);
        let text = self.write(method, &branch, self.cseq, body);
        out.push(text.clone());
        self.open_request(text, method, self.cseq, now);
    }

    fn open_request(&mut self, text: String, method: &'static str, number: u32, now: Mono) {
        let until = now + T1 * 64 + Duration::from_millis(10);
        // A callee may ring for long; what limits an INVITE is the PBX's ring time.
        let until = if method == "INVITE" { until + Duration::from_secs(120) } else { until };
        let due = now + T1;
        self.open.push(Open {
            text,
            method,
            number,
            interval: T1,
            due,
            until,
            is_proceeding: false,
        });
    }

    fn write(&self, method: &str, branch: &str, cseq: u32, body: &str) -> String {
        let uri = if method == "CANCEL" || cseq == 1 && method == "INVITE" {
            format!("sip:{}@127.0.0.1:5060", self.plan.number)
        } else {
            self.target.clone()
        };
        let to = if method == "CANCEL" { self.to.split(";tag=").next() } else { Some(&*self.to) };
        Request {
            method,
            uri: &uri,
            local: &self.local,
            branch,
            from: &self.from,
            to: to.unwrap_or_default(),
            call_id: &self.call_id,
            cseq,
            contact: &self.local,
            transport: "UDP",
            lines: "",
            body,
        }
        .write()
    }

    fn cancel(&mut self, now: Mono, out: &mut Vec<String>) {
        let invite = self.open.iter().find(|open| open.method == "INVITE");
        let Some(invite) = invite else { return };
        if !invite.is_proceeding {
            // 9.1: not before a provisional response; try again soon.
            self.alarms.push((now + Duration::from_millis(100), Alarm::GiveUp));
            return;
        }
        self.seen.sent_cancel = true;
        let text = self.write("CANCEL", &format!("{}-1", self.call_id), 1, "");
        out.push(text.clone());
        self.open_request(text, "CANCEL", 1, now);
    }

    /// A datagram came.
    pub(crate) fn receive(&mut self, bytes: &[u8], now: Mono, out: &mut Vec<String>) {
        let text = Text::read(bytes);
        match text.status() {
            Some(status) => self.on_response(&text, status, now, out),
            None => self.on_request(&text, out),
        }
    }

    fn on_response(&mut self, text: &Text, status: u16, now: Mono, out: &mut Vec<String>) {
        let number = text.number();
        let method = text.method();
        let at = self.open.iter().position(|o| o.method == method && o.number == number);
        if status < 200 {
            if let Some(at) = at {
                self.open[at].is_proceeding = true;
            }
            return;
        }
        if let Some(at) = at {
            self.open.remove(at);
        }
        match method {
            "INVITE" if number == 1 => self.on_final(text, status, at.is_some(), now, out),
            "INVITE" => self.acknowledge(text, status, out),
            "BYE" => self.state = State::Over,
            // 500: a re-INVITE overtook it (12.2.2).
            "INFO" if at.is_some() && !matches!(status, 200 | 415 | 481 | 500) => {
                self.seen.faults.push(format!("INFO got {status}"));
            }
            _ => {}
        }
    }

    fn on_final(
        &mut self,
        text: &Text,
        status: u16,
        is_first: bool,
        now: Mono,
        out: &mut Vec<String>,
    ) {
        if !self.seen.finals.contains(&status) {
            self.seen.finals.push(status);
        }
        self.acknowledge(text, status, out);
        if !is_first {
            return;
        }
        if status >= 300 {
            self.state = State::Over;
            return;
        }
        self.state = State::Talking;
        self.to = text.header("To").to_owned();
        text.contact().clone_into(&mut self.target);
        self.check_answer(sdp_name(&text.body));
        let talk = self.plan.talk;
        self.alarms.push((now + talk, Alarm::HangUp));
        if self.plan.hold {
            self.alarms.push((now + talk / 2, Alarm::Hold));
        }
        if self.plan.info {
            self.alarms.push((now + talk / 3, Alarm::Info));
        }
    }

    /// Bridged descriptions pass end to end: the callee answers with the name of what it got.
    fn check_answer(&mut self, name: &str) {
        let is_bridged = !matches!(self.plan.number, "answer");
        let wanted = format!("answer to {}", self.name());
        if is_bridged && name != wanted {
            self.seen.faults.push(format!("the answer is \"{name}\", not \"{wanted}\""));
        }
    }

    fn acknowledge(&self, text: &Text, status: u16, out: &mut Vec<String>) {
        let number = text.number();
        let (branch, uri) = if status >= 300 {
            (format!("{}-{number}", self.call_id), None)
        } else {
            (format!("{}-{number}-ack", self.call_id), Some(text.contact()))
        };
        let own = format!("sip:{}@127.0.0.1:5060", self.plan.number);
        let uri = uri.unwrap_or(if number == 1 { &own } else { &self.target });
        out.push(
            Request {
                method: "ACK",
                uri,
                local: &self.local,
                branch: &branch,
                from: &self.from,
                to: text.header("To"),
                call_id: &self.call_id,
                cseq: number,
                contact: &self.local,
                transport: "UDP",
                lines: "",
                body: "",
            }
            .write(),
        );
    }

    fn on_request(&mut self, text: &Text, out: &mut Vec<String>) {
        let local = self.local.clone();
        match text.method() {
            "BYE" => {
                self.seen.got_bye = true;
                self.state = State::Over;
                out.push(response(text, "200 OK", "", &local, ""));
            }
            // Of the callee, through the bridge. A phone would repeat its 2xx; ours leaves that
            // to the repeats of the INVITE, which it answers each time.
            "INVITE" => {
                let body = sdp(&format!("answer to {}", sdp_name(&text.body)));
                out.push(response(text, "200 OK", "", &local, &body));
            }
            "ACK" => {}
            _ => out.push(response(text, "200 OK", "", &local, "")),
        }
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_done(&self) -> bool {
        self.open.is_empty() && self.state == State::Over
    }
}
