//! `sip.conf`: peers, users and friends of chan_sip, and its `register =>` lines.
//!
//! `host=dynamic` and a `user` are phones; whoever has an address is a trunk. What `[general]` says
//! holds for all of them where they say nothing.

use crate::accounts::{Account, Accounts, Kind, allow_networks, no_counterpart};
use crate::ini::{Entry, Section};
use crate::pjsip::{check_hash, effective, is_yes};
use crate::report::Report;
use crate::values::{Peer, Value, address, caller, filled, host, name, peer, seconds};

/// Keys that may stand more than once.
const MANY: &[&str] =
    &["allow", "auth", "deny", "disallow", "localnet", "permit", "register", "setvar"];

/// Settings of `[general]` that hold for peers, too.
const INHERITED: &[&str] = &[
    "allow",
    "context",
    "disallow",
    "dtmfmode",
    "fromdomain",
    "insecure",
    "language",
    "maxexpiry",
    "maxexpirey",
    "minexpiry",
    "minexpirey",
    "nat",
    "qualify",
    "qualifyfreq",
];

/// Those that are told once, where they stand.
const TOLD_ONCE: &[&str] = &["allow", "disallow", "dtmfmode", "language"];

/// Reads the sections.
pub(crate) fn read(sections: &[Section], report: &mut Report) -> Accounts {
    let mut reader = Reader { general: Vec::new(), out: Accounts::default(), report };
    let mut registers = Vec::new();
    let real = || sections.iter().filter(|section| !section.is_template);
    for section in real().filter(|section| section.name.eq_ignore_ascii_case("general")) {
        for entry in effective(section, MANY) {
            if entry.key == "register" {
                registers.push(entry);
            } else {
                reader.general_setting(entry);
            }
        }
    }
    reader.listen(sections);
    for section in real() {
        if section.name.eq_ignore_ascii_case("general") {
            continue;
        }
        if section.name.eq_ignore_ascii_case("authentication") {
            for entry in &section.entries {
                let reason = "accounts apart from a peer are not known here";
                reader.out.refuse(entry.place, reason);
            }
            continue;
        }
        let account = reader.peer(section);
        reader.out.accounts.extend(account);
    }
    for entry in registers {
        reader.register(entry);
    }
    reader.out
}

struct Reader<'s, 'r> {
    /// What holds for all.
    general: Vec<&'s Entry>,
    out: Accounts,
    report: &'r mut Report,
}

/// What a peer says of how it is known.
#[derive(Default)]
struct Known<'s> {
    host: Option<&'s Entry>,
    port: Option<u16>,
    kind: Option<&'s Entry>,
    secret: Option<&'s Entry>,
    remote_secret: Option<&'s Entry>,
    hash: Option<&'s Entry>,
    user: Option<&'s Entry>,
    insecure: String,
    qualify: Option<&'s Entry>,
    qualify_every: Option<&'s Entry>,
}

