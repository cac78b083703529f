//! Limits of a VM: its coroutines, its memory, its connections and its calls.
//!
//! What a script may set for one connection or one call has its default here.

/// Ended coroutines that are pooled for reuse.
pub(crate) const SPARE_COROUTINES: usize = 1024;

/// Values that the stack of a new coroutine has room for before it grows: with what Lua adds, 640
/// bytes, which is a size of block of the allocator.
pub(crate) const STACK_VALUES: i32 = 34;

/// Log lines each second about errors of scripts; the next line says how many were left out.
pub(crate) const ERROR_LINES_PER_SECOND: u32 = 10;

/// Bytes of a line that a module in C logs.
pub(crate) const C_LOG_BYTES: usize = 64 * 1024;

/// Bytes of a traceback that are logged.
pub(crate) const TRACEBACK_BYTES: usize = 8 * 1024;

/// Different stacks and functions of a profile, and calls of a stack that are recorded.
pub(crate) const PROFILE_STACKS: usize = 16_384;
pub(crate) const PROFILE_FUNCTIONS: usize = 16_384;
pub(crate) const PROFILE_FRAMES: i32 = 128;

/// Bytes of the path of a file in a profile; a longer one is shortened as in Lua's messages.
pub(crate) const PROFILE_PATH_BYTES: usize = 1024;

/// Parts of turns in a time line.
pub(crate) const TIMELINE_SLICES: usize = 500_000;

/// Allocated bytes after which a profile of allocations records a stack.
pub(crate) const PROFILE_ALLOCATED_BYTES: usize = 64 * 1024;

/// Longest span of `time.sleep` and `time.after`, as Silly has it.
pub(crate) const TIMER_MS: i64 = u32::MAX as i64;

/// Depth of nested tables in encoded JSON, as in Silly.
pub(crate) const JSON_ENCODE_DEPTH: usize = 128;

/// Depth of nested containers in decoded JSON.
pub(crate) const JSON_DECODE_DEPTH: usize = 1000;

/// Bytes of JSON that one `encode` may write: a table with many references is written for each.
pub(crate) const JSON_ENCODE_BYTES: usize = 256 * 1024 * 1024;

/// Capacity of each buffer that a JSON codec reuses for the next call.
pub(crate) const JSON_KEPT_BYTES: usize = 1024 * 1024;

/// Bytes that one `pb.encode` may write.
pub(crate) const PROTOBUF_BYTES: usize = 256 * 1024 * 1024;

/// Capacity of the buffer that `pb.encode` reuses for the next call.
pub(crate) const PROTOBUF_KEPT_BYTES: usize = 1024 * 1024;

/// Timers that run before the loop polls its sockets again.
pub(crate) const TIMERS_PER_LOOK: usize = 64;

/// Bytes a connection receives before its script reads them, unless told otherwise.
pub(crate) const READ_BYTES: usize = 1024 * 1024;

/// Bytes of a line that a read by delimiter waits for, unless told otherwise.
pub(crate) const LINE_BYTES: usize = 16 * 1024 * 1024;

/// Unsent bytes of a connection, unless told otherwise; beyond, it is closed.
pub(crate) const OUTPUT_BYTES: usize = 64 * 1024 * 1024;

/// Size of the receive buffer that the connections of a VM share.
pub(crate) const ROOM_BYTES: usize = 64 * 1024;

/// A connection without unread bytes frees a larger buffer than this.
pub(crate) const KEPT_INPUT_BYTES: usize = 0;

/// Output buffers that are pooled for reuse, and their largest size.
pub(crate) const SPARE_OUTPUTS: usize = 256;
pub(crate) const SPARE_OUTPUT_BYTES: usize = 16 * 1024;

/// How long a closed connection may take to send its last bytes.
pub(crate) const LINGER_MS: u64 = 30_000;

/// How long a listener pauses when the process has no free descriptors.
pub const EXHAUSTED_MS: u64 = 50;

/// Connections the kernel may queue for a listener, unless told otherwise.
pub const BACKLOG: u32 = 4096;

/// How long a handshake of TLS with a client may take, unless told otherwise.
pub const TLS_HANDSHAKE_MS: u64 = 10_000;

/// Handshakes in progress of one listener; further connections are closed.
pub(crate) const TLS_HANDSHAKES: usize = 4096;

/// How long `connect` tries, unless told otherwise.
pub(crate) const CONNECT_MS: u64 = 30_000;

/// Size from which a VM counts a block of memory as large.
pub(crate) const METER_LARGE_BYTES: usize = 4 * 1024;

/// Bytes in large blocks below which a VM starts no collection for their sake.
pub(crate) const METER_FREE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes that Lua code may allocate at once whatever its VM holds: smaller blocks are checked
/// between instructions.
pub(crate) const METER_REFUSED_BYTES: usize = 1024 * 1024;

/// Instructions between two checks of a turn's budget.
pub(crate) const HOOK_STEP: u32 = 1000;

/// Instructions of one turn in a server, unless told otherwise.
pub const TURN_INSTRUCTIONS: u64 = 50_000_000;

/// Coroutines of one turn that may each exceed the instruction budget before the remaining ones get
/// none.
pub(crate) const STOPPED_PER_TURN: u32 = 8;

/// How long a turn may take before it is logged.
pub(crate) const LONG_TURN_MS: u64 = 1_000;

/// Calls that are pooled for reuse, and the capacity of the text buffer that is kept with one.
pub(crate) const SPARE_CALLS: usize = 256;
pub(crate) const KEPT_TEXT_BYTES: usize = 4 * 1024;

/// Bytes of a request body that `body:read` collects, unless told otherwise.
pub const BODY_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes of a response that a script writes without streaming it.
pub(crate) const RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// Unsent bytes of a streamed response from which `write` waits.
pub(crate) const STREAM_BYTES: usize = 64 * 1024;

/// Values and bytes of one message between VMs.
pub(crate) const MESSAGE_VALUES: usize = 1_000_000;
pub(crate) const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Depth of nested tables in a message.
pub(crate) const MESSAGE_DEPTH: usize = 100;
