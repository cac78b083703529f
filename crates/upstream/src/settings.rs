//! The settings under `upstreams`.

use std::collections::HashSet;

use settings::{Duration, Key, Node, Percent, Reader, Setting, Size, Spanned};
use tls_settings::UpstreamTlsSettings;
use wire::proxy_protocol::Version;

use crate::discover_settings::DiscoverSettings;
use crate::grpc::GrpcStatus;
use crate::server_address::{ServerAddress, ServerProtocol};
use crate::status_range::StatusRange;

/// A group of servers that are interchangeable for a request.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_upstream)]
pub struct UpstreamSettings {
    /// The servers: addresses such as `127.0.0.1:9001`, `app.internal:80`, `https://app.internal`
    /// or `unix:/run/app.sock`, or maps with `address` and more. Required without `discover`.
    #[setting(default = [])]
    #[setting(example = ["127.0.0.1:9001", { "address": "127.0.0.1:9002", "weight": 2 }])]
    pub servers: Vec<ServerSettings>,
    /// TLS to the servers whose addresses begin with `https://`. Unless set, their certificates are
    /// verified against the authorities of the system.
    #[setting(example = { "ca": "internal.pem" })]
    pub tls: Option<Spanned<UpstreamTlsSettings>>,
    /// The versions of HTTP that are offered to servers with `https://`; with `h2`, many requests
    /// share a connection. Servers with `h2c://` are sent HTTP/2 in the clear, others HTTP/1.1.
    #[setting(default = ["http/1.1"], example = ["h2", "http/1.1"])]
    pub protocols: Vec<HttpProtocol>,
    /// A source of further servers.
    #[setting(example = { "dns": "_api._tcp.example.com" })]
    pub discover: Option<DiscoverSettings>,
    /// How the server for a request is chosen.
    #[setting(default = "p2c", example = "round_robin", example = { "hash": "client_ip" })]
    pub balance: Balance,
    /// Active health checks. Unless set, only failures of requests are noticed.
    #[setting(example = { "path": "/healthz" })]
    pub health: Option<HealthSettings>,
    /// Time-outs of the upstream.
    #[setting(default = {})]
    pub timeouts: TimeoutSettings,
    /// Retries on another server, where that is safe: nothing was sent, or the method is
    /// idempotent.
    #[setting(default = {})]
    pub retries: RetrySettings,
    /// Connections kept open between requests.
    #[setting(default = {})]
    pub keepalive: KeepaliveSettings,
    /// Ejects a server for a while when requests to it keep failing.
    #[setting(default = {})]
    pub ejection: EjectionSettings,
    /// A returning server, and one that `discover` adds to others, reaches its full share only
    /// after this time.
    #[setting(default = "0s", range = "0s"..="1h", example = "30s")]
    pub slow_start: Duration,
    /// If a smaller share of servers is in rotation, all are used, healthy or not: some failing
    /// requests are better than a few overloaded servers. `0%` disables it.
    #[setting(default = "0%", example = "50%")]
    pub panic_threshold: Percent,
    /// Begins every connection with a PROXY header that names the client. It is closed after its
    /// request, because it belongs to one client; a health check names none.
    #[setting(example = "v2")]
    pub send_proxy_protocol: Option<ProxyVersion>,
    /// The Host header sent to the server.
    #[setting(default = "preserve", example = "server", example = { "fixed": "app.internal" })]
    pub host: HostSettings,
    /// Sends `Forwarded` (RFC 7239) in addition to X-Forwarded-For, -Proto and -Host.
    #[setting(default = false)]
    pub forwarded: bool,
    /// Largest response head.
    #[setting(default = "64KiB", range = "1KiB"..="1MiB")]
    pub headers: Size,
    /// Most headers in a response.
    #[setting(default = 200, range = 8..=256)]
    pub header_count: u32,
}

