//! What the program answers to each command.

mod database;
pub(crate) mod logger;
mod parties;
pub(crate) mod system;
mod top;
mod trace;

use super::Console;
use crate::mailbox::{Ask, NoAnswer, Page};
use crate::program::{Ending, Program};
use call::ChannelView;
use logging::notice;
use pbx_control::wire::{Context, Extension, Step, Stop, View};
use pbx_control::{Channel, Command, Reply};
use std::io;
use std::time::Instant;

/// Answers one command, up to and with its last line.
pub(super) async fn answer(
    console: &mut Console,
    program: &Program,
    command: Command,
) -> io::Result<()> {
    let done = match command {
        Command::ShowChannels { view } => show_channels(console, program, view).await,
        Command::ShowCalls { uptime, seconds } => {
            show_calls(console, program, uptime, seconds).await
        }
        Command::ShowUptime { seconds } => {
            console.send(&uptime(program, seconds)).await.map_err(Failure::Console)
        }
        Command::ShowVersion => show_version(console, program).await,
        Command::SetVerbose { level, at_least, silent, console: typed_in } => {
            let level = (level, at_least, silent);
            logger::set_verbose(console, program, level, typed_in.as_deref()).await
        }
        Command::Logger { console: typed_in, ask } => {
            logger::answer(console, program, typed_in.as_deref(), ask).await
        }
        Command::Attach(_) => Err(Failure::Refused("it is attached already".to_owned())),
        Command::Stop { how } => stop(console, program, how).await,
        Command::DialplanShow { extension, context } => {
            dialplan_show(console, program, extension.as_deref(), context.as_deref()).await
        }
        Command::DialplanReload => reload(console, program).await,
        Command::DialplanTest { number, context, caller } => {
            dialplan_test(console, program, (&number, &context, &caller)).await
        }
        Command::Hangup { channel } => hangup(console, program, &channel).await,
        Command::EndpointShow { name } => parties::endpoints(console, program, name).await,
        Command::RegistrarShow { aor } => parties::contacts(console, program, aor).await,
        Command::Unregister { aor, contact } => {
            parties::unregister(console, program, aor, contact).await
        }
        Command::ShowHealth => system::health(console, program).await,
        Command::ShowHints => system::hints(console, program).await,
        Command::ShowSettings => system::settings(console, program).await,
        Command::ShowTcp => system::tcp(console, program).await,
        Command::SetDebug { level, at_least, module } => {
            logger::set_debug(console, (level, at_least), module).await
        }
        Command::SetDnd { name, dnd } => system::set_dnd(console, program, &name, dnd).await,
        Command::Trace(ask) => trace::answer(console, program, ask).await,
        Command::Top => top::answer(console, program).await,
        Command::Originate { target, extension, context, caller } => {
            system::originate(console, program, (&target, extension, context), caller).await
        }
        Command::TrunkShow { name } => parties::trunks(console, program, name).await,
        Command::DatabaseShow { family } => database::show(console, program, family).await,
        Command::DatabaseGet { family, key } => {
            database::get(console, program, &family, &key).await
        }
        Command::DatabasePut { family, key, value } => {
            database::put(console, program, (family, key), value).await
        }
        Command::DatabaseDelete { family, key, tree } => {
            database::delete(console, program, (family, key), tree).await
        }
    };
    match done {
        Ok(()) => console.send(&Reply::End).await,
        Err(Failure::Refused(reason)) => console.refuse(reason).await,
        Err(Failure::Console(error)) => Err(error),
    }
}

/// Why an answer ends early.
enum Failure {
    /// With a reason for the operator.
    Refused(String),
    /// The console is gone.
    Console(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Console(error)
    }
}

impl From<NoAnswer> for Failure {
    fn from(NoAnswer: NoAnswer) -> Self {
        Self::Refused("a shard does not answer".to_owned())
    }
}

type Done = Result<(), Failure>;

async fn show_channels(console: &mut Console, program: &Program, view: View) -> Done {
    if view != View::Count {
        for post in &program.posts {
            let mut from = Some(0);
            while let Some(place) = from {
                let asked = post.ask(|reply| Ask::Channels { from: place, reply });
                let Page { views, next } = asked.await?;
                let channels = views.into_iter().map(channel).collect();
                console.send(&Reply::Channels { channels }).await?;
                from = next;
            }
        }
    }
    let counts = program.counts().await?;
    Ok(console.send(&Reply::Counts(counts)).await?)
}

/// The number of a call, from `C-0000001a` as lines show it, or from the name of a channel.
async fn call_number(program: &Program, call: &str) -> Result<Option<u32>, Failure> {
    let digits = call.trim_matches(['[', ']']).strip_prefix("C-");
    if let Some(number) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
        return Ok(Some(number));
    }
    for post in &program.posts {
        let mut from = Some(0);
        while let Some(place) = from {
            let asked = post.ask(|reply| Ask::Channels { from: place, reply });
            let Page { views, next } = asked.await?;
            if let Some(view) = views.iter().find(|view| view.name == *call) {
                return Ok(Some(view.call.0));
            }
            from = next;
        }
    }
    Ok(None)
}

fn channel(view: ChannelView) -> Channel {
    Channel {
        name: view.name,
        context: view.context,
        exten: view.exten,
        priority: view.priority,
        state: view.state.as_str().to_owned(),
        application: view.app.to_owned(),
        data: view.data,
        caller_id: view.caller,
        account: String::new(),
        peer_account: String::new(),
        ama_flags: 3,
        duration_s: view.duration.as_secs(),
        bridge: view.bridged_to.unwrap_or_default(),
        unique_id: view.unique_id,
        call: format!("C-{:08x}", view.call.0),
    }
}

