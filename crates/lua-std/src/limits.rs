//! Limits of the standard library.
//!
//! What a script may set for one connection or one call has its default here.

use std::time::Duration;

/// Bytes of one value that an incremental JSON decoder collects, unless told otherwise.
pub(crate) const JSON_STREAM_BYTES: usize = 16 * 1024 * 1024;

/// Bytes that `decompress` or a decompressor writes, unless told otherwise.
pub(crate) const DECOMPRESS_BYTES: usize = 64 * 1024 * 1024;

/// The longest block of an LZ4 frame: 4 MiB (the format's block maximum size 7).
pub(crate) const LZ4_BLOCK_BYTES: usize = 4 * 1024 * 1024;

/// How long connections of a program may continue after SIGTERM.
pub(crate) const DRAIN_MS: u64 = 10_000;

/// Unread messages from other VMs.
pub(crate) const MAILBOX_MESSAGES: usize = 1024;

/// Messages of one channel between VMs that were not received.
pub(crate) const WORKER_LETTERS: usize = 65_536;

/// Notifications of PostgreSQL that a program has not read.
pub(crate) const POSTGRES_NOTIFICATIONS: usize = 65_536;

/// Dimensions and elements of an array that is a parameter of PostgreSQL.
pub(crate) const POSTGRES_ARRAY_DEPTH: usize = 6;
pub(crate) const POSTGRES_ARRAY_ITEMS: usize = 10_000_000;

/// Iterations of a password's hash that a server may ask for; the standard has 4096.
pub(crate) const SCRAM_ITERATIONS: u32 = 1_000_000;

/// Longest span that `test.advance` moves the clock by.
pub(crate) const TEST_ADVANCE_MS: u64 = u32::MAX as u64;

/// How often a second of CPU time is read for the admin API of a program.
pub(crate) const PROFILE_SAMPLES_PER_SECOND: u32 = 100;

/// Workers of `hive` in one VM, each of which has a VM of its own.
pub(crate) const HIVE_WORKERS: usize = 1024;

/// How long a thread of `hive` waits for work before it ends, as in Silly.
pub(crate) const HIVE_IDLE_MS: u64 = 60_000;

/// Datagrams that wait for a script; the kernel keeps or drops the rest.
pub(crate) const DATAGRAMS: usize = 1024;

/// Random bytes or letters that one call gives.
pub(crate) const RANDOM_BYTES: usize = 64 * 1024 * 1024;

/// The longest message that an authenticated cipher seals or opens.
pub(crate) const SEALED_BYTES: usize = 64 * 1024 * 1024;

/// The longest JSON Web Token that is read.
pub(crate) const JWT_BYTES: usize = 64 * 1024;

/// Memory of one compiled regular expression.
pub(crate) const RE_PROGRAM_BYTES: usize = 256 * 1024;

/// Memory of one regular expression's lazy automaton.
pub(crate) const RE_STATES_BYTES: usize = 1024 * 1024;

/// Bytes of the result of a replacement: one match may become long.
pub(crate) const RE_OUTPUT_BYTES: usize = 256 * 1024 * 1024;

/// Compiled regular expressions in a VM's cache.
pub(crate) const RE_KEPT: usize = 64;

/// Characters of a pattern.
pub(crate) const RE_PATTERN_BYTES: usize = 16 * 1024;

/// Bytes of datagrams that wait to be sent.
pub(crate) const DATAGRAM_BYTES: usize = 1024 * 1024;

/// Overhead that is added to the size of a waiting datagram.
pub(crate) const DATAGRAM_TAKES: usize = 256;

/// Entries of `tide.shared`; the least used one is evicted.
pub(crate) const SHARED_ENTRIES: usize = 65_536;

/// Calls of a VM to `tide.shared` that wait for Redis, and those that are sent together.
pub(crate) const SHARED_CALLS: usize = 10_000;
pub(crate) const SHARED_CALLS_TOGETHER: usize = 256;
/// How long calls fail at once after Redis could not be reached.
pub(crate) const SHARED_DOWN: Duration = Duration::from_secs(1);
/// Bytes of a key and of a text in `tide.shared`.
pub(crate) const SHARED_BYTES: usize = 64 * 1024;

