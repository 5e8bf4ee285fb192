//! SIP over TCP (RFC 3261 18): listeners and connections, beside the shards.
//!
//! ```text
//! accept ──► limits ──► connection ── messages ──► StreamUser::received
//!                          ▲   └─ ends: peer, idle, too slow, broken framing, full, program
//! send ──► flow to that peer, or connect ─ failed ──► StreamUser::failed
//! ```
//!
//! All connections live on one runtime; each is a task with two queues that have limits. A *flow*
//! is found by the peer's address: what goes to a peer with which there is a connection takes it,
//! whoever opened it (RFC 3261 18.2.2, RFC 5923). Nothing waits: a message that no connection takes
//! is given back.

mod connection;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use connection::Connection;

/// How much connections may take and last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Connections at a time, both ways; the next one is closed at once.
    pub connections: usize,
    /// Connections from one address at a time; the next one is closed at once.
    pub per_address: usize,
    /// Without a byte from the peer for so long, a connection is closed. Phones send keep-alives
    /// every two minutes or so (RFC 5626 4.4.1).
    pub idle: Duration,
    /// A new connection must bring its first message within this time.
    pub first: Duration,
    /// A message that has begun must have ended within this time, and what we send must be taken.
    pub whole: Duration,
    /// How long a connection of ours may take to be set up.
    pub connect: Duration,
    /// Bytes that wait for a peer to read them; beyond, the connection is closed.
    pub queue: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            connections: 4_096,
            per_address: 256,
            idle: Duration::from_secs(900),
            first: Duration::from_secs(10),
            whole: Duration::from_secs(10),
            connect: Duration::from_secs(4),
            queue: 1 << 18,
        }
    }
}

/// Who gets what comes in.
pub trait StreamUser: Send + Sync + 'static {
    /// Messages of one connection, in order; `local` is our address that a message should name.
    fn received(&self, local: SocketAddr, remote: SocketAddr, messages: &[Vec<u8>]);

    /// A stream whose framing is lost begins so; gives what to say before it is closed.
    fn broken(&self, local: SocketAddr, remote: SocketAddr, rest: &[u8]) -> Option<Vec<u8>>;

    /// A message of that sender will not arrive.
    fn failed(&self, sender: u8, message: Box<[u8]>);

    /// A connection has ended, or was not let in.
    fn closed(&self, remote: SocketAddr, why: Closed);
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The peer closed it, or the network broke it.
    ByPeer,
    /// Nothing came for too long.
    Idle,
    /// A message, or the first one, did not come in time.
    Slow,
    /// The framing was lost.
    Broken,
    /// The peer did not take what we sent.
    Full,
    /// There are too many, or too many from that address.
    Refused,
    /// It could not be set up.
    Unreachable,
    /// The program ends.
    Ended,
}

impl Closed {
    /// How many there are.
    pub const COUNT: usize = 8;

    /// Every one.
    pub const ALL: [Self; Self::COUNT] = [
        Self::ByPeer,
        Self::Idle,
        Self::Slow,
        Self::Broken,
        Self::Full,
        Self::Refused,
        Self::Unreachable,
        Self::Ended,
    ];

    /// A word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ByPeer => "peer",
            Self::Idle => "idle",
            Self::Slow => "slow",
            Self::Broken => "broken",
            Self::Full => "full",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Ended => "ended",
        }
    }
}

/// What was counted, and what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Connections that there are.
    pub open: usize,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Connections that we opened since the start.
    pub connected: u64,
    /// Messages received.
    pub received: u64,
    /// Messages sent.
    pub sent: u64,
    /// Connections that ended, by [`Closed::ALL`].
    pub closed: [u64; Closed::COUNT],
}

/// All connections; cheap to clone.
#[derive(Clone)]
pub struct Streams {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) limits: StreamLimits,
    pub(crate) user: Arc<dyn StreamUser>,
    flows: DashMap<SocketAddr, Flow>,
    per_address: DashMap<IpAddr, usize>,
    open: AtomicUsize,
    counts: Counts,
    runtime: Handle,
    stop: watch::Sender<bool>,
}

