//! How we are known at a trunk: account, registration, the identity that calls to it show.

use super::endpoints::Proof;
use super::said::SaidLine;
use super::table::{At, Page};
use pbx_core::Hop;
use sip::digest::{Account, Algorithm, Password, Secret};
use sip::locate::Wanted;
use sip::path::Transport;
use sip::registration::RegistrationConfig;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Peers of one trunk: each is known to be reachable or not by a bit.
const PEERS_MAX: usize = 32;

/// For how long we register when nobody says otherwise.
const EXPIRES: Duration = Duration::from_secs(600);

/// Registering for less is a load, for more of no use.
const EXPIRES_MIN: Duration = Duration::from_secs(30);
const EXPIRES_MAX: Duration = Duration::from_secs(86_400);

/// Asking more often is a load.
pub(super) const QUALIFY_MIN: Duration = Duration::from_secs(5);

/// Where a peer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// There.
    Address(SocketAddr),
    /// Where its name leads (RFC 3263).
    Name {
        /// The host, in lower case and without a dot at its end.
        host: String,
        /// The port; with one there is no SRV look-up.
        port: Option<u16>,
    },
}

impl Peer {
    /// For the core. Without a transport, an address is reached by UDP and a name as it says.
    pub(crate) fn hop(&self, transport: Option<Transport>) -> Hop {
        match self {
            Self::Address(address) => Hop::Address(*address, transport.unwrap_or(Transport::Udp)),
            Self::Name { host, port } => {
                Hop::Name(Wanted { host: host.as_str().into(), port: *port, transport })
            }
        }
    }

    /// The host part of our address of record there: a name stands without its port.
    fn domain(&self) -> String {
        match self {
            Self::Address(address) => address.to_string(),
            Self::Name { host, .. } => host.clone(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name { host, port: Some(port) } => write!(f, "{host}:{port}"),
            Self::Name { host, port: None } => f.write_str(host),
        }
    }
}

/// How we are known at a trunk.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) user: Option<String>,
    pub(crate) proof: Option<Proof>,
    pub(crate) realm: Option<String>,
    pub(crate) registrar: Option<Peer>,
    transport: Option<Transport>,
    pub(crate) expires: Duration,
    pub(crate) contact_user: Option<String>,
    pub(crate) from_user: Option<String>,
    pub(crate) from_domain: Option<String>,
    pub(crate) caller_number: Option<String>,
    pub(crate) caller_name: Option<String>,
    pub(crate) qualify: Option<Duration>,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Line {
    /// What challenges of the trunk are answered with.
    pub(crate) fn accounts(&self) -> Arc<[Account]> {
        let account = self.user.as_ref().zip(self.proof.as_ref()).and_then(|(user, proof)| {
            let password = match proof {
                Proof::Password(text) => Password::of_text(text),
                Proof::Hash(algorithm, hex) => Password::of_ha1(*algorithm, hex).ok()?,
            };
            let realm = self.realm.as_deref().map(Into::into);
            Some(Account { user: user.as_str().into(), realm, password })
        });
        account.into_iter().collect()
    }

    /// How we register there, if we do.
    pub(crate) fn registration(&self) -> Option<Arc<RegistrationConfig>> {
        let (registrar, user) = (self.registrar.as_ref()?, self.user.as_deref()?);
        let aor_user = self.from_user.as_deref().unwrap_or(user);
        let domain = self.from_domain.clone().unwrap_or_else(|| registrar.domain());
        Some(Arc::new(RegistrationConfig {
            registrar: match (self.transport, registrar) {
                (Some(Transport::Tcp), _) => format!("sip:{registrar};transport=tcp").into(),
                // It keeps a name from being asked which transport it prefers.
                (Some(_), Peer::Name { .. }) => format!("sip:{registrar};transport=udp").into(),
                (Some(_) | None, _) => format!("sip:{registrar}").into(),
            },
            aor: format!("sip:{aor_user}@{domain}").into(),
            contact_user: self.contact_user.as_deref().unwrap_or(user).into(),
            expires: self.expires,
            accounts: self.accounts(),
        }))
    }
}

/// Works out how we are known at the trunk `name`.
pub(super) fn mean(
    name: &At<String>,
    (said, transport): (&SaidLine, Option<Transport>),
    page: &mut Page<'_>,
) -> Line {
    let text = |said: &Option<At<String>>| said.as_ref().map(|at| at.value.clone());
    if let Some(register) = &said.register
        && said.user.is_none()
    {
        page.fault(register.span.clone(), "to register needs a `user`");
    }
    if let Some(expires) = &said.expires
        && !(EXPIRES_MIN..=EXPIRES_MAX).contains(&expires.value)
    {
        page.fault(expires.span.clone(), "a registration lasts 30s to 24h");
    }
    if let Some(qualify) = &said.qualify
        && qualify.value < QUALIFY_MIN
    {
        page.fault(qualify.span.clone(), "a peer is asked every 5s at most");
    }
    Line {
        user: text(&said.user),
        proof: proof(name, said, page),
        realm: text(&said.realm),
        registrar: said.register.as_ref().map(|at| at.value.clone()),
        transport,
        expires: said.expires.as_ref().map_or(EXPIRES, |at| at.value),
        contact_user: text(&said.contact_user),
        from_user: text(&said.from_user),
        from_domain: text(&said.from_domain),
        caller_number: text(&said.caller_number),
        caller_name: text(&said.caller_name),
        qualify: said.qualify.as_ref().map(|at| at.value),
    }
}

fn proof(name: &At<String>, said: &SaidLine, page: &mut Page<'_>) -> Option<Proof> {
    match (&said.user, &said.password, &said.ha1) {
        (_, Some(_), Some(ha1)) => {
            page.fault(ha1.span.clone(), "either `password` or `ha1`, not both");
            None
        }
        (None, Some(at), None) | (None, None, Some(at)) => {
            page.fault(at.span.clone(), "it needs a `user`, too");
            None
        }
        (Some(_), None, None) => {
            page.fault(name.span.clone(), "`user` needs a `password` or `ha1`");
            None
        }
        (Some(_), Some(password), None) => Some(Proof::Password(password.value.clone())),
        (Some(_), None, Some(ha1)) => {
            let algorithm = said.ha1_algorithm.as_ref().map_or(Algorithm::Md5, |at| at.value);
            if let Err(bad) = Secret::of_ha1(algorithm, &ha1.value) {
                page.fault(ha1.span.clone(), bad.to_string());
            }
            Some(Proof::Hash(algorithm, ha1.value.clone()))
        }
        (None, None, None) => None,
    }
}

/// `peer` or `peers`.
pub(super) fn peers(
    peer: &Option<At<Peer>>,
    peers: &Option<At<Vec<At<Peer>>>>,
    page: &mut Page<'_>,
) -> Vec<Peer> {
    match (peer, peers) {
        (Some(_), Some(list)) => {
            page.fault(list.span.clone(), "either `peer` or `peers`, not both");
            Vec::new()
        }
        (Some(one), None) => vec![one.value.clone()],
        (None, Some(list)) if list.value.len() > PEERS_MAX => {
            page.fault(list.span.clone(), format!("a trunk has at most {PEERS_MAX} peers"));
            Vec::new()
        }
        (None, Some(list)) => list.value.iter().map(|at| at.value.clone()).collect(),
        (None, None) => Vec::new(),
    }
}
