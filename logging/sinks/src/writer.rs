//! The writer thread: merges the lanes, makes lines, writes them in batches.
//!
//! It polls; nobody wakes it for a record. What it has to say itself (a sink that failed, records
//! that were counted instead of written) goes through a lane of its own, so it is counted like
//! everything else.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, mem};

use logging::{
    Fold, Hub, Lane, LaneReader, Level, Levels, Shown, error, notice, security, warning,
};

use crate::line::SiteLine;
use crate::sink::{Change, Sink, SinkShared};

/// Between two looks at the lanes while there is something in them.
const POLL: Duration = Duration::from_millis(5);

/// The same when there was nothing.
const POLL_IDLE: Duration = Duration::from_millis(10);

/// How often lost verbose lines are reported.
const LOSS_REPORT: Duration = Duration::from_secs(1);

/// Rounds at the end, and in a flush: each may bring reports of the one before.
const LAST_ROUNDS_MAX: usize = 8;

/// What the writer can be told.
pub(crate) enum Command {
    Flush(Sender<()>),
    Reopen(Sender<Vec<(String, io::Result<()>)>>),
    Add(Box<Sink>, Sender<bool>),
    Remove(String, Sender<bool>),
    SetLevels(String, Levels, Sender<bool>),
    Stop,
}

/// The sinks as others see them.
pub(crate) type SinksView = Arc<Mutex<Vec<Arc<SinkShared>>>>;

pub(crate) struct Writer {
    hub: Arc<Hub>,
    own: Lane,
    lanes: Vec<LaneReader>,
    sites: Vec<SiteLine>,
    sinks: Vec<Sink>,
    view: SinksView,
    message: Vec<u8>,
    next_loss_report: Instant,
    reported_loss: u64,
}

impl Writer {
    pub(crate) fn new(hub: Arc<Hub>, own: Lane, sinks: Vec<Sink>, view: SinksView) -> Self {
        let mut writer = Self {
            hub,
            own,
            lanes: Vec::new(),
            sites: Vec::new(),
            sinks,
            view,
            message: Vec::new(),
            next_loss_report: Instant::now() + LOSS_REPORT,
            reported_loss: 0,
        };
        writer.show_sinks();
        writer
    }