impl<'s> Reader<'s, '_> {
    fn general_setting(&mut self, entry: &'s Entry) {
        match entry.key.as_str() {
            "bindaddr" | "udpbindaddr" | "bindport" | "tcpbindaddr" | "tcpenable" => {}
            "realm" => self.out.set_realm(entry.place, &entry.value),
            "useragent" => self.out.set_user_agent(entry.place, &entry.value),
            "tlsenable" | "srvlookup" | "allowguest" | "promiscredir" if !is_yes(&entry.value) => {
                self.needless(entry);
            }
            "udpenable" | "alwaysauthreject" | "match_auth_username" if is_yes(&entry.value) => {
                self.needless(entry);
            }
            key if INHERITED.contains(&key) => {
                if TOLD_ONCE.contains(&key) {
                    self.out.refuse(entry.place, no_counterpart(key));
                } else {
                    self.general.push(entry);
                }
            }
            key => self.out.refuse(entry.place, no_counterpart(key)),
        }
    }

    fn needless(&mut self, entry: &Entry) {
        self.report.note(entry.place, "no counterpart is needed: so it is here anyhow");
    }

    fn listen(&mut self, sections: &'s [Section]) {
        let general: Vec<&Entry> = sections
            .iter()
            .filter(|section| section.name.eq_ignore_ascii_case("general"))
            .flat_map(|section| &section.entries)
            .collect();
        let last = |keys: &[&str]| {
            general.iter().rev().find(|entry| keys.contains(&entry.key.as_str())).copied()
        };
        let port = last(&["bindport"]);
        let udp = last(&["bindaddr", "udpbindaddr"]);
        if let Some(address) = self.bound(udp, port) {
            self.out.listen.push(address);
        }
        match last(&["tcpenable"]) {
            Some(enabled) if is_yes(&enabled.value) => {
                let tcp = last(&["tcpbindaddr"]).or(udp);
                // Without an address the one of UDP is taken for TCP, too.
                let address = self.bound(tcp, port);
                self.out.listen_tcp = address.map(|address| vec![address]);
            }
            Some(_) => self.out.listen_tcp = Some(Vec::new()),
            None => {
                if let Some(tcp) = last(&["tcpbindaddr"]) {
                    self.report.note(tcp.place, "it has no effect without tcpenable=yes");
                }
            }
        }
    }

    /// An address to listen on; every one of the machine when only a port is said.
    fn bound(&mut self, bind: Option<&Entry>, port: Option<&Entry>) -> Option<String> {
        let place = bind.or(port)?.place;
        let text = bind.map_or("0.0.0.0", |entry| entry.value.as_str());
        let has_port = text.parse::<std::net::SocketAddr>().is_ok();
        match address(text) {
            Ok(mut address) => {
                if let Some(port) = port.filter(|_| !has_port) {
                    match port.value.parse() {
                        Ok(number) => address.set_port(number),
                        Err(_) => {
                            self.out.refuse(port.place, "this is no port");
                            return None;
                        }
                    }
                }
                Some(address.to_string())
            }
            Err(why) => {
                self.out.refuse(place, why);
                None
            }
        }
    }

    fn peer(&mut self, section: &'s Section) -> Option<Account> {
        let entries = effective(section, MANY);
        let kind = entries.iter().find(|entry| entry.key == "type").copied();
        let known_kinds = ["friend", "peer", "user"];
        let is_known = |kind: &str| known_kinds.iter().any(|it| it.eq_ignore_ascii_case(kind));
        let wrong = match kind {
            None => Some("the section has no `type`".to_owned()),
            Some(kind) if !is_known(&kind.value) => {
                Some(format!("sections of type '{}' are not known here", kind.value))
            }
            Some(_) => None,
        };
        if let Some(reason) = wrong {
            self.out.refuse(section.place, reason.clone());
            for entry in entries {
                self.out.refuse(entry.place, reason.clone());
            }
            return None;
        }
        let own: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        let inherited = self.general.iter().copied().filter(|it| !own.contains(&it.key.as_str()));
        let all: Vec<&Entry> = inherited.chain(entries.iter().copied()).collect();
        let mut account = Account::new(Kind::Endpoint, &section.name, section.place);
        account.parent.clone_from(&section.parent);
        let host = all.iter().find(|entry| entry.key == "host");
        let is_user = kind.is_some_and(|kind| kind.value.eq_ignore_ascii_case("user"));
        if host.is_some_and(|host| !host.value.eq_ignore_ascii_case("dynamic")) && !is_user {
            account.kind = Kind::Trunk;
        }
        account.set_text("context", "default");
        let mut known = Known { kind, ..Known::default() };
        let mut rules = Vec::new();
        for entry in all {
            match entry.key.as_str() {
                "permit" | "deny" => {
                    rules.push((entry.key == "permit", entry.value.clone(), entry.place));
                }
                _ => self.setting(entry, &mut account, &mut known),
            }
        }
        match account.kind {
            Kind::Endpoint => {
                allow_networks(&mut account, &rules);
                self.phone(&known, &mut account);
            }
            Kind::Trunk => {
                for (_, _, place) in &rules {
                    account.refuse(*place, "a trunk is known by its own address alone");
                }
                trunk(&known, &mut account);
            }
        }
        Some(account)
    }

    fn setting(&mut self, entry: &'s Entry, account: &mut Account, known: &mut Known<'s>) {
        let is_trunk = account.kind == Kind::Trunk;
        let (place, value) = (entry.place, entry.value.as_str());
        match entry.key.as_str() {
            "type" | "callcounter" => {}
            "host" => known.host = Some(entry),
            "port" => match value.parse() {
                Ok(port) => known.port = Some(port),
                Err(_) => account.refuse(place, "this is no port"),
            },
            "secret" => known.secret = Some(entry),
            "remotesecret" => known.remote_secret = Some(entry),
            "md5secret" => known.hash = Some(entry),
            "username" | "defaultuser" => known.user = Some(entry),
            "insecure" => known.insecure = value.to_ascii_lowercase(),
            "qualify" => known.qualify = Some(entry).filter(|_| !value.eq_ignore_ascii_case("no")),
            "qualifyfreq" => known.qualify_every = Some(entry),
            "context" => account.settle("context", place, filled(value)),
            "callerid" => account.set_caller(place, value),
            "cid_number" => account.settle("caller_number", place, caller(value)),
            "fullname" => account.settle("caller_name", place, caller(value)),
            "fromuser" if is_trunk => account.settle("from_user", place, name(value)),
            "fromdomain" if is_trunk => account.settle("from_domain", place, host(value)),
            "call-limit" | "calllimit" => match value.parse::<u32>() {
                Ok(number @ 1..=1_000_000) => account.set("calls", Value::Number(number)),
                Ok(0) => self.needless(entry),
                Ok(_) | Err(_) => account.refuse(place, "1 to 1000000 calls are wanted"),
            },
            "nat" if !is_trunk => nat(entry, account),
            "nat" if value.eq_ignore_ascii_case("no") => self.needless(entry),
            "maxexpiry" | "maxexpirey" if !is_trunk => {
                account.settle("expires_max", place, seconds(value, 1, u32::MAX));
            }
            "minexpiry" | "minexpirey" if !is_trunk => {
                account.settle("expires_min", place, seconds(value, 1, u32::MAX));
            }
            "maxexpiry" | "maxexpirey" | "minexpiry" | "minexpirey" => {}
            "transport" => transport(entry, account),
            key => account.refuse(place, no_counterpart(key)),
        }
    }

    fn phone(&mut self, known: &Known<'_>, account: &mut Account) {
        // chan_sip keeps one contact and lets a later one take its place.
        account.set("contacts", Value::Number(1));
        account.set_text("when_full", "replace-oldest");
        if let Some(user) = known.user
            && user.value != account.name
        {
            account.settle("user", user.place, name(&user.value));
        }
        qualify(known, account);
        if let Some(entry) = known.remote_secret {
            account.refuse(entry.place, "a phone does not ask who we are");
        }
        if let Some(host) = known.host
            && !host.value.eq_ignore_ascii_case("dynamic")
        {
            account.refuse(host.place, "a user calls and is not called: it has no address");
        }
        if !matches!(known.insecure.as_str(), "" | "no" | "port") {
            let reason = "calls are not taken without a password here (insecure)";
            account.refuse(account.place, reason);
        }
        let secret = known.secret.filter(|entry| !entry.value.is_empty());
        let hash = known.hash.filter(|entry| !entry.value.is_empty());
        if let Some(hash) = hash {
            account.set_text("ha1", hash.value.clone());
            check_hash(account, &hash.value, hash.place);
            self.out.realm.get_or_insert_with(|| "asterisk".to_owned());
        } else if let Some(secret) = secret {
            account.set_text("password", secret.value.clone());
        } else {
            let reason = "it has no `secret`: anybody could be it";
            account.wrong = Some((account.place, reason.to_owned()));
        }
    }

    /// `[peer?][transport://]user[@domain][:secret[:authuser]]@host[:port][/extension][~expiry]`.
    fn register(&mut self, entry: &'s Entry) {
        let Some(line) = Registration::parse(&entry.value) else {
            return self.out.refuse(entry.place, "this is no user:secret@host");
        };
        if !matches!(line.transport.as_str(), "" | "udp" | "tcp") {
            let reason = format!("the transport {} is not built yet", line.transport);
            return self.out.refuse(entry.place, reason);
        }
        let peer = peer(&line.host).map(|peer| peer.to_string());
        let is_it = |account: &Account| {
            account.kind == Kind::Trunk
                && account.wrong.is_none()
                && !account.has("register")
                && line.is_account_of(account)
                && (Some(&account.name) == line.peer.as_ref()
                    || account.name == line.host
                    || account.text("peer").is_some_and(|at| Ok(at) == peer.as_deref()))
        };
        let found = self.out.accounts.iter().position(is_it);
        let of_peer =
            found.and_then(|at| self.out.accounts.get(at)?.text("peer").map(str::to_owned));
        let server = match (peer.clone(), of_peer) {
            (Ok(server), _) | (Err(_), Some(server)) => server,
            (Err(why), None) => return self.out.refuse(entry.place, why),
        };
        let mut account = match found {
            Some(at) => self.out.accounts.remove(at),
            None => {
                let label = self.label(&line);
                let mut account = Account::new(Kind::Trunk, &label, entry.place);
                account.set_text("peer", server.clone());
                account.set_text("context", self.context());
                account
            }
        };
        if found.is_some() {
            self.report.note(entry.place, format!("it is part of trunk '{}'", account.name));
        }
        line.settle(entry, &mut account, server);
        match found {
            Some(at) => self.out.accounts.insert(at, account),
            None => self.out.accounts.push(account),
        }
    }

    /// A name for a trunk that is only registered with.
    fn label(&self, line: &Registration) -> String {
        let host = line.host.replace([':', '[', ']'], "-");
        let both = format!("{host}-{}", line.user);
        let is_free = |label: &String| {
            name(label).is_ok() && !self.out.accounts.iter().any(|it| it.name == *label)
        };
        [host, both].into_iter().find(is_free).unwrap_or_else(|| "registered".to_owned())
    }

    fn context(&self) -> String {
        let said = self.general.iter().find(|entry| entry.key == "context");
        let said = said.map(|entry| entry.value.clone()).filter(|context| !context.is_empty());
        said.unwrap_or_else(|| "default".to_owned())
    }
}

