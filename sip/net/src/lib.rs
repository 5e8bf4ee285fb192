//! SIP's sockets: UDP in batches.
