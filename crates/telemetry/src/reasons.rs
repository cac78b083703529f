//! Why connections end and which limits were hit: two tables, one row per reason.
//!
//! Every place that closes a client connection names a row of `CloseReason`; every bound a client
//! can run into names a row of `LimitHit`. A row is a counter in each worker, a label in /metrics
//! and a line of the reference.

/// Whose doing it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// As things should be.
    Normal,
    /// The client broke the protocol, a limit, or the connection.
    Client,
    /// The upstream did.
    Upstream,
    /// We did, or ran out of something.
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
            /// Every row, in the order of `index`.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            pub const COUNT: usize = Self::ALL.len();

            /// The row's place in an array of counters.
            #[inline]
            pub const fn index(self) -> usize {
                self as usize
            }

            /// The label value in metrics and logs.
            pub const fn slug(self) -> &'static str {
                match self { $(Self::$variant => $slug,)* }
            }

            /// One sentence for people.
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
        CloseRequested, "close_requested", Normal, "the client asked for it, or spoke HTTP/1.0";
        CloseByAnswer, "close_by_answer", Normal, "the answer could only end with the connection";
        IdleTimeout, "idle_timeout", Normal, "no new request came within `idle`";
        Drain, "drain", Normal, "the server or its listener is draining";
        UpgradeFinished, "upgrade_finished", Normal, "the tunnel ended";
        TunnelIdle, "tunnel_idle", Normal, "nothing went through the tunnel for too long";
        HandshakeTimeout, "handshake_timeout", Client, "nothing came within `handshake`";
        HeadTimeout, "head_timeout", Client, "the request head was not whole within `head`";
        BodyTimeout, "body_timeout", Client, "the request body was too slow or took too long";
        WriteTimeout, "write_timeout", Client, "the client read too slowly or not at all";
        SlowClient, "slow_client", Client, "too slow to hold a connection to a busy upstream";
        Malformed, "malformed_request", Client, "the request was malformed or ambiguous";
        RequestLineTooLong, "request_line_too_long", Client, "the request line was too long";
        HeadersTooLarge, "headers_too_large", Client, "the header fields were too large or many";
        BodyTooLarge, "body_too_large", Client, "the request body was above the limit";
        BodyUnread, "body_unread", Client, "too much of a refused body was left to be read";
        UnknownHost, "unknown_host", Client, "no route names the host, and `unknown_host` is close";
        ClientReset, "client_reset", Client, "the client reset the connection";
        ClientGone, "client_gone", Client, "the client went away in the middle of an exchange";
        ConnectionLimit, "connection_limit", Ours, "as many connections as allowed were open";
        Descriptors, "descriptors", Ours,
            "it was idle, and the process needed its file descriptor";
        UpstreamAborted, "upstream_aborted", Upstream, "the upstream broke off after the head";
        ResponseAborted, "response_aborted", Ours, "the handler broke off after the head";
        WriteFailed, "write_failed", Client, "the answer could not be written";
        InternalError, "internal_error", Ours, "a fault of the server itself";
    }
}

table! {
    /// A limit or time-out that a client ran into.
    LimitHit {
        SlowHandshake, "slow_handshake", Client, "`timeouts.handshake` ran out";
        SlowHead, "slow_head", Client, "`timeouts.head` ran out";
        SlowBody, "slow_body", Client, "slower than `timeouts.body` and `body_rate` allow (408)";
        BodyTotal, "body_total", Client, "`timeouts.body_total` ran out (408)";
        SlowReader, "slow_reader", Client, "slower than `timeouts.write` and `write_rate` allow";
        SlowClients, "slow_clients", Client, "cut off: more slow clients than `max_slow_clients`";
        Idle, "idle", Normal, "`timeouts.idle` ran out";
        RequestLine, "request_line", Client, "longer than `limits.request_line` (414)";
        Headers, "headers", Client, "larger than `limits.headers` (431)";
        HeaderCount, "header_count", Client, "more fields than `limits.header_count` (431)";
        Body, "body", Client, "larger than `limits.body` (413)";
        Trailers, "trailers", Client, "trailers larger than `limits.headers`";
        Connections, "connections", Ours, "more connections than `limits.connections` (503)";
        Descriptors, "descriptors", Ours,
            "more client connections than file descriptors allow, or none left at all";
        Rate, "rate", Client, "refused by a rate limit (429)";
        Pipeline, "pipeline", Client, "more pipelined bytes than are buffered";
        SlowUpstream, "slow_upstream", Upstream, "an upstream's time-out ran out (504)";
        UpstreamHeaders, "upstream_headers", Upstream, "an upstream's head was too large (502)";
        UpstreamConnections, "upstream_connections", Upstream, "no connection to spare (503)";
    }
}

#[cfg(test)]
mod tests {
    use super::{CloseReason, LimitHit};
    use std::collections::HashSet;

    fn well_formed(slugs: &[&str], texts: &[&str]) {
        let unique: HashSet<_> = slugs.iter().collect();
        assert_eq!(unique.len(), slugs.len(), "a slug stands twice");
        for slug in slugs {
            assert!(slug.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{slug}");
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
