//! Compiled patterns, and a VM's cache of them.

use super::Target;
use crate::limits;
use mlua::{Error, Result};
use regex::bytes::{Captures, Regex, RegexBuilder};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;

/// Cheap to clone: the library counts references.
#[derive(Clone)]
pub(super) struct Pattern(Regex);

impl Deref for Pattern {
    type Target = Regex;

    fn deref(&self) -> &Regex {
        &self.0
    }
}

impl Pattern {
    pub(super) fn new(pattern: &[u8]) -> std::result::Result<Self, String> {
        if pattern.len() > limits::RE_PATTERN_BYTES {
            return Err(format!("a pattern is longer than {} bytes", limits::RE_PATTERN_BYTES));
        }
        let pattern = std::str::from_utf8(pattern).map_err(|_| "a pattern is not UTF-8")?;
        let regex = RegexBuilder::new(pattern)
            .size_limit(limits::RE_PROGRAM_BYTES)
            .dfa_size_limit(limits::RE_STATES_BYTES)
            .build();
        regex.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(limit) => {
                format!("the pattern compiles to more than {limit} bytes")
            }
            other => last_line(&other.to_string()),
        })
    }

    /// The match after the one that ended at `last`; an empty match at that position is skipped, as
    /// the library's iterators do.
    pub(super) fn next<'a>(
        &self,
        text: &'a [u8],
        at: &mut usize,
        last: &mut Option<usize>,
    ) -> Option<Captures<'a>> {
        while *at <= text.len() {
            let found = self.captures_at(text, *at)?;
            let whole = found.get_match();
            *at = whole.end();
            if whole.is_empty() && *last == Some(whole.end()) {
                *at += 1;
                continue;
            }
            *last = Some(whole.end());
            return Some(found);
        }
        None
    }
}

/// The library's message shows the position in several lines; the last line has the reason.
fn last_line(picture: &str) -> String {
    let line = picture.lines().last().unwrap_or(picture).trim();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// Patterns given as strings, compiled once. A full cache evicts the least recently used one.
#[derive(Default)]
pub(super) struct PatternCache {
    clock: Cell<u64>,
    known: RefCell<HashMap<Vec<u8>, (u64, Pattern)>>,
}

impl PatternCache {
    /// An invalid pattern is an error of the second argument.
    pub(super) fn resolve(&self, target: Target, name: &str) -> Result<Pattern> {
        let text = match target {
            Target::Compiled(pattern) => return Ok(pattern),
            Target::Text(text) => text,
        };
        let text = text.as_bytes();
        let mut known = self.known.borrow_mut();
        let now = self.clock.get() + 1;
        self.clock.set(now);
        if let Some((used, pattern)) = known.get_mut(text.as_ref()) {
            *used = now;
            return Ok(pattern.clone());
        }
        let pattern = Pattern::new(&text)
            .map_err(|reason| Error::runtime(format!("bad argument #2 to '{name}' ({reason})")))?;
        if known.len() >= limits::RE_KEPT {
            let oldest = known.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(text, _)| text.clone()) {
                known.remove(&oldest);
            }
        }
        known.insert(text.to_vec(), (now, pattern.clone()));
        Ok(pattern)
    }
}
