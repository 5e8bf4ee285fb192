//! The lane of the running thread, for the short form of the macros and for libraries' events.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use turn::Now;

use crate::field::Fields;
use crate::hub::Hub;
use crate::lane::{Lane, Mark};
use crate::site::Site;

static HUB: OnceLock<Arc<Hub>> = OnceLock::new();
static UNHEARD: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static LANE: RefCell<Option<Lane>> = const { RefCell::new(None) };
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The process already has a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyInstalled;

impl std::fmt::Display for AlreadyInstalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("logging is already installed in this process")
    }
}

impl std::error::Error for AlreadyInstalled {}

/// Makes `hub` the one where threads without a lane put their records.
pub fn install(hub: &Arc<Hub>) -> Result<(), AlreadyInstalled> {
    HUB.set(Arc::clone(hub)).map_err(|_| AlreadyInstalled)
}

/// Gives the running thread its lane, and returns the former one.
pub fn enter(lane: Lane) -> Option<Lane> {
    LANE.with_borrow_mut(|slot| slot.replace(lane))
}

/// Takes the running thread's lane away.
pub fn leave() -> Option<Lane> {
    LANE.with_borrow_mut(Option::take)
}

/// Tells the running thread's lane what time it is: once a turn.
#[inline]
pub fn set_now(now: Now) {
    LANE.with_borrow_mut(|slot| {
        if let Some(lane) = slot {
            lane.set_now(now);
        }
    });
}

/// Records that nobody could take: made while no hub was installed, or by the `Display` of a field
/// of a record that was just going into the common lane.
pub fn unheard() -> u64 {
    UNHEARD.load(Ordering::Relaxed)
}

/// The lane of the running thread, or the common one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Here;

impl Here {
    /// Puts a record in: what the macros do once the gate is open.
    #[inline]
    pub fn record(self, site: &'static Site, mark: Mark, put: impl FnOnce(&mut Fields<'_>)) {
        let mut put = Some(put);
        // Not there: no lane, the thread is ending, or a field's own Display logs.
        let _ = LANE.try_with(|slot| {
            if let Ok(mut slot) = slot.try_borrow_mut()
                && let Some(lane) = &mut *slot
                && let Some(put) = put.take()
            {
                lane.record(site, mark, put);
            }
        });
        if let Some(put) = put {
            common(site, mark, put);
        }
    }
}

fn common(site: &'static Site, mark: Mark, put: impl FnOnce(&mut Fields<'_>)) {
    match (HUB.get(), Inside::enter()) {
        (Some(hub), Some(_inside)) => hub.record(site, mark, put),
        _ => {
            UNHEARD.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Held while this thread is inside the common lane, whose lock it must not take twice.
struct Inside;

impl Inside {
    fn enter() -> Option<Self> {
        let was_inside = IS_INSIDE.try_with(|inside| inside.replace(true)).ok()?;
        (!was_inside).then_some(Self)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = IS_INSIDE.try_with(|inside| inside.set(false));
    }
}
