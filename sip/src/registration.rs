//! Registering with somebody else's registrar: the UAC side of RFC 3261 §10.2.
//!
//! ```text
//!                 start            2xx
//! Idle ──────────────────► Trying ─────► Registered ── 85-95 % of its time over ──► Trying
//!                          ▲    │ 401/407: again with credentials, at most twice
//!                          │    │ 423: again, for as long as is wanted
//!                          │    └ any other answer, or none ──► Waiting
//!                          └──────── its time over ────────────────┘
//! any ── stop ──► Leaving (Expires: 0) ── any answer, or none ──► Idle
//! ```
//!
//! A value: it is asked to write its request, is told the answer, and says when it wants to be
//! asked again. After a failure it waits 30 s, then twice as long each time up to half an hour, of
//! which a random half is cut off, so that the clients of a registrar that comes back do not come
//! together (RFC 5626 §4.5). All REGISTERs have one Call-ID and growing CSeq numbers (§10.2).

use std::sync::Arc;
use std::time::Duration;

use turn::{Mono, Rng};

use crate::digest::{Account, Answering};
use crate::wire::{Message, Name, NameAddr, Uri};

/// The first wait after a failure.
const WAIT_MIN: Duration = Duration::from_secs(30);

/// The longest one.
const WAIT_MAX: Duration = Duration::from_secs(1800);

/// The longest time that a registrar may force on us by 423.
const EXPIRES_MAX: Duration = Duration::from_secs(86_400);

/// Whom to register with, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationConfig {
    /// The registrar's URI: the Request-URI.
    pub registrar: Box<str>,
    /// The address of record: From and To.
    pub aor: Box<str>,
    /// The user part of our Contact: how calls to us will be addressed.
    pub contact_user: Box<str>,
    /// For how long.
    pub expires: Duration,
    /// What challenges are answered with.
    pub accounts: Arc<[Account]>,
}

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is wanted.
    Idle,
    /// A REGISTER is under way.
    Trying,
    /// The registrar knows us.
    Registered,
    /// It does not, and we wait.
    Waiting,
    /// We tell it to forget us.
    Leaving,
}

/// What follows from an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the request that [`Registration::write`] writes.
    Send,
    /// Call [`Registration::on_due`] then.
    WaitUntil(Mono),
    /// Nothing.
    Rest,
}

/// See the module.
#[derive(Debug)]
pub struct Registration {
    config: Arc<RegistrationConfig>,
    state: State,
    cseq: u32,
    answering: Answering,
    /// What is asked for; a 423 may have raised it.
    expires: Duration,
    failures: u32,
    has_raised: bool,
    /// Until when the registrar knows us.
    until: Mono,
}

impl Registration {
    /// One that has not begun.
    pub fn new(config: Arc<RegistrationConfig>) -> Self {
        Self {
            state: State::Idle,
            cseq: 0,
            answering: Answering::default(),
            expires: config.expires,
            failures: 0,
            has_raised: false,
            until: Mono::ZERO,
            config,
        }
    }

    /// Whom it registers with.
    pub fn config(&self) -> &RegistrationConfig {
        &self.config
    }

    /// How it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Until when the registrar knows us; in the past if it does not.
    pub fn until(&self) -> Mono {
        self.until
    }

    /// Begins, or begins anew.
    pub fn start(&mut self) -> Step {
        self.state = State::Trying;
        self.begin()
    }

    /// Ends: the registrar is told to forget us, if it knows us.
    pub fn stop(&mut self, now: Mono) -> Step {
        let is_known = self.until > now || self.state == State::Trying;
        self.state = if is_known { State::Leaving } else { State::Idle };
        if is_known { self.begin() } else { Step::Rest }
    }

    /// The time that a [`Step::WaitUntil`] named has come.
    pub fn on_due(&mut self) -> Step {
        match self.state {
            State::Registered | State::Waiting => {
                self.state = State::Trying;
                self.begin()
            }
            State::Idle | State::Trying | State::Leaving => Step::Rest,
        }
    }

    fn begin(&mut self) -> Step {
        self.answering.begin();
        self.has_raised = false;
        Step::Send
    }

