//! The load tester that says truthfully what broke.
fn main() {}
