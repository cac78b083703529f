//! Every bound of this crate.

use std::time::Duration;

/// Files up to this are kept in memory while they are known: reading them costs less than sending
/// them from a descriptor.
pub(crate) const SMALL_FILE_BYTES: u64 = 16 * 1024;
/// How long a worker believes what it knows of a file.
pub(crate) const FRESH: Duration = Duration::from_secs(1);
/// Paths a worker knows, for one handler.
pub(crate) const KNOWN_PATHS: usize = 1024;
/// Descriptors a worker keeps open, over all handlers.
pub(crate) const OPEN_FILES: usize = 256;
/// Small files a worker keeps in memory, over all handlers.
pub(crate) const MEMORY_BYTES: usize = 16 * 1024 * 1024;
/// Names in one listing; a larger directory is cut here.
pub(crate) const LISTED_NAMES: usize = 10_000;
