//! The serving loop of HTTP/2: from a client's connection to responses on its streams.
//!
//! `wire::h2` is the protocol. A driver per connection moves bytes between it and the socket
//! (`driver`), and turns its events into exchanges (`events`). An exchange is polled once by the
//! driver, and becomes a task only if it has to wait; so the responses to all requests of one read
//! are sent in one write. An exchange reads its body from the queue of its stream (`body`) and
//! gives its response to the protocol (`respond`), which the driver sends.

mod body;
mod connection;
mod driver;
mod events;
mod exchange;
mod respond;
mod stream;
mod streams;
mod tunnel;
mod violation;

pub(crate) use driver::serve;

/// The name of HTTP/2 in ALPN (RFC 9113 3.2).
pub(crate) const ALPN: &str = "h2";
