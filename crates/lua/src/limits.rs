//! Every bound of a VM, in one place.
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
/// Bytes of one value that an incremental JSON decoder collects, unless told otherwise.
pub(crate) const JSON_STREAM_BYTES: usize = 16 * 1024 * 1024;

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
pub(crate) const EXHAUSTED_MS: u64 = 50;
/// Connections the kernel may queue for a listener, unless told otherwise.
pub(crate) const BACKLOG: u32 = 4096;
/// How long `connect` tries, unless told otherwise.
pub(crate) const CONNECT_MS: u64 = 30_000;

/// What `decompress` and a decompressor unpack, unless told otherwise.
pub(crate) const DECOMPRESS_BYTES: usize = 64 * 1024 * 1024;
/// The longest block of an LZ4 frame: 4 MiB (the format's block maximum size 7).
pub(crate) const LZ4_BLOCK_BYTES: usize = 4 * 1024 * 1024;
/// How long a program that has exited may take to send its last bytes.
pub(crate) const LAST_BYTES_MS: u64 = 5_000;
/// How long connections of a program may go on after SIGTERM.
pub(crate) const DRAIN_MS: u64 = 10_000;

/// Messages from other VMs that nobody has looked at.
pub(crate) const MAILBOX_MESSAGES: usize = 1024;
/// Messages of one channel between VMs that nobody has received.
pub(crate) const WORKER_LETTERS: usize = 65_536;
/// Values and bytes of one message between VMs.
pub(crate) const MESSAGE_VALUES: usize = 1_000_000;
pub(crate) const MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// How deep tables of a message may stand in each other.
pub(crate) const MESSAGE_DEPTH: usize = 100;

/// Datagrams that wait for a script; the kernel keeps or drops the rest.
pub(crate) const DATAGRAMS: usize = 1024;

/// Random bytes or letters that one call gives.
pub(crate) const RANDOM_BYTES: usize = 1024 * 1024;
/// The longest message that an authenticated cipher seals or opens.
pub(crate) const SEALED_BYTES: usize = 64 * 1024 * 1024;

/// The longest JSON Web Token that is looked at.
pub(crate) const JWT_BYTES: usize = 64 * 1024;

/// Memory of one compiled regular expression.
pub(crate) const RE_PROGRAM_BYTES: usize = 256 * 1024;
/// Memory of what one regular expression works out while it is used.
pub(crate) const RE_STATES_BYTES: usize = 1024 * 1024;
/// Bytes that replacing may come to: one match may stand for much.
pub(crate) const RE_OUTPUT_BYTES: usize = 256 * 1024 * 1024;
/// Compiled regular expressions that a VM keeps for patterns given as strings.
pub(crate) const RE_KEPT: usize = 64;
/// Characters of a pattern.
pub(crate) const RE_PATTERN_BYTES: usize = 16 * 1024;
/// Bytes of datagrams that wait for the kernel to take them.
pub(crate) const DATAGRAM_BYTES: usize = 1024 * 1024;

/// What one that waits takes beside its bytes.
pub(crate) const DATAGRAM_TAKES: usize = 256;

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
pub(crate) const TURN_INSTRUCTIONS: u64 = 50_000_000;
/// Coroutines that one turn may end for want of instructions before the rest gets none either.
pub(crate) const STOPPED_PER_TURN: u32 = 8;
/// How long a turn may take before the log says so.
pub(crate) const LONG_TURN_MS: u64 = 1_000;
/// Calls of handlers and filters that are kept for the next ones, and the longest text whose room
/// is kept with one.
pub(crate) const SPARE_CALLS: usize = 256;
pub(crate) const KEPT_TEXT_BYTES: usize = 4 * 1024;
/// Bytes of a request body that `body:read` collects, unless told otherwise.
pub(crate) const BODY_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes of an answer that a script writes without streaming it.
pub(crate) const RESPONSE_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of a streamed answer that wait for the client before `write` does.
pub(crate) const STREAM_BYTES: usize = 64 * 1024;
/// Requests from within that a VM may have under way.
pub(crate) const SUBREQUESTS: usize = 4096;
/// An answer to one whose length is known and no more than this is received before it is handed
/// over: its connection is free again at once.
pub(crate) const SUBREQUEST_WHOLE_BYTES: u64 = 64 * 1024;
/// What is decoded on the worker; more is decoded off the loop.
pub(crate) const DECODED_HERE_BYTES: usize = 64 * 1024;
/// Output per input byte of a coded answer, above the first mebibyte.
pub(crate) const SUBREQUEST_RATIO: u64 = 1100;
/// Entries of `tide.shared`; the one least used goes for another.
pub(crate) const SHARED_ENTRIES: usize = 65_536;
/// Bytes of a key and of a text in `tide.shared`.
pub(crate) const SHARED_BYTES: usize = 64 * 1024;

