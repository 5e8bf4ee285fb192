//! Requests and replies, one JSON value a line.

use serde::{Deserialize, Serialize};
use std::io;

mod logger;
mod top;
mod trace;

pub use logger::{Attach, LogChannel, LogChannels, LogFilter, LoggerAsk};
pub use top::{Top, TopCall, TopThread};
pub use trace::{TraceAsk, TraceWhose};

/// The version of these words. It grows when an old console would misread a new server.
pub const PROTOCOL: u16 = 2;

/// The longest line either side reads: a full page of channels fits several times.
pub const LINE_MAX: usize = 1 << 20;

/// Rows in a page: about 25 us of a shard's time.
pub const PAGE_MAX: usize = 128;

/// The server's first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What [`PROTOCOL`] the server speaks.
    pub protocol: u16,
    /// The program's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
}

/// One line from a console.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The [`PROTOCOL`] that the console speaks.
    pub v: u16,
    /// What it wants.
    #[serde(flatten)]
    pub command: Command,
}

impl Request {
    /// A request in this crate's protocol.
    pub fn new(command: Command) -> Self {
        Self { v: PROTOCOL, command }
    }
}

/// How `core show channels` wants its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// Four columns.
    Table,
    /// All columns.
    Verbose,
    /// One `!`-separated line a channel, for scripts.
    Concise,
    /// The totals alone.
    Count,
}

/// How to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Hang up all calls, then end.
    Now,
    /// Refuse new calls, wait for the running ones (up to the configured limit), then end.
    Gracefully,
}

/// What a console may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// All channels: pages of [`Reply::Channels`], then [`Reply::Counts`].
    ShowChannels {
        /// The server sends no rows for [`View::Count`].
        view: View,
    },
    /// Totals: [`Reply::Counts`], and [`Reply::Uptime`] when asked for.
    ShowCalls {
        /// Also the uptime.
        uptime: bool,
        /// The uptime in plain seconds.
        seconds: bool,
    },
    /// [`Reply::Uptime`].
    ShowUptime {
        /// In plain seconds.
        seconds: bool,
    },
    /// [`Reply::Version`].
    ShowVersion,
    /// Sets a verbosity, of an attached console or the root's: [`Reply::Verbose`].
    SetVerbose {
        /// 0 is off.
        level: u8,
        /// Only ever raises it.
        at_least: bool,
        /// Without a word about it.
        #[serde(default)]
        silent: bool,
        /// The attached console that it was typed in; the root's when `None`.
        #[serde(default)]
        console: Option<String>,
    },
    /// About the log.
    Logger {
        /// The attached console that it was typed in.
        console: Option<String>,
        /// What.
        ask: LoggerAsk,
    },
    /// Makes this connection carry the log's lines: [`Reply::Attached`], then lines.
    Attach(Attach),
    /// [`Reply::Stopping`].
    Stop {
        /// At once or after the last call.
        how: Stop,
    },
    /// Pages of [`Reply::Context`].
    DialplanShow {
        /// Only this extension (matched as a call would match it).
        extension: Option<String>,
        /// Only this context.
        context: Option<String>,
    },
    /// Reads dialplan and trunks again; all or nothing: [`Reply::Text`] with what changed.
    DialplanReload,
    /// What would happen to a call: [`Reply::Text`].
    DialplanTest {
        /// The number dialled.
        number: String,
        /// Where the call would enter.
        context: String,
        /// The caller's number; empty when unknown.
        caller: String,
    },
    /// Pages of [`Reply::Endpoints`].
    EndpointShow {
        /// Only this one.
        name: Option<String>,
    },
    /// Pages of [`Reply::Contacts`].
    RegistrarShow {
        /// Only of this address of record.
        aor: Option<String>,
    },
    /// Forgets where an endpoint is: [`Reply::Text`].
    Unregister {
        /// The address of record.
        aor: String,
        /// Only this contact.
        contact: Option<String>,
    },
    /// [`Reply::Trunks`].
    TrunkShow {
        /// Only this one.
        name: Option<String>,
    },
    /// Pages of [`Reply::Entries`].
    DatabaseShow {
        /// Only of this family.
        family: Option<String>,
    },
    /// [`Reply::Text`] with the value.
    DatabaseGet {
        /// The family.
        family: String,
        /// The key in it.
        key: String,
    },
    /// [`Reply::Text`].
    DatabasePut {
        /// The family.
        family: String,
        /// The key in it.
        key: String,
        /// The value.
        value: String,
    },
    /// [`Reply::Text`].
    DatabaseDelete {
        /// The family.
        family: String,
        /// The key in it; without one, or with `tree`, all that begin with it.
        key: Option<String>,
        /// Whether to delete all keys that begin with it.
        tree: bool,
    },
    /// What is wrong or near its limit: [`Reply::Text`], and [`Reply::Refused`] when it is bad.
    ShowHealth,
    /// The hints: [`Reply::Text`].
    ShowHints,
    /// One look at everything that moves: [`Reply::Top`].
    Top,
    /// How the program is set up: [`Reply::Text`].
    ShowSettings,
    /// The TCP connections: [`Reply::Text`].
    ShowTcp,
    /// Sets the debug level: [`Reply::Text`].
    SetDebug {
        /// 0 is off.
        level: u8,
        /// Only ever raises it.
        #[serde(default)]
        at_least: bool,
        /// Of this module only.
        module: Option<String>,
    },
    /// Lets an endpoint be disturbed, or not: [`Reply::Text`].
    SetDnd {
        /// Its name.
        name: String,
        /// `None`: as configured.
        dnd: Option<bool>,
    },
    /// SIP messages in the log or in a file: [`Reply::Text`].
    Trace(TraceAsk),
    /// Calls a device, and runs an extension when it answers: [`Reply::Text`].
    Originate {
        /// `SIP/1000`.
        target: String,
        /// The extension.
        extension: String,
        /// Its context.
        context: String,
        /// The number that the device sees; empty for none.
        caller: String,
    },
    /// Hangs up one channel or all: [`Reply::HangupRequested`] for each.
    Hangup {
        /// The channel's name, or `all`.
        channel: String,
    },
}

