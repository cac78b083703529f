//! When worker processes are given up, replaced and ended.

use std::path::PathBuf;
use std::time::Duration;

/// The rules of one group of worker processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// From its start to its being ready; one that takes longer is killed.
    pub start_within: Duration,
    /// How long requests in flight may take when a worker leaves; then it is killed.
    pub graceful: Duration,
    /// A worker whose application, or whose I/O thread, does not respond for so long is killed.
    pub stuck_after: Option<Duration>,
    /// A lag of the application from which on it is logged with its stack.
    pub stall: Option<Duration>,
    /// After so many requests it is replaced, and up to so many more: no two at once.
    pub max_requests: Option<u64>,
    pub max_requests_jitter: u64,
    pub max_rss_bytes: Option<u64>,
    pub lifetime: Option<Duration>,
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
        }
    }
}

/// Which files are watched, so that a change of them replaces the workers: for development.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DevReload {
    /// With all that is beneath them, except hidden directories and environments of Python.
    pub directories: Vec<PathBuf>,
    /// Names of files, with stars.
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    /// Files that are watched whatever their names are.
    pub files: Vec<PathBuf>,
}
