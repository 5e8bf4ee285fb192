//! `[endpoints.NAME]`, `[templates.NAME]` and `[groups.NAME]`: phones and accounts.

use super::Prefix;
use super::table::{At, Page, Table};
use super::trunks::QUALIFY_MIN;
use super::units;
use dialplan::Fault;
use pbx_core::Forward;
use sip::digest::{Algorithm, Secret};
use sip::registrar::{Policy, WhenFull};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Endpoints of a configuration: a million takes some 700 MB.
const ENDPOINTS_MAX: u64 = 1_000_000;

/// Contacts that one endpoint may have at most.
const CONTACTS_MAX: u32 = 32;

/// How long an endpoint may ring before its call is forwarded.
const FORWARD_AFTER: Duration = Duration::from_secs(20);

/// What a table says; `None` is a key that it does not have.
#[derive(Clone, Default)]
pub(super) struct SaidEndpoint {
    template: Option<At<String>>,
    range: Option<At<(u64, u64)>>,
    password: Option<At<String>>,
    ha1: Option<At<String>>,
    ha1_algorithm: Option<At<Algorithm>>,
    user: Option<At<String>>,
    context: Option<At<String>>,
    caller_number: Option<At<String>>,
    caller_name: Option<At<String>>,
    aliases: Option<At<Vec<At<String>>>>,
    from: Option<At<Vec<At<Prefix>>>>,
    calls_max: Option<At<u32>>,
    dnd: Option<At<bool>>,
    qualify: Option<At<Duration>>,
    forward_always: Option<At<String>>,
    forward_busy: Option<At<String>>,
    forward_no_answer: Option<At<String>>,
    forward_after: Option<At<Duration>>,
    contacts_max: Option<At<u32>>,
    when_full: Option<At<WhenFull>>,
    expires_min: Option<At<Duration>>,
    expires_max: Option<At<Duration>>,
    rewrite_contact: Option<At<bool>>,
}

/// A table with its name.
pub(super) struct Named {
    pub(super) name: At<String>,
    pub(super) said: SaidEndpoint,
}

/// `[groups.NAME]`.
pub(super) struct SaidGroup {
    pub(super) name: At<String>,
    pub(super) members: Option<At<Vec<At<String>>>>,
}

/// An endpoint.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its name, which is its address of record.
    pub name: String,
    /// What it calls itself in a digest.
    pub user: String,
    /// How it proves that.
    pub(crate) proof: Proof,
    /// Where its calls enter the dialplan.
    pub context: String,
    /// The number that its calls show.
    pub caller_number: Option<String>,
    /// The name that its calls show.
    pub caller_name: Option<String>,
    /// Further user parts that are its own.
    pub aliases: Vec<String>,
    /// Networks that it may come from; any when empty.
    pub from: Vec<Prefix>,
    /// Calls at a time.
    pub calls_max: Option<u32>,
    /// Not to be disturbed.
    pub dnd: bool,
    /// How often its contacts are asked whether they are there.
    pub qualify: Option<Duration>,
    /// Where its calls go when it does not take them.
    pub(crate) forward: Forward,
    /// How it may register.
    pub(crate) policy: Policy,
    /// Whether requests go to where its REGISTER came from.
    pub rewrites_contact: bool,
    /// What to say when the dialplan does not have the context; one for a whole range.
    pub(crate) missing_context: Arc<Fault>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A password, or a hash that stands for it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Proof {
    Password(String),
    Hash(Algorithm, String),
}

impl Endpoint {
    /// The secret for digests of `realm`.
    pub(crate) fn secret(&self, realm: &str) -> Option<Secret> {
        match &self.proof {
            Proof::Password(password) => Some(Secret::of_password(&self.user, realm, password)),
            Proof::Hash(algorithm, hex) => Secret::of_ha1(*algorithm, hex).ok(),
        }
    }
}

/// A group of endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The names of its members.
    pub members: Vec<String>,
}

