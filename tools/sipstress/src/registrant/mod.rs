//! The registrations that we make: a pure state machine for each, times and bytes as arguments.
//!
//! ```text
//! place ──REGISTER──► Asking ──401──► Proving ──2xx──► answered and completed
//!                       │               │ 401 again: refused
//!                       └── 2xx: answered, though nobody asked for a password
//!          Timers E and F repeat a request and give it up (RFC 3261 17.1.2)
//! ```
//!
//! Each registration is one of a phone that has just started: a Call-ID of its own, a challenge, a
//! digest (RFC 7616, the strongest hash that is offered unless told otherwise), the same Contact as
//! last time. The users take turns. The time runs from the moment at which the registration was due
//! to the kernel's receipt of the 2xx, both requests included.

mod users;

pub use users::Users;

use crate::caller::{Sending, T1, T2};
use crate::identity::{Kind, Mark, Run};
use crate::tally::{Cause, Tally};
use crate::workload::Workload;
use sip::digest::{Account, Answering, Password};
use sip::path::{Outbox, Path, Transport};
use sip::wire::{Builder, Framing, Index, Message, Method, Name};
use std::net::SocketAddr;
use std::time::Duration;
use turn::{Mono, Rng, Seed, Slot, Slots, Wheel};

/// How registrations behave.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// How long to wait for the final response.
    pub timeout: Duration,
    /// Registrations at once.
    pub open_max: u32,
    /// How long each binding is to last.
    pub expires: Duration,
}

/// A user, and all that his requests have in common.
#[derive(Debug)]
struct User {
    aor: Box<str>,
    contact: Box<str>,
    accounts: [Account; 1],
}

#[derive(Debug)]
struct Registration {
    user: u32,
    scheduled: Mono,
    due: Mono,
    deadline: Mono,
    interval: Duration,
    /// What the challenge taught; `None` before it came.
    answering: Option<Box<Answering>>,
    cnonce: u64,
}

/// All registrations of a run.
#[derive(Debug)]
pub struct Registrant {
    run: Run,
    path: Path,
    behaviour: Behaviour,
    users: Vec<User>,
    next_user: u32,
    registrar: String,
    open: Slots<Registration>,
    wheel: Wheel<Slot>,
    due: Vec<Slot>,
    index: Option<Box<Index>>,
    outbox: Outbox,
    sendings: Vec<Sending>,
    lines: Vec<u8>,
    rng: Rng,
    tally: Tally,
}

impl Registrant {
    /// No registrations yet. `run` tells the identifiers of two runs apart.
    pub fn new(
        (run, seed): (Run, Seed),
        users: &Users,
        (local, target): (SocketAddr, SocketAddr),
        behaviour: Behaviour,
        now: Mono,
    ) -> Self {
        let user = |place: u64| {
            let name = users.name(place);
            User {
                aor: format!("sip:{name}@{target}").into(),
                contact: format!("<sip:{name}@{local}>").into(),
                accounts: [Account {
                    user: name.into(),
                    realm: None,
                    password: Password::of_text(&users.password(place)),
                }],
            }
        };
        Self {
            run,
            path: Path { transport: Transport::Udp, local, remote: target },
            behaviour,
            users: (0..users.count()).map(user).collect(),
            next_user: 0,
            registrar: format!("sip:{target}"),
            open: Slots::with_capacity(behaviour.open_max),
            wheel: Wheel::new(now),
            due: Vec::new(),
            index: Some(Box::new(Index::new())),
            outbox: Outbox::new(),
            sendings: Vec::new(),
            lines: Vec::new(),
            rng: Rng::new(seed),
            tally: Tally::default(),
        }
    }

    fn on_response(&mut self, response: &Message<'_>, at: Mono, now: Mono) {
        let status = response.status().unwrap_or(0);
        let ours = response.top_via().branch().and_then(|branch| self.run.read_branch(branch));
        let found = ours.filter(|_| response.cseq().method == Method::Register);
        let Some((kind, slot)) = found else {
            self.tally.strays += 1;
            return;
        };
        let Some(registration) = self.open.view(slot) else {
            self.tally.late_answers += 1;
            return;
        };
        // The answer to the first request may come twice.
        if is_proof(kind) != registration.answering.is_some() {
            self.tally.repeated_answers += 1;
            return;
        }
        match status {
            100..=199 => self.tally.trying += 1,
            200..=299 => {
                let scheduled = registration.scheduled;
                *self.tally.statuses.entry(status).or_default() += 1;
                self.tally.answer(at - scheduled);
                self.tally.completed += 1;
                self.open.remove(slot);
            }
            401 | 407 => self.on_challenge(slot, response, now),
            _ => self.fail(slot, response),
        }
    }

    fn on_challenge(&mut self, slot: Slot, response: &Message<'_>, now: Mono) {
        let Some(registration) = self.open.view_mut(slot) else { return };
        let user = &self.users[registration.user as usize];
        let mut answering = registration.answering.take().unwrap_or_default();
        if answering.on_challenge(response, &user.accounts).is_err() {
            registration.answering = Some(answering);
            return self.fail(slot, response);
        }
        registration.answering = Some(answering);
        registration.cnonce = self.rng.next_u64();
        registration.interval = T1;
        self.send(slot, Sending::Other);
        self.rearm(slot, now + T1);
    }

    fn fail(&mut self, slot: Slot, response: &Message<'_>) {
        let status = response.status().unwrap_or(0);
        *self.tally.statuses.entry(status).or_default() += 1;
        let has_retry_after = response.header(Name::RetryAfter).is_some();
        self.tally.retry_after += u64::from(status == 503 && has_retry_after);
        self.tally.fail(Cause::of_status(status));
        self.open.remove(slot);
    }

