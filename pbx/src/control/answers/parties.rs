//! Endpoints, where they are, and trunks. They are read where all shards share them, a page at a
//! time; nobody has to be asked.

use super::super::Console;
use super::{Done, Failure};
use crate::mailbox::Ask;
use crate::program::Program;
use logging::notice;
use pbx_control::wire::{Contact, Endpoint, Trunk};
use pbx_control::{PAGE_MAX, Reply};
use pbx_core::{Hop, Phone};
use sip::registrar::{Aor, Binding, Reach};
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) async fn endpoints(
    console: &mut Console,
    program: &Program,
    name: Option<String>,
) -> Done {
    let directory = program.directory();
    if let Some(name) = name {
        let Some(phone) = directory.phone_named(&name) else {
            return Err(Failure::Refused(format!("Unable to find object {name}.")));
        };
        let endpoints = vec![endpoint(phone, program)];
        return Ok(console.send(&Reply::Endpoints { endpoints }).await?);
    }
    for page in directory.phones().chunks(PAGE_MAX) {
        let endpoints = page.iter().map(|phone| endpoint(phone, program)).collect();
        console.send(&Reply::Endpoints { endpoints }).await?;
    }
    Ok(())
}

fn endpoint(phone: &Phone, program: &Program) -> Endpoint {
    let contacts = contacts_of(phone.aor(), program);
    let calls = phone.state.calls();
    let state = match (contacts.is_empty(), calls, phone.state.ringing()) {
        (_, _, 1..) => "Ringing",
        (_, 1.., 0) if phone.calls_max.is_some_and(|most| calls >= most) => "Busy",
        (_, 1.., 0) => "In use",
        (true, 0, 0) => "Unavailable",
        (false, 0, 0) => "Not in use",
    };
    Endpoint {
        name: phone.aor().to_owned(),
        context: phone.endpoint.context.to_string(),
        caller_id: phone.caller_id.number.as_deref().unwrap_or_default().to_owned(),
        state: state.to_owned(),
        calls,
        calls_max: phone.calls_max.unwrap_or(0),
        contacts_max: phone.policy.contacts_max,
        dnd: phone.is_dnd(),
        contacts,
    }
}

pub(super) async fn contacts(
    console: &mut Console,
    program: &Program,
    aor: Option<String>,
) -> Done {
    let directory = program.directory();
    if let Some(aor) = aor {
        let contacts = contacts_of(&aor, program);
        return Ok(console.send(&Reply::Contacts { contacts }).await?);
    }
    for page in directory.phones().chunks(PAGE_MAX) {
        let contacts: Vec<Contact> =
            page.iter().flat_map(|phone| contacts_of(phone.aor(), program)).collect();
        if !contacts.is_empty() {
            console.send(&Reply::Contacts { contacts }).await?;
        }
    }
    Ok(())
}

pub(super) fn contacts_of(name: &str, program: &Program) -> Vec<Contact> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let mut contacts = Vec::new();
    program.shared.locations.view(name, &mut |aor: &Aor| {
        contacts.extend(aor.bindings().iter().map(|binding| contact(name, binding, now)));
    });
    contacts
}

fn contact(name: &str, binding: &Binding, now: i64) -> Contact {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (status, rtt_us) = match binding.reach() {
        Reach::Unknown => ("NonQual", None),
        Reach::Reachable { rtt_us } => ("Avail", Some(rtt_us)),
        Reach::Unreachable => ("Unavail", None),
    };
    let left = binding.expires_at().as_micros().saturating_sub(now) / 1_000_000;
    Contact {
        aor: name.to_owned(),
        uri: text(binding.contact()),
        status: status.to_owned(),
        rtt_us,
        expires_s: u64::try_from(left).unwrap_or(0),
        source: binding.way().remote.to_string(),
        transport: binding.way().transport.as_via().to_owned(),
        user_agent: text(binding.user_agent()),
    }
}

pub(super) async fn unregister(
    console: &mut Console,
    program: &Program,
    aor: String,
    contact: Option<String>,
) -> Done {
    let Some(post) = program.posts.first() else { return Ok(()) };
    let name = aor.clone();
    let gone = post.ask(|reply| Ask::Unregister { aor, contact, reply }).await?;
    if gone == 0 {
        return Err(Failure::Refused(format!("'{name}' is not registered there")));
    }
    notice!("A console unregisters '{}'", name.as_str());
    let lines = vec![format!("{gone} contacts of '{name}' forgotten")];
    Ok(console.send(&Reply::Text { lines }).await?)
}

pub(super) async fn trunks(console: &mut Console, program: &Program, name: Option<String>) -> Done {
    let config = program.config();
    let directory = program.directory();
    let wanted =
        |it: &&pbx_core::Trunk| name.as_deref().is_none_or(|name| &*it.endpoint.name == name);
    let trunks: Vec<Trunk> = directory
        .trunks()
        .iter()
        .filter(wanted)
        .map(|trunk| Trunk {
            name: trunk.endpoint.name.to_string(),
            context: trunk.endpoint.context.to_string(),
            peers: trunk.peers.iter().map(hop).collect(),
            // Of all shards together.
            calls_max: config
                .trunks
                .iter()
                .find(|it| it.name == *trunk.endpoint.name)
                .and_then(|it| it.calls_max)
                .unwrap_or(0),
            registration: match &trunk.registration {
                Some(_) => trunk.state.registration().0.as_str().to_owned(),
                None => String::new(),
            },
            unreachable: (0..)
                .zip(&trunk.peers)
                .filter(|(place, _)| !trunk.state.is_reachable(*place))
                .map(|(_, peer)| hop(peer))
                .collect(),
        })
        .collect();
    if trunks.is_empty() && name.is_some() {
        return Err(Failure::Refused("there is no such trunk".to_owned()));
    }
    for page in trunks.chunks(PAGE_MAX) {
        console.send(&Reply::Trunks { trunks: page.to_vec() }).await?;
    }
    Ok(())
}

fn hop(hop: &Hop) -> String {
    match hop {
        Hop::Address(address, transport) => {
            format!("{}:{address}", transport.as_via().to_lowercase())
        }
        Hop::Name(_) => hop.to_string(),
    }
}
