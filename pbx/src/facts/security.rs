//! The security log: whom fail2ban shall ban, and who has registered.
//!
//! A failure is told twice, in two files: as a NOTICE for people, in the words of Asterisk, and as
//! a SECURITY event for the jail. A jail that read both would count it twice. Both have shapes that
//! fail2ban's stock filter knows; `etc/fail2ban/` says how the two are put together.
//!
//! | reason | NOTICE ends in | event |
//! |---|---|---|
//! | `wrong_password` | Wrong password, Failed to authenticate | InvalidPassword |
//! | `unknown_user`, `stranger` | No matching peer found, .. endpoint found | InvalidAccountID |
//! | `credentials` | Wrong password, Failed to authenticate | ChallengeResponseFailed |
//! | `not_his` | Username/auth name mismatch, Failed to authenticate | ChallengeResponseFailed |
//! | `acl` | Device does not match ACL, Not match Endpoint ACL | FailedACL |
//! | `no_extension` | (of the call) | InvalidAccountID |
//! | `malformed` | | FailedACL |
//! | `unanswered` | challenges without an answer | ChallengeResponseFailed |
//! | `success` | | SuccessfulAuth: no failure |
//!
//! What a caller wrote stands in no line but for the Call-ID, which the writer cleans: accounts
//! are told by the name in the configuration. The source's address comes last, so that the only
//! `RemoteAddress` that a filter can find behind whatever else is ours. A sum of many events is one
//! line with their `Count`; one that is not about a single source names no address to ban.

use super::limiter::{EventCounts, Reason, Sum, Whom};
use super::{EventTime, Facts};
use call::Endpoint;
use logging::{Quoted, Shown, notice, security};
use pbx_core::Refused;
use sip::path::{Path, Transport};
use sip::wire::Method;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use turn::Mono;

/// Sums told at a time, and the pause between: a flood must not fill the lane of this thread.
const SUMS_MAX: usize = 64;
const SUMS_PAUSE: Duration = Duration::from_millis(5);

/// Who is no endpoint of ours, in a NOTICE and in an event.
const ANONYMOUS: &str = "anonymous";
const UNKNOWN: &str = "<unknown>";

/// A request that was refused.
pub(super) struct Attempt<'f> {
    pub(super) path: Path,
    pub(super) method: &'f [u8],
    pub(super) call_id: &'f [u8],
    /// Whom it claimed to be, if there is somebody of that name.
    pub(super) endpoint: Option<&'f Endpoint>,
}

/// An event with an address.
struct Event<'f> {
    reason: Reason,
    path: Path,
    account: &'f str,
    call_id: &'f [u8],
    count: u64,
}

impl Facts {
    pub(super) fn refused(&mut self, why: Refused, attempt: &Attempt<'_>) {
        let Some(reason) = Reason::of_refusal(why) else {
            // Of those without an answer every second tells, of challenges nobody: every phone
            // meets them.
            self.drops.refused(why);
            return;
        };
        if !self.limiter.offer(self.now.mono, &attempt.path, reason) {
            return;
        }
        self.failed(reason, attempt);
        let (path, call_id) = (attempt.path, attempt.call_id);
        let account = attempt.endpoint.map_or(UNKNOWN, |endpoint| &endpoint.name);
        self.event(&Event { reason, path, account, call_id, count: 1 });
    }

    /// Somebody leaves his challenges unanswered.
    pub(super) fn unanswered_challenges(&mut self, path: Path, call_id: &[u8], challenges: u32) {
        let reason = Reason::Unanswered;
        if !self.limiter.offer(self.now.mono, &path, reason) {
            return;
        }
        let source = path.remote;
        notice!(
            self.lane,
            from = source,
            "{} has left {} challenges without an answer",
            source.ip(),
            challenges
        );
        self.event(&Event { reason, path, account: UNKNOWN, call_id, count: 1 });
    }

    /// A message of a stranger that is none.
    pub(super) fn malformed(&mut self, path: Path) {
        let reason = Reason::Malformed;
        if self.limiter.offer(self.now.mono, &path, reason) {
            self.event(&Event { reason, path, account: UNKNOWN, call_id: b"", count: 1 });
        }
    }

