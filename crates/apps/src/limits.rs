//! The bounds of this crate that are not settings.

use std::time::Duration;

/// Longest wait for a client's close frame when the server drains.
pub(crate) const WEBSOCKET_DRAIN: Duration = Duration::from_secs(2);

/// Payloads up to this size share a chunk with others; larger ones are sent without a copy.
pub(crate) const WEBSOCKET_COPIED_BYTES: usize = 16 * 1024;
/// Size of a slice that is sent at once; a client that takes a slice is alive.
pub(crate) const WEBSOCKET_SLICE_BYTES: usize = 64 * 1024;
/// Chunks a connection receives before the other connections of its worker are polled.
pub(crate) const WEBSOCKET_TURNS: u32 = 32;

/// Messages outside these sizes are not compressed: it gains nothing or takes too long on the
/// worker.
pub(crate) const DEFLATE_BYTES_MIN: usize = 64;
pub(crate) const DEFLATE_BYTES_MAX: usize = 64 * 1024;
/// A fast compression level.
pub(crate) const DEFLATE_LEVEL: u32 = 3;
/// The window of a connection's own compressor: 4 KiB.
pub(crate) const TAKEOVER_WINDOW_BITS: u8 = 12;
/// Memory of a connection's own compressor and decompressor: zlib's windows, hash chains and state.
pub(crate) const TAKEOVER_DEFLATE_BYTES: usize = 168 * 1024;
pub(crate) const TAKEOVER_INFLATE_BYTES: usize = 48 * 1024;

/// Initial credit of each stream of frames, in each direction.
pub(crate) const FRAMES_WINDOW: u32 = 256 * 1024;
/// Payloads up to this size are copied into the buffer of frames; larger ones are sent without a
/// copy.
pub(crate) const FRAMES_COPIED_BYTES: usize = 4 * 1024;
/// Most bytes a stream sends before the other streams of its connection are polled.
pub(crate) const FRAMES_PIECE_BYTES: usize = 64 * 1024;
/// A stream with less credit than this waits for more, unless it has less to send.
pub(crate) const FRAMES_PIECE_BYTES_MIN: usize = 1024;
/// Unsent bytes above which bodies are not polled.
pub(crate) const FRAMES_OUTBOX_BYTES: u64 = 512 * 1024;
/// Memory for frames that is reused while nothing is to be sent.
pub(crate) const FRAMES_KEPT_BYTES: usize = 64 * 1024;
/// Data of at least this length is not copied out of the received chunk.
pub(crate) const FRAMES_LENT_BYTES: usize = 16 * 1024;
/// Reads from one connection before the others of the worker are polled.
pub(crate) const FRAMES_READS: u32 = 16;
/// Files up to this length are read and sent as data: a descriptor costs three system calls.
pub(crate) const FRAMES_FILE_BYTES: u64 = 64 * 1024;
/// Files that wait for the rest of their frames: one whose frame was received in part, and one that
/// came with that rest.
pub(crate) const FRAMES_FILES_MAX: usize = 2;

/// Part of a buffered body that is held in memory.
pub(crate) const WHOLE_MEMORY_BYTES: usize = 256 * 1024;
/// Size of the writes to the file of a longer body.
pub(crate) const WHOLE_WRITTEN_BYTES: usize = 256 * 1024;

/// Exchanges of a worker that are queued while no process can take them, and their time-out.
pub(crate) const REMOTE_WAITING: usize = 1024;
pub(crate) const REMOTE_WAIT: Duration = Duration::from_secs(10);
/// Time-out of a connection and its greeting.
pub(crate) const REMOTE_CONNECT: Duration = Duration::from_secs(5);
/// Pauses between attempts to connect: doubled from the minimum to the maximum.
pub(crate) const REMOTE_PAUSE_MIN: Duration = Duration::from_millis(10);
pub(crate) const REMOTE_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Pause of accepting when descriptors or memory are exhausted.
pub(crate) const FRAMES_REST: Duration = Duration::from_millis(50);
/// The longest message of a session between a gateway and an application.
pub(crate) const FRAMES_MESSAGE_BYTES: usize = 64 * 1024 * 1024;
