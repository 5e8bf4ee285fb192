//! Calls as stories: what happens on legs, and what legs are told.

mod bridges;
mod plans;
mod races;
mod random;
mod searches;
mod world;
