//! Every bound of the log of purges, by name.

use std::time::Duration;

/// Entries that the log keeps. A server that misses more empties its caches.
pub(super) const LOG_ENTRIES: usize = 10_000;
/// How long an entry is kept. A server that was away for longer empties its caches.
pub(super) const LOG_AGE: Duration = Duration::from_secs(7 * 86_400);
/// After this time without a server the log in Redis vanishes.
pub(super) const LOG_EXPIRES: Duration = Duration::from_secs(30 * 86_400);
/// Entries that are read at once: together less than the longest reply of Redis.
pub(super) const PAGE: usize = 128;
/// Purges of this server that it recognises when it reads them.
pub(super) const OWN_MARKS: usize = 1024;
/// Requests that wait at the same time until a purge has reached every server.
pub(super) const WAITS: usize = 64;
/// How often such a request looks: the first time, and at most.
pub(super) const LOOK_FIRST: Duration = Duration::from_millis(5);
pub(super) const LOOK_MAX: Duration = Duration::from_millis(200);
/// How often the position on disk is written, at most.
pub(super) const SAVE_EVERY: Duration = Duration::from_secs(1);
