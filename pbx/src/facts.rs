//! The one place that turns facts into log records. (Metrics come from the counts that the shards
//! keep, see [`crate::metrics`].)
//!
//! Whatever a stranger wrote goes in as bytes or [`Quoted`]: the writer then takes away what could
//! forge a line or end a quotation. Lines that fail2ban reads keep the wording of its stock filter.

use call::{CallFact, CallFault, Channel, DialStatus};
use dialplan::LogLevel;
use logging::{Lane, Name, Quoted, Shown, debug, error, notice, verbose, warning};
use pbx_core::{Fact, Registered, Unregistered};
use sip::wire::Fault;
use std::borrow::Cow;
use std::net::SocketAddr;
use turn::{Mono, Now};

mod drops;
mod limiter;
mod security;
mod trace;

use drops::Drops;
use limiter::Limiter;
pub(crate) use limiter::{EventCounts, Reason};
use security::Attempt;
pub(crate) use trace::Direction;

/// Writes the facts of one shard into its lane.
pub struct Facts {
    lane: Lane,
    now: Now,
    drops: Drops,
    /// How many lines the security log may get.
    limiter: Limiter,
    /// When the next sums of it may be told.
    sums_at: Mono,
}

impl Facts {
    /// Writes into `lane`.
    pub fn new(lane: Lane) -> Self {
        let (drops, limiter) = (Drops::default(), Limiter::default());
        Self { lane, now: Now::default(), drops, limiter, sums_at: Mono::ZERO }
    }

    /// Tells what time it is, once a turn.
    pub fn set_now(&mut self, now: Now) {
        self.now = now;
        self.lane.set_now(now);
    }

    /// Puts one fact into the log, if anybody wants it.
    pub fn write(&mut self, fact: &Fact) {
        match fact {
            Fact::Call(fact) => self.call(fact),
            Fact::Refused { why, path, method, from: _, call_id, endpoint } => {
                let endpoint = endpoint.as_deref();
                self.refused(*why, &Attempt { path: *path, method, call_id, endpoint });
            }
            Fact::SourceClosed { source, penalty } => warning!(
                self.lane,
                from = *source,
                "{} has failed too often: nothing of it is read for {} seconds",
                source.ip(),
                penalty.as_secs()
            ),
            Fact::Unanswered { path, call_id, challenges } => {
                self.unanswered_challenges(*path, call_id, *challenges);
            }
            Fact::StrangeNumber { path, endpoint } => self.strange_number(*path, endpoint),
            Fact::Registered { endpoint, contact, path, expires, is_new } => {
                if *is_new {
                    self.succeeded(*path, endpoint);
                }
                self.registered(endpoint, contact, path.remote, expires.as_secs(), *is_new);
            }
            Fact::Unregistered { aor, contact, why } => self.unregistered(aor, contact, *why),
            Fact::NotRegistered { endpoint, path, status } => notice!(
                self.lane,
                from = path.remote,
                "Registration of endpoint '{}' from {} refused with {}",
                &*endpoint.name,
                path.remote,
                *status
            ),
            Fact::TrunkRegistration { endpoint, registered, status } => {
                self.trunk_registration(&endpoint.name, *registered, *status);
            }
            Fact::PeerReach { endpoint, peer, is_reachable: true, rtt } => notice!(
                self.lane,
                "Peer {} of trunk '{}' is now Reachable. ({}ms)",
                Shown(peer),
                &*endpoint.name,
                rtt.map_or(0, |rtt| u64::try_from(rtt.as_millis()).unwrap_or(u64::MAX))
            ),
            Fact::PeerReach { endpoint, peer, is_reachable: false, .. } => warning!(
                self.lane,
                "Peer {} of trunk '{}' is now UNREACHABLE!",
                Shown(peer),
                &*endpoint.name
            ),
            Fact::Malformed { fault, path, is_strangers, answered } => {
                self.broken(fault, *answered, path.remote);
                if *is_strangers {
                    self.malformed(*path);
                }
            }
            Fact::Forwarded { .. } | Fact::Originated { .. } | Fact::NotOriginated { .. } => {
                self.way_of_call(fact);
            }
            Fact::NotLocated { name, is_silent } => self.not_located(name, *is_silent),
            Fact::Unroutable { target } => {
                let target = number_word(target);
                warning!(self.lane, "There is no way to '{}'", Quoted(&target));
            }
        }
    }

    fn broken(&mut self, fault: &Fault, answered: u16, source: SocketAddr) {
        debug!(
            1,
            self.lane,
            from = source,
            "Message from {} breaks a rule ({}), answered {}",
            source,
            Shown(fault),
            answered
        );
    }

    /// Asterisk's words for what a registrar did.
    fn registered(
        &mut self,
        endpoint: &call::Endpoint,
        contact: &[u8],
        source: SocketAddr,
        seconds: u64,
        is_new: bool,
    ) {
        if is_new {
            verbose!(
                3,
                self.lane,
                "Added contact '{}' to AOR '{}' with expiration of {} seconds (from {})",
                contact,
                &*endpoint.name,
                seconds,
                source
            );
        } else {
            verbose!(
                4,
                self.lane,
                "Refreshed contact '{}' on AOR '{}' with expiration of {} seconds",
                contact,
                &*endpoint.name,
                seconds
            );
        }
    }

