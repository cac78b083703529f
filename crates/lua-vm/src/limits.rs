//! Limits of a VM: its coroutines, its memory, its connections and its calls.
//!
//! What a script may set for one connection or one call has its default here.

/// Ended coroutines kept for the next ones.
pub(crate) const SPARE_COROUTINES: usize = 1024;

/// Log lines each second about errors of scripts; the next line says how many were left out.
pub(crate) const ERROR_LINES_PER_SECOND: u32 = 10;

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

/// Timers that run before the loop looks at its sockets again.
pub(crate) const TIMERS_PER_LOOK: usize = 64;

/// Bytes a connection receives before its script reads them, unless told otherwise.
pub(crate) const READ_BYTES: usize = 1024 * 1024;

/// Bytes a script may have written that the peer does not take; beyond, the connection is closed.
pub(crate) const OUTPUT_BYTES: usize = 16 * 1024 * 1024;

/// Bytes one receive may take: what the connections of a VM share.
pub(crate) const ROOM_BYTES: usize = 64 * 1024;

/// A connection that has been read to its end gives back a larger buffer than this.
pub(crate) const KEPT_INPUT_BYTES: usize = 0;

/// Buffers for output that are kept for the next connection, and their largest size.
pub(crate) const SPARE_OUTPUTS: usize = 256;
pub(crate) const SPARE_OUTPUT_BYTES: usize = 16 * 1024;

/// How long a closed connection may take to send its last bytes.
pub(crate) const LINGER_MS: u64 = 30_000;

/// How long a listener rests when there are no descriptors for another connection.
pub const EXHAUSTED_MS: u64 = 50;

/// Connections the kernel may queue for a listener, unless told otherwise.
pub const BACKLOG: u32 = 4096;

/// How long `connect` tries, unless told otherwise.
pub(crate) const CONNECT_MS: u64 = 30_000;

/// Blocks of memory from which on a VM counts them as large.
pub(crate) const METER_LARGE_BYTES: usize = 4 * 1024;

/// What large blocks of a VM may come to before it collects for their sake.
pub(crate) const METER_FREE_BYTES: usize = 64 * 1024 * 1024;

/// What Lua code may ask for at once however much its VM holds: smaller pieces are weighed between
/// instructions.
pub(crate) const METER_REFUSED_BYTES: usize = 1024 * 1024;

/// Instructions between two looks at what a turn has used up.
pub(crate) const HOOK_STEP: u32 = 1000;

/// Instructions of one turn in a server, unless told otherwise.
pub const TURN_INSTRUCTIONS: u64 = 50_000_000;

/// Coroutines that one turn may end for want of instructions before the rest gets none either.
pub(crate) const STOPPED_PER_TURN: u32 = 8;

/// How long a turn may take before the log says so.
pub(crate) const LONG_TURN_MS: u64 = 1_000;

/// Calls of handlers and filters that are kept for the next ones, and the longest text whose room
/// is kept with one.
pub(crate) const SPARE_CALLS: usize = 256;
pub(crate) const KEPT_TEXT_BYTES: usize = 4 * 1024;

/// Bytes of a request body that `body:read` collects, unless told otherwise.
pub const BODY_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes of an answer that a script writes without streaming it.
pub(crate) const RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of a streamed answer that wait for the client before `write` does.
pub(crate) const STREAM_BYTES: usize = 64 * 1024;
