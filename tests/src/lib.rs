//! What a scenario holds in its hands: a running server, a raw client, a scripted upstream.
//!
//! Owns the outside view. A scenario knows the binary, its configuration file, its sockets, its
//! log lines, its signals and its counters, and imports nothing of ours except the protocol HTTP/2,
//! so that a test cannot share an error with the code it tests.
//!
//! Promises: every wait ends, by the event or by a panic that says what was seen instead
//! ([`PATIENCE`]); everything started is gone when its value is dropped; nothing binds a fixed
//! port or writes outside a temporary directory.
//!
//! ```no_run
//! use scenarios::{Tidegate, Upstream};
//!
//! let upstream = Upstream::start(|peer| {
//!     peer.read_head();
//!     peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
//! });
//! let server = Tidegate::start(&format!(
//!     "listeners: {{ web: {{ bind: '127.0.0.1:0' }} }}
//! upstreams: {{ u: {{ servers: ['{}'] }} }}
//! routes: [{{ match: {{ path: '/{{*rest}}' }}, handler: {{ upstream: u }} }}]",
//!     upstream.address()
//! ));
//! let mut client = server.connect("web");
//! client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
//! assert_eq!(client.read_response().body, b"hi");
//! ```
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

mod authority;
mod binary;
mod connection;
mod country_file;
mod free_port;
mod gate;
mod http2_peer;
mod idle;
mod metrics;
mod process;
mod response;
mod server;
mod stuck;
mod tcp_proxy;
mod tls_upstream;
mod upstream;
mod wait;
mod websocket_client;

pub use authority::{Authority, Issued};
pub use binary::tidegate_binary;
pub use connection::Connection;
pub use country_file::country_file;
pub use free_port::free_port;
pub use gate::{Gate, Opener, gate};
pub use http2_peer::{Http2Peer, Http2Request, frame};
pub use idle::current_thread;
pub use metrics::Metrics;
pub use process::{Exit, Process, command_exists};
pub use response::HttpResponse;
pub use server::{Launch, Tidegate, temporary_directory};
pub use tcp_proxy::TcpProxy;
pub use tls_upstream::TlsUpstream;
pub use upstream::Upstream;
pub use wait::{BETWEEN_REQUESTS, PATIENCE, eventually, eventually_some};
pub use websocket_client::WebSocketClient;
