//! The generator's loop: one plain thread, no task and no allocation per call.
//!
//! ```text
//! begin ──► advance (place, receive, repeat) ──► settle (no new calls) ──► finish: a report
//! ```
//!
//! A turn: drain the socket (bounded), let timers act, place what is due (bounded), send, sleep
//! until the next thing is due. Timers wait while the socket is not empty (bounded): an answer that
//! already lies there must not cause a repeat.

use crate::link::Link;
use crate::process::{self, Usage};
use crate::report::{ServerReport, StepReport};
use crate::schedule::{Arrivals, Schedule};
use crate::tally::Tally;
use crate::verdict::{Limits, Verdict, judge};
use crate::workload::Workload;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use turn::{Mono, Seed};

/// Batches received in one turn.
const BATCHES_MAX: usize = 8;
/// Calls placed in one turn: catching up must not become one burst.
const PLACED_MAX: usize = 32;
/// How long timers may wait for the socket to be empty.
const TIMERS_WAIT_MAX: Duration = Duration::from_millis(100);
/// The longest sleep: the stop flag is looked at after it.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Calls that are later than this after the step's end are not made.
const GRACE: Duration = Duration::from_millis(100);
/// How long a run that was stopped by hand waits for the answers to its BYEs.
const STOPPED_MAX: Duration = Duration::from_secs(2);
/// How often errors from the network are asked for.
const ERRORS_EVERY: Duration = Duration::from_millis(200);

/// A step to be made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Calls per second.
    pub rate: f64,
    /// For how long.
    pub span: Duration,
    /// How they are spread.
    pub arrivals: Arrivals,
    /// Where the spread comes from.
    pub seed: Seed,
    /// Calls that are due within this time of each other are made together; zero: each by itself.
    pub tick: Duration,
}

/// The server's process.
#[derive(Debug)]
pub struct ServerWatch {
    /// Its number.
    pub pid: u32,
    target: SocketAddr,
    before: Usage,
    drops_before: u64,
}

impl ServerWatch {
    /// `None` when there is no such process.
    pub fn new(pid: u32, target: SocketAddr) -> Option<Self> {
        let drops_before = process::udp_drops(target).unwrap_or(0);
        Some(Self { pid, target, before: process::usage(pid)?, drops_before })
    }

    fn begin(&mut self) {
        if let Some(usage) = process::usage(self.pid) {
            self.before = usage;
        }
        self.drops_before = process::udp_drops(self.target).unwrap_or(0);
    }

    /// Its resident memory at present.
    pub fn rss_bytes(&self) -> Option<u64> {
        process::usage(self.pid).map(|usage| usage.rss_bytes)
    }

    fn report(&mut self, span: Duration, calls: u64) -> Option<ServerReport> {
        let after = process::usage(self.pid)?;
        let spent = process::spent(&self.before, &after, span);
        let drops = process::udp_drops(self.target).unwrap_or(0);
        let overflow = drops.saturating_sub(self.drops_before);
        let cpu_micros_per_call = spent.cpu_seconds * 1e6 / calls.max(1) as f64;
        Some(ServerReport { pid: self.pid, spent, overflow, cpu_micros_per_call })
    }
}

#[derive(Debug)]
struct Step {
    schedule: Schedule,
    plan: Plan,
    begun: Mono,
    cpu: Duration,
    overflow: u64,
    full: u64,
    not_made: u64,
    table_full: u64,
    /// Calls answered while calls were being made, and how long that was.
    answered_meanwhile: Option<(u64, Duration)>,
    interrupted: bool,
}

impl Step {
    /// When the next calls are to be made: at the end of the tick in which the first is due.
    fn wake_to_place(&self) -> Option<Mono> {
        let due = self.schedule.peek()?;
        let tick = u64::try_from(self.plan.tick.as_nanos()).unwrap_or(u64::MAX);
        if tick == 0 {
            return Some(due);
        }
        let into = u64::try_from((due - self.begun).as_nanos()).unwrap_or(0) % tick;
        Some(due + Duration::from_nanos((tick - into) % tick))
    }
}

/// Socket and calls, driven.
#[derive(Debug)]
pub struct Generator<'a> {
    /// The socket.
    pub link: Link,
    /// The calls, or whatever else is made by the clock.
    pub work: Box<dyn Workload>,
    stop: &'a AtomicBool,
    step: Option<Step>,
    fired: Mono,
    errors_taken: Mono,
    /// Whether the server has ever sent anything.
    heard: bool,
    /// Whether the socket ended the last sleep.
    woken: bool,
}

