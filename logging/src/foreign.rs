//! The bare `tracing` subscriber: events of libraries become records in the same lanes.
//!
//! No Registry, no spans, no formatting layers. Which events are wanted is held by
//! [`Targets`]; `tracing` caches the answer in each call site, so an unwanted event costs what an
//! unwanted own record costs. ERROR, WARN and INFO become ERROR, WARNING and NOTICE; DEBUG and
//! TRACE become DEBUG 1 and 5, so a sink must also want DEBUG.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tracing::callsite::Identifier;
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

static WANTED: OnceLock<Arc<Wanted>> = OnceLock::new();

/// Installs the subscriber for the whole process, so that libraries' events that `targets` wants
/// land in the log. Debug levels by module ([`crate::set_debug_module`]) open `targets` further.
pub fn listen(targets: Targets) -> Result<(), AlreadyInstalled> {
    let wanted = Arc::new(Wanted {
        asked: RwLock::new(targets.clone()),
        effective: RwLock::new(targets),
        sites: RwLock::default(),
    });
    WANTED.set(Arc::clone(&wanted)).map_err(|_| AlreadyInstalled)?;
    set_debug_modules(&gate::view().debug_modules);
    tracing::subscriber::set_global_default(Listener(wanted)).map_err(|_| AlreadyInstalled)
}

/// Replaces what [`listen`] was told to want; without effect when nobody listens.
pub fn set_targets(targets: Targets) {
    if let Some(wanted) = WANTED.get() {
        *wanted.asked.write().unwrap_or_else(PoisonError::into_inner) = targets;
        set_debug_modules(&gate::view().debug_modules);
    }
}

/// What a program wants of its libraries unless told otherwise: warnings and errors.
pub fn default_targets() -> Targets {
    Targets::new().with_default(LevelFilter::WARN)
}

pub(crate) fn set_debug_modules(modules: &[(String, u8)]) {
    let Some(wanted) = WANTED.get() else { return };
    let mut targets = wanted.asked.read().unwrap_or_else(PoisonError::into_inner).clone();
    for (module, level) in modules.iter().filter(|(_, level)| *level > 0) {
        let filter = if *level >= TRACE_LEVEL { LevelFilter::TRACE } else { LevelFilter::DEBUG };
        targets = targets.with_target(module.clone(), filter);
    }
    *wanted.effective.write().unwrap_or_else(PoisonError::into_inner) = targets;
    tracing::callsite::rebuild_interest_cache();
}

#[derive(Debug)]
struct Wanted {
    asked: RwLock<Targets>,
    effective: RwLock<Targets>,
    /// A site for each event's place in a library that was reached. As many as the libraries'
    /// source has, so the map is bounded although its sites are never freed.
    sites: RwLock<HashMap<Identifier, &'static Site>>,
}

struct Listener(Arc<Wanted>);

impl Listener {
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let targets = self.0.effective.read().unwrap_or_else(PoisonError::into_inner);
        metadata.is_event() && targets.would_enable(metadata.target(), metadata.level())
    }

    fn site(&self, metadata: &'static Metadata<'static>) -> &'static Site {
        let callsite = metadata.callsite();
        let sites = self.0.sites.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(site) = sites.get(&callsite) {
            return site;
        }
        drop(sites);
        let mut sites = self.0.sites.write().unwrap_or_else(PoisonError::into_inner);
        sites.entry(callsite).or_insert_with(|| Box::leak(Box::new(site_of(metadata))))
    }
}

fn site_of(metadata: &'static Metadata<'static>) -> Site {
    let level = match *metadata.level() {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warning,
        tracing::Level::INFO => Level::Notice,
        tracing::Level::DEBUG | tracing::Level::TRACE => Level::Debug,
    };
    // The file token of a line: the crate, since many libraries have a `conn.rs`.
    let file = metadata.target().split("::").next().unwrap_or_default();
    Site::new(level, metadata.target(), file, metadata.line().unwrap_or(0), "{}")
}

impl Subscriber for Listener {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.wants(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let targets = self.0.effective.read().unwrap_or_else(PoisonError::into_inner);
        let of_targets = targets.iter().map(|(_, level)| level).max();
        of_targets.max(targets.default_level())
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1) // no span is enabled, so nobody asks for it
    }

    fn record(&self, _: &Id, _: &SpanRecord<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let site = self.site(metadata);
        let verbosity = if *metadata.level() == tracing::Level::TRACE { TRACE_LEVEL } else { 1 };
        if !site.is_wanted(verbosity) {
            return;
        }
        let mut text = EventText(ShortText::new());
        event.record(&mut text);
        let mark = Mark { verbosity, call: 0, from: None };
        Here.record(site, mark, |fields| {
            let bytes = text.0.as_bytes();
            for part in bytes.chunks(TEXT_MAX) {
                fields.put(&Plain(part));
            }
            if text.0.is_cut {
                fields.put("…");
            }
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The event's message, then its fields as `name=value`. It is formatted here and not by the
/// writer, since its values can only be borrowed during the event.
struct EventText(ShortText<{ TEXT_FIELDS * TEXT_MAX }>);

impl EventText {
    fn put(&mut self, field: &Named, value: fmt::Arguments<'_>) {
        let before = if self.0.as_bytes().is_empty() { "" } else { " " };
        // ShortText cuts and never fails; a value's own Debug may fail and is shown so far.
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
