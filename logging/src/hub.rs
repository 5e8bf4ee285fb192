//! The hub: where lanes are made and where the writer finds them.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turn::Now;

use crate::field::Fields;
use crate::lane::{Clock, Lane, LaneCounts, LaneReader, LaneShared, LaneSize, Mark};
use crate::site::Site;

/// Lanes that one process may have at a time; a thread beyond shares the common lane.
pub const LANES_MAX: usize = 256;

/// Makes lanes, and hands their other ends to the writer. One per process (tests have several).
pub struct Hub {
    clock: Clock,
    joining: Mutex<Vec<LaneReader>>,
    lanes: Mutex<Lanes>,
    common: Mutex<Lane>,
}

#[derive(Default)]
struct Lanes {
    open: Vec<Arc<LaneShared>>,
    /// The sum of the lanes whose threads have ended.
    ended: LaneCounts,
}

impl Hub {
    /// A hub whose lanes without turns read `clock`. `process` stands for the thread's number in
    /// records of threads that have no lane of their own.
    pub fn new(process: u32, clock: impl Fn() -> Now + Send + Sync + 'static) -> Arc<Self> {
        let clock: Clock = Arc::new(clock);
        let (common, reader) =
            Lane::new("common", process, LaneSize::THREAD, Some(Arc::clone(&clock)));
        let lanes = Lanes {
            open: vec![Arc::clone(reader.shared())],
            ended: LaneCounts { name: "ended".to_owned(), ..LaneCounts::default() },
        };
        Arc::new(Self {
            clock,
            joining: Mutex::new(vec![reader]),
            lanes: Mutex::new(lanes),
            common: Mutex::new(common),
        })
    }

    /// A lane for a thread that works in turns and calls [`Lane::set_now`] in each. `lwp` is the
    /// kernel's number of the thread. `None` beyond [`LANES_MAX`].
    pub fn turn_lane(&self, name: &str, lwp: u32, size: LaneSize) -> Option<Lane> {
        self.open(name, lwp, size, None)
    }

    /// A lane for a thread without turns: each record reads the hub's clock.
    pub fn clock_lane(&self, name: &str, lwp: u32, size: LaneSize) -> Option<Lane> {
        self.open(name, lwp, size, Some(Arc::clone(&self.clock)))
    }

    /// The readers of the lanes that were opened since the last call.
    pub fn take_readers(&self) -> Vec<LaneReader> {
        std::mem::take(&mut lock(&self.joining))
    }

    /// Adds a finished lane's counts to those of the ended ones and forgets the lane.
    pub fn retire(&self, reader: &LaneReader) {
        let mut lanes = lock(&self.lanes);
        let before = lanes.open.len();
        lanes.open.retain(|lane| !Arc::ptr_eq(lane, reader.shared()));
        if lanes.open.len() < before {
            lanes.ended.add(&reader.counts());
        }
    }

    /// The counts of each lane; those of ended lanes are summed under the name `ended`.
    pub fn counts(&self) -> Vec<LaneCounts> {
        let lanes = lock(&self.lanes);
        let mut counts: Vec<_> = lanes.open.iter().map(|lane| lane.counts()).collect();
        counts.push(lanes.ended.clone());
        counts
    }

    /// The hub's clock.
    pub fn now(&self) -> Now {
        (self.clock)()
    }

    /// A record by a thread that has no lane: they share one behind a lock.
    pub(crate) fn record(
        &self,
        site: &'static Site,
        mark: Mark,
        put: impl FnOnce(&mut Fields<'_>),
    ) {
        lock(&self.common).record(site, mark, put);
    }

    fn open(&self, name: &str, lwp: u32, size: LaneSize, clock: Option<Clock>) -> Option<Lane> {
        let mut lanes = lock(&self.lanes);
        if lanes.open.len() >= LANES_MAX {
            return None;
        }
        let (mut lane, reader) = Lane::new(name, lwp, size, clock);
        lane.set_now(self.now());
        lanes.open.push(Arc::clone(reader.shared()));
        drop(lanes);
        lock(&self.joining).push(reader);
        Some(lane)
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}

/// The source of a record, from an address with or without a port.
pub trait Source {
    /// The address alone; an IPv4 address inside an IPv6 one as what it is.
    fn ip(&self) -> Option<IpAddr>;
}

impl Source for IpAddr {
    fn ip(&self) -> Option<IpAddr> {
        Some(self.to_canonical())
    }
}

impl Source for std::net::SocketAddr {
    fn ip(&self) -> Option<IpAddr> {
        Some(std::net::SocketAddr::ip(self).to_canonical())
    }
}

impl<T: Source> Source for Option<T> {
    fn ip(&self) -> Option<IpAddr> {
        self.as_ref().and_then(Source::ip)
    }
}

impl<T: Source> Source for &T {
    fn ip(&self) -> Option<IpAddr> {
        (**self).ip()
    }
}

/// A panic while a lane is held leaves its counts and rings whole, so the poison is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
