//! The server side of HTTP: from an accepted connection to responses on it.
//!
//! Owns the serving loop, its limits and time-outs, and the access log. [`serve`] runs one
//! connection; what its listener shares with others is a [`Service`], and what the current plan
//! says is a [`ListenerSnapshot`]. `h1` is HTTP/1.1; HTTP/2 will be its sibling `h2`, and what both
//! use is here: the snapshot, the patience with slow clients, and the logs.

mod access_log;
mod allowance;
mod fault_log;
mod h1;
mod listener_snapshot;
mod proxy_protocol;
mod secure;
mod trusted_proxies;

pub use access_log::{AccessFormat, AccessLog, StreamEntry};
pub use h1::{refuse, serve};
pub use listener_snapshot::{ConnectionTimeouts, ListenerSnapshot, Service, close_longest_idle};
pub use proxy_protocol::ProxyProtocol;
pub use secure::ListenerTls;
pub use trusted_proxies::TrustedProxies;
