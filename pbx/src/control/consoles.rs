//! Attached consoles: operators who watch the log. Each is a sink of its own, with a verbosity,
//! levels and filters that concern nobody else.
//!
//! ```text
//! pbxctl -vvv ── connection 1: commands and replies
//!             └─ connection 2: Attach ─► Attached ─► lines, written by the sink's own thread
//! ```
//!
//! A console that takes nothing holds up its own thread only; its sink drops what does not fit, and
//! counts it. When its connection closes, the sink goes.

use logging::{Level, Levels, Verbosity, notice};
use logging_sinks::{Filter, Format, Logger, Output, SinkSpec, Target};
use pbx_control::wire::{Attach, LogFilter};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Calls and texts that one console may filter by.
const FILTERS_MAX: usize = 32;

/// What may wait for one console: a screen of 50 lines a second for minutes.
const QUEUE_BYTES: usize = 1 << 20;

/// How often a writer that waits for a console looks whether it is still wanted.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// What one console wants.
#[derive(Clone)]
struct Wish {
    verbose: u8,
    /// Its levels but VERBOSE.
    levels: Levels,
    filter: Filter,
    following: Option<u32>,
    is_muted: bool,
    /// Lines lost until it was paused.
    lost_before: u64,
}

impl Wish {
    fn levels(&self) -> Levels {
        if self.is_muted {
            Levels::NONE
        } else if self.following.is_some() {
            Levels::ALL.with_verbose(Verbosity::Fixed(logging::VERBOSITY_MAX))
        } else {
            self.levels.with_verbose(Verbosity::Fixed(self.verbose))
        }
    }

    fn filter(&self) -> Filter {
        match self.following {
            Some(call) => Filter { calls: vec![call], texts: Vec::new() },
            None => self.filter.clone(),
        }
    }
}

/// All attached consoles.
#[derive(Default)]
pub(crate) struct Consoles {
    wishes: Mutex<BTreeMap<String, Wish>>,
    made: AtomicU32,
}

/// Why nothing was done.
pub(super) const NOT_ATTACHED: &str =
    "this belongs to an attached console: start one with `pbxctl -v`";

