//! Limits and time-outs: of the whole server, and what a listener and a route override.
//!
//! Promises: the narrower place wins key by key.

use message::TransferTimeout;
use settings::{Duration, Setting, Size};

/// Limits of what a client may request. A listener may override them, and a route `body`.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(default)]
pub struct Limits {
    /// Longest request line. Longer ones get 414.
    #[setting(default = "8KiB", range = "256B"..="64KiB")]
    pub request_line: Size,
    /// All header lines of a request together. More get 431.
    #[setting(default = "32KiB", range = "1KiB"..="1MiB")]
    pub headers: Size,
    /// Header lines of a request. More get 431.
    #[setting(default = 128, range = 8..=256)]
    pub header_count: u32,
    /// Longest request body. Longer ones get 413.
    #[setting(default = "64MiB", example = "unlimited")]
    pub body: Size,
    /// Connections open at once over all listeners. More get 503 and are closed.
    #[setting(default = 65536, range = 1..=10000000)]
    pub connections: u32,
    /// Streams (requests) that one HTTP/2 connection may have open at once. Others are refused.
    #[setting(default = 128, range = 1..=65535)]
    pub streams: u32,
    /// Bytes of one request body that an HTTP/2 client may send before the application has read
    /// them.
    #[setting(default = "256KiB", range = "64KiB"..="1GiB")]
    pub stream_window: Size,
    /// The same for all bodies of an HTTP/2 connection together: the memory that they may take.
    #[setting(default = "1MiB", range = "64KiB"..="1GiB")]
    pub connection_window: Size,
}

/// Overrides of the server-wide `limits` for this listener.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct ListenerLimits {
    /// Longest request line. Longer ones get 414.
    #[setting(range = "256B"..="64KiB")]
    pub request_line: Option<Size>,
    /// All header lines of a request together. More get 431.
    #[setting(range = "1KiB"..="1MiB")]
    pub headers: Option<Size>,
    /// Header lines of a request. More get 431.
    #[setting(range = 8..=256)]
    pub header_count: Option<u32>,
    /// Longest request body. Longer ones get 413.
    #[setting(example = "1MiB")]
    pub body: Option<Size>,
    /// Connections open at once on this listener. More get 503 and are closed.
    #[setting(range = 1..=10000000)]
    pub connections: Option<u32>,
    /// Streams (requests) that one HTTP/2 connection may have open at once. Others are refused.
    #[setting(range = 1..=65535)]
    pub streams: Option<u32>,
    /// Bytes of one request body that an HTTP/2 client may send before the application has read
    /// them.
    #[setting(range = "64KiB"..="1GiB")]
    pub stream_window: Option<Size>,
    /// The same for all bodies of an HTTP/2 connection together: the memory that they may take.
    #[setting(range = "64KiB"..="1GiB")]
    pub connection_window: Option<Size>,
}

/// Overrides of the listener's limits for this route.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct RouteLimits {
    /// Longest request body. Longer ones get 413.
    #[setting(example = "1GiB")]
    pub body: Option<Size>,
}

/// Client time-outs. A listener may override them, and a route those that begin with `body` and
/// `write`.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(default)]
pub struct Timeouts {
    /// From the connection to its first byte.
    #[setting(default = "10s", range = "1ms"..="1h")]
    pub handshake: Duration,
    /// From the first byte of a request to the end of its header lines. Slower ones get 408.
    #[setting(default = "10s", range = "1ms"..="1h")]
    pub head: Duration,
    /// Longest pause while a request body arrives. Slower ones get 408.
    #[setting(default = "30s", range = "1ms"..="1d")]
    pub body: Duration,
    /// Minimum rate of a request body in bytes per second, over a time as long as `body`.
    /// Slower ones get 408; `0B` means no minimum.
    #[setting(default = "240B", range = "0B"..="1GiB")]
    pub body_rate: Size,
    /// Longest time from the end of the header lines to the end of the body, however fast it
    /// arrives. Longer ones get 408; without it there is no limit.
    #[setting(range = "1ms"..="7d", example = "10m")]
    pub body_total: Option<Duration>,
    /// Longest pause while a response is taken.
    #[setting(default = "30s", range = "1ms"..="1d")]
    pub write: Duration,
    /// Minimum rate at which a response is taken in bytes per second, over a time as long as
    /// `write`. Only time counts in which data waits for the client. `0B` means no minimum.
    #[setting(default = "240B", range = "0B"..="1GiB")]
    pub write_rate: Size,
    /// Longest pause between two requests of a connection.
    #[setting(default = "75s", range = "1ms"..="7d")]
    pub idle: Duration,
    /// How long requests may take to finish when the server stops.
    #[setting(default = "30s", range = "0s"..="1d")]
    pub drain: Duration,
    /// How long the server continues to accept after the signal to stop, so that load balancers
    /// notice.
    #[setting(default = "0s", range = "0s"..="1h")]
    pub drain_delay: Duration,
}

