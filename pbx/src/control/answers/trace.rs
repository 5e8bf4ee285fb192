//! `sip set trace`, `sip show traces`: SIP messages in the log, or in a pcap file.

use super::super::Console;
use super::{Done, Failure};
use crate::capture::Capture;
use crate::mailbox::Ask;
use crate::program::Program;
use crate::trace::{RULES_MAX, Rule, Rules, Whose};
use logging::notice;
use pbx_control::Reply;
use pbx_control::wire::{TraceAsk, TraceWhose};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

pub(super) async fn answer(console: &mut Console, program: &Program, ask: TraceAsk) -> Done {
    let lines = match ask {
        TraceAsk::On { of, file } => {
            let whose = resolve(program, &of).await?;
            switch_on(program, whose, file.as_deref())?
        }
        TraceAsk::Off { of: None } => switch_off(program, None)?,
        TraceAsk::Off { of: Some(of) } => switch_off(program, Some(&words(&of)))?,
        TraceAsk::Show => list(program),
    };
    Ok(console.send(&Reply::Text { lines }).await?)
}

/// As rules call it.
fn words(of: &TraceWhose) -> String {
    match of {
        TraceWhose::All => Whose::All.words(),
        TraceWhose::Peer { address } => Whose::Peer(address.to_canonical()).words(),
        TraceWhose::Endpoint { name } => format!("endpoint {name}"),
        TraceWhose::Call { call } => format!("call {call}"),
    }
}

async fn resolve(program: &Program, of: &TraceWhose) -> Result<Whose, Failure> {
    Ok(match of {
        TraceWhose::All => Whose::All,
        TraceWhose::Peer { address } => Whose::Peer(address.to_canonical()),
        TraceWhose::Endpoint { name } => {
            let addresses = addresses_of(program, name)?;
            Whose::Endpoint { name: name.clone(), addresses }
        }
        TraceWhose::Call { call } => {
            let call_ids = match super::call_number(program, call).await? {
                Some(number) => call_ids_of(program, number).await?,
                // A Call-ID as it stands in messages.
                None => vec![call.as_bytes().to_vec()],
            };
            if call_ids.is_empty() {
                return Err(Failure::Refused(format!("{call} has no legs: is it over?")));
            }
            Whose::Call { name: call.clone(), call_ids }
        }
    })
}

async fn call_ids_of(program: &Program, number: u32) -> Result<Vec<Vec<u8>>, Failure> {
    let mut all = Vec::new();
    for post in &program.posts {
        all.extend(post.ask(|reply| Ask::CallIds(number, reply)).await?);
    }
    Ok(all)
}

/// Where an endpoint or trunk is now.
fn addresses_of(program: &Program, name: &str) -> Result<Vec<IpAddr>, Failure> {
    let config = program.config();
    if let Some(trunk) = config.trunks.iter().find(|trunk| trunk.name == name) {
        let whole = |address: &IpAddr| if address.is_ipv4() { 32 } else { 128 };
        let hosts = trunk.from.iter().filter(|it| it.bits == whole(&it.address));
        return Ok(hosts.map(|it| it.address.to_canonical()).collect());
    }
    if config.endpoints.iter().all(|endpoint| endpoint.name != name) {
        return Err(Failure::Refused(format!("Unable to find object {name}.")));
    }
    let contacts = super::parties::contacts_of(name, program);
    let sources = contacts.iter().filter_map(|it| it.source.parse::<SocketAddr>().ok());
    Ok(sources.map(|source| source.ip().to_canonical()).collect())
}

fn switch_on(program: &Program, whose: Whose, file: Option<&str>) -> Result<Vec<String>, Failure> {
    let refuse = |text: String| Err(Failure::Refused(text));
    let mut rules = program.traces.lock().unwrap_or_else(PoisonError::into_inner);
    if rules.len() >= RULES_MAX {
        return refuse(format!("there are {RULES_MAX} traces already"));
    }
    let words = whose.words();
    let capture = match file {
        None => None,
        Some(name) => {
            let is_name = name.bytes().all(|it| it.is_ascii_alphanumeric() || b"._-".contains(&it));
            if !is_name || name.starts_with('.') || !name.ends_with(".pcap") || name.len() > 64 {
                return refuse(
                    "a capture's name has letters, digits, '.', '_' and '-', and ends \
                     in .pcap; it lies in the log folder"
                        .to_owned(),
                );
            }
            if logging_sinks::is_masking() {
                return refuse("[logging] personal = \"mask\": no captures".to_owned());
            }
            let path = program.log.declared().folder.join(name);
            match Capture::start(&path) {
                Ok(capture) => Some(Arc::new(capture)),
                Err(error) => return refuse(format!("{}: {error}", path.display())),
            }
        }
    };
    let to = capture.as_ref().map_or(String::new(), |it| format!(" to {}", it.file.display()));
    let mut lines = vec![match words.as_str() {
        "all" => format!("SIP trace is on{to}"),
        _ => format!("SIP trace is on for {words}{to}"),
    }];
    if capture.is_none() && logging::view().verbose == 0 {
        lines.push("Nobody reads it: no part of the log wants VERBOSE at level 1".to_owned());
    }
    rules.retain(|rule| rule.whose.words() != words || rule.capture.is_some() != file.is_some());
    rules.push(Arc::new(Rule::new(whose, capture)));
    tell(program, &rules);
    notice!("A console says: {}", lines[0].as_str());
    Ok(lines)
}

fn switch_off(program: &Program, words: Option<&str>) -> Result<Vec<String>, Failure> {
    let mut rules = program.traces.lock().unwrap_or_else(PoisonError::into_inner);
    let before = rules.len();
    match words {
        None => rules.clear(),
        Some(words) => rules.retain(|rule| rule.whose.words() != words),
    }
    if let (Some(words), true) = (words, rules.len() == before) {
        return Err(Failure::Refused(format!("there is no trace of {words}")));
    }
    tell(program, &rules);
    let line =
        words.map_or("SIP trace is off".to_owned(), |it| format!("SIP trace is off for {it}"));
    notice!("A console says: {}", line.as_str());
    Ok(vec![line])
}

fn tell(program: &Program, rules: &[Arc<Rule>]) {
    let rules = (!rules.is_empty()).then(|| Rules(Arc::new(rules.to_vec())));
    program.posts.iter().for_each(|post| post.tell(Ask::Trace(rules.clone())));
}

fn list(program: &Program) -> Vec<String> {
    let rules = program.traces.lock().unwrap_or_else(PoisonError::into_inner);
    let mut lines: Vec<String> = rules
        .iter()
        .map(|rule| {
            let messages = rule.messages.load(Ordering::Relaxed);
            let (to, lost) = match &rule.capture {
                None => ("log".to_owned(), 0),
                Some(it) => (it.file.display().to_string(), it.dropped.load(Ordering::Relaxed)),
            };
            let words = rule.whose.words();
            format!("{words:<32} {to:<40} {messages:>9} messages, {lost} lost")
        })
        .collect();
    if lines.is_empty() {
        lines.push("No SIP trace".to_owned());
    }
    lines
}
