//! A phone: a registration and calls, over datagrams or over connections that it opens.

use std::net::SocketAddr;
use std::time::Duration;

use turn::{Mono, Rng};

use super::desk::{Desk, Turn};
use super::registration::Registration;
use super::talk::Talk;
use crate::text::{Text, response};

/// What its user does, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    Call(String),
    SwitchOff { says_so: bool },
    SwitchOn,
}

#[derive(Debug)]
pub(crate) struct Phone {
    pub(crate) desk: Desk,
    pub(crate) registration: Registration,
    pub(crate) talks: Vec<Talk>,
    /// Over a stream: the near end of its connection.
    pub(crate) connection: Option<SocketAddr>,
    /// In the order in which it is done.
    habits: Vec<(Mono, Habit)>,
    calls: u32,
}

/// When the last call begins.
pub(crate) const LAST_CALL: Duration = Duration::from_secs(150);
/// When the last phone is switched off.
const CLOSING: Duration = Duration::from_secs(240);

impl Phone {
    /// The phone at that place; those behind the last name are second phones of an account.
    pub(crate) fn new(place: usize, names: &[String], rng: &mut Rng) -> Self {
        let name = &names[place % names.len()];
        let is_stream = rng.below(3) == 0;
        let at = |rng: &mut Rng, from: u64, to: u64| {
            Mono::ZERO + Duration::from_millis(from + rng.below(to - from))
        };
        let wanted = [30, 60, 60, 90, 120][rng.below(5) as usize];
        let starts_at = at(rng, 0, 4_000);
        let mut habits = Vec::new();
        for _ in 0..3 + rng.below(4) {
            let dialled = rng.below(names.len() as u64 + 1) as usize;
            let dialled = names.get(dialled).map_or("echo", |name| name);
            let calls_at = at(rng, 8_000, LAST_CALL.as_millis() as u64);
            if dialled != name {
                habits.push((calls_at, Habit::Call(dialled.to_owned())));
            }
        }
        if rng.below(3) == 0 {
            let off_at = at(rng, 20_000, 120_000);
            habits.push((off_at, Habit::SwitchOff { says_so: rng.below(3) > 0 }));
            habits.push((off_at + Duration::from_millis(200 + rng.below(40_000)), Habit::SwitchOn));
        }
        let ends_at = at(rng, 180_000, CLOSING.as_millis() as u64);
        habits.push((ends_at, Habit::SwitchOff { says_so: rng.below(2) == 0 }));
        habits.sort_by_key(|(at, _)| *at);
        Self {
            desk: Desk::new(name, &format!("10.0.0.{}:5060", place + 1), is_stream),
            registration: Registration::new(place, wanted, starts_at),
            talks: Vec::new(),
            connection: None,
            habits,
            calls: 0,
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Mono> {
        let habit = self.habits.first().map(|(at, _)| *at);
        let talks = self.talks.iter().filter_map(Talk::next_timeout);
        talks.chain(habit).chain(self.registration.next_timeout()).min()
    }

    pub(crate) fn fire(&mut self, turn: &mut Turn<'_>) {
        while self.habits.first().is_some_and(|(at, _)| *at <= turn.now) {
            match self.habits.remove(0).1 {
                Habit::Call(number) => self.call(&number, turn),
                Habit::SwitchOff { says_so } => self.registration.switch_off(says_so, turn),
                Habit::SwitchOn => self.registration.switch_on(turn),
            }
        }
        self.registration.fire(&mut self.desk, turn);
        for talk in &mut self.talks {
            talk.fire(&mut self.desk, turn);
        }
    }

    fn call(&mut self, number: &str, turn: &mut Turn<'_>) {
        self.calls += 1;
        let host = self.desk.host.split(':').next().unwrap_or_default();
        let call_id = format!("call-{host}-{}-{}", turn.rng.below(1000) * 100, self.calls);
        let talk = Talk::calling((number, &call_id), &mut self.desk, turn);
        self.talks.push(talk);
    }

    /// A message came.
    pub(crate) fn receive(&mut self, raw: &str, turn: &mut Turn<'_>) {
        let text = Text::read(raw.as_bytes());
        let call_id = text.header("Call-ID").to_owned();
        let status = text.status();
        if let (Some(status), "REGISTER") = (status, text.method()) {
            self.registration.on_response((&text, raw, status), &mut self.desk, turn);
            return;
        }
        let talk = self.talks.iter_mut().find(|talk| talk.call_id == call_id);
        match (talk, status) {
            (Some(talk), Some(status)) => {
                talk.on_response((&text, raw, status), &mut self.desk, turn);
            }
            (Some(talk), None) => talk.on_request(&text, &mut self.desk, turn),
            (None, None) if text.method() == "INVITE" && text.tag("To").is_none() => {
                let talk = Talk::called(text, &mut self.desk, turn);
                self.talks.push(talk);
            }
            (None, None) if text.method() != "ACK" => {
                // It overtook its INVITE, or is for nobody.
                let status = "481 Call/Transaction Does Not Exist";
                turn.out.push(response(&text, status, "none", &self.desk.contact(), ""));
            }
            (None, _) => {}
        }
    }

    /// Its connection is gone, or could not be opened.
    pub(crate) fn on_closed(&mut self, turn: &mut Turn<'_>) {
        self.connection = None;
        self.registration.on_closed(turn);
        self.talks.iter_mut().for_each(|talk| talk.on_closed(turn));
    }
}
