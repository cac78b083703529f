//! Limits and time-outs: of the whole server, what a listener says otherwise, what a route says
//! otherwise.
//!
//! Promises: the narrower place wins key by key.

use exchange::serve::Patience;
use settings::{Duration, Size};

settings::record! {
    /// How much one client may ask of the server. A listener may say otherwise, and a route for
    /// `body`.
    pub struct Limits {
        /// Longest request line. Longer ones get 414.
        pub request_line: Size = "8KiB" { in "256B"..="64KiB" },
        /// All header lines of a request together. More get 431.
        pub headers: Size = "32KiB" { in "1KiB"..="1MiB" },
        /// Header lines of a request. More get 431.
        pub header_count: u32 = 128 { in 8..=256 },
        /// Longest request body. Longer ones get 413.
        pub body: Size = "64MiB" { example "unlimited" },
        /// Connections open at once over all listeners. More get 503 and are closed.
        pub connections: u32 = 65536 { in 1..=10000000 },
    }
}

settings::record! {
    /// What a listener limits otherwise than the server does.
    pub struct ListenerLimits {
        /// Longest request line. Longer ones get 414.
        pub request_line: Option<Size> = null { in "256B"..="64KiB" },
        /// All header lines of a request together. More get 431.
        pub headers: Option<Size> = null { in "1KiB"..="1MiB" },
        /// Header lines of a request. More get 431.
        pub header_count: Option<u32> = null { in 8..=256 },
        /// Longest request body. Longer ones get 413.
        pub body: Option<Size> = null { example "1MiB" },
        /// Connections open at once on this listener. More get 503 and are closed.
        pub connections: Option<u32> = null { in 1..=10000000 },
    }
}

settings::record! {
    /// What a route limits otherwise than its listener does.
    pub struct RouteLimits {
        /// Longest request body. Longer ones get 413.
        pub body: Option<Size> = null { example "1GiB" },
    }
}

settings::record! {
    /// How long a client is waited for. A listener may say otherwise, and a route for `body`,
    /// `write` and what begins with them.
    pub struct Timeouts {
        /// From the connection to its first byte.
        pub handshake: Duration = "10s" { in "1ms"..="1h" },
        /// From the first byte of a request to the end of its header lines. Slower ones get 408.
        pub head: Duration = "10s" { in "1ms"..="1h" },
        /// Longest pause while a request body arrives. Slower ones get 408.
        pub body: Duration = "30s" { in "1ms"..="1d" },
        /// Minimum rate of a request body in bytes per second, over a time as long as `body`.
        /// Slower ones get 408; `0B` is no minimum.
        pub body_rate: Size = "240B" { in "0B"..="1GiB" },
        /// Longest time from the end of the header lines to the end of the body, however fast it
        /// arrives. Longer ones get 408; without it there is no limit.
        pub body_total: Option<Duration> = null { in "1ms"..="7d", example "10m" },
        /// Longest pause while a response is taken.
        pub write: Duration = "30s" { in "1ms"..="1d" },
        /// Minimum rate at which a response is taken in bytes per second, over a time as long as
        /// `write`. Only time counts in which data waits for the client. `0B` is no minimum.
        pub write_rate: Size = "240B" { in "0B"..="1GiB" },
        /// Longest pause between two requests of a connection.
        pub idle: Duration = "75s" { in "1ms"..="7d" },
        /// How long requests may take to finish when the server stops.
        pub drain: Duration = "30s" { in "0s"..="1d" },
        /// How long the server goes on accepting after it was told to stop, so that load balancers
        /// notice.
        pub drain_delay: Duration = "0s" { in "0s"..="1h" },
    }
}

settings::record! {
    /// How long a listener waits otherwise than the server does.
    pub struct ListenerTimeouts {
        /// From the connection to its first byte.
        pub handshake: Option<Duration> = null { in "1ms"..="1h" },
        /// From the first byte of a request to the end of its header lines. Slower ones get 408.
        pub head: Option<Duration> = null { in "1ms"..="1h" },
        /// Longest pause while a request body arrives. Slower ones get 408.
        pub body: Option<Duration> = null { in "1ms"..="1d" },
        /// Minimum rate of a request body in bytes per second; `0B` is no minimum.
        pub body_rate: Option<Size> = null { in "0B"..="1GiB" },
        /// Longest time for a request body. Longer ones get 408.
        pub body_total: Option<Duration> = null { in "1ms"..="7d" },
        /// Longest pause while a response is taken.
        pub write: Option<Duration> = null { in "1ms"..="1d" },
        /// Minimum rate at which a response is taken in bytes per second; `0B` is no minimum.
        pub write_rate: Option<Size> = null { in "0B"..="1GiB" },
        /// Longest pause between two requests of a connection.
        pub idle: Option<Duration> = null { in "1ms"..="7d" },
    }
}

settings::record! {
    /// How long a route waits otherwise than its listener does.
    pub struct RouteTimeouts {
        /// Longest pause while a request body arrives. Slower ones get 408.
        pub body: Option<Duration> = null { in "1ms"..="1d", example "10s" },
        /// Minimum rate of a request body in bytes per second; `0B` is no minimum.
        pub body_rate: Option<Size> = null { in "0B"..="1GiB", example "0B" },
        /// Longest time for a request body. Longer ones get 408.
        pub body_total: Option<Duration> = null { in "1ms"..="7d", example "1h" },
        /// Longest pause while a response is taken.
        pub write: Option<Duration> = null { in "1ms"..="1d" },
        /// Minimum rate at which a response is taken in bytes per second; `0B` is no minimum.
        pub write_rate: Option<Size> = null { in "0B"..="1GiB" },
    }
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
        }
    }
}

impl Timeouts {
    /// How slowly a request body may arrive.
    pub fn body_patience(&self) -> Patience {
        Patience { pause: self.body.get(), rate: self.body_rate.bytes() }
    }

    /// How slowly a response may be taken.
    pub fn write_patience(&self) -> Patience {
        Patience { pause: self.write.get(), rate: self.write_rate.bytes() }
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
        let t = Timeouts::default();
        let shown = [t.handshake, t.head, t.body, t.write, t.idle, t.drain, t.drain_delay];
        let shown = shown.map(|timeout| timeout.to_string());
        assert_eq!(shown, ["10s", "10s", "30s", "30s", "1m15s", "30s", "0s"]);
        assert_eq!((t.body_rate, t.write_rate), (Size::from_bytes(240), Size::from_bytes(240)));
        assert_eq!(t.body_total, None);
    }
}
