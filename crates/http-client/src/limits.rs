//! Every bound of the client side, by name. Those that users set are in [`crate::ClientOptions`]
//! and [`crate::PoolLimits`].

use std::time::Duration;

/// Addresses for which a client of URLs keeps idle connections.
pub(super) const CLIENT_POOLS: usize = 1024;
/// Interim responses (1xx) accepted before the final one.
pub(super) const INTERIM_MAX: u32 = 16;
/// A body up to this size is copied behind its head, so that both leave in one call.
pub(super) const INLINE_BODY: usize = 16 * 1024;
/// The worker's buffer for heads is given back above this.
pub(super) const KEPT_SCRATCH: usize = 64 * 1024;
/// Bytes of a trailer section.
pub(super) const TRAILERS: usize = 16 * 1024;
/// A chunked body that arrived as a whole with its headers is joined into one piece up to this
/// size.
pub(super) const JOINED_BODY: usize = 64 * 1024;
/// A connection idle for longer leaves its worker.
pub(super) const PARK_AFTER: Duration = Duration::from_secs(1);
/// Interval at which a worker checks its idle connections.
pub(super) const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Data of a response that its client has not read. A stream gets no more of it, so a client that
/// does not read blocks no other.
pub(super) const HTTP2_STREAM_WINDOW: u32 = 128 * 1024;
/// Requests at once on one connection of HTTP/2, if the server allows as many.
pub(super) const HTTP2_STREAMS: usize = 128;
/// Rounds of receiving and sending before other tasks of the worker run.
pub(super) const HTTP2_TURNS: usize = 4;
/// A request after this silence is accompanied by a PING ...
pub(super) const PING_AFTER: Duration = Duration::from_secs(10);
/// ... after which something must arrive within this time.
pub(super) const PING_WITHIN: Duration = Duration::from_secs(10);
/// A server that demands HTTP/1.1 is sent no request over HTTP/2 for this time.
pub(super) const HTTP1_DEMANDED: Duration = Duration::from_secs(600);
/// Content that one call writes for the streams of a connection.
pub(super) const HTTP2_WRITE: usize = 256 * 1024;
/// Idle connections that are closed at once when there are no descriptors left.
pub(super) const SHED_AT_ONCE: usize = 16;
/// Interval at which the kernel is queried whether a parked connection is alive.
pub(super) const PARKED_LOOK: Duration = Duration::from_secs(10);
/// How long a WebSocket may take to end after a Close frame to both of its sides.
pub(super) const WEBSOCKET_CLOSE: Duration = Duration::from_secs(2);