/// One server of an upstream.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = address)]
pub struct ServerSettings {
    /// Its address; with `https://`, connections to the server use TLS, on port 443 unless the
    /// address has another. Names are resolved, and resolved again when their TTL ends; every
    /// address counts as a server. Of a name with IPv4 and IPv6 addresses one family is used: IPv4,
    /// unless only IPv6 accepts connections.
    #[setting(example = "127.0.0.1:9001", example = "unix:/run/app.sock")]
    pub address: ServerAddress,
    /// Its share of the requests, compared to the other servers.
    #[setting(default = 1, range = 1..=1000)]
    pub weight: u32,
    /// Used only when no other server is.
    #[setting(default = false)]
    pub backup: bool,
    /// Requests in flight to this server; further ones go to other servers, or wait for up to
    /// `timeouts.queue`.
    #[setting(range = 1..=1000000, example = 200)]
    pub max_connections: Option<u32>,
    /// Connections to it that may wait for slow clients at the same time: for more of a request
    /// body, or for the client to read the response. Beyond it the slowest client is disconnected:
    /// 408, or a reset within a response. Unless set, half of `max_connections`; without that,
    /// unlimited.
    #[setting(range = 1..=1000000, example = 50)]
    pub max_slow_clients: Option<u32>,
}

/// A version of HTTP, by its name in ALPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setting)]
pub enum HttpProtocol {
    /// HTTP/2.
    H2,
    /// HTTP/1.1.
    #[setting(word = "http/1.1")]
    Http1,
}

impl HttpProtocol {
    pub(crate) fn alpn(self) -> &'static [u8] {
        match self {
            HttpProtocol::H2 => b"h2",
            HttpProtocol::Http1 => b"http/1.1",
        }
    }
}

/// How the server for a request is chosen.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum Balance {
    /// The better of two random servers: fewer requests in flight, faster recent responses.
    P2c,
    /// One after the other, by weight.
    RoundRobin,
    /// The server with the fewest requests in flight, over all workers.
    LeastRequests,
    /// A random one, by weight.
    Random,
    /// The same server for the same key; as few keys as possible move when servers come and go.
    Hash(Key),
}

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Setting)]
pub enum ProxyVersion {
    /// Version 1, a line of text.
    V1,
    /// Version 2, binary.
    V2,
}

impl From<ProxyVersion> for Version {
    fn from(version: ProxyVersion) -> Version {
        match version {
            ProxyVersion::V1 => Version::V1,
            ProxyVersion::V2 => Version::V2,
        }
    }
}

/// The Host header sent to the server.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum HostSettings {
    /// The client's.
    Preserve,
    /// The server's address as written under `servers`.
    Server,
    /// This value.
    Fixed(String),
}

/// Active health checks.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct HealthSettings {
    /// The path of the GET request; unless set, a check only connects.
    #[setting(example = "/healthz")]
    pub path: Option<String>,
    /// The gRPC service whose health is requested with `grpc.health.v1`, over HTTP/2; `""` requests
    /// that of the whole server.
    #[setting(example = "shop.v1.Orders")]
    pub grpc: Option<String>,
    /// Interval of the checks.
    #[setting(default = "5s", range = "100ms"..="1h")]
    pub interval: Duration,
    /// Time-out of a check.
    #[setting(default = "1s", range = "10ms"..="1m")]
    pub timeout: Duration,
    /// Successful checks in a row that return a server to rotation.
    #[setting(default = 2, range = 1..=100)]
    pub healthy_after: u32,
    /// Failed checks in a row that take it out of rotation.
    #[setting(default = 3, range = 1..=100)]
    pub unhealthy_after: u32,
    /// The statuses of a successful check.
    #[setting(default = "200-399", example = "204")]
    pub status: StatusRange,
    /// The Host header of a check; the server's address unless set.
    pub host: Option<String>,
}

/// Time-outs of an upstream.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct TimeoutSettings {
    /// For establishing a connection. A lost packet of the handshake is sent again after one second
    /// (RFC 6298 2): a shorter time-out gives up on a server that was only busy for a moment.
    #[setting(default = "3s", range = "1ms"..="5m")]
    pub connect: Duration,
    /// Longest time a request waits, in order of arrival, while every server is at its
    /// `max_connections`; then the client gets 503. At most 1024 requests of a worker wait. 0s
    /// does not wait.
    #[setting(default = "3s", range = "0s"..="5m")]
    pub queue: Duration,
    /// From the last byte of the request to the response head.
    #[setting(default = "30s", range = "1ms"..="1d")]
    pub response: Duration,
    /// Longest pause within a response.
    #[setting(default = "30s", range = "1ms"..="1d")]
    pub read: Duration,
    /// Longest pause while the server reads a request.
    #[setting(default = "30s", range = "1ms"..="1d")]
    pub write: Duration,
    /// How long a connection may be unused, and a tunnel without data.
    #[setting(default = "60s", range = "1ms"..="1d")]
    pub idle: Duration,
}

