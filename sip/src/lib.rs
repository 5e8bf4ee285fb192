//! SIP without sockets: wire, transactions, dialogs, the INVITE usage.

pub mod agent;
pub mod dialog;
pub mod digest;
pub mod endpoint;
pub mod locate;
pub mod mint;
pub mod path;
pub mod registrar;
pub mod registration;
pub mod transaction;
pub mod usage;
pub mod wire;
