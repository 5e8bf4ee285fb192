//! Who may come in: asked about each request that would begin something, before it costs anything.
//!
//! Whoever brings credentials is the endpoint that they belong to; without them, a source address
//! that a trunk has is that trunk; anybody else is a stranger and gets a challenge (RFC 3261 22.2),
//! the same one whatever he asked for, as long as his budget lasts (`strangers`). Who registers is
//! always an endpoint. Then come the caps: new calls are refused first when something is short (503
//! with Retry-After), running calls last.

use sip::digest::{Challenger, Checked, NonceCounts, Verdict};
use sip::endpoint::{Admission, Reply};
use sip::path::Path;
use sip::wire::{Message, Method, Uri};
use turn::{Mono, Now};

use crate::directory::{Directory, PhoneId};
use crate::shard::Limits;
use crate::strangers::{self, Charge, Strangers};
use crate::{Refused, TrunkId};

/// Seconds after which a refused caller may try again: long enough for a burst to pass.
const RETRY_AFTER_S: u32 = 2;

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A trunk, known by its address.
    Trunk(TrunkId),
    /// An endpoint, known by its password.
    Phone(PhoneId),
}

/// The gate for one message.
pub(crate) struct Gate<'g> {
    pub(crate) directory: &'g Directory,
    pub(crate) challenger: &'g Challenger,
    pub(crate) nonces: &'g dyn NonceCounts,
    pub(crate) strangers: &'g mut Strangers,
    pub(crate) trunk_calls: &'g [u32],
    pub(crate) limits: &'g Limits,
    pub(crate) calls: usize,
    pub(crate) is_draining: bool,
    /// Whether what must survive the program can be written.
    pub(crate) has_room_to_store: bool,
    pub(crate) now: Now,
    pub(crate) received_at: Mono,
    /// For the header lines of a challenge.
    pub(crate) lines: &'g mut Vec<u8>,
    /// Whom his credentials name, right or wrong.
    pub(crate) claimed: Option<PhoneId>,
    /// Who it was, when he was let in.
    pub(crate) caller: Option<Caller>,
    /// Why he was not.
    pub(crate) refused: Option<Refused>,
    /// What his budget said, when he was not.
    pub(crate) verdict: Option<strangers::Verdict>,
}

