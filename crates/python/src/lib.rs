//! The Python runtime of a worker process: runs ASGI and WSGI applications on Python's threads.
//!
//! Owns everything that touches an interpreter. Requests come from a queue
//! ([`offload::RequestQueue`]) and responses return through it; the thread that reads
//! sockets never takes the GIL, and no Python thread ever reads a client's socket. Contains no
//! configuration and starts no process.
#![allow(unsafe_code, reason = "Python's C API on the request path")]

pub mod app_status;
pub mod asgi;
mod bytes;
mod clients;
mod field_names;
mod fields;
mod gil;
mod path;
mod stack;
pub mod store_client;
pub mod wsgi;

pub use gil::GilCell as Guarded;
