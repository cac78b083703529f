//! Every bound of WSGI, by name, that is no setting.

use std::time::Duration;

/// Threads where nobody has said how many: so many for each processor, up to the second.
pub(super) const THREADS_PER_PROCESSOR: usize = 4;
pub(super) const THREADS_MAX: usize = 32;
/// How long a thread beyond the first sleeps before it ends.
pub(super) const IDLE: Duration = Duration::from_secs(10);
/// How long threads may take to end when the process does.
pub(super) const ENDING: Duration = Duration::from_secs(1);
/// Their stacks: those of the threads that Python starts.
pub(super) const STACK_BYTES: usize = 8 * 1024 * 1024;

/// What waits longer than this wants another thread, and how often that is looked for then.
pub(super) const LOOK: Duration = Duration::from_millis(1);
/// How often the crew is looked after while it keeps up.
pub(super) const LOOK_AT_EASE: Duration = Duration::from_millis(4);
/// While nothing waits, calls that take longer than this are not watched.
pub(super) const LONG_CALL_US: u64 = 100_000;
/// How often stuck calls are looked for then.
pub(super) const LOOK_AT_LONG_CALLS: Duration = Duration::from_secs(1);

/// Answers after which the worker is woken although more requests wait.
pub(super) const HELD_MAX: usize = 64;
/// A call that takes longer has its answer sent before the next one begins.
pub(super) const QUICK_CALL_US: u64 = 100;
/// After a call that takes longer than this, so many answers are sent at once: a slow one may come
/// again.
pub(super) const SLOW_CALL_US: u64 = 1000;
pub(super) const CAUTIOUS_CALLS: u32 = 1024;

/// A body out of so many pieces in a list is put together, up to this length.
pub(super) const JOINED_BYTES: usize = 64 * 1024;
/// How much of a body in a file is read at once for lines and pieces.
pub(super) const BLOCK_BYTES: u64 = 64 * 1024;
/// A block of `wsgi.file_wrapper`.
pub(super) const FILE_BLOCK_BYTES: usize = 64 * 1024;
