//! Events of foreign crates (hickory, rustls), which they emit by the `tracing` facade.
//!
//! Warnings and errors become events of the log with a field `target`, the module that emitted
//! them; lower levels and spans are disabled at their call sites. Events of this workspace are
//! written by `event!` directly: their levels and messages are chosen at run time, which `tracing`
//! does not allow.

use std::fmt::{self, Write};

use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::{Interest, Subscriber};
use tracing_core::{Dispatch, LevelFilter, Metadata, dispatcher};

use super::{CallSite, Event, Level};

/// Events per second of all foreign crates: a client or an upstream may trigger them.
const PER_SECOND: u32 = 10;

static SITE: CallSite = CallSite::new();

/// Writes the events of foreign crates from now on; later calls have no effect.
pub(super) fn subscribe() {
    // Fails if a subscriber is set already.
    let _ = dispatcher::set_global_default(Dispatch::new(ForeignEvents));
}

/// The subscriber of the process.
struct ForeignEvents;

fn level_of(metadata: &Metadata<'_>) -> Option<Level> {
    match *metadata.level() {
        tracing_core::Level::ERROR => Some(Level::Error),
        tracing_core::Level::WARN => Some(Level::Warn),
        _ => None,
    }
}

impl Subscriber for ForeignEvents {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match level_of(metadata).filter(|_| metadata.is_event()) {
            Some(_) => Interest::sometimes(), // the log's level may change
            None => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && level_of(metadata).is_some_and(super::enabled)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &tracing_core::Event<'_>) {
        let Some(level) = level_of(event.metadata()) else { return };
        let Some(suppressed) = SITE.admit(PER_SECOND) else { return };
        let mut message = Message(String::new());
        event.record(&mut message);
        let mut line = Event::new(level, &message.0);
        line.text("target", &event.metadata().target());
        event.record(&mut Fields(&mut line));
        if suppressed > 0 {
            line.bare("suppressed", &suppressed);
        }
        line.emit();
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1) // spans are disabled
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

const MESSAGE: &str = "message";

/// Collects the message of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == MESSAGE {
            // Writing to a String does not fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

/// Appends the other fields of an event to a line.
struct Fields<'a>(&'a mut Event);

impl Fields<'_> {
    fn bare(&mut self, field: &Field, value: &dyn fmt::Display) {
        self.0.bare(field.name(), value);
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != MESSAGE {
            self.0.text(field.name(), &format_args!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() != MESSAGE {
            self.0.text(field.name(), &value);
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.bare(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.bare(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.bare(field, &value);
    }
}