    /// A stranger dialled a number that does not exist. The call's own NOTICE tells which.
    pub(super) fn strange_number(&mut self, path: Path, endpoint: &Endpoint) {
        let reason = Reason::NoExtension;
        if self.limiter.offer(self.now.mono, &path, reason) {
            let account = &*endpoint.name;
            self.event(&Event { reason, path, account, call_id: b"", count: 1 });
        }
    }

    /// A phone has proved who it is and can be called there.
    pub(super) fn succeeded(&mut self, path: Path, endpoint: &Endpoint) {
        let reason = Reason::Success;
        if self.limiter.offer(self.now.mono, &path, reason) {
            let account = &*endpoint.name;
            self.event(&Event { reason, path, account, call_id: b"", count: 1 });
        }
    }

    /// When [`Facts::tell_sums`] has something to do.
    pub(crate) fn sums_due(&self) -> Option<Mono> {
        self.limiter.due().map(|at| at.max(self.sums_at))
    }

    /// Tells what was counted in the seconds that are over, some at a time. Once a turn.
    pub(crate) fn tell_sums(&mut self) {
        let now = self.now.mono;
        if self.sums_due().is_none_or(|at| at > now) {
            return;
        }
        self.sums_at = now + SUMS_PAUSE;
        if !self.lane.has_room_to_keep() {
            return;
        }
        for _ in 0..SUMS_MAX {
            let Some(sum) = self.limiter.take(now) else { return };
            self.sum(&sum);
        }
    }

    /// The program ends: tells what is left, some at a time. Whether that was all.
    pub(crate) fn finish(&mut self) -> bool {
        for _ in 0..SUMS_MAX {
            if !self.lane.has_room_to_keep() {
                return false;
            }
            let Some(sum) = self.limiter.take_at_the_end() else { return true };
            self.sum(&sum);
        }
        false
    }

    /// What the security log was offered.
    pub(crate) fn events(&self) -> &EventCounts {
        self.limiter.counts()
    }

    fn failed(&mut self, reason: Reason, attempt: &Attempt<'_>) {
        let source = attempt.path.remote;
        let name = Quoted(attempt.endpoint.map_or(ANONYMOUS, |endpoint| &endpoint.name));
        let words = words(reason);
        if attempt.method == b"REGISTER" {
            notice!(
                self.lane,
                from = source,
                "Registration from '<sip:{}>' failed for '{}' - {}",
                name,
                source,
                words.registration
            );
        } else {
            notice!(
                self.lane,
                from = source,
                "Request '{}' from '<sip:{}>' failed for '{}' (callid: {}) - {}",
                method_name(attempt.method),
                name,
                source,
                attempt.call_id,
                words.request
            );
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        let time = EventTime(self.now).to_string();
        let (local, remote) = (event.path.local, event.path.remote);
        let transport = event.path.transport;
        let words = words(event.reason);
        security!(
            self.lane,
            from = remote,
            "SecurityEvent=\"{}\",EventTV=\"{}\",Severity=\"{}\",Service=\"SIP\",\
             EventVersion=\"{}\",AccountID=\"{}\",SessionID=\"{}\",Reason=\"{}\",Count=\"{}\",\
             LocalAddress=\"{}/{}/{}\",RemoteAddress=\"{}/{}/{}\"",
            words.event,
            time.as_str(),
            words.severity,
            words.version,
            Quoted(event.account),
            event.call_id,
            event.reason.as_str(),
            event.count,
            family(local, transport),
            local.ip(),
            local.port(),
            family(remote, transport),
            remote.ip(),
            remote.port()
        );
    }

    /// Events that got no line of their own.
    fn sum(&mut self, sum: &Sum) {
        let Sum { reason, whom, count } = *sum;
        if is_noticed(reason) {
            let (lane, sources, why) = (&mut self.lane, Shown(Sources(whom)), reason.as_str());
            notice!(lane, "{} more of {} within a second: {}", count, sources, why);
        }
        match whom {
            Whom::Source(path) => {
                self.event(&Event { reason, path, account: UNKNOWN, call_id: b"", count });
            }
            Whom::Network(..) | Whom::Others => self.event_of_many(reason, whom, count),
        }
    }

    /// One that names no `RemoteAddress`: nobody must be banned for what others did.
    fn event_of_many(&mut self, reason: Reason, whom: Whom, count: u64) {
        let time = EventTime(self.now).to_string();
        let words = words(reason);
        security!(
            self.lane,
            "SecurityEvent=\"{}\",EventTV=\"{}\",Severity=\"{}\",Service=\"SIP\",\
             EventVersion=\"{}\",AccountID=\"{}\",SessionID=\"\",Reason=\"{}\",Count=\"{}\",\
             Sources=\"{}\"",
            words.event,
            time.as_str(),
            words.severity,
            words.version,
            UNKNOWN,
            reason.as_str(),
            count,
            Shown(Sources(whom))
        );
    }
}

/// Whether single events of that kind are told in a NOTICE, too.
const fn is_noticed(reason: Reason) -> bool {
    !matches!(reason, Reason::Malformed | Reason::NoExtension | Reason::Success)
}

/// Whom a sum is about, in words.
struct Sources(Whom);

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Whom::Source(path) => write!(f, "{}", path.remote.ip().to_canonical()),
            Whom::Network(address, bits) => write!(f, "{address}/{bits}"),
            Whom::Others => f.write_str("others"),
        }
    }
}

