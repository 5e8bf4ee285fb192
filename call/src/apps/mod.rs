//! The applications that a step may name, one function each.

pub(crate) mod dial;
pub(crate) mod set;
pub(crate) mod simple;
pub(crate) mod wait;
