//! `pjsip.conf`: objects of many types that refer to each other. An endpoint with what it refers to
//! becomes an endpoint or a trunk.
//!
//! It is a trunk when calls go to an address of its own (a contact in its AOR), when it proves who
//! it is to others (`outbound_auth`, a registration), or when only its address tells who it is
//! (`identify`, no `auth`). Else it is a phone, which registers and proves who it is.

mod registration;

use crate::accounts::{Account, Accounts, Kind, no_counterpart};
use crate::ini::{Entry, Section};
use crate::report::Report;
use crate::steps::split;
use crate::uri::uri;
use crate::values::{Value, address, filled, host, name, network, peer, seconds};
use std::collections::{BTreeMap, BTreeSet};

/// Types of sections that are known; others are told.
const TYPES: &[&str] =
    &["aor", "auth", "endpoint", "global", "identify", "registration", "transport"];

/// Types that tell that a file is a `pjsip.conf`.
const TELLING: &[&str] = &["aor", "auth", "endpoint", "identify", "registration", "transport"];

/// Keys that may stand more than once.
const MANY: &[&str] = &["allow", "contact", "disallow", "match", "set_var"];

/// Whether the sections are those of a `pjsip.conf`.
pub(crate) fn is(sections: &[Section]) -> bool {
    let kinds = sections.iter().filter_map(|section| section.last("type"));
    kinds.into_iter().any(|kind| TELLING.contains(&kind.value.to_ascii_lowercase().as_str()))
}

/// What counts of a section: of a key that is said again, the last.
pub(crate) fn effective<'s>(section: &'s Section, many: &[&str]) -> Vec<&'s Entry> {
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, entry) in section.entries.iter().enumerate() {
        last.insert(&entry.key, at);
    }
    let counts = |at: usize, entry: &Entry| {
        many.contains(&entry.key.as_str()) || last.get(entry.key.as_str()) == Some(&at)
    };
    section
        .entries
        .iter()
        .enumerate()
        .filter(|(at, entry)| counts(*at, entry))
        .map(|(_, entry)| entry)
        .collect()
}

pub(crate) fn is_yes(text: &str) -> bool {
    ["yes", "true", "on", "1", "y", "t"].contains(&text.to_ascii_lowercase().as_str())
}

/// A setting that is the way here anyhow.
fn is_needless(entry: &Entry) -> bool {
    matches!(
        (entry.key.as_str(), entry.value.to_ascii_lowercase().as_str()),
        ("type", _)
            | ("identify_by", "username" | "auth_username" | "ip")
            | ("transport_udp", _)
            | ("qualify_frequency", "0" | "0.0")
            | ("auth_type", "userpass" | "md5" | "digest")
            | ("allow_subscribe" | "send_pai" | "send_rpid" | "srtp_tag_32", "no")
            | ("media_encryption", "no")
            | ("webrtc" | "ice_support" | "use_avpf" | "t38_udptl", "no")
    )
}

/// Reads the sections.
pub(crate) fn read(sections: &[Section], report: &mut Report) -> Accounts {
    let mut reader = Reader {
        objects: BTreeMap::new(),
        used: BTreeSet::new(),
        realm: "asterisk".to_owned(),
        out: Accounts::default(),
        report,
    };
    let mut endpoints = Vec::new();
    let mut registrations = Vec::new();
    for section in sections.iter().filter(|section| !section.is_template) {
        let Some(kind) = section.last("type") else {
            reader.refuse_all(section, "the section has no `type`");
            continue;
        };
        let kind = kind.value.to_ascii_lowercase();
        let Some(kind) = TYPES.iter().find(|known| **known == kind) else {
            reader.refuse_all(section, &format!("sections of type '{kind}' are not known here"));
            continue;
        };
        if reader.objects.contains_key(&(*kind, section.name.as_str())) {
            let reason = format!("there is a section '{}' of this type already", section.name);
            reader.refuse_all(section, &reason);
            continue;
        }
        reader.objects.insert((kind, &section.name), section);
        match *kind {
            "transport" => reader.transport(section),
            "global" => reader.global(section),
            "endpoint" => endpoints.push(section),
            "registration" => registrations.push(section),
            _ => {}
        }
    }
    for section in endpoints {
        let account = reader.endpoint(section, &registrations);
        reader.out.accounts.push(account);
    }
    for section in registrations {
        reader.registration(section);
    }
    reader.tell_unused();
    reader.out
}

struct Reader<'s, 'r> {
    objects: BTreeMap<(&'static str, &'s str), &'s Section>,
    used: BTreeSet<(&'static str, &'s str)>,
    /// The realm of a hash that says none.
    realm: String,
    out: Accounts,
    report: &'r mut Report,
}