/// The method by its name in an RFC; another one is the caller's word.
fn method_name(method: &[u8]) -> &str {
    let is_known = !matches!(Method::of(method), Method::Other(_));
    str::from_utf8(method).ok().filter(|_| is_known).unwrap_or("other")
}

/// As a security event writes the kind of an address. An IPv4 address that came through an IPv6
/// socket is an IPv4 address.
const fn family(address: SocketAddr, transport: Transport) -> &'static str {
    match (address.ip().to_canonical(), transport) {
        (IpAddr::V4(_), Transport::Udp) => "IPV4/UDP",
        (IpAddr::V4(_), Transport::Tcp) => "IPV4/TCP",
        (IpAddr::V4(_), Transport::Tls) => "IPV4/TLS",
        (IpAddr::V4(_), Transport::Ws) => "IPV4/WS",
        (IpAddr::V4(_), Transport::Wss) => "IPV4/WSS",
        (IpAddr::V6(_), Transport::Udp) => "IPV6/UDP",
        (IpAddr::V6(_), Transport::Tcp) => "IPV6/TCP",
        (IpAddr::V6(_), Transport::Tls) => "IPV6/TLS",
        (IpAddr::V6(_), Transport::Ws) => "IPV6/WS",
        (IpAddr::V6(_), Transport::Wss) => "IPV6/WSS",
    }
}

/// What an event is called: of a REGISTER as `chan_sip` said it, of others as `res_pjsip` does, and
/// in the security log with its severity and version.
struct Words {
    registration: &'static str,
    request: &'static str,
    event: &'static str,
    severity: &'static str,
    version: &'static str,
}

const fn words(reason: Reason) -> Words {
    let [registration, request, event] = match reason {
        Reason::WrongPassword => ["Wrong password", "Failed to authenticate", "InvalidPassword"],
        Reason::Credentials | Reason::Unanswered => {
            ["Wrong password", "Failed to authenticate", "ChallengeResponseFailed"]
        }
        Reason::NotHis => {
            let event = "ChallengeResponseFailed";
            ["Username/auth name mismatch", "Failed to authenticate", event]
        }
        Reason::Acl | Reason::Malformed => {
            ["Device does not match ACL", "Not match Endpoint ACL", "FailedACL"]
        }
        Reason::UnknownUser | Reason::Stranger | Reason::NoExtension => {
            ["No matching peer found", "No matching endpoint found", "InvalidAccountID"]
        }
        Reason::Success => ["", "", "SuccessfulAuth"],
    };
    let severity = if matches!(reason, Reason::Success) { "Informational" } else { "Error" };
    let version = if matches!(reason, Reason::WrongPassword) { "2" } else { "1" };
    Words { registration, request, event, severity, version }
}
