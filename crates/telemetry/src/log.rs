//! Events: log lines for the operator.
//!
//! `event!(Level::Info, "listening", name = web, address = addr)` writes `2026-11-20T10:21:00.123Z
//! INFO listening name=web address=127.0.0.1:8080`, or the same as JSON. Nothing is formatted below
//! the level. Lines go to the installed ring, so that no worker waits for the reader of the log, or
//! directly to stderr while there is none (at the start, at the end, in tests). Events that a
//! client can trigger use `event_limited!`, which passes a number of them per second and call site
//! and reports how many were suppressed.

use crate::escape::{cut, json_string, text_value};
use crate::limits::EVENT_BYTES;
use crate::ring::LogRing;
use crate::timestamp;
use std::fmt::{self, Display, Write as _};
use std::io::Write as _;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    pub const ALL: [Level; 4] = [Self::Error, Self::Warn, Self::Info, Self::Debug];

    pub const fn slug(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    const fn uppercase(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
        }
    }

    /// The level of a line that `event!` has written; `None` for a line of another log.
    pub fn of_line(line: &[u8]) -> Option<Self> {
        let word = match line.strip_prefix(b"{") {
            Some(json) => {
                let before = br#","level":""#;
                // It follows the time.
                let start = &json[..json.len().min(64)];
                let at = start.windows(before.len()).position(|found| found == before)?;
                json[at + before.len()..].split(|byte| *byte == b'"').next()?
            }
            None => line.split(|byte| *byte == b' ').nth(1)?,
        };
        let slug = |level: &Level| word.eq_ignore_ascii_case(level.slug().as_bytes());
        Self::ALL.into_iter().find(slug)
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.slug() == word)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Format {
    Text,
    Json,
}

mod tracing_events;

static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);
static FORMAT: AtomicU8 = AtomicU8::new(Format::Text as u8);
static RING: RwLock<Option<Arc<LogRing>>> = RwLock::new(None);

pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Relaxed);
}

pub fn level() -> Level {
    let current = LEVEL.load(Relaxed);
    Level::ALL.into_iter().find(|level| *level as u8 == current).unwrap_or(Level::Info)
}

pub fn set_format(format: Format) {
    FORMAT.store(format as u8, Relaxed);
}

fn format() -> Format {
    if FORMAT.load(Relaxed) == Format::Json as u8 { Format::Json } else { Format::Text }
}

#[inline]
pub fn enabled(level: Level) -> bool {
    level as u8 <= LEVEL.load(Relaxed)
}

/// Sends events, including those of foreign crates, through a ring from now on; `None` writes them
/// to stderr directly.
pub fn install(ring: Option<Arc<LogRing>>) {
    tracing_events::subscribe();
    *RING.write().unwrap_or_else(PoisonError::into_inner) = ring;
}

/// An event line under construction, written by `event!`.
#[derive(Debug)]
pub struct Event {
    line: Vec<u8>,
    format: Format,
}

impl Event {
    pub fn new(level: Level, message: &str) -> Self {
        Self::at(timestamp::now_ms(), format(), level, message)
    }

    fn at(unix_ms: u64, format: Format, level: Level, message: &str) -> Self {
        let mut line = Vec::with_capacity(256);
        match format {
            Format::Text => {
                timestamp::rfc3339(unix_ms, &mut line);
                line.push(b' ');
                line.extend_from_slice(level.uppercase().as_bytes());
                line.push(b' ');
                line.extend_from_slice(message.as_bytes());
            }
            Format::Json => {
                line.extend_from_slice(b"{\"time\":\"");
                timestamp::rfc3339(unix_ms, &mut line);
                line.extend_from_slice(b"\",\"level\":\"");
                line.extend_from_slice(level.slug().as_bytes());
                line.extend_from_slice(b"\",\"message\":");
                json_string(message.as_bytes(), &mut line);
            }
        }
        Self { line, format }
    }

    fn key(&mut self, key: &str) {
        match self.format {
            Format::Text => {
                self.line.push(b' ');
                self.line.extend_from_slice(key.as_bytes());
                self.line.push(b'=');
            }
            Format::Json => {
                self.line.push(b',');
                json_string(key.as_bytes(), &mut self.line);
                self.line.push(b':');
            }
        }
    }

    /// Adds a text field; the value is escaped, and cut off if the line gets too long.
    pub fn text(&mut self, key: &str, value: &dyn Display) {
        let mut rendered = BoundedText { text: String::new(), room: EVENT_BYTES };
        rendered.room = rendered.room.saturating_sub(self.line.len());
        // Only `BoundedText` fails, when it is full.
        let _ = write!(rendered, "{value}");
        self.key(key);
        match self.format {
            Format::Text => text_value(rendered.text.as_bytes(), &mut self.line),
            Format::Json => json_string(rendered.text.as_bytes(), &mut self.line),
        }
    }

