//! SIP without sockets: wire, transactions, dialogs, the INVITE usage.
