//! Deleted segments that are still open: their space is free when the last response from them ends.

use std::fs::File;
use std::sync::{Arc, Weak};

/// The files in the order of their deletion, with their lengths.
#[derive(Default)]
pub(super) struct DeletedFiles(Vec<(Weak<File>, u64)>);

impl DeletedFiles {
    pub(super) fn push(&mut self, file: &Arc<File>, length: u64) {
        self.0.push((Arc::downgrade(file), length));
    }

    /// The size of those that are still open.
    pub(super) fn bytes(&mut self) -> u64 {
        self.0.retain(|(file, _)| file.strong_count() > 0);
        self.0.iter().map(|(_, length)| length).sum()
    }

    /// The size of those that slow clients keep open: all but the last, from which responses are
    /// usually being sent when it is deleted.
    pub(super) fn kept_bytes(&mut self) -> u64 {
        let all = self.bytes();
        all - self.0.last().map_or(0, |(_, length)| *length)
    }
}
