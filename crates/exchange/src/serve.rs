//! The serving loop of HTTP/1.1: from a client's connection to responses on it.

mod active;
mod allowance;
mod body;
mod build_request;
mod connection;
mod connection_io;
mod drain_body;
mod exchange;
mod fault_log;
mod head;
mod listener_snapshot;
mod read;
mod respond;
mod tunnel;

pub use connection::{refuse, serve};
pub use listener_snapshot::{
    ConnectionTimeouts, ListenerSnapshot, Service, TrustedProxies, close_longest_idle,
};
