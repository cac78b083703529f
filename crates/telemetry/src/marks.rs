//! Marks of time series: what happened to the server as a whole, such as reloads, restarts and
//! changes of health. Only the latest are stored.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::escape::cut;
use crate::limits::{MARK_BYTES, MARK_REPEATS_MS, MARKS};
use crate::timestamp;

/// Whether a mark is good news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    Good,
    Bad,
    Neutral,
}

impl MarkKind {
    pub const fn slug(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Neutral => "neutral",
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// When it happened first, Unix time in milliseconds.
    pub at_ms: u64,
    pub kind: MarkKind,
    /// A sentence without a full stop.
    pub text: String,
    /// How often it happened within a short time.
    pub times: u32,
}

/// The latest marks of a process.
#[derive(Debug, Default)]
pub struct Marks(Mutex<VecDeque<Mark>>);

impl Marks {
    fn marks(&self) -> MutexGuard<'_, VecDeque<Mark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a mark of this moment.
    pub fn add(&self, kind: MarkKind, text: &str) {
        self.add_at(timestamp::now_ms(), kind, text);
    }

    fn add_at(&self, at_ms: u64, kind: MarkKind, text: &str) {
        let text = cut(text, MARK_BYTES);
        let mut marks = self.marks();
        if let Some(last) = marks.back_mut()
            && last.text == text
            && at_ms.saturating_sub(last.at_ms) < MARK_REPEATS_MS
        {
            last.times = last.times.saturating_add(1);
            return;
        }
        if marks.len() >= MARKS {
            marks.pop_front();
        }
        marks.push_back(Mark { at_ms, kind, text: text.to_owned(), times: 1 });
    }

    /// Returns the marks since a time, the latest last.
    pub fn since(&self, at_ms: u64) -> Vec<Mark> {
        self.marks().iter().filter(|mark| mark.at_ms >= at_ms).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{MarkKind, Marks};
    use crate::limits::{MARK_BYTES, MARK_REPEATS_MS, MARKS};

    #[test]
    fn the_latest_marks_are_stored_and_repeats_are_counted() {
        let marks = Marks::default();
        let shown = |from_ms: u64| -> Vec<(u64, String, u32)> {
            let marks = marks.since(from_ms).into_iter();
            marks.map(|mark| (mark.at_ms, mark.text, mark.times)).collect()
        };
        for at_ms in [1_000, 1_001, 1_000 + MARK_REPEATS_MS] {
            marks.add_at(at_ms, MarkKind::Bad, "a worker has ended");
        }
        let text = || "a worker has ended".to_owned();
        assert_eq!(shown(0), [(1_000, text(), 2), (1_000 + MARK_REPEATS_MS, text(), 1)]);
        assert_eq!(shown(1_001).len(), 1);
        for n in 0..MARKS as u64 {
            marks.add_at(
                100_000 + n,
                MarkKind::Neutral,
                &format!("{n} {}", "é".repeat(MARK_BYTES)),
            );
        }
        let all = shown(0);
        assert_eq!((all.len(), all[0].0), (MARKS, 100_000));
        assert!(all.iter().all(|(_, text, _)| text.len() <= MARK_BYTES));
    }
}
