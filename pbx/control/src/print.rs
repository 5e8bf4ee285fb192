//! Replies as text, column for column as Asterisk 22 prints them, so that scripts written for it
//! keep working.

use crate::wire::{Channel, Command, Contact, Context, Counts, Endpoint, Entry, Reply, Stop, View};
use crate::words::COMMANDS;
use std::fmt::{Display, Write as _};

mod logger;
mod tables;
mod top;

pub use top::snapshot as top;

/// What kind of answer is being printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Channels(View),
    Dialplan,
    /// Lists that end with `Objects found: N`.
    Objects,
    /// Lists that end with `N results found.`.
    Results,
    Other,
}

/// Prints the replies to one command; remembers what the footer must count.
pub struct Printer {
    answer: Answer,
    header_due: bool,
    extensions: u64,
    steps: u64,
    contexts: u64,
    rows: u64,
}

impl Printer {
    /// For the replies to `command`.
    pub fn new(command: &Command) -> Self {
        let answer = match command {
            Command::ShowChannels { view } => Answer::Channels(*view),
            Command::DialplanShow { .. } => Answer::Dialplan,
            Command::ShowCalls { .. }
            | Command::ShowUptime { .. }
            | Command::ShowVersion
            | Command::ShowHealth
            | Command::ShowHints
            | Command::ShowSettings
            | Command::ShowTcp
            | Command::SetDebug { .. }
            | Command::SetDnd { .. }
            | Command::Trace(_)
            | Command::Top
            | Command::Originate { .. }
            | Command::SetVerbose { .. }
            | Command::Logger { .. }
            | Command::Attach(_)
            | Command::Stop { .. }
            | Command::DialplanReload
            | Command::DialplanTest { .. }
            | Command::EndpointShow { name: Some(_) }
            | Command::Unregister { .. }
            | Command::TrunkShow { .. }
            | Command::DatabaseGet { .. }
            | Command::DatabasePut { .. }
            | Command::DatabaseDelete { .. }
            | Command::Hangup { .. } => Answer::Other,
            Command::EndpointShow { name: None } | Command::RegistrarShow { .. } => Answer::Objects,
            Command::DatabaseShow { .. } => Answer::Results,
        };
        Self { answer, header_due: true, extensions: 0, steps: 0, contexts: 0, rows: 0 }
    }

    /// Appends what `reply` looks like.
    pub fn print(&mut self, reply: &Reply, out: &mut String) {
        match reply {
            Reply::Channels { channels } => self.channels(channels, out),
            Reply::Counts(counts) => self.counts(counts, out),
            Reply::Uptime { uptime_s, reload_s, seconds } => {
                print_age("System uptime", *uptime_s, *seconds, out);
                if let Some(reload_s) = reload_s {
                    print_age("Last reload", *reload_s, *seconds, out);
                }
            }
            Reply::Version { version, pid, shards } => {
                let shards = Count(u64::from(*shards), "shard");
                line(out, format_args!("pbx {version}, process {pid}, {shards}"));
            }
            Reply::Verbose { was, now } => print_verbose(*was, *now, out),
            Reply::LogChannels(channels) => logger::channels(channels, out),
            Reply::Top(now) => top::snapshot(now, None, out),
            Reply::Attached { .. } => {}
            Reply::Stopping { how: Stop::Now, .. } => {}
            Reply::Stopping { how: Stop::Gracefully, calls } => {
                line(out, format_args!("Waiting for inactivity to perform halt"));
                line(out, format_args!("{}", Count(*calls, "active call")));
            }
            Reply::Context(context) => self.context(context, out),
            Reply::Text { lines } => {
                lines.iter().for_each(|text| line(out, format_args!("{text}")));
            }
            Reply::Endpoints { endpoints } => self.endpoints(endpoints, out),
            Reply::Contacts { contacts } => self.contacts(contacts, out),
            Reply::Trunks { trunks } => {
                if std::mem::take(&mut self.header_due) {
                    tables::trunk_header(out);
                }
                trunks.iter().for_each(|trunk| tables::trunk(trunk, out));
            }
            Reply::Entries { entries } => {
                self.rows += entries.len() as u64;
                for Entry { family, key, value } in entries {
                    let name = format!("/{family}/{key}");
                    line(out, format_args!("{name:<50}: {value:<25}"));
                }
            }
            Reply::HangupRequested { channel } => {
                line(out, format_args!("Requested Hangup on channel '{channel}'"));
            }
            Reply::Refused { reason } => {
                reason.lines().for_each(|text| line(out, format_args!("{text}")));
            }
            Reply::End => self.end(out),
        }
    }