/// Reads a table.
pub(super) fn read(name: At<String>, table: &mut Table<'_, '_, '_>) -> Named {
    let said = SaidEndpoint {
        template: table.text("template"),
        range: table.parsed("range", range),
        password: table.text("password"),
        ha1: table.text("ha1"),
        ha1_algorithm: table.parsed("ha1_algorithm", algorithm),
        user: table.parsed("user", units::name),
        context: table.text("context"),
        caller_number: table.parsed("caller_number", shown),
        caller_name: table.parsed("caller_name", shown),
        aliases: table.list("aliases", units::name),
        from: table.list("from", units::prefix),
        calls_max: table.number("calls", 1..=1_000_000),
        dnd: table.boolean("dnd"),
        qualify: table.duration("qualify"),
        forward_always: table.parsed("forward_always", shown),
        forward_busy: table.parsed("forward_busy", shown),
        forward_no_answer: table.parsed("forward_no_answer", shown),
        forward_after: table.duration("forward_after"),
        contacts_max: table.number("contacts", 1..=CONTACTS_MAX),
        when_full: table.parsed("when_full", |text| match text {
            "refuse" => Ok(WhenFull::Refuse),
            "replace-oldest" => Ok(WhenFull::ReplaceOldest),
            _ => Err("`when_full` is \"refuse\" or \"replace-oldest\""),
        }),
        expires_min: table.duration("expires_min"),
        expires_max: table.duration("expires_max"),
        rewrite_contact: table.boolean("rewrite_contact"),
    };
    Named { name, said }
}

/// Reads `[groups.NAME]`.
pub(super) fn read_group(name: At<String>, table: &mut Table<'_, '_, '_>) -> SaidGroup {
    SaidGroup { name, members: table.list("members", units::name) }
}

/// Reads `MD5`, `SHA-256` or `SHA-512-256`.
pub(super) fn algorithm(text: &str) -> Result<Algorithm, String> {
    Algorithm::of_token(text.as_bytes()).ok_or_else(|| {
        let names: Vec<&str> = Algorithm::ALL.iter().map(|it| it.as_str()).collect();
        format!("no hash is called `{text}`; there are {}", names.join(", "))
    })
}

/// Reads `1000-1999`.
fn range(text: &str) -> Result<(u64, u64), String> {
    let parsed = text
        .split_once('-')
        .and_then(|(first, last)| Some((first.trim().parse().ok()?, last.trim().parse().ok()?)));
    let (first, last) = parsed.ok_or("a range is written as \"1000-1999\"")?;
    if first > last || last - first >= ENDPOINTS_MAX {
        return Err(format!("a range runs upwards and holds at most {ENDPOINTS_MAX} numbers"));
    }
    Ok((first, last))
}

/// A text that is shown to others: it must not break a header field.
pub(super) fn shown(text: &str) -> Result<String, &'static str> {
    if text.len() > 128 || text.chars().any(char::is_control) {
        return Err("at most 128 bytes, and no control characters");
    }
    Ok(text.to_owned())
}

impl SaidEndpoint {
    /// What is not said here is as the template says.
    fn or(self, template: &Self) -> Self {
        let secret_is_ours = self.password.is_some() || self.ha1.is_some();
        let of = |theirs: &Option<At<String>>| if secret_is_ours { None } else { theirs.clone() };
        Self {
            template: self.template,
            range: self.range,
            password: self.password.or_else(|| of(&template.password)),
            ha1: self.ha1.or_else(|| of(&template.ha1)),
            ha1_algorithm: self.ha1_algorithm.or_else(|| template.ha1_algorithm.clone()),
            user: self.user,
            context: self.context.or_else(|| template.context.clone()),
            caller_number: self.caller_number.or_else(|| template.caller_number.clone()),
            caller_name: self.caller_name.or_else(|| template.caller_name.clone()),
            aliases: self.aliases,
            from: self.from.or_else(|| template.from.clone()),
            calls_max: self.calls_max.or_else(|| template.calls_max.clone()),
            dnd: self.dnd.or_else(|| template.dnd.clone()),
            qualify: self.qualify.or_else(|| template.qualify.clone()),
            forward_always: self.forward_always.or_else(|| template.forward_always.clone()),
            forward_busy: self.forward_busy.or_else(|| template.forward_busy.clone()),
            forward_no_answer: self
                .forward_no_answer
                .or_else(|| template.forward_no_answer.clone()),
            forward_after: self.forward_after.or_else(|| template.forward_after.clone()),
            contacts_max: self.contacts_max.or_else(|| template.contacts_max.clone()),
            when_full: self.when_full.or_else(|| template.when_full.clone()),
            expires_min: self.expires_min.or_else(|| template.expires_min.clone()),
            expires_max: self.expires_max.or_else(|| template.expires_max.clone()),
            rewrite_contact: self.rewrite_contact.or_else(|| template.rewrite_contact.clone()),
        }
    }

