//! When worker processes are killed, replaced and stopped.

use std::path::PathBuf;
use std::time::Duration;

/// The rules of one group of worker processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Time-out of the start; a process that takes longer is killed.
    pub start_within: Duration,
    /// Time-out of requests in flight when a worker is stopped; then it is killed.
    pub graceful: Duration,
    /// A worker whose application or I/O thread does not respond for this time is killed.
    pub stuck_after: Option<Duration>,
    /// Event-loop lag from which the stack is logged.
    pub stall: Option<Duration>,
    /// Replaces a worker after this many requests, and up to so many more, so that no two are
    /// replaced at once.
    pub max_requests: Option<u64>,
    pub max_requests_jitter: u64,
    pub max_rss_bytes: Option<u64>,
    pub lifetime: Option<Duration>,
    /// A worker that does not respond gets SIGABRT, and a moment for what it does then, before it
    /// is killed.
    pub aborts_first: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            start_within: Duration::from_secs(60),
            graceful: Duration::from_secs(30),
            stuck_after: Some(Duration::from_secs(30)),
            stall: Some(Duration::from_millis(100)),
            max_requests: None,
            max_requests_jitter: 0,
            max_rss_bytes: None,
            lifetime: None,
            aborts_first: false,
        }
    }
}

/// The files that are watched: a change replaces the workers. For development.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DevReload {
    /// Directory trees, without hidden directories and Python environments.
    pub directories: Vec<PathBuf>,
    /// Patterns of file names, with `*`.
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    /// Files that are watched whatever their names are.
    pub files: Vec<PathBuf>,
    /// Changes within this time after one are the same change.
    pub delay: Duration,
}
