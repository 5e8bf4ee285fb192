//! SIP over TCP: the thread of all connections, between them and the shards.
//!
//! A message that comes in goes to the shard that it belongs to, like a datagram that another
//! shard's socket received; what a shard sends goes to the connection with its peer. What no
//! connection takes is given back to its shard, whose transaction ends then (RFC 3261 18.4).

use crate::driver::HopPosts;
use crate::mailbox::Post;
use crate::metrics::DriverCounts;
use crate::threads;
use logging::{Hub, debug, notice};
use metrics::{counter, gauge};
use pbx_core::{Router, ShardOut};
use sip::path::{Outbox, Path, Transport};
use sip::wire::{Builder, CopyWith, Framing, Index, copy_response_head};
use sip_net::{Clock, Closed, StreamLimits, StreamUser, Streams};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// The running connections, and their thread.
pub(crate) struct Running {
    pub(crate) streams: Streams,
    thread: JoinHandle<()>,
}

impl Running {
    /// Closes all connections.
    pub(crate) fn stop(self) {
        self.streams.stop();
        let _ = self.thread.join();
    }
}

/// Lets connections in.
pub(crate) fn start(
    listeners: Vec<TcpListener>,
    limits: StreamLimits,
    (router, posts): (Router, Vec<Post>),
    hub: &Arc<Hub>,
) -> io::Result<Running> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let deliverer = Arc::new(Deliverer {
        router,
        posts: posts.clone(),
        work: Mutex::new(Work {
            hops: HopPosts::new(posts),
            out: ShardOut::new(),
            counts: DriverCounts::default(),
        }),
        streams: OnceLock::new(),
    });
    let user: Arc<dyn StreamUser> = Arc::clone(&deliverer) as _;
    let streams = Streams::new(limits, user, runtime.handle().clone());
    let _ = deliverer.streams.set(streams.clone());
    for listener in listeners {
        streams.listen(listener)?;
    }
    let watched = streams.clone();
    let thread = threads::spawn("streams", hub, move || {
        runtime.block_on(watched.ended());
    })?;
    Ok(Running { streams, thread })
}

/// Binds the addresses. `near` has the ports that UDP got: where the kernel may choose, TCP takes
/// the same, if it is free.
pub(crate) fn bind(
    wanted: &[SocketAddr],
    near: &[SocketAddr],
) -> Result<Vec<TcpListener>, (SocketAddr, io::Error)> {
    let mut listeners = Vec::new();
    for (at, address) in wanted.iter().enumerate() {
        let same = near.get(at).filter(|udp| address.port() == 0 && udp.ip() == address.ip());
        let bound = same.and_then(|udp| TcpListener::bind(udp).ok());
        let bound = bound.map_or_else(|| TcpListener::bind(address), Ok);
        listeners.push(bound.map_err(|error| (*address, error))?);
    }
    Ok(listeners)
}

/// Brings the metrics up to date.
pub(crate) fn publish(streams: &Streams) {
    let counts = streams.counts();
    gauge!("pbx_tcp_connections").set(counts.open as f64);
    counter!("pbx_tcp_accepted_total").absolute(counts.accepted);
    counter!("pbx_tcp_connected_total").absolute(counts.connected);
    counter!("pbx_tcp_messages_received_total").absolute(counts.received);
    counter!("pbx_tcp_messages_sent_total").absolute(counts.sent);
    for (why, count) in Closed::ALL.iter().zip(counts.closed) {
        counter!("pbx_tcp_closed_total", "why" => why.as_str()).absolute(count);
    }
}

/// What a shard's mailbox did not take of the connections: in a row of its own beside the shards.
fn publish_drops(counts: &DriverCounts) {
    counter!("pbx_hops_dropped_total", "shard" => "tcp").absolute(counts.hops_dropped);
    counter!("pbx_hops_refused_total", "shard" => "tcp").absolute(counts.hops_refused);
}

/// Between the connections and the shards.
struct Deliverer {
    router: Router,
    posts: Vec<Post>,
    /// Used by the one thread of the connections only.
    work: Mutex<Work>,
    streams: OnceLock<Streams>,
}

struct Work {
    hops: HopPosts,
    out: ShardOut,
    counts: DriverCounts,
}

impl StreamUser for Deliverer {
    fn received(&self, local: SocketAddr, remote: SocketAddr, messages: &[Vec<u8>]) {
        let path = Path { transport: Transport::Tcp, local, remote };
        let at = Clock::new().mono();
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let Work { hops, out, counts } = &mut *work;
        for message in messages {
            hops.datagram(self.router.route(message), message, path, at, out);
        }
        let before = (counts.hops_dropped, counts.hops_refused);
        hops.send_datagrams(counts);
        if before != (counts.hops_dropped, counts.hops_refused) {
            publish_drops(counts);
        }
        if let Some(streams) = self.streams.get() {
            for (path, refusal) in out.net.sends() {
                streams.send(path.local, path.remote, 0, refusal);
            }
        }
        out.clear();
    }

    /// 400 (Bad Request), when a request can still be read. A shard is told in any case.
    fn broken(&self, local: SocketAddr, remote: SocketAddr, rest: &[u8]) -> Option<Vec<u8>> {
        let mut index = Index::new();
        let Err(fault) = index.parse(rest, Framing::Stream) else { return None };
        let path = Path { transport: Transport::Tcp, local, remote };
        {
            let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
            let Work { hops, counts, .. } = &mut *work;
            hops.broken(self.router.route(rest), fault, path, counts);
            publish_drops(counts);
        }
        let request = index.salvage(rest).filter(sip::wire::Message::is_request)?;
        let mut out = Outbox::new();
        let answer = out.compose(path, |out| {
            let with = CopyWith { record_route: false, timestamp: false };
            Builder::response(out, 400, None)
                .with(|out| copy_response_head(out, &request, Some(b"stream"), remote, with))
                .no_body();
        });
        Some(answer.to_vec())
    }

    fn failed(&self, sender: u8, message: Box<[u8]>) {
        if let Some(post) = self.posts.get(usize::from(sender)) {
            post.returned(message);
        }
    }

    fn closed(&self, remote: SocketAddr, why: Closed) {
        match why {
            Closed::Slow | Closed::Broken | Closed::Full | Closed::Refused => {
                notice!("TCP connection of {} closed: {}", remote, why.as_str());
            }
            Closed::ByPeer | Closed::Idle | Closed::Unreachable | Closed::Ended => {
                debug!(1, "TCP connection of {} closed: {}", remote, why.as_str());
            }
        }
    }
}