impl<'a> Generator<'a> {
    /// A generator that stops soon after `stop` is set.
    pub fn new(link: Link, work: Box<dyn Workload>, stop: &'a AtomicBool) -> Self {
        Self {
            link,
            work,
            stop,
            step: None,
            fired: Mono::ZERO,
            errors_taken: Mono::ZERO,
            heard: false,
            woken: false,
        }
    }

    /// Whether it was told to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Errors came back from the network and nothing else ever did.
    pub fn is_target_dead(&mut self) -> bool {
        !self.heard && self.work.tally().unreachable > 0
    }

    /// Starts a step; the server's use of CPU counts from here.
    pub fn begin(&mut self, plan: Plan, watch: Option<&mut ServerWatch>) {
        if let Some(watch) = watch {
            watch.begin();
        }
        let now = self.link.clock.mono();
        *self.work.tally() = Tally::default();
        self.step = Some(Step {
            schedule: Schedule::new(now, plan.rate, plan.span, plan.arrivals, plan.seed),
            plan,
            begun: now,
            cpu: self.link.clock.thread_cpu(),
            overflow: self.link.port.dropped_by_kernel(),
            full: self.link.full,
            not_made: 0,
            table_full: 0,
            answered_meanwhile: None,
            interrupted: false,
        });
    }

    /// Places calls until `until`; false when the step has no more, or was stopped.
    pub fn advance(&mut self, until: Mono) -> bool {
        loop {
            if self.is_stopped() || self.is_target_dead() {
                if let Some(step) = &mut self.step {
                    step.interrupted = self.stop.load(Ordering::Relaxed);
                    step.schedule.cut();
                }
                return false;
            }
            let now = self.turn();
            let Some(step) = &mut self.step else { return false };
            if now >= step.schedule.end() + GRACE {
                step.not_made += step.schedule.abandon();
            }
            if step.schedule.peek().is_none() && now >= step.schedule.end() {
                step.answered_meanwhile = Some((self.work.tally().answered, now - step.begun));
                return false;
            }
            if now >= until {
                return true;
            }
            self.sleep(now, until);
        }
    }

    /// When the arrivals of the current step end.
    pub fn step_end(&self) -> Mono {
        self.step.as_ref().map_or(Mono::ZERO, |step| step.schedule.end())
    }

    /// Lets open calls end, held ones excepted, at most until `limit`; true when they have. Bounded
    /// by the calls' own timers even without a limit.
    pub fn settle(&mut self, limit: Mono) -> bool {
        loop {
            let now = self.turn();
            if self.work.open() == self.work.held() {
                return true;
            }
            if now >= limit || self.is_stopped() || self.is_target_dead() {
                return false;
            }
            self.sleep(now, limit);
        }
    }

    /// Keeps held calls alive until `until`; false when stopped.
    pub fn idle(&mut self, until: Mono) -> bool {
        while !self.is_stopped() {
            let now = self.turn();
            if now >= until {
                return true;
            }
            self.sleep(now, until);
        }
        false
    }

    /// Hangs up all held calls, `rate` per second, and lets them end.
    pub fn hang_up_all(&mut self, rate: f64, limit: Duration) {
        let start = self.link.clock.mono();
        let mut done = 0_u64;
        while self.work.held() > 0 {
            let now = self.turn();
            if now - start > limit {
                return;
            }
            let due = ((now - start).as_secs_f64() * rate) as u64;
            let count = due.saturating_sub(done).min(PLACED_MAX as u64);
            done += self.work.hang_up(count as usize, now) as u64;
            self.flush();
            self.sleep(now, now + Duration::from_millis(1));
        }
        let patience = if self.is_stopped() { STOPPED_MAX.min(limit) } else { limit };
        let end = self.link.clock.mono() + patience;
        while self.work.open() > 0 && self.link.clock.mono() < end {
            let now = self.turn();
            self.sleep(now, end);
        }
    }

