//! From TOML to a [`Plan`](crate::Plan): what was said (this folder), then what it means (`link`).

mod apps;
mod args;
mod conditions;
mod expressions;
mod file;
mod flow;
mod functions;
mod hints;
mod known;
mod link;
mod sets;
mod steps;
mod strings;
mod targets;
mod templates;

pub use file::parse;
pub(crate) use known::shown;
pub use known::suggestion;
pub use targets::parse_target;
