//! Calls, legs, search, bridge, dialplan interpreter and call record, without any technology.
//!
//! A [`Calls`] is the table of one shard's calls. It takes what happens on legs ([`LegEvent`]) and
//! due timers, and puts what is to be done into a [`CallOut`]: commands for legs ([`LegCommand`]),
//! timers to arm, facts and records. After each input the caller drains that outbox in order, then
//! gives the next input. Nothing here does I/O, reads a clock or waits: a call that waits is a
//! value in the table.
//!
//! ```text
//! adapter ── setup, on_leg ──► Calls ──► Call ─► interpreter ─► apps: dial ─► search ─► bridge
//! wheel ──── on_timer ───────►   │                                │
//! turn end ─ resume ─────────►   └──────► CallOut: commands, timers, facts, records
//! ```
//!
//! Not here: SIP or DAHDI (the adapters of `pbx-core`), media, registration, any text of a log.

mod apps;
mod bridge;
mod call;
mod call_vars;
mod calls;
mod cause;
mod channel;
mod early;
mod events;
mod extras;
mod facts;
mod flow;
mod interpreter;
pub mod leg;
mod leg_state;
mod out;
mod record;
mod search;
mod text;
mod vars;
mod view;
mod world;

pub use calls::{CallLimits, Calls, Refusal};
pub use cause::{Cause, Origin};
pub use channel::{CallNumber, Channel, Naming};
pub use extras::{GOSUB_DEPTH_MAX, HEADER_BYTES_MAX, HEADERS_MAX, HEIRLOOMS_MAX};
pub use facts::{CallFact, CallFault, DialStatus, STEP_VERBOSITY};
pub use interpreter::STEPS_WITHOUT_PAUSE_MAX;
pub use leg::{
    Description, Destination, EARLY_MAX, Early, Endpoint, Foreign, Heirloom, LegCommand, LegEvent,
    LegId, NOBODY, OfferId, Placement, RequestId, SessionPart, Setup, SetupText,
};
pub use leg_state::LegState;
pub use out::{CallCounts, CallOut, CallTimer, Cx, TIMER_SLICE, TimerKind};
pub use record::{Disposition, EndedBy, Marks, Record, UniqueId};
pub use text::{TEXT_MAX, Text};
pub use vars::VARIABLES_MAX;
pub use view::ChannelView;
pub use world::{DeviceState, Void, World};