    /// The report of the current step.
    pub fn finish(&mut self, watch: Option<&mut ServerWatch>, limits: &Limits) -> StepReport {
        let Some(step) = self.step.take() else { return StepReport::default() };
        let now = self.link.clock.mono();
        if self.is_target_dead() {
            self.work.give_up_all();
        }
        let seconds = match step.interrupted {
            true => (now - step.begun).as_secs_f64(),
            false => step.plan.span.as_secs_f64(),
        };
        let made = step.schedule.taken();
        let tally = self.work.tally();
        let mut report = StepReport::new(step.plan.rate, seconds, made, tally);
        if let Some((answered, span)) = step.answered_meanwhile {
            report.answered_cps = answered as f64 / span.as_secs_f64().max(1e-9);
        }
        let own = &mut report.generator;
        own.not_made = step.not_made;
        own.table_full = step.table_full;
        own.overflow = self.link.port.dropped_by_kernel() - step.overflow;
        own.socket_full = self.link.full - step.full;
        let span = now - step.begun;
        let cpu = self.link.clock.thread_cpu().saturating_sub(step.cpu);
        own.cpu_percent = cpu.as_secs_f64() * 100.0 / span.as_secs_f64().max(1e-9);
        report.server = watch.and_then(|watch| watch.report(span, tally.sent));
        report.unfinished = (self.work.open() - self.work.held()) as u64;
        report.verdict = match judge(&report, limits) {
            Verdict::Clean | Verdict::ServerLate(_) if step.interrupted => Verdict::Interrupted,
            verdict => verdict,
        };
        report
    }

    /// One turn; the time at which it began.
    fn turn(&mut self) -> Mono {
        let now = self.link.clock.sample().mono;
        let is_drained = self.drain(now);
        if is_drained || now - self.fired > TIMERS_WAIT_MAX {
            self.fired = now;
            self.work.fire(now);
        }
        self.place(now);
        self.flush();
        if now - self.errors_taken > ERRORS_EVERY {
            self.take_errors(now);
        }
        now
    }

    fn take_errors(&mut self, now: Mono) {
        self.errors_taken = now;
        self.work.tally().unreachable += self.link.take_path_errors();
    }

    /// Receives and answers; true when the socket is empty.
    fn drain(&mut self, now: Mono) -> bool {
        for _ in 0..BATCHES_MAX {
            // A socket of ours that cannot be read has no remedy: the calls will time out.
            let count = self.link.port.receive(&mut self.link.received).unwrap_or(0);
            let read_at = if count > 0 { self.link.clock.sample().mono } else { now };
            for datagram in self.link.received.iter() {
                let at = self.link.arrival(datagram.received_at, read_at);
                self.work.receive(datagram.bytes, at, read_at);
            }
            self.heard |= count > 0;
            if count == 0 && std::mem::take(&mut self.woken) {
                // Woken for an error that came back: while it waits, every sleep ends at once.
                self.take_errors(now);
            }
            self.flush();
            if count < sip_net::BATCH_MAX {
                return true;
            }
        }
        false
    }

    fn place(&mut self, now: Mono) {
        let Some(step) = &mut self.step else { return };
        if step.wake_to_place().is_none_or(|at| at > now) {
            return;
        }
        for _ in 0..PLACED_MAX {
            let Some(due) = step.schedule.take(now) else { return };
            if !self.work.place(due, now) {
                step.table_full += 1;
            }
        }
    }

    fn flush(&mut self) {
        let count = self.work.outbox().len();
        if count == 0 {
            return;
        }
        let (unsent, sent_at) = self.link.send(self.work.outbox());
        let mut unsent = unsent.iter().copied().peekable();
        for place in 0..count {
            if unsent.next_if_eq(&place).is_some() {
                self.work.on_unsent(place);
            } else {
                self.work.on_sent(place, sent_at);
            }
        }
        self.work.clear_sends();
    }

    /// Sleeps until something is due or arrives.
    fn sleep(&mut self, now: Mono, until: Mono) {
        let mut wake = until.min(now + SLEEP_MAX);
        if let Some(due) = self.step.as_ref().and_then(Step::wake_to_place) {
            wake = wake.min(due);
        }
        // The wheel is asked only when it can matter: its ticks are 4 ms wide.
        if wake - now > Duration::from_millis(1)
            && let Some(due) = self.work.next_timeout()
        {
            wake = wake.min(due);
        }
        let now = self.link.clock.mono();
        if wake > now {
            self.woken = self.link.port.wait_readable(wake - now);
        }
    }
}
