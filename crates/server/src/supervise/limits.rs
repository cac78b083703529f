//! Bounds of what a supervisor and its worker processes ask of each other.

use std::time::Duration;

/// One message on the control socket: the metrics of a worker with thousands of routes fit in.
pub(crate) const FRAME_BYTES: usize = 16 << 20;
/// How long a message may wait for the other end to take it.
pub(crate) const SEND_WITHIN: Duration = Duration::from_secs(10);
/// Between two reports of a worker.
pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(1);
/// How long a worker may take to say what it counted, or where it stands.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The first pause after a worker that did not live, and the longest.
pub(crate) const BACK_OFF_MIN: Duration = Duration::from_millis(100);
pub(crate) const BACK_OFF_MAX: Duration = Duration::from_secs(30);
/// A worker that has lived so long is no crash loop.
pub(crate) const LIVED: Duration = Duration::from_secs(10);
/// Workers that one group may have.
pub(crate) const WORKERS_MAX: usize = 256;
/// After the last request: for the application's own end.
pub(crate) const SHUT_DOWN_WITHIN: Duration = Duration::from_secs(5);
/// Directories and files that are watched for development, and how deep they may lie.
pub(crate) const WATCHED_FOLDERS: usize = 4096;
pub(crate) const WATCHED_FILES: usize = 100_000;
pub(crate) const WATCHED_DEPTH: usize = 32;