/// Bytes of one reply of Redis, unless told otherwise.
pub(crate) const REDIS_REPLY_BYTES: usize = 64 * 1024 * 1024;
/// Memory that a connection to Redis keeps from one reply to the next.
pub(crate) const REDIS_KEPT_BYTES: usize = 16 * 1024;

/// Bytes of a file that `fs.read` reads, unless told otherwise.
pub(crate) const FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes that one read of an open file gives.
pub(crate) const FILE_PIECE_BYTES: usize = 1024 * 1024;
/// Entries of a folder that `fs.list` lists.
pub(crate) const FOLDER_ENTRIES: usize = 100_000;
/// Room for what happened in a watched folder; a name has at most 255 bytes.
pub(crate) const WATCH_READ_BYTES: usize = 4 * 1024;

/// Bytes of a request's body that an HTTP server takes, and that `readall` collects.
pub(crate) const HTTP_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Bytes a handler writes before they leave without being asked to.
pub(crate) const HTTP_GATHER_BYTES: usize = 4 * 1024;
/// Unsent bytes of a body beyond which a write waits.
pub(crate) const HTTP_UNSENT_BYTES: usize = 256 * 1024;
/// Output per input byte of a coded answer: what DEFLATE can reach is 1032.
pub(crate) const HTTP_INFLATE_RATIO: u64 = 1100;
/// How long a request's head may take.
pub(crate) const HTTP_HEAD_MS: u64 = 10_000;
/// How long a server keeps a connection between requests.
pub(crate) const HTTP_IDLE_MS: u64 = 60_000;
/// Connections of one HTTP listener; further ones are answered 503.
pub(crate) const HTTP_CONNECTIONS: usize = 10_000;
/// How long an HTTP client tries to connect to one address.
pub(crate) const HTTP_CONNECT_MS: u64 = 10_000;
/// How long an HTTP client waits for an answer's head, and for more of its body.
pub(crate) const HTTP_READ_MS: u64 = 30_000;
/// How long an HTTP client keeps an idle connection, as Silly has it.
pub(crate) const HTTP_CLIENT_IDLE_MS: u64 = 30_000;
/// How many idle connections to one address an HTTP client keeps, as Silly has it.
pub(crate) const HTTP_IDLE_PER_HOST: u64 = 10;
/// How many redirects a client of a script may be told to follow.
pub(crate) const HTTP_REDIRECTS: u32 = 20;
/// Memory that the VM of a server's raw programs may hold.
pub(crate) const PROGRAM_MEMORY_BYTES: u64 = 1024 * 1024 * 1024;
/// Addresses to which an HTTP client keeps idle connections.
pub(crate) const HTTP_POOLS: usize = 1024;

/// Bytes of one message of a WebSocket, unless told otherwise.
pub(crate) const WEBSOCKET_BYTES: usize = 1024 * 1024;
/// Unread messages of a WebSocket beyond which its peer is held back.
pub(crate) const WEBSOCKET_MESSAGES: usize = 1024;
/// Unread messages beyond which pings and pongs are not delivered.
pub(crate) const WEBSOCKET_CONTROLS: usize = 64;
/// Unsent bytes of a WebSocket beyond which a write waits, and a ping is not answered.
pub(crate) const WEBSOCKET_UNSENT: usize = 1024 * 1024;
/// How long a WebSocket that is closed waits for the other side.
pub(crate) const WEBSOCKET_CLOSE_MS: u64 = 5_000;