    fn endpoints(&mut self, endpoints: &[Endpoint], out: &mut String) {
        if std::mem::take(&mut self.header_due) {
            tables::endpoint_header(out);
        }
        self.rows += endpoints.len() as u64;
        endpoints.iter().for_each(|endpoint| tables::endpoint(endpoint, out));
    }

    fn contacts(&mut self, contacts: &[Contact], out: &mut String) {
        if std::mem::take(&mut self.header_due) {
            tables::contact_header(out);
        }
        self.rows += contacts.len() as u64;
        contacts.iter().for_each(|contact| tables::contact(contact, out));
    }

    fn channels(&mut self, channels: &[Channel], out: &mut String) {
        let Answer::Channels(view) = self.answer else { return };
        self.header(view, out);
        for channel in channels {
            match view {
                View::Table => print_row(channel, out),
                View::Verbose => print_wide_row(channel, out),
                View::Concise => print_concise(channel, out),
                View::Count => {}
            }
        }
    }

    fn counts(&mut self, counts: &Counts, out: &mut String) {
        if let Answer::Channels(view) = self.answer {
            self.header(view, out);
            if view == View::Concise {
                return;
            }
            line(out, format_args!("{}", Count(counts.channels, "active channel")));
        }
        let Counts { calls, calls_max, processed, .. } = *counts;
        if calls_max > 0 {
            let share = calls as f64 / calls_max as f64 * 100.0;
            let most = Plural(calls, "max active call");
            line(out, format_args!("{calls} of {calls_max} {most} ({share:5.2}% of capacity)"));
        } else {
            line(out, format_args!("{}", Count(calls, "active call")));
        }
        line(out, format_args!("{} processed", Count(processed, "call")));
    }

    fn header(&mut self, view: View, out: &mut String) {
        if !std::mem::take(&mut self.header_due) {
            return;
        }
        match view {
            View::Table => row(out, ["Channel", "Location", "State", "Application(Data)"]),
            View::Verbose => wide_row(
                out,
                [
                    "Channel",
                    "Context",
                    "Extension",
                    "Prio",
                    "State",
                    "Application",
                    "Data",
                    "CallerID",
                    "Duration",
                    "Accountcode",
                    "PeerAccount",
                    "BridgeID",
                ],
            ),
            View::Concise | View::Count => {}
        }
    }

    fn context(&mut self, context: &Context, out: &mut String) {
        self.contexts += 1;
        let Context { name, created_by, extensions, includes } = context;
        line(out, format_args!("[ Context '{name}' created by '{created_by}' ]"));
        for extension in extensions {
            self.extensions += 1;
            for (number, step) in extension.steps.iter().enumerate() {
                self.steps += 1;
                let head = match (number, &step.label) {
                    (0, _) => format!("'{}' =>", extension.pattern),
                    (_, Some(label)) => format!("   [{label}]"),
                    (_, None) => String::new(),
                };
                let text = format!("{}. {}", step.priority, step.text);
                line(out, format_args!("  {head:<17} {text:<45} [{}]", step.place));
            }
        }
        if !extensions.is_empty() && !includes.is_empty() {
            out.push('\n');
        }
        for include in includes {
            let quoted = format!("'{include}'");
            line(out, format_args!("  Include =>        {quoted:<45} [{created_by}]"));
        }
        out.push('\n');
    }