impl<'s> Reader<'s, '_> {
    fn refuse_all(&mut self, section: &Section, reason: &str) {
        self.out.refuse(section.place, reason);
        for entry in &section.entries {
            self.out.refuse(entry.place, reason);
        }
    }

    fn needless(&mut self, entry: &Entry) {
        if entry.key != "type" {
            self.report.note(entry.place, "no counterpart is needed: so it is here anyhow");
        }
    }

    /// Refers to a section, or tells that there is none.
    fn find(
        &mut self,
        kind: &'static str,
        entry: &'s Entry,
        target: &'s str,
        account: &mut Account,
    ) -> Option<&'s Section> {
        let found = self.objects.get_key_value(&(kind, target)).map(|(key, found)| (*key, *found));
        let Some((key, section)) = found else {
            account.refuse(entry.place, format!("there is no section '{target}' of type {kind}"));
            return None;
        };
        self.used.insert(key);
        Some(section)
    }

    fn transport(&mut self, section: &Section) {
        let protocol = section.last("protocol").map_or("udp", |entry| entry.value.as_str());
        let protocol = protocol.to_ascii_lowercase();
        if !matches!(protocol.as_str(), "udp" | "tcp") {
            let reason = format!("the transport {protocol} is not built yet");
            return self.refuse_all(section, &reason);
        }
        let mut is_bound = false;
        for entry in effective(section, MANY) {
            match entry.key.as_str() {
                "type" | "protocol" => {}
                "bind" => match address(&entry.value) {
                    Ok(address) => {
                        is_bound = true;
                        let address = address.to_string();
                        let addresses = match protocol.as_str() {
                            "tcp" => self.out.listen_tcp.get_or_insert_default(),
                            _ => &mut self.out.listen,
                        };
                        if !addresses.contains(&address) {
                            addresses.push(address);
                        }
                    }
                    Err(why) => self.out.refuse(entry.place, why),
                },
                _ => self.out.refuse(entry.place, no_counterpart(&entry.key)),
            }
        }
        if !is_bound && section.last("bind").is_none() {
            self.out.refuse(section.place, "a transport needs `bind`");
        }
    }

    fn global(&mut self, section: &Section) {
        for entry in effective(section, MANY) {
            match entry.key.as_str() {
                "type" => {}
                "user_agent" => self.out.set_user_agent(entry.place, &entry.value),
                "default_realm" => {
                    self.out.set_realm(entry.place, &entry.value);
                    if let Some(realm) = &self.out.realm {
                        self.realm.clone_from(realm);
                    }
                }
                _ => self.out.refuse(entry.place, no_counterpart(&entry.key)),
            }
        }
    }

    fn endpoint(&mut self, section: &'s Section, registrations: &[&'s Section]) -> Account {
        let mut account = Account::new(Kind::Endpoint, &section.name, section.place);
        account.parent.clone_from(&section.parent);
        let entries = effective(section, MANY);
        let value = |key: &str| entries.iter().copied().find(|entry| entry.key == key);
        let aors = self.referred("aor", value("aors"), &mut account);
        let auths = self.referred("auth", value("auth"), &mut account);
        let outbound = self.referred("auth", value("outbound_auth"), &mut account);
        let matches = self.identified(&section.name);
        let has_contacts = aors.iter().any(|aor| aor.last("contact").is_some());
        let is_registered = registrations.iter().any(|registration| {
            registration.last("endpoint").is_some_and(|entry| entry.value == section.name)
        });
        let proves = !outbound.is_empty() || is_registered;
        if has_contacts || proves || (auths.is_empty() && !matches.is_empty()) {
            account.kind = Kind::Trunk;
        }
        account.set_text("context", "default");
        if let Some(context) = value("context") {
            account.settle("context", context.place, filled(&context.value));
        }
        for entry in &entries {
            self.endpoint_setting(entry, &mut account);
        }
        for entry in matches {
            self.address_of(entry, &mut account);
        }
        for aor in &aors {
            self.aor(aor, &mut account);
        }
        let own = if account.kind == Kind::Trunk { &outbound } else { &auths };
        if account.kind == Kind::Trunk && !auths.is_empty() {
            let reason = "a trunk is known by its address, not by a password of its own";
            account.refuse(value("auth").map_or(section.place, |entry| entry.place), reason);
            // Whoever had to prove who he is shall not be believed without.
            account
                .refuse(section.place, "so calls that come from it are refused: `from` is missing");
            account.remove_from();
        }
        account.auth = outbound.first().map(|auth| auth.name.clone());
        match own.first() {
            Some(auth) => self.proof(auth, &mut account),
            None if account.kind == Kind::Endpoint => {
                let reason = "nobody can prove to be it: it has no auth, identify or contact";
                account.wrong = Some((section.place, reason.to_owned()));
            }
            None => {}
        }
        account
    }

    /// The sections that a setting names.
    fn referred(
        &mut self,
        kind: &'static str,
        entry: Option<&'s Entry>,
        account: &mut Account,
    ) -> Vec<&'s Section> {
        let Some(entry) = entry else { return Vec::new() };
        let names: Vec<&str> =
            split(&entry.value, b',').into_iter().filter(|name| !name.is_empty()).collect();
        if kind == "auth" && names.len() > 1 {
            account.refuse(entry.place, "one account has one password: the first is taken");
        }
        let most = if kind == "auth" { 1 } else { names.len() };
        names.iter().take(most).filter_map(|name| self.find(kind, entry, name, account)).collect()
    }

    /// What identify sections say of an endpoint.
    fn identified(&mut self, endpoint: &str) -> Vec<&'s Entry> {
        let of = |section: &Section| {
            section.last("endpoint").is_some_and(|entry| entry.value == endpoint)
        };
        let found: Vec<_> = self
            .objects
            .iter()
            .filter(|((kind, _), section)| *kind == "identify" && of(section))
            .map(|(key, section)| (*key, *section))
            .collect();
        let mut entries = Vec::new();
        for (key, section) in found {
            self.used.insert(key);
            entries.extend(effective(section, MANY));
        }
        entries
    }

    fn address_of(&mut self, entry: &Entry, account: &mut Account) {
        match entry.key.as_str() {
            "type" | "endpoint" => {}
            "match" => {
                for text in split(&entry.value, b',').into_iter().filter(|text| !text.is_empty()) {
                    match network(text) {
                        Ok(network) => account.add("from", network),
                        Err(why) => account.refuse(entry.place, why),
                    }
                }
            }
            "srv_lookups" if !is_yes(&entry.value) => self.needless(entry),
            _ => account.refuse(entry.place, no_counterpart(&entry.key)),
        }
    }

    fn endpoint_setting(&mut self, entry: &Entry, account: &mut Account) {
        let is_trunk = account.kind == Kind::Trunk;
        match entry.key.as_str() {
            "context" | "aors" | "auth" | "outbound_auth" => {}
            "callerid" => account.set_caller(entry.place, &entry.value),
            "from_user" if is_trunk => {
                account.settle("from_user", entry.place, name(&entry.value));
            }
            "from_domain" if is_trunk => {
                account.settle("from_domain", entry.place, host(&entry.value));
            }
            "rewrite_contact" if !is_trunk => {
                account.set("rewrite_contact", Value::Truth(is_yes(&entry.value)));
            }
            "transport" => self.transport_of(entry, account),
            "force_rport" => {
                let reason = "who asks for rport gets the answer where the request came from, and \
                              nobody else";
                account.refuse(entry.place, reason);
            }
            _ if is_needless(entry) => self.needless(entry),
            key => account.refuse(entry.place, no_counterpart(key)),
        }
    }

    fn transport_of(&mut self, entry: &Entry, account: &mut Account) {
        let Some(found) = self.objects.get(&("transport", entry.value.as_str())) else {
            return account.refuse(entry.place, "there is no such section of type transport");
        };
        let protocol = found.last("protocol").map_or("udp", |entry| &entry.value);
        let is_built = ["udp", "tcp"].iter().any(|built| protocol.eq_ignore_ascii_case(built));
        if account.kind == Kind::Trunk || !is_built {
            account.set_transport(entry.place, protocol);
        } else {
            let reason = "no counterpart is needed: a phone is called where it registered from";
            self.report.note(entry.place, reason);
        }
    }

    fn aor(&mut self, aor: &'s Section, account: &mut Account) {
        if account.kind == Kind::Endpoint && aor.name != account.name {
            match name(&aor.name) {
                Ok(_) => account.add("aliases", aor.name.clone()),
                Err(why) => account.refuse(aor.place, why),
            }
        }
        let is_trunk = account.kind == Kind::Trunk;
        let entries = effective(aor, MANY);
        for entry in &entries {
            match entry.key.as_str() {
                "contact" => contact(entry, account),
                "qualify_frequency" if !is_needless(entry) => {
                    account.settle("qualify", entry.place, seconds(&entry.value, 5, 86_400));
                }
                // A trunk's contacts do not register.
                "max_contacts" | "remove_existing" if is_trunk => {
                    self.report.note(entry.place, "no counterpart is needed at a trunk");
                }
                "max_contacts" => contacts(entry, account),
                "remove_existing" => {
                    let text = if is_yes(&entry.value) { "replace-oldest" } else { "refuse" };
                    account.set_text("when_full", text);
                }
                "minimum_expiration" if !is_trunk => {
                    account.settle("expires_min", entry.place, seconds(&entry.value, 1, u32::MAX));
                }
                "maximum_expiration" if !is_trunk => {
                    account.settle("expires_max", entry.place, seconds(&entry.value, 1, u32::MAX));
                }
                _ if is_needless(entry) => self.needless(entry),
                key => account.refuse(entry.place, no_counterpart(key)),
            }
        }
        let has = |key: &str| entries.iter().any(|entry| entry.key == key);
        if !is_trunk && !has("remove_existing") {
            // Asterisk's way where nothing is said.
            account.set_text("when_full", "refuse");
        }
        if !is_trunk && !has("max_contacts") {
            account.refuse(aor.place, "without max_contacts nobody may register; here he may");
        }
    }

    fn proof(&mut self, auth: &'s Section, account: &mut Account) {
        let is_trunk = account.kind == Kind::Trunk;
        let entries = effective(auth, MANY);
        let value = |key: &str| {
            let found = entries.iter().find(|entry| entry.key == key);
            found.copied().filter(|entry| !entry.value.is_empty())
        };
        let kind = value("auth_type").map_or("userpass", |entry| entry.value.as_str());
        let is_hash = kind.eq_ignore_ascii_case("md5");
        for entry in &entries {
            match entry.key.as_str() {
                "username" => {
                    if is_trunk || entry.value != account.name {
                        account.settle("user", entry.place, name(&entry.value));
                    }
                }
                "password" | "md5_cred" | "realm" => {}
                _ if is_needless(entry) => self.needless(entry),
                key => account.refuse(entry.place, no_counterpart(key)),
            }
        }
        let secret = value(if is_hash { "md5_cred" } else { "password" });
        let Some(secret) = secret else {
            account.drop_user();
            let reason = "there is no password and no hash of one (password, md5_cred)";
            return match account.kind {
                Kind::Trunk => account.refuse(auth.place, reason),
                Kind::Endpoint => account.wrong = Some((auth.place, reason.to_owned())),
            };
        };
        account.set_text(if is_hash { "ha1" } else { "password" }, secret.value.clone());
        let realm = value("realm").map(|entry| entry.value.as_str()).filter(|realm| *realm != "*");
        if is_trunk {
            if let Some(realm) = realm {
                account.set_text("realm", realm);
            }
            if !account.has("user") {
                account.settle("user", auth.place, name(&account.name));
            }
            if !account.has("user") {
                account.drop_user();
            }
        } else if is_hash {
            check_hash(account, &secret.value, secret.place);
            let realm = realm.unwrap_or(&self.realm);
            if let Err(why) = self.out.share_realm(realm) {
                account.wrong = Some((secret.place, why));
            }
        } else if let Some(realm) = value("realm") {
            self.report.note(realm.place, "a password is good for every realm: see [auth]");
        }
    }

    fn tell_unused(&mut self) {
        let kinds = ["aor", "auth", "identify"];
        let objects = std::mem::take(&mut self.objects);
        for (key, section) in &objects {
            if kinds.contains(&key.0) && !self.used.contains(key) {
                self.out.refuse(section.place, "no endpoint refers to it or is named by it");
            }
        }
    }
}

