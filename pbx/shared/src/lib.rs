//! The tables that all shards of one program share, behind the traits of `pbx-core`.
//!
//! - [`LocationTable`]: where endpoints are, in a concurrent map; one look-up for each call to an
//!   endpoint and for each REGISTER.
//! - [`NonceTable`]: how often each nonce has been used (RFC 7616 3.4.5, against replay).
//! - [`DatabaseTable`]: the plan's database, and another one for its global variables.
//!
//! Nothing here lasts: what must survive is told by the shards (`pbx_core::Stored`) and read back
//! at the start.

mod database;
mod locations;
mod nonces;

pub use database::{DATABASE_MAX, DatabaseTable, NAME_MAX, VALUE_MAX};
pub use locations::LocationTable;
pub use nonces::{NONCES_MAX, NonceTable};

use std::sync::Arc;
use std::time::Duration;

use pbx_core::Shared;

/// Empty tables for up to `endpoints_max` endpoints, and for nonces that live so long.
pub fn shared(endpoints_max: usize, nonce_lifetime: Duration) -> Shared {
    Shared {
        locations: Arc::new(LocationTable::new(endpoints_max)),
        nonces: Arc::new(NonceTable::new(nonce_lifetime)),
        database: Arc::new(DatabaseTable::default()),
        globals: Arc::new(DatabaseTable::default()),
    }
}
