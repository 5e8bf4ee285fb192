//! The PBX: configuration, threads, sockets, journal, control socket, metrics.
fn main() {}
