//! The serving loop of HTTP/1.1: from a client's connection to responses on it.

mod active;
mod body;
mod build_request;
mod connection;
mod connection_io;
mod drain_body;
mod exchange;
mod head;
mod next_step;
mod read;
mod remainder;
mod respond;
mod tunnel;

pub use connection::{refuse, serve};
pub(crate) use connection_io::ConnectionIo;
