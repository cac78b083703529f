//! Options of listeners, limits per client, and static files.

use std::path::PathBuf;

use settings::{Address, Cidr, Duration, Host, Size};

use super::values::{self, ListenAddress};
use crate::failure::Failure;

/// The default address of uvicorn, gunicorn and granian.
const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 8000;

/// Variables with defaults, as in gunicorn and uvicorn.
const PORT_VARIABLE: &str = "PORT";
const PEERS_VARIABLE: &str = "FORWARDED_ALLOW_IPS";

#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Clients of Python applications")]
pub(super) struct ListenerOptions {
    /// The address to listen on: 127.0.0.1:8000, :8000 for all addresses, unix:/path or fd://N; may
    /// be repeated [default: 127.0.0.1:8000]
    #[arg(short = 'b', long, value_name = "ADDRESS", value_parser = values::listen_address)]
    pub(super) bind: Vec<ListenAddress>,

    /// Listen on this address; with --port
    #[arg(long, value_name = "HOST", conflicts_with = "bind")]
    host: Option<String>,

    /// Listen on this port; 0 chooses a free one
    #[arg(long, value_name = "PORT", conflicts_with = "bind")]
    port: Option<u16>,

    /// Listen on this Unix socket
    #[arg(long, value_name = "PATH", conflicts_with_all = ["bind", "host", "port"])]
    uds: Option<PathBuf>,

    /// Permissions of the files of Unix sockets, an octal number such as 660
    /// [default: 777 without --umask]
    #[arg(long, value_name = "MODE", value_parser = values::mode)]
    pub(super) uds_permissions: Option<u32>,

    /// Listen on the inherited socket with this descriptor
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["bind", "host", "port", "uds"],
        value_parser = values::descriptor
    )]
    fd: Option<i32>,

    /// Connections that the kernel holds until they are accepted [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(super) backlog: Option<u32>,

    /// Requests in the application at a time, in each worker; more get 503 with Retry-After
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) limit_concurrency: Option<u32>,

    /// Longest request body; longer ones get 413 [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(super) limit_body: Option<Size>,

    /// Longest request line; longer ones get 414 [default: 8KiB]
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(super) limit_request_line: Option<Size>,

    /// Most header lines of a request; more get 431 [default: 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=256))]
    pub(super) limit_request_fields: Option<u32>,

    /// All header lines of a request together; more get 431 [default: 32KiB]
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(super) limit_headers: Option<Size>,

    /// Longest pause in the body of a request; then the client gets 408 [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = values::some_seconds)]
    pub(super) body_timeout: Option<Duration>,

    /// Longest pause between two requests of a connection [default: 75s]
    #[arg(
        long,
        value_name = "TIME",
        aliases = ["timeout-keep-alive", "keepalive"],
        value_parser = values::some_seconds
    )]
    pub(super) keep_alive: Option<Duration>,

    /// Trust Forwarded and X-Forwarded-* of the peers in --forwarded-allow-ips: on by default
    #[arg(long, overrides_with = "no_proxy_headers")]
    proxy_headers: bool,

    /// Trust no peer
    #[arg(long)]
    no_proxy_headers: bool,

    /// Trusted peers: addresses and ranges with commas between them, or * for all
    /// [default: 127.0.0.1,::1]
    #[arg(long, value_name = "PEERS", value_parser = values::peers)]
    forwarded_allow_ips: Option<Peers>,

    /// Connections begin with a PROXY header that names the client
    #[arg(
        long,
        value_name = "auto|v1|v2|off",
        value_parser = ["auto", "v1", "v2", "off"],
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "auto"
    )]
    proxy_protocol: Option<String>,

    /// Proxies that send a PROXY header: addresses and ranges with commas between them, or * for
    /// all [default: 127.0.0.1,::1]
    #[arg(long, value_name = "PEERS", value_parser = values::peers, requires = "proxy_protocol")]
    proxy_allow_from: Option<Peers>,

    /// Add a field to every response, such as x-frame-options:DENY; may be repeated
    #[arg(long, value_name = "NAME:VALUE", value_parser = values::field)]
    pub(super) header: Vec<(String, String)>,

    /// Serve the files of a directory below a path, without Python: /static=./public; may be
    /// repeated
    #[arg(long = "static", value_name = "PREFIX=DIR", value_parser = values::mount)]
    pub(super) mounts: Vec<(String, PathBuf)>,

    /// From a request's last byte to the headers of its response; then the client gets 504
    /// [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = values::some_seconds)]
    pub(super) response_timeout: Option<Duration>,

    /// Longest pause in the body of a response; then it is cut off [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = values::some_seconds)]
    pub(super) pause_timeout: Option<Duration>,

    /// Longest message of a WebSocket; a longer one closes it with 1009 [default: 16MiB]
    #[arg(
        long,
        value_name = "SIZE",
        alias = "websocket-max-message-size",
        value_parser = values::size
    )]
    pub(super) ws_max_size: Option<Size>,

    /// Messages of a WebSocket that may wait, each way [default: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) ws_max_queue: Option<u32>,

    /// Ping a client of a WebSocket after this much silence; 0 is never [default: 20s]
    #[arg(long, value_name = "TIME", value_parser = values::seconds)]
    pub(super) ws_ping_interval: Option<Duration>,

    /// Close a WebSocket whose client stays silent for this long after a ping [default: 20s]
    #[arg(long, value_name = "TIME", value_parser = values::some_seconds)]
    pub(super) ws_ping_timeout: Option<Duration>,

    /// Compress messages of WebSockets for clients that offer it [default: true]
    #[arg(long, value_name = "true|false")]
    pub(super) ws_per_message_deflate: Option<bool>,
}