/// A contact of an AOR is where a trunk is called.
fn contact(entry: &Entry, account: &mut Account) {
    let uri = uri(&entry.value);
    if let Some(transport) = &uri.transport {
        account.set_transport(entry.place, transport);
        if !matches!(transport.as_str(), "udp" | "tcp") {
            return;
        }
    }
    if !uri.user.is_empty() {
        account.refuse(entry.place, "a trunk is called without a user of its own: it was left out");
    }
    match peer(&uri.host) {
        Ok(peer) => account.add_peer(peer.to_string()),
        Err(why) => account.refuse(entry.place, why),
    }
}

fn contacts(entry: &Entry, account: &mut Account) {
    match entry.value.parse::<u32>() {
        Ok(number @ 1..=32) => account.set("contacts", Value::Number(number)),
        Ok(0) => {
            let reason = "max_contacts = 0 lets nobody register; here he may";
            account.refuse(entry.place, reason);
        }
        Ok(_) | Err(_) => account.refuse(entry.place, "an endpoint has 1 to 32 contacts"),
    }
}

/// A hash has 32 digits.
pub(crate) fn check_hash(account: &mut Account, hash: &str, place: crate::report::Place) {
    if hash.len() != 32 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        account.wrong = Some((place, "a hash of MD5 has 32 hexadecimal digits".to_owned()));
    }
}
