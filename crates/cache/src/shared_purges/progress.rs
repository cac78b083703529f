//! How far this server and others are in the log, for responses that servers send one another.
//!
//! A response of another server that has not applied a purge yet must not be stored by one that
//! has: the purge would be undone. So a server notes an entry before it applies it, and stores a
//! response only if its sender has applied at least that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use sha2::{Digest, Sha256};

use super::{LogPosition, LogRead};

/// A position in a form that is compared across servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PositionDigest {
    pub(crate) log: u64,
    pub(crate) number: u64,
    /// 0 for a log that is never lost.
    pub(crate) mark: u64,
}

fn digest(text: &str) -> u64 {
    let bytes: [u8; 32] = Sha256::digest(text).into();
    bytes.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

fn mark_digest(mark: &str) -> u64 {
    if mark.is_empty() { 0 } else { digest(mark).max(1) }
}

impl From<&LogPosition> for PositionDigest {
    fn from(position: &LogPosition) -> PositionDigest {
        let LogPosition { log, number, mark } = position;
        PositionDigest { log: digest(log), number: *number, mark: mark_digest(mark) }
    }
}

impl PositionDigest {
    /// True if everything up to `other` was applied here. In a log that may be lost, a higher
    /// number may be that of an entry which was lost: only the same position is certain.
    pub(crate) fn includes(&self, other: &PositionDigest) -> bool {
        let is_later = self.number > other.number && self.mark == 0 && other.mark == 0;
        self.log == other.log && (self == other || is_later)
    }
}

/// The positions of this server.
#[derive(Debug, Default)]
pub struct LogProgress {
    positions: RwLock<Positions>,
    is_used: AtomicBool,
}

#[derive(Debug, Default, Clone, Copy)]
struct Positions {
    noted: Option<PositionDigest>,
    applied: Option<PositionDigest>,
}

impl LogProgress {
    /// Responses of other servers are stored from now on.
    pub(crate) fn set_used(&self) {
        self.is_used.store(true, Ordering::Release);
    }

    /// True if responses of other servers are stored.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    fn change(&self, change: impl FnOnce(&mut Positions)) {
        change(&mut self.positions.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn positions(&self) -> Positions {
        *self.positions.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what was read before it is applied.
    pub fn note(&self, read: &LogRead) {
        // Positions may differ where no entry is between them.
        let noted = LogPosition { number: read.last, ..read.position.clone() };
        let (has_gap, read) = (read.has_gap, PositionDigest::from(&noted));
        self.change(|positions| {
            let is_known = |noted: PositionDigest| {
                !has_gap && noted.log == read.log && noted.number >= read.number
            };
            if !positions.noted.is_some_and(is_known) {
                positions.noted = Some(read);
            }
        });
    }

    /// Notes a purge of this server that was written, before it is carried out.
    pub fn note_own(&self, number: u64, mark: &str) {
        self.change(|positions| {
            if let Some(noted) = &mut positions.noted
                && noted.number < number
            {
                let mark = if noted.mark == 0 { 0 } else { mark_digest(mark) };
                *noted = PositionDigest { number, mark, ..*noted };
            }
        });
    }

    /// Everything up to here was applied.
    pub fn set_applied(&self, position: &LogPosition) {
        let applied = Some(PositionDigest::from(position));
        self.change(|positions| positions.applied = applied);
    }

    /// Forgets the positions: another log is followed, or none.
    pub fn reset(&self) {
        self.change(|positions| *positions = Positions::default());
    }

    pub(crate) fn noted(&self) -> Option<PositionDigest> {
        self.positions().noted
    }

    pub(crate) fn applied(&self) -> Option<PositionDigest> {
        self.positions().applied
    }
}

#[cfg(test)]
mod tests {
    use super::{LogProgress, PositionDigest};
    use crate::shared_purges::{LogPosition, LogRead};

    fn at(log: &str, number: u64, mark: &str) -> LogPosition {
        LogPosition { log: log.to_owned(), number, mark: mark.to_owned() }
    }

    fn read(position: LogPosition, has_gap: bool) -> LogRead {
        let last = position.number;
        LogRead { entries: Vec::new(), position, last, has_gap, has_more: false }
    }

    fn includes(one: &LogPosition, other: &LogPosition) -> bool {
        PositionDigest::from(one).includes(&other.into())
    }

    #[test]
    fn a_later_position_includes_earlier_ones_of_a_log_that_is_never_lost() {
        assert!(includes(&at("a", 2, ""), &at("a", 1, "")));
        assert!(includes(&at("a", 2, ""), &at("a", 2, "")));
        assert!(!includes(&at("a", 1, ""), &at("a", 2, "")));
        assert!(!includes(&at("b", 2, ""), &at("a", 1, "")));
    }

    #[test]
    fn a_position_of_a_log_that_may_be_lost_includes_itself_only() {
        assert!(includes(&at("a", 2, "x"), &at("a", 2, "x")));
        assert!(!includes(&at("a", 2, "y"), &at("a", 2, "x")));
        assert!(!includes(&at("a", 3, "z"), &at("a", 2, "x")));
    }

    #[test]
    fn what_was_noted_is_not_forgotten_before_it_is_read() {
        let progress = LogProgress::default();
        progress.note_own(3, "own");
        assert_eq!(progress.noted(), None, "no log is followed yet");
        progress.note(&read(at("a", 1, ""), false));
        progress.note_own(3, "own");
        progress.note(&read(at("a", 2, ""), false));
        assert_eq!(progress.noted(), Some((&at("a", 3, "")).into()));
        progress.note(&read(at("a", 2, ""), true));
        assert_eq!(progress.noted(), Some((&at("a", 2, "")).into()));
        progress.note(&read(at("b", 1, "m"), false));
        progress.note_own(2, "own");
        assert_eq!(progress.noted(), Some((&at("b", 2, "own")).into()));
        progress.set_applied(&at("b", 2, "own"));
        assert_eq!(progress.applied(), progress.noted());
        progress.reset();
        assert_eq!((progress.noted(), progress.applied()), (None, None));
    }
}
