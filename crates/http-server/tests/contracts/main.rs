//! What filters, surrounds, handlers and duplexes are promised, over real sockets.

// Clippy knows test functions as such, and not their helpers.
#![allow(clippy::unwrap_used)]

mod client;
mod coalesce;
mod deferred;
mod duplex;
mod filters;
mod http2;
mod inform;
mod middleware;
mod next;
mod offload_handler;
#[path = "../../examples/served/mod.rs"]
mod served;
mod timeouts;