    /// The endpoint of that name; `number` is its place in a range.
    fn endpoint(
        &self,
        name: &At<String>,
        number: Option<u64>,
        missing_context: &mut Option<Arc<Fault>>,
        page: &mut Page<'_>,
    ) -> Option<Endpoint> {
        let fill = |text: &str| match number {
            Some(number) => text.replace("{n}", &number.to_string()),
            None => text.to_owned(),
        };
        let own_name = number.map_or_else(|| name.value.clone(), |number| number.to_string());
        let proof = self.proof(name, page).map(|proof| match proof {
            Proof::Password(text) => Proof::Password(fill(&text)),
            Proof::Hash(..) => proof,
        })?;
        let Some(context) = &self.context else {
            let text = "an endpoint needs a `context`, where its calls enter the dialplan";
            page.fault(name.span.clone(), text);
            return None;
        };
        let missing_context = missing_context.get_or_insert_with(|| {
            let text = format!("the dialplan has no context '{}'", context.value);
            Arc::new(page.make_fault(context.span.clone(), text))
        });
        let defaults = Policy::default();
        let said = |it: &Option<At<String>>| it.as_ref().map(|at| fill(&at.value));
        let duration =
            |it: &Option<At<Duration>>, or: Duration| it.as_ref().map_or(or, |at| at.value);
        let expires_max = duration(&self.expires_max, defaults.expires_max);
        let expires_min = duration(&self.expires_min, defaults.expires_min.min(expires_max));
        if let Some(qualify) = self.qualify.as_ref().filter(|at| at.value < QUALIFY_MIN) {
            page.fault(qualify.span.clone(), "a contact is asked every 5s at most");
        }
        if expires_min > expires_max {
            page.fault(name.span.clone(), "`expires_min` is above `expires_max`");
        }
        let contacts_max = self.contacts_max.as_ref().and_then(|at| u8::try_from(at.value).ok());
        Some(Endpoint {
            user: self.user.as_ref().map_or_else(|| own_name.clone(), |at| at.value.clone()),
            name: own_name,
            proof,
            context: context.value.clone(),
            caller_number: said(&self.caller_number),
            caller_name: said(&self.caller_name),
            aliases: values(&self.aliases),
            from: self.from.iter().flat_map(|at| &at.value).map(|at| at.value).collect(),
            calls_max: self.calls_max.as_ref().map(|at| at.value),
            dnd: self.dnd.as_ref().is_some_and(|at| at.value),
            qualify: self.qualify.as_ref().map(|at| at.value),
            forward: Forward {
                always: said(&self.forward_always).map(Into::into),
                busy: said(&self.forward_busy).map(Into::into),
                no_answer: said(&self.forward_no_answer)
                    .map(|number| (number.into(), duration(&self.forward_after, FORWARD_AFTER))),
            },
            policy: Policy {
                expires_min,
                expires_max,
                expires_default: defaults
                    .expires_default
                    .clamp(expires_min.min(expires_max), expires_max),
                contacts_max: contacts_max.unwrap_or(defaults.contacts_max),
                when_full: self.when_full.as_ref().map_or(defaults.when_full, |at| at.value),
            },
            rewrites_contact: self.rewrite_contact.as_ref().is_some_and(|at| at.value),
            missing_context: Arc::clone(missing_context),
        })
    }

    fn proof(&self, name: &At<String>, page: &mut Page<'_>) -> Option<Proof> {
        match (&self.password, &self.ha1) {
            (Some(_), Some(ha1)) => {
                page.fault(ha1.span.clone(), "either `password` or `ha1`, not both");
                None
            }
            (Some(password), None) if password.value.is_empty() => {
                page.fault(password.span.clone(), "an empty password lets everybody in");
                None
            }
            (Some(password), None) => Some(Proof::Password(password.value.clone())),
            (None, Some(ha1)) => {
                let algorithm = self.ha1_algorithm.as_ref().map_or(Algorithm::Md5, |at| at.value);
                match Secret::of_ha1(algorithm, &ha1.value) {
                    Ok(_) => Some(Proof::Hash(algorithm, ha1.value.clone())),
                    Err(bad) => {
                        page.fault(ha1.span.clone(), bad.to_string());
                        None
                    }
                }
            }
            (None, None) => {
                page.fault(name.span.clone(), "an endpoint needs a `password` or `ha1`");
                None
            }
        }
    }
}

