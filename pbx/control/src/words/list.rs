//! All commands with their usage, and what an Asterisk user types for them.

use super::{
    Entry, Import, Said, database_delete, database_get, database_put, dialplan_show, dialplan_test,
    hangup, optional, originate, set_debug, set_dnd, set_verbose, show_calls, show_channels,
    show_uptime, stop, trace, unregister,
};
use crate::wire::Command;

/// All commands, in the order in which `help` lists them.
pub const COMMANDS: &[Entry] = &[
    Entry {
        usage: "channel originate <target> extension <extension>@<context> [<caller>]",
        summary: "Call a device, and run an extension when it answers",
        parse: originate,
        head: &["channel", "originate"],
    },
    Entry {
        usage: "channel request hangup <channel>|all",
        summary: "Hang up a channel",
        parse: hangup,
        head: &["channel", "request", "hangup"],
    },
    Entry {
        usage: "core reload",
        summary: "Read configuration and dialplan again; nothing changes if there is a fault",
        parse: |rest| rest.is_empty().then_some(Said::Ask(Command::DialplanReload)),
        head: &["core", "reload"],
    },
    Entry {
        usage: "core set debug <level>|off [<module>]",
        summary: "Set the debug level, of all or of one module",
        parse: set_debug,
        head: &["core", "set", "debug"],
    },
    Entry {
        usage: "core set verbose [atleast] <level>|off",
        summary: "Set the verbosity of the main log",
        parse: set_verbose,
        head: &["core", "set", "verbose"],
    },
    Entry {
        usage: "core show calls [uptime [seconds]]",
        summary: "Count the calls",
        parse: show_calls,
        head: &["core", "show", "calls"],
    },
    Entry {
        usage: "core show channels [concise|verbose|count]",
        summary: "List the channels",
        parse: show_channels,
        head: &["core", "show", "channels"],
    },
    Entry {
        usage: "core show health",
        summary: "Tell what is wrong or near its limit",
        parse: |rest| rest.is_empty().then_some(Said::Ask(Command::ShowHealth)),
        head: &["core", "show", "health"],
    },
    Entry {
        usage: "core show hints",
        summary: "List the hints with the states of their devices",
        parse: |rest| rest.is_empty().then_some(Said::Ask(Command::ShowHints)),
        head: &["core", "show", "hints"],
    },
    Entry {
        usage: "core show settings",
        summary: "Tell how the PBX is set up",
        parse: |rest| rest.is_empty().then_some(Said::Ask(Command::ShowSettings)),
        head: &["core", "show", "settings"],
    },
    Entry {
        usage: "core show uptime [seconds]",
        summary: "Tell how long the PBX has been up",
        parse: show_uptime,
        head: &["core", "show", "uptime"],
    },
    Entry {
        usage: "core show version",
        summary: "Tell what runs",
        parse: |rest| rest.is_empty().then_some(Said::Ask(Command::ShowVersion)),
        head: &["core", "show", "version"],
    },
    Entry {
        usage: "core stop now|gracefully",
        summary: "Stop the PBX at once, or after the last call",
        parse: stop,
        head: &["core", "stop"],
    },
    Entry {
        usage: "database del <family> <key>",
        summary: "Delete an entry of the plan's database",
        parse: |rest| database_delete(rest, false),
        head: &["database", "del"],
    },
    Entry {
        usage: "database deltree <family> [<prefix>]",
        summary: "Delete all entries of a family, or those whose keys begin so",
        parse: |rest| database_delete(rest, true),
        head: &["database", "deltree"],
    },
    Entry {
        usage: "database get <family> <key>",
        summary: "Show an entry of the plan's database",
        parse: database_get,
        head: &["database", "get"],
    },
    Entry {
        usage: "database put <family> <key> <value>",
        summary: "Set an entry of the plan's database",
        parse: database_put,
        head: &["database", "put"],
    },
    Entry {
        usage: "database show [<family>]",
        summary: "List the plan's database",
        parse: |rest| optional(rest).map(|family| Said::Ask(Command::DatabaseShow { family })),
        head: &["database", "show"],
    },
    Entry {
        usage: "dialplan import <extensions.conf> [-o <file>]",
        summary: "Convert Asterisk's dialplan; needs no server",
        parse: |_| Some(Said::Import(Import::Dialplan)),
        head: &["dialplan", "import"],
    },
    Entry {
        usage: "dialplan reload",
        summary: "Read dialplan and trunks again; nothing changes if there is a fault",
        parse: |rest| rest.is_empty().then_some(Said::Ask(Command::DialplanReload)),
        head: &["dialplan", "reload"],
    },
    Entry {
        usage: "dialplan show [[<extension>@]<context>]",
        summary: "Show the dialplan",
        parse: dialplan_show,
        head: &["dialplan", "show"],
    },
    Entry {
        usage: "dialplan test <number>@<context> [<caller>]",
        summary: "Tell what a call would match, and why",
        parse: dialplan_test,
        head: &["dialplan", "test"],
    },
    Entry {
        usage: "endpoint import <pjsip.conf|sip.conf> [-o <file>]",
        summary: "Convert Asterisk's phones and trunks; needs no server",
        parse: |_| Some(Said::Import(Import::Endpoints)),
        head: &["endpoint", "import"],
    },
    Entry {
        usage: "endpoint show [<name>]",
        summary: "List the endpoints (also: pjsip show endpoints)",
        parse: |rest| optional(rest).map(|name| Said::Ask(Command::EndpointShow { name })),
        head: &["endpoint", "show"],
    },
    Entry {
        usage: "endpoint set dnd <name> on|off|default",
        summary: "Let an endpoint be disturbed, or not",
        parse: set_dnd,
        head: &["endpoint", "set", "dnd"],
    },
    Entry {
        usage: "help [<words>]",
        summary: "List the commands, or those that begin so",
        parse: |rest| Some(Said::Help(rest.join(" "))),
        head: &["help"],
    },
    Entry {
        usage: "registrar show [<endpoint>]",
        summary: "List where endpoints are (also: pjsip show contacts)",
        parse: |rest| optional(rest).map(|aor| Said::Ask(Command::RegistrarShow { aor })),
        head: &["registrar", "show"],
    },
    Entry {
        usage: "registrar unregister <endpoint> [<contact>]",
        summary: "Forget where an endpoint is",
        parse: unregister,
        head: &["registrar", "unregister"],
    },
    Entry {
        usage: "sip set trace on|off [<address>]",
        summary: "Write every SIP message to the log, or those of one peer",
        parse: trace,
        head: &["sip", "set", "trace"],
    },
    Entry {
        usage: "sip show tcp",
        summary: "Count the TCP connections",
        parse: |rest| rest.is_empty().then_some(Said::Ask(Command::ShowTcp)),
        head: &["sip", "show", "tcp"],
    },
    Entry {
        usage: "trunk show [<name>]",
        summary: "List the trunks",
        parse: |rest| optional(rest).map(|name| Said::Ask(Command::TrunkShow { name })),
        head: &["trunk", "show"],
    },
];

