//! `logger ...`, and the verbosity.

use super::super::Console;
use super::super::consoles::NOT_ATTACHED;
use super::{Done, Failure};
use crate::mailbox::Ask;
use crate::program::Program;
use logging::{Level, Levels, Shown, notice};
use logging_sinks::{LoggerView, QUEUE_BYTES, SinkView};
use pbx_control::Reply;
use pbx_control::wire::{LogChannel, LogChannels, LogFilter, LoggerAsk};

/// Answers a question about the log; `typed_in` is the attached console that it comes from.
pub(super) async fn answer(
    console: &mut Console,
    program: &Program,
    typed_in: Option<&str>,
    ask: LoggerAsk,
) -> Done {
    let reply = match ask {
        LoggerAsk::ShowChannels => Reply::LogChannels(channels(&program.log.logger.view())),
        LoggerAsk::ShowLevels => said(Level::ALL.iter().map(ToString::to_string).collect()),
        LoggerAsk::ShowWho => said(who(&program.log.logger.view())),
        LoggerAsk::Add { name, levels } => said(vec![add(program, &name, &levels)?]),
        LoggerAsk::Remove { name } => said(vec![remove(program, &name)?]),
        LoggerAsk::Rotate { name } => said(rotate(program, name.as_deref())?),
        LoggerAsk::Reload => said(reload(program)?),
        LoggerAsk::SetLevel { .. }
        | LoggerAsk::Mute
        | LoggerAsk::Pause { .. }
        | LoggerAsk::Filter(_)
        | LoggerAsk::Follow { .. } => {
            let name = typed_in.ok_or_else(not_attached)?;
            let call = call_of(program, &ask).await?;
            said(vec![of_console(program, name, ask, call)?])
        }
    };
    // Whoever wants more or less now: shards tell no more than is wanted.
    program.posts.iter().for_each(|post| post.tell(Ask::Verbosity));
    Ok(console.send(&reply).await?)
}

pub(super) async fn set_verbose(
    console: &mut Console,
    program: &Program,
    (level, at_least, silent): (u8, bool, bool),
    typed_in: Option<&str>,
) -> Done {
    if level > logging::VERBOSITY_MAX {
        let most = logging::VERBOSITY_MAX;
        return Err(Failure::Refused(format!("the verbosity is 0 to {most}")));
    }
    let (was, now) = match typed_in {
        Some(name) => program
            .consoles
            .set_verbose(&program.log.logger, name, level, at_least)
            .ok_or_else(not_attached)?,
        None => {
            let now = if at_least { level.max(logging::verbose()) } else { level };
            (logging::set_verbose(now), now)
        }
    };
    program.posts.iter().for_each(|post| post.tell(Ask::Verbosity));
    if silent {
        return Ok(());
    }
    Ok(console.send(&Reply::Verbose { was, now }).await?)
}

pub(super) async fn set_debug(
    console: &mut Console,
    (level, at_least): (u8, bool),
    module: Option<String>,
) -> Done {
    if level > logging::VERBOSITY_MAX {
        let most = logging::VERBOSITY_MAX;
        return Err(Failure::Refused(format!("the debug level is 0 to {most}")));
    }
    let view = logging::view();
    let before = match &module {
        None => view.debug,
        Some(module) => view.debug_modules.iter().find(|(it, _)| it == module).map_or(0, |it| it.1),
    };
    let level = if at_least { level.max(before) } else { level };
    let word = |level: u8| if level == 0 { "OFF".to_owned() } else { level.to_string() };
    let line = match module {
        None if before == level => format!("Core debug is still {}.", word(level)),
        None => {
            logging::set_debug(level);
            format!("Core debug was {} and is now {}.", word(before), word(level))
        }
        Some(module) if before == level => format!("Core debug is still {level} for '{module}'."),
        Some(module) => {
            logging::set_debug_module(&module, (level > 0).then_some(level));
            format!("Core debug was {before} and has been set to {level} for '{module}'.")
        }
    };
    Ok(console.send(&said(vec![line])).await?)
}

fn said(lines: Vec<String>) -> Reply {
    Reply::Text { lines }
}

fn not_attached() -> Failure {
    Failure::Refused(NOT_ATTACHED.to_owned())
}

