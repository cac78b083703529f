//! Every bound of this crate that is not a setting, by name.

use std::time::Duration;

/// Requests of one worker to one upstream that wait for a server below its `max_connections`.
pub(crate) const PENDING_REQUESTS: usize = 1024;
/// A request body up to this length is received completely before a connection is acquired.
pub(crate) const GATHERED_BYTES: u64 = 16 * 1024;
/// Bytes of a streamed request body that are stored so that it can be sent again.
pub(crate) const REPLAY_BYTES: usize = 64 * 1024;
/// Pieces of it: each takes some memory in addition to its bytes.
pub(crate) const REPLAY_PIECES: usize = 1024;
/// A shorter piece is copied when it is stored, unless it is the whole body.
pub(crate) const COPIED_BYTES: usize = 16 * 1024;
/// Retries that are always in the budget of a worker ...
pub(crate) const RETRIES_FLOOR: f64 = 3.0;
/// ... and return at this rate once they are used.
pub(crate) const RETRIES_PER_SECOND: f64 = 1.0;
/// The most retries a worker can accumulate.
pub(crate) const RETRIES_SAVED: f64 = 100.0;
/// Points on the ring of consistent hashing per unit of weight ...
pub(crate) const RING_POINTS: usize = 128;
/// ... and in total.
pub(crate) const RING_POINTS_MAX: usize = 65_536;
/// Time in which a measured latency decays to 1/e: after five times that, a latency a hundred times
/// as high as the others counts like theirs.
pub(crate) const LATENCY_FADES: Duration = Duration::from_secs(5);
/// Latencies whose ratio is below this count as the same ...
pub(crate) const LATENCY_NEAR: f64 = 1.5;
/// ... after this was added to both: differences of microseconds mean nothing.
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
/// A server that is ejected repeatedly stays out at most this many times `ejected_for`.
pub(crate) const EJECTION_FACTOR_MAX: u32 = 10;
/// Addresses of one name that become members.
pub(crate) const ADDRESSES_PER_NAME: usize = 64;
/// Addresses of each family that are tried if a name has both ...
pub(crate) const FAMILY_PROBES: usize = 3;
/// ... for how long ...
pub(crate) const FAMILY_WITHIN: Duration = Duration::from_secs(1);
/// ... and how long the result holds.
pub(crate) const FAMILY_HOLDS: Duration = Duration::from_secs(20);
/// The next check follows within this time if a result contradicts the current health.
pub(crate) const CHECK_DOUBT: Duration = Duration::from_secs(1);
/// Attempts on one server whose connections end, or are full, before they take the request.
pub(crate) const CONNECTION_ATTEMPTS: u32 = 3;
/// Bytes of a response that a health check reads.
pub(crate) const CHECK_RESPONSE: usize = 64 * 1024;
/// The largest weight of a server, as in the range of the setting.
pub const WEIGHT_MAX: u32 = 1000;
/// Servers that one source may name ...
pub(crate) const DISCOVERED_SERVERS: usize = 1024;
/// ... and the bytes of one response, file, or set of keys.
pub(crate) const DISCOVERY_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of a sentence about a source that fails.
pub(crate) const DISCOVERY_ERROR_BYTES: usize = 512;
/// The first pause after a failure of a source, which doubles with each.
pub(crate) const DISCOVERY_PAUSE: Duration = Duration::from_millis(200);
/// The longest one: less than what an operator waits for after the source is back.
pub(crate) const DISCOVERY_PAUSE_MAX: Duration = Duration::from_secs(4);
/// The shortest interval of queries to Consul, however often its index changes ...
pub(crate) const CONSUL_INTERVAL: Duration = Duration::from_millis(200);
/// ... or while its responses have no index, and a query does not wait.
pub(crate) const CONSUL_POLL: Duration = Duration::from_secs(1);
/// How much longer than `wait` a query to Consul may take, in addition to a sixteenth of `wait`.
pub(crate) const CONSUL_SLACK: Duration = Duration::from_secs(10);
/// Age below which the time of a file does not prove that it is unchanged: clocks of file systems
/// have ticks.
pub(crate) const FILE_SETTLES: Duration = Duration::from_secs(2);
/// Changes of a server's health that are stored, bytes of the reason of one, and changes of an
/// upstream that the admin API shows.
pub(crate) const HEALTH_CHANGES: usize = 32;
pub(crate) const HEALTH_REASON_BYTES: usize = 256;
pub(crate) const HEALTH_CHANGES_SHOWN: usize = 500;
/// Removed servers that the admin API shows while requests to them are in flight.
pub(crate) const LEAVING_SERVERS: usize = 64;