    fn end(&self, out: &mut String) {
        match self.answer {
            Answer::Dialplan => {}
            Answer::Objects if self.rows == 0 => {
                return line(out, format_args!("No objects found."));
            }
            Answer::Objects => return line(out, format_args!("\nObjects found: {}", self.rows)),
            Answer::Results => {
                return line(out, format_args!("{} results found.", self.rows));
            }
            Answer::Channels(_) | Answer::Other => return,
        }
        let extensions = Count(self.extensions, "extension");
        let ending = if self.steps == 1 { "y" } else { "ies" };
        let contexts = Count(self.contexts, "context");
        let steps = self.steps;
        line(out, format_args!("-= {extensions} ({steps} priorit{ending}) in {contexts}. =-"));
    }
}

/// The list of commands that begin so; all for nothing.
pub fn help(words: &str) -> String {
    let mut out = String::new();
    let is_it = |usage: &str| {
        let typed = words.split_whitespace();
        usage
            .split_whitespace()
            .zip(typed)
            .all(|(a, b)| a.get(..b.len()).is_some_and(|start| start.eq_ignore_ascii_case(b)))
    };
    for entry in COMMANDS.iter().filter(|entry| is_it(entry.usage)) {
        line(&mut out, format_args!("{:<44} {}", entry.usage, entry.summary));
    }
    if out.is_empty() {
        line(&mut out, format_args!("No command begins with '{words}'"));
    }
    out
}

/// One line. Names and numbers come from strangers: no control character may reach a terminal, and
/// none may forge a line.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    let start = out.len();
    // Writing to a String cannot fail.
    let _ = out.write_fmt(text);
    if out[start..].contains(char::is_control) {
        let clean = out[start..].replace(char::is_control, "?");
        out.truncate(start);
        out.push_str(&clean);
    }
    out.push('\n');
}

/// A noun with its plural ending.
struct Plural(u64, &'static str);

impl Display for Plural {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.1)?;
        f.write_str(if self.0 == 1 { "" } else { "s" })
    }
}

/// A number and its noun: `1 active call`, `2 active calls`.
struct Count(u64, &'static str);

impl Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.0, Plural(self.0, self.1))
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "(None)" } else { text }
}

fn row(out: &mut String, [channel, location, state, application]: [&str; 4]) {
    line(out, format_args!("{channel:<64.64} {location:<32.32} {state:<7.7} {application:<30.30}"));
}

fn print_row(channel: &Channel, out: &mut String) {
    let Channel { name, context, exten, priority, state, application, data, .. } = channel;
    let location = if context.is_empty() || exten.is_empty() {
        "(None)".to_owned()
    } else {
        format!("{exten}@{context}:{priority}")
    };
    let running =
        if application.is_empty() { "(None)".to_owned() } else { format!("{application}({data})") };
    row(out, [name, &location, state, &running]);
}

fn wide_row(out: &mut String, columns: [&str; 12]) {
    let [channel, context, exten, priority, state, application, data, rest @ ..] = columns;
    let [caller, duration, account, peer_account, bridge] = rest;
    line(
        out,
        format_args!(
            "{channel:<80.80} {context:<24.24} {exten:<24.24} {priority:<4.4} {state:<7.7} \
             {application:<12.12} {data:<25.25} {caller:<15.15} {duration:>8.8} \
             {account:<11.11} {peer_account:<11.11} {bridge:<20.20}"
        ),
    );
}

fn print_wide_row(channel: &Channel, out: &mut String) {
    let seconds = channel.duration_s;
    let duration = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let priority = format!("{:>4}", channel.priority);
    let application = or_none(&channel.application);
    let data = if channel.application.is_empty() { "(None)" } else { &channel.data };
    wide_row(
        out,
        [
            &channel.name,
            &channel.context,
            &channel.exten,
            &priority,
            &channel.state,
            application,
            if data.is_empty() { "(Empty)" } else { data },
            &channel.caller_id,
            &duration,
            &channel.account,
            &channel.peer_account,
            &channel.bridge,
        ],
    );
}

fn print_concise(channel: &Channel, out: &mut String) {
    let Channel { name, context, exten, priority, state, .. } = channel;
    let Channel { caller_id, account, peer_account, ama_flags, duration_s, .. } = channel;
    let application = or_none(&channel.application);
    let (data, bridge, unique_id) = (&channel.data, &channel.bridge, &channel.unique_id);
    line(
        out,
        format_args!(
            "{name}!{context}!{exten}!{priority}!{state}!{application}!{data}!{caller_id}!\
             {account}!{peer_account}!{ama_flags}!{duration_s}!{bridge}!{unique_id}"
        ),
    );
}

