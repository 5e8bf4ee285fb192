//! What happened in a call, typed. One place in the program turns facts into log records and
//! metrics; nothing here is formatted before somebody reads it.

use std::sync::Arc;

use crate::channel::Channel;
use crate::leg::Endpoint;

/// The verbosity from which [`CallFact::Step`] and the story of a call are wanted.
pub const STEP_VERBOSITY: u8 = 3;

/// How a `Dial` ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DialStatus {
    /// No `Dial` so far.
    #[default]
    Unset,
    /// Somebody answered.
    Answer,
    /// It rang until the time was over.
    NoAnswer,
    /// The called party is busy.
    Busy,
    /// The way there is congested.
    Congestion,
    /// The destination cannot be reached.
    ChanUnavail,
    /// The caller hung up first.
    Cancel,
}

impl DialStatus {
    /// The value of the variable `DIALSTATUS`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unset => "",
            Self::Answer => "ANSWER",
            Self::NoAnswer => "NOANSWER",
            Self::Busy => "BUSY",
            Self::Congestion => "CONGESTION",
            Self::ChanUnavail => "CHANUNAVAIL",
            Self::Cancel => "CANCEL",
        }
    }
}

/// What went wrong in a plan or at a limit. The call goes on unless the fact says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// The plan ran [`crate::STEPS_WITHOUT_PAUSE_MAX`] steps without waiting for anything; the
    /// call was ended.
    EndlessPlan,
    /// A Goto leads to an extension or step that does not exist; the extension `i` runs, or the
    /// call was ended.
    GotoNowhere,
    /// Subroutines stand more than [`crate::GOSUB_DEPTH_MAX`] deep; the call was ended.
    GosubTooDeep,
    /// A Return without a Gosub; the call was ended.
    NothingToReturnTo,
    /// The database, the global variables or the list of inherited names are full; it was not set.
    NoRoom,
    /// A header line that a plan may not write, or for which there is no room; it was left out.
    HeaderRefused,
    /// The variables of the call are full, or the name or value is too long; it was not set.
    VariablesFull,
    /// A text with variables could not be filled in; the step was left out.
    Unrenderable(dialplan::RenderFault),
    /// A variable that should hold seconds holds something else; the step was left out.
    NotSeconds,
    /// The call has as many legs as it may have; the target was not called.
    LegsFull,
    /// The hops are used up; the target was not called.
    NoHopsLeft,
    /// The caller's session description cannot be answered; the call was ended.
    Undescribable(sdp::Fault),
    /// A leg answered without the session description that it owed; the leg was released.
    AnsweredWithoutDescription,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFact {
    /// A leg came to be.
    NewChannel {
        /// The leg.
        channel: Channel,
    },
    /// A step begins. Only when verbosity [`STEP_VERBOSITY`] is wanted.
    Step {
        /// The leg that runs the plan.
        channel: Channel,
        /// Context.
        context: Box<str>,
        /// Extension.
        exten: Box<str>,
        /// The step's number, from 1.
        priority: u32,
        /// The application.
        app: &'static str,
        /// Its arguments.
        data: Box<str>,
    },
    /// The application Verbose says something. Only when its level is wanted.
    Verbose {
        /// The leg that runs the plan.
        channel: Channel,
        /// From which verbosity on it shows.
        level: u8,
        /// The line.
        text: Box<str>,
    },
    /// The application Log says something.
    Log {
        /// The leg that runs the plan.
        channel: Channel,
        /// At which level.
        level: dialplan::LogLevel,
        /// The line.
        text: Box<str>,
        /// Extension.
        exten: Box<str>,
        /// Context.
        context: Box<str>,
        /// The step's number, from 1.
        priority: u32,
    },
    /// Dial calls a target.
    Called {
        /// The leg that runs the plan.
        channel: Channel,
        /// The new leg.
        target: Channel,
    },
    /// An outbound leg rings.
    Ringing {
        /// The leg.
        channel: Channel,
    },
    /// An outbound leg has early media or other progress.
    Progressing {
        /// The leg.
        channel: Channel,
    },
    /// An outbound leg answered.
    Answered {
        /// The leg.
        channel: Channel,
    },
    /// A Dial ended without an answer.
    Unanswered {
        /// The leg that runs the plan.
        channel: Channel,
        /// How it ended.
        status: DialStatus,
    },
    /// Two legs are joined.
    Bridged {
        /// The leg that runs the plan.
        channel: Channel,
        /// The leg that answered.
        peer: Channel,
    },
    /// A leg ends: it was released by its far end, or by us.
    Hungup {
        /// The leg.
        channel: Channel,
        /// Q.850 cause.
        q850: u8,
        /// The technology's code, 0 when it gave none.
        code: u16,
    },
    /// The dialled number is not in the plan. For the security log, too.
    NoExtension {
        /// The leg.
        channel: Channel,
        /// Who called.
        endpoint: Arc<Endpoint>,
        /// The caller's number.
        caller: Box<str>,
        /// The caller's address.
        peer: Box<str>,
        /// The number dialled.
        exten: Box<str>,
        /// The context it is not in.
        context: Box<str>,
    },
    /// Something is wrong with the plan, or a limit was met.
    Fault {
        /// The leg that runs the plan.
        channel: Channel,
        /// What it is.
        fault: CallFault,
        /// Extension.
        exten: Box<str>,
        /// Context.
        context: Box<str>,
        /// The step's number, from 1.
        priority: u32,
    },
}