/// Retries.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct RetrySettings {
    /// Total attempts; 1 disables retries.
    #[setting(default = 2, range = 1..=10)]
    pub attempts: u32,
    /// The most retries, as a share of the requests; a few are always allowed.
    #[setting(default = "20%")]
    pub budget: Percent,
    /// Statuses that are retried as well, if the method is idempotent.
    #[setting(default = [], example = [502, 503])]
    pub statuses: Vec<u16>,
    /// Statuses of gRPC calls that are retried as well, if the server has sent nothing else. List
    /// only those after which every method of the services may be called again.
    #[setting(default = [], example = ["unavailable"])]
    pub grpc: Vec<GrpcStatus>,
}

/// Connections that stay open between requests.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct KeepaliveSettings {
    /// Unused connections per server, over all workers; 0 closes all of them.
    #[setting(default = 1024, range = 0..=1000000)]
    pub max_idle: u32,
    /// A connection is not reused after this time.
    #[setting(default = "1h", range = "1s"..="7d")]
    pub max_age: Duration,
    /// A connection is not reused after this many requests.
    #[setting(default = 100000, range = 1..=1000000000)]
    pub max_requests: u32,
}

/// Ejection of failing servers.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct EjectionSettings {
    /// Failures in a row that eject a server: no connection, no response, or one of `statuses`; 0
    /// disables it.
    #[setting(default = 5, range = 0..=10000)]
    pub failures: u32,
    /// Duration of an ejection; doubled each time, up to ten times. Then one request tries the
    /// server.
    #[setting(default = "10s", range = "10ms"..="1h")]
    pub ejected_for: Duration,
    /// The share of servers that may be ejected at the same time.
    #[setting(default = "50%")]
    pub max_ejected: Percent,
    /// Statuses that count as failures. A gRPC status without a message counts as its HTTP
    /// equivalent: `unavailable` is 503, `deadline_exceeded` 504.
    #[setting(default = [502, 503, 504])]
    pub statuses: Vec<u16>,
}

impl ServerSettings {
    /// Connections that may wait for slow clients.
    pub(crate) fn slow_clients(&self) -> Option<u32> {
        self.max_slow_clients.or(self.max_connections.map(|most| (most / 2).max(1)))
    }
}

impl UpstreamSettings {
    /// True if a server has TLS.
    pub fn uses_tls(&self) -> bool {
        self.server_protocols().any(|protocol| protocol == ServerProtocol::Https)
    }

    /// The protocols of the servers, discovered ones included.
    fn server_protocols(&self) -> impl Iterator<Item = ServerProtocol> {
        let listed = self.servers.iter().map(|server| server.address.protocol);
        listed.chain(self.discover.as_ref().map(|discover| discover.protocol))
    }

    /// True if a connection to a server of this protocol may carry HTTP/2.
    fn offers_http2(&self, protocol: ServerProtocol) -> bool {
        match protocol {
            ServerProtocol::Http => false,
            ServerProtocol::Https => self.protocols.contains(&HttpProtocol::H2),
            ServerProtocol::H2c => true,
        }
    }

    /// True if so few of `total` servers are healthy that all are used.
    pub(crate) fn is_panic(&self, healthy: usize, total: usize) -> bool {
        (healthy as f64) < self.panic_threshold.fraction() * total as f64
    }
}

