//! The client side of HTTP: one connection to a server, and the pools that keep it.
//!
//! Owns how a request is written to a server, how the response is read, and when a connection may
//! be used again. Promises: this crate frames what is sent, whatever came in; a connection about
//! which there is any doubt is closed, not reused; dropping the future or the body of a response
//! closes the connection, so a client that goes away cancels its request; a kept-alive exchange
//! with a small response costs one send, one receive and no clock call. Never decides which server
//! to ask, and never tries again: it says in the [`Fault`](message::Fault) whether that would be
//! safe.
//!
//! `h1` is the exchange over HTTP/1.1, `h2` the one over HTTP/2. Pools, limits and the faults of
//! connections are common to both.

mod client;
mod connection;
mod faults;
mod h1;
mod h2;
mod held_connection;
mod idle_sweeper;
mod limits;
mod parking;
mod pool;
mod room;
mod send_request;
mod slow;
mod tunnel;
mod upgrade;
mod url;

#[cfg(test)]
mod tests;

pub use client::{Client, ClientConnection, ClientSettings};
pub use connection::{Destination, Endpoint, ProxyHeader, TlsIdentity};
pub use h1::{Call, ClientOptions, HostField, tunnel};
pub use pool::{Lease, Pool, PoolLimits, PoolPermit, PoolState, Reservation, close_idle};
pub use room::RoomSignal;
pub use send_request::send_request;
pub use upgrade::Upgrade;
pub use url::Url;