/// One value, not several: clap takes a bare `Vec` for an option that is repeated.
type Peers = Vec<Cidr>;

impl ListenerOptions {
    /// Returns the addresses to listen on, at least one.
    pub(super) fn addresses(&self) -> Result<Vec<ListenAddress>, Failure> {
        if !self.bind.is_empty() {
            return Ok(self.bind.clone());
        }
        if let Some(number) = self.fd {
            return Ok(vec![ListenAddress::Descriptor(number)]);
        }
        if let Some(path) = &self.uds {
            return Ok(vec![ListenAddress::Address(Address::Unix(path.clone()))]);
        }
        // Platforms that set it send their requests to an address of the network.
        let (default_host, default_port) = match platform_port()? {
            Some(port) => ("0.0.0.0", port),
            None => (DEFAULT_HOST, DEFAULT_PORT),
        };
        let host = self.host.as_deref().unwrap_or(default_host);
        let port = self.port.unwrap_or(default_port);
        let host = match host.contains(':') && !host.starts_with('[') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        match crate::commands::address(&format!("{host}:{port}")) {
            Ok(address @ Address::Tcp { host: Host::Ip(_) | Host::Name(_), .. }) => {
                Ok(vec![ListenAddress::Address(address)])
            }
            Ok(_) | Err(_) => Err(Failure::Wrong(format!(
                "\"{host}\" is not an address to listen on: write one such as 127.0.0.1, \
                 0.0.0.0 or ::"
            ))),
        }
    }

    /// Returns the trusted peers.
    pub(super) fn trusted_peers(&self) -> Result<Vec<Cidr>, Failure> {
        if self.no_proxy_headers && !self.proxy_headers {
            return Ok(Vec::new());
        }
        if let Some(peers) = &self.forwarded_allow_ips {
            return Ok(peers.clone());
        }
        match std::env::var(PEERS_VARIABLE) {
            Ok(typed) if !typed.is_empty() => values::peers(&typed)
                .map_err(|why| Failure::Wrong(format!("in {PEERS_VARIABLE}: {why}"))),
            _ => Ok(local_peers()),
        }
    }

    /// Returns the peers whose connections begin with a PROXY header, if any do.
    pub(super) fn proxies(&self) -> Option<Vec<Cidr>> {
        self.proxy_protocol.as_deref().filter(|mode| *mode != "off")?;
        Some(self.proxy_allow_from.clone().unwrap_or_else(local_peers))
    }
}

fn local_peers() -> Vec<Cidr> {
    ["127.0.0.1", "::1"].iter().filter_map(|peer| peer.parse().ok()).collect()
}

/// Returns the port of `PORT`, the default of gunicorn, which platforms for applications set.
fn platform_port() -> Result<Option<u16>, Failure> {
    match std::env::var(PORT_VARIABLE) {
        Ok(typed) if !typed.is_empty() => typed.parse().map(Some).map_err(|_| {
            Failure::Wrong(format!("{PORT_VARIABLE} is \"{typed}\", which is not a port"))
        }),
        _ => Ok(None),
    }
}
