//! Endpoints and trunks, as both `pjsip.conf` and `sip.conf` become them, and how they are written.

use crate::report::{Place, Report, said};
use crate::values::{Peer, Value, caller, name, network, peer, printable};
use crate::write::{comment, key, list, quoted};
use std::collections::{BTreeMap, BTreeSet};

/// Peers of one trunk.
const PEERS_MAX: usize = 32;

/// The most seconds of a registration where nothing is said.
const EXPIRES_MAX: u32 = 3_600;

/// Settings that endpoints of one template may share; all else is of each one alone.
const SHARED: &[&str] = &[
    "context",
    "calls",
    "qualify",
    "contacts",
    "when_full",
    "expires_min",
    "expires_max",
    "rewrite_contact",
];

/// The keys of a table in the order in which they are written.
const ORDER: &[&str] = &[
    "template",
    "peer",
    "peers",
    "transport",
    "from",
    "user",
    "password",
    "ha1",
    "realm",
    "register",
    "expires",
    "contact_user",
    "from_user",
    "from_domain",
    "context",
    "caller_number",
    "caller_name",
    "aliases",
    "calls",
    "qualify",
    "contacts",
    "when_full",
    "expires_min",
    "expires_max",
    "rewrite_contact",
];

/// Settings about media, in both files. The PBX passes descriptions from end to end.
const MEDIA: &[&str] = &[
    "allow",
    "allow_transfer_media",
    "autoframing",
    "avpf",
    "bundle",
    "canreinvite",
    "direct_media",
    "direct_media_method",
    "directmedia",
    "disable_direct_media_on_nat",
    "disallow",
    "dtls_auto_generate_cert",
    "dtls_ca_file",
    "dtls_cert_file",
    "dtls_private_key",
    "dtls_setup",
    "dtls_verify",
    "dtlscertfile",
    "dtlsenable",
    "dtlsprivatekey",
    "dtlssetup",
    "dtlsverify",
    "dtmf_mode",
    "dtmfmode",
    "encryption",
    "fax_detect",
    "faxdetect",
    "icesupport",
    "ice_support",
    "max_audio_streams",
    "max_video_streams",
    "maxcallbitrate",
    "media_address",
    "media_encryption",
    "media_use_received_transport",
    "moh_suggest",
    "mohsuggest",
    "mohinterpret",
    "preferred_codec_only",
    "rtcp_mux",
    "rtp_ipv6",
    "rtp_keepalive",
    "rtp_symmetric",
    "rtp_timeout",
    "rtp_timeout_hold",
    "rtpholdtimeout",
    "rtpkeepalive",
    "rtptimeout",
    "t38_udptl",
    "t38pt_udptl",
    "tone_zone",
    "use_avpf",
    "use_ptime",
    "videosupport",
    "webrtc",
];

/// Settings of voice mail.
const VOICE_MAIL: &[&str] = &[
    "mailbox",
    "mailboxes",
    "mwi_from_user",
    "mwi_subscribe_replaces_unsolicited",
    "vmexten",
    "voicemail_extension",
    "subscribemwi",
];

/// Why a setting without a counterpart is not converted.
pub(crate) fn no_counterpart(key: &str) -> &'static str {
    if MEDIA.contains(&key) {
        "nothing is set here about media: descriptions pass from end to end"
    } else if VOICE_MAIL.contains(&key) {
        "voice mail is not built yet"
    } else {
        "there is no such setting here"
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Endpoint,
    Trunk,
}

/// A table of the output.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) place: Place,
    /// The template of Asterisk that it begins with.
    pub(crate) parent: Option<String>,
    /// The section that says how it proves to others who it is.
    pub(crate) auth: Option<String>,
    values: BTreeMap<&'static str, Value>,
    /// Lines that are told and stand in it as comments.
    pub(crate) refused: Vec<(Place, String)>,
    /// Why all of it can be no more than a comment.
    pub(crate) wrong: Option<(Place, String)>,
}

