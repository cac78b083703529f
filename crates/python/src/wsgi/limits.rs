//! The fixed limits of WSGI; settings are elsewhere.

use std::time::Duration;

/// Default number of threads: so many per processor, at most `THREADS_MAX`.
pub(super) const THREADS_PER_PROCESSOR: usize = 4;
pub(super) const THREADS_MAX: usize = 32;
/// How long a thread beyond the first stays idle before it exits.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long threads may take to exit when the process does.
pub(super) const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Stack size of the threads: that of threads which Python starts.
pub(super) const STACK_BYTES: usize = 8 * 1024 * 1024;

/// A request that waits longer than this justifies another thread; also the interval of checks
/// while requests wait.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Interval of checks while the pool keeps up.
pub(super) const RELAXED_CHECK_INTERVAL: Duration = Duration::from_millis(4);
/// While no request waits, calls that take longer than this are checked less often.
pub(super) const LONG_CALL_US: u64 = 100_000;
/// Interval of checks while only long calls run.
pub(super) const LONG_CALL_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Responses after which the I/O thread is woken although more requests wait.
pub(super) const BATCHED_WAKES_MAX: usize = 64;
/// After a call that takes longer, the I/O thread is woken before the next call.
pub(super) const QUICK_CALL_US: u64 = 100;
/// After a call that takes longer than this, wakes are not batched for `UNBATCHED_CALLS` calls:
/// another slow call may follow.
pub(super) const SLOW_CALL_US: u64 = 1000;
pub(super) const UNBATCHED_CALLS: u32 = 1024;

/// The pieces of a body in a list are joined up to this length.
pub(super) const JOINED_BYTES: usize = 64 * 1024;
/// How much of a body in a file is read at once for lines and pieces.
pub(super) const BLOCK_BYTES: u64 = 64 * 1024;
/// The default block size of `wsgi.file_wrapper`.
pub(super) const FILE_BLOCK_BYTES: usize = 64 * 1024;
