//! Every bound of this crate, by name.

use std::time::Duration;

/// The label value under which everything above a limit is added up.
pub(crate) const OTHER: &str = "other";
/// Label sets of one family before further ones are added up under "other".
pub const SERIES_PER_FAMILY: usize = 4_096;
/// Route names before further ones are added up under "other".
pub const ROUTES: usize = 16_384;
/// Longest label value; the rest is cut off.
pub const LABEL_BYTES: usize = 256;
/// Lines that a ring holds before it drops new ones.
pub const RING_LINES: usize = 8_192;
/// Line buffers above this size are freed instead of being reused.
pub const REUSED_BUFFER_BYTES: usize = 4 * 1024;
/// Approximate size of the writer's writes.
pub const WRITE_BATCH_BYTES: usize = 256 * 1024;
/// How long the writer lets lines accumulate after a round with output.
pub const GATHER_MS: u64 = 10;
/// Longest event line; the rest is cut off.
pub const EVENT_BYTES: usize = 16 * 1024;
/// Metric families that programs may define.
pub const SCRIPTED_FAMILIES: usize = 1_024;
/// Labels of a family defined by a program.
pub const SCRIPTED_LABELS: usize = 16;
/// Buckets of a histogram defined by a program.
pub const SCRIPTED_BUCKETS: usize = 64;
/// Longest help text of a family defined by a program; the rest is cut off.
pub const HELP_BYTES: usize = 1_024;
/// Marks of time series that are stored, and the longest text of one.
pub const MARKS: usize = 200;
pub const MARK_BYTES: usize = 256;
/// A mark that is repeated within this time is counted instead.
pub const MARK_REPEATS_MS: u64 = 10_000;
/// Errors of a list, and bytes of the message of one, of its traceback, and of the file and the
/// request that it belongs to.
pub const RECENT_ERRORS: usize = 32;
pub const ERROR_BYTES: usize = 1024;
pub const ERROR_TRACEBACK_BYTES: usize = 16 * 1024;
pub const ERROR_ORIGIN_BYTES: usize = 1024;
/// Longest wait until a log is written: its reader may have stopped for good. The last lines of a
/// process whose log thread gets no processor for longer than this are lost.
pub const FLUSH_WITHIN: Duration = Duration::from_secs(3);