    fn not_located(&mut self, name: &str, is_silent: bool) {
        let name = Quoted(name);
        if is_silent {
            warning!(self.lane, "No DNS server could tell where '{}' is", name);
        } else {
            warning!(self.lane, "The DNS has no address for '{}' that can be called", name);
        }
    }

    fn trunk_registration(&mut self, trunk: &str, registered: Registered, status: u16) {
        match registered {
            Registered::Yes => notice!(self.lane, "Registered with trunk '{}'", trunk),
            Registered::Refused => warning!(
                self.lane,
                "Trunk '{}' refuses our registration with {}; it is tried again later",
                trunk,
                status
            ),
            Registered::Silent => warning!(
                self.lane,
                "Trunk '{}' does not answer our registration; it is tried again later",
                trunk
            ),
            Registered::No | Registered::Trying => {
                notice!(self.lane, "No longer registered with trunk '{}'", trunk);
            }
        }
    }

    fn unregistered(&mut self, aor: &str, contact: &[u8], why: Unregistered) {
        let words = match why {
            Unregistered::Asked => "due to request",
            Unregistered::Expired => "due to expiration",
            Unregistered::Replaced => "due to a newer one",
            Unregistered::Operator => "by an operator",
        };
        verbose!(3, self.lane, "Removed contact '{}' from AOR '{}' {}", contact, aor, words);
    }

    /// Where a call goes on, or began.
    fn way_of_call(&mut self, fact: &Fact) {
        if let Fact::Forwarded { endpoint, number, onto } = fact {
            let (endpoint, number, why) = (&**endpoint, Quoted(number), onto.as_str());
            verbose!(3, self.lane, "Call to {} goes on to '{}' ({})", endpoint, number, why);
        } else if let Fact::Originated { device, exten } = fact {
            verbose!(3, self.lane, "{} answered and runs '{}'", &**device, Quoted(exten));
        } else if let Fact::NotOriginated { device, q850 } = fact {
            notice!(self.lane, "{} did not take the call: cause {}", Quoted(device), *q850);
        }
    }

    /// The application Log.
    fn log(
        &mut self,
        channel: &Channel,
        level: LogLevel,
        text: &str,
        (exten, context, priority): (&str, &str, u32),
    ) {
        let (lane, call) = (&mut self.lane, number(channel));
        let exten = number_word(exten);
        let (text, exten) = (Quoted(text), Quoted(&exten));
        match level {
            LogLevel::Error => {
                error!(lane, call = call, "Ext. {}@{}:{}: {}", exten, context, priority, text);
            }
            LogLevel::Warning => {
                warning!(lane, call = call, "Ext. {}@{}:{}: {}", exten, context, priority, text);
            }
            LogLevel::Notice => {
                notice!(lane, call = call, "Ext. {}@{}:{}: {}", exten, context, priority, text);
            }
            LogLevel::Debug | LogLevel::Verbose => {
                debug!(1, lane, call = call, "Ext. {}@{}:{}: {}", exten, context, priority, text);
            }
        }
    }

    fn call(&mut self, fact: &CallFact) {
        match fact {
            CallFact::NewChannel { channel } => {
                verbose!(4, self.lane, call = number(channel), "New channel {}", name(channel));
            }
            CallFact::Step { channel, context, exten, priority, app, data } => verbose!(
                3,
                self.lane,
                call = number(channel),
                "Executing [{}@{}:{}] {}(\"{}\", \"{}\") in new stack",
                Quoted(exten),
                &**context,
                *priority,
                *app,
                name(channel),
                Quoted(data)
            ),
            CallFact::Verbose { channel, level, text } => {
                verbose!(*level, self.lane, call = number(channel), "{}", Quoted(text));
            }
            CallFact::Log { channel, level, text, exten, context, priority } => {
                let place = (&**exten, &**context, *priority);
                self.log(channel, *level, text, place);
            }
            CallFact::Called { channel, target } => {
                verbose!(3, self.lane, call = number(channel), "Called {}", name(target));
            }
            CallFact::Ringing { channel } => {
                verbose!(3, self.lane, call = number(channel), "{} is ringing", name(channel));
            }
            CallFact::Progressing { channel } => {
                let lane = &mut self.lane;
                verbose!(3, lane, call = number(channel), "{} is making progress", name(channel));
            }
            CallFact::Answered { channel } => {
                verbose!(3, self.lane, call = number(channel), "{} answered", name(channel));
            }
            CallFact::Unanswered { channel, status } => self.unanswered(channel, *status),
            CallFact::Bridged { channel, peer } => verbose!(
                3,
                self.lane,
                call = number(channel),
                "{} and {} are joined",
                name(channel),
                name(peer)
            ),
            CallFact::Hungup { channel, q850, code } => verbose!(
                3,
                self.lane,
                call = number(channel),
                "Hungup '{}' (cause {}, code {})",
                name(channel),
                *q850,
                *code
            ),
            CallFact::NoExtension { .. } | CallFact::Fault { .. } => self.trouble(fact),
        }
    }

