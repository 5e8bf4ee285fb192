//! The courier of a sink: a thread that writes the sink's lines, so that an output that blocks or
//! fails holds up nobody else.
//!
//! ```text
//! writer --(parcels of whole lines, bounded)--> courier --> output
//!
//! Up --write fails--> Failing: parcels are dropped and counted; tried again every RETRY
//!  ^------ write succeeds ------+
//! ```
//!
//! The queue is bounded by what the writer puts in ([`crate::sink`]): the courier only takes. One
//! wake-up for a parcel, not for a line.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, mem, thread};

use crate::output::Output;

/// How long an output that failed is left alone.
const RETRY: Duration = Duration::from_millis(250);

/// How far threads of the log stand behind others (setpriority(2), for one thread).
const NICE: i32 = 10;

/// Parcels that are kept for use again.
const SPARE_MAX: usize = 4;

/// Whole lines, in order.
#[derive(Default)]
pub(crate) struct Parcel {
    pub(crate) bytes: Vec<u8>,
    /// Where each line ends, and whether it is one that is kept.
    lines: Vec<(usize, bool)>,
}

impl Parcel {
    /// Says that a line ends here.
    pub(crate) fn end_line(&mut self, is_kept: bool) {
        self.lines.push((self.bytes.len(), is_kept));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
    }
}

/// What becomes of an output after it was told to begin anew.
pub(crate) type Renewed = (String, io::Result<()>);

/// What a courier is told, in the order of the lines.
enum Job {
    Deliver(Parcel),
    Reopen { rotate: bool, reply: Sender<Renewed> },
}

/// What became of the output, when that changed.
#[derive(Debug)]
pub(crate) enum Change {
    Failed(io::Error),
    Healed { lost: u64 },
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    spare: Vec<Parcel>,
    changes: Vec<Change>,
    is_closed: bool,
    /// Since when the courier has been writing one parcel.
    busy_since: Option<Instant>,
}

/// What the writer, the courier and those who look share.
pub(crate) struct Route {
    queue: Mutex<Queue>,
    /// Wakes the courier.
    more: Condvar,
    /// Wakes those who wait until everything is delivered.
    done: Condvar,
    /// Bytes in the queue and in the courier's hands.
    bytes: AtomicUsize,
    /// Whether there are changes to fetch: a look at the queue costs a lock.
    has_changes: AtomicBool,
    failure: Mutex<Option<String>>,
    pub(crate) written: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) dropped_keep: AtomicU64,
    pub(crate) dropped_verbose: AtomicU64,
}

impl Route {
    fn new() -> Self {
        Self {
            queue: Mutex::default(),
            more: Condvar::new(),
            done: Condvar::new(),
            bytes: AtomicUsize::new(0),
            has_changes: AtomicBool::new(false),
            failure: Mutex::new(None),
            written: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            dropped_keep: AtomicU64::new(0),
            dropped_verbose: AtomicU64::new(0),
        }
    }

    /// Bytes that are not delivered yet.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Why the output cannot be written at the moment.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Hands a parcel over, and gets an empty one for it.
    pub(crate) fn hand_over(&self, parcel: Parcel) -> Parcel {
        self.bytes.fetch_add(parcel.bytes.len(), Ordering::AcqRel);
        let mut queue = self.lock();
        queue.jobs.push_back(Job::Deliver(parcel));
        let spare = queue.spare.pop().unwrap_or_default();
        drop(queue);
        self.more.notify_one();
        spare
    }

    /// Lets the output begin anew once everything before is delivered; the answer comes then.
    pub(crate) fn renew(&self, rotate: bool, reply: Sender<Renewed>) {
        self.lock().jobs.push_back(Job::Reopen { rotate, reply });
        self.more.notify_one();
    }