impl Command {
    /// Says in which attached console this was typed.
    pub fn typed_in(&mut self, name: &str) {
        if let Self::SetVerbose { console, .. } | Self::Logger { console, .. } = self {
            *console = Some(name.to_owned());
        }
    }
}

/// One channel: a leg of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// `SIP/trunk-a-00000001`.
    pub name: String,
    /// Where the plan runs; empty for an outbound leg.
    pub context: String,
    /// The extension.
    pub exten: String,
    /// The step.
    pub priority: u32,
    /// `Ring`, `Ringing`, `Up` ...
    pub state: String,
    /// The application that runs.
    pub application: String,
    /// What it was given.
    pub data: String,
    /// The caller's number.
    pub caller_id: String,
    /// For billing.
    pub account: String,
    /// Of the leg at the other end.
    pub peer_account: String,
    /// As Asterisk numbers it; 3 is documentation.
    pub ama_flags: u8,
    /// Age in seconds.
    pub duration_s: u64,
    /// The bridge that it is in; empty for none.
    pub bridge: String,
    /// Never used twice.
    pub unique_id: String,
    /// Its call, as lines of the log show it: `C-0000001a`.
    #[serde(default)]
    pub call: String,
}

/// Totals of all shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Legs.
    pub channels: u64,
    /// Calls.
    pub calls: u64,
    /// The soft cap; 0 is none.
    pub calls_max: u64,
    /// Calls since the start.
    pub processed: u64,
}

/// One step of an extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Counted from 1.
    pub priority: u32,
    /// A name to jump to.
    pub label: Option<String>,
    /// `Dial(SIP/trunk/100)`.
    pub text: String,
    /// `dialplan.toml:12`.
    pub place: String,
}

/// An extension and its steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// `100` or `_1XX`.
    pub pattern: String,
    /// In order.
    pub steps: Vec<Step>,
}

/// One context of the dialplan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Its name.
    pub name: String,
    /// The file that it stands in.
    pub created_by: String,
    /// In the order in which they are matched.
    pub extensions: Vec<Extension>,
    /// Contexts that are searched when nothing here matches.
    pub includes: Vec<String>,
}

/// One endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Its name.
    pub name: String,
    /// The context that its calls enter.
    pub context: String,
    /// The number that its calls show; empty for its own.
    pub caller_id: String,
    /// `Not in use`, `In use`, `Ringing`, `Busy` or `Unavailable`.
    pub state: String,
    /// Legs to and from it.
    pub calls: u32,
    /// How many it may have; 0 is any number.
    pub calls_max: u32,
    /// How many contacts it may have.
    pub contacts_max: u8,
    /// Not to be disturbed.
    pub dnd: bool,
    /// Where it is.
    pub contacts: Vec<Contact>,
}

/// Where an endpoint is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// The address of record.
    pub aor: String,
    /// The contact's URI.
    pub uri: String,
    /// `Avail`, `Unavail` or `NonQual`.
    pub status: String,
    /// The round trip in microseconds, when it was asked and answered.
    pub rtt_us: Option<u32>,
    /// For how long it is good.
    pub expires_s: u64,
    /// Where the REGISTER came from.
    pub source: String,
    /// Over which transport.
    pub transport: String,
    /// What it calls itself.
    pub user_agent: String,
}

/// One trunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trunk {
    /// Its name.
    pub name: String,
    /// The context that its calls enter.
    pub context: String,
    /// Where calls to it go.
    pub peers: Vec<String>,
    /// How many calls it may have; 0 is any number.
    pub calls_max: u32,
    /// `Registered`, `Unregistered` or `Rejected`; empty when we do not register there.
    pub registration: String,
    /// Peers that do not answer.
    pub unreachable: Vec<String>,
}

/// An entry of the plan's database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The family.
    pub family: String,
    /// The key in it.
    pub key: String,
    /// The value.
    pub value: String,
}