impl Account {
    pub(crate) fn new(kind: Kind, name: &str, place: Place) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            place,
            parent: None,
            auth: None,
            values: BTreeMap::new(),
            refused: Vec::new(),
            wrong: None,
        }
    }

    pub(crate) fn set(&mut self, key: &'static str, value: Value) {
        self.values.insert(key, value);
    }

    pub(crate) fn set_text(&mut self, key: &'static str, text: impl Into<String>) {
        self.set(key, Value::Text(text.into()));
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.values.get(key)? {
            Value::Text(text) => Some(text),
            Value::List(_) | Value::Number(_) | Value::Truth(_) => None,
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Appends to a list.
    pub(crate) fn add(&mut self, key: &'static str, text: String) {
        match self.values.entry(key).or_insert_with(|| Value::List(Vec::new())) {
            Value::List(list) if !list.contains(&text) => list.push(text),
            Value::List(_) | Value::Text(_) | Value::Number(_) | Value::Truth(_) => {}
        }
    }

    /// One more place where a trunk is called.
    pub(crate) fn add_peer(&mut self, peer: String) {
        match self.values.remove("peer") {
            None if !self.has("peers") => self.set_text("peer", peer),
            Some(Value::Text(first)) => {
                self.add("peers", first);
                self.add("peers", peer);
            }
            Some(_) | None => self.add("peers", peer),
        }
    }

    /// How a trunk is called; one way for all that it is.
    pub(crate) fn set_transport(&mut self, place: Place, text: &str) {
        let text = text.trim().to_ascii_lowercase();
        match (text.as_str(), self.text("transport")) {
            ("udp" | "tcp", Some(known)) if known != text => {
                self.refuse(
                    place,
                    format!("a trunk has one transport, and it has {known} already"),
                );
            }
            ("udp" | "tcp", _) => self.set_text("transport", text),
            _ => self.refuse(place, format!("the transport {text} is not built yet")),
        }
    }

    /// Takes the addresses back that its calls come from.
    pub(crate) fn remove_from(&mut self) {
        self.values.remove("from");
    }

    /// A user is nothing without a password, nor the other way round.
    pub(crate) fn drop_user(&mut self) {
        for key in ["user", "password", "ha1", "realm"] {
            self.values.remove(key);
        }
    }

    pub(crate) fn refuse(&mut self, place: Place, reason: impl Into<String>) {
        self.refused.push((place, reason.into()));
    }

    /// Sets what was read, or tells why it could not be.
    pub(crate) fn settle(&mut self, key: &'static str, place: Place, read: Result<Value, String>) {
        match read {
            Ok(value) => self.set(key, value),
            Err(why) => self.refuse(place, why),
        }
    }

    /// `"Name" <number>`.
    pub(crate) fn set_caller(&mut self, place: Place, text: &str) {
        let (name, number) = match text.split_once('<') {
            Some((name, number)) => (name.trim(), number.trim().trim_end_matches('>').trim()),
            None if is_number(text) => ("", text.trim()),
            None => (text.trim(), ""),
        };
        for (key, text) in [("caller_number", number), ("caller_name", name.trim_matches('"'))] {
            if !text.is_empty() {
                self.settle(key, place, caller(text));
            }
        }
    }
}

fn is_number(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || "+*#-() ".contains(c))
}

/// The addresses that a peer may come from: everything is denied, then some are permitted.
pub(crate) fn allow_networks(account: &mut Account, rules: &[(bool, String, Place)]) {
    let is_all = |text: &str| matches!(network(text).as_deref(), Ok("0.0.0.0/0" | "::/0"));
    let mut is_closed = false;
    for (is_permit, text, place) in rules {
        if !is_permit {
            let permits = account.has("from");
            if is_all(text) && !permits {
                is_closed = true;
            } else {
                let reason =
                    "of deny and permit, only to deny all and then to permit some is known";
                account.refuse(*place, reason);
            }
            continue;
        }
        if !is_closed {
            account.refuse(*place, "a permit without a deny of all before it closes nothing");
            continue;
        }
        match network(text) {
            Ok(network) => account.add("from", network),
            Err(why) => account.refuse(*place, why),
        }
    }
    if is_closed && !account.has("from") {
        let place = rules.first().map_or(account.place, |(_, _, place)| *place);
        account.wrong = Some((place, "it may come from nowhere".to_owned()));
    }
}

/// All tables of the output.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    pub(crate) listen: Vec<String>,
    /// An empty list is TCP switched off.
    pub(crate) listen_tcp: Option<Vec<String>>,
    pub(crate) user_agent: Option<String>,
    pub(crate) realm: Option<String>,
    pub(crate) accounts: Vec<Account>,
    /// Lines that are told and stand as comments at the head.
    pub(crate) refused: Vec<(Place, String)>,
}

impl Accounts {
    pub(crate) fn refuse(&mut self, place: Place, reason: impl Into<String>) {
        self.refused.push((place, reason.into()));
    }

