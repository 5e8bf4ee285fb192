//! TOML to a checked, compiled dialplan; how a number finds its extension, and what its steps say.
//!
//! ```text
//! files ──► read (what was said, with places) ──► link (what it means) ──► Plan
//!               └── all faults at once, with line and caret ◄──┘
//! ```
//!
//! Everything that can be decided at load is: applications and their arguments are typed, a target
//! of Dial is split, a Goto in plain text must lead somewhere. What a variable holds in a call is
//! data and never read as syntax. `etc/dialplan.toml` explains the language where one edits it.
//!
//! Not here: running steps (crate `call`), trunks (`pbx` checks [`Plan::trunks_referenced`]), and
//! of Asterisk's language functions, arithmetic, hints, switches, includes by time and the
//! applications beyond [`App`]; each is refused by name as "not built yet".
//!
//! ```
//! let text = r#"
//! [[context.default.exten]]
//! match = "_9."
//! steps = ["Dial(SIP/carrier/${EXTEN:1},30)", "Hangup()"]
//! "#;
//! let plan = dialplan::parse(&[("dialplan.toml", text)]).expect("this plan has no faults");
//! let found = plan.find("default", "9180055512", "");
//! assert_eq!(found.result, dialplan::MatchResult::CompleteOrMore);
//! ```

mod app;
mod condition;
mod diff;
mod explain;
mod expression;
mod fault;
mod flow;
pub mod function;
pub mod limits;
mod listing;
mod matcher;
mod pattern;
mod plan;
mod read;
mod set;
mod template;
mod time;

pub use app::{
    Address, App, Dial, GotoTarget, HangupCause, LogLevel, Mode, Seconds, Step, Target, Technology,
};
pub use condition::Condition;
pub use diff::{Change, Difference};
pub use expression::{Expression, Operator};
pub use fault::{Fault, Faults};
pub use flow::{Clock, Execution, GosubCall, Inner, Test};
pub use function::{Function, Question};
pub use listing::{ContextView, ExtensionView};
pub use plan::{ExtensionId, Match, MatchResult, NoWay, Plan, Seeker, TrunkReference};
pub use read::{parse, parse_target, suggestion};
pub use set::{Assignment, HeaderChange, Heirs, SetTarget, is_free_header};
pub use template::{RenderFault, Template, Variables};
pub use time::{Moment, Times};