#[derive(Default)]
pub(crate) struct Counts {
    accepted: AtomicU64,
    connected: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    closed: [AtomicU64; Closed::COUNT],
    serial: AtomicU64,
}

/// The way into a connection.
struct Flow {
    /// Which connection it is: a newer one may have taken the place of an older.
    serial: u64,
    queue: mpsc::UnboundedSender<Parcel>,
    /// Bytes in the queue.
    waiting: Arc<AtomicUsize>,
}

/// A message on its way out.
pub(crate) struct Parcel {
    pub(crate) sender: u8,
    pub(crate) bytes: Box<[u8]>,
}

/// The other end of a [`Flow`].
pub(crate) struct Outlet {
    pub(crate) queue: mpsc::UnboundedReceiver<Parcel>,
    pub(crate) waiting: Arc<AtomicUsize>,
}

impl Streams {
    /// No connection yet. Its tasks run on `runtime`.
    pub fn new(limits: StreamLimits, user: Arc<dyn StreamUser>, runtime: Handle) -> Self {
        let shared = Shared {
            limits,
            user,
            flows: DashMap::new(),
            per_address: DashMap::new(),
            open: AtomicUsize::new(0),
            counts: Counts::default(),
            runtime,
            stop: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Lets connections in at a listener that is bound already.
    pub fn listen(&self, listener: std::net::TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let shared = Arc::clone(&self.shared);
        let _inside = shared.runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        shared.runtime.clone().spawn(accept(shared, listener));
        Ok(())
    }

    /// Sends a message over the connection with that peer; without one, a connection is opened.
    /// What cannot be sent comes back by [`StreamUser::failed`]. Never waits.
    pub fn send(&self, local: SocketAddr, remote: SocketAddr, sender: u8, bytes: &[u8]) {
        let shared = &self.shared;
        let parcel = Parcel { sender, bytes: bytes.into() };
        match shared.flows.entry(remote) {
            Entry::Occupied(flow) => {
                if let Err(parcel) = flow.get().push(parcel, shared.limits.queue) {
                    drop(flow);
                    shared.user.failed(parcel.sender, parcel.bytes);
                }
            }
            Entry::Vacant(place) => {
                // A message that is larger than a queue may be is no message.
                let (flow, outlet) = shared.flow();
                let serial = flow.serial;
                let _ = flow.push(parcel, usize::MAX);
                place.insert(flow);
                let shared = Arc::clone(shared);
                let runtime = shared.runtime.clone();
                runtime.spawn(connect(shared, (local, remote, serial), outlet));
            }
        }
    }

    /// Whether there is a connection with that peer, or one is being opened.
    pub fn has_flow(&self, remote: SocketAddr) -> bool {
        self.shared.flows.contains_key(&remote)
    }

    /// What was counted.
    pub fn counts(&self) -> StreamCounts {
        let counts = &self.shared.counts;
        let read = |it: &AtomicU64| it.load(Ordering::Relaxed);
        StreamCounts {
            open: self.shared.open.load(Ordering::Relaxed),
            accepted: read(&counts.accepted),
            connected: read(&counts.connected),
            received: read(&counts.received),
            sent: read(&counts.sent),
            closed: counts.closed.each_ref().map(read),
        }
    }

    /// Returns when [`Streams::stop`] has been called and no connection is left.
    pub async fn ended(&self) {
        let mut stopping = self.shared.stopping();
        let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
        for _ in 0..ENDED_POLLS {
            if self.shared.open.load(Ordering::Relaxed) == 0 {
                return;
            }
            tokio::time::sleep(ENDED_POLL).await;
        }
    }

    /// Closes all connections and lets no more in.
    pub fn stop(&self) {
        self.shared.stop.send_replace(true);
    }
}

impl Flow {
    /// Puts a message into the queue, unless that is full or nobody empties it any more.
    fn push(&self, parcel: Parcel, most: usize) -> Result<(), Parcel> {
        let length = parcel.bytes.len();
        if self.waiting.fetch_add(length, Ordering::Relaxed) + length > most {
            self.waiting.fetch_sub(length, Ordering::Relaxed);
            return Err(parcel);
        }
        self.queue.send(parcel).map_err(|refused| refused.0)
    }
}

impl Shared {
    fn flow(&self) -> (Flow, Outlet) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let serial = self.counts.serial.fetch_add(1, Ordering::Relaxed);
        let flow = Flow { serial, queue: sender, waiting: Arc::clone(&waiting) };
        (flow, Outlet { queue: receiver, waiting })
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Takes a place among the connections.
    fn enter(&self, remote: SocketAddr, is_inbound: bool) -> bool {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.limits.connections {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let mut of_address = self.per_address.entry(remote.ip()).or_insert(0);
        if is_inbound && *of_address >= self.limits.per_address {
            drop(of_address);
            self.open.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        *of_address += 1;
        true
    }

    fn leave(&self, remote: SocketAddr) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        if let Entry::Occupied(mut of_address) = self.per_address.entry(remote.ip()) {
            *of_address.get_mut() -= 1;
            if *of_address.get() == 0 {
                of_address.remove();
            }
        }
    }

    fn count_closed(&self, remote: SocketAddr, why: Closed) {
        let place = Closed::ALL.iter().position(|it| *it == why).unwrap_or(0);
        self.counts.closed[place].fetch_add(1, Ordering::Relaxed);
        self.user.closed(remote, why);
    }

    /// A connection has ended: its flow is forgotten, and what it did not send is given back.
    fn close(&self, (remote, serial): (SocketAddr, u64), mut outlet: Outlet, why: Closed) {
        self.flows.remove_if(&remote, |_, flow| flow.serial == serial);
        outlet.queue.close();
        while let Ok(parcel) = outlet.queue.try_recv() {
            self.user.failed(parcel.sender, parcel.bytes);
        }
        self.count_closed(remote, why);
    }

    async fn run(
        self: Arc<Self>,
        stream: TcpStream,
        (local, remote, serial): (SocketAddr, SocketAddr, u64),
        mut outlet: Outlet,
    ) {
        // Without it a small message waits for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let mut connection = Connection::new(Arc::clone(&self), stream, local, remote);
        let why = connection.run(&mut outlet).await;
        drop(connection);
        self.close((remote, serial), outlet, why);
        self.leave(remote);
    }
}

/// How long the last connections may take to end.
const ENDED_POLLS: u32 = 100;
const ENDED_POLL: Duration = Duration::from_millis(10);

/// How long to wait when the program has no descriptor left: others will end.
const PAUSE: Duration = Duration::from_millis(100);

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let mut stopping = shared.stopping();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.changed() => return,
        };
        let Ok((stream, remote)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Ok(local) = stream.local_addr() else { continue };
        if !shared.enter(remote, true) {
            shared.count_closed(remote, Closed::Refused);
            continue;
        }
        shared.counts.accepted.fetch_add(1, Ordering::Relaxed);
        let (flow, outlet) = shared.flow();
        let serial = flow.serial;
        shared.flows.insert(remote, flow);
        tokio::spawn(Arc::clone(&shared).run(stream, (local, remote, serial), outlet));
    }
}

async fn connect(
    shared: Arc<Shared>,
    (local, remote, serial): (SocketAddr, SocketAddr, u64),
    outlet: Outlet,
) {
    if *shared.stopping().borrow() || !shared.enter(remote, false) {
        shared.close((remote, serial), outlet, Closed::Refused);
        return;
    }
    let opened = tokio::time::timeout(shared.limits.connect, TcpStream::connect(remote)).await;
    match opened {
        Ok(Ok(stream)) => {
            shared.counts.connected.fetch_add(1, Ordering::Relaxed);
            shared.run(stream, (local, remote, serial), outlet).await;
        }
        Ok(Err(_)) | Err(_) => {
            shared.close((remote, serial), outlet, Closed::Unreachable);
            shared.leave(remote);
        }
    }
}
