//! Limits of programs, handlers and filters.

use std::time::Duration;

/// Interval at which the event loop of a worker with a VM measures its lag.
pub(crate) const LOOP_LAG_EVERY: Duration = Duration::from_millis(500);

/// How long a program that has exited may take to send its last bytes.
pub(crate) const LAST_BYTES_MS: u64 = 5_000;

/// Subrequests in flight in a VM.
pub(crate) const SUBREQUESTS: usize = 4096;

/// A response to a subrequest of at most this length is received before the script gets it, which
/// frees its connection at once.
pub(crate) const SUBREQUEST_WHOLE_BYTES: u64 = 64 * 1024;

/// Bytes that are decompressed on the worker; more is decompressed on a blocking thread.
pub(crate) const DECODED_HERE_BYTES: usize = 64 * 1024;

/// Output per input byte of a compressed response, above the first mebibyte.
pub(crate) const SUBREQUEST_RATIO: u64 = 1100;

/// Memory that the VM of a server's raw programs may hold.
pub(crate) const PROGRAM_MEMORY_BYTES: u64 = 1024 * 1024 * 1024;

/// Files of one `tidegate test`, tests of a file, and depth of searched directories.
pub(crate) const TEST_FILES: usize = 10_000;
pub(crate) const TESTS_PER_FILE: usize = 10_000;
pub(crate) const TEST_DIRECTORY_DEPTH: usize = 32;

/// Memory of the VM of a test.
pub(crate) const TEST_MEMORY_BYTES: usize = 1024 * 1024 * 1024;

/// Instructions of one turn of a test for each millisecond of its time-out: several times what a
/// core executes, so that the time-out comes first unless the test never waits.
pub(crate) const TEST_INSTRUCTIONS_PER_MS: u64 = 200_000;
