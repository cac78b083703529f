//! The application role of a process: ASGI and WSGI applications, answered on Python's threads.
//!
//! Owns everything that touches an interpreter. Exchanges come from a desk
//! ([`exchange::offload::RequestQueue`]) and their answers go back through them; the thread that
//! reads sockets never asks for the GIL, and no thread of Python ever reads a socket of a client.
//! Knows no configuration and no process.
#![allow(unsafe_code, reason = "Python's C API on the way of a request")]

pub mod asgi;
mod bytes;
mod fields;
mod gil;
pub mod life;
mod names;
mod path;
mod stack;
pub mod store;
pub mod wsgi;

pub use gil::GilCell as Guarded;
