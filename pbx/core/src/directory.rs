//! Whom we know: endpoints (phones) by name, trunks by name and address, groups of endpoints.
//!
//! A directory never changes; a reload makes another one and takes the living state of each party
//! over by name ([`Directory::inherit`]). Names are unique over endpoints, trunks and groups, so a
//! name in a Dial target means one party.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use call::Endpoint;
use foldhash::quality::FixedState;
use hashbrown::HashMap;
use sip::digest::{Algorithm, Secret};
use sip::locate::Wanted;
use sip::path::Transport;
use sip::registrar::Policy;

use crate::strangers::Budget;
use crate::{Prefix, Trunk, TrunkId, Trunks};

/// Most endpoints of a configuration: the number of an endpoint fits in 24 bits.
pub const PHONES_MAX: usize = 1 << 24;

/// Most members of a group: all of them are called at once.
pub const GROUP_MEMBERS_MAX: usize = 32;

/// Names an endpoint in its [`Directory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhoneId(pub u32);

/// Who has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// A peer that is known by its address or that we register with.
    Trunk(TrunkId),
    /// A phone or an account, known by its password.
    Phone(PhoneId),
    /// Some endpoints under one name: the place in the list of groups.
    Group(u16),
}

/// Where a peer is: a step of a failover list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hop {
    /// An address.
    Address(SocketAddr, Transport),
    /// A host name, to be looked up by RFC 3263.
    Name(Wanted),
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address, _) => address.fmt(f),
            Self::Name(Wanted { host, port: Some(port), .. }) => write!(f, "{host}:{port}"),
            Self::Name(Wanted { host, port: None, .. }) => f.write_str(host),
        }
    }
}

/// The identity that a caller shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerId {
    /// In place of the user part of From.
    pub number: Option<Box<str>>,
    /// In place of the display name of From.
    pub name: Option<Box<str>>,
}

/// When we ask a peer whether it is there (OPTIONS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QualifySpec {
    /// How often.
    pub every: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Answers in a row that make an unreachable peer reachable.
    pub up_after: u8,
    /// Silences in a row that make a reachable peer unreachable.
    pub down_after: u8,
}

impl Default for QualifySpec {
    /// Every minute; two silences of 3 s make a peer unreachable, one answer reachable.
    fn default() -> Self {
        Self {
            every: Duration::from_secs(60),
            timeout: Duration::from_secs(3),
            up_after: 1,
            down_after: 2,
        }
    }
}

/// Where the calls of an endpoint go when it does not take them. The numbers are looked up in the
/// endpoint's own context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forward {
    /// Every call.
    pub always: Option<Box<str>>,
    /// A call that finds it busy, or not to be disturbed.
    pub busy: Option<Box<str>>,
    /// A call that nobody takes for so long, or that finds nobody registered.
    pub no_answer: Option<(Box<str>, Duration)>,
}

/// What lives on through a reload, and what all shards see.
#[derive(Debug, Default)]
pub struct PhoneState {
    /// Legs to and from it.
    calls: AtomicU32,
    /// Legs to it that ring.
    ringing: AtomicU32,
    /// Set by an operator or the plan: 0 as configured, 1 off, 2 on.
    dnd: AtomicU32,
}

impl PhoneState {
    /// Legs to and from it on all shards.
    pub fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Legs to it that ring.
    pub fn ringing(&self) -> u32 {
        self.ringing.load(Ordering::Relaxed)
    }

    /// Takes a place for a leg, unless there are `most` already.
    pub fn enter(&self, most: Option<u32>) -> bool {
        let most = most.unwrap_or(u32::MAX);
        let step = |calls: u32| (calls < most).then_some(calls + 1);
        self.calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).is_ok()
    }

    /// Gives the place of a leg back.
    pub fn leave(&self) {
        let step = |calls: u32| calls.checked_sub(1);
        let left = self.calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        debug_assert!(left.is_ok(), "a leg leaves once");
    }

    /// A leg begins or ceases to ring.
    pub fn ring(&self, rings: bool) {
        let step = |legs: u32| if rings { legs.checked_add(1) } else { legs.checked_sub(1) };
        let rung = self.ringing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        debug_assert!(rung.is_ok(), "a leg ceases to ring once");
    }

    /// Says whether it may be disturbed; `None` goes back to the configuration.
    pub fn set_dnd(&self, dnd: Option<bool>) {
        self.dnd.store(dnd.map_or(0, |dnd| 1 + u32::from(dnd)), Ordering::Relaxed);
    }

    /// What [`PhoneState::set_dnd`] said.
    pub fn dnd(&self) -> Option<bool> {
        match self.dnd.load(Ordering::Relaxed) {
            0 => None,
            said => Some(said == 2),
        }
    }
}

