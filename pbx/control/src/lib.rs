//! The words of the control socket: what a console may ask a running PBX, what it answers, and how
//! both look on the wire and on a terminal.
//!
//! ```text
//! console                                             pbx
//!    │ ◄──────────────── Hello {protocol, version, pid} │  one line, as soon as it is accepted
//!    │ Request {v, command} ──────────────────────────► │  one line each
//!    │ ◄─────────────────────────────── Reply (a page)  │  none, one or many lines
//!    │ ◄──────────────────────────── End | Refused {..} │  always the last line of an answer
//! ```
//!
//! Every line is one JSON value, ended by a line feed and at most [`LINE_MAX`] bytes long. Long
//! lists come in pages of at most [`PAGE_MAX`] rows, so that a shard never works longer than a
//! moment on one and a slow console holds nothing up.
//!
//! - [`words`]: what the operator types, Asterisk's nouns, to a [`Command`].
//! - [`wire`]: requests and replies.
//! - [`mod@print`]: replies as text, column for column as Asterisk prints them.
//! - [`Console`]: a blocking client, for `pbxctl` and `sipstress`.
//! - [`socket`]: opens the socket on the server's side.
//!
//! It does not know what a call is: the PBX fills in the rows.

mod client;
pub mod places;
pub mod print;
pub mod socket;
pub mod wire;
pub mod words;

pub use client::{Console, Problem, SILENCE_MAX};
pub use wire::{Channel, Command, Counts, Hello, LINE_MAX, PAGE_MAX, PROTOCOL, Reply, Request};