    /// Takes the realm that the file gives.
    pub(crate) fn set_realm(&mut self, place: Place, text: &str) {
        match printable(text) {
            Ok(realm) => self.realm = Some(realm),
            Err(why) => self.refuse(place, why),
        }
    }

    /// Takes what we call ourselves.
    pub(crate) fn set_user_agent(&mut self, place: Place, text: &str) {
        match printable(text) {
            Ok(agent) => self.user_agent = Some(agent),
            Err(why) => self.refuse(place, why),
        }
    }

    /// The realm that all hashes must share.
    pub(crate) fn share_realm(&mut self, realm: &str) -> Result<(), String> {
        let realm = printable(realm)?;
        let known = self.realm.get_or_insert_with(|| realm.clone());
        if *known == realm {
            return Ok(());
        }
        Err(format!("a hash for another realm than the `{known}` of the others is of no use here"))
    }
}

/// Writes the tables, and tells what they have as comments.
pub(crate) fn write(mut accounts: Accounts, report: &mut Report) -> String {
    // What is wrong with the file as such stands at the head.
    accounts.refused.splice(0..0, report.all_left());
    check(&mut accounts.accounts, report);
    for (place, reason) in &accounts.refused {
        report.left(*place, reason);
    }
    for account in &accounts.accounts {
        for (place, reason) in account.refused.iter().chain(&account.wrong) {
            report.left(*place, reason);
        }
    }
    let templates = templates(&mut accounts.accounts);
    let mut page = Page { text: String::new(), told: BTreeSet::new(), report };
    page.refused(&accounts.refused);
    let has_tcp = accounts.listen_tcp.is_some();
    if !accounts.listen.is_empty() || has_tcp || accounts.user_agent.is_some() {
        page.line("[sip]");
        if !accounts.listen.is_empty() {
            page.line(&format!("listen = {}", list(accounts.listen.iter().map(String::as_str))));
        }
        if let Some(addresses) = &accounts.listen_tcp {
            page.line(&format!("listen_tcp = {}", list(addresses.iter().map(String::as_str))));
        }
        if let Some(agent) = &accounts.user_agent {
            page.line(&format!("user_agent = {}", quoted(agent)));
        }
    }
    if let Some(realm) = &accounts.realm {
        page.head("[auth]");
        page.line(&format!("realm = {}", quoted(realm)));
    }
    for (name, values) in &templates {
        page.head(&format!("[templates.{}]", key(name)));
        page.values("", values);
    }
    for kind in [Kind::Endpoint, Kind::Trunk] {
        for account in accounts.accounts.iter().filter(|account| account.kind == kind) {
            page.account(account);
        }
    }
    page.text
}

/// What must hold between the tables.
fn check(accounts: &mut [Account], report: &Report) {
    let mut names: BTreeMap<String, Place> = BTreeMap::new();
    let mut networks: BTreeMap<String, String> = BTreeMap::new();
    for account in accounts {
        if account.wrong.is_none() {
            account.wrong = name(&account.name).err().map(|why| (account.place, why));
        }
        if account.wrong.is_some() {
            continue;
        }
        if let Some(before) = names.get(&account.name) {
            let position = report.position(*before);
            let reason = format!("the name is that of another account already: {position}");
            account.wrong = Some((account.place, reason));
            continue;
        }
        names.insert(account.name.clone(), account.place);
        if account.kind == Kind::Endpoint {
            check_lifetimes(account);
            continue;
        }
        if let Some(Value::List(peers)) = account.values.get_mut("peers")
            && peers.len() > PEERS_MAX
        {
            peers.truncate(PEERS_MAX);
            let reason = format!("a trunk has at most {PEERS_MAX} peers: the others are left out");
            account.refused.push((account.place, reason));
        }
        let from = match account.values.remove("from") {
            Some(Value::List(from)) => from,
            Some(Value::Text(_) | Value::Number(_) | Value::Truth(_)) | None => Vec::new(),
        };
        for network in from {
            match networks.get(&network) {
                Some(owner) => {
                    let reason = format!("{network} belongs to trunk '{owner}' already");
                    account.refused.push((account.place, reason));
                }
                None => {
                    networks.insert(network.clone(), account.name.clone());
                    account.add("from", network);
                }
            }
        }
        if !["from", "peer", "peers"].iter().any(|key| account.has(key)) {
            let reason = "a trunk needs an address that it is called at or that it calls from";
            account.wrong = Some((account.place, reason.to_owned()));
        }
        check_context(account);
    }
}

