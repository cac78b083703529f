//! WebSocket sessions over real sockets, answered by threads.

// Clippy exempts test functions, but not their helpers.
#![allow(clippy::unwrap_used)]

mod cases;
mod client;
mod compression;
mod ends;
mod handshake;
mod pressure;
mod server;
