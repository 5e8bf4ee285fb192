//! SIP without sockets: wire, transactions, dialogs, the INVITE usage.

pub mod mint;
pub mod path;
pub mod transaction;
pub mod wire;
