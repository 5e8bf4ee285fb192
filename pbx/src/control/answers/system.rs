//! The program as a whole: health, settings, hints, TCP, debugging, and calls that an operator
//! begins.

use super::super::Console;
use super::{Done, Failure};
use crate::mailbox::Ask;
use crate::program::{Ending, Program};
use call::{Destination, DeviceState};
use logging::notice;
use pbx_control::Reply;
use pbx_core::{CallerId, NotOriginated, Originate, Refused, ShardCounts, device_state};
use std::time::Duration;

/// How long a device rings for an operator.
const RING_TIMEOUT: Duration = Duration::from_secs(30);

/// From this share of a limit on, it is worth a word.
const NEARLY_FULL: f64 = 0.9;

async fn text(console: &mut Console, lines: Vec<String>) -> Done {
    Ok(console.send(&Reply::Text { lines }).await?)
}

/// What is wrong; refused when something is, so that a script sees it by the exit status.
pub(super) async fn health(console: &mut Console, program: &Program) -> Done {
    let shards = program.shard_counts().await?;
    let (lines, wrong) = examine(program, &shards);
    let head = if wrong.is_empty() { "healthy" } else { "degraded" };
    let mut shown = vec![head.to_owned()];
    shown.extend(lines);
    text(console, shown).await?;
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Refused(wrong.join("; "))) }
}

/// Lines for the operator, and what is wrong.
pub(crate) fn examine(program: &Program, shards: &[ShardCounts]) -> (Vec<String>, Vec<String>) {
    let sum = |count: &dyn Fn(&ShardCounts) -> u64| shards.iter().map(count).sum::<u64>();
    let config = program.config();
    let (mut lines, mut wrong) = (Vec::new(), Vec::new());
    if *program.ending.borrow() > Ending::No {
        wrong.push("the program is on its way down: new calls are refused".to_owned());
    }
    let (calls, calls_max) = (sum(&|it| it.calls as u64), u64::from(config.limits.calls));
    lines.push(format!("calls: {calls} of {calls_max}"));
    if calls as f64 >= calls_max as f64 * NEARLY_FULL {
        wrong.push(format!("calls are nearly at their limit: {calls} of {calls_max}"));
    }
    let full = sum(&|it| it.full + it.endpoint.full);
    lines.push(format!("requests refused since a table was full: {full}"));
    for why in Refused::ALL {
        let count = sum(&|it| it.refused[why.index()]);
        if count > 0 {
            lines.push(format!("requests refused ({}): {count}", why.as_str()));
        }
    }
    let strangers = |it: &ShardCounts| it.strangers.silenced + it.strangers.silenced_all;
    lines.push(format!("strangers left without an answer: {}", sum(&strangers)));
    lines.push(format!("strangers closed out: {}", sum(&|it| it.strangers.closings)));
    lines.push(format!("messages that broke a rule: {}", sum(&|it| it.malformed)));
    lines.push(format!("plans ended as endless: {}", sum(&|it| it.call.endless_plans)));
    lines.push(format!("endpoints registered: {}", program.shared.locations.len()));
    let directory = program.directory();
    for trunk in directory.trunks().iter() {
        let name = &trunk.endpoint.name;
        if !trunk.peers.is_empty() && !trunk.state.is_any_reachable(trunk.peers.len()) {
            wrong.push(format!("trunk '{name}': no peer answers"));
        }
    }
    if let Some(streams) = &program.streams {
        let counts = streams.counts();
        let most = config.limits.streams.connections;
        lines.push(format!("TCP connections: {} of {most}", counts.open));
        if counts.open as f64 >= most as f64 * NEARLY_FULL {
            wrong.push("TCP connections are nearly at their limit".to_owned());
        }
    }
    let log = program.log.logger.view();
    for sink in log.sinks.iter().filter(|sink| !sink.name.starts_with("console")) {
        if let Some(why) = &sink.failure {
            // No reason to take calls elsewhere, but worth a look.
            lines.push(format!("log '{}': {why}", sink.name));
        }
    }
    let lost: u64 = log.sinks.iter().map(|sink| sink.counts.dropped_keep()).sum();
    lines.push(format!("log lines lost that had to be kept: {lost}"));
    (lines, wrong)
}

/// As Asterisk's `core show hints`.
pub(super) async fn hints(console: &mut Console, program: &Program) -> Done {
    let (plan, directory) = (program.plan(), program.directory());
    let mut lines = vec!["    -= Registered Dial Plan Hints =-".to_owned()];
    let mut count = 0_usize;
    for context in plan.listing(None) {
        for (exten, devices) in context.hints() {
            let states =
                devices.split('&').map(|it| device_state(&program.shared, &directory, it.trim()));
            let state = state_word(DeviceState::of_all(states));
            let name = context.name();
            lines.push(format!(
                "{exten:>20}@{name:<20.20}: {devices:<20.20}  State:{state:<15.15} Watchers  0"
            ));
            count += 1;
        }
    }
    lines.push("----------------".to_owned());
    lines.push(format!("- {count} hints registered"));
    text(console, lines).await
}

