//! Every bound of a VM, in one place.
//!
//! What a script may set for one connection or one call has its default here.

/// Ended coroutines kept for the next ones.
pub(crate) const SPARE_COROUTINES: usize = 1024;

/// Bytes of a traceback that are logged; more says nothing more.
pub(crate) const TRACEBACK_BYTES: usize = 8 * 1024;

/// Longest span of `time.sleep` and `time.after`, as Silly has it.
pub(crate) const TIMER_MS: i64 = u32::MAX as i64;

/// How deep tables may stand in each other when JSON is written, as Silly has it.
pub(crate) const JSON_ENCODE_DEPTH: usize = 128;
/// How deep containers may stand in each other when JSON is read.
pub(crate) const JSON_DECODE_DEPTH: usize = 1000;
/// Bytes of JSON that one `encode` may write: shared tables can stand for much more than they take.
pub(crate) const JSON_ENCODE_BYTES: usize = 256 * 1024 * 1024;
/// Memory that a JSON codec keeps from one call to the next, for each of its buffers.
pub(crate) const JSON_KEPT_BYTES: usize = 1024 * 1024;
/// Bytes of one value that an incremental JSON decoder collects, unless told otherwise.
pub(crate) const JSON_STREAM_BYTES: usize = 16 * 1024 * 1024;

/// Timers that run before the loop looks at its sockets again.
pub(crate) const TIMERS_PER_LOOK: usize = 64;
