//! The one place that turns facts into log records. (Metrics come from the counts that the shards
//! keep, see [`crate::metrics`].)
//!
//! Whatever a stranger wrote goes in as bytes or [`Quoted`]: the writer then takes away what could
//! forge a line or end a quotation. Lines that fail2ban reads keep the wording of its stock filter.

use call::{CallFact, CallFault, Channel, DialStatus};
use logging::{Lane, Quoted, Shown, debug, notice, security, verbose, warning};
use pbx_core::{Fact, Refused};
use std::net::SocketAddr;
use turn::Now;

/// Writes the facts of one shard into its lane.
pub(crate) struct Facts {
    lane: Lane,
    now: Now,
    /// Where this shard listens, for the security log.
    local: SocketAddr,
    /// Requests refused since the last report, by [`Refused::index`].
    refused: [u64; Refused::ALL.len()],
}

impl Facts {
    /// Writes into `lane`.
    pub(crate) fn new(lane: Lane, local: SocketAddr) -> Self {
        Self { lane, now: Now::default(), local, refused: Default::default() }
    }

    /// Tells what time it is, once a turn.
    pub(crate) fn set_now(&mut self, now: Now) {
        self.now = now;
        self.lane.set_now(now);
    }

    /// Puts one fact into the log, if anybody wants it.
    pub(crate) fn write(&mut self, fact: &Fact) {
        match fact {
            Fact::Call(fact) => self.call(fact),
            Fact::Refused { why, source, method, from, call_id } => {
                self.refused(*why, *source, method, from, call_id);
            }
            Fact::Malformed { fault, source, answered } => debug!(
                1,
                self.lane,
                from = source,
                "Message from {} breaks a rule ({}), answered {}",
                source,
                Shown(fault),
                *answered
            ),
            Fact::Unroutable { target } => {
                let target = Quoted(target);
                warning!(self.lane, "There is no way to '{}'", target);
            }
        }
    }

    /// Reports what happens too often for a line each: once a second. Under overload a line for
    /// each refusal would cost as much as the call.
    pub(crate) fn report(&mut self) {
        for why in Refused::ALL {
            let count = std::mem::take(&mut self.refused[why.index()]);
            if count > 0 {
                warning!(self.lane, "Refused {} requests with 503: {}", count, why.as_str());
            }
        }
    }

    fn refused(
        &mut self,
        why: Refused,
        source: SocketAddr,
        method: &[u8],
        from: &[u8],
        call_id: &[u8],
    ) {
        match why {
            Refused::Stranger => self.stranger(source, method, from, call_id),
            Refused::Sojourn | Refused::CallsMax | Refused::TrunkMax | Refused::Draining => {
                self.refused[why.index()] += 1;
            }
        }
    }

    /// One NOTICE for the file that fail2ban's jail reads, one SECURITY line for the security log;
    /// never both in one file, or each failure would count twice.
    fn stranger(&mut self, source: SocketAddr, method: &[u8], from: &[u8], call_id: &[u8]) {
        notice!(
            self.lane,
            from = source,
            "Request '{}' from '<sip:{}>' failed for '{}' (callid: {}) \
             - No matching endpoint found",
            method,
            from,
            source,
            call_id
        );
        let time = EventTime(self.now).to_string();
        let family = |address: SocketAddr| if address.is_ipv4() { "IPV4" } else { "IPV6" };
        security!(
            self.lane,
            from = source,
            "SecurityEvent=\"InvalidAccountID\",EventTV=\"{}\",Severity=\"Error\",Service=\"SIP\",\
             EventVersion=\"1\",AccountID=\"{}\",SessionID=\"{}\",\
             LocalAddress=\"{}/UDP/{}/{}\",RemoteAddress=\"{}/UDP/{}/{}\"",
            time.as_str(),
            from,
            call_id,
            family(self.local),
            self.local.ip(),
            self.local.port(),
            family(source),
            source.ip(),
            source.port()
        );
    }

    fn call(&mut self, fact: &CallFact) {
        match fact {
            CallFact::NewChannel { channel } => {
                debug!(1, self.lane, call = number(channel), "New channel {}", name(channel));
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
                "Call from '{}' (UDP:{}) to extension '{}' rejected because extension not found \
                 in context '{}'.",
                &*endpoint.name,
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
                Quoted(exten),
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

fn number(channel: &Channel) -> u32 {
    channel.call().0
}

fn name(channel: &Channel) -> Shown<&Channel> {
    Shown(channel)
}

/// What is wrong, for the administrator of the plan.
struct CallFaultText(CallFault);

impl CallFaultText {
    fn text(self) -> String {
        let fixed = match self.0 {
            CallFault::EndlessPlan => "the plan runs without a pause: the call was ended",
            CallFault::GotoNowhere => "Goto leads nowhere: the call was ended",
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