fn nat(entry: &Entry, account: &mut Account) {
    let words: Vec<String> =
        entry.value.to_ascii_lowercase().split(',').map(|word| word.trim().to_owned()).collect();
    for word in &words {
        match word.as_str() {
            "no" | "never" => account.set("rewrite_contact", Value::Truth(false)),
            "yes" | "force_rport" | "auto_force_rport" => {
                account.set("rewrite_contact", Value::Truth(true));
            }
            "comedia" | "auto_comedia" => {}
            _ => account.refuse(entry.place, "this is no way of NAT"),
        }
    }
    if words.iter().any(|word| word.ends_with("comedia") || word == "yes") {
        account.refuse(entry.place, no_counterpart("rtp_symmetric"));
    }
}

fn trunk(known: &Known<'_>, account: &mut Account) {
    let Some(host_entry) = known.host else { return };
    let kind = known.kind.map(|kind| kind.value.to_ascii_lowercase()).unwrap_or_default();
    let secret = known.remote_secret.or(known.secret).filter(|entry| !entry.value.is_empty());
    match peer(&host_entry.value) {
        Ok(peer) => {
            let peer = known.port.map_or(peer.clone(), |port| peer.at_port(port));
            account.set_text("peer", peer.to_string());
            let asks = known.secret.is_some() || known.hash.is_some();
            let calls = matches!(kind.as_str(), "peer" | "friend");
            match peer {
                _ if asks && !known.insecure.contains("invite") && known.insecure != "very" => {
                    let reason = "its calls had to prove who it is, and a trunk is known by its \
                                  address alone: so they are refused, `from` is missing";
                    account.refuse(known.kind.map_or(account.place, |kind| kind.place), reason);
                }
                Peer::Address(address) if calls => account.add("from", address.ip().to_string()),
                Peer::Address(_) | Peer::Name { .. } => {}
            }
        }
        Err(why) => account.refuse(host_entry.place, why),
    }
    if let Some(secret) = secret {
        account.set_text("password", secret.value.clone());
    } else if let Some(hash) = known.hash {
        account.set_text("ha1", hash.value.clone());
        check_hash(account, &hash.value, hash.place);
    }
    if account.has("password") || account.has("ha1") {
        let (text, place) = match known.user {
            Some(user) => (user.value.clone(), user.place),
            None => (account.name.clone(), account.place),
        };
        account.settle("user", place, name(&text));
        if !account.has("user") {
            account.drop_user();
        }
    } else if let Some(user) = known.user {
        // chan_sip calls this user there; here the number that is dialled stands there.
        account.refuse(user.place, "a user without a password is of no use at a trunk");
    }
    qualify(known, account);
}

