//! Every bound of this crate that is no setting, by name.

use std::time::Duration;

/// Requests of one worker to one upstream that wait for a server below its `max_connections`.
pub(crate) const PENDING_REQUESTS: usize = 1024;
/// Interval at which the first of them looks for room: other workers free it as well.
pub(crate) const ROOM_INTERVAL: Duration = Duration::from_millis(10);
/// A request body up to this length is read whole before a connection is taken.
pub(crate) const GATHERED_BYTES: u64 = 16 * 1024;
/// Bytes of a streamed request body kept so that it can be sent again.
pub(crate) const REPLAY_BYTES: usize = 64 * 1024;
/// Pieces of it: each takes some memory besides its bytes.
pub(crate) const REPLAY_PIECES: usize = 1024;
/// A shorter piece is copied to be kept, unless it is the whole body.
pub(crate) const COPIED_BYTES: usize = 16 * 1024;
/// Retries that are always in the budget of a worker...
pub(crate) const RETRIES_FLOOR: f64 = 3.0;
/// ... and come back at this rate once they are spent.
pub(crate) const RETRIES_PER_SECOND: f64 = 1.0;
/// Most retries a worker can save up.
pub(crate) const RETRIES_SAVED: f64 = 100.0;
/// Points on the ring of consistent hashing per unit of weight ...
pub(crate) const RING_POINTS: usize = 128;
/// ... and in all.
pub(crate) const RING_POINTS_MAX: usize = 65_536;
/// Time in which a measured latency fades to 1/e of itself: what was a hundred times as slow as the
/// others counts like them after five times that.
pub(crate) const LATENCY_FADES: Duration = Duration::from_secs(5);
/// Latencies whose ratio is below this count as the same...
pub(crate) const LATENCY_NEAR: f64 = 1.5;
/// ... after this was added to both: microseconds say nothing.
pub(crate) const LATENCY_SLACK_US: f64 = 1_000.0;
/// A failure counts as a response that took at least this long, until the next success.
pub(crate) const FAILURE_LATENCY_US: u64 = 1_000_000;
/// A latency measured longer ago than this is replaced by the next one, not averaged with it; and a
/// server that p2c has not picked for this long ...
pub(crate) const LATENCY_EXPIRES: Duration = Duration::from_secs(1);
/// ... and that has lost this many comparisons since is picked once, so that it is measured again.
pub(crate) const LOSSES_BEFORE_SAMPLE: u32 = 8;
/// Interval of the connection attempts to an ejected server ...
pub(crate) const REVIVAL_INTERVAL: Duration = Duration::from_millis(500);
/// ... and how long one may take.
pub(crate) const REVIVAL_WITHIN: Duration = Duration::from_secs(1);
/// Share of its weight with which a slow start begins.
pub(crate) const SLOW_START_FLOOR: f64 = 0.1;
/// A server that is ejected again and again stays out at most this many times `ejected_for`.
pub(crate) const EJECTION_FACTOR_MAX: u32 = 10;
/// Addresses of one name that become members.
pub(crate) const ADDRESSES_PER_NAME: usize = 64;
/// Where a name has IPv4 and IPv6 addresses: how many of each are tried...
pub(crate) const FAMILY_PROBES: usize = 3;
/// ... for how long ...
pub(crate) const FAMILY_WITHIN: Duration = Duration::from_secs(1);
/// ... and how long the result holds.
pub(crate) const FAMILY_HOLDS: Duration = Duration::from_secs(20);
/// When a check's result speaks against what is believed, the next one follows within this time.
pub(crate) const CHECK_DOUBT: Duration = Duration::from_secs(1);
/// Bytes of an answer a health check reads.
pub(crate) const CHECK_ANSWER: usize = 64 * 1024;