fn channels(view: &LoggerView) -> LogChannels {
    LogChannels {
        queue_limit: QUEUE_BYTES as u64,
        channels: view.sinks.iter().map(channel).collect(),
        disk_used: view.disk.used,
        disk_worst_case: view.disk.worst_case,
        disk_budget: view.disk.budget,
        disk_removed: view.disk.removed,
    }
}

fn channel(sink: &SinkView) -> LogChannel {
    let (kind, name) = match sink.kind.split_once(' ') {
        Some((kind, path)) => (kind, path),
        None => (sink.kind.as_str(), sink.name.as_str()),
    };
    let mut letters = kind.chars();
    let kind =
        letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str());
    LogChannel {
        name: name.to_owned(),
        kind: kind.unwrap_or_default(),
        format: sink.format.to_string(),
        status: status(sink),
        levels: sink.levels.to_string().split(',').map(str::to_owned).collect(),
        written: sink.counts.written,
        dropped_verbose: sink.counts.dropped_verbose,
        dropped_keep: sink.counts.dropped_keep(),
    }
}

fn status(sink: &SinkView) -> String {
    match &sink.failure {
        Some(why) => why.clone(),
        None if sink.is_paused => "Paused".to_owned(),
        None => "Enabled".to_owned(),
    }
}

/// Who wants how much VERBOSE, the most demanding first.
fn who(view: &LoggerView) -> Vec<String> {
    let gate = &view.gate;
    let mut lines = vec![format!(
        "Verbosity in effect: {} (root: {}, debug: {})",
        gate.verbose, gate.root, gate.debug
    )];
    let mut sinks: Vec<(u8, &str, Levels)> = gate
        .sinks
        .iter()
        .map(|(name, levels)| (levels.verbosity(gate.root), name.as_str(), *levels))
        .collect();
    sinks.sort_by_key(|(verbosity, name, _)| (std::cmp::Reverse(*verbosity), *name));
    for (verbosity, name, levels) in sinks {
        let is_holding = verbosity > 0 && verbosity == gate.verbose;
        let released =
            view.sinks.iter().any(|sink| sink.name == name && sink.is_released && verbosity == 0);
        let note = match (is_holding, released) {
            (true, _) => "  <- holds it up",
            (false, true) => "  (has released its share: it takes nothing)",
            (false, false) => "",
        };
        lines.push(format!("  {verbosity:>2}  {name:<24} {levels}{note}"));
    }
    for (module, level) in &gate.debug_modules {
        lines.push(format!("  debug {level} for {module}"));
    }
    lines
}

fn add(program: &Program, name: &str, levels: &str) -> Result<String, Failure> {
    let levels: Levels = levels.parse().map_err(|error| Failure::Refused(format!("{error}")))?;
    // A file in the log folder, and nowhere else; and no name that consoles have.
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !is_name || name.starts_with(['.', '-']) || name.starts_with("console") || name.len() > 64 {
        let text = "a log's name has letters, digits, '.', '_' and '-', and is no console's";
        return Err(Failure::Refused(text.to_owned()));
    }
    let added = program.log.add(name, levels);
    added.map_err(|error| Failure::Refused(format!("ERROR: {error}")))?;
    notice!("A console has added log '{}'", name);
    Ok(format!("Added channel {name} with levels {levels}"))
}

fn remove(program: &Program, name: &str) -> Result<String, Failure> {
    if name.starts_with("console-") || !program.log.logger.remove(name) {
        return Err(Failure::Refused(format!("Unable to find log '{name}'")));
    }
    notice!("A console has removed log '{}'", name);
    Ok(format!("Removed channel {name}"))
}

fn rotate(program: &Program, name: Option<&str>) -> Result<Vec<String>, Failure> {
    let renewed = program.log.logger.rotate(name);
    if let (Some(name), true) = (name, renewed.is_empty()) {
        return Err(Failure::Refused(format!("Unable to find log '{name}'")));
    }
    let failed: Vec<String> = renewed
        .iter()
        .filter_map(|(name, result)| {
            result.as_ref().err().map(|error| format!("log '{name}' was not rotated: {error}"))
        })
        .collect();
    if !failed.is_empty() {
        return Err(Failure::Refused(failed.join("\n")));
    }
    notice!("A console has rotated {} logs", renewed.len());
    let files = renewed.iter().filter(|(name, _)| !name.starts_with("console"));
    Ok(files.map(|(name, _)| format!("log '{name}' rotated")).collect())
}

