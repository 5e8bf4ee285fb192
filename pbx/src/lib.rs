//! The PBX: configuration, threads, sockets, journal, control socket, metrics.
pub mod config;
