//! TOML to a checked, compiled dialplan; matching and step evaluation.

mod app;
mod condition;
mod diff;
mod explain;
mod fault;
pub mod limits;
mod listing;
mod matcher;
mod pattern;
mod plan;
mod read;
mod template;

pub use app::{
    Address, App, Dial, GotoTarget, HangupCause, Mode, Seconds, Step, Target, Technology,
};
pub use condition::{Comparison, Condition};
pub use diff::{Change, Difference};
pub use fault::{Fault, Faults};
pub use listing::{ContextView, ExtensionView};
pub use plan::{ExtensionId, Match, MatchResult, NoWay, Plan, TrunkReference};
pub use read::{parse, suggestion};
pub use template::{RenderFault, Template, Variables};