/// `[logging]` alone; what else has changed in the file waits for `core reload`.
fn reload(program: &Program) -> Result<Vec<String>, Failure> {
    let config = program.options.configure();
    let config = config.map_err(|fault| Failure::Refused(fault.to_string()))?;
    let mut lines = program.log.apply(&config.logs);
    for (name, result) in program.log.logger.reopen() {
        if let Err(error) = result {
            lines.push(format!("log '{name}' cannot be opened anew: {error}"));
        }
    }
    for line in &lines {
        notice!("logger reload: {}", line.as_str());
    }
    if lines.is_empty() {
        lines.push("nothing changed".to_owned());
    }
    Ok(lines)
}

/// The number of the call that is asked about, if it is about one.
async fn call_of(program: &Program, ask: &LoggerAsk) -> Result<u32, Failure> {
    let (LoggerAsk::Follow { call: Some(call) } | LoggerAsk::Filter(LogFilter::Call { call })) =
        ask
    else {
        return Ok(0);
    };
    let number = super::call_number(program, call).await?;
    number.ok_or_else(|| {
        Failure::Refused(format!("{call} is not a known channel, and no call such as C-0000001a"))
    })
}

/// What concerns one attached console; `call` is the number of the call that is asked about.
fn of_console(program: &Program, name: &str, ask: LoggerAsk, call: u32) -> Result<String, Failure> {
    let (consoles, logger) = (&program.consoles, &program.log.logger);
    let line = match ask {
        LoggerAsk::SetLevel { level, is_on } => {
            let known = Level::ALL.into_iter().find(|it| it.as_str().eq_ignore_ascii_case(&level));
            let Some(known) = known.filter(|level| *level != Level::Verbose) else {
                let text = format!("no level '{level}'; `core set verbose` sets VERBOSE");
                return Err(Failure::Refused(text));
            };
            consoles.set_level(logger, name, known, is_on).map(|()| {
                let word = if is_on { "enabled" } else { "disabled" };
                format!("Logger status for '{known}' has been set to {word}")
            })
        }
        LoggerAsk::Mute => consoles.mute(logger, name).map(|is_muted| {
            format!("Console is {} muted", if is_muted { "now" } else { "no longer" })
        }),
        LoggerAsk::Pause { is_on } => consoles.pause(logger, name, is_on).map(|lost| match is_on {
            true => "Lines are dropped and counted until `logger resume`".to_owned(),
            false => format!("{lost} lines were dropped"),
        }),
        LoggerAsk::Filter(filter) => match consoles.filter(logger, name, &filter, call) {
            Some(Err(why)) => return Err(Failure::Refused(why)),
            done => done.map(|_| "Filter is set".to_owned()),
        },
        LoggerAsk::Follow { call: None } => {
            consoles.follow(logger, name, None).map(|()| "No call is followed".to_owned())
        }
        LoggerAsk::Follow { call: Some(_) } => consoles
            .follow(logger, name, Some(call))
            .map(|()| format!("Following call C-{call:08x}; `logger follow off` ends it")),
        LoggerAsk::ShowChannels
        | LoggerAsk::ShowLevels
        | LoggerAsk::ShowWho
        | LoggerAsk::Add { .. }
        | LoggerAsk::Remove { .. }
        | LoggerAsk::Rotate { .. }
        | LoggerAsk::Reload => None,
    };
    line.ok_or_else(not_attached)
}

/// Applies `[logging]` when the configuration's file has changed: once a change, whole or not at
/// all. What else has changed waits for a reload.
pub(crate) fn follow_file(program: &Program) {
    match program.options.configure() {
        Ok(config) => {
            for line in program.log.apply(&config.logs) {
                notice!("The configuration has changed: {}", line.as_str());
            }
            program.posts.iter().for_each(|post| post.tell(Ask::Verbosity));
        }
        Err(fault) => {
            let text = fault.to_string();
            logging::warning!(
                "The configuration has changed and has faults; the log stays as it is"
            );
            for line in text.lines() {
                logging::warning!("{}", Shown(line));
            }
        }
    }
}
