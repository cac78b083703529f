//! Exchanges over HTTP/2: many on one connection, each on a stream of its own.
//!
//! Owns the connection that a task drives (`connection`), and what one exchange does on it.
//! Promises: dropping an exchange resets its stream and nothing else; data that the client has not
//! taken is bounded by the stream's window, and holds up no other stream; a stream that the server
//! has not processed is reported as unsent, so that its request may be sent again.

mod body;
mod connection;
mod exchange;
mod http1_demand;
mod request;
mod response;
mod shared;
mod stream;
mod tunnel;

pub(super) use connection::{ConnectionCount, Http2Connection};
pub(super) use exchange::Http2Exchange;
pub(super) use response::poll_response;
pub(super) use shared::SharedConnections;