/// A phone or an account.
#[derive(Clone, Debug)]
pub struct Phone {
    /// Its name (which is its address of record), channel name and dialplan context.
    pub endpoint: Arc<Endpoint>,
    /// What it calls itself in a digest.
    pub user: Box<str>,
    /// Its password; without one it cannot register or call.
    pub secret: Option<Secret>,
    /// Further user parts under which it may register and call.
    pub aliases: Vec<Box<str>>,
    /// The identity that its calls show.
    pub caller_id: CallerId,
    /// Networks that it may come from; any when empty.
    pub sources: Vec<Prefix>,
    /// Calls at a time, both ways together, on all shards.
    pub calls_max: Option<u32>,
    /// How it may register.
    pub policy: Policy,
    /// Whether requests go to where its REGISTER came from and not to what its Contact says.
    pub rewrites_contact: bool,
    /// Whether and when its contacts are asked whether they are there.
    pub qualify: Option<QualifySpec>,
    /// Where its calls go when it does not take them.
    pub forward: Forward,
    /// Not to be disturbed, unless an operator says otherwise.
    pub dnd: bool,
    /// What lives on.
    pub state: Arc<PhoneState>,
}

impl Phone {
    /// A phone that can be called and has no password; for `..` in a literal.
    pub fn named(endpoint: Arc<Endpoint>) -> Self {
        Self {
            user: endpoint.name.clone(),
            endpoint,
            secret: None,
            aliases: Vec::new(),
            caller_id: CallerId::default(),
            sources: Vec::new(),
            calls_max: None,
            policy: Policy::default(),
            rewrites_contact: false,
            qualify: None,
            forward: Forward::default(),
            dnd: false,
            state: Arc::default(),
        }
    }

    /// Its address of record.
    pub fn aor(&self) -> &str {
        &self.endpoint.name
    }

    /// Whether `user` is the user part of one of its addresses.
    pub fn answers_to(&self, user: &[u8]) -> bool {
        let mut names = [&*self.endpoint.name, &*self.user].into_iter();
        names.any(|name| name.as_bytes() == user)
            || self.aliases.iter().any(|alias| alias.as_bytes() == user)
    }

    /// Whether it is not to be disturbed right now.
    pub fn is_dnd(&self) -> bool {
        self.state.dnd().unwrap_or(self.dnd)
    }
}

/// Some endpoints under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Box<str>,
    /// Its members.
    pub members: Vec<PhoneId>,
}

/// What a directory is made of.
#[derive(Clone, Debug)]
pub struct DirectorySpec {
    /// The realm of our challenges; passwords given as HA1 were made for it.
    pub realm: Box<str>,
    /// Which hashes a challenge offers, the preferred one first.
    pub algorithms: Vec<Algorithm>,
    /// How long a nonce is good for.
    pub nonce_lifetime: Duration,
    /// Our own names beside our addresses, for URIs that lead back to us.
    pub domains: Vec<Box<str>>,
    /// Peers known by their address, in order.
    pub trunks: Vec<Trunk>,
    /// Endpoints.
    pub phones: Vec<Phone>,
    /// Names of groups, with the names of their members.
    pub groups: Vec<(Box<str>, Vec<Box<str>>)>,
    /// What strangers may cost.
    pub strangers: Budget,
}