/// Bytes of one reply of Redis, unless told otherwise.
pub(crate) const REDIS_REPLY_BYTES: usize = 64 * 1024 * 1024;

/// Buffer that a connection to Redis reuses for the next reply.
pub(crate) const REDIS_KEPT_BYTES: usize = 16 * 1024;

/// Bytes of a file that `fs.read` reads, unless told otherwise.
pub(crate) const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes that one read of an open file gives.
pub(crate) const FILE_PIECE_BYTES: usize = 1024 * 1024;

/// Entries of a directory that `fs.list` lists.
pub(crate) const FOLDER_ENTRIES: usize = 100_000;

/// Buffer for the events of a watched directory; a name has at most 255 bytes.
pub(crate) const WATCH_READ_BYTES: usize = 4 * 1024;

/// Bytes of a request's body that an HTTP server takes, and that `readall` collects.
pub(crate) const HTTP_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Bytes a handler writes before they are sent without a flush.
pub(crate) const HTTP_GATHER_BYTES: usize = 4 * 1024;

/// Unsent bytes of a body beyond which a write waits.
pub(crate) const HTTP_UNSENT_BYTES: usize = 256 * 1024;

/// Output per input byte of a compressed response; DEFLATE can reach 1032.
pub(crate) const HTTP_INFLATE_RATIO: u64 = 1100;

/// Time-out of a request's head.
pub(crate) const HTTP_HEAD_MS: u64 = 10_000;

/// How long a server keeps a connection between requests.
pub(crate) const HTTP_IDLE_MS: u64 = 60_000;

/// Connections of one HTTP listener; further ones get a 503.
pub(crate) const HTTP_CONNECTIONS: usize = 10_000;

/// A connection that has been idle this long may be closed when file descriptors run out.
pub(crate) const HTTP_SHED_IDLE_MS: u64 = 1_000;

/// How long an HTTP client tries to connect to one address.
pub(crate) const HTTP_CONNECT_MS: u64 = 10_000;

/// How long an HTTP client waits for a response's head, and for more of its body.
pub(crate) const HTTP_READ_MS: u64 = 30_000;

/// How long an HTTP client keeps an idle connection, as Silly has it.
pub(crate) const HTTP_CLIENT_IDLE_MS: u64 = 30_000;

/// How many idle connections to one address an HTTP client keeps, as Silly has it.
pub(crate) const HTTP_IDLE_PER_HOST: u64 = 10;

/// How many redirects a client of a script may be told to follow.
pub(crate) const HTTP_REDIRECTS: u32 = 20;

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

/// Bytes of one response of etcd, or of the events of one revision, unless told otherwise.
pub(crate) const ETCD_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Leases that one client of etcd renews.
pub(crate) const ETCD_LEASES: usize = 4096;

/// Bytes of a file of descriptors that `pb.loadfile` reads.
pub(crate) const DESCRIPTOR_BYTES: u64 = 64 * 1024 * 1024;

/// Depth of parentheses in a format of `pb.buffer`, and of views of a `pb.slice`.
pub(crate) const PROTOBUF_LEVELS: usize = 100;

/// Bytes of a `pb.buffer`.
pub(crate) const PROTOBUF_BUFFER_BYTES: usize = 256 * 1024 * 1024;

/// Bytes of a schema of `zproto`.
pub(crate) const ZPROTO_SOURCE_BYTES: usize = 4 * 1024 * 1024;

/// Depth of structs within structs in a schema of `zproto`, as in Silly.
pub(crate) const ZPROTO_LEVELS: usize = 64;

/// Bytes that `zproto` encodes or unpacks in one call.
pub(crate) const ZPROTO_BYTES: usize = 256 * 1024 * 1024;

/// Structs in what `default` of a schema of `zproto` returns.
pub(crate) const ZPROTO_DEFAULTS: usize = 10_000;

/// Bytes of the fields of a block that `http2.hpack` decodes, as in Silly.
pub(crate) const HPACK_FIELDS_BYTES: usize = 64 * 1024;