impl Gate<'_> {
    /// Who sends it, or why nobody can say.
    fn identify(&mut self, message: &Message<'_>, path: &Path) -> Result<Caller, Refused> {
        let directory = self.directory;
        let find = |user: &str| {
            let id = directory.phone_of_user(user)?;
            directory.phone(id)?.secret.as_ref()
        };
        let Checked { verdict, username } =
            self.challenger.check(self.now.wall, message, find, self.nonces);
        let named = username.as_deref().and_then(|user| str::from_utf8(user).ok());
        self.claimed = named.and_then(|user| directory.phone_of_user(user));
        match verdict {
            Verdict::None => self.identify_by_source(message, path),
            Verdict::Accepted => self.identify_by_user(username.as_deref(), message, path),
            Verdict::Stale => Err(Refused::Stale),
            Verdict::Wrong => Err(Refused::WrongPassword),
            Verdict::Unknown => Err(Refused::UnknownUser),
            Verdict::Malformed => Err(Refused::Credentials),
        }
    }

    fn identify_by_source(&self, message: &Message<'_>, path: &Path) -> Result<Caller, Refused> {
        let has_accounts = !self.directory.phones().is_empty();
        let stranger = if has_accounts { Refused::Challenged } else { Refused::Stranger };
        if message.method() == Method::Register {
            return Err(stranger);
        }
        let trunk = self.directory.trunks().of_source(path.remote.ip());
        trunk.map(Caller::Trunk).ok_or(stranger)
    }

    /// His password was right; now he must be where and who he says he is.
    fn identify_by_user(
        &mut self,
        username: Option<&[u8]>,
        message: &Message<'_>,
        path: &Path,
    ) -> Result<Caller, Refused> {
        let user = username.and_then(|user| str::from_utf8(user).ok());
        let id = user.and_then(|user| self.directory.phone_of_user(user));
        let phone = id.and_then(|id| Some((id, self.directory.phone(id)?)));
        let Some((id, phone)) = phone else { return Err(Refused::UnknownUser) };
        let ip = path.remote.ip();
        if !phone.sources.is_empty() && !phone.sources.iter().any(|net| net.contains(ip)) {
            return Err(Refused::Acl);
        }
        self.strangers.vouch(self.directory.strangers(), self.now.mono, ip);
        let is_his = |uri: &[u8]| {
            let user = Uri::parse(uri).ok().and_then(|uri| uri.user);
            user.is_some_and(|user| {
                let mut name = Vec::with_capacity(user.len());
                sip::wire::unescape(user, &mut name);
                phone.answers_to(&name)
            })
        };
        let named_to = message.method() != Method::Register || is_his(message.to().uri);
        if !named_to || !is_his(message.from().uri) {
            return Err(Refused::NotHis);
        }
        Ok(Caller::Phone(id))
    }

    /// Whether there is room for what he wants.
    fn judge(&self, caller: Caller, method: Method<'_>) -> Option<Refused> {
        if method == Method::Register {
            return (!self.has_room_to_store).then_some(Refused::StoreFull);
        }
        if self.is_draining {
            return Some(Refused::Draining);
        }
        if method != Method::Invite {
            return None;
        }
        if self.now.mono - self.received_at > self.limits.sojourn_max {
            return Some(Refused::Sojourn);
        }
        if self.calls >= self.limits.calls_soft_max as usize {
            return Some(Refused::CallsMax);
        }
        match caller {
            Caller::Trunk(id) => {
                let most = self.directory.trunks().view(id).and_then(|trunk| trunk.calls_max);
                let has = self.trunk_calls.get(usize::from(id.0)).copied().unwrap_or(0);
                most.is_some_and(|most| has >= most).then_some(Refused::TrunkMax)
            }
            Caller::Phone(id) => {
                let phone = self.directory.phone(id)?;
                let is_full = phone.calls_max.is_some_and(|most| phone.state.calls() >= most);
                is_full.then_some(Refused::PhoneMax)
            }
        }
    }

    /// What a stranger gets, as far as his budget goes.
    fn turn_away(&mut self, why: Refused, path: &Path) -> Reply<'_> {
        let charge = match (why.is_failure(), why == Refused::Stranger) {
            (true, _) => Charge::Failure,
            (false, true) => Charge::Rubbish,
            (false, false) => Charge::Challenge,
        };
        let budget = self.directory.strangers();
        let verdict = self.strangers.charge(budget, self.now.mono, path.remote.ip(), charge);
        self.verdict = Some(verdict);
        if matches!(verdict, strangers::Verdict::Silence | strangers::Verdict::Closes) {
            return Reply::silence();
        }
        if why == Refused::Stranger {
            return Reply::status(403);
        }
        self.lines.clear();
        self.challenger.challenge(self.now.wall, false, why == Refused::Stale, self.lines);
        Reply { lines: self.lines, ..Reply::status(401) }
    }
}

impl Admission for Gate<'_> {
    fn refuse<'s>(&'s mut self, message: &Message<'_>, path: &Path) -> Option<Reply<'s>> {
        let known = self.identify(message, path);
        let judged = known.map(|caller| (caller, self.judge(caller, message.method())));
        match judged {
            Ok((caller, None)) => {
                self.caller = Some(caller);
                None
            }
            Ok((_, Some(why))) => {
                self.refused = Some(why);
                Some(Reply::retry_after(503, RETRY_AFTER_S))
            }
            Err(why) => {
                self.refused = Some(why);
                if why == Refused::NotHis {
                    return Some(Reply::status(403));
                }
                Some(self.turn_away(why, path))
            }
        }
    }
}