    /// Ends the courier once everything before is delivered.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.more.notify_one();
    }

    /// Since when the courier has been writing one and the same parcel.
    pub(crate) fn busy_since(&self) -> Option<Instant> {
        self.lock().busy_since
    }

    /// Whether something became of the output since the last call of [`Route::take_changes`].
    pub(crate) fn has_changes(&self) -> bool {
        self.has_changes.load(Ordering::Acquire)
    }

    /// What became of the output since the last call.
    pub(crate) fn take_changes(&self) -> Vec<Change> {
        if self.has_changes.swap(false, Ordering::AcqRel) {
            mem::take(&mut self.lock().changes)
        } else {
            Vec::new()
        }
    }

    /// Waits until everything is delivered (or counted as lost); `false` when that takes longer.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let mut queue = self.lock();
        while !queue.jobs.is_empty() || queue.busy_since.is_some() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = match self.done.wait_timeout(queue, left) {
                Ok((queue, _)) => queue,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        true
    }

    /// Waits for a job; `None` when there will be none.
    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                queue.busy_since = Some(Instant::now());
                return Some(job);
            }
            if queue.is_closed {
                return None;
            }
            queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, bytes: usize, spare: Option<Parcel>, change: Option<Change>) {
        if let Some(change) = &change {
            let failure = match change {
                Change::Failed(error) => Some(error.to_string()),
                Change::Healed { .. } => None,
            };
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
        }
        let mut queue = self.lock();
        queue.busy_since = None;
        if let Some(change) = change {
            queue.changes.push(change);
            self.has_changes.store(true, Ordering::Release);
        }
        if let Some(spare) = spare.filter(|_| queue.spare.len() < SPARE_MAX) {
            queue.spare.push(spare);
        }
        drop(queue);
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.done.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the courier of the sink `name`.
pub(crate) fn start(name: &str, output: Box<dyn Output>) -> io::Result<Arc<Route>> {
    let route = Arc::new(Route::new());
    let courier = Courier {
        name: name.to_owned(),
        route: Arc::clone(&route),
        output,
        is_torn: false,
        state: State::Up,
    };
    // The kernel shows 15 letters of a thread's name.
    let thread = format!("log-{}", name.chars().take(11).collect::<String>());
    thread::Builder::new().name(thread).spawn(move || courier.run())?;
    Ok(route)
}

/// Lets threads that serve calls go first where processors are short: then VERBOSE is dropped, and
/// no call. A tenth of a processor is left, which writes what must be kept many times over.
pub(crate) fn stand_back() {
    // Without it the log is only less polite.
    let _ = rustix::process::setpriority_process(None, NICE);
}

enum State {
    Up,
    Failing { until: Instant, lost: u64 },
}

struct Courier {
    name: String,
    route: Arc<Route>,
    output: Box<dyn Output>,
    /// The last write ended within a line.
    is_torn: bool,
    state: State,
}

impl Courier {
    fn run(mut self) {
        stand_back();
        while let Some(job) = self.route.next() {
            match job {
                Job::Deliver(mut parcel) => {
                    let change = self.deliver(&parcel);
                    let bytes = parcel.bytes.len();
                    parcel.clear();
                    self.route.finish(bytes, Some(parcel), change);
                }
                Job::Reopen { rotate, reply } => {
                    let result = self.renew(rotate);
                    self.route.finish(0, None, None);
                    // Whoever asked may have gone; then nobody needs the answer.
                    let _ = reply.send((self.name.clone(), result));
                }
            }
        }
    }

    fn deliver(&mut self, parcel: &Parcel) -> Option<Change> {
        if let State::Failing { until, lost } = &mut self.state
            && Instant::now() < *until
        {
            *lost += parcel.lines.len() as u64;
            self.count(parcel, 0, 0);
            return None;
        }
        let (done, result) = self.write_all(&parcel.bytes);
        let whole = parcel.lines.partition_point(|(end, _)| *end <= done);
        let boundary = if whole == 0 { 0 } else { parcel.lines[whole - 1].0 };
        if done > 0 {
            self.is_torn = done != boundary;
        }
        let lost_now = (parcel.lines.len() - whole) as u64;
        self.count(parcel, whole, done);
        match (result, &mut self.state) {
            (Ok(()), State::Up) => None,
            (Ok(()), State::Failing { lost, .. }) => {
                let lost = *lost;
                self.state = State::Up;
                Some(Change::Healed { lost })
            }
            (Err(_), State::Failing { until, lost }) => {
                *until = Instant::now() + RETRY;
                *lost += lost_now;
                None
            }
            (Err(error), State::Up) => {
                self.state = State::Failing { until: Instant::now() + RETRY, lost: lost_now };
                Some(Change::Failed(error))
            }
        }
    }

    /// The old file stays when the new one cannot be opened.
    fn renew(&mut self, rotate: bool) -> io::Result<()> {
        if rotate { self.output.rotate() } else { self.output.reopen() }?;
        self.is_torn = false;
        if let State::Failing { until, .. } = &mut self.state {
            *until = Instant::now(); // the new file is worth a try
        }
        Ok(())
    }

    /// How many bytes were written, and why not all.
    fn write_all(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        if self.is_torn {
            match self.output.write(b"\n") {
                Ok(1..) => self.is_torn = false,
                Ok(0) => return (0, Err(io::ErrorKind::WriteZero.into())),
                Err(error) => return (0, Err(error)),
            }
        }
        let mut done = 0;
        while done < bytes.len() {
            match self.output.write(&bytes[done..]) {
                Ok(0) => return (done, Err(io::ErrorKind::WriteZero.into())),
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }

    fn count(&self, parcel: &Parcel, whole: usize, bytes: usize) {
        let lost = &parcel.lines[whole..];
        let kept = lost.iter().filter(|(_, is_kept)| *is_kept).count();
        let route = &self.route;
        route.written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        route.dropped_keep.fetch_add(kept as u64, Ordering::Relaxed);
        route.dropped_verbose.fetch_add((lost.len() - kept) as u64, Ordering::Relaxed);
        route.written.fetch_add(whole as u64, Ordering::Relaxed);
    }
}