/// How often it is asked whether it is there: each minute in Asterisk, too.
fn qualify(known: &Known<'_>, account: &mut Account) {
    let Some(qualify) = known.qualify else { return };
    if !is_yes(&qualify.value) {
        account.refuse(qualify.place, "how long an answer may take is not set here");
    }
    let every = known.qualify_every.map_or("60", |entry| entry.value.as_str());
    let place = known.qualify_every.unwrap_or(qualify).place;
    account.settle("qualify", place, seconds(every, 5, 86_400));
}

/// What may be used; the first is how a trunk is called.
fn transport(entry: &Entry, account: &mut Account) {
    for (nth, text) in entry.value.split(',').enumerate() {
        let text = text.trim().to_ascii_lowercase();
        let is_built = matches!(text.as_str(), "udp" | "tcp");
        if !is_built || (account.kind == Kind::Trunk && nth == 0) {
            account.set_transport(entry.place, &text);
        }
    }
}

/// What a `register` line says.
struct Registration {
    peer: Option<String>,
    /// In lower case; empty when it is not said.
    transport: String,
    user: String,
    domain: Option<String>,
    secret: Option<String>,
    auth_user: Option<String>,
    host: String,
    extension: Option<String>,
    expiry: Option<String>,
}

impl Registration {
    fn parse(text: &str) -> Option<Self> {
        let owned = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let (account, place) = text.rsplit_once('@')?;
        let (peer, account) = match account.split_once('?') {
            Some((peer, account)) => (owned(peer), account),
            None => (None, account),
        };
        let (transport, account) = account.split_once("://").unwrap_or(("", account));
        let (place, expiry) = match place.split_once('~') {
            Some((place, expiry)) => (place, owned(expiry)),
            None => (place, None),
        };
        let (host, extension) = match place.split_once('/') {
            Some((host, extension)) => (host, owned(extension)),
            None => (place, None),
        };
        let (user, domain, rest) = match account.split_once('@') {
            Some((user, rest)) => {
                let (domain, rest) = rest.split_once(':').unwrap_or((rest, ""));
                (user, owned(domain), rest)
            }
            None => {
                let (user, rest) = account.split_once(':').unwrap_or((account, ""));
                (user, None, rest)
            }
        };
        // The name in the digest stands last; a secret may hold a colon no more than in Asterisk.
        let (secret, auth_user) = rest.split_once(':').unwrap_or((rest, ""));
        Some(Self {
            peer,
            transport: transport.trim().to_ascii_lowercase(),
            user: owned(user)?,
            domain,
            secret: owned(secret),
            auth_user: owned(auth_user),
            host: owned(host)?,
            extension,
            expiry,
        })
    }