    /// What an administrator must hear of, whatever the verbosity.
    fn trouble(&mut self, fact: &CallFact) {
        if let CallFact::NoExtension { channel, endpoint, caller: _, peer, exten, context } = fact {
            let source: Option<SocketAddr> = peer.parse().ok();
            notice!(
                self.lane,
                call = number(channel),
                from = source,
                "Call from '{}' ({}) to extension '{}' rejected because extension not found \
                 in context '{}'.",
                Quoted(&endpoint.name),
                source,
                Quoted(exten),
                &**context
            );
        }
        if let CallFact::Fault { channel, fault, exten, context, priority } = fact {
            warning!(
                self.lane,
                call = number(channel),
                "[{}@{}:{}] on {}: {}",
                Quoted(&number_word(exten)),
                &**context,
                *priority,
                name(channel),
                CallFaultText(*fault).text().as_str()
            );
        }
    }

    fn unanswered(&mut self, channel: &Channel, status: DialStatus) {
        let words = match status {
            DialStatus::Busy | DialStatus::Congestion | DialStatus::ChanUnavail => {
                "Everyone is busy/congested at this time"
            }
            DialStatus::NoAnswer => "Nobody picked up",
            DialStatus::Cancel | DialStatus::Unset | DialStatus::Answer => "The call was given up",
        };
        verbose!(2, self.lane, call = number(channel), "{} ({})", words, status.as_str());
    }
}

/// A dialled number at the beginning of a line. fail2ban takes what stands before the first colon
/// and blank for the name of a file, and what comes behind for the message: that must not be the
/// caller's.
fn number_word(number: &str) -> Cow<'_, str> {
    if number.contains(": ") { number.replace(": ", ":?").into() } else { number.into() }
}

fn number(channel: &Channel) -> u32 {
    channel.call().0
}

fn name(channel: &Channel) -> Name<'_> {
    Name { stem: channel.stem(), number: channel.number() }
}

/// What is wrong, for the administrator of the plan.
struct CallFaultText(CallFault);

impl CallFaultText {
    fn text(self) -> String {
        let fixed = match self.0 {
            CallFault::EndlessPlan => "the plan runs without a pause: the call was ended",
            CallFault::GotoNowhere => "Goto leads nowhere: the plan goes on at `i`, or ends",
            CallFault::GosubTooDeep => "Gosub stands too deep in Gosub: the call was ended",
            CallFault::NothingToReturnTo => "Return without Gosub: the call was ended",
            CallFault::NoRoom => "there is no room for it: it was not set",
            CallFault::HeaderRefused => "a plan may not write such a header line, or has too many",
            CallFault::VariablesFull => "there is no room for the variable: it was not set",
            CallFault::NotSeconds => "a variable that should hold seconds does not",
            CallFault::LegsFull => "the call has all its legs: a target was not called",
            CallFault::NoHopsLeft => "no hops are left (a loop?): a target was not called",
            CallFault::AnsweredWithoutDescription => "an answer without a session description",
            CallFault::Unrenderable(fault) => {
                return format!("a text cannot be filled in: {fault:?}");
            }
            CallFault::Undescribable(fault) => {
                return format!("the session description cannot be answered: {fault:?}");
            }
        };
        fixed.to_owned()
    }
}

/// `2015-05-24T08:42:16.296+0300`, as in Asterisk's security events.
struct EventTime(Now);

impl std::fmt::Display for EventTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Now { wall, utc_offset_s, .. } = self.0;
        let millis = wall.as_micros().div_euclid(1000) + i64::from(utc_offset_s) * 1000;
        let (days, of_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
        let (year, month, day) = civil(days);
        let (seconds, milli) = (of_day / 1000, of_day % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let sign = if utc_offset_s < 0 { '-' } else { '+' };
        let offset = utc_offset_s.abs() / 60;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}\
             {sign}{:02}{:02}",
            offset / 60,
            offset % 60
        )
    }
}

/// Year, month and day of a day counted from 1970-01-01, by the rule of 400 years.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468; // from 0000-03-01, so that the leap day is the last of its year
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use turn::{Mono, Wall};

    #[test]
    fn event_times_are_in_the_local_zone() {
        let at = |micros, utc_offset_s| {
            let now = Now { mono: Mono::ZERO, wall: Wall::from_micros(micros), utc_offset_s };
            EventTime(now).to_string()
        };
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000+0000");
        assert_eq!(at(1_432_446_136_296_000, 10_800), "2015-05-24T08:42:16.296+0300");
        assert_eq!(at(951_782_400_000_000, -12_600), "2000-02-28T20:30:00.000-0330");
        assert_eq!(at(1_709_208_000_000_000, 0), "2024-02-29T12:00:00.000+0000");
    }
}
