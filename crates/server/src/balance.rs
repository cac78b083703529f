//! Balances accepting between processes that share a socket: a process with more connections than
//! another waits before it accepts.
//!
//! Without it a running process accepts all connections of a burst, and the core of another one
//! stays idle. A connection waits for another process once, for [`HOLD`], and is then accepted
//! here.

use std::time::Duration;

use net::SharedCounts;

use crate::supervise::WORKERS_MAX;

/// The time given to another process: two ticks, because the current millisecond may be nearly
/// over.
const HOLD: Duration = Duration::from_millis(2);
/// The connection count of a process that accepts nothing.
pub(crate) const ABSENT: u32 = u32::MAX;
/// Maximum surplus of connections for which a process does not wait.
const SLACK: u32 = 2;

/// The view of one process.
#[derive(Debug)]
pub(crate) struct Balance {
    counts: SharedCounts,
    place: usize,
}

impl Balance {
    pub(crate) fn new(counts: SharedCounts, place: usize) -> Balance {
        Balance { counts, place }
    }

    /// Publishes the number of connections of this process.
    pub(crate) fn publish(&self, connections: usize) {
        let connections = u32::try_from(connections).unwrap_or(ABSENT - 1);
        self.counts.set(self.place, connections.min(ABSENT - 1));
    }

    /// Waits if another process has fewer connections.
    pub(crate) async fn turn(&self, connections: usize) {
        self.publish(connections);
        if self.has_more() {
            // A tick of the timer queue is longer than a burst of connections.
            net::timer::sleep_precisely(HOLD).await;
        }
    }

    fn has_more(&self) -> bool {
        let others = (0..WORKERS_MAX).filter(|place| *place != self.place);
        let least = others.map(|place| self.counts.get(place)).min().unwrap_or(ABSENT);
        least != ABSENT && self.counts.get(self.place) > least + SLACK + least / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_more_waits_and_a_lone_one_does_not() {
        let balance = Balance::new(SharedCounts::new(ABSENT).unwrap(), 1);
        balance.publish(1000);
        assert!(!balance.has_more(), "alone");
        balance.counts.set(4, 900);
        assert!(!balance.has_more(), "nearly as many");
        balance.counts.set(2, 0);
        assert!(balance.has_more());
        balance.publish(2);
        assert!(!balance.has_more());
        balance.publish(usize::MAX);
        assert!(balance.has_more(), "more than can be said");
    }
}