/// What an Asterisk user types for the same thing: his words, and ours.
pub(super) const ALIASES: &[(&[&str], &[&str])] = &[
    (&["pjsip", "show", "endpoints"], &["endpoint", "show"]),
    (&["pjsip", "show", "endpoint"], &["endpoint", "show"]),
    (&["sip", "show", "peers"], &["endpoint", "show"]),
    (&["pjsip", "show", "contacts"], &["registrar", "show"]),
    (&["pjsip", "show", "aors"], &["registrar", "show"]),
    (&["pjsip", "show", "registrations"], &["trunk", "show"]),
    (&["sip", "show", "registry"], &["trunk", "show"]),
    (&["pjsip", "show", "channels"], &["core", "show", "channels"]),
    (&["pjsip", "reload"], &["core", "reload"]),
    (&["sip", "reload"], &["core", "reload"]),
    (&["module", "reload", "pbx_config"], &["dialplan", "reload"]),
    (&["pjsip", "set", "logger", "on"], &["sip", "set", "trace", "on"]),
    (&["pjsip", "set", "logger", "off"], &["sip", "set", "trace", "off"]),
    (&["pjsip", "set", "logger", "host"], &["sip", "set", "trace", "on"]),
    (&["sip", "set", "debug", "on"], &["sip", "set", "trace", "on"]),
    (&["sip", "set", "debug", "off"], &["sip", "set", "trace", "off"]),
    (&["sip", "set", "debug", "ip"], &["sip", "set", "trace", "on"]),
    (&["core", "show", "help"], &["help"]),
];
