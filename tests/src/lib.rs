//! What the tests of the whole workspace share. The tests stand beside this folder, one file or
//! folder for each kind: `tidy.rs` and `arrows.rs` keep the style, the others the behaviour.

pub mod rust_text;
pub mod tree;
