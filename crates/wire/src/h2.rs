//! HTTP/2 (RFC 9113) as a state machine: one connection, of the server or of the client.
//!
//! Owns frames, HPACK (RFC 7541), the states of streams, flow control in both directions, settings,
//! priorities (RFC 9218), extended CONNECT (RFC 8441) and the budgets against floods. Bytes are put
//! in with [`Connection::receive`], events are taken with [`Connection::poll_event`], and what is
//! to be sent is taken with [`Connection::write`]. Never reads a socket or a clock. Bodies pass
//! without a copy, except short ones, which are sent in one piece with their head.
//!
//! A malformed message resets its stream; nothing of it reaches the application.
//! `docs/design/http2.md` shows the loop that drives a connection.

mod budget;
mod code;
mod connection;
mod frame;
mod head;
mod hpack;
mod priority;
mod schedule;
mod section;
mod settings;
mod stream;

pub use code::{ErrorCode, Violation};
pub use connection::{
    Connection, Event, Field, Output, Payload, RequestLine, StreamEnded, Unavailable,
};
pub use hpack::{Class, Decoder, Encoder, Name, TABLE_SIZE};
pub use priority::Priority;
pub use section::Fields;
pub use settings::{Config, FRAME_SIZE};
pub use stream::StreamKey;

/// What a client sends first (RFC 9113 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Whether the first bytes of a connection are the preface of HTTP/2; `None` if more are needed.
fn begins_with_preface(received: &[u8]) -> Option<bool> {
    let len = received.len().min(PREFACE.len());
    if received[..len] != PREFACE[..len] {
        return Some(false);
    }
    (len == PREFACE.len()).then_some(true)
}

#[cfg(test)]
mod tests;