    /// Writes what the request adds to what every REGISTER has: Contact, Expires, credentials.
    /// Gives the number for its CSeq.
    pub fn write(&mut self, contact: &[u8], rng: &mut Rng, out: &mut Vec<u8>) -> u32 {
        self.cseq += 1;
        let leaves = self.state == State::Leaving;
        let expires = if leaves { 0 } else { self.expires.as_secs() };
        out.extend_from_slice(b"Contact: ");
        out.extend_from_slice(contact);
        out.extend_from_slice(format!("\r\nExpires: {expires}\r\n").as_bytes());
        let uri = self.config.registrar.as_bytes();
        let accounts = Arc::clone(&self.config.accounts);
        self.answering.write(&accounts, b"REGISTER", uri, rng.next_u64(), out);
        self.cseq
    }

    /// The final response, or none in time. `contact` is the URI of our own Contact.
    pub fn on_reply(
        &mut self,
        now: Mono,
        (status, message): (u16, Option<&Message<'_>>),
        contact: &[u8],
        rng: &mut Rng,
    ) -> Step {
        match (self.state, message) {
            (State::Trying | State::Leaving, Some(message)) if matches!(status, 401 | 407) => {
                let accounts = Arc::clone(&self.config.accounts);
                match self.answering.on_challenge(message, &accounts) {
                    Ok(()) => Step::Send,
                    Err(_) => self.fail(now, None, rng),
                }
            }
            (State::Trying, Some(message)) if status == 423 && self.raise(message) => Step::Send,
            (State::Trying, Some(message)) if (200..300).contains(&status) => {
                self.succeed(now, message, contact, rng)
            }
            (State::Trying, message) => {
                let after = message.and_then(|message| message.number(Name::RetryAfter));
                self.fail(now, after.map(|after| Duration::from_secs(after.into())), rng)
            }
            (State::Leaving, _) => {
                self.state = State::Idle;
                self.until = Mono::ZERO;
                Step::Rest
            }
            (State::Idle | State::Registered | State::Waiting, _) => Step::Rest,
        }
    }

    /// Takes the time that the registrar wants at least (§10.2.8), once.
    fn raise(&mut self, message: &Message<'_>) -> bool {
        let wanted = message.number(Name::MinExpires).map(|it| Duration::from_secs(it.into()));
        match wanted {
            Some(wanted) if !self.has_raised && wanted > self.expires && wanted <= EXPIRES_MAX => {
                self.has_raised = true;
                self.expires = wanted;
                true
            }
            Some(_) | None => false,
        }
    }

    fn succeed(&mut self, now: Mono, message: &Message<'_>, contact: &[u8], rng: &mut Rng) -> Step {
        let granted = granted(message, contact).unwrap_or(self.expires);
        if granted.is_zero() {
            // Accepted, and gone at once: as good as refused.
            return self.fail(now, None, rng);
        }
        self.state = State::Registered;
        self.failures = 0;
        self.until = now + granted;
        // Between 85 and 95 % of the time.
        let share = 850 + rng.below(100);
        let millis = u64::try_from(granted.as_millis()).unwrap_or(u64::MAX) / 1000 * share;
        Step::WaitUntil(now + Duration::from_millis(millis.max(1000)))
    }

    fn fail(&mut self, now: Mono, after: Option<Duration>, rng: &mut Rng) -> Step {
        if self.state == State::Leaving {
            self.state = State::Idle;
            return Step::Rest;
        }
        self.state = State::Waiting;
        let most = WAIT_MIN.saturating_mul(1 << self.failures.min(10)).min(WAIT_MAX);
        self.failures = self.failures.saturating_add(1);
        let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        let wait = Duration::from_millis(millis / 2 + rng.below(millis / 2 + 1));
        Step::WaitUntil(now + wait.max(after.unwrap_or_default().min(WAIT_MAX)))
    }
}

/// For how long the registrar keeps *our* contact: the response lists those of others, too (case
/// R07).
fn granted(message: &Message<'_>, contact: &[u8]) -> Option<Duration> {
    let ours = Uri::parse(contact).ok()?;
    let seconds = |text: &[u8]| str::from_utf8(text).ok()?.trim().parse::<u32>().ok();
    let is_ours = |it: &NameAddr<'_>| Uri::parse(it.uri).is_ok_and(|uri| uri.equivalent(&ours));
    let header = || message.header(Name::Expires).and_then(seconds);
    let own = message.contacts().find(is_ours)?;
    let granted = own.params.value(b"expires").and_then(seconds).or_else(header)?;
    Some(Duration::from_secs(granted.into()))
}

#[cfg(test)]
mod tests;
