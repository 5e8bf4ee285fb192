//! Refusals: what fail2ban's jail reads, and the security log.
//!
//! One NOTICE for the file that the jail reads, one SECURITY line for the security log; never both
//! in one file, or each failure would count twice. The words are those that its stock filter knows.

use super::{EventTime, Facts};
use call::Endpoint;
use logging::{notice, security};
use pbx_core::Refused;
use sip::path::Path;
use std::net::SocketAddr;

/// A request that was refused.
pub(super) struct Attempt<'f> {
    pub(super) path: Path,
    pub(super) method: &'f [u8],
    /// From's user part, as it stood.
    pub(super) from: &'f [u8],
    pub(super) call_id: &'f [u8],
    /// Whom it claimed to be, if there is somebody of that name.
    pub(super) endpoint: Option<&'f Endpoint>,
}

impl Facts {
    pub(super) fn refused(&mut self, why: Refused, attempt: &Attempt<'_>) {
        match why {
            // Every phone meets these.
            Refused::Challenged | Refused::Stale => {}
            Refused::Stranger
            | Refused::WrongPassword
            | Refused::UnknownUser
            | Refused::Credentials
            | Refused::Acl
            | Refused::NotHis => {
                self.failed(why, attempt);
                self.event(why, attempt);
            }
            Refused::Sojourn
            | Refused::CallsMax
            | Refused::TrunkMax
            | Refused::PhoneMax
            | Refused::StoreFull
            | Refused::Draining => self.refused[why.index()] += 1,
        }
    }

    fn failed(&mut self, why: Refused, attempt: &Attempt<'_>) {
        let source = attempt.path.remote;
        if attempt.method == b"REGISTER" {
            notice!(
                self.lane,
                from = source,
                "Registration from '<sip:{}>' failed for '{}' - {}",
                attempt.from,
                source,
                words(why).registration
            );
        } else {
            notice!(
                self.lane,
                from = source,
                "Request '{}' from '<sip:{}>' failed for '{}' (callid: {}) - {}",
                attempt.method,
                attempt.from,
                source,
                attempt.call_id,
                words(why).request
            );
        }
    }

    fn event(&mut self, why: Refused, attempt: &Attempt<'_>) {
        let time = EventTime(self.now).to_string();
        let (local, remote) = (attempt.path.local, attempt.path.remote);
        let transport = attempt.path.transport.as_via();
        let account = attempt.endpoint.map_or(attempt.from, |endpoint| endpoint.name.as_bytes());
        security!(
            self.lane,
            from = remote,
            "SecurityEvent=\"{}\",EventTV=\"{}\",Severity=\"Error\",Service=\"SIP\",\
             EventVersion=\"{}\",AccountID=\"{}\",SessionID=\"{}\",\
             LocalAddress=\"{}/{}/{}/{}\",RemoteAddress=\"{}/{}/{}/{}\"",
            words(why).event,
            time.as_str(),
            if why == Refused::WrongPassword { "2" } else { "1" },
            account,
            attempt.call_id,
            family(local),
            transport,
            local.ip(),
            local.port(),
            family(remote),
            transport,
            remote.ip(),
            remote.port()
        );
    }
}

fn family(address: SocketAddr) -> &'static str {
    if address.is_ipv4() { "IPV4" } else { "IPV6" }
}

/// What a refusal is called: of a REGISTER as `chan_sip` said it, of others as `res_pjsip` does,
/// and in the security log.
struct Words {
    registration: &'static str,
    request: &'static str,
    event: &'static str,
}

fn words(why: Refused) -> Words {
    match why {
        Refused::WrongPassword => Words {
            registration: "Wrong password",
            request: "Failed to authenticate",
            event: "InvalidPassword",
        },
        Refused::Credentials => Words {
            registration: "Wrong password",
            request: "Failed to authenticate",
            event: "ChallengeResponseFailed",
        },
        Refused::NotHis => Words {
            registration: "Username/auth name mismatch",
            request: "Failed to authenticate",
            event: "ChallengeResponseFailed",
        },
        Refused::Acl => Words {
            registration: "Device does not match ACL",
            request: "Not match Endpoint ACL",
            event: "FailedACL",
        },
        Refused::Stranger
        | Refused::UnknownUser
        | Refused::Challenged
        | Refused::Stale
        | Refused::Sojourn
        | Refused::CallsMax
        | Refused::TrunkMax
        | Refused::PhoneMax
        | Refused::StoreFull
        | Refused::Draining => Words {
            registration: "No matching peer found",
            request: "No matching endpoint found",
            event: "InvalidAccountID",
        },
    }
}
