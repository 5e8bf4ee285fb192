//! The applications a step may name, with their arguments taken apart at load.
//!
//! What Asterisk has and this list has not is refused at load as "not built yet".

use std::time::Duration;

use crate::flow::{Execution, GosubCall, Test};
use crate::limits::SECONDS_MAX;
use crate::set::Assignment;
use crate::template::{RenderFault, Template, Variables};

/// One step of an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What to do.
    pub app: App,
    /// Its label for Goto, when it has one.
    pub label: Option<Box<str>>,
    /// Its arguments as written, for listings.
    pub data: Box<str>,
    /// The line of its file.
    pub line: u32,
}

/// An application and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum App {
    /// Answer the call.
    Answer,
    /// End the call.
    Hangup {
        /// Q.850 cause; `None` is normal clearing.
        cause: Option<HangupCause>,
    },
    /// Call one or more targets and bridge the first that answers.
    Dial(Box<Dial>),
    /// Tell the caller that it rings.
    Ringing,
    /// Tell the caller that there is early media.
    Progress,
    /// Tell the caller busy and wait for its hang-up, or for the timeout.
    Busy {
        /// Hang up after this long; `None` waits for the caller.
        timeout: Option<Seconds>,
    },
    /// Tell the caller congestion and wait for its hang-up, or for the timeout.
    Congestion {
        /// Hang up after this long; `None` waits for the caller.
        timeout: Option<Seconds>,
    },
    /// Wait.
    Wait(Seconds),
    /// Do nothing; the text shows in the log.
    NoOp(Template),
    /// Set variables and what else can be set (`Set`, `MSet`, `SIPAddHeader` ...).
    Set(Box<[Assignment]>),
    /// Take entries out of the database.
    DatabaseDelete {
        /// The family.
        family: Template,
        /// The key; `None` is all below the family.
        key: Option<Template>,
    },
    /// Go on elsewhere.
    Goto(GotoTarget),
    /// Go on at one of two places (`GotoIf`, `GotoIfTime`).
    GotoIf {
        /// The condition or the times.
        test: Test,
        /// Where to when it holds; `None` is the next step.
        yes: Option<GotoTarget>,
        /// Where to when it does not; `None` is the next step.
        no: Option<GotoTarget>,
    },
    /// Go on elsewhere and come back with Return (`Gosub`, `GosubIf`).
    Gosub {
        /// The condition of `GosubIf`.
        test: Option<Test>,
        /// Where to when it holds.
        yes: Option<Box<GosubCall>>,
        /// Where to when it does not.
        no: Option<Box<GosubCall>>,
    },
    /// Go back behind the last Gosub; the text becomes `GOSUB_RETVAL`.
    Return(Template),
    /// Forget the last Gosub.
    StackPop,
    /// Run one of two applications (`ExecIf`, `ExecIfTime`).
    ExecIf(Box<Execution>),
    /// Begin a loop: while the condition holds.
    While {
        /// The condition.
        test: Test,
        /// The step behind its EndWhile.
        after: u16,
    },
    /// Jump inside a loop: `EndWhile` and `ContinueWhile` to its While, `ExitWhile` behind it.
    Jump {
        /// Its name.
        name: &'static str,
        /// The step.
        to: u16,
    },
    /// Write a line to the log.
    Log {
        /// At which level.
        level: LogLevel,
        /// The line.
        text: Template,
    },
    /// Write a line to the log at a verbosity.
    Verbose {
        /// From which verbosity on it shows.
        level: u8,
        /// The line.
        text: Template,
    },
}

impl App {
    /// Its name as in the dialplan.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Answer => "Answer",
            Self::Hangup { .. } => "Hangup",
            Self::Dial(_) => "Dial",
            Self::Ringing => "Ringing",
            Self::Progress => "Progress",
            Self::Busy { .. } => "Busy",
            Self::Congestion { .. } => "Congestion",
            Self::Wait(_) => "Wait",
            Self::NoOp(_) => "NoOp",
            Self::Set(_) => "Set",
            Self::DatabaseDelete { key: Some(_), .. } => "DBdel",
            Self::DatabaseDelete { key: None, .. } => "DBdeltree",
            Self::Goto(_) => "Goto",
            Self::GotoIf { test: Test::Time(_), .. } => "GotoIfTime",
            Self::GotoIf { .. } => "GotoIf",
            Self::Gosub { test: None, .. } => "Gosub",
            Self::Gosub { .. } => "GosubIf",
            Self::Return(_) => "Return",
            Self::StackPop => "StackPop",
            Self::ExecIf(execution) => execution.name(),
            Self::While { .. } => "While",
            Self::Jump { name, .. } => name,
            Self::Log { .. } => "Log",
            Self::Verbose { .. } => "Verbose",
        }
    }
}

/// The level of a line of Log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Shows where debugging is switched on.
    Debug,
    /// Something worth a note.
    Notice,
    /// Something is odd.
    Warning,
    /// Something failed.
    Error,
    /// As [`App::Verbose`] at 1.
    Verbose,
}

/// The arguments of Dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// Whom to call.
    pub targets: Vec<Target>,
    /// All at once or one after the other.
    pub mode: Mode,
    /// How long to wait for an answer (of each target, when in turn); `None` is for ever.
    pub ring_timeout: Option<Seconds>,
    /// Option `r`: tell the caller that it rings at once, before any target does.
    pub ringing: bool,
    /// Option `g`: go on with the next step when the callee hangs up.
    pub go_on: bool,
    /// Option `i`: a target that points elsewhere (a 3xx) is not followed.
    pub stays: bool,
    /// Options `L(ms)` and `S(s)`: hang up so long after the answer.
    pub talk_limit: Option<Duration>,
}

