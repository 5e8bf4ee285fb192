//! Events of libraries become records in the same lanes: a bare `tracing` subscriber, and the same
//! for libraries that speak through `log`.
//!
//! No Registry, no spans, no formatting layers. Which events are wanted is held by [`Targets`];
//! `tracing` caches the answer in each call site, so an unwanted event costs what an unwanted own
//! record costs. ERROR, WARN and INFO become ERROR, WARNING and NOTICE; DEBUG and TRACE become
//! DEBUG 1 and 5, so a sink must also want DEBUG, and the module's debug level allow it.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard};

use tracing::field::{Field as Named, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record as SpanRecord};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::Targets;

use crate::field::{Plain, ShortText, TEXT_MAX};
use crate::gate;
use crate::lane::Mark;
use crate::level::Level;
use crate::site::Site;
use crate::thread::{AlreadyInstalled, Here};

/// An event's text may fill this many fields of a record.
const TEXT_FIELDS: usize = 4;

/// Own DEBUG levels from here on mean TRACE to a library.
const TRACE_LEVEL: u8 = 5;

/// Sites of foreign modules, one per module and level. A library's modules are as many as its
/// source has; beyond this number they share one site.
const FOREIGN_SITES_MAX: usize = 4096;

static LISTENING: OnceLock<Listening> = OnceLock::new();

/// Installs the subscriber for the whole process, so that libraries' events that `targets` wants
/// land in the log. Debug levels by module ([`crate::set_debug_module`]) open `targets` further.
pub fn listen(targets: Targets) -> Result<(), AlreadyInstalled> {
    let listening = Listening {
        asked: RwLock::new(targets.clone()),
        effective: RwLock::new(targets),
        sites: RwLock::default(),
    };
    LISTENING.set(listening).map_err(|_| AlreadyInstalled)?;
    tracing::subscriber::set_global_default(TracingEvents).map_err(|_| AlreadyInstalled)?;
    log::set_logger(&LogEvents).map_err(|_| AlreadyInstalled)?;
    set_debug_modules(&gate::view().debug_modules);
    Ok(())
}

/// Replaces what [`listen`] was told to want; without effect when nobody listens.
pub fn set_targets(targets: Targets) {
    if let Some(listening) = LISTENING.get() {
        *listening.asked.write().unwrap_or_else(PoisonError::into_inner) = targets;
        set_debug_modules(&gate::view().debug_modules);
    }
}

/// What a program wants of its libraries unless told otherwise: warnings and errors.
pub fn default_targets() -> Targets {
    Targets::new().with_default(LevelFilter::WARN)
}

pub(crate) fn set_debug_modules(modules: &[(String, u8)]) {
    let Some(listening) = LISTENING.get() else { return };
    let mut targets = listening.asked.read().unwrap_or_else(PoisonError::into_inner).clone();
    for (module, level) in modules.iter().filter(|(_, level)| *level > 0) {
        let filter = if *level >= TRACE_LEVEL { LevelFilter::TRACE } else { LevelFilter::DEBUG };
        targets = targets.with_target(module.clone(), filter);
    }
    let highest = highest(&targets);
    *listening.effective.write().unwrap_or_else(PoisonError::into_inner) = targets;
    tracing::callsite::rebuild_interest_cache();
    log::set_max_level(match highest {
        LevelFilter::OFF => log::LevelFilter::Off,
        LevelFilter::ERROR => log::LevelFilter::Error,
        LevelFilter::WARN => log::LevelFilter::Warn,
        LevelFilter::INFO => log::LevelFilter::Info,
        LevelFilter::DEBUG => log::LevelFilter::Debug,
        LevelFilter::TRACE => log::LevelFilter::Trace,
    });
}

fn highest(targets: &Targets) -> LevelFilter {
    let of_targets = targets.iter().map(|(_, level)| level).max();
    of_targets.max(targets.default_level()).unwrap_or(LevelFilter::OFF)
}

#[derive(Debug)]
struct Listening {
    asked: RwLock<Targets>,
    effective: RwLock<Targets>,
    /// By module, then level. Sites live for ever, hence the limit.
    sites: RwLock<HashMap<String, [Option<&'static Site>; 5]>>,
}

impl Listening {
    fn targets(&self) -> RwLockReadGuard<'_, Targets> {
        self.effective.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn site(&self, target: &str, level: tracing::Level) -> &'static Site {
        let number = number(level);
        let sites = self.sites.read().unwrap_or_else(PoisonError::into_inner);
        let known = sites.get(target).and_then(|of_target| of_target[number]);
        let is_full = sites.len() >= FOREIGN_SITES_MAX && !sites.contains_key(target);
        drop(sites);
        if let Some(site) = known {
            return site;
        }
        let target = if is_full { "others" } else { target };
        let mut sites = self.sites.write().unwrap_or_else(PoisonError::into_inner);
        let of_target = sites.entry(target.to_owned()).or_default();
        of_target[number].get_or_insert_with(|| Box::leak(Box::new(site_of(target, level))))
    }
}

