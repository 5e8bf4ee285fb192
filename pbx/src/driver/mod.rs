//! Drives one shard: the thread between the kernel and [`pbx_core::Shard`].
//!
//! ```text
//! wait for a socket, the mailbox or a timer
//!   └► turn, at most about 1 ms: repeat
//!        now ─ mail ─ a batch from each socket ─ due timers ─ flush ─ deliver
//!      until nothing is left
//! ```
//!
//! `now` is sampled once for each batch. While the socket is not empty, timers wait (at most
//! [`TIMERS_WAIT_MAX`]): after a stall one must not repeat requests whose answers lie in the buffer
//! already. Datagrams that belong to another shard go there, a whole batch at a time.

mod hop;
mod net;
mod slowest;

use crate::facts::{Direction, Facts};
use crate::mailbox::{Ask, Mail, Mailbox, Page, Post, TopOfShard};
use crate::metrics::{DriverCounts, ShardMeters, Snapshot};
use crate::quota::Lease;
use crate::records::RecordSink;
use crate::resolver::Resolver;
use crate::trace::Rules;
use hop::Hops;
use logging::{Shown, error};
use net::Net;
use pbx_core::{Datagram, Router, Shard, ShardOut, Stored};
use sip_net::Clock;
use slowest::Slowest;
use std::time::Duration;
use turn::{Mono, Now};

/// How long a turn goes on while there is something to do: then mail, timers and the runtime have
/// their chance.
const TURN_MAX: Duration = Duration::from_millis(1);

/// How long due timers wait for the socket to be empty.
const TIMERS_WAIT_MAX: Duration = Duration::from_millis(20);

/// Deliveries taken from the mailbox at a time.
const MAILS_MAX: usize = 16;

/// Calls hung up in one turn, when all must go: some 10 us each.
const HANG_UP_SLICE: usize = 32;

/// How often counts are published.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// How long to wait when a socket takes nothing, or calls that were hung up are still there.
const PACE: Duration = Duration::from_millis(5);

/// Rounds of telling the log what it was not told so far, at the end.
const FINISH_ROUNDS_MAX: usize = 400;

/// Rounds of sending in one turn: a failed send may lead to another one.
const SEND_ROUNDS_MAX: usize = 4;

/// What a driver is made of.
pub(crate) struct Parts {
    pub(crate) number: u8,
    pub(crate) shard: Shard,
    pub(crate) router: Router,
    pub(crate) net: Net,
    pub(crate) mailbox: Mailbox,
    pub(crate) hops: Hops,
    pub(crate) resolver: Resolver,
    /// Where its answers go: to this shard.
    pub(crate) own: Post,
    pub(crate) records: RecordSink,
    pub(crate) state: RecordSink,
    pub(crate) lease: Lease,
    pub(crate) facts: Facts,
}

pub(crate) use hop::Hops as HopPosts;
pub(crate) use net::Net as Sockets;

/// One shard's driver.
pub(crate) struct Driver {
    number: u8,
    shard: Shard,
    out: ShardOut,
    router: Router,
    net: Net,
    mailbox: Mailbox,
    hops: Hops,
    resolver: Resolver,
    own: Post,
    records: RecordSink,
    state: RecordSink,
    lease: Lease,
    facts: Facts,
    clock: Clock,
    meters: ShardMeters,
    counts: DriverCounts,
    /// As the shard knows it.
    calls_soft_max: Option<u32>,
    publish_at: Mono,
    /// Whose messages go to the log.
    trace: Option<Rules>,
    slowest: Slowest,
    is_hanging_up: bool,
    is_stopped: bool,
    /// A socket has called; a call without a datagram is about an error that came back.
    is_called: bool,
}