    /// Whether a trunk is known by this account, or by none yet.
    fn is_account_of(&self, account: &Account) -> bool {
        let user = self.auth_user.as_ref().unwrap_or(&self.user);
        let is =
            |key: &str, ours: Option<&str>| account.text(key).is_none_or(|it| Some(it) == ours);
        self.secret.is_none()
            || (is("user", Some(user))
                && is("password", self.secret.as_deref())
                && !account.has("ha1"))
    }

    fn settle(&self, entry: &Entry, account: &mut Account, server: String) {
        let place = entry.place;
        if !self.transport.is_empty() {
            account.set_transport(place, &self.transport);
        }
        if let Some(secret) = &self.secret {
            account.drop_user();
            account.set_text("password", secret.clone());
            let user = self.auth_user.as_ref().unwrap_or(&self.user);
            account.settle("user", place, name(user));
        }
        if !account.has("user") || !(account.has("password") || account.has("ha1")) {
            account.drop_user();
            return account.refuse(place, "to register needs a user and a password");
        }
        account.set_text("register", server);
        if account.text("user") != Some(&self.user) {
            account.settle("from_user", place, name(&self.user));
        }
        if let Some(domain) = &self.domain {
            account.settle("from_domain", place, host(domain));
        }
        // Without an extension the carrier calls `s`.
        let extension = self.extension.as_deref().unwrap_or("s");
        account.settle("contact_user", place, name(extension));
        if let Some(expiry) = &self.expiry {
            account.settle("expires", place, seconds(expiry, 30, 86_400));
        }
    }
}
