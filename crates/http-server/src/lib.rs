//! The server side of HTTP: from an accepted connection to responses on it.
//!
//! Owns the serving loop, its limits and time-outs, the access log and the live log. [`serve`] runs
//! one connection; what its listener shares with others is a [`Service`], and what the current plan
//! says is a [`ListenerSnapshot`]. `h1` is HTTP/1.1 and `h2` is HTTP/2; what both use is
//! here: the exchange, the snapshot, the time-outs of slow clients, and the logs.

mod access_log;
mod allowance;
mod build_request;
mod connection;
mod counted_tunnel;
mod exchange;
mod fault_log;
mod h1;
mod h2;
mod listener_snapshot;
mod live_log;
mod proxy_protocol;
mod receiving;
mod secure;
mod sending;
mod tracer;
mod trusted_proxies;

pub use access_log::{AccessLog, JSON_MEMBERS, Masks, StatsdLines, StreamEntry, statsd_gauge};
pub use connection::{refuse, serve};
pub use listener_snapshot::{ConnectionTimeouts, ListenerSnapshot, Service, close_longest_idle};
pub use live_log::{LIVE_CLIENTS_MAX, LiveFilter, LiveLog, LiveQueue, LiveWatch};
pub use proxy_protocol::ProxyProtocol;
pub use secure::{ListenerTls, redirect as redirect_to_https};
pub use tracer::{Tracer, TracerSettings};
pub use trusted_proxies::TrustedProxies;
