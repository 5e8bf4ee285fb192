//! The operator's console.
fn main() {}