fn check_upstream(upstream: &UpstreamSettings, node: &Node, reader: &mut Reader<'_>) {
    let place = node.get("servers").unwrap_or(node);
    if upstream.servers.is_empty() && upstream.discover.is_none() {
        let help = "write servers: [HOST:PORT], or a source of servers under `discover`";
        reader.error(place.span, "an upstream needs a server").help(help);
        return;
    }
    check_discovered_tls(upstream, node, reader);
    if upstream.protocols.is_empty() {
        let span = node.get("protocols").unwrap_or(node).span;
        reader.error(span, "no version of HTTP").help("write protocols: [h2, http/1.1]");
    }
    if upstream.discover.is_none() && upstream.servers.iter().all(|server| server.backup) {
        reader.error(place.span, "all servers are backups: one has to be a first choice");
    }
    let written = place.list().unwrap_or_default();
    let mut known = HashSet::new();
    for (at, server) in upstream.servers.iter().enumerate() {
        let span = written.get(at).map_or(place.span, |node| node.span);
        if !known.insert(&server.address.address) {
            let message = format!("the server {} is listed twice", server.address);
            reader.error(span, message);
        }
        if !server.address.is_connectable() {
            let message = format!("{} is not an address to connect to", server.address);
            reader.error(span, message).help("name a host and a port");
        }
    }
    if let (Some(tls), false) = (node.get("tls"), upstream.uses_tls()) {
        reader
            .error(tls.span, "no server of this upstream has TLS")
            .help("write the addresses of its servers as https://HOST");
    }
    check_health(upstream, node, reader);
    for (key, host) in [
        (
            "host",
            match &upstream.host {
                HostSettings::Fixed(host) => Some(host),
                HostSettings::Preserve | HostSettings::Server => None,
            },
        ),
        ("health", upstream.health.as_ref().and_then(|health| health.host.as_ref())),
    ] {
        if host.is_some_and(|host| !wire::token::is_field_value(host.as_bytes()) || host.is_empty())
        {
            let place = node.get(key).unwrap_or(node);
            reader.error(place.span, "this is not a valid Host header");
        }
    }
}

/// A source must not choose the identity of a server: any certificate is valid for some name.
fn check_discovered_tls(upstream: &UpstreamSettings, node: &Node, reader: &mut Reader<'_>) {
    let Some(discover) = &upstream.discover else { return };
    let has_name =
        |tls: &Spanned<UpstreamTlsSettings>| tls.server_name().is_some() || !tls.verifies();
    if discover.protocol == ServerProtocol::Https && !upstream.tls.as_ref().is_some_and(has_name) {
        let place = node.get("discover").unwrap_or(node);
        reader
            .error(place.span, "discovered servers with TLS need a name for their certificates")
            .help("write tls: { server_name: NAME }; the source would choose the name");
    }
}

fn check_health(upstream: &UpstreamSettings, node: &Node, reader: &mut Reader<'_>) {
    if let Some(health) = &upstream.health
        && health.path.as_ref().is_some_and(|path| !is_target(path))
    {
        let place = node.get("health").and_then(|health| health.get("path")).unwrap_or(node);
        reader.error(place.span, "the path of a health check begins with / and has no spaces");
    }
    if upstream.health.as_ref().is_some_and(|health| health.path.is_none()) {
        let written = |key| node.get("health").and_then(|health| health.get(key));
        let is_connection = written("grpc").is_none();
        for (key, is_useless) in [("status", true), ("host", is_connection)] {
            if let (Some(place), true) = (written(key), is_useless) {
                let by = if is_connection { "that only connects" } else { "by gRPC" };
                reader
                    .error(place.span, format!("a health check {by} has no `{key}`"))
                    .help(format!("leave out {key}, or write the path of a GET request"));
            }
        }
    }
    if let Some(place) = node.get("health").and_then(|health| health.get("grpc")) {
        if upstream.health.as_ref().is_some_and(|health| health.path.is_some()) {
            reader.error(place.span, "a health check has either grpc or path");
        }
        if !upstream.server_protocols().all(|protocol| upstream.offers_http2(protocol)) {
            reader
                .error(place.span, "a gRPC health check needs HTTP/2")
                .help("write the servers as h2c://HOST, or as https://HOST with `protocols: [h2]`");
        }
    }
}