    /// Works until it is told to stop or nobody can tell it anything any more.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        let mut poll = POLL;
        loop {
            match commands.recv_timeout(poll) {
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(command) => self.obey(command),
                Err(RecvTimeoutError::Timeout) => {}
            }
            poll = if self.round() { POLL } else { POLL_IDLE };
        }
        self.settle();
    }

    fn obey(&mut self, command: Command) {
        // Whoever asked may have gone; then nobody needs the answer.
        match command {
            Command::Flush(reply) => {
                self.settle();
                let _ = reply.send(());
            }
            Command::Reopen(reply) => {
                self.settle(); // what came before belongs into the old file
                let _ = reply.send(self.reopen());
            }
            Command::Add(sink, reply) => {
                let is_new = self.sinks.iter().all(|old| old.shared.name != sink.shared.name);
                if is_new {
                    self.sinks.push(*sink);
                    self.show_sinks();
                }
                let _ = reply.send(is_new);
            }
            Command::Remove(name, reply) => {
                self.settle();
                let before = self.sinks.len();
                self.sinks.retain(|sink| sink.shared.name != name);
                self.show_sinks();
                let _ = reply.send(self.sinks.len() < before);
            }
            Command::SetLevels(name, levels, reply) => {
                let sink = self.sinks.iter_mut().find(|sink| sink.shared.name == name);
                let _ = reply.send(sink.map(|sink| sink.set_levels(levels)).is_some());
            }
            Command::Stop => {}
        }
    }

    /// Rounds until nothing is left, reports included.
    fn settle(&mut self) {
        for _ in 0..LAST_ROUNDS_MAX {
            if !self.round() {
                break;
            }
        }
    }

    /// One look at all lanes. Returns whether there was anything.
    fn round(&mut self) -> bool {
        self.lanes.extend(self.hub.take_readers());
        let root = logging::verbose();
        // The wall time of each lane's next record: lanes are merged by it, and inside a lane the
        // order is exact.
        let mut next: Vec<Option<i64>> = Vec::with_capacity(self.lanes.len());
        for lane in &mut self.lanes {
            lane.refresh();
            next.push(wall(lane));
        }
        let mut any = false;
        while let Some((_, at)) =
            next.iter().enumerate().filter_map(|(at, wall)| wall.map(|wall| (wall, at))).min()
        {
            self.take(at, root);
            self.lanes[at].advance();
            next[at] = wall(&mut self.lanes[at]);
            any = true;
        }
        for at in 0..self.sinks.len() {
            self.write_batch(at);
        }
        any |= self.report_folds();
        self.report_losses();
        self.retire();
        any
    }

    /// Makes lines of the next record of the lane `at`.
    fn take(&mut self, at: usize, root: u8) {
        let Some(record) = self.lanes[at].peek() else { return };
        if record.site() >= self.sites.len() {
            let new = logging::sites_from(self.sites.len());
            self.sites.extend(new.into_iter().map(SiteLine::new));
        }
        let line = &self.sites[record.site()];
        self.message.clear();
        let mut full = None;
        for (number, sink) in self.sinks.iter_mut().enumerate() {
            if !sink.wants(line.site, record.verbosity(), root) {
                sink.leave_out();
                continue;
            }
            if self.message.is_empty() {
                line.write_message(&record, &mut self.message);
            }
            if sink.add(line, &record, &self.message) {
                full = Some(number);
            }
        }
        if full.is_some() {
            for number in 0..self.sinks.len() {
                self.write_batch(number);
            }
        }
    }

    fn write_batch(&mut self, number: usize) {
        let sink = &mut self.sinks[number];
        let Some(change) = sink.write_batch() else { return };
        let name = sink.shared.name.as_str();
        let own = &mut self.own;
        match change {
            Change::Failed(failure) => error!(
                own,
                "Log '{}' cannot be written: {}; its lines are counted and lost until it can",
                name,
                Shown(failure)
            ),
            Change::Healed { lost } => {
                notice!(own, "Log '{}' is written again; {} lines were lost", name, lost);
            }
        }
    }

    fn reopen(&mut self) -> Vec<(String, io::Result<()>)> {
        let mut results = Vec::new();
        for sink in &mut self.sinks {
            let result = sink.reopen();
            let name = sink.shared.name.as_str();
            if let Err(failure) = &result {
                let own = &mut self.own;
                error!(own, "Log '{}' cannot be opened anew: {}", name, Shown(failure));
            }
            results.push((name.to_owned(), result));
        }
        results
    }

    fn report_folds(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.lanes.len() {
            for fold in self.lanes[at].take_folds() {
                report_fold(&mut self.own, &fold);
                any = true;
            }
        }
        any
    }

    fn report_losses(&mut self) {
        let now = Instant::now();
        if now < self.next_loss_report {
            return;
        }
        self.next_loss_report = now + LOSS_REPORT;
        let lost: u64 = self.hub.counts().iter().map(|lane| lane.verbose_dropped).sum();
        let new = lost - mem::replace(&mut self.reported_loss, lost);
        if new > 0 {
            let own = &mut self.own;
            warning!(own, "{} verbose or debug lines were lost: the log cannot keep up", new);
        }
    }

    fn retire(&mut self) {
        let hub = &self.hub;
        self.lanes.retain_mut(|lane| {
            let is_finished = lane.is_finished();
            if is_finished {
                hub.retire(lane);
            }
            !is_finished
        });
    }

    fn show_sinks(&mut self) {
        let shared = self.sinks.iter().map(|sink| Arc::clone(&sink.shared)).collect();
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = shared;
    }
}

fn wall(lane: &mut LaneReader) -> Option<i64> {
    lane.peek().map(|record| record.now().wall.as_micros())
}

/// A line for records that found no room in their lane, at their own level.
fn report_fold(own: &mut Lane, fold: &Fold) {
    let (count, text, from) = (fold.count, fold.site.text, fold.from);
    match fold.site.level {
        Level::Error => error!(own, "{} more from {} not written singly: {}", count, from, text),
        Level::Warning => {
            warning!(own, "{} more from {} not written singly: {}", count, from, text);
        }
        Level::Security => {
            security!(own, "{} more from {} not written singly: {}", count, from, text);
        }
        Level::Notice | Level::Verbose | Level::Dtmf | Level::Debug => {
            notice!(own, "{} more from {} not written singly: {}", count, from, text);
        }
    }
}