fn state_word(state: DeviceState) -> &'static str {
    match state {
        DeviceState::NotInUse => "Idle",
        DeviceState::InUse => "InUse",
        DeviceState::Busy => "Busy",
        DeviceState::Ringing => "Ringing",
        DeviceState::RingInUse => "InUse&Ringing",
        DeviceState::Unavailable | DeviceState::Invalid | DeviceState::Unknown => "Unavailable",
    }
}

pub(super) async fn settings(console: &mut Console, program: &Program) -> Done {
    let config = program.config();
    let listed = |addresses: &[std::net::SocketAddr]| {
        let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
    };
    let file = match &program.options.config {
        Some(file) => file.display().to_string(),
        None => "none (the built-in one)".to_owned(),
    };
    let metrics = config.metrics.map_or_else(|| "none".to_owned(), |address| address.to_string());
    let algorithms: Vec<&str> = config.auth.algorithms.iter().map(|it| it.as_str()).collect();
    let rows: Vec<(&str, String)> = vec![
        ("Version", env!("CARGO_PKG_VERSION").to_owned()),
        ("System", config.name.clone()),
        ("Configuration", file),
        ("Data folder", config.data_folder.display().to_string()),
        ("Shards", program.posts.len().to_string()),
        ("UDP", listed(&config.sip.listen)),
        ("TCP", listed(&config.sip.listen_tcp)),
        ("User agent", config.sip.user_agent.clone()),
        ("Realm", config.auth.realm.clone()),
        ("Digest algorithms", algorithms.join(", ")),
        ("Maximum calls", config.limits.calls.to_string()),
        ("Endpoints", config.endpoints.len().to_string()),
        ("Trunks", config.trunks.len().to_string()),
        ("Root console verbosity", logging::verbose().to_string()),
        (
            "Call records",
            config.records.as_ref().map_or("none".into(), |it| it.folder.display().to_string()),
        ),
        ("Metrics", metrics),
    ];
    let mut lines = vec!["PBX Core settings".to_owned(), "-----------------".to_owned()];
    lines.extend(rows.into_iter().map(|(name, value)| format!("  {name:<27} {value}")));
    text(console, lines).await
}

pub(super) async fn tcp(console: &mut Console, program: &Program) -> Done {
    let Some(streams) = &program.streams else {
        return Err(Failure::Refused("TCP is switched off".to_owned()));
    };
    let counts = streams.counts();
    let mut lines = vec![
        format!("open: {}", counts.open),
        format!("accepted: {}, opened by us: {}", counts.accepted, counts.connected),
        format!("messages received: {}, sent: {}", counts.received, counts.sent),
    ];
    let closed = sip_net::Closed::ALL.iter().zip(counts.closed);
    lines.extend(closed.map(|(why, count)| format!("closed ({}): {count}", why.as_str())));
    text(console, lines).await
}

pub(super) async fn set_dnd(
    console: &mut Console,
    program: &Program,
    name: &str,
    dnd: Option<bool>,
) -> Done {
    let directory = program.directory();
    let Some(phone) = directory.phone_named(name) else {
        return Err(Failure::Refused(format!("Unable to find object {name}.")));
    };
    phone.state.set_dnd(dnd);
    let now = if phone.is_dnd() { "not to be disturbed" } else { "may be disturbed" };
    notice!("A console has set do-not-disturb of '{}': {}", name, now);
    text(console, vec![format!("Endpoint {name} is {now}")]).await
}

pub(super) async fn originate(
    console: &mut Console,
    program: &Program,
    (target, extension, context): (&str, String, String),
    caller: String,
) -> Done {
    let parsed = dialplan::parse_target(target).map_err(Failure::Refused)?;
    let address = parsed.address.rendered(&()).map_err(|fault| Failure::Refused(fault.to_string()));
    let wanted = Originate {
        destination: Destination { technology: parsed.technology, address: address? },
        exten: extension.clone().into(),
        context: context.clone().into(),
        caller: CallerId { number: (!caller.is_empty()).then(|| caller.into()), name: None },
        ring_timeout: RING_TIMEOUT,
    };
    let mut shard = 0;
    loop {
        let Some(post) = program.posts.get(shard) else {
            return Err(Failure::Refused("a shard does not answer".to_owned()));
        };
        let asked = post.ask(|reply| Ask::Originate(Box::new(wanted.clone()), reply));
        match asked.await? {
            Ok(()) => break,
            Err(NotOriginated::OtherShard(other)) if usize::from(other) != shard => {
                shard = usize::from(other);
            }
            Err(why) => return Err(Failure::Refused(in_words(&why, target))),
        }
    }
    notice!("A console calls {} for {}", target, extension.as_str());
    text(console, vec![format!("Calling {target} for {extension}@{context}")]).await
}

fn in_words(why: &NotOriginated, target: &str) -> String {
    match why {
        NotOriginated::NoExtension => "the dialplan has no such extension there".to_owned(),
        NotOriginated::OtherShard(_) => "a shard does not answer".to_owned(),
        NotOriginated::Full => "new calls are refused right now".to_owned(),
        NotOriginated::Cause(3) => format!("there is no way to {target}"),
        NotOriginated::Cause(20) => format!("{target} is not registered"),
        NotOriginated::Cause(17) => format!("{target} is busy, or not to be disturbed"),
        NotOriginated::Cause(cause) => format!("{target} cannot be called: cause {cause}"),
    }
}
