//! Every bound of this crate, by name.

use std::time::Duration;

/// Label sets one family may hold before further ones are added up under "other".
pub const SERIES_PER_FAMILY: usize = 4_096;
/// Route names kept apart before further ones are added up under "other".
pub const ROUTES: usize = 16_384;
/// Longest label value; the rest is cut.
pub const LABEL_BYTES: usize = 256;
/// Lines a ring holds before it drops.
pub const RING_LINES: usize = 8_192;
/// Line buffers above this are freed instead of being kept for the next line.
pub const KEPT_BUFFER_BYTES: usize = 4 * 1024;
/// The writer hands bytes to the system in pieces of about this size.
pub const WRITE_BATCH_BYTES: usize = 256 * 1024;
/// How long the writer lets lines gather after a busy round.
pub const GATHER_MS: u64 = 10;
/// Longest event line; the rest is cut.
pub const EVENT_BYTES: usize = 16 * 1024;
/// Metrics that programs may make up.
pub const SCRIPTED_FAMILIES: usize = 1_024;
/// Labels of one of them.
pub const SCRIPTED_LABELS: usize = 16;
/// Buckets of one of their histograms.
pub const SCRIPTED_BUCKETS: usize = 64;
/// Longest help text of one of them; the rest is cut.
pub const HELP_BYTES: usize = 1_024;
/// Longest wait for a log to be written out: whoever reads it may have stopped for good.
pub const FLUSH_WITHIN: Duration = Duration::from_secs(1);
