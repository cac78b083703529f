//! The serving loop of HTTP/1.1: from a client's connection to responses on it.

mod active;
mod body;
mod connection;
mod connection_io;
mod drain_body;
mod exchange;
mod head;
mod next_step;
mod read;
mod respond;
mod tunnel;
mod unread_body;

pub(crate) use connection::serve;
pub(crate) use connection_io::ConnectionIo;
pub(crate) use head::{Framing, compose, date, framing};
