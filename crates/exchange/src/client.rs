//! The client side of HTTP/1.1: one connection to a server, and the pools that keep it.
//!
//! Owns how a request is written to a server, how the answer is read, and when a connection may be
//! used again. Promises: what leaves is framed by us, whatever came in; a connection about which
//! there is any doubt is closed, not reused; dropping the future or the body of an answer closes
//! the connection, so a client that goes away cancels its request; a kept-alive exchange with a
//! small answer costs one send, one receive and no clock call. Never decides which server to ask,
//! and never tries again: it says in the [`Fault`](crate::Fault) whether that would be safe.

mod answer;
mod body;
mod connection;
mod faults;
mod head;
mod idle_sweeper;
mod limits;
mod parking;
mod pool;
mod sender;
mod slow;
mod tunnel;

#[cfg(test)]
mod tests;

pub use answer::exchange;
pub use connection::Destination;
pub use head::{Call, ClientOptions, HostField};
pub use pool::{Lease, Pool, PoolLimits, PoolState, close_idle};
