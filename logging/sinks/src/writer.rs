//! The writer thread: merges the lanes, makes lines, hands them to the sinks' couriers.
//!
//! It polls; nobody wakes it for a record, and it never writes itself, so no output can hold it
//! up. What it has to say (a sink that failed, records that were counted instead of written) goes
//! through a lane of its own, so it is counted like everything else.

use std::mem;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use logging::{
    Fold, Hub, Lane, LaneReader, Level, Levels, Shown, error, notice, security, warning,
};

use crate::courier::{Change, Renewed, Route, stand_back};
use crate::line::SiteLine;
use crate::sink::{Filter, Report, Sink, SinkShared};

/// Between two looks at the lanes while there is something in them.
const POLL: Duration = Duration::from_millis(5);

/// The same when there was nothing.
const POLL_IDLE: Duration = Duration::from_millis(10);

/// How often lost verbose lines are reported.
const LOSS_REPORT: Duration = Duration::from_secs(1);

/// Rounds at the end, and in a flush: each may bring reports of the one before.
const LAST_ROUNDS_MAX: usize = 8;

/// Sinks at a time: files, syslogs and a console for each operator.
pub const SINKS_MAX: usize = 96;

/// How long the end of the program waits for an output that takes nothing.
const END_MAX: Duration = Duration::from_secs(2);

/// What the writer can be told.
pub(crate) enum Command {
    /// Hands everything over; says whether there was anything.
    Flush(Sender<bool>),
    /// Lets outputs begin anew: one by name, or all. Says how many answers will come.
    Renew {
        name: Option<String>,
        rotate: bool,
        answers: Sender<Renewed>,
        reply: Sender<usize>,
    },
    /// Adds a sink; or, when told so, puts it in the place of the one that has its name.
    Add {
        sink: Box<Sink>,
        replace: bool,
        reply: Sender<Added>,
    },
    Remove(String, Sender<Option<Arc<Route>>>),
    Change(String, Setting, Sender<bool>),
    Stop,
}

/// What became of a new sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    Yes,
    NameTaken,
    TooMany,
}

/// What can be changed about a sink.
pub(crate) enum Setting {
    Levels(Levels),
    Filter(Filter),
    Pause(bool),
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
        stand_back();
        let mut poll = POLL;
        loop {
            match commands.recv_timeout(poll) {
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(command) => self.obey(command),
                Err(RecvTimeoutError::Timeout) => {}
            }
            poll = if self.round() { POLL } else { POLL_IDLE };
        }
        self.end();
    }

    fn obey(&mut self, command: Command) {
        // Whoever asked may have gone; then nobody needs the answer.
        match command {
            Command::Flush(reply) => {
                let _ = reply.send(self.settle());
            }
            Command::Renew { name, rotate, answers, reply } => {
                self.settle(); // what came before belongs into the old file
                let is_meant = |sink: &&Sink| name.as_ref().is_none_or(|n| *n == sink.shared.name);
                let sinks = self.sinks.iter().filter(is_meant);
                let told = sinks.map(|sink| sink.shared.route.renew(rotate, answers.clone()));
                let _ = reply.send(told.count());
            }
            Command::Add { sink, replace, reply } => {
                let _ = reply.send(self.add(*sink, replace));
            }
            Command::Remove(name, reply) => {
                self.settle();
                let at = self.sinks.iter().position(|sink| sink.shared.name == name);
                let removed = at.map(|at| self.sinks.remove(at));
                self.show_sinks();
                let _ = reply.send(removed.map(|sink| Arc::clone(&sink.shared.route)));
            }
            Command::Change(name, setting, reply) => {
                self.settle(); // what was made before goes by the old setting
                let sink = self.sinks.iter_mut().find(|sink| sink.shared.name == name);
                let _ = reply.send(sink.map(|sink| change(sink, setting)).is_some());
            }
            Command::Stop => {}
        }
    }

    fn add(&mut self, sink: Sink, replace: bool) -> Added {
        let old = self.sinks.iter().position(|old| old.shared.name == sink.shared.name);
        if old.is_some() && !replace {
            return Added::NameTaken;
        }
        if old.is_none() && self.sinks.len() >= SINKS_MAX {
            return Added::TooMany;
        }
        self.settle(); // what was made before is not for it
        match old {
            Some(at) => self.sinks[at] = sink,
            None => self.sinks.push(sink),
        }
        self.show_sinks();
        Added::Yes
    }

    /// Rounds until nothing is left, reports included. Returns whether there was anything.
    fn settle(&mut self) -> bool {
        let mut any = false;
        for _ in 0..LAST_ROUNDS_MAX {
            if !self.round() {
                break;
            }
            any = true;
        }
        any
    }

    /// Lets what was handed over be written, as far as outputs take it.
    fn end(&mut self) {
        let until = Instant::now() + END_MAX;
        self.settle();
        self.sinks.iter().for_each(|sink| {
            sink.shared.route.wait(until);
        });
        self.settle(); // what has failed meanwhile
        self.sinks.iter().for_each(|sink| {
            sink.shared.route.wait(until);
        });
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
        self.sinks.iter_mut().for_each(Sink::hand_over);
        any |= self.report_folds();
        any |= self.report();
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
        for sink in &mut self.sinks {
            if !sink.wants(line.site, record.verbosity(), root, record.call()) {
                sink.leave_out();
                continue;
            }
            if self.message.is_empty() {
                line.write_message(&record, &mut self.message);
            }
            if sink.add(line, &record, &self.message) {
                sink.hand_over();
            }
        }
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

    /// Says what has become of the sinks, and how much was lost in the lanes.
    fn report(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next_loss_report;
        if is_due {
            self.next_loss_report = now + LOSS_REPORT;
            self.report_losses();
        }
        let (own, mut any) = (&mut self.own, false);
        for sink in &mut self.sinks {
            for report in sink.tend(now, is_due) {
                report_sink(own, &sink.shared.name, report);
                any = true;
            }
        }
        any
    }

    fn report_losses(&mut self) {
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

fn change(sink: &mut Sink, setting: Setting) {
    match setting {
        Setting::Levels(levels) => sink.set_levels(levels),
        Setting::Filter(filter) => sink.set_filter(filter),
        Setting::Pause(is_paused) => sink.pause(is_paused),
    }
}

fn report_sink(own: &mut Lane, name: &str, report: Report) {
    match report {
        Report::Output(Change::Failed(failure)) => error!(
            own,
            "Log '{}' cannot be written: {}; its lines are counted and lost until it can",
            name,
            Shown(failure)
        ),
        Report::Output(Change::Healed { lost }) => {
            notice!(own, "Log '{}' is written again; {} lines were lost", name, lost);
        }
        Report::Stalled => warning!(
            own,
            "Log '{}' takes nothing: what does not fit into its queue is counted and lost",
            name
        ),
        Report::Flows { lost } => {
            notice!(own, "Log '{}' takes lines again; {} were lost", name, lost);
        }
        Report::Lost(lost) => {
            warning!(own, "Log '{}' cannot keep up: {} lines were lost", name, lost);
        }
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