impl Default for DirectorySpec {
    fn default() -> Self {
        Self {
            realm: "pbx".into(),
            algorithms: vec![Algorithm::Md5],
            nonce_lifetime: Duration::from_secs(60),
            domains: Vec::new(),
            trunks: Vec::new(),
            phones: Vec::new(),
            groups: Vec::new(),
            strangers: Budget::default(),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Directory {
    realm: Box<str>,
    algorithms: Vec<Algorithm>,
    nonce_lifetime: Duration,
    domains: Vec<Box<str>>,
    trunks: Trunks,
    phones: Vec<Phone>,
    groups: Vec<Group>,
    strangers: Budget,
    names: HashMap<Box<str>, Party, FixedState>,
    /// Endpoints by what they call themselves in a digest, and by their aliases.
    users: HashMap<Box<str>, PhoneId, FixedState>,
}

impl Default for Directory {
    fn default() -> Self {
        Self::new(DirectorySpec::default())
    }
}

impl Directory {
    /// A directory. Of two parties with one name the first counts; the configuration refuses that.
    pub fn new(spec: DirectorySpec) -> Self {
        let mut names = HashMap::with_hasher(FixedState::default());
        let mut users = HashMap::with_hasher(FixedState::default());
        let trunks = Trunks::new(spec.trunks);
        for (id, trunk) in trunks.ids() {
            names.entry(trunk.endpoint.name.clone()).or_insert(Party::Trunk(id));
        }
        let mut phones = spec.phones;
        phones.truncate(PHONES_MAX);
        for (phone, number) in phones.iter().zip(0..) {
            names.entry(phone.endpoint.name.clone()).or_insert(Party::Phone(PhoneId(number)));
            users.entry(phone.user.clone()).or_insert(PhoneId(number));
        }
        for (phone, number) in phones.iter().zip(0..) {
            for alias in &phone.aliases {
                users.entry(alias.clone()).or_insert(PhoneId(number));
            }
        }
        let mut groups = Vec::new();
        for (name, members) in spec.groups {
            let phone = |member: &str| match names.get(member) {
                Some(Party::Phone(id)) => Some(*id),
                Some(Party::Trunk(_) | Party::Group(_)) | None => None,
            };
            let members =
                members.iter().filter_map(|it| phone(it)).take(GROUP_MEMBERS_MAX).collect();
            if let Ok(number) = u16::try_from(groups.len()) {
                names.entry(name.clone()).or_insert(Party::Group(number));
                groups.push(Group { name, members });
            }
        }
        Self {
            realm: spec.realm,
            algorithms: spec.algorithms,
            nonce_lifetime: spec.nonce_lifetime,
            domains: spec.domains,
            trunks,
            phones,
            groups,
            strangers: spec.strangers,
            names,
            users,
        }
    }

    /// Takes the living state of parties with the same name over from `old`. To be called before
    /// the directory is shared.
    #[must_use]
    pub fn inherit(mut self, old: &Self) -> Self {
        for phone in &mut self.phones {
            if let Some(before) = old.phone_named(&phone.endpoint.name) {
                phone.state = Arc::clone(&before.state);
            }
        }
        self.trunks.inherit(&old.trunks);
        self
    }

    /// The realm of our challenges.
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// Which hashes a challenge offers.
    pub fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// How long a nonce is good for.
    pub fn nonce_lifetime(&self) -> Duration {
        self.nonce_lifetime
    }

    /// Our own names.
    pub fn domains(&self) -> &[Box<str>] {
        &self.domains
    }

    /// The trunks.
    pub fn trunks(&self) -> &Trunks {
        &self.trunks
    }

    /// The endpoints, in order.
    pub fn phones(&self) -> &[Phone] {
        &self.phones
    }

    /// The groups, in order.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// What strangers may cost.
    pub fn strangers(&self) -> &Budget {
        &self.strangers
    }

    /// Who has that name.
    pub fn named(&self, name: &str) -> Option<Party> {
        self.names.get(name).copied()
    }

    /// An endpoint by its id; `None` for the id of another directory.
    pub fn phone(&self, id: PhoneId) -> Option<&Phone> {
        self.phones.get(id.0 as usize)
    }

    /// An endpoint by its name.
    pub fn phone_named(&self, name: &str) -> Option<&Phone> {
        match self.named(name)? {
            Party::Phone(id) => self.phone(id),
            Party::Trunk(_) | Party::Group(_) => None,
        }
    }

    /// The endpoint that calls itself `user` in a digest.
    pub fn phone_of_user(&self, user: &str) -> Option<PhoneId> {
        self.users.get(user).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phone(name: &str) -> Phone {
        Phone::named(Arc::new(Endpoint {
            channel: format!("SIP/{name}").into(),
            name: name.into(),
            context: "default".into(),
        }))
    }

    fn directory() -> Directory {
        let desk =
            Phone { user: "desk-user".into(), aliases: vec!["boss".into()], ..phone("1000") };
        Directory::new(DirectorySpec {
            phones: vec![desk, phone("1001")],
            groups: vec![("sales".into(), vec!["1001".into(), "nobody".into(), "1000".into()])],
            ..DirectorySpec::default()
        })
    }

    #[test]
    fn parties_are_found_by_name_and_endpoints_by_user() {
        let directory = directory();
        assert_eq!(directory.named("1001"), Some(Party::Phone(PhoneId(1))));
        assert_eq!(directory.named("sales"), Some(Party::Group(0)));
        assert_eq!(directory.groups()[0].members, [PhoneId(1), PhoneId(0)]);
        assert_eq!(directory.named("desk-user"), None);
        assert_eq!(directory.phone_of_user("desk-user"), Some(PhoneId(0)));
        assert_eq!(directory.phone_of_user("boss"), Some(PhoneId(0)));
        let desk = directory.phone_named("1000").unwrap();
        assert!(desk.answers_to(b"1000") && desk.answers_to(b"boss") && !desk.answers_to(b"1001"));
    }

    #[test]
    fn the_state_of_a_party_lives_on_through_a_reload() {
        let old = directory();
        let desk = old.phone_named("1000").unwrap();
        assert!(desk.state.enter(Some(1)));
        assert!(!desk.state.enter(Some(1)), "it is full");
        desk.state.set_dnd(Some(true));
        let new = directory().inherit(&old);
        let desk = new.phone_named("1000").unwrap();
        assert_eq!(desk.state.calls(), 1);
        assert!(desk.is_dnd());
        desk.state.leave();
        assert_eq!(old.phone_named("1000").unwrap().state.calls(), 0);
    }
}
