//! TOML to a checked, compiled dialplan; matching and step evaluation.

mod app;
mod condition;
pub mod limits;
mod plan;
mod template;

pub use app::{
    Address, App, Dial, GotoTarget, HangupCause, Mode, Seconds, Step, Target, Technology,
};
pub use condition::{Comparison, Condition};
pub use plan::{ExtensionId, Match, MatchResult, Plan};
pub use template::{RenderFault, Template, Variables};
