//! Every bound of this crate, by name.

use std::time::Duration;

/// Memory of the entries of one store, with what finding them takes.
pub const MEMORY_BYTES: usize = 64 << 20;
pub const KEY_BYTES: usize = 1024;
pub const VALUE_BYTES: usize = 8 << 20;
pub const CHANNEL_BYTES: usize = 1024;
pub const MESSAGE_BYTES: usize = 1 << 20;
/// Arguments of one command.
pub const ARGUMENTS: usize = 1024;
/// All words of one command: two of the largest values.
pub const COMMAND_BYTES: usize = 16 << 20;
/// What tells the words of one command apart, at most.
pub const FRAMING_BYTES: usize = 64 << 10;
/// Names, numbers and lengths in a command.
pub const LINE_BYTES: usize = 4096;
/// Connections to one store: one for each worker process, and people who look.
pub const CONNECTIONS: usize = 1024;
/// Channels one connection listens to: those of all subscribers of a worker process.
pub const CHANNELS_PER_CONNECTION: usize = 65_536;
/// Messages that may wait for one connection; it is closed when there are more.
pub const CONNECTION_MAIL_BYTES: usize = 16 << 20;
/// Messages that may wait for one subscriber in a worker process; it is dropped when there are
/// more.
pub const SUBSCRIBER_MAIL_BYTES: usize = 4 << 20;
/// Messages that wait count for so much more than their bytes.
pub const MESSAGE_OVERHEAD_BYTES: usize = 64;
/// Answers that may wait for a connection before its next command is read.
pub const ANSWER_BYTES: usize = 1 << 20;
/// Values from here on are sent without being copied.
pub const SHARED_VALUE_BYTES: usize = 4096;
/// Entries looked at by one `SCAN`.
pub const SCAN_ENTRIES: usize = 10_000;
/// Entries whose time is over that go with one command; the rest goes with the next.
pub const EXPIRE_ENTRIES: usize = 64;
/// Bytes of commands a client has made and not sent, and calls it has in flight.
pub const QUEUED_BYTES: usize = 64 << 20;
pub const QUEUED_CALLS: usize = 65_536;
/// A client that had no answer for so long gives its connection up.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long a client tries to connect before it fails what waits.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Pause after an attempt to connect that failed.
pub const CONNECT_AGAIN: Duration = Duration::from_millis(50);
/// After that has failed for good, calls fail at once for so long.
pub const DOWN_FOR: Duration = Duration::from_secs(1);
/// One answer, with all its values.
pub const REPLY_BYTES: usize = 256 << 20;
/// Buffers above this are freed when they are empty.
pub const KEPT_BUFFER_BYTES: usize = 64 << 10;