/// A unit is named only when more than one of it has passed: 60 s are `60 seconds`.
fn print_age(what: &str, age_s: u64, plain: bool, out: &mut String) {
    if plain {
        return line(out, format_args!("{what}: {age_s}"));
    }
    const UNITS: [(u64, &str); 5] = [
        (365 * 24 * 3600, "year"),
        (7 * 24 * 3600, "week"),
        (24 * 3600, "day"),
        (3600, "hour"),
        (60, "minute"),
    ];
    let mut parts = Vec::new();
    let mut left = age_s;
    for (length, name) in UNITS {
        if left > length {
            parts.push(Count(left / length, name).to_string());
            left %= length;
        }
    }
    if left > 0 || parts.is_empty() {
        parts.push(Count(left, "second").to_string());
    }
    line(out, format_args!("{what}: {}", parts.join(", ")));
}

fn print_verbose(was: u8, now: u8, out: &mut String) {
    let name = |level: u8| if level == 0 { "OFF".to_owned() } else { level.to_string() };
    if was == now {
        line(out, format_args!("Console verbose is still {}.", name(now)));
    } else {
        line(out, format_args!("Console verbose was {} and is now {}.", name(was), name(now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Extension, Step};

    fn printed(command: &Command, replies: &[Reply]) -> String {
        let mut printer = Printer::new(command);
        let mut out = String::new();
        replies.iter().for_each(|reply| printer.print(reply, &mut out));
        out
    }

    fn channel() -> Channel {
        Channel {
            name: "SIP/sipp-00000001".into(),
            context: "bench".into(),
            exten: "answer".into(),
            priority: 2,
            state: "Up".into(),
            application: "Wait".into(),
            data: "10".into(),
            caller_id: "301".into(),
            ama_flags: 3,
            duration_s: 3725,
            unique_id: "1764542000.1".into(),
            ..Channel::default()
        }
    }

    fn counts() -> Reply {
        Reply::Counts(Counts { channels: 1, calls: 1, calls_max: 0, processed: 2 })
    }

    #[test]
    fn the_channel_table_has_asterisks_columns_and_footer() {
        let command = Command::ShowChannels { view: View::Table };
        let outbound = Channel { name: "SIP/b-2".into(), state: "Ringing".into(), ..channel() };
        let outbound = Channel { context: String::new(), application: String::new(), ..outbound };
        let page = Reply::Channels { channels: vec![channel(), outbound] };
        let text = printed(&command, &[page, counts(), Reply::End]);
        let expected = [
            format!(
                "{:<64} {:<32} {:<7} {:<30}",
                "Channel", "Location", "State", "Application(Data)"
            ),
            format!(
                "{:<64} {:<32} {:<7} {:<30}",
                "SIP/sipp-00000001", "answer@bench:2", "Up", "Wait(10)"
            ),
            format!("{:<64} {:<32} {:<7} {:<30}", "SIP/b-2", "(None)", "Ringing", "(None)"),
            "1 active channel".to_owned(),
            "1 active call".to_owned(),
            "2 calls processed".to_owned(),
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn concise_has_fourteen_fields_and_no_footer() {
        let command = Command::ShowChannels { view: View::Concise };
        let page = Reply::Channels { channels: vec![channel()] };
        let text = printed(&command, &[page, counts(), Reply::End]);
        assert_eq!(
            text,
            "SIP/sipp-00000001!bench!answer!2!Up!Wait!10!301!!!3!3725!!1764542000.1\n"
        );
    }

    #[test]
    fn verbose_shows_the_duration_and_cuts_what_is_too_long() {
        let command = Command::ShowChannels { view: View::Verbose };
        let long = Channel { data: "d".repeat(40), ..channel() };
        let text = printed(&command, &[Reply::Channels { channels: vec![long] }]);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[0].len(), rows[1].len());
        assert!(rows[1].contains(" 01:02:05 "), "{text}");
        assert!(rows[1].contains(&format!(" {} 301 ", "d".repeat(25))), "{text}");
    }

    #[test]
    fn count_prints_only_the_totals_and_calls_no_channels() {
        let count = Command::ShowChannels { view: View::Count };
        assert_eq!(
            printed(&count, &[counts(), Reply::End]),
            "1 active channel\n1 active call\n2 calls processed\n"
        );
        let calls = Command::ShowCalls { uptime: false, seconds: false };
        let capped =
            Reply::Counts(Counts { channels: 50, calls: 25, calls_max: 400, processed: 1 });
        assert_eq!(
            printed(&calls, &[capped, Reply::End]),
            "25 of 400 max active calls ( 6.25% of capacity)\n1 call processed\n"
        );
    }

    #[test]
    fn a_strangers_name_neither_forges_a_line_nor_reaches_the_terminal() {
        let command = Command::ShowChannels { view: View::Concise };
        let evil = Channel { caller_id: "1\n2\u{1b}[2J".into(), ..channel() };
        let text = printed(&command, &[Reply::Channels { channels: vec![evil] }]);
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains("!1?2?[2J!"), "{text}");
    }

    #[test]
    fn an_empty_list_still_has_its_header() {
        let command = Command::ShowChannels { view: View::Table };
        let text = printed(&command, &[Reply::Counts(Counts::default()), Reply::End]);
        assert!(text.starts_with("Channel "), "{text}");
        assert!(text.ends_with("0 active channels\n0 active calls\n0 calls processed\n"), "{text}");
    }

    #[test]
    fn ages_are_spelled_out_or_plain() {
        let age = |uptime_s, seconds| {
            let reply = Reply::Uptime { uptime_s, reload_s: None, seconds };
            printed(&Command::ShowUptime { seconds }, &[reply])
        };
        let long = 604_800 + 2 * 86_400 + 3 * 3600 + 4 * 60 + 5;
        assert_eq!(
            age(long, false),
            "System uptime: 1 week, 2 days, 3 hours, 4 minutes, 5 seconds\n"
        );
        assert_eq!(age(long, true), "System uptime: 788645\n");
        assert_eq!(age(0, false), "System uptime: 0 seconds\n");
        assert_eq!(age(60, false), "System uptime: 60 seconds\n");
        assert_eq!(age(61, false), "System uptime: 1 minute, 1 second\n");
    }

    #[test]
    fn verbosity_is_told_in_asterisks_words() {
        let set = |was, now| {
            let command = Command::ShowVersion; // which command does not matter here
            printed(&command, &[Reply::Verbose { was, now }])
        };
        assert_eq!(set(0, 3), "Console verbose was OFF and is now 3.\n");
        assert_eq!(set(3, 3), "Console verbose is still 3.\n");
        assert_eq!(set(3, 0), "Console verbose was 3 and is now OFF.\n");
    }

    #[test]
    fn the_dialplan_is_shown_in_asterisks_layout() {
        let step = |priority, label: Option<&str>, text: &str| Step {
            priority,
            label: label.map(str::to_owned),
            text: text.into(),
            place: format!("dialplan.toml:{}", 11 + priority),
        };
        let context = Context {
            name: "default".into(),
            created_by: "dialplan.toml".into(),
            extensions: vec![Extension {
                pattern: "1234".into(),
                steps: vec![step(1, None, "Answer()"), step(2, Some("again"), "Wait(1)")],
            }],
            includes: vec!["other".into()],
        };
        let command = Command::DialplanShow { extension: None, context: None };
        let text = printed(&command, &[Reply::Context(context), Reply::End]);
        let pad = |text: &str| format!("{text:<45}");
        let expected = [
            "[ Context 'default' created by 'dialplan.toml' ]".to_owned(),
            format!("  '1234' =>         {} [dialplan.toml:12]", pad("1. Answer()")),
            format!("     [again]        {} [dialplan.toml:13]", pad("2. Wait(1)")),
            String::new(),
            format!("  Include =>        {} [dialplan.toml]", pad("'other'")),
            String::new(),
            "-= 1 extension (2 priorities) in 1 context. =-".to_owned(),
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }
}
