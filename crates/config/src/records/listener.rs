//! `listeners.NAME`: where clients come in.

use settings::{Address, Duration, Setting, Spanned};
use tls_settings::ListenerTlsSettings;

use super::ProxyProtocolSettings;
use super::bounds::{ListenerLimits, ListenerTimeouts};

/// A socket that accepts clients. Every worker listens on it.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct ListenerSettings {
    /// The address: `127.0.0.1:8080`, `[::1]:8080`, `:8080` for all addresses, or
    /// `unix:/run/tidegate.sock`.
    #[setting(example = "127.0.0.1:8080", example = "unix:/run/tidegate.sock")]
    pub bind: Spanned<Address>,
    /// TLS: the listener serves https.
    pub tls: Option<Spanned<ListenerTlsSettings>>,
    /// Proxies that connect for clients and name them in a PROXY header.
    pub proxy_protocol: Option<ProxyProtocolSettings>,
    /// Versions of HTTP that are served. Under TLS the first one that the client offers by ALPN;
    /// in the clear HTTP/2 is for clients that begin with its preface (prior knowledge).
    #[setting(default = ["h2", "http/1.1"])]
    pub protocols: Spanned<Vec<HttpVersion>>,
    /// Sends the response to a client that closed its sending side after a complete request. If
    /// false, such a client counts as disconnected.
    #[setting(default = false)]
    pub half_close: bool,
    /// How `%2F` in a path is treated. Many applications read it as a slash and routes do not: with
    /// `keep`, a request can bypass a route that protects a prefix.
    #[setting(default = "refuse")]
    pub encoded_slashes: EncodedSlashes,
    /// Response to a request that no route matches and whose host no route of this listener names.
    /// A route without `host` matches requests for every host.
    #[setting(default = "not_found")]
    pub unknown_host: UnknownHost,
    /// Connections the kernel may hold before they are accepted.
    #[setting(default = 4096, range = 1..=65535)]
    pub backlog: u32,
    /// Sends small packets at once (TCP_NODELAY).
    #[setting(default = true)]
    pub nodelay: bool,
    /// Idle time before the kernel probes whether the client still responds; unless set, it does
    /// not.
    #[setting(range = "1s"..="9h", example = "60s")]
    pub keepalive: Option<Duration>,
    /// Overrides of the server-wide `limits` for this listener.
    #[setting(default = {})]
    pub limits: ListenerLimits,
    /// Overrides of the server-wide `timeouts` for this listener.
    #[setting(default = {})]
    pub timeouts: ListenerTimeouts,
}

/// A version of HTTP, by its name in ALPN.
#[derive(Clone, Copy, Debug, PartialEq, Setting)]
pub enum HttpVersion {
    /// HTTP/2.
    #[setting(word = "h2")]
    Http2,
    /// HTTP/1.1 and HTTP/1.0.
    #[setting(word = "http/1.1")]
    Http1,
}

impl HttpVersion {
    /// All versions, the preferred one first.
    pub const ALL: [HttpVersion; 2] = [HttpVersion::Http2, HttpVersion::Http1];

    /// The name in ALPN.
    pub fn alpn(self) -> &'static [u8] {
        match self {
            HttpVersion::Http2 => b"h2",
            HttpVersion::Http1 => b"http/1.1",
        }
    }
}

/// What to do with `%2F` in a path.
#[derive(Clone, Copy, Debug, PartialEq, Setting)]
pub enum EncodedSlashes {
    /// A part of the segment, as RFC 3986 defines it: routes see `%2F`, and upstreams receive it.
    Keep,
    /// A slash, for routes, files and upstreams.
    Decode,
    /// The request is rejected with 400.
    Refuse,
}

/// What a listener does with a request for a host that no route names.
#[derive(Clone, Copy, Debug, PartialEq, Setting)]
pub enum UnknownHost {
    /// Responds with 404, as for an unknown path.
    NotFound,
    /// Responds with 421 (Misdirected Request).
    Misdirected,
    /// Closes the connection without a response.
    Close,
}

#[cfg(test)]
mod tests {
    use settings::verify;

    use super::ListenerSettings;

    #[test]
    fn the_declaration_holds() {
        verify::<ListenerSettings>().unwrap();
    }
}
