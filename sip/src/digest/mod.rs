//! Digest authentication, both ways (RFC 7616, RFC 8760, RFC 3261 §22).
//!
//! - [`Challenger`]: our challenges, and what comes back for them. It keeps no state: a nonce
//!   carries its time and a check that only we can make, so every shard can judge the nonces of
//!   all. How often a nonce has been used is another's business ([`NonceCounts`], [`NonceWindow`]).
//! - [`Answering`]: a challenge to us, and our answer.
//! - [`Secret`], [`Account`]: passwords, or the hashes that stand for them; neither can be printed.
//!
//! Offered and understood: MD5, SHA-256, SHA-512-256, each also as `-sess`, with `qop=auth`. Not
//! built: `auth-int` (its body hash breaks behind every proxy that touches a body) and `userhash`.
//! Credentials without `qop` (RFC 2069) are not accepted, since they could be replayed; a server
//! that challenges without it gets its answer. That the digest's URI may differ from the
//! Request-URI is as RFC 3261 §22.4 has it: a proxy may have changed the latter.

mod answer;
mod challenge;
mod credentials;
mod hash;
mod window;

pub use answer::{Account, Answering, Password, Refusal};
pub use challenge::{Challenger, Checked, Verdict};
pub use credentials::Fields;
pub use hash::{Algorithm, BadHash, Secret};
pub use window::{NonceCounts, NonceWindow};
