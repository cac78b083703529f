//! Why connections end and which limits were exceeded: two tables with one row per reason.
//!
//! Every code path that closes a client connection names a row of `CloseReason`; every limit a
//! client can exceed names a row of `LimitHit`. A row is a counter in each worker, a label in
//! /metrics and a line of the reference.

/// The party responsible for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Expected behaviour.
    Normal,
    /// The client violated the protocol or a limit, or broke the connection.
    Client,
    /// The upstream did.
    Upstream,
    /// The server failed or ran out of a resource.
    Ours,
}

impl Severity {
    pub const fn slug(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Client => "client",
            Self::Upstream => "upstream",
            Self::Ours => "ours",
        }
    }
}

macro_rules! table {
    ($(#[$doc:meta])* $name:ident {
        $($variant:ident, $slug:literal, $severity:ident, $text:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name {
            $(#[doc = $text] $variant,)*
        }

        impl $name {
            /// All rows, in the order of `index`.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            pub const COUNT: usize = Self::ALL.len();

            /// The row's index in an array of counters.
            #[inline]
            pub const fn index(self) -> usize {
                self as usize
            }

            /// The label value in metrics and logs.
            pub const fn slug(self) -> &'static str {
                match self { $(Self::$variant => $slug,)* }
            }

            /// One sentence for the reference.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            pub const fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }
        }
    };
}

table! {
    /// Why a client connection ended.
    CloseReason {
        ClientClosed, "client_closed", Normal, "the client closed between requests";
        CloseRequested, "close_requested", Normal, "the client requested it or uses HTTP/1.0";
        CloseByAnswer, "close_by_answer", Normal,
            "the end of the response is the end of the connection";
        IdleTimeout, "idle_timeout", Normal, "no request arrived within `idle`";
        Drain, "drain", Normal, "the server or its listener is draining";
        StreamFinished, "stream_finished", Normal, "both sides of the stream ended it";
        UpgradeFinished, "upgrade_finished", Normal, "the tunnel ended";
        TunnelIdle, "tunnel_idle", Normal, "the tunnel or stream was idle for too long";
        HandshakeTimeout, "handshake_timeout", Client,
            "no byte arrived, or a PROXY header or TLS handshake did not end, within `handshake`";
        ProxyUnknown, "proxy_unknown", Client, "`proxy_protocol` does not list the peer";
        ProxyHeader, "proxy_header", Client, "the PROXY header was missing or malformed";
        TlsFailed, "tls_failed", Client, "the TLS handshake failed";
        UnknownServerName, "unknown_server_name", Client,
            "`sni` and `alpn` of the stream do not list what the client asks for";
        ClientDenied, "client_denied", Client, "`allow` or `deny` of the stream exclude the client";
        ClientRate, "client_rate", Client,
            "the client connected more often than `connection_rate_per_client`";
        ClientLimit, "client_limit", Client,
            "the client had as many connections as `connections_per_client`";
        HeadTimeout, "head_timeout", Client, "the request head was incomplete after `head`";
        BodyTimeout, "body_timeout", Client, "the request body arrived too slowly or took too long";
        WriteTimeout, "write_timeout", Client, "the client read too slowly or not at all";
        SlowClient, "slow_client", Client,
            "the client was too slow to occupy a connection to a busy upstream";
        Malformed, "malformed_request", Client, "the request was malformed or ambiguous";
        Http2Error, "http2_error", Client, "the client violated HTTP/2";
        Http2Flood, "http2_flood", Client, "the client exceeded a limit of HTTP/2";
        RequestLineTooLong, "request_line_too_long", Client, "the request line was too long";
        HeadersTooLarge, "headers_too_large", Client,
            "the header fields were too large or too many";
        BodyTooLarge, "body_too_large", Client, "the request body exceeded the limit";
        BodyUnread, "body_unread", Client, "too much of a rejected body was unread";
        UnknownHost, "unknown_host", Client, "no route has the host, and `unknown_host` is close";
        ClientReset, "client_reset", Client, "the client reset the connection";
        ClientGone, "client_gone", Client, "the client disconnected during an exchange";
        ConnectionLimit, "connection_limit", Ours, "the connection limit was reached";
        Descriptors, "descriptors", Ours,
            "it was idle, and the process needed its file descriptor";
        UpstreamAborted, "upstream_aborted", Upstream,
            "the upstream failed after the response head";
        StreamUnconnected, "stream_unconnected", Upstream,
            "no server of the stream's upstream accepted a connection";
        StreamBroken, "stream_broken", Upstream, "the upstream broke the stream";
        ResponseAborted, "response_aborted", Ours, "the handler failed after the response head";
        WriteFailed, "write_failed", Client, "the response could not be written";
        InternalError, "internal_error", Ours, "an internal error of the server";
    }
}

table! {
    /// A limit or time-out that a client ran into.
    LimitHit {
        SlowHandshake, "slow_handshake", Client, "`timeouts.handshake` ran out";
        SlowHead, "slow_head", Client, "`timeouts.head` ran out";
        SlowBody, "slow_body", Client, "slower than `timeouts.body` and `body_rate` allow (408)";
        BodyTotal, "body_total", Client, "exceeded `timeouts.body_total` (408)";
        SlowReader, "slow_reader", Client, "slower than `timeouts.write` and `write_rate` allow";
        SlowClients, "slow_clients", Client,
            "disconnected: more slow clients than `max_slow_clients`";
        Idle, "idle", Normal, "`timeouts.idle` ran out";
        RequestLine, "request_line", Client, "longer than `limits.request_line` (414)";
        Headers, "headers", Client, "larger than `limits.headers` (431)";
        HeaderCount, "header_count", Client, "more fields than `limits.header_count` (431)";
        Body, "body", Client, "larger than `limits.body` (413)";
        Trailers, "trailers", Client, "trailers larger than `limits.headers`";
        Connections, "connections", Ours, "more connections than `limits.connections` (503)";
        ClientRate, "client_rate", Client,
            "connected more often than `connection_rate_per_client` of a stream";
        ClientConnections, "client_connections", Client,
            "more connections of one client than `connections_per_client`";
        Descriptors, "descriptors", Ours,
            "more client connections than file descriptors, or no descriptor left";
        Rate, "rate", Client, "rejected by a rate limit (429)";
        InFlight, "in_flight", Ours, "rejected by a concurrency limit";
        Pipeline, "pipeline", Client, "more pipelined bytes than are buffered";
        Streams, "streams", Client, "more HTTP/2 streams at once than `limits.streams`";
        RapidReset, "rapid_reset", Client, "too many HTTP/2 requests were cancelled";
        ProvokedResets, "provoked_resets", Client,
            "too many HTTP/2 streams had to be reset because of the client";
        ContinuationFlood, "continuation_flood", Client, "too many CONTINUATION frames of HTTP/2";
        ControlFrames, "control_frames", Client,
            "too many PING, SETTINGS, PRIORITY, WINDOW_UPDATE and other control frames of HTTP/2";
        EmptyFrames, "empty_frames", Client, "too many DATA frames of HTTP/2 without data";
        SlowUpstream, "slow_upstream", Upstream, "an upstream time-out expired (504)";
        UpstreamHeaders, "upstream_headers", Upstream,
            "the response head of an upstream was too large (502)";
        UpstreamFlood, "upstream_flood", Upstream,
            "an upstream exceeded a limit of HTTP/2 that ends its connection";
        UpstreamConnections, "upstream_connections", Upstream,
            "all connections to the upstream were in use (503)";
    }
}

#[cfg(test)]
mod tests {
    use super::{CloseReason, LimitHit};
    use std::collections::HashSet;

    fn well_formed(slugs: &[&str], texts: &[&str]) {
        let unique: HashSet<_> = slugs.iter().collect();
        assert_eq!(unique.len(), slugs.len(), "a slug is used twice");
        for slug in slugs {
            assert!(
                slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{slug}"
            );
        }
        assert!(texts.iter().all(|text| !text.is_empty() && !text.ends_with('.')));
    }

    #[test]
    fn rows_are_distinct_and_indexed_in_order() {
        for (i, reason) in CloseReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), i);
        }
        for (i, limit) in LimitHit::ALL.iter().enumerate() {
            assert_eq!(limit.index(), i);
        }
        let closes: Vec<_> = CloseReason::ALL.iter().map(|r| r.slug()).collect();
        let texts: Vec<_> = CloseReason::ALL.iter().map(|r| r.text()).collect();
        well_formed(&closes, &texts);
        let limits: Vec<_> = LimitHit::ALL.iter().map(|r| r.slug()).collect();
        let texts: Vec<_> = LimitHit::ALL.iter().map(|r| r.text()).collect();
        well_formed(&limits, &texts);
    }
}
