//! Sessions of WebSocket over real sockets, answered by threads of their own.

// Clippy knows test functions as such, and not their helpers.
#![allow(clippy::unwrap_used)]

mod cases;
mod client;
mod compression;
mod ends;
mod handshake;
mod pressure;
mod server;
