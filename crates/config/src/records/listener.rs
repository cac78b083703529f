//! `listeners.NAME`: where clients come in.

use settings::{Address, Duration, Spanned};

use super::bounds::{ListenerLimits, ListenerTimeouts};

settings::record! {
    /// Where clients come in. Every worker listens on it.
    pub struct ListenerSettings {
        /// The address: `127.0.0.1:8080`, `[::1]:8080`, `:8080` for all addresses, or
        /// `unix:/run/tidegate.sock`.
        pub bind: Spanned<Address> { example "127.0.0.1:8080", example "unix:/run/tidegate.sock" },
        /// A client whose connection ends after a whole request still gets its answer, instead of
        /// counting as gone.
        pub half_close: bool = false,
        /// What `%2F` in a path is. Many applications take it for a slash, which routes do not:
        /// kept, it can lead around a route that protects a prefix.
        pub encoded_slashes: EncodedSlashes = "refuse",
        /// Response to a request that no route takes and whose host no route of this listener
        /// names. A route without `host` takes requests for every host.
        pub unknown_host: UnknownHost = "not_found",
        /// Connections the kernel may hold before they are accepted.
        pub backlog: u32 = 4096 { in 1..=65535 },
        /// Send small packets at once (TCP_NODELAY).
        pub nodelay: bool = true,
        /// Idle time before the kernel probes whether the client is still there; never without it.
        pub keepalive: Option<Duration> = null { in "1s"..="9h", example "60s" },
        /// What it limits otherwise than the server's `limits`.
        pub limits: ListenerLimits = {},
        /// How long it waits otherwise than the server's `timeouts`.
        pub timeouts: ListenerTimeouts = {},
    }
    later: tls, proxy_protocol;
}

settings::choice! {
    /// What to do with `%2F` in a path.
    pub enum EncodedSlashes {
        /// Part of a name, as RFC 3986 has it: routes see `%2F`, and an upstream is sent it.
        Keep = "keep",
        /// A slash, as if it had been written so: for routes, files and upstreams alike.
        Decode = "decode",
        /// Answered with 400.
        Refuse = "refuse",
    }
}

impl Copy for EncodedSlashes {}

settings::choice! {
    /// What a listener does with a request for a host that no route names.
    pub enum UnknownHost {
        /// Responds with 404, as where only the path is unknown.
        NotFound = "not_found",
        /// Responds with 421 (Misdirected Request).
        Misdirected = "misdirected",
        /// Closes the connection without a response.
        Close = "close",
    }
}

impl Copy for UnknownHost {}

#[cfg(test)]
mod tests {
    use settings::{node, read, verify};

    use super::ListenerSettings;

    #[test]
    fn the_declaration_holds() {
        verify::<ListenerSettings>().unwrap();
    }

    #[test]
    fn what_comes_later_is_refused() {
        let out = read::<ListenerSettings>(&node!({ "bind": ":80", "tls": {} })).unwrap_err();
        assert!(out.contains("`tls` comes later"), "{out}");
    }
}