/// One line from the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// A page of channels.
    Channels {
        /// At most [`PAGE_MAX`].
        channels: Vec<Channel>,
    },
    /// Totals.
    Counts(Counts),
    /// How long it has been up.
    Uptime {
        /// Since the start.
        uptime_s: u64,
        /// Since the last reload, if there was one.
        reload_s: Option<u64>,
        /// As it was asked.
        seconds: bool,
    },
    /// What runs.
    Version {
        /// The program's version.
        version: String,
        /// Its process, for whoever measures it.
        pid: u32,
        /// How many shards.
        shards: u8,
    },
    /// The verbosity before and after.
    Verbose {
        /// Before.
        was: u8,
        /// Now.
        now: u8,
    },
    /// One look at the server.
    Top(Top),
    /// The channels of the log.
    LogChannels(LogChannels),
    /// From here on the connection carries lines of the log.
    Attached {
        /// The console's name among the log's channels.
        name: String,
    },
    /// The stop has begun.
    Stopping {
        /// As it was asked.
        how: Stop,
        /// Calls that are still up.
        calls: u64,
    },
    /// One context.
    Context(Context),
    /// Lines to print as they are.
    Text {
        /// Without line feeds.
        lines: Vec<String>,
    },
    /// A page of endpoints.
    Endpoints {
        /// At most [`PAGE_MAX`].
        endpoints: Vec<Endpoint>,
    },
    /// A page of contacts.
    Contacts {
        /// Those of at most [`PAGE_MAX`] endpoints.
        contacts: Vec<Contact>,
    },
    /// A page of trunks.
    Trunks {
        /// At most [`PAGE_MAX`].
        trunks: Vec<Trunk>,
    },
    /// A page of the database.
    Entries {
        /// At most [`PAGE_MAX`].
        entries: Vec<Entry>,
    },
    /// One channel that was told to hang up.
    HangupRequested {
        /// Its name.
        channel: String,
    },
    /// The request was understood and is not granted; the last line of an answer.
    Refused {
        /// Why, for the operator; may hold several lines (all faults of a file).
        reason: String,
    },
    /// Nothing more comes; the last line of an answer.
    End,
}

impl Reply {
    /// Whether this is the last line of an answer.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::End)
    }
}

/// Appends `value` as one line.
pub fn write_line(value: &impl Serialize, out: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.push(b'\n');
    Ok(())
}

/// Why a line from a console was not a request.
#[derive(Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// It speaks another version of these words.
    Protocol(u16),
    /// It is no JSON, or no command that this server knows.
    Unknown(String),
}

impl std::fmt::Display for RequestFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Protocol(theirs) => {
                write!(
                    f,
                    "this server speaks version {PROTOCOL} of the control words, not {theirs}"
                )
            }
            Self::Unknown(why) => write!(f, "not a command: {why}"),
        }
    }
}

/// Reads a console's line. The version is looked at first, so that a newer console learns what is
/// wrong even when its command is unknown here.
pub fn read_request(line: &[u8]) -> Result<Request, RequestFault> {
    #[derive(Deserialize)]
    struct Version {
        v: u16,
    }
    let unknown = |error: serde_json::Error| RequestFault::Unknown(error.to_string());
    let Version { v } = serde_json::from_slice(line).map_err(unknown)?;
    if v != PROTOCOL {
        return Err(RequestFault::Protocol(v));
    }
    serde_json::from_slice(line).map_err(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_its_line() {
        let request = Request::new(Command::DialplanTest {
            number: "100\n\"".into(),
            context: "default".into(),
            caller: String::new(),
        });
        let mut line = Vec::new();
        write_line(&request, &mut line).unwrap();
        assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
        assert_eq!(read_request(&line), Ok(request));
    }

    #[test]
    fn a_newer_console_is_told_so_whatever_it_asks() {
        let fault = read_request(br#"{"v":9,"command":"show_the_future"}"#).unwrap_err();
        assert_eq!(fault, RequestFault::Protocol(9));
        let fault = read_request(br#"{"v":2,"command":"show_the_future"}"#).unwrap_err();
        assert!(matches!(fault, RequestFault::Unknown(_)));
    }

    #[test]
    fn only_end_and_refused_close_an_answer() {
        assert!(Reply::End.is_last());
        assert!(Reply::Refused { reason: String::new() }.is_last());
        assert!(!Reply::Counts(Counts::default()).is_last());
    }

    #[test]
    fn a_full_page_is_far_below_the_line_limit() {
        let channel = Channel {
            name: "x".repeat(255),
            context: "x".repeat(255),
            exten: "x".repeat(255),
            data: "\u{1}".repeat(255),
            ..Channel::default()
        };
        let mut line = Vec::new();
        let page = Reply::Channels { channels: vec![channel; PAGE_MAX] };
        write_line(&page, &mut line).unwrap();
        assert!(line.len() < LINE_MAX / 2, "{}", line.len());
    }
}