    fn on_timer(&mut self, slot: Slot, now: Mono) {
        let Some(registration) = self.open.view_mut(slot) else { return };
        if registration.due > now {
            return;
        }
        if registration.deadline <= now {
            self.tally.fail(Cause::Timeout);
            self.open.remove(slot);
            return;
        }
        registration.interval = (registration.interval * 2).min(T2);
        let at = now + registration.interval;
        self.rearm(slot, at);
        self.send(slot, Sending::Repeat);
    }

    fn rearm(&mut self, slot: Slot, at: Mono) {
        let Some(registration) = self.open.view_mut(slot) else { return };
        registration.due = at.min(registration.deadline);
        self.wheel.arm(registration.due, slot);
    }

    /// Composes the request that the registration stands at. Made twice it has the same bytes.
    fn send(&mut self, slot: Slot, sending: Sending) {
        let Self { outbox, path, users, open, lines, registrar, run, behaviour, .. } = self;
        let Some(registration) = open.view_mut(slot) else { return };
        let user = &users[registration.user as usize];
        let mark = run.mark(slot);
        lines.clear();
        let kind = match &registration.answering {
            None => Kind::Invite,
            Some(answering) => {
                // A copy: what is written once more must not count up.
                let mut answering = answering.clone();
                let uri = registrar.as_bytes();
                let cnonce = registration.cnonce;
                answering.write(&user.accounts, b"REGISTER", uri, cnonce, lines);
                Kind::Bye
            }
        };
        let head = Head { user, mark: &mark, kind, local: path.local };
        outbox.compose(*path, |out| head.write(out, registrar, lines, behaviour.expires));
        self.sendings.push(sending);
    }
}

/// Whether the request of that kind carried credentials.
fn is_proof(kind: Kind) -> bool {
    kind == Kind::Bye
}

struct Head<'h> {
    user: &'h User,
    mark: &'h Mark,
    kind: Kind,
    local: SocketAddr,
}

impl Head<'_> {
    fn write(&self, out: &mut Vec<u8>, registrar: &str, lines: &[u8], expires: Duration) {
        let local = self.local.to_string();
        let kind = [self.kind as u8];
        let (aor, contact) = (self.user.aor.as_bytes(), self.user.contact.as_bytes());
        let cseq = if is_proof(self.kind) { b"2 REGISTER" } else { b"1 REGISTER" };
        let (local, mark) = (local.as_bytes(), &self.mark[..]);
        let via: [&[u8]; 6] =
            [b"SIP/2.0/UDP ", local, b";rport;branch=", sip::wire::MAGIC_COOKIE, &kind, mark];
        Builder::request(out, b"REGISTER", registrar.as_bytes())
            .parts(Name::Via, &via)
            .header(Name::MaxForwards, b"70")
            .parts(Name::From, &[b"<", aor, b">;tag=", mark])
            .parts(Name::To, &[b"<", aor, b">"])
            .parts(Name::CallId, &[mark, b"@sipstress"])
            .header(Name::CSeq, cseq)
            .header(Name::Contact, contact)
            .number(Name::Expires, expires.as_secs())
            .line(lines)
            .header(Name::UserAgent, b"sipstress")
            .no_body();
    }
}

impl Workload for Registrant {
    fn place(&mut self, scheduled: Mono, now: Mono) -> bool {
        let registration = Registration {
            user: self.next_user,
            scheduled,
            due: now + T1,
            deadline: now + self.behaviour.timeout,
            interval: T1,
            answering: None,
            cnonce: 0,
        };
        let Ok(slot) = self.open.insert(registration) else { return false };
        self.next_user = (self.next_user + 1) % self.users.len() as u32;
        self.send(slot, Sending::Invite { slot, scheduled });
        self.rearm(slot, now + T1);
        true
    }

    fn receive(&mut self, bytes: &[u8], at: Mono, now: Mono) {
        self.tally.packets_in += 1;
        self.tally.read_lag.note(now - at);
        let Some(mut index) = self.index.take() else { return };
        match index.parse(bytes, Framing::Datagram) {
            // Nobody has anything to ask of us: an OPTIONS ping is left without an answer.
            Ok(message) if message.is_request() => self.tally.requests += 1,
            Ok(message) => self.on_response(&message, at, now),
            Err(_) => self.tally.garbage += 1,
        }
        self.index = Some(index);
    }

    fn fire(&mut self, now: Mono) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.fire(now, &mut due);
        for slot in due.drain(..) {
            self.on_timer(slot, now);
        }
        self.due = due;
    }

    fn next_timeout(&self) -> Option<Mono> {
        self.wheel.next_timeout()
    }

    fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    fn on_sent(&mut self, index: usize, now: Mono) {
        self.tally.packets_out += 1;
        match self.sendings[index] {
            Sending::Invite { scheduled, .. } => {
                self.tally.sent += 1;
                self.tally.send_lag.note(now - scheduled);
            }
            Sending::Repeat => self.tally.retransmissions += 1,
            Sending::Other => {}
        }
    }

    fn on_unsent(&mut self, index: usize) {
        if let Sending::Invite { slot, .. } = self.sendings[index] {
            self.tally.fail(Cause::Unsent);
            self.open.remove(slot);
        }
    }

    fn clear_sends(&mut self) {
        self.outbox.clear();
        self.sendings.clear();
    }

    fn open(&self) -> usize {
        self.open.len()
    }

    fn held(&self) -> usize {
        0
    }

    fn hang_up(&mut self, _: usize, _: Mono) -> usize {
        0
    }

    fn give_up_all(&mut self) {
        let slots: Vec<_> = self.open.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.tally.fail(Cause::Timeout);
            self.open.remove(slot);
        }
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}
