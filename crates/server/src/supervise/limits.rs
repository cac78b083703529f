//! Bounds of the communication between a supervisor and its worker processes.

use std::time::Duration;

/// Maximum size of a message on the control socket; the metrics of a worker with thousands of
/// routes fit.
pub(crate) const FRAME_BYTES: usize = 16 << 20;
/// Time-out of sending a message.
pub(crate) const SEND_WITHIN: Duration = Duration::from_secs(10);
/// Interval of a worker's reports.
pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Time-out of a request for metrics or stacks.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Time-out of a fork by a preloader.
pub(crate) const FORK_WITHIN: Duration = Duration::from_secs(10);
/// The first and the longest pause after a worker that ended early.
pub(crate) const BACK_OFF_MIN: Duration = Duration::from_millis(100);
pub(crate) const BACK_OFF_MAX: Duration = Duration::from_secs(30);
/// A worker that has run this long is not part of a crash loop.
pub(crate) const LIVED: Duration = Duration::from_secs(10);
/// Maximum number of workers in a group.
pub(crate) const WORKERS_MAX: usize = 256;
/// Time for the application's own shutdown, after the last request.
pub(crate) const SHUT_DOWN_WITHIN: Duration = Duration::from_secs(5);
/// Time between SIGABRT and SIGKILL for a process that does not respond.
pub(crate) const ABORT_WITHIN: Duration = Duration::from_secs(2);
/// Maximum number of watched directories and files, and their maximum depth.
pub(crate) const WATCHED_FOLDERS: usize = 4096;
pub(crate) const WATCHED_FILES: usize = 100_000;
pub(crate) const WATCHED_DEPTH: usize = 32;