/// Overrides of the server-wide `timeouts` for this listener.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct ListenerTimeouts {
    /// From the connection to its first byte.
    #[setting(range = "1ms"..="1h")]
    pub handshake: Option<Duration>,
    /// From the first byte of a request to the end of its header lines. Slower ones get 408.
    #[setting(range = "1ms"..="1h")]
    pub head: Option<Duration>,
    /// Longest pause while a request body arrives. Slower ones get 408.
    #[setting(range = "1ms"..="1d")]
    pub body: Option<Duration>,
    /// Minimum rate of a request body in bytes per second; `0B` means no minimum.
    #[setting(range = "0B"..="1GiB")]
    pub body_rate: Option<Size>,
    /// Longest time for a request body. Longer ones get 408.
    #[setting(range = "1ms"..="7d")]
    pub body_total: Option<Duration>,
    /// Longest pause while a response is taken.
    #[setting(range = "1ms"..="1d")]
    pub write: Option<Duration>,
    /// Minimum rate at which a response is taken in bytes per second; `0B` means no minimum.
    #[setting(range = "0B"..="1GiB")]
    pub write_rate: Option<Size>,
    /// Longest pause between two requests of a connection.
    #[setting(range = "1ms"..="7d")]
    pub idle: Option<Duration>,
}

/// Overrides of the listener's time-outs for this route, and the longest time of its gRPC calls.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct RouteTimeouts {
    /// Longest pause while a request body arrives. Slower ones get 408.
    #[setting(range = "1ms"..="1d", example = "10s")]
    pub body: Option<Duration>,
    /// Minimum rate of a request body in bytes per second; `0B` means no minimum.
    #[setting(range = "0B"..="1GiB", example = "0B")]
    pub body_rate: Option<Size>,
    /// Longest time for a request body. Longer ones get 408.
    #[setting(range = "1ms"..="7d", example = "1h")]
    pub body_total: Option<Duration>,
    /// Longest pause while a response is taken.
    #[setting(range = "1ms"..="1d")]
    pub write: Option<Duration>,
    /// Minimum rate at which a response is taken in bytes per second; `0B` means no minimum.
    #[setting(range = "0B"..="1GiB")]
    pub write_rate: Option<Size>,
    /// Longest time of a gRPC call: calls with a later deadline, or without one, have this. Longer
    /// ones get `deadline_exceeded`; without it the client decides.
    #[setting(range = "1ms"..="7d", example = "30s")]
    pub grpc: Option<Duration>,
}

impl Limits {
    /// These limits where the listener says nothing else.
    pub fn for_listener(&self, own: &ListenerLimits) -> Limits {
        Limits {
            request_line: own.request_line.unwrap_or(self.request_line),
            headers: own.headers.unwrap_or(self.headers),
            header_count: own.header_count.unwrap_or(self.header_count),
            body: own.body.unwrap_or(self.body),
            connections: own.connections.unwrap_or(self.connections),
            streams: own.streams.unwrap_or(self.streams),
            stream_window: own.stream_window.unwrap_or(self.stream_window),
            connection_window: own.connection_window.unwrap_or(self.connection_window),
        }
    }
}

impl Timeouts {
    /// How slowly a request body may arrive.
    pub fn body_timeout(&self) -> TransferTimeout {
        TransferTimeout { pause: self.body.get(), rate: self.body_rate.bytes() }
    }

    /// How slowly a response may be taken.
    pub fn write_timeout(&self) -> TransferTimeout {
        TransferTimeout { pause: self.write.get(), rate: self.write_rate.bytes() }
    }

    /// These time-outs where the listener says nothing else.
    pub fn for_listener(&self, own: &ListenerTimeouts) -> Timeouts {
        Timeouts {
            handshake: own.handshake.unwrap_or(self.handshake),
            head: own.head.unwrap_or(self.head),
            body: own.body.unwrap_or(self.body),
            body_rate: own.body_rate.unwrap_or(self.body_rate),
            body_total: own.body_total.or(self.body_total),
            write: own.write.unwrap_or(self.write),
            write_rate: own.write_rate.unwrap_or(self.write_rate),
            idle: own.idle.unwrap_or(self.idle),
            drain: self.drain,
            drain_delay: self.drain_delay,
        }
    }
}

#[cfg(test)]
mod tests {
    use settings::{Duration, Size, node, read};

    use super::{Limits, ListenerLimits, ListenerTimeouts, Timeouts};

    #[test]
    fn the_narrower_place_wins_key_by_key() {
        let own: ListenerLimits = read(&node!({ "body": "1MiB", "connections": 10 })).unwrap();
        let limits = Limits::default().for_listener(&own);
        assert_eq!((limits.body, limits.connections), (Size::from_bytes(1 << 20), 10));
        assert_eq!(limits.headers, Size::from_bytes(32 << 10));
        let own: ListenerTimeouts = read(&node!({ "idle": "5s" })).unwrap();
        let timeouts = Timeouts::default().for_listener(&own);
        assert_eq!(
            (timeouts.idle, timeouts.head),
            (Duration::from_secs(5), Duration::from_secs(10))
        );
    }

    #[test]
    fn the_defaults_are_those_of_the_contract() {
        let limits = Limits::default();
        let shown = [limits.request_line, limits.headers, limits.body].map(|size| size.to_string());
        assert_eq!(shown, ["8KiB", "32KiB", "64MiB"]);
        assert_eq!((limits.header_count, limits.connections), (128, 65536));
        let windows = [limits.stream_window, limits.connection_window];
        assert_eq!((limits.streams, windows.map(|size| size.bytes())), (128, [256 << 10, 1 << 20]));
        let t = Timeouts::default();
        let shown = [t.handshake, t.head, t.body, t.write, t.idle, t.drain, t.drain_delay];
        let shown = shown.map(|timeout| timeout.to_string());
        assert_eq!(shown, ["10s", "10s", "30s", "30s", "1m15s", "30s", "0s"]);
        assert_eq!((t.body_rate, t.write_rate), (Size::from_bytes(240), Size::from_bytes(240)));
        assert_eq!(t.body_total, None);
    }
}
