//! From TOML to a [`Plan`](crate::Plan): what was said (this folder), then what it means (`link`).

mod apps;
mod args;
mod conditions;
mod file;
mod known;
mod link;
mod steps;
mod strings;
mod targets;
mod templates;

pub use file::parse;
pub use known::suggestion;