/// The calls of a trunk are known by where they come from, which a name does not tell.
fn check_context(account: &mut Account) {
    let peers = match account.values.get("peers") {
        Some(Value::List(peers)) => &peers[..],
        Some(Value::Text(_) | Value::Number(_) | Value::Truth(_)) | None => &[],
    };
    let mut peers = peers.iter().map(String::as_str).chain(account.text("peer"));
    let is_named = peers.any(|text| matches!(peer(text), Ok(Peer::Name { .. })));
    if is_named && !account.has("from") && account.values.remove("context").is_some() {
        let reason = "calls go to where the name leads; for its own calls, give it `from` with the \
                      addresses that they come from, and `context`";
        account.refused.push((account.place, reason.to_owned()));
    }
}

/// The least time of a registration cannot be above the most.
fn check_lifetimes(account: &mut Account) {
    let seconds = |key: &str| account.text(key)?.strip_suffix('s')?.parse::<u32>().ok();
    let most = seconds("expires_max").unwrap_or(EXPIRES_MAX);
    if seconds("expires_min").is_some_and(|least| least > most) {
        account.values.remove("expires_min");
        let reason = format!("the least time of a registration is above the most, {most} seconds");
        account.refused.push((account.place, reason));
    }
}

type Values = BTreeMap<&'static str, Value>;

/// Takes what all endpoints of one template share out of them.
fn templates(accounts: &mut [Account]) -> Vec<(String, Values)> {
    let is_of = |account: &Account, name: &str| {
        account.kind == Kind::Endpoint
            && account.wrong.is_none()
            && account.parent.as_deref() == Some(name)
    };
    let mut names: Vec<String> = Vec::new();
    for name in accounts.iter().filter_map(|account| account.parent.as_ref()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let mut templates = Vec::new();
    for name in names {
        let mut members = accounts.iter().filter(|account| is_of(account, &name));
        let Some(first) = members.next() else { continue };
        let mut shared: Values = first.values.clone();
        let mut count = 1;
        shared.retain(|key, _| SHARED.contains(key));
        for member in members {
            count += 1;
            shared.retain(|key, value| member.values.get(key) == Some(value));
        }
        if count < 2 || shared.is_empty() {
            continue;
        }
        for account in accounts.iter_mut().filter(|account| is_of(account, &name)) {
            account.values.retain(|key, _| !shared.contains_key(key));
            account.set_text("template", name.clone());
        }
        templates.push((name, shared));
    }
    templates
}

struct Page<'r> {
    text: String,
    /// A line of a template is told in the first table that has it.
    told: BTreeSet<(Place, String)>,
    report: &'r Report,
}

impl Page<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn head(&mut self, line: &str) {
        if !self.text.is_empty() {
            self.line("");
        }
        self.line(line);
    }

    fn refused(&mut self, refused: &[(Place, String)]) {
        for (place, reason) in refused {
            if self.told.insert((*place, reason.clone())) {
                let (position, text) = (self.report.position(*place), self.report.text(*place));
                self.line(&comment("", &format!("not converted: {position}: {text}")));
                self.line(&comment("", &format!("  {}", said(reason))));
            }
        }
    }

    fn values(&mut self, indent: &str, values: &Values) {
        for key in ORDER {
            if let Some(value) = values.get(key) {
                self.line(&format!("{indent}{key} = {}", value.toml()));
            }
        }
    }

    fn account(&mut self, account: &Account) {
        let kind = match account.kind {
            Kind::Endpoint => "endpoints",
            Kind::Trunk => "trunks",
        };
        let head = format!("[{kind}.{}]", key(&account.name));
        match &account.wrong {
            Some(wrong) => {
                self.head(&comment("", &head));
                self.refused(std::slice::from_ref(wrong));
                self.values("# ", &account.values);
            }
            None => {
                self.head(&head);
                self.values("", &account.values);
            }
        }
        self.refused(&account.refused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_a_name_and_a_number() {
        let read = |text: &str| {
            let mut account = Account::new(Kind::Endpoint, "a", Place::default());
            account.set_caller(Place::default(), text);
            let text = |key| account.text(key).unwrap_or_default().to_owned();
            (text("caller_name"), text("caller_number"))
        };
        assert_eq!(read("\"Ann B\" <100>"), ("Ann B".into(), "100".into()));
        assert_eq!(read("Ann <100>"), ("Ann".into(), "100".into()));
        assert_eq!(read("<100>"), (String::new(), "100".into()));
        assert_eq!(read("+49 30 1"), (String::new(), "+49 30 1".into()));
        assert_eq!(read("Ann"), ("Ann".into(), String::new()));
    }
}