async fn show_calls(
    console: &mut Console,
    program: &Program,
    with_uptime: bool,
    seconds: bool,
) -> Done {
    let counts = program.counts().await?;
    console.send(&Reply::Counts(counts)).await?;
    if with_uptime {
        let uptime_s = program.started_at.elapsed().as_secs();
        console.send(&Reply::Uptime { uptime_s, reload_s: None, seconds }).await?;
    }
    Ok(())
}

fn uptime(program: &Program, seconds: bool) -> Reply {
    let age = |since: Instant| since.elapsed().as_secs();
    let reloaded_at = program.reloaded_at().unwrap_or(program.started_at);
    Reply::Uptime { uptime_s: age(program.started_at), reload_s: Some(age(reloaded_at)), seconds }
}

async fn show_version(console: &mut Console, program: &Program) -> Done {
    let reply = Reply::Version {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        shards: u8::try_from(program.posts.len()).unwrap_or(u8::MAX),
    };
    Ok(console.send(&reply).await?)
}

/// What a call would match.
async fn dialplan_test(
    console: &mut Console,
    program: &Program,
    (number, context, caller): (&str, &str, &str),
) -> Done {
    let now = sip_net::Clock::new().sample();
    let epoch = now.wall.as_micros().div_euclid(1_000_000);
    let at = dialplan::Moment::from_epoch(epoch, now.utc_offset_s);
    let who = dialplan::Seeker { caller, at: Some(at) };
    let text = program.plan().explain(context, number, who);
    let lines = text.lines().map(str::to_owned).collect();
    Ok(console.send(&Reply::Text { lines }).await?)
}

async fn stop(console: &mut Console, program: &Program, how: Stop) -> Done {
    let calls = program.counts().await.map_or(0, |counts| counts.calls);
    notice!("A console asks the program to stop; calls: {}", calls);
    console.send(&Reply::Stopping { how, calls }).await?;
    program.end(match how {
        Stop::Now => Ending::Now,
        Stop::Gracefully => Ending::Gracefully,
    });
    Ok(())
}

async fn reload(console: &mut Console, program: &Program) -> Done {
    let lines = program.reload().await.map_err(Failure::Refused)?;
    notice!("A console has reloaded the dialplan");
    Ok(console.send(&Reply::Text { lines }).await?)
}

async fn dialplan_show(
    console: &mut Console,
    program: &Program,
    extension: Option<&str>,
    context: Option<&str>,
) -> Done {
    let plan = program.plan();
    if let Some(context) = context
        && !plan.has_context(context)
    {
        return Err(Failure::Refused(format!("There is no existence of '{context}' context")));
    }
    let mut shown = 0;
    for view in plan.listing(context) {
        let mut extensions = Vec::new();
        for item in view.extensions() {
            let id = extension.and_then(|number| plan.find_complete(view.name(), number, ""));
            let is_it = id.is_some_and(|id| {
                plan.context_of(id) == view.name() && plan.name(id) == item.name()
            });
            if extension.is_none() || is_it || extension == Some(item.name()) {
                extensions.push(Extension {
                    pattern: match item.caller() {
                        Some(caller) => format!("{}' (CID match '{caller}", item.name()),
                        None => item.name().to_owned(),
                    },
                    steps: steps(item),
                });
            }
        }
        if extension.is_some() && extensions.is_empty() {
            continue;
        }
        shown += 1;
        let includes = match extension {
            Some(_) => Vec::new(),
            None => view.includes().map(included).collect(),
        };
        let context = Context {
            name: view.name().to_owned(),
            created_by: file_name(view.file()),
            extensions,
            includes,
        };
        console.send(&Reply::Context(context)).await?;
    }
    match (shown, extension) {
        (0, Some(extension)) => {
            let place = context.map_or(String::new(), |context| format!(" in context '{context}'"));
            let text = format!("There is no existence of '{extension}' extension{place}");
            Err(Failure::Refused(text))
        }
        (_, Some(_) | None) => Ok(()),
    }
}

/// As Asterisk shows an include: `name` or `name,09:00-17:59,mon-fri,*,*`.
fn included((name, times): (&str, &str)) -> String {
    if times.is_empty() { name.to_owned() } else { format!("{name},{times}") }
}

fn steps(item: dialplan::ExtensionView<'_>) -> Vec<Step> {
    let file = file_name(item.file());
    let numbered = (1..).zip(item.steps());
    numbered
        .map(|(priority, step)| Step {
            priority,
            label: step.label.as_deref().map(str::to_owned),
            text: step.to_string(),
            place: format!("{file}:{}", step.line),
        })
        .collect()
}

/// A path's last part: Asterisk's listing has no folders.
fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

async fn hangup(console: &mut Console, program: &Program, channel: &str) -> Done {
    if channel.eq_ignore_ascii_case("all") {
        return hangup_all(console, program).await;
    }
    for post in &program.posts {
        if post.ask(|reply| Ask::HangUp(channel.to_owned(), reply)).await? {
            let channel = channel.to_owned();
            return Ok(console.send(&Reply::HangupRequested { channel }).await?);
        }
    }
    Err(Failure::Refused(format!("{channel} is not a known channel")))
}

/// Page by page: calls that come in the meantime are left alone.
async fn hangup_all(console: &mut Console, program: &Program) -> Done {
    for post in &program.posts {
        let mut from = Some(0);
        while let Some(place) = from {
            let Page { views, next } =
                post.ask(|reply| Ask::Channels { from: place, reply }).await?;
            for view in views.into_iter().filter(|view| !view.context.is_empty()) {
                if post.ask(|reply| Ask::HangUp(view.name.clone(), reply)).await? {
                    console.send(&Reply::HangupRequested { channel: view.name }).await?;
                }
            }
            from = next;
        }
    }
    Ok(())
}
