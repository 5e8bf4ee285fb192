//! The PBX.
fn main() {}