fn values(said: &Option<At<Vec<At<String>>>>) -> Vec<String> {
    said.iter().flat_map(|at| &at.value).map(|at| at.value.clone()).collect()
}

/// Works out what endpoints there are. `taken` holds the names of others, and gets theirs.
pub(super) fn mean(
    endpoints: &[Named],
    templates: &[Named],
    taken: &mut BTreeMap<String, &'static str>,
    page: &mut Page<'_>,
) -> Vec<Endpoint> {
    let templates: BTreeMap<&str, &SaidEndpoint> =
        templates.iter().map(|named| (named.name.value.as_str(), &named.said)).collect();
    let mut meant = Vec::new();
    for Named { name, said } in endpoints {
        let mut said = said.clone();
        if let Some(template) = said.template.clone() {
            match templates.get(template.value.as_str()) {
                Some(found) => said = said.or(found),
                None => {
                    let text = format!("there is no template '{}'", template.value);
                    page.fault(template.span, text);
                    continue;
                }
            }
        }
        let numbers: Vec<Option<u64>> = match &said.range {
            Some(range) => (range.value.0..=range.value.1).map(Some).collect(),
            None => vec![None],
        };
        let mut missing = None;
        for number in numbers {
            let Some(endpoint) = said.endpoint(name, number, &mut missing, page) else { break };
            if let Err(why) = units::name(&endpoint.name) {
                page.fault(name.span.clone(), why);
                break;
            }
            if let Some(what) = taken.insert(endpoint.name.clone(), "an endpoint") {
                let text = format!("'{}' is the name of {what} already", endpoint.name);
                page.fault(name.span.clone(), text);
                break;
            }
            meant.push(endpoint);
        }
    }
    meant
}

/// A client answers whichever offered hash it likes: one of which only another one's HA1 is known
/// could never prove who it is.
pub(super) fn check_hashes(
    endpoints: &[Named],
    templates: &[Named],
    offered: &[Algorithm],
    page: &mut Page<'_>,
) {
    for said in endpoints.iter().chain(templates).map(|named| &named.said) {
        let Some(ha1) = &said.ha1 else { continue };
        let ours = said.ha1_algorithm.as_ref().map_or(Algorithm::Md5, |at| at.value);
        if offered.iter().any(|it| !it.is_same_hash(ours)) {
            let text = format!(
                "`ha1` is a hash of {}, but [auth] algorithms offers others, too: a phone that \
                 takes one of those could not be recognised",
                ours.as_str()
            );
            page.fault(ha1.span.clone(), text);
        }
    }
}

/// Works out what groups there are.
pub(super) fn mean_groups(
    groups: &[SaidGroup],
    endpoints: &[Endpoint],
    taken: &mut BTreeMap<String, &'static str>,
    page: &mut Page<'_>,
) -> Vec<Group> {
    let mut meant = Vec::new();
    for SaidGroup { name, members } in groups {
        if let Err(why) = units::name(&name.value) {
            page.fault(name.span.clone(), why);
        }
        if let Some(what) = taken.insert(name.value.clone(), "a group") {
            let text = format!("'{}' is the name of {what} already", name.value);
            page.fault(name.span.clone(), text);
        }
        let list = members.as_ref().map_or(&[][..], |at| &at.value);
        if list.is_empty() {
            page.fault(name.span.clone(), "a group needs `members`");
        }
        if list.len() > pbx_core::GROUP_MEMBERS_MAX {
            let text = format!("a group has at most {} members", pbx_core::GROUP_MEMBERS_MAX);
            page.fault(name.span.clone(), text);
        }
        for member in list {
            if !endpoints.iter().any(|endpoint| endpoint.name == member.value) {
                page.fault(member.span.clone(), format!("there is no endpoint '{}'", member.value));
            }
        }
        meant.push(Group { name: name.value.clone(), members: values(members) });
    }
    meant
}