/// How several targets are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All at once; the first to answer wins.
    Parallel,
    /// One after the other, in order.
    Sequential,
}

/// One target of Dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// By what kind of leg.
    pub technology: Technology,
    /// Where to.
    pub address: Address<Template>,
}

/// A kind of leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Technology {
    /// SIP.
    Sip,
    /// Another extension of the plan, as a leg.
    Local,
}

impl Technology {
    /// Its name as in a target.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sip => "SIP",
            Self::Local => "Local",
        }
    }
}

/// Where a leg goes: as written (`T` is [`Template`]) or filled in (`T` is `Box<str>`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address<T> {
    /// Through a configured trunk.
    Trunk {
        /// The trunk's name.
        name: T,
        /// The number to dial there; `None` leaves the user part of the trunk's own URI. It is
        /// data: escape it where it becomes part of a URI.
        number: Option<T>,
    },
    /// To a SIP URI. Values in it are escaped already.
    Uri(T),
    /// To an extension of the plan.
    Local {
        /// The number.
        number: T,
        /// The context.
        context: T,
    },
}

impl Address<Template> {
    /// Fills in the variables.
    pub fn rendered(&self, vars: &dyn Variables) -> Result<Address<Box<str>>, RenderFault> {
        Ok(match self {
            Self::Trunk { name, number } => Address::Trunk {
                name: name.rendered(vars)?,
                number: number.as_ref().map(|number| number.rendered(vars)).transpose()?,
            },
            Self::Uri(uri) => Address::Uri(uri.rendered(vars)?),
            Self::Local { number, context } => {
                Address::Local { number: number.rendered(vars)?, context: context.rendered(vars)? }
            }
        })
    }
}

/// A length of time in seconds, fixed at load or held by a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seconds {
    /// Known at load.
    Fixed(Duration),
    /// Known in the call.
    Computed(Template),
}

impl Seconds {
    /// The length; `None` when the variable holds no number of seconds from 0 to
    /// [`SECONDS_MAX`].
    pub fn length(&self, vars: &dyn Variables) -> Option<Duration> {
        match self {
            Self::Fixed(length) => Some(*length),
            Self::Computed(text) => seconds(&text.rendered(vars).ok()?),
        }
    }
}

/// Reads `30` or `0.5`.
pub(crate) fn seconds(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    let millis = (0..3).fold(0, |sum, at| {
        sum * 10 + fraction.as_bytes().get(at).map_or(0, |digit| u64::from(digit - b'0'))
    });
    let length = Duration::from_millis(whole.checked_mul(1_000)?.checked_add(millis)?);
    (length <= Duration::from_secs(SECONDS_MAX)).then_some(length)
}

/// The cause of Hangup, fixed at load or held by a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HangupCause {
    /// Known at load: a Q.850 cause from 1 to 127.
    Fixed(u8),
    /// Known in the call.
    Computed(Template),
}

impl HangupCause {
    /// The Q.850 cause; `None` when the variable holds none.
    pub fn q850(&self, vars: &dyn Variables) -> Option<u8> {
        match self {
            Self::Fixed(cause) => Some(*cause),
            Self::Computed(text) => cause(&text.rendered(vars).ok()?),
        }
    }
}

/// Reads `17` or `USER_BUSY`.
pub(crate) fn cause(text: &str) -> Option<u8> {
    let text = text.trim();
    if let Ok(number) = text.parse::<u8>() {
        return (1..=127).contains(&number).then_some(number);
    }
    CAUSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, cause)| *cause)
}

/// The names that Asterisk knows, of the causes that a dialplan may give.
pub(crate) const CAUSES: &[(&str, u8)] = &[
    ("UNALLOCATED", 1),
    ("NO_ROUTE_TRANSIT_NET", 2),
    ("NO_ROUTE_DESTINATION", 3),
    ("NORMAL_CLEARING", 16),
    ("USER_BUSY", 17),
    ("BUSY", 17),
    ("NO_USER_RESPONSE", 18),
    ("NO_ANSWER", 19),
    ("NOANSWER", 19),
    ("SUBSCRIBER_ABSENT", 20),
    ("CALL_REJECTED", 21),
    ("NUMBER_CHANGED", 22),
    ("DESTINATION_OUT_OF_ORDER", 27),
    ("INVALID_NUMBER_FORMAT", 28),
    ("FACILITY_REJECTED", 29),
    ("NORMAL_UNSPECIFIED", 31),
    ("NORMAL", 16),
    ("NORMAL_CIRCUIT_CONGESTION", 34),
    ("CONGESTION", 34),
    ("NETWORK_OUT_OF_ORDER", 38),
    ("NORMAL_TEMPORARY_FAILURE", 41),
    ("FAILURE", 38),
    ("SWITCH_CONGESTION", 42),
    ("FACILITY_NOT_SUBSCRIBED", 50),
    ("BEARERCAPABILITY_NOTAVAIL", 58),
    ("INTERWORKING", 127),
];

/// Where Goto goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GotoTarget {
    /// The context; `None` is the one that the call is in.
    pub context: Option<Template>,
    /// The number; `None` is the one that the call is in.
    pub number: Option<Template>,
    /// The step: its label, or its number from 1.
    pub step: Template,
}
