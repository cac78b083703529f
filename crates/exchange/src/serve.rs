//! The serving loop of HTTP/1.1: from a client's connection to responses on it.

mod active;
mod allowance;
mod arrive;
mod body;
mod connection;
mod edge;
mod exchange;
mod head;
mod read;
mod respond;
mod settle;
mod tell;
mod tunnel;
mod wire;

pub use allowance::Patience;
pub use connection::{refuse, serve};
pub use edge::{ConnectionTimeouts, Edge, Service, TrustedProxies, close_longest_idle};
pub(crate) use respond::COPIED_BYTES_MAX;
