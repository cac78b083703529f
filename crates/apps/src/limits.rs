//! Every bound of this crate, by name, that is no setting.

use std::time::Duration;

/// How long a client may take to answer our goodbye when the server drains, at most.
pub(crate) const WEBSOCKET_DRAIN: Duration = Duration::from_secs(2);

/// Payloads up to this share a chunk with others; larger ones are sent from where they lie.
pub(crate) const WEBSOCKET_COPIED_BYTES: usize = 16 * 1024;
/// What is sent in one go: a client that takes that much shows that it is alive.
pub(crate) const WEBSOCKET_SLICE_BYTES: usize = 64 * 1024;
/// Chunks a connection is served before the others of its worker have their turn.
pub(crate) const WEBSOCKET_TURNS: u32 = 32;

/// Messages outside of these go uncompressed: there is nothing to gain, or it takes the worker's
/// time from others.
pub(crate) const DEFLATE_BYTES_MIN: usize = 64;
pub(crate) const DEFLATE_BYTES_MAX: usize = 64 * 1024;
/// Compression for little time.
pub(crate) const DEFLATE_LEVEL: u32 = 3;

/// Credit that each stream of frames begins with, each way.
pub(crate) const FRAMES_WINDOW: u32 = 256 * 1024;
/// Payloads up to this are copied behind the frames before them; larger ones are sent from where
/// they lie.
pub(crate) const FRAMES_COPIED_BYTES: usize = 4 * 1024;
/// A stream sends no more than this before the others of its connection have their turn.
pub(crate) const FRAMES_PIECE_BYTES: usize = 64 * 1024;
/// With credit for less than this a stream waits for more, unless it has less to send.
pub(crate) const FRAMES_PIECE_BYTES_MIN: usize = 1024;
/// While more than this waits to be sent, bodies are not asked for more.
pub(crate) const FRAMES_OUTBOX_BYTES: u64 = 512 * 1024;
/// Memory for frames that is kept while nothing is to be sent.
pub(crate) const FRAMES_KEPT_BYTES: usize = 64 * 1024;
/// A piece of data from this length on stays in the chunk it was received in.
pub(crate) const FRAMES_LENT_BYTES: usize = 16 * 1024;
/// Reads from one connection before the others of the worker have their turn.
pub(crate) const FRAMES_READS: u32 = 16;
/// How much of a file is read at once.
pub(crate) const FRAMES_FILE_BYTES: u64 = 64 * 1024;

/// Of a body that is to be whole before it leaves, so much is kept in memory.
pub(crate) const WHOLE_MEMORY_BYTES: usize = 256 * 1024;
/// What is longer is written to a file, in pieces of so much.
pub(crate) const WHOLE_WRITTEN_BYTES: usize = 256 * 1024;

/// Exchanges of a worker that wait while no process can take them, and for how long.
pub(crate) const REMOTE_WAITING: usize = 1024;
pub(crate) const REMOTE_WAIT: Duration = Duration::from_secs(10);
/// How long a connection may take to be made and greeted.
pub(crate) const REMOTE_CONNECT: Duration = Duration::from_secs(5);
/// Pauses between attempts to connect: doubled from the first to the last.
pub(crate) const REMOTE_PAUSE_MIN: Duration = Duration::from_millis(10);
pub(crate) const REMOTE_PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long accepting rests when there are no descriptors or no memory for another connection.
pub(crate) const FRAMES_REST: Duration = Duration::from_millis(50);
/// The longest message of a session between a gateway and an application.
pub(crate) const FRAMES_MESSAGE_BYTES: usize = 64 * 1024 * 1024;