const fn number(level: tracing::Level) -> usize {
    match level {
        tracing::Level::ERROR => 0,
        tracing::Level::WARN => 1,
        tracing::Level::INFO => 2,
        tracing::Level::DEBUG => 3,
        tracing::Level::TRACE => 4,
    }
}

fn site_of(target: &str, level: tracing::Level) -> Site {
    let level = match level {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warning,
        tracing::Level::INFO => Level::Notice,
        tracing::Level::DEBUG | tracing::Level::TRACE => Level::Debug,
    };
    let target: &'static str = Box::leak(target.to_owned().into_boxed_str());
    // The file token of a line: the crate, since many libraries have a `conn.rs`.
    let file = target.split("::").next().unwrap_or_default();
    Site::new(level, target, file, 0, "{}")
}

fn verbosity(level: tracing::Level) -> u8 {
    if level == tracing::Level::TRACE { TRACE_LEVEL } else { 1 }
}

/// Puts the text of an event into the lane of the running thread.
fn record(site: &'static Site, verbosity: u8, text: &EventText) {
    let mark = Mark { verbosity, call: 0, from: None };
    Here.record(site, mark, |fields| {
        for part in text.0.as_bytes().chunks(TEXT_MAX) {
            fields.put(&Plain(part));
        }
        if text.0.is_cut {
            fields.put("…");
        }
    });
}

struct TracingEvents;

impl TracingEvents {
    fn wants(metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && LISTENING.get().is_some_and(|listening| {
                listening.targets().would_enable(metadata.target(), metadata.level())
            })
    }
}

impl Subscriber for TracingEvents {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if Self::wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        Self::wants(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        LISTENING.get().map(|listening| highest(&listening.targets()))
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1) // no span is enabled, so nobody asks for it
    }

    fn record(&self, _: &Id, _: &SpanRecord<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let Some(listening) = LISTENING.get() else { return };
        let level = *event.metadata().level();
        let site = listening.site(event.metadata().target(), level);
        if site.is_wanted(verbosity(level)) {
            let mut text = EventText(ShortText::new());
            event.record(&mut text);
            record(site, verbosity(level), &text);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct LogEvents;

fn of_log(level: log::Level) -> tracing::Level {
    match level {
        log::Level::Error => tracing::Level::ERROR,
        log::Level::Warn => tracing::Level::WARN,
        log::Level::Info => tracing::Level::INFO,
        log::Level::Debug => tracing::Level::DEBUG,
        log::Level::Trace => tracing::Level::TRACE,
    }
}

impl log::Log for LogEvents {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        LISTENING.get().is_some_and(|listening| {
            listening.targets().would_enable(metadata.target(), &of_log(metadata.level()))
        })
    }

    fn log(&self, event: &log::Record<'_>) {
        let Some(listening) = LISTENING.get().filter(|_| self.enabled(event.metadata())) else {
            return;
        };
        let level = of_log(event.level());
        let site = listening.site(event.target(), level);
        if site.is_wanted(verbosity(level)) {
            let mut text = EventText(ShortText::new());
            // ShortText cuts and never fails; a value's own Display may, and is shown so far.
            let _ = write!(text.0, "{}", event.args());
            record(site, verbosity(level), &text);
        }
    }

    fn flush(&self) {}
}

/// The event's message, then its fields as `name=value`. It is formatted here and not by the
/// writer, since its values can only be borrowed during the event.
struct EventText(ShortText<{ TEXT_FIELDS * TEXT_MAX }>);

impl EventText {
    fn put(&mut self, field: &Named, value: fmt::Arguments<'_>) {
        let before = if self.0.as_bytes().is_empty() { "" } else { " " };
        // As in `LogEvents::log`.
        let _ = match field.name() {
            "message" => write!(self.0, "{before}{value}"),
            name => write!(self.0, "{before}{name}={value}"),
        };
    }
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Named, value: &dyn fmt::Debug) {
        self.put(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Named, value: &str) {
        self.put(field, format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Named, value: &(dyn std::error::Error + 'static)) {
        self.put(field, format_args!("{value}"));
    }
}
