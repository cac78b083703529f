//! Purges that several servers share: what a server knows about their log, and when it may serve
//! from its caches.
//!
//! Owns the entries of the log, positions in it, and the decisions of a server that follows it. No
//! sockets and no clock: `server` reads the log in etcd or Redis, applies what [`Follower`] says,
//! and tells it the time. Promises that a purge counts as confirmed only if no server serves from
//! its cache what it covers: a server that the others do not wait for does not serve from its
//! cache, and one that may have missed a purge empties it.

mod entry;
mod follower;
mod outbox;
mod position;
mod progress;
mod spread;

#[cfg(test)]
mod simulation;

pub use entry::PurgeEntry;
pub use follower::{Follower, LogEntry, LogRead};
pub(crate) use outbox::PurgeOutbox;
pub use outbox::{OutgoingPurge, PurgeReceipt};
pub use position::LogPosition;
pub use progress::LogProgress;
pub(crate) use progress::PositionDigest;
pub use spread::{NodeReport, PurgeSpread};

use std::time::Duration;

/// How long the log remembers a server that may serve alone for so long: longer, because clocks do
/// not run equally fast and a message takes its time.
pub fn remembered(alone: Duration) -> Duration {
    alone + alone / 16 + Duration::from_secs(2)
}