impl Consoles {
    /// A name for a console that comes.
    pub(super) fn next_name(&self) -> String {
        format!("console-{}", self.made.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Makes the connection a sink, which writes nothing before it is let.
    pub(super) fn attach(
        &self,
        logger: &Logger,
        (name, who): (&str, &str),
        attach: &Attach,
        stream: UnixStream,
    ) -> io::Result<Arc<Gates>> {
        let wish = Wish {
            verbose: attach.verbose.min(logging::VERBOSITY_MAX),
            levels: usual_levels(),
            filter: Filter::default(),
            following: None,
            is_muted: false,
            lost_before: 0,
        };
        let format = match attach.json {
            true => Format::Json,
            false => Format::Console { colour: attach.colour },
        };
        let gates = Arc::new(Gates::default());
        let output = Screen { stream, gates: Arc::clone(&gates) };
        let target = Target::Other("console", Box::new(output));
        let new = SinkSpec::new(name, wish.levels(), target);
        logger.add(SinkSpec { format, queue_bytes: QUEUE_BYTES, ..new })?;
        self.wishes().insert(name.to_owned(), wish);
        notice!("Console '{}' is attached by {}", name, who);
        Ok(gates)
    }

    /// The console has gone.
    pub(super) fn detach(&self, logger: &Logger, name: &str) {
        self.wishes().remove(name);
        logger.remove(name);
        notice!("Console '{}' is gone", name);
    }

    /// Sets a console's verbosity; the former one and the new one.
    pub(super) fn set_verbose(
        &self,
        logger: &Logger,
        name: &str,
        level: u8,
        at_least: bool,
    ) -> Option<(u8, u8)> {
        let mut levels = None;
        self.change(logger, name, |wish| {
            let was = wish.verbose;
            wish.verbose = if at_least { level.max(was) } else { level };
            levels = Some((was, wish.verbose));
        })?;
        levels
    }

    /// Shows a level, or not.
    pub(super) fn set_level(
        &self,
        logger: &Logger,
        name: &str,
        level: Level,
        is_on: bool,
    ) -> Option<()> {
        self.change(logger, name, |wish| {
            let levels = wish.levels;
            wish.levels = if is_on { levels.with(level) } else { levels.without(level) };
        })
    }

    /// Shows nothing, or again; whether it is muted now.
    pub(super) fn mute(&self, logger: &Logger, name: &str) -> Option<bool> {
        let mut is_muted = false;
        self.change(logger, name, |wish| {
            wish.is_muted = !wish.is_muted;
            is_muted = wish.is_muted;
        })?;
        Some(is_muted)
    }

    /// Shows one call and nothing else, or everything again.
    pub(super) fn follow(&self, logger: &Logger, name: &str, call: Option<u32>) -> Option<()> {
        self.change(logger, name, |wish| wish.following = call)
    }

    /// Narrows what is shown, for a filter by call with that call's number; the outer `None`: there
    /// is no such console.
    pub(super) fn filter(
        &self,
        logger: &Logger,
        name: &str,
        filter: &LogFilter,
        call: u32,
    ) -> Option<Result<(), String>> {
        let mut done = Ok(());
        self.change(logger, name, |wish| done = narrow(wish, filter, call))?;
        Some(done)
    }

    /// Drops and counts the console's lines from now on, or ends that: then it says how many were
    /// lost meanwhile.
    pub(super) fn pause(&self, logger: &Logger, name: &str, is_on: bool) -> Option<u64> {
        let mut wishes = self.wishes();
        let wish = wishes.get_mut(name)?;
        let lost = || {
            let sinks = logger.view().sinks;
            sinks.iter().find(|sink| sink.name == name).map_or(0, |sink| sink.counts.dropped)
        };
        // What was made before belongs to the time before.
        logger.pause(name, is_on);
        let now = lost();
        let before = std::mem::replace(&mut wish.lost_before, now);
        Some(if is_on { 0 } else { now.saturating_sub(before) })
    }

    fn change(&self, logger: &Logger, name: &str, change: impl FnOnce(&mut Wish)) -> Option<()> {
        let mut wishes = self.wishes();
        let wish = wishes.get_mut(name)?;
        change(wish);
        logger.set_filter(name, wish.filter());
        logger.set_levels(name, wish.levels());
        Some(())
    }

    fn wishes(&self) -> MutexGuard<'_, BTreeMap<String, Wish>> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn narrow(wish: &mut Wish, filter: &LogFilter, call: u32) -> Result<(), String> {
    let is_full = wish.filter.calls.len() + wish.filter.texts.len() >= FILTERS_MAX;
    match filter {
        LogFilter::Off => {
            wish.filter = Filter::default();
            wish.levels = usual_levels();
            wish.following = None;
        }
        LogFilter::Call { .. } | LogFilter::Text { .. } if is_full => {
            return Err(format!("a console has at most {FILTERS_MAX} filters"));
        }
        LogFilter::Call { .. } => wish.filter.calls.push(call),
        LogFilter::Text { text } => wish.filter.texts.push(text.clone()),
        LogFilter::Levels { levels } => {
            let levels: Levels = levels.parse().map_err(|error| format!("{error}"))?;
            // How much VERBOSE is the console's verbosity.
            wish.levels = levels.without(Level::Verbose);
            if !levels.contains(Level::Verbose) {
                wish.verbose = 0;
            }
        }
    }
    Ok(())
}

/// What an operator sees without asking for more.
fn usual_levels() -> Levels {
    "notice,warning,error".parse().expect("the levels are this program's own")
}

/// The connection of a console. The descriptor does not block, so that the console's own task can
/// read from it; the sink's thread waits here.
struct Screen {
    stream: UnixStream,
    gates: Arc<Gates>,
}

/// What the console's own task tells the thread that writes.
#[derive(Default)]
pub(super) struct Gates {
    /// The answer has been written, lines may follow.
    pub(super) may_write: AtomicBool,
    /// The connection is closed.
    pub(super) is_gone: AtomicBool,
}

/// How often a line that waits for the answer looks.
const ANSWER_EVERY: Duration = Duration::from_millis(1);

impl Output for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            if self.gates.is_gone.load(Ordering::Acquire) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if !self.gates.may_write.load(Ordering::Acquire) {
                thread::sleep(ANSWER_EVERY);
                continue;
            }
            match self.stream.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            let mut wanted = [PollFd::new(&self.stream, PollFlags::OUT)];
            poll(&mut wanted, Some(&LOOK_EVERY))?;
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}
