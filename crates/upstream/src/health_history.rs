//! The last changes of a server's health, for the admin API.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use telemetry::timestamp;

use crate::limits::{HEALTH_CHANGES, HEALTH_REASON_BYTES};
use crate::server_state::ServerState;

/// A change of a server's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthChange {
    /// Unix time in milliseconds.
    pub at_ms: u64,
    /// The state that began.
    pub state: ServerState,
    pub why: String,
}

/// A limited number of changes; takes no memory for a server that never changes.
#[derive(Debug, Default)]
pub(crate) struct HealthHistory(Mutex<VecDeque<HealthChange>>);

impl HealthHistory {
    fn changes(&self) -> MutexGuard<'_, VecDeque<HealthChange>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, state: ServerState, why: &str) {
        let why = why[..why.floor_char_boundary(HEALTH_REASON_BYTES)].to_owned();
        let mut changes = self.changes();
        if changes.len() >= HEALTH_CHANGES {
            changes.pop_front();
        }
        changes.push_back(HealthChange { at_ms: timestamp::now_ms(), state, why });
    }

    pub(crate) fn last(&self) -> Option<HealthChange> {
        self.changes().back().cloned()
    }

    /// Returns all changes, the latest first.
    pub(crate) fn all(&self) -> Vec<HealthChange> {
        self.changes().iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::HealthHistory;
    use crate::limits::{HEALTH_CHANGES, HEALTH_REASON_BYTES};
    use crate::server_state::ServerState;

    #[test]
    fn the_last_changes_are_stored() {
        let history = HealthHistory::default();
        assert_eq!((history.last(), history.all().len()), (None, 0));
        for n in 0..HEALTH_CHANGES + 3 {
            history.add(ServerState::Ejected, &format!("{n} {}", "é".repeat(HEALTH_REASON_BYTES)));
        }
        let all = history.all();
        assert_eq!((all.len(), all.first()), (HEALTH_CHANGES, history.last().as_ref()));
        let begins = |at: usize, with: usize| all[at].why.starts_with(&format!("{with} é"));
        assert!(begins(0, HEALTH_CHANGES + 2) && begins(HEALTH_CHANGES - 1, 3));
        assert!(all.iter().all(|change| change.why.len() <= HEALTH_REASON_BYTES));
    }
}