    /// Adds a number or a boolean, unquoted in JSON.
    pub fn bare(&mut self, key: &str, value: &dyn Display) {
        self.key(key);
        // Writing to a Vec does not fail.
        let _ = write!(self.line, "{value}");
    }

    fn finish(mut self) -> Vec<u8> {
        if self.format == Format::Json {
            self.line.push(b'}');
        }
        self.line
    }

    pub fn emit(self) {
        let mut line = self.finish();
        let ring = RING.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(ring) = ring.as_ref() {
            ring.push(line);
        } else {
            line.push(b'\n');
            // Without stderr nothing can report the failure.
            let _ = std::io::stderr().lock().write_all(&line);
        }
    }
}

/// A string with a maximal length.
struct BoundedText {
    text: String,
    room: usize,
}

impl fmt::Write for BoundedText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let fitting = cut(piece, self.room - self.text.len());
        self.text.push_str(fitting);
        if fitting.len() < piece.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// The rate limit of one call site of `event_limited!`.
#[derive(Debug, Default)]
pub struct CallSite {
    /// The current second (upper 40 bits) and its number of events (lower 24).
    window: AtomicU64,
    suppressed: AtomicU64,
}

impl CallSite {
    pub const fn new() -> Self {
        Self { window: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// Returns the number of events suppressed since the last one that passed; `None` if this one
    /// is suppressed.
    pub fn admit(&self, per_second: u32) -> Option<u64> {
        self.admit_at(timestamp::now_ms() / 1_000, per_second)
    }

    fn admit_at(&self, now_s: u64, per_second: u32) -> Option<u64> {
        const COUNT_BITS: u32 = 24;
        let most = u64::from(per_second).min((1 << COUNT_BITS) - 1);
        let admitted = self.window.fetch_update(Relaxed, Relaxed, |window| {
            let count =
                if window >> COUNT_BITS == now_s { window & ((1 << COUNT_BITS) - 1) } else { 0 };
            (count < most).then_some(now_s << COUNT_BITS | (count + 1))
        });
        if admitted.is_err() {
            self.suppressed.fetch_add(1, Relaxed);
            return None;
        }
        Some(self.suppressed.swap(0, Relaxed))
    }
}

/// Distinguishes numbers and what may be missing from text in `event!`: method lookup finds `Bare`
/// on `Field<number>` before it finds `Quoted` on a reference to any `Field`.
#[doc(hidden)]
pub struct Field<'a, T: ?Sized>(pub &'a T);

#[doc(hidden)]
pub trait Bare {
    fn put(&self, key: &str, event: &mut Event);
}

#[doc(hidden)]
pub trait Quoted {
    fn put(&self, key: &str, event: &mut Event);
}

macro_rules! bare {
    ($($number:ty),*) => {
        $(impl Bare for Field<'_, $number> {
            fn put(&self, key: &str, event: &mut Event) {
                event.bare(key, self.0);
            }
        })*
    };
}

bare!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, bool);

/// A text that an event may lack, such as the `trace_id` of its request: then it has no such field.
impl<T: Display> Bare for Field<'_, Option<T>> {
    fn put(&self, key: &str, event: &mut Event) {
        if let Some(value) = self.0 {
            event.text(key, value);
        }
    }
}

impl<T: Display + ?Sized> Quoted for &Field<'_, T> {
    fn put(&self, key: &str, event: &mut Event) {
        event.text(key, &self.0);
    }
}

/// Writes an event: `event!(level, "message", key = value, …)`. Values are `Display`, or an
/// `Option` of it whose `None` leaves out the field; nothing is evaluated if the level is disabled.
#[macro_export]
macro_rules! event {
    ($level:expr, $message:expr $(, $key:ident = $value:expr)* $(,)?) => {{
        let level: $crate::log::Level = $level;
        if $crate::log::enabled(level) {
            #[allow(unused_mut)] // without fields
            let mut event = $crate::log::Event::new(level, $message);
            $({
                #[allow(unused_imports)] // each field uses one of the two
                use $crate::log::{Bare as _, Quoted as _};
                (&$crate::log::Field(&$value)).put(stringify!($key), &mut event);
            })*
            event.emit();
        }
    }};
}

/// Like `event!`, with at most so many events per second from this call site: `event_limited!(10,
/// level, "message", key = value, …)`. The next event that passes has a field `suppressed`.
#[macro_export]
macro_rules! event_limited {
    ($per_second:expr, $level:expr, $message:expr $(, $key:ident = $value:expr)* $(,)?) => {{
        static SITE: $crate::log::CallSite = $crate::log::CallSite::new();
        if $crate::log::enabled($level) {
            match SITE.admit($per_second) {
                None => {}
                Some(0) => $crate::event!($level, $message $(, $key = $value)*),
                Some(suppressed) => {
                    $crate::event!($level, $message $(, $key = $value)*, suppressed = suppressed)
                }
            }
        }
    }};
}

#[cfg(test)]
mod tests;