fn is_target(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

#[cfg(test)]
mod tests {
    use settings::{node, read};

    use super::{Balance, UpstreamSettings};

    #[test]
    fn the_declaration_is_valid() {
        settings::verify::<UpstreamSettings>().unwrap();
    }

    #[test]
    fn every_setting_is_read() {
        let upstream: UpstreamSettings = read(&node!({
            "servers": [
                "127.0.0.1:9001",
                { "address": "https://b.example", "weight": 2 },
                { "address": "unix:/run/c.sock", "backup": true }
            ],
            "tls": { "server_name": "b.internal", "min_version": "1.3", "verify": false },
            "balance": { "hash": "client_ip" },
            "health": {
                "path": "/healthz", "interval": "5s", "timeout": "1s",
                "healthy_after": 2, "unhealthy_after": 3
            },
            "timeouts": { "connect": "1s", "response": "30s", "read": "30s", "idle": "60s" },
            "retries": { "attempts": 2, "budget": "20%" }
        }))
        .unwrap();
        let discovered: UpstreamSettings = read(&node!({
            "discover": { "file": "a", "protocol": "https" },
            "tls": { "server_name": "api.internal" }
        }))
        .unwrap();
        assert!(discovered.servers.is_empty() && discovered.uses_tls());
        assert_eq!(upstream.servers.len(), 3);
        assert!(upstream.servers[2].backup);
        assert!(matches!(upstream.balance, Balance::Hash(_)));
    }

    #[test]
    fn errors_are_found() {
        for (node, expected) in [
            (node!({ "servers": [] }), "an upstream needs a server"),
            (node!({ "servers": ["a:1", "a:1"] }), "the server a:1 is listed twice"),
            (node!({ "servers": [":80"] }), ":80 is not an address to connect to"),
            (
                node!({ "servers": [{ "address": "a:1", "backup": true }] }),
                "all servers are backups",
            ),
            (node!({ "servers": ["a:1"], "health": { "path": "healthz" } }), "begins with /"),
            (node!({ "servers": ["a:1"], "health": { "status": "204" } }), "has no `status`"),
            (node!({ "servers": ["a:1"], "health": { "host": "a" } }), "has no `host`"),
            (
                node!({ "servers": ["h2c://a:1"], "health": { "grpc": "", "status": "204" } }),
                "a health check by gRPC has no `status`",
            ),
            (node!({ "servers": ["a:1"], "health": { "interval": "0s" } }), "100ms"),
            (node!({ "servers": ["a:1"], "health": { "grpc": "" } }), "needs HTTP/2"),
            (node!({ "servers": ["https://a"], "health": { "grpc": "" } }), "needs HTTP/2"),
            (
                node!({ "servers": ["h2c://a:1"], "health": { "grpc": "a.B", "path": "/" } }),
                "either grpc or path",
            ),
            (node!({ "servers": ["a:1"], "host": { "fixed": "a\r\nb" } }), "not a valid Host"),
            (node!({}), "an upstream needs a server"),
            (node!({ "discover": {} }), "no source of servers"),
            (
                node!({ "discover": { "file": "a", "protocol": "https" }, "tls": { "ca": "x" } }),
                "need a name for their certificates",
            ),
            (node!({ "discover": { "file": "a" }, "health": { "grpc": "" } }), "needs HTTP/2"),
            (node!({ "servers": ["a:1"], "tls": {} }), "no server of this upstream has TLS"),
            (node!({ "servers": ["https://a"], "protocols": [] }), "no version of HTTP"),
            (node!({ "servers": ["a:443", "https://a"] }), "the server https://a is listed twice"),
            (
                node!({ "servers": ["https://a"], "tls": { "server_name": "a b" } }),
                "not a DNS name or an IP address",
            ),
            (
                node!({ "servers": ["https://a"], "tls": { "ca": "a.pem", "verify": false } }),
                "`ca` has no effect with `verify: false`",
            ),
            (node!({ "servers": ["a:1"], "retries": { "attempts": 0 } }), "between 1 and 10"),
        ] {
            let out = read::<UpstreamSettings>(&node).unwrap_err();
            assert!(out.contains(expected), "{out}\nwanted {expected}");
        }
    }
}
