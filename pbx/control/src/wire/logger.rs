//! What a console may ask about the log, and how it attaches itself to it.

use serde::{Deserialize, Serialize};

/// A console that wants the log's lines. After [`super::Reply::Attached`] the connection carries
/// nothing but lines, as text or as JSON, until either side closes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attach {
    /// How much VERBOSE it wants: 0 to 10.
    pub verbose: u8,
    /// Lines as JSON objects.
    pub json: bool,
    /// Levels in colour: it writes to a terminal.
    pub colour: bool,
}

/// Which lines an attached console wants beside its levels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "filter", rename_all = "snake_case")]
pub enum LogFilter {
    /// All.
    Off,
    /// Those of one more call.
    Call {
        /// As lines show it, `C-0000001a`, or the name of one of its channels.
        call: String,
    },
    /// Those that name an endpoint, a channel or anything else.
    Text {
        /// The text.
        text: String,
    },
    /// Those of some levels.
    Levels {
        /// A comma list.
        levels: String,
    },
}

/// A question or an order about the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum LoggerAsk {
    /// [`super::Reply::LogChannels`].
    ShowChannels,
    /// [`super::Reply::Text`].
    ShowLevels,
    /// Which channel holds the verbosity up: [`super::Reply::Text`].
    ShowWho,
    /// Makes a file in the log folder.
    Add {
        /// The file's name.
        name: String,
        /// A comma list.
        levels: String,
    },
    /// Removes a channel.
    Remove {
        /// Its name.
        name: String,
    },
    /// Puts files aside.
    Rotate {
        /// Only this one.
        name: Option<String>,
    },
    /// Applies what `[logging]` says now.
    Reload,
    /// Switches a level of the console on or off.
    SetLevel {
        /// The level.
        level: String,
        /// Whether it is shown.
        is_on: bool,
    },
    /// Shows nothing, or again: each time the other one.
    Mute,
    /// Drops and counts lines, or no longer.
    Pause {
        /// Whether from now on.
        is_on: bool,
    },
    /// Narrows what is shown.
    Filter(LogFilter),
    /// Shows everything about one call, and nothing else.
    Follow {
        /// Which, as for the filter; `None` ends it.
        call: Option<String>,
    },
}

/// One channel of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogChannel {
    /// Its name, or its file.
    pub name: String,
    /// `File`, `Console`, `Syslog`.
    pub kind: String,
    /// `default`, `plain`, `json` ...
    pub format: String,
    /// `Enabled`, or what keeps it from being written.
    pub status: String,
    /// What it takes.
    pub levels: Vec<String>,
    /// Lines written.
    pub written: u64,
    /// VERBOSE, DEBUG and DTMF lines lost.
    pub dropped_verbose: u64,
    /// Other lines lost.
    pub dropped_keep: u64,
}

/// All channels, and the disk that they take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogChannels {
    /// Bytes that may wait for each.
    pub queue_limit: u64,
    /// In the order in which they were declared.
    pub channels: Vec<LogChannel>,
    /// What the files take now, in bytes.
    pub disk_used: u64,
    /// What they can take by their own limits; `None`: one of them has none.
    pub disk_worst_case: Option<u64>,
    /// What they may take together.
    pub disk_budget: Option<u64>,
    /// Old files taken away to keep the budget.
    pub disk_removed: u64,
}
