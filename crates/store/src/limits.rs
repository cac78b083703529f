//! Every bound of this crate, by name.

use std::time::Duration;

/// Memory of the entries of one store, including the index.
pub const MEMORY_BYTES: usize = 64 << 20;
pub const KEY_BYTES: usize = 1024;
pub const VALUE_BYTES: usize = 8 << 20;
pub const CHANNEL_BYTES: usize = 1024;
pub const MESSAGE_BYTES: usize = 1 << 20;
/// Background jobs that wait or run, and their memory; more are rejected.
pub const TASKS: usize = 100_000;
pub const TASK_BYTES: usize = 64 << 20;
/// Fixed cost of a job, added to the bytes of its name, key and arguments.
pub const TASK_OVERHEAD_BYTES: usize = 256;
/// The arguments of one job.
pub const TASK_PAYLOAD_BYTES: usize = 1 << 20;
pub const TASK_NAME_BYTES: usize = 512;
pub const TASK_RETRIES: u32 = 100;
/// The longest delay, and the longest period.
pub const TASK_DELAY_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// The longest pause before a retry.
pub const TASK_BACKOFF_MS: u64 = 60 * 60 * 1000;
/// Periodic tasks.
pub const SCHEDULES: usize = 512;
/// Databases of a Redis server are numbers; it has 16 by default.
pub const DATABASE_MAX: u32 = 65_535;
/// What the keys of an application in Redis begin with.
pub const PREFIX_BYTES: usize = 128;
/// Seconds after which a job in Redis whose worker has not reported runs again.
pub const VISIBILITY_S: std::ops::RangeInclusive<u64> = 1..=24 * 60 * 60;
pub const VISIBILITY_DEFAULT_S: u64 = 60;
/// The longest wait for the next time of a cron expression: the clock may be set.
pub const CRON_CHECK_MS: u64 = 60_000;
/// Arguments of one command.
pub const ARGUMENTS: usize = 1024;
/// All arguments of one command: two of the largest values.
pub const COMMAND_BYTES: usize = 16 << 20;
/// Protocol framing of one command.
pub const FRAMING_BYTES: usize = 64 << 10;
/// Names, numbers and lengths in a command.
pub const LINE_BYTES: usize = 4096;
/// Connections to one store: one for each worker process, and interactive clients.
pub const CONNECTIONS: usize = 1024;
/// Channels one connection subscribes to: those of all subscribers of a worker process.
pub const CHANNELS_PER_CONNECTION: usize = 65_536;
/// Messages queued for one connection; the connection is closed when the queue is full.
pub const CONNECTION_QUEUE_BYTES: usize = 16 << 20;
/// Messages queued for one subscriber in a worker process; it is dropped when the queue is full.
pub const SUBSCRIBER_QUEUE_BYTES: usize = 4 << 20;
/// Fixed cost of a queued message, added to its bytes.
pub const MESSAGE_OVERHEAD_BYTES: usize = 64;
/// Unsent replies of a connection above which its next command is not read.
pub const PENDING_REPLY_BYTES: usize = 1 << 20;
/// Values of at least this size are sent without a copy.
pub const SHARED_VALUE_BYTES: usize = 4096;
/// Entries examined by one `SCAN`.
pub const SCAN_ENTRIES: usize = 10_000;
/// Expired entries removed with one command; the rest are removed with later commands.
pub const EXPIRE_ENTRIES: usize = 64;
/// Unsent bytes of commands of a client, and its calls in flight.
pub const QUEUED_BYTES: usize = 64 << 20;
pub const QUEUED_CALLS: usize = 65_536;
/// Longest wait for a reply before a client closes its connection.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time of connecting before queued calls fail.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after a failed attempt to connect.
pub const CONNECT_RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Time in which calls fail at once after connecting has failed.
pub const DOWN_PERIOD: Duration = Duration::from_secs(1);
/// One reply with all its values.
pub const REPLY_BYTES: usize = 256 << 20;
/// Larger buffers are freed when they are empty.
pub const REUSED_BUFFER_BYTES: usize = 64 << 10;
