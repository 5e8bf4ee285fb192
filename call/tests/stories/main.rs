//! Calls as stories: what happens on legs, and what legs are told.

// A story looks for the one thing that it is about.
#![allow(clippy::wildcard_enum_match_arm)]

mod bridges;
mod language;
mod plans;
mod races;
mod random;
mod searches;
mod world;