impl Driver {
    /// A driver, on the thread that will run it.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { number, shard, router, net, mailbox, hops, resolver, own, .. } = parts;
        let (records, state, lease, facts) = (parts.records, parts.state, parts.lease, parts.facts);
        let mut driver = Self {
            number,
            shard,
            out: ShardOut::new(),
            router,
            net,
            mailbox,
            hops,
            resolver,
            own,
            records,
            state,
            lease,
            facts,
            clock: Clock::new(),
            meters: ShardMeters::new(number),
            counts: DriverCounts::default(),
            calls_soft_max: None,
            publish_at: Mono::ZERO,
            trace: None,
            slowest: Slowest::default(),
            is_hanging_up: false,
            is_stopped: false,
            is_called: false,
        };
        driver.shard.set_verbose(logging::view().verbose);
        driver.admit();
        driver
    }

    /// Runs until it is told to stop.
    pub(crate) async fn run(mut self) {
        while !self.is_stopped {
            if self.turn() {
                tokio::task::yield_now().await;
            } else if !self.is_stopped {
                self.wait().await;
            }
        }
        self.finish().await;
        let now = self.clock.sample();
        self.publish(now.mono);
    }

    /// Tells the log what is only counted so far. A lane that stays full is not waited for long.
    async fn finish(&mut self) {
        for _ in 0..FINISH_ROUNDS_MAX {
            if self.facts.finish() {
                return;
            }
            tokio::time::sleep(PACE).await;
        }
    }

    async fn wait(&mut self) {
        let now = self.clock.mono();
        let sums = self.facts.sums_due();
        let due = [self.shard.next_timeout(), Some(self.publish_at), self.pace(now), sums];
        let due = due.into_iter().flatten().min().unwrap_or(self.publish_at);
        if due <= now {
            return;
        }
        let deadline = tokio::time::Instant::now() + (due - now);
        let mail = tokio::select! {
            biased;
            () = self.net.readable() => {
                self.is_called = true;
                None
            }
            mail = self.mailbox.next() => mail,
            () = tokio::time::sleep_until(deadline) => None,
        };
        if let Some(mail) = mail {
            let now = self.clock.sample();
            self.facts.set_now(now);
            self.open(now, mail);
        }
    }

    fn pace(&self, now: Mono) -> Option<Mono> {
        (self.is_hanging_up || self.net.has_backlog()).then(|| now + PACE)
    }

    /// Does what there is to do. Whether there is more.
    fn turn(&mut self) -> bool {
        let began = self.clock.sample();
        let mut now = began;
        let is_busy = loop {
            self.facts.set_now(now);
            let mails = self.take_mail(now);
            let received = self.receive(now);
            if std::mem::take(&mut self.is_called) && received == 0 {
                self.take_returned(now);
            }
            self.fire(now, received == 0);
            if self.is_hanging_up {
                self.shard.hangup_some(now, HANG_UP_SLICE, &mut self.out);
            }
            self.shard.flush(now, &mut self.out);
            self.deliver(now);
            if self.is_stopped || received + mails == 0 {
                break false;
            }
            now = self.clock.sample();
            if now.mono - began.mono >= TURN_MAX {
                break true;
            }
        };
        let took = self.clock.mono() - began.mono;
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.counts.turn_max_us = self.counts.turn_max_us.max(took_us);
        self.facts.tell_sums();
        if now.mono >= self.publish_at {
            self.publish(now.mono);
        }
        is_busy
    }

    /// Takes one batch from each socket; returns how many datagrams came.
    fn receive(&mut self, now: Now) -> usize {
        let mut received = 0;
        for port in 0..self.net.ports() {
            self.admit();
            let Self { net, shard, router, hops, out, clock, counts, trace, facts, .. } = self;
            received += match net.receive(port, clock, now) {
                Ok(batch) => {
                    let mut count = 0;
                    for datagram in batch {
                        let Datagram { bytes, path, received_at } = datagram;
                        count += 1;
                        if let Some(trace) = trace {
                            facts.trace(trace, (path, Direction::In), bytes);
                        }
                        match router.route(bytes) {
                            target if target == self.number => shard.receive(now, datagram, out),
                            target => hops.datagram(target, bytes, path, received_at, out),
                        }
                    }
                    count
                }
                Err(error) => {
                    if counts.receive_failures == 0 {
                        error!("A socket cannot be read: {}", Shown(&error));
                    }
                    counts.receive_failures += 1;
                    0
                }
            };
        }
        self.hops.send_datagrams(&mut self.counts);
        received
    }

    /// What we sent to a peer that is not there: its transaction ends now and not by its timer.
    fn take_returned(&mut self, now: Now) {
        for bytes in self.net.returned(&mut self.counts) {
            self.shard.on_send_failed(now, &bytes, &mut self.out);
        }
    }

    fn take_mail(&mut self, now: Now) -> usize {
        for taken in 0..MAILS_MAX {
            let Some(mail) = self.mailbox.try_next() else { return taken };
            self.open(now, mail);
        }
        MAILS_MAX
    }

    fn open(&mut self, now: Now, mail: Mail) {
        match mail {
            Mail::Datagrams(datagrams) => {
                self.admit();
                for (bytes, path, received_at) in datagrams.iter() {
                    // One that came in on another shard's socket was traced there.
                    if let Some(trace) = &self.trace
                        && path.transport.is_reliable()
                    {
                        self.facts.trace(trace, (path, Direction::In), bytes);
                    }
                    let datagram = Datagram { bytes, path, received_at };
                    self.shard.receive(now, datagram, &mut self.out);
                }
            }
            Mail::Messages(messages) => {
                for message in messages {
                    self.shard.message(now, message, &mut self.out);
                }
            }
            Mail::Returned(message) => {
                self.counts.send_failures += 1;
                self.shard.on_send_failed(now, &message, &mut self.out);
            }
            Mail::Broken(fault, path) => {
                self.shard.broken_stream(now, (fault, path), &mut self.out);
            }
            Mail::Located(token, located) => {
                self.shard.resolved(now, token, &located, &mut self.out);
            }
            Mail::Ask(ask) => self.answer(now, ask),
        }
    }

    /// Does what an operator asks. What must survive the program is written down before he hears of
    /// it. That he has gone away in the meantime does not matter.
    fn answer(&mut self, now: Now, ask: Ask) {
        match ask {
            Ask::Counts(reply) => {
                let _ = reply.send(self.shard.counts());
            }
            Ask::Channels { from, reply } => {
                let (views, next) = self.shard.channels(now, from, pbx_control::PAGE_MAX);
                let _ = reply.send(Page { views, next });
            }
            Ask::Reload { plan, directory, done } => {
                self.shard.reload(plan, directory);
                let _ = done.send(());
            }
            Ask::Verbosity => self.shard.set_verbose(logging::view().verbose),
            Ask::HangUp(channel, reply) => {
                let _ = reply.send(self.shard.hangup(now, &channel, &mut self.out));
            }
            Ask::Unregister { aor, contact, reply } => {
                let contact = contact.as_deref().map(str::as_bytes);
                let gone = self.shard.unregister(now, &aor, contact, &mut self.out);
                self.deliver(now);
                let _ = reply.send(gone);
            }
            Ask::DatabasePut { family, key, value, reply } => {
                let is_put = self.shard.put(&family, &key, &value, &mut self.out);
                self.deliver(now);
                let _ = reply.send(is_put);
            }
            Ask::DatabaseDelete { family, key, is_tree, reply } => {
                let key = key.as_deref().unwrap_or_default();
                let deleted = self.shard.delete((&family, key), is_tree, &mut self.out);
                self.deliver(now);
                let _ = reply.send(deleted);
            }
            Ask::Trace(trace) => self.trace = trace,
            Ask::CallIds(call, reply) => _ = reply.send(self.shard.call_ids(call)),
            Ask::Top(reply) => {
                let (slowest, kernel_drops) = (self.slowest.tell(), self.counts.kernel_drops);
                let _ = reply.send(TopOfShard { slowest, kernel_drops });
            }
            Ask::Originate(wanted, reply) => {
                let _ = reply.send(self.shard.originate(now, *wanted, &mut self.out));
            }
            Ask::Drain => self.shard.drain(true),
            Ask::HangUpAll => self.is_hanging_up = true,
            Ask::Stop => self.is_stopped = true,
        }
    }

    fn fire(&mut self, now: Now, is_drained: bool) {
        let Some(at) = self.shard.next_timeout() else { return };
        let waits = now.mono.since(at);
        if at <= now.mono && (is_drained || waits >= TIMERS_WAIT_MAX) {
            self.shard.fire(now, &mut self.out);
        }
    }

    /// Writes down, sends and logs what came out, in this order: once a caller has seen the answer
    /// to its BYE, the record of the call must survive whatever happens; once a phone has seen that
    /// it is registered, so must its binding.
    fn deliver(&mut self, now: Now) {
        for _ in 0..SEND_ROUNDS_MAX {
            for record in &self.out.records {
                self.slowest.take(record);
                self.records.take(record);
            }
            for stored in &self.out.stored {
                match stored {
                    Stored::Binding(line) | Stored::Database(line) => self.state.take_text(line),
                }
            }
            if let Some(trace) = &self.trace {
                for (path, bytes) in self.out.net.sends() {
                    self.facts.trace(trace, (path, Direction::Out), bytes);
                }
            }
            let failed = self.net.send(&self.out.net, &mut self.counts);
            for fact in &self.out.facts {
                self.facts.write(fact);
            }
            for query in self.out.queries.drain(..) {
                self.resolver.ask(&self.own, query);
            }
            let undelivered = self.hops.send_messages(&mut self.out.hops, &mut self.counts);
            self.out.clear();
            if failed.is_empty() && undelivered.is_empty() {
                break;
            }
            for bytes in failed {
                self.shard.on_send_failed(now, &bytes, &mut self.out);
            }
            for (to, message) in undelivered {
                self.shard.undelivered(now, to, message, &mut self.out);
            }
        }
        self.records.retry();
        self.state.retry();
    }

    /// Tells the shard how many calls it may have: its lease, or none while the ring of records is
    /// fuller than it may be. Before each batch.
    fn admit(&mut self) {
        let calls = u32::try_from(self.shard.calls()).unwrap_or(u32::MAX);
        let leased = self.lease.fit(calls);
        let most = if self.records.takes_new() { leased } else { 0 };
        self.shard.set_room_to_store(self.state.takes_new());
        if self.calls_soft_max != Some(most) {
            self.shard.set_calls_soft_max(most);
            self.calls_soft_max = Some(most);
        }
    }

    fn publish(&mut self, at: Mono) {
        self.publish_at = at + PUBLISH_EVERY;
        let now = self.clock.sample();
        self.take_returned(now);
        self.deliver(now);
        self.net.count(&mut self.counts);
        self.counts.cpu = self.clock.thread_cpu();
        (self.counts.records, self.counts.records_overflowed) = self.records.counts();
        let (shard, security) = (self.shard.counts(), *self.facts.events());
        let snapshot = Snapshot { shard, driver: self.counts, security };
        self.facts.report(&snapshot);
        self.meters.publish(&snapshot);
        self.counts.turn_max_us = 0;
        // A sink may have been added or changed without a word to the shards.
        self.shard.set_verbose(logging::view().verbose);
    }
}
