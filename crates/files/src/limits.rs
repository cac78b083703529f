//! Every bound of this crate, by name.

use std::time::Duration;

/// Files up to this size are kept in memory while they are cached: reading them costs less than
/// sending them from a descriptor.
pub(crate) const SMALL_FILE_BYTES: u64 = 16 * 1024;
/// How long a worker serves a cached file without revalidation.
pub(crate) const FRESH: Duration = Duration::from_secs(1);
/// Paths in the cache of one handler.
pub(crate) const KNOWN_PATHS: usize = 1024;
/// Descriptors that a worker keeps open, over all handlers.
pub(crate) const OPEN_FILES: usize = 256;
/// Bytes of small files that a worker keeps in memory, over all handlers.
pub(crate) const MEMORY_BYTES: usize = 16 * 1024 * 1024;
/// Names in one listing; the rest of a larger directory is left out.
pub(crate) const LISTED_NAMES: usize = 10_000;
